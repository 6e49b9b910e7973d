"""The loader of all data: opens files and folders of any kind as a stream of feature vectors.

Vectors are used unchanged. Features of pictures and texts are extracted when a part of the stream is read.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from openworld.data.columns import PATH_COLUMNS, TEXT_COLUMNS, Columns, listed
from openworld.data.delimited import ENDINGS, ending_of, open_delimited
from openworld.data.errors import DataError
from openworld.data.sources import Item, Source, as_source
from openworld.data.stream import Batch, Stream
from openworld.data.streams import is_pattern, open_stream
from openworld.features.cache import FeatureCache
from openworld.features.extraction import Extracted, extract_batches, joined
from openworld.features.extractor import Extractor, ExtractorId, extractor_for, load_extractor, require_same

OnError = Literal["skip", "stop"]
ITEMS_IN_A_PART = 2048
# Small for pictures, which are slow, to show progress; large for texts, as each batch has overhead.
_ITEMS_IN_A_BATCH = {"image": 32, "text": 1024}
_PLURALS = {"image": "pictures", "text": "texts"}


@dataclass(frozen=True)
class Extraction:
    """Options of feature extraction from pictures and texts.

    Attributes
    ----------
    extractor : str, Extractor or None
        By default the model's; without a model, the default for pictures or for texts.
    on_error : {"skip", "stop"}
        Whether to skip a picture or text that cannot be read, or to raise an error.
    workers : int or None
        Number of threads; by default one per core.
    cache : bool
        Cache features on disk, so that no picture is extracted twice.
    """

    extractor: str | Extractor | None = None
    on_error: OnError = "skip"
    workers: int | None = None
    cache: bool = True


def open_samples(
    data: Any,
    *,
    model: Any = None,
    extraction: Extraction | None = None,
    columns: Columns | None = None,
    label: str | None = None,
    need_labels: bool = False,
    items_in_a_part: int = ITEMS_IN_A_PART,
) -> Stream:
    """Open samples of any kind and size as a stream.

    Parameters
    ----------
    data : path, URL, pattern, Source or Hugging Face data set
        See `openworld.data.sources.open_source` for pictures and texts and
        `openworld.data.streams.open_stream` for files of vectors.
    model : recognizer, optional
        The model that will process the samples: its extractor and feature columns are used, and data that do
        not fit the model are an error.
    extraction : Extraction, optional
        How pictures and texts become features.
    columns : Columns, optional
        The roles of the columns of a table.
    label : str, optional
        The label of all samples, instead of their own.
    need_labels : bool, default=False
        Skip pictures and texts without a label, and raise an error if there are no labels at all.
    items_in_a_part : int, default=2048
        Number of pictures or texts in a part.

    Raises
    ------
    DataError
        If the data cannot be used, or do not fit the model.
    WrongExtractor
        If the data need another extractor than the model's.
    """
    columns = replace(_for_model(model, columns or Columns()), one_class=label is not None)
    extraction = extraction or Extraction()
    source = None if _is_address(data) else as_source(data, columns=columns)
    if source is None:
        _check_table(data, model)
        stream = open_stream(data, columns=columns, label=label)
        _check_vectors(stream, model, extraction.extractor)
    else:
        path = os.fspath(data) if isinstance(data, str | os.PathLike) else None
        shared = _SharedSource(source, path, columns)
        stream = _item_stream(shared, model, extraction, label, need_labels, items_in_a_part)
    if need_labels and not stream.labeled:
        raise DataError(_no_labels(stream))
    return stream


def _is_address(data: Any) -> bool:
    """Return whether the data must be files of vectors: a URL, a pattern or a list of files."""
    if isinstance(data, list | tuple):
        return True
    return isinstance(data, str) and ("://" in data or is_pattern(data))


def _for_model(model: Any, columns: Columns) -> Columns:
    """Return the columns with the choices of the model: texts, or feature columns by name."""
    if model is None:
        return columns
    names = getattr(model, "feature_names_in_", None)
    if columns.missing == "mean":  # the model's means, as the file may hold a single sample
        means = np.mean([model.class_mean(label) for label in model.classes_.tolist()], axis=0)
        columns = replace(columns, means=tuple(means.tolist()))
    if getattr(model, "extractor_", None) is not None:
        return replace(columns, text_wins=True)
    return columns if names is None else replace(columns, features=tuple(map(str, names)), of_model=True)


# -- vectors ------------------------------------------------------------------------------------------


def _check_table(data: Any, model: Any) -> None:
    """Raise an error for a table without texts or pictures if the model needs these."""
    needed = getattr(model, "extractor_", None)
    if needed is None or _is_address(data) or ending_of(Path(data)) not in ENDINGS:
        return
    raise DataError(
        f"{os.fspath(data)} has no column of texts ({', '.join(TEXT_COLUMNS)}) or pictures "
        f"({', '.join(PATH_COLUMNS)}), but the model was fitted on features of {needed['name']}. "
        f"{listed(open_delimited(Path(data)).columns)} If one has the texts, use --text-column."
    )


def _check_vectors(stream: Stream, model: Any, extractor: str | Extractor | None) -> None:
    """Raise an error if the vectors do not fit the model."""
    if extractor is not None and stream.extractor is None:
        raise DataError(f"{stream.name} holds vectors, which need no extractor. Leave out --extractor.")
    needed = getattr(model, "extractor_", None)
    if needed is not None:
        if stream.extractor is None:
            raise DataError(
                f"{stream.name} holds plain vectors, but the model was fitted on features of "
                f"{ExtractorId.from_dict(needed)}. Use the pictures or texts, or the file that openworld "
                "extract makes from them."
            )
        require_same(ExtractorId.from_dict(needed), ExtractorId.from_dict(stream.extractor))
    if model is not None and stream.n_features != model.n_features_in_:
        raise DataError(
            f"{stream.name} has {stream.n_features:,} features per sample, but the model was fitted on "
            f"{model.n_features_in_:,}. Give it features made in the same way."
        )


def _no_labels(stream: Stream) -> str:
    if stream.source is not None and stream.source.labels_are_folders:
        return (
            f"{stream.name}: the pictures are not in sub-folders, so their classes are not known. Put them "
            "into one sub-folder per class; for pictures of a single class use openworld learn --label."
        )
    if stream.source is not None and (others := stream.source.unused_columns):
        return (
            f'{stream.name} has no column named "label". Its other columns are: {", ".join(others[:10])}. '
            f"Rename the one with the labels, or use --label-column {others[0]}."
        )
    if stream.source is not None:
        return (
            f"{stream.name}: it has no labels. Texts need a table with a column named label (or another one "
            "and --label-column), pictures one sub-folder per class. openworld learn --label gives one label "
            "to all samples."
        )
    names = f" Its columns are: {', '.join(stream.feature_names[:10])}." if stream.feature_names else ""
    return (
        f"{stream.name} has no labels.{names} A table needs a column named label (or another one "
        "and --label-column); an .npz file needs an array y; x.npy needs its labels in x.labels.npy."
    )


# -- pictures and texts -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ItemPart:
    """A range of pictures or texts, whose features are extracted when the part is read.

    Attributes
    ----------
    path : str
    start, stop : int
    extractor : tuple of (str, str)
        The id of the extractor, as items of a dict.
    label : str or None
        The label of all items, instead of their own.
    labeled : bool
        Whether any item of the stream has a label.
    need_labels : bool
        Whether items without a label are skipped.
    grouped : bool
        Whether items of the stream may have a group.
    extraction : Extraction
    source : _SharedSource
        Shown as the columns, which tell parts of other labels, texts or groups apart.
    """

    path: str
    start: int
    stop: int
    extractor: tuple[tuple[str, str], ...]
    label: str | None
    labeled: bool
    need_labels: bool
    grouped: bool
    extraction: Extraction = field(repr=False)
    source: _SharedSource
    side_by_side: ClassVar[bool] = False  # extraction of one part uses all cores

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.path}, items {self.start + 1:,} to {self.stop:,}"

    @property
    def rows(self) -> NDArray[np.int64]:
        """The indices of the items in the stream."""
        return np.arange(self.start, self.stop)

    def batches(self) -> Iterator[Batch]:
        """Read the items and extract their features."""
        return self.select(np.ones(len(self), dtype=bool))

    def select(self, wanted: NDArray[np.bool_]) -> Iterator[Batch]:
        """Read the selected items and extract their features."""
        numbered = [(self.start + i, item) for i, item in enumerate(self._items()) if wanted[i]]
        usable = [one for one in numbered if one[1].label is not None or not self.need_labels]
        n_unlabeled = len(numbered) - len(usable)
        chosen = self.source.chosen or _load_again(self.extractor)
        done = 0
        with FeatureCache() as kept:
            found = extract_batches(
                [item for _, item in usable],
                chosen,
                cache=kept if self.extraction.cache else None,
                on_error=self.extraction.on_error,
                workers=self.extraction.workers,
            )
            for some in _grouped(found, _ITEMS_IN_A_BATCH[chosen.kind]):
                extracted = joined(some, chosen.n_features)
                yield self._batch(usable[done:], extracted, n_unlabeled)
                done, n_unlabeled = done + len(extracted.names) + len(extracted.failures), 0
        if not done:
            yield self._batch([], joined([], chosen.n_features), n_unlabeled)

    def labels(self) -> NDArray[Any]:
        """Return the labels without reading the items."""
        return np.array([item.label or "" for item in self._items()], dtype=str)

    def _items(self) -> list[Item]:
        items = itertools.islice(self.source.opened(), self.start, self.stop)
        return [item if self.label is None else replace(item, label=self.label) for item in items]

    def _batch(self, numbered: Sequence[tuple[int, Item]], found: Extracted, n_unlabeled: int) -> Batch:
        """Return extracted features as a batch; `found` has positions in `numbered`."""
        ids = [numbered[i][1].id for i in found.positions]
        groups = np.array([numbered[i][1].group or "" for i in found.positions], dtype=str)
        return Batch(
            found.X,
            np.array([label or "" for label in found.labels], dtype=str) if self.labeled else None,
            np.array([numbered[i][0] for i in found.positions], dtype=np.int64),
            found.names,
            ids if any(id is not None for id in ids) else None,
            groups if self.grouped else None,
            [(failure.name, failure.reason) for failure in found.failures],
            n_unlabeled,
            found.seconds,
        )


class _SharedSource:
    """A source that the parts of a stream share. Another process opens it again, once.

    Parameters
    ----------
    source : Source
    path : str or None
        The path to open it again; without a path it cannot be sent to another process.
    columns : Columns
    """

    def __init__(self, source: Source, path: str | None, columns: Columns) -> None:
        self.source: Source | None = source
        self.path, self.columns = path, columns
        self.chosen: Extractor | None = None
        self.token = uuid4().hex  # unique, so that a worker lists a changed folder again

    def __repr__(self) -> str:
        return repr(self.columns)

    def opened(self) -> Source:
        """Return the source."""
        if self.source is None:
            self.source = _open_again(str(self.path), self.columns, self.token)
        return self.source

    def __getstate__(self) -> dict[str, Any]:
        if self.path is None:
            raise DataError("Workers open the data themselves. Give a path that all of them can read.")
        return {**vars(self), "source": None, "chosen": None}


@lru_cache(maxsize=4)
def _open_again(path: str, columns: Columns, token: str) -> Source:
    source = as_source(path, columns=columns)
    assert source is not None  # the stream was opened from a source
    return source


@lru_cache(maxsize=2)
def _load_again(identity: tuple[tuple[str, str], ...]) -> Extractor:
    return extractor_for(ExtractorId.from_dict(dict(identity)))


def _item_stream(
    shared: _SharedSource,
    model: Any,
    extraction: Extraction,
    label: str | None,
    need_labels: bool,
    items_in_a_part: int,
) -> Stream:
    source = shared.opened()
    shared.chosen = chosen = choose_extractor(source, model, extraction.extractor)
    identity, labeled = chosen.id.as_dict(), label is not None or source.labeled
    # Parts carry the id of the extractor, not the extractor, so that they are small to send.
    options = replace(extraction, extractor=None)
    parts = [
        ItemPart(
            source.name,
            start,
            min(start + items_in_a_part, len(source)),
            tuple(sorted(identity.items())),
            label,
            labeled,
            need_labels,
            source.grouped or shared.columns.group is not None,
            options,
            shared,
        )
        for start in range(0, len(source), items_in_a_part)
    ]
    return Stream(
        source.name, parts, chosen.n_features, labeled, identity, source=source, notes=list(source.notes)
    )


def choose_extractor(source: Source, model: Any, extractor: str | Extractor | None) -> Extractor:
    """Return the extractor for a source: the one given, the model's, or the default."""
    needed = getattr(model, "extractor_", None)
    plural = _PLURALS[source.kind]
    if model is not None and needed is None:
        raise DataError(
            f"{source.name} holds {plural}, but the model was fitted on plain vectors of "
            f"{model.n_features_in_} features. Give it such vectors, or fit a model on {plural}."
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
        raise DataError(f"{source.name} holds {plural}, but {chosen.id.name} takes {_PLURALS[chosen.kind]}.")
    return chosen


def _grouped(found: Iterable[Extracted], n_items: int) -> Iterator[list[Extracted]]:
    """Group small batches until a group has `n_items` items."""
    group: list[Extracted] = []
    for extracted in found:
        group.append(extracted)
        if sum(len(one.names) for one in group) >= n_items:
            yield group
            group = []
    if group:
        yield group
