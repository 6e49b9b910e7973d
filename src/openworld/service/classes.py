"""The known classes: listing and correcting them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sqlalchemy import Connection

from openworld.recognition import NearestNonOutlier
from openworld.service.acts import Features, Forgetting, Merging, Model, Renaming
from openworld.service.results import ClassInfo, Near, NotFound, Outcome, PoolFilter
from openworld.service.scribe import Act, Scribe
from openworld.service.validation import check_name, check_text
from openworld.store import people, pool, samples
from openworld.store.log import Entry


class Classes:
    """What is known of the classes, and the acts that change them."""

    def __init__(self, scribe: Scribe) -> None:
        self._scribe, self._database = scribe, scribe.database

    def all(self) -> list[ClassInfo]:
        """List the classes with counts and descriptions."""
        with self._database.read() as connection:
            texts = people.get_descriptions(connection)
        with self._scribe.living.reading() as (model, _):
            statistics = model.statistics_
            counts = dict(zip(map(str, statistics.labels), statistics.counts.tolist(), strict=True))
        return [ClassInfo(label, counts[label], texts.get(label)) for label in sorted(counts)]

    def one(self, label: str, examples: int) -> ClassInfo:
        """Return a class with its nearest other class and some examples."""
        with self._scribe.living.reading() as (model, _):
            self._check_known(model, label)
            count = model.statistics_.count(label)
            labels, distances = model.nearest_classes(_middle(model, label), 2)
        others = [
            Near(name, distance)
            for name, distance in zip(labels[0].tolist(), distances[0].tolist(), strict=True)
            if name != label
        ]
        with self._database.read() as connection:
            text = people.get_descriptions(connection).get(label)
            shown, _ = pool.page(connection, PoolFilter(state="labelled", label=label), None, examples)
        return ClassInfo(label, count, text, others[0] if others else None, tuple(s.id for s in shown))

    def describe(self, label: str, text: str, who: str) -> Outcome:
        """Say what a class is."""
        check_text(text, "A description")
        with self._scribe.acting():
            self._check_all_known([label])

            def also(connection: Connection, entry: Entry) -> None:
                texts = people.get_descriptions(connection)
                people.set_descriptions(connection, {**texts, label: text})

            payload = {"label": label, "text": text}
            return self._scribe.write(Act(check_name(who, "A person"), "describe", payload, also=also))

    def rename(self, old: str, new: str, who: str) -> Outcome:
        """Give a class another name."""
        name = check_name(new)
        with self._scribe.acting():
            self._check_all_known([old])
            act = Act(
                check_name(who, "A person"), "rename", {"old": old, "new": name}, also=_move([old], name)
            )
            return self._scribe.write(act, Renaming(old, name))

    def merge(self, labels: Sequence[str], into: str, who: str) -> Outcome:
        """Make one class of several."""
        name, parts = check_name(into), list(dict.fromkeys(labels))
        with self._scribe.acting():
            self._check_all_known(parts)
            payload = {"labels": parts, "into": name}
            act = Act(check_name(who, "A person"), "merge", payload, also=_move(parts, name))
            return self._scribe.write(act, Merging(parts, name))

    def forget(self, label: str, who: str) -> Outcome:
        """Forget a class."""
        with self._scribe.acting():
            self._check_all_known([label])

            def also(connection: Connection, entry: Entry) -> None:
                samples.release(connection, samples.labelled(connection, label))
                texts = people.get_descriptions(connection)
                if texts.pop(label, None) is not None:
                    people.set_descriptions(connection, texts)

            act = Act(check_name(who, "A person"), "forget", {"label": label}, also=also)
            return self._scribe.write(act, Forgetting(label))

    def _check_all_known(self, labels: Sequence[str]) -> None:
        with self._scribe.living.reading() as (model, _):
            for label in labels:
                self._check_known(model, label)

    def _check_known(self, model: Model, label: str) -> None:
        if label not in model.statistics_:
            raise NotFound(f"There is no class {label!r}.")


def _move(labels: Sequence[str], into: str) -> Callable[[Connection, Entry], None]:
    """Return what gives the samples and the description of some classes to another."""

    def also(connection: Connection, entry: Entry) -> None:
        samples.relabel(connection, labels, into)
        texts = people.get_descriptions(connection)
        moved = {label: texts.pop(label) for label in labels if label != into and label in texts}
        if moved:
            people.set_descriptions(connection, {into: next(iter(moved.values())), **texts})

    return also


def _middle(model: Model, label: str) -> Features:
    """Return a place in feature space that stands for a class."""
    if isinstance(model, NearestNonOutlier):
        return model.statistics_.mean(label)[np.newaxis]
    kept, _ = model.reservoir_.samples(np.array([label]), model.reservoir_.per_class)
    return np.asarray(kept.mean(axis=0, keepdims=True))
