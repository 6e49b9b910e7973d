"""The known classes: listing, describing, renaming, merging and forgetting them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openworld.service.event_log import EventLog
from openworld.service.events import DescribeEvent, ForgetEvent, MergeEvent, RenameEvent
from openworld.service.live_model import Model
from openworld.service.validation import NotFound, Refused, check_name, check_text, natural_key
from openworld.service.world_event import EventOutcome
from openworld.store import pool
from openworld.store.labels import get_descriptions
from openworld.store.records import ClassDistance, PoolFilter


@dataclass(frozen=True)
class ClassInfo:
    """A class the model knows. `count` is the number of samples it was learned from."""

    label: str
    count: float
    description: str | None
    nearest: ClassDistance | None = None
    examples: tuple[int, ...] = ()


class Classes:
    """The classes of the live model."""

    def __init__(self, log: EventLog) -> None:
        self._log, self._database = log, log.database

    def all(self) -> list[ClassInfo]:
        """List the classes by name with counts and descriptions, without examples and nearest class."""
        with self._database.read() as connection:
            texts = get_descriptions(connection)
        with self._log.model.reading() as (model, _):
            statistics = model.statistics_
            counts = dict(zip(map(str, statistics.labels), statistics.counts.tolist(), strict=True))
        names = sorted(counts, key=natural_key)
        return [ClassInfo(name, counts[name], texts.get(name)) for name in names]

    def get(self, label: str, examples: int = 12) -> ClassInfo:
        """Return a class with its nearest other class and some labeled samples, or raise `NotFound`."""
        with self._log.model.reading() as (model, _):
            _check_known(model, label)
            count = model.statistics_.count(label)
        others = self.similar(label, 1)
        with self._database.read() as connection:
            text = get_descriptions(connection).get(label)
            shown, _ = pool.page(connection, PoolFilter(state="labeled", label=label), None, examples)
        return ClassInfo(label, count, text, others[0] if others else None, tuple(s.id for s in shown))

    def similar(self, label: str, n: int = 5) -> list[ClassDistance]:
        """Return the classes nearest to one, nearest first: candidates to merge, or to confuse it with."""
        with self._log.model.reading() as (model, _):
            _check_known(model, label)
            labels, distances = model.nearest_classes(model.class_mean(label)[np.newaxis], n + 1)
        pairs = zip(labels[0].tolist(), distances[0].tolist(), strict=True)
        return [ClassDistance(str(name), distance) for name, distance in pairs if name != label][:n]

    def examples(self, label: str) -> list[bytes]:
        """Return the examples of a class that the model keeps: small JPEG files, or texts in UTF-8."""
        with self._log.model.reading() as (model, _):
            kept: dict[str, list[bytes]] = getattr(model, "examples_", {})
            return kept.get(label, [])

    def describe(self, label: str, text: str, who: str) -> EventOutcome:
        """Set the description of a class."""
        check_text(text, "A description")
        with self._log.exclusive():
            self._check_all_known([label])
            return self._log.append(DescribeEvent(label, text), who)

    def rename(self, old: str, new: str, who: str) -> EventOutcome:
        """Rename a class; the new name must be unused."""
        name = check_name(new)
        with self._log.exclusive():
            self._check_all_known([old])
            return self._log.append(RenameEvent(old, name), who)

    def merge(self, labels: Sequence[str], into: str, who: str) -> EventOutcome:
        """Merge classes into another existing class."""
        parts = [label for label in dict.fromkeys(labels) if label != into]
        with self._log.exclusive():
            self._check_all_known([*parts, into])
            if not parts:
                raise Refused(f"{into!r} cannot be merged into itself: give another class.")
            return self._log.append(MergeEvent(parts, into), who)

    def forget(self, label: str, who: str) -> EventOutcome:
        """Forget a class; its stored samples return to the pool."""
        with self._log.exclusive():
            self._check_all_known([label])
            return self._log.append(ForgetEvent(label), who)

    def _check_all_known(self, labels: Sequence[str]) -> None:
        with self._log.model.reading() as (model, _):
            for label in labels:
                _check_known(model, label)


def _check_known(model: Model, label: str) -> None:
    if label not in model.statistics_:
        raise NotFound(f"There is no class {label!r}.")
