"""Samples from whatever a user has: vectors as they are, pictures and texts through an extractor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openworld.data.sources import Source, as_source, relabelled, with_labels_only
from openworld.data.tables import DataError, Samples, read_samples
from openworld.features.cache import FeatureCache
from openworld.features.extraction import Failure, extract
from openworld.features.extractor import Extractor, ExtractorId, extractor_for, load_extractor, require_same

OnError = Literal["skip", "stop"]
_CALLED = {"image": "pictures", "text": "texts"}


@dataclass(frozen=True)
class Loaded:
    """Samples, and what there is to say about how they were got.

    Attributes
    ----------
    samples : Samples
    source : Source or None
        The pictures or texts; None where the file had vectors.
    failures : list of Failure
        What could not be read and was left out, each with `name` and `reason`.
    n_unlabelled : int
        How many were left out because they have no label, where labels are needed.
    seconds : dict
        Of the parts of the extraction.
    """

    samples: Samples
    source: Source | None = None
    failures: list[Failure] = field(default_factory=list)
    n_unlabelled: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def is_test(self) -> NDArray[np.bool_] | None:
        """Which samples are of the test part, where the source has one."""
        if self.source is None or self.source.is_test is None:
            return None
        return np.array([self.source.is_test(name) for name in self.samples.names or []])


def load_samples(
    data: Any,
    *,
    model: Any = None,
    extractor: str | Extractor | None = None,
    label: str | None = None,
    label_column: str | None = None,
    need_labels: bool = False,
    on_error: OnError = "skip",
    workers: int | None = None,
    cache: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Loaded:
    """Load samples; pictures and texts become features.

    Parameters
    ----------
    data : path, Source or Hugging Face data set
        See `openworld.data.sources.open_source` for pictures and texts and
        `openworld.data.tables.read_samples` for files of vectors.
    model : recognizer, optional
        The model the samples are for: its extractor is used, and data that do not fit it are refused.
    extractor : str or Extractor, optional
        By default the model's; without a model the one for pictures or the one for texts.
    label : str, optional
        The label of all samples, in place of their own.
    label_column : str, optional
        The array or column with the labels.
    need_labels : bool, default=False
        Leave out pictures and texts without a label, and refuse data without any.
    on_error : {"skip", "stop"}, default="skip"
        What to do about a picture or text that cannot be read.
    workers : int, optional
        Threads that read and extract; by default one per core.
    cache : bool, default=True
        Keep features on disk, so that the same picture is never extracted twice.
    progress : callable, optional
        Called with (done, total) while features are extracted.

    Raises
    ------
    DataError
        If the data cannot be used, or do not fit the model.
    WrongExtractor
        If they would need another extractor than the model's.
    """
    source = as_source(data, label_column=label_column)
    if source is None:
        samples = _vectors(data, model, extractor, label, label_column)
        if need_labels and samples.y is None:
            raise DataError(
                f"{data}: there are no labels in it. A .npz file needs an array y, a table a column named "
                "label; or name the column with --label-column."
            )
        return Loaded(samples)
    chosen = _extractor(source, model, extractor)
    n_items = len(source)
    source = relabelled(source, label) if label is not None else source
    if need_labels:
        source = with_labels_only(source)
        if not len(source):
            raise DataError(_no_labels(source))
    total = len(source)
    with FeatureCache() as kept:
        found = extract(
            source,
            chosen,
            cache=kept if cache else None,
            on_error=on_error,
            workers=workers,
            progress=None if progress is None else lambda done: progress(done, total),
        )
    if not len(found.X):
        first = found.failures[0]
        raise DataError(
            f"{source.name}: none of its {len(source):,} {_CALLED[source.kind]} could be used. The first is "
            f"{first.name}: {first.reason}"
        )
    # "" is for no label: a picture may lie beside the folders of the classes.
    y = np.array(["" if one is None else one for one in found.labels]) if source.labelled else None
    samples = Samples(found.X, y, names=found.names, extractor=chosen.id.as_dict())
    return Loaded(samples, source, found.failures, n_items - total, found.seconds)


def _vectors(
    data: Any, model: Any, extractor: str | Extractor | None, label: str | None, label_column: str | None
) -> Samples:
    samples = read_samples(data, label_column=label_column)
    if extractor is not None and samples.extractor is None:
        raise DataError(f"{data} holds vectors, which need no extractor.")
    needed = getattr(model, "extractor_", None)
    if needed is not None:
        if samples.extractor is None:
            raise DataError(
                f"{data} holds plain vectors, but the model was learnt on features of "
                f"{ExtractorId.from_dict(needed)}. Give it the pictures or texts themselves, or what "
                "openworld extract makes of them."
            )
        require_same(ExtractorId.from_dict(needed), ExtractorId.from_dict(samples.extractor))
    return samples if label is None else replace(samples, y=np.full(len(samples), label))


def _extractor(source: Source, model: Any, extractor: str | Extractor | None) -> Extractor:
    """Return the extractor for a source: the one asked for, the model's, or the default."""
    needed = getattr(model, "extractor_", None)
    if model is not None and needed is None:
        raise DataError(
            f"{source.name} holds {_CALLED[source.kind]}, but the model was learnt on plain vectors of "
            f"{model.n_features_in_} numbers; give it such vectors, or fit a model on {_CALLED[source.kind]}."
        )
    if extractor is None and needed is not None:
        chosen = extractor_for(ExtractorId.from_dict(needed))
    elif extractor is None or isinstance(extractor, str):
        chosen = load_extractor(extractor, kind=source.kind)
    else:
        chosen = extractor
    if needed is not None:
        require_same(ExtractorId.from_dict(needed), chosen.id)
    if chosen.kind != source.kind:
        raise DataError(
            f"{source.name} holds {_CALLED[source.kind]}, but {chosen.id.name} takes {_CALLED[chosen.kind]}."
        )
    return chosen


def _no_labels(source: Source) -> str:
    if source.labels_are_folders:
        return (
            f"{source.name}: its pictures lie directly in it, so their class is not known. Put them into one "
            "sub-folder per class, or name the class of all of them with --label (openworld learn)."
        )
    return f"{source.name}: there are no labels in it; a table needs a column named label, or --label-column."
