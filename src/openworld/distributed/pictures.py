"""Pictures and texts as a stream: features are made where the parts are, and need not be kept."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from openworld.data.sources import Item, Source, open_source
from openworld.data.stream_formats import fsspec
from openworld.data.streams import Batch, Stream
from openworld.data.tables import DataError
from openworld.distributed.engine import HERE, Done, Engine
from openworld.features.cache import FeatureCache
from openworld.features.extraction import extract
from openworld.features.extractor import Extractor, ExtractorId, extractor_for
from openworld.samples import _extractor as choose_extractor
from openworld.samples import _no_labels as no_labels

ITEMS_IN_A_PART = 2048
_CALLED = {"image": "picture", "text": "text"}


@dataclass(frozen=True)
class ItemPart:
    """A run of pictures or texts.

    Attributes
    ----------
    path : str
    start, stop : int
    label_column : str or None
    label : str or None
        The label of all of them, in place of their own.
    extractor : tuple of (str, str)
        The id of the extractor, name by name.
    need_labels : bool
        Whether those without a label are left out.
    on_error : {"skip", "stop"}
    workers : int or None
    cache : bool
    opened : str
        Differs each time the source is opened: a worker lists a folder once for all parts, and anew when the
        folder is opened again.
    """

    path: str
    start: int
    stop: int
    label_column: str | None
    label: str | None
    extractor: tuple[tuple[str, str], ...]
    need_labels: bool
    on_error: Literal["skip", "stop"]
    workers: int | None
    cache: bool
    opened: str = field(repr=False)
    side_by_side: ClassVar[bool] = False  # the features of one part are made by all cores

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.path}, items {self.start + 1:,} to {self.stop:,}"

    def batches(self) -> Iterator[Batch]:
        """Read the items and make their features."""
        items = self._items()
        wanted = [item for item in items if item.label is not None or not self.need_labels]
        with FeatureCache() as kept:
            found = extract(
                wanted,
                _extractor(self.extractor),
                cache=kept if self.cache else None,
                on_error=self.on_error,
                workers=self.workers,
            )
        labels = ["" if label is None else label for label in found.labels]  # "": no label
        failures = [(failure.name, failure.reason) for failure in found.failures]
        rows = np.arange(self.start, self.start + len(found.X))
        unlabelled = len(items) - len(wanted)
        yield Batch(found.X, np.array(labels, dtype=str), rows, found.names, failures, unlabelled)

    def labels(self) -> NDArray[Any]:
        """Return the labels; nothing is read."""
        return np.array([item.label for item in self._items() if item.label is not None], dtype=str)

    def _items(self) -> list[Item]:
        items = itertools.islice(_source(self.path, self.label_column, self.opened), self.start, self.stop)
        return [item if self.label is None else replace(item, label=self.label) for item in items]


def open_items(
    path: str | os.PathLike[str],
    *,
    model: Any = None,
    extractor: str | Extractor | None = None,
    label: str | None = None,
    label_column: str | None = None,
    need_labels: bool = False,
    on_error: Literal["skip", "stop"] = "skip",
    workers: int | None = None,
    cache: bool = True,
    items_in_a_part: int = ITEMS_IN_A_PART,
) -> Stream:
    """Open pictures or texts as a stream; the parameters are those of `openworld.samples.load_samples`.

    On a cluster every worker must reach the path, and have what the extractor needs.
    """
    opened = uuid4().hex
    source = _source(os.fspath(path), label_column, opened)
    chosen = choose_extractor(source, model, extractor)
    if need_labels and label is None and not source.labelled:
        raise DataError(no_labels(source))
    identity = chosen.id.as_dict()
    parts = [
        ItemPart(
            os.fspath(path),
            start,
            min(start + items_in_a_part, len(source)),
            label_column,
            label,
            tuple(sorted(identity.items())),
            need_labels,
            on_error,
            workers,
            cache,
            opened,
        )
        for start in range(0, len(source), items_in_a_part)
    ]
    labelled = label is not None or source.labelled
    return Stream(source.name, parts, chosen.n_features, labelled, identity, _CALLED[source.kind])


def write_features(
    stream: Stream, folder: str, engine: Engine = HERE, *, progress: Done | None = None
) -> list[str]:
    """Write the features of each part to a Parquet file of its own, where the part is read.

    Parameters
    ----------
    stream : Stream
    folder : str
        A folder or an address that every worker can write to. Parts that are there already are not made
        again. What is written is itself a stream: open ``folder/*.parquet``.
    engine : Engine
        By default this process.
    progress : callable, optional
        Called with the number of items of each part when it is done.

    Returns
    -------
    paths : list of str
    """
    numbered = [_Numbered(part, i) for i, part in enumerate(stream.parts)]
    return list(engine.map(_write_part, numbered, folder, stream.extractor, done=progress))


@dataclass(frozen=True)
class _Numbered:
    part: Any
    number: int
    side_by_side: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.part)

    def __str__(self) -> str:
        return str(self.part)


def _write_part(numbered: _Numbered, folder: str, extractor: dict[str, str] | None) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    filesystem, root = fsspec().core.url_to_fs(folder)
    path = f"{root}/part-{numbered.number:06d}.parquet"
    if filesystem.exists(path):
        return str(filesystem.unstrip_protocol(path))
    filesystem.makedirs(root, exist_ok=True)
    metadata = {"openworld.extractor": json.dumps(extractor)}
    with filesystem.open(f"{path}.new", "wb") as file:
        writer = None
        for batch in numbered.part.batches():
            values = pa.array(np.ascontiguousarray(batch.X, dtype=np.float32).ravel())
            columns = {"features": pa.FixedSizeListArray.from_arrays(values, batch.X.shape[1])}
            if batch.y is not None:
                columns["label"] = pa.array(batch.y)
            table = pa.table(columns).replace_schema_metadata(metadata)
            writer = writer or pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
    filesystem.mv(f"{path}.new", path)
    return str(filesystem.unstrip_protocol(path))


@lru_cache(maxsize=4)
def _source(path: str, label_column: str | None, opened: str) -> Source:
    """Open a source once for all parts of it that are read in this process."""
    source = open_source(Path(path), label_column=label_column)
    if source is None:
        raise DataError(f"{path} holds vectors: open it with open_stream.")
    return source


@lru_cache(maxsize=2)
def _extractor(identity: tuple[tuple[str, str], ...]) -> Extractor:
    return extractor_for(ExtractorId.from_dict(dict(identity)))
