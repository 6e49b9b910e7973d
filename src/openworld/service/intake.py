"""Intake: files, pictures, texts and vectors into a world; labeled samples are learned, others recognized."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data import label_studio, picture_files
from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.lines import text_item
from openworld.data.sources import Item, Source, listed_items, open_source
from openworld.data.stream import Stream
from openworld.data.streams import open_stream
from openworld.service.inputs import Inputs
from openworld.service.recognition import RecognitionResult
from openworld.service.validation import Conflict, Refused
from openworld.service.world import World
from openworld.store.records import SampleContent

MAX_REFUSALS_LISTED = 100

_AT_ONCE = {"image": 8, "text": 256}  # small, so that progress is shown
_LEARNED_AT_ONCE = 2000
Features = NDArray[np.floating[Any]]
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
VECTORS = (".npy",)  # not .npz, which may be packed a thousandfold
OTHERS = (".zip", ".txt", ".json")
ENDINGS = (*sorted(picture_files.ENDINGS), *TABLES, *VECTORS, *OTHERS)


@dataclass
class IntakeSummary:
    """Counts of samples: recognized, unknown and now in the pool, learned, or refused.

    `known_before` were learned before with the same label. `refused` counts all; `refusals` has name and
    reason of the first ones.
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
        """Note a sample that could not be used."""
        self.refused += 1
        if len(self.refusals) < MAX_REFUSALS_LISTED:
            self.refusals.append((name, str(reason)))


@dataclass(frozen=True)
class _Ready:
    """A sample with its feature."""

    feature: Features
    item: SampleContent
    label: str | None
    name: str


class Intake:
    """Takes samples into a world.

    Parameters
    ----------
    world : World
    inputs : Inputs
        Makes features of pictures and texts.
    who : str
        The person recorded for the labeled samples.
    answered : callable, optional
        Called with the answers on what was recognized, to count them.
    labels : bool, default=True
        Learn the labels of samples that have one; without it they are recognized like the others.
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
        self._waiting: list[_Ready] = []
        self.summary = IntakeSummary()

    def take(self, data: Source | Stream) -> Iterator[IntakeSummary]:
        """Take in pictures and texts, or vectors, a few at a time; yields the summary after each step.

        Raises if the data cannot be used; samples taken in before stay.
        """
        self.summary.total += len(data)
        try:
            for ready in self._vectors(data) if isinstance(data, Stream) else self._items(data):
                self._recognize([one for one in ready if one.label is None])
                self._waiting += [one for one in ready if one.label is not None]
                if len(self._waiting) >= _LEARNED_AT_ONCE:
                    self.finish()
                yield self.summary
        finally:
            self.summary.total = self.summary.done + len(self._waiting)

    def finish(self) -> IntakeSummary:
        """Learn the labeled samples that are still waiting for a full batch."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._learn(waiting)
        return self.summary

    # -- features ---------------------------------------------------------------------------------

    def _items(self, source: Source) -> Iterator[list[_Ready]]:
        for some in _some(source, _AT_ONCE[source.kind]):
            yield list(self._pictures(some) if source.kind == "image" else self._texts(some))

    def _pictures(self, some: Sequence[Item]) -> Iterator[_Ready]:
        for picture in some:
            try:
                features, (item,) = self._inputs.pictures([(picture.name, picture.read())])
            except (DataError, Refused, OSError) as error:
                self.summary.refuse(picture.name, _reason(error))
            else:
                yield _Ready(features[0], item, self._label(picture.label), picture.name)

    def _texts(self, some: Sequence[Item]) -> Iterator[_Ready]:
        usable = []
        for item in some:
            try:
                text = item.read().decode().strip()
                self._inputs.check_text(text)
            except (Refused, UnicodeError) as error:
                self.summary.refuse(item.name, error)
            else:
                usable.append((item, text))
        if usable:
            features, items = self._inputs.texts([text for _, text in usable])
            for (item, _), feature, made in zip(usable, features, items, strict=True):
                yield _Ready(feature, made, self._label(item.label), item.name)

    def _vectors(self, stream: Stream) -> Iterator[list[_Ready]]:
        for batch in stream.batches():
            for name, reason in batch.failures:
                self.summary.refuse(name, reason)
            labels = [None] * len(batch) if batch.y is None else [str(label) or None for label in batch.y]
            rows = zip(batch.X, labels, batch.rows.tolist(), strict=True)
            yield [
                _Ready(vector, SampleContent(source=stream.name), self._label(label), f"row {row + 1}")
                for vector, label, row in rows
            ]

    def _label(self, label: str | None) -> str | None:
        return label if self._labels else None

    # -- what becomes of them ---------------------------------------------------------------------

    def _recognize(self, ready: Sequence[_Ready]) -> None:
        if not ready:
            return
        answers = self._world.recognize(_array(ready), [one.item for one in ready])
        self._answered(answers)
        n_unknown = answers.labels.count(None)
        self.summary.unknown += n_unknown
        self.summary.recognized += len(answers) - n_unknown

    def _learn(self, waiting: Sequence[_Ready]) -> None:
        usable: list[tuple[_Ready, str]] = []
        given = self._world.labels.given(_array(waiting), [one.item for one in waiting])
        for one, before in zip(waiting, given, strict=True):
            try:
                name = self._world.labels.check_label(one.label or "")
            except Refused as error:
                self.summary.refuse(one.name, error)
                continue
            if before == name:
                self.summary.known_before += 1
            elif before is not None:
                self.summary.refuse(one.name, f"it is labeled {before!r} already, not {name!r}.")
            else:
                usable.append((one, name))
        if not usable:
            return
        chosen = [one for one, _ in usable]
        try:
            outcome = self._world.labels.learn(
                _array(chosen), [name for _, name in usable], self._who, [one.item for one in chosen]
            )
        except (Refused, Conflict) as error:  # two samples with the same content and different labels
            for one in chosen:
                self.summary.refuse(one.name, error)
        else:
            self.summary.learned += outcome.samples
            self.summary.known_before += len(chosen) - outcome.samples


def _some(items: Iterable[Item], n: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    while some := list(islice(iterator, n)):
        yield some


def _array(ready: Sequence[_Ready]) -> Features:
    return np.array([one.feature for one in ready])


def _reason(error: Exception) -> str:
    """Say why a picture cannot be used, without its name, which stands beside it."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error.__cause__ or error)


# -- files that people send -----------------------------------------------------------------------


def ending(name: str) -> str | None:
    """Return the ending by which a file is read, or None for a kind that cannot be."""
    found = PurePath(name).suffix.lower()
    return found if found in ENDINGS else None


def open_upload(path: Path, name: str, *, takes_items: bool) -> Source | Stream:
    """Open a file that somebody sent.

    Parameters
    ----------
    path : path
        Where the file is stored, with the ending of `name`.
    name : str
        Its name, for messages.
    takes_items : bool
        Whether the model takes pictures or texts; then the texts of a table are read, not its numbers.

    Raises
    ------
    DataError
        If it cannot be used.
    """
    try:
        return replace(_open(path, name, Columns(text_wins=takes_items)), name=name)
    except DataError as error:
        raise DataError(str(error).replace(str(path), name)) from error


def _open(path: Path, name: str, columns: Columns) -> Source | Stream:
    kind = path.suffix
    if kind in picture_files.ENDINGS:
        return listed_items(name, "image", [Item(name, None, path.read_bytes)])
    if kind == ".txt":  # each line a text: `open_source` would look for files of that name
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
        texts = [text_item(line, None, f"line {n}") for n, line in enumerate(lines, 1) if line.strip()]
        return listed_items(str(path), "text", texts)
    if kind == ".json":
        return label_studio.open_tasks(path)
    source = None if kind in VECTORS else open_source(path, columns=columns)
    if source is None:
        return open_stream(path, columns=columns)
    if source.kind == "image" and kind in (".csv", ".tsv"):
        raise DataError(
            f"{path} lists paths of pictures, which the server cannot read: send the pictures themselves."
        )
    return source
