"""Intake of files, pictures, texts and vectors: labeled samples are learned, the others recognized."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data import label_studio, parquet_items, picture_files
from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.lines import refuse_groups, text_item
from openworld.data.sources import Item, Source, listed_items, open_source
from openworld.data.stream import Batch, Stream
from openworld.data.streams import open_stream
from openworld.service.inputs import Inputs
from openworld.service.middleware import JsonCounter
from openworld.service.recognition import RecognitionResult
from openworld.service.validation import Conflict, Refused, check_group
from openworld.service.world import World
from openworld.store.records import SampleContent

MAX_REFUSALS_LISTED = 100

_BATCH_SIZES = {"image": 8, "text": 256}  # small, so that progress is shown often
_BATCH_CHARACTERS = 1 << 22
_LEARNING_BATCH = 2000
Features = NDArray[np.floating[Any]]
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
VECTORS = (".npy",)  # not .npz, which may expand a thousandfold
OTHERS = (".zip", ".txt", ".json")
_LINES = (".txt", ".csv", ".tsv", ".jsonl", ".ndjson")
_JSON = (".json", ".jsonl", ".ndjson")
_ZIP_MEMBER = b"PK\x01\x02"  # the start of each entry in the directory of a zip file
_UNPACKED_BYTES = 1 << 28
ENDINGS = (*sorted(picture_files.ENDINGS), *TABLES, *VECTORS, *OTHERS)


@dataclass
class IntakeSummary:
    """Counts of samples by outcome: recognized, unknown (now in the pool), learned or refused.

    `known_before` counts samples that had the same label before. `refusals` has the name and reason of the
    first `MAX_REFUSALS_LISTED` refused samples; `refused` counts all of them.
    """

    total: int = 0
    recognized: int = 0
    unknown: int = 0
    learned: int = 0
    known_before: int = 0
    refused: int = 0
    refusals: list[tuple[str, str]] = field(default_factory=list)

    @property
    def done(self) -> int:
        """The number of samples processed."""
        return self.recognized + self.unknown + self.learned + self.known_before + self.refused

    def refuse(self, name: str, reason: object) -> None:
        """Record a sample that cannot be used."""
        self.refused += 1
        if len(self.refusals) < MAX_REFUSALS_LISTED:
            self.refusals.append((name, str(reason)))


@dataclass(frozen=True)
class _Extracted:
    """A sample with its feature vector, ready to be learned or recognized."""

    feature: Features
    content: SampleContent
    label: str | None
    name: str


class Intake:
    """Takes samples into a world.

    Parameters
    ----------
    world : World
    inputs : Inputs
        Extracts the features of pictures and texts.
    who : str
        The person recorded for the labeled samples.
    answered : callable, optional
        Called with the result of each recognized batch, for metrics.
    labels : bool, default=True
        Learn the samples that have a label; if False, recognize them like the others.
    """

    def __init__(
        self,
        world: World,
        inputs: Inputs,
        who: str,
        *,
        answered: Callable[[RecognitionResult], object] = lambda _: None,
        labels: bool = True,
    ) -> None:
        self._world, self._inputs, self._who = world, inputs, who
        self._answered, self._labels = answered, labels
        self._to_learn: list[_Extracted] = []
        self.summary = IntakeSummary()

    def take(self, data: Source | Stream) -> Iterator[IntakeSummary]:
        """Process pictures, texts or vectors in batches; yields the summary after each batch.

        Raises if the data cannot be read; the batches before the error stay processed.
        """
        self.summary.total += len(data)
        try:
            for batch in self._vectors(data) if isinstance(data, Stream) else self._items(data):
                self._recognize([sample for sample in batch if sample.label is None])
                self._to_learn += [sample for sample in batch if sample.label is not None]
                if len(self._to_learn) >= _LEARNING_BATCH:
                    self.finish()
                yield self.summary
        finally:
            self.summary.total = self.summary.done + len(self._to_learn)

    def finish(self) -> IntakeSummary:
        """Learn the labeled samples that are still waiting for a full batch."""
        to_learn, self._to_learn = self._to_learn, []
        if to_learn:
            self._learn(to_learn)
        return self.summary

    # -- features ---------------------------------------------------------------------------------

    def _items(self, source: Source) -> Iterator[list[_Extracted]]:
        for items in _batches(source, _BATCH_SIZES[source.kind]):
            yield list(self._pictures(items) if source.kind == "image" else self._texts(items))

    def _pictures(self, items: Sequence[Item]) -> Iterator[_Extracted]:
        for item in items:
            try:
                group = check_group(item.group)
                features, (content,) = self._inputs.pictures([(item.name, item.read())])
            except (DataError, Refused, OSError) as error:
                self.summary.refuse(item.name, _reason(error))
            else:
                content = replace(content, group=group)
                yield _Extracted(features[0], content, self._label(item.label), item.name)

    def _texts(self, items: Sequence[Item]) -> Iterator[_Extracted]:
        usable = []
        for item in items:
            try:
                text = item.read().decode().strip()
                self._inputs.check_text(text)
                group = check_group(item.group)
            except (Refused, UnicodeError) as error:
                self.summary.refuse(item.name, error)
            else:
                usable.append((item, text, group))
        if usable:
            features, contents = self._inputs.texts([text for _, text, _ in usable])
            for (item, _, group), feature, content in zip(usable, features, contents, strict=True):
                content = replace(content, group=group)
                yield _Extracted(feature, content, self._label(item.label), item.name)

    def _vectors(self, stream: Stream) -> Iterator[list[_Extracted]]:
        for batch in stream.batches():
            for name, reason in batch.failures:
                self.summary.refuse(name, reason)
            yield list(self._rows(batch, stream.name))

    def _rows(self, batch: Batch, source: str) -> Iterator[_Extracted]:
        labels = [None] * len(batch) if batch.y is None else [str(label) or None for label in batch.y]
        groups = [None] * len(batch) if batch.groups is None else batch.groups.tolist()
        for vector, label, group, row in zip(batch.X, labels, groups, batch.rows.tolist(), strict=True):
            name = f"row {row + 1}"
            try:
                content = SampleContent(source=source, group=check_group(group))
            except Refused as error:
                self.summary.refuse(name, error)
            else:
                yield _Extracted(vector, content, self._label(label), name)

    def _label(self, label: str | None) -> str | None:
        return label if self._labels else None

    # -- recognition and learning -----------------------------------------------------------------

    def _recognize(self, samples: Sequence[_Extracted]) -> None:
        if not samples:
            return
        answers = self._world.recognize(_array(samples), [sample.content for sample in samples])
        self._answered(answers)
        n_unknown = answers.labels.count(None)
        self.summary.unknown += n_unknown
        self.summary.recognized += len(answers) - n_unknown

    def _learn(self, samples: Sequence[_Extracted]) -> None:
        usable: list[_Extracted] = []
        labels: list[str] = []
        given = self._world.labels.given(_array(samples), [sample.content for sample in samples])
        for sample, before in zip(samples, given, strict=True):
            try:
                label = self._world.labels.check_label(sample.label or "")
            except Refused as error:
                self.summary.refuse(sample.name, error)
                continue
            if before == label:
                self.summary.known_before += 1
            elif before is not None:
                self.summary.refuse(sample.name, f"it is labeled {before!r} already, not {label!r}.")
            else:
                usable.append(sample)
                labels.append(label)
        if not usable:
            return
        contents = [sample.content for sample in usable]
        try:
            outcome = self._world.labels.learn(_array(usable), labels, self._who, contents)
        except (Refused, Conflict) as error:  # two samples with the same content and different labels
            for sample in usable:
                self.summary.refuse(sample.name, error)
        else:
            self.summary.learned += outcome.samples
            self.summary.known_before += len(usable) - outcome.samples


def _batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield items in batches of at most `size`, and fewer where their texts are long."""
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == size or sum(len(one.name) for one in batch) > _BATCH_CHARACTERS:
            yield batch
            batch = []
    if batch:
        yield batch


def _array(samples: Sequence[_Extracted]) -> Features:
    return np.array([sample.feature for sample in samples])


def _reason(error: Exception) -> str:
    """Return why a picture cannot be used, without its name, which the summary has already."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error.__cause__ or error)


# -- uploaded files -------------------------------------------------------------------------------


def ending(name: str) -> str | None:
    """Return the file extension in lower case, or None if such files cannot be read."""
    found = PurePath(name).suffix.lower()
    return found if found in ENDINGS else None


def open_upload(
    path: Path, name: str, *, takes_items: bool, most: int, group_column: str | None = None
) -> Source | Stream:
    """Open an uploaded file.

    Parameters
    ----------
    path : path
        Where the file is stored, with the ending of `name`.
    name : str
        Its name, for messages.
    takes_items : bool
        Whether the model takes pictures or texts. If so, the texts of a table are read, not its numbers.
    most : int
        The largest number of samples.
    group_column : str, optional
        The column with the groups; "folder" for the sub-folders of the classes in a zip of pictures.

    Raises
    ------
    DataError
        If the file cannot be used.
    """
    try:
        _check_amount(path, most)
        return replace(_open(path, name, Columns(text_wins=takes_items, group=group_column)), name=name)
    except DataError as error:
        raise DataError(str(error).replace(str(path), name)) from error


def _check_amount(path: Path, most: int) -> None:
    """Raise `DataError` if a file has far more lines, values or members than `most` samples can have.

    Parsing it would fill the memory: each of them becomes an object of a hundred bytes or more.
    """
    kind, n_parts, counter = path.suffix, 0, JsonCounter(20 * most, 100 * most)
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            if kind in _LINES:
                n_parts += piece.count(b"\n") + piece.count(b"\r")
            elif kind == ".zip":
                n_parts += piece.count(_ZIP_MEMBER)
            if kind in _JSON:
                counter.add(piece)
            if n_parts > 10 * most or not counter.is_bounded:
                raise DataError(
                    f"{path} has more lines or values than {most:,} samples, the limit, can have. "
                    "Send it in parts."
                )
    if kind == ".parquet" and (n_bytes := parquet_items.unpacked_bytes(path)) > _UNPACKED_BYTES:
        raise DataError(
            f"{path} unpacks to {n_bytes:,} bytes; the limit is {_UNPACKED_BYTES:,}. Send it in parts."
        )


def _open(path: Path, name: str, columns: Columns) -> Source | Stream:
    kind = path.suffix
    if kind in picture_files.ENDINGS:
        picture_files.groups_by_folder(path, [name], columns)  # raises an error if the user named a column
        return listed_items(name, "image", [Item(name, None, path.read_bytes)])
    if kind == ".txt":  # each line is a text; `open_source` would try the lines as file names
        lines = path.read_text(encoding="utf-8-sig", errors="replace").split("\n")
        refuse_groups(path, columns)
        texts = [text_item(line, None, f"line {n}") for n, line in enumerate(lines, 1) if line.strip()]
        return listed_items(str(path), "text", texts)
    if kind == ".json":
        return label_studio.open_tasks(path, columns)
    if kind == ".parquet":  # row by row: a few compressed bytes may be the same long text in every row
        source = parquet_items.open_table(path, columns, rows_at_once=1)
    else:
        source = None if kind in VECTORS else open_source(path, columns=columns)
    if source is None:
        return open_stream(path, columns=columns)
    if source.kind == "image" and kind in (".csv", ".tsv"):
        raise DataError(
            f"{path} lists paths of pictures, which the server cannot read: send the pictures themselves."
        )
    return source
