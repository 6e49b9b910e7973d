"""Labels: giving them to samples, changing them, dismissing and erasing samples, previews and progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np
from numpy.typing import ArrayLike
from sqlalchemy import Connection

from openworld.recognition import is_adjustable
from openworld.service.event_log import EventLog
from openworld.service.events import (
    AcceptEvent,
    DismissEvent,
    DismissUnknownEvent,
    EraseEvent,
    FeedbackEvent,
    LabelEvent,
    LearnEvent,
)
from openworld.service.history import History
from openworld.service.settings import WorldSettings
from openworld.service.validation import (
    Conflict,
    NotFound,
    Refused,
    as_features,
    check_items,
    check_name,
    check_text,
)
from openworld.service.world_event import EventOutcome, WorldEvent, groups_of
from openworld.store import clusters, events, samples
from openworld.store.labels import count_states, labeled_with
from openworld.store.records import ClassDistance, Sample, SampleContent
from openworld.store.samples import NewSample, Verdict


@dataclass(frozen=True)
class Preview:
    """What labeling some samples would change.

    `nearest` are the classes nearest to the mean of the samples, with distances; `similar_names` are existing
    labels that look like the new one; `already` maps samples to the labels they have.
    """

    label: str
    new_class: bool
    samples: int
    nearest: tuple[ClassDistance, ...]
    similar_names: tuple[str, ...]
    already: Mapping[int, str]
    problem: str | None = None


@dataclass(frozen=True)
class LabelingProgress:
    """Number of samples in each state, and of those that one person labeled or dismissed."""

    pending: int
    recognized: int
    labeled: int
    dismissed: int
    my_labeled: int
    my_dismissed: int


class Labels:
    """The labels that people give to samples."""

    def __init__(self, log: EventLog, history: History, settings: WorldSettings) -> None:
        self._log, self._history, self._database = log, history, log.database
        self._n_nearest, self._learn_unknowns = settings.n_nearest, settings.learn_unknowns

    def learn(
        self, X: ArrayLike, labels: Sequence[str], who: str, items: Sequence[SampleContent] | None = None
    ) -> EventOutcome:
        """Store and learn labeled samples, except those learned before under the same label."""
        with self._log.model.reading() as (model, version):
            features = as_features(X, model.n_features_in_)
            names = [self.check_label(label) for label in labels]
            things = list(items) if items is not None else [SampleContent()] * len(features)
            if not len(features) or len(names) != len(features) or len(things) != len(features):
                raise Refused(
                    f"There are {len(features)} samples, {len(names)} labels, {len(things)} items: give one "
                    "of each for at least one sample."
                )
            check_items(things)
            judgement = model.judge(features, self._n_nearest)
        verdicts = [Verdict.of(judgement, row, version) for row in range(len(features))]
        new = [NewSample(*row, "labeled", 0) for row in zip(features, things, verdicts, strict=True)]
        with self._log.exclusive():
            chosen = self._not_learned_yet(new, names)
            if not chosen:
                return self._nothing(LearnEvent)

            event = LearnEvent([], [names[i] for i in chosen], groups_of(chosen.values()))

            def store(connection: Connection) -> LearnEvent:
                ids = samples.store(self._database, connection, [new[i] for i in chosen])
                return replace(event, samples=ids)

            return self._log.append(event, who, features=features[list(chosen)], complete=store)

    def given(self, X: ArrayLike, items: Sequence[SampleContent]) -> list[str | None]:
        """Return the labels that samples of the same content have already."""
        features = as_features(X, self._log.model.n_features)
        hashes = [samples.content_hash(*one) for one in zip(features, items, strict=True)]
        with self._database.read() as connection:
            found = samples.find_content(connection, hashes)
        return [found[digest].label if digest in found else None for digest in hashes]

    def _not_learned_yet(self, new: Sequence[NewSample], labels: Sequence[str]) -> dict[int, str | None]:
        """Return which samples are to be learned, each content once, and their groups."""
        hashes = [sample.content_hash() for sample in new]
        with self._database.read() as connection:
            stored = samples.find_content(connection, hashes)
        known = {digest: content.label for digest, content in stored.items()}
        chosen: dict[int, str | None] = {}
        for i, (digest, label) in enumerate(zip(hashes, labels, strict=True)):
            before = known.get(digest)
            if before is not None and before != label:
                raise Conflict(
                    f"Sample {i} is labeled {before!r} already, not {label!r}: undo that label first."
                )
            if before is None:
                group = stored[digest].group if digest in stored else None
                chosen[i] = group or new[i].item.group
            known[digest] = label
        return chosen

    def label(self, sample_ids: Sequence[int], label: str, who: str) -> EventOutcome:
        """Give stored samples a label, of a known or a new class, and learn them.

        Samples that have this label already are skipped; one with another label is a `Conflict`.
        """
        return self._label(LabelEvent, sample_ids, label, who)

    def label_cluster(
        self, cluster_id: int, label: str, who: str, without: Sequence[int] = ()
    ) -> EventOutcome:
        """Label the pending samples of a cluster, except those in `without`."""
        with self._log.exclusive():
            with self._database.read() as connection:
                members = clusters.members(connection, [cluster_id])
            excluded = set(without)
            ids = [i for i in members if i not in excluded]
            if not ids:
                raise NotFound(self._why_empty(cluster_id))
            return self.label(ids, label, who)

    def _why_empty(self, cluster_id: int) -> str:
        with self._database.read() as connection:
            existed = clusters.ever_existed(connection, cluster_id)
        if not existed:
            return f"There is no cluster {cluster_id}."
        return f"Nothing is left in cluster {cluster_id}: others labeled or dismissed it."

    def accept(self, sample_id: int, label: str, who: str) -> EventOutcome:
        """Label a rejected sample as one of a known class; the threshold takes it into account."""
        return self._label(AcceptEvent, [sample_id], label, who)

    def _label(self, kind: type[LabelEvent], sample_ids: Sequence[int], label: str, who: str) -> EventOutcome:
        name = self.check_label(label)
        with self._log.exclusive():
            found = self.find(sample_ids, who)
            for sample in found:
                if sample.label not in (None, name):
                    raise Conflict(
                        f"Sample {sample.id} was labeled {sample.label!r} by {sample.who} before, not "
                        f"{name!r}. If that is wrong, undo it, or move the sample on the page of its class."
                    )
            if kind is AcceptEvent and name not in self._names():
                raise NotFound(f"There is no class {name!r} yet: label the sample to make one.")
            chosen = [sample for sample in found if sample.label is None]
            if not chosen:
                return self._nothing(kind)
            groups = groups_of(sample.group for sample in chosen)
            return self._log.append(kind([sample.id for sample in chosen], name, groups), who)

    def relabel(self, sample_ids: Sequence[int], label: str | None, who: str, *, admin: bool) -> EventOutcome:
        """Give labeled samples another label; None returns them to the pool.

        Samples that have the label already are skipped. The events that labeled the others are undone and
        appended again without them, so the model is as if it had never learned them under the old label.

        Raises
        ------
        Refused
            If another person labeled one of them and `admin` is false, or if a later event builds on one of
            these events, such as a new name of the class that it made.
        """
        with self._log.exclusive():
            name = None if label is None else self.check_label(label)
            found = [s for s in self.find(sample_ids, who) if s.state == "labeled" and s.label != name]
            moved = {sample.id for sample in found}
            if not moved:
                return self._nothing(LabelEvent)
            others = sorted({str(sample.who) for sample in found} - {who})
            if others and not admin:
                raise Refused(f"{others[0]} labeled some of these samples: only an admin may change that.")
            with self._database.read() as connection:
                given = labeled_with(connection, sorted(moved))
                records = {record.id: record for record in events.read(connection, sorted(given))}
            rest = [_without(self._log.event(records[i]), moved, given[i]) for i in sorted(given)]
            outcome = self._undo_all(sorted(given, reverse=True), who)
            for event in rest:
                if event is not None:
                    outcome = self._log.append(event, who)
            return outcome if name is None else self.label(sorted(moved), name, who)

    def _undo_all(self, event_ids: Sequence[int], who: str) -> EventOutcome:
        """Undo all of some events, or none where a later event builds on one of them."""
        undone: list[int] = []
        try:
            for event_id in event_ids:
                outcome = self._history.undo(who, event_id)
                undone.append(event_id)
        except Refused:
            for event_id in reversed(undone):
                self._history.redo(who, event_id)
            raise
        return outcome

    def dismiss(self, sample_ids: Sequence[int], reason: str, who: str) -> EventOutcome:
        """Take samples out of the pool: bad input, or not a class."""
        check_text(reason, "The reason")
        with self._log.exclusive():
            found = self.find(sample_ids, who)
            for sample in found:
                if sample.state == "labeled":
                    raise Conflict(f"Sample {sample.id} is labeled {sample.label!r}: undo that label first.")
            ids = [sample.id for sample in found if sample.state != "dismissed"]
            kind = self._kind_of_dismissal()
            return self._log.append(kind(ids, reason), who) if ids else self._nothing(kind)

    def _kind_of_dismissal(self) -> type[DismissEvent]:
        """Return the event that also teaches the model, where the settings and the model allow that."""
        with self._log.model.reading() as (model, _):
            learns = self._learn_unknowns and is_adjustable(model)
        return DismissUnknownEvent if learns else DismissEvent

    def erase(self, sample_ids: Sequence[int], who: str) -> EventOutcome:
        """Delete samples and all that was derived from them, from the model too; this cannot be undone.

        Raises
        ------
        Refused
            If a later event needs what they taught, such as the renaming of a class of no other sample.
        """
        with self._log.exclusive():
            found = self.find(sample_ids, who)
            return self._log.append(EraseEvent([sample.id for sample in found]), who)

    def preview(self, sample_ids: Sequence[int], label: str) -> Preview:
        """Return what labeling these samples would change, without doing it."""
        found = self.find(sample_ids, None)
        with self._database.read() as connection:
            features = samples.features_of(connection, [sample.id for sample in found])
        labels = self._names()
        with self._log.model.reading() as (model, version):
            mean = features.mean(axis=0, keepdims=True, dtype=np.float64)
            nearest = Verdict.of(model.judge(mean, self._n_nearest), 0, version).nearest
        problem = None
        try:
            label = self.check_label(label)
        except Refused as error:
            problem = str(error)
        return Preview(
            label,
            label not in labels,
            sum(sample.label is None for sample in found),
            nearest,
            _similar_names(label, labels),
            {sample.id: sample.label for sample in found if sample.label is not None},
            problem,
        )

    def progress(self, who: str) -> LabelingProgress:
        """Count samples by state, of all people and of one."""
        with self._database.read() as connection:
            all_, mine = count_states(connection), count_states(connection, who)
        return LabelingProgress(
            all_.get("pending", 0),
            all_.get("recognized", 0),
            all_.get("labeled", 0),
            all_.get("dismissed", 0),
            mine.get("labeled", 0),
            mine.get("dismissed", 0),
        )

    def find(self, sample_ids: Sequence[int], who: str | None) -> list[Sample]:
        """Return samples in the order given; with `who`, raise `Conflict` where another person holds one."""
        ids = list(dict.fromkeys(sample_ids))
        if not ids:
            raise Refused("No samples were given.")
        with self._database.read() as connection:
            found = samples.find(connection, ids)
            missing = [i for i in ids if i not in found]
            if missing:
                raise NotFound(f"There is no sample {missing[0]}.")
            holder = None if who is None else clusters.held_by_others(connection, ids, who)
        if holder is not None:
            raise Conflict(f"{holder} is working on these samples now.")
        return [found[i] for i in ids]

    def check_label(self, label: str) -> str:
        """Return the name of a class as it is stored, or raise `Refused`."""
        with self._log.model.reading() as (model, _):
            # A class of the first model may have a name that `check_name` would change.
            name = label if label in model.statistics_ else check_name(label)
            if name == model.unknown_label_:
                raise Refused(f"{name!r} is the model's label for unknown: choose another name.")
        return name

    def _names(self) -> list[str]:
        with self._log.model.reading() as (model, _):
            return [str(label) for label in model.classes_]

    def _nothing(self, kind: type[WorldEvent]) -> EventOutcome:
        """Return the outcome of a request that left nothing to do."""
        return EventOutcome(None, kind.kind, self._log.model.version)


def _similar_names(label: str, labels: Sequence[str]) -> tuple[str, ...]:
    """Return other labels that look similar, most similar first."""
    folded: dict[str, list[str]] = {}
    for name in labels:
        if name != label:
            folded.setdefault(name.casefold(), []).append(name)
    close = get_close_matches(label.casefold(), folded, n=5, cutoff=0.8)
    return tuple(name for key in close for name in folded[key])


def _without(event: WorldEvent, moved: Set[int], labels: Mapping[int, str]) -> WorldEvent | None:
    """Return an event without some samples, its labels as they are now; None if no sample is left."""
    if not isinstance(event, LabelEvent | LearnEvent | FeedbackEvent):
        raise Refused(f"Samples of an event of kind {event.kind!r} cannot be moved.")
    rest = event.without(moved)
    if not rest.samples:
        return None
    if isinstance(rest, LabelEvent):
        return replace(rest, label=labels[rest.samples[0]])
    if isinstance(rest, LearnEvent):
        return replace(rest, labels=[labels[i] for i in rest.samples])
    rows = zip(rest.samples, rest.labels, strict=True)
    return replace(rest, labels=[labels.get(i, label) for i, label in rows])
