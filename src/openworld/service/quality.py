"""Quality: how often recognition is right, by reviews of recognized samples, and how strictly it rejects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import binomtest

from openworld.recognition import AdjustableRecognizer, is_adjustable, parse_objective
from openworld.recognition.threshold import Objective
from openworld.service.event_log import EventLog
from openworld.service.events import FeedbackEvent, ObjectiveEvent
from openworld.service.labels import Labels
from openworld.service.live_model import Model
from openworld.service.replay import events_in_effect
from openworld.service.validation import Conflict, Refused
from openworld.service.world_event import EventOutcome, groups_of
from openworld.store import events, pool
from openworld.store.pool import count_answers
from openworld.store.records import RANDOM, PoolFilter
from openworld.store.samples import POOL, Features, features_of, find

_NEWEST = 2000  # at most so many samples of each kind are counted in a preview


@dataclass(frozen=True)
class Review:
    """What a person says about a recognized sample: right, or it is `label`, or unknown (a label of None)."""

    sample_id: int
    right: bool
    label: str | None = None


@dataclass(frozen=True)
class Share:
    """A share of the reviewed samples, with a 95 % interval (Wilson); without samples it is from 0 to 1."""

    count: int
    of: int
    low: float
    high: float

    @classmethod
    def of_counts(cls, count: int, of: int) -> Share:
        """Return the share of some samples among others."""
        if not of:
            return cls(0, 0, 0.0, 1.0)
        interval = binomtest(count, of).proportion_ci(method="wilson")
        return cls(count, of, float(interval.low), float(interval.high))


@dataclass(frozen=True)
class Quality:
    """How often recognition is right, estimated from reviewed samples of the random share.

    Every sample has the same chance to be drawn when it arrives, whether it is recognized then or not. So
    this estimates the answers, as of the review, to all samples that were recognized on arrival or later by
    a newer version, within the limits of retention. Samples that people labeled while they were unknown are
    not among them. The estimate is unbiased if the random samples are reviewed as they come, not chosen.

    `right` are answers that name the true class; `wrong_accepts` name a class for a sample of none. `label`
    is None for all classes together. `reviewed` counts all reviews, also of samples kept for being uncertain.
    """

    label: str | None
    right: Share
    wrong_accepts: Share
    reviewed: int


@dataclass(frozen=True)
class Confusion:
    """How often a class and another one (None: unknown) were confused, by reviews.

    `taken_for_it` counts the samples of the other class that were called this one, `called_other` the samples
    of this class that were called the other.
    """

    other: str | None
    taken_for_it: int
    called_other: int


class RecognizedSamples:
    """The recognized samples that were kept, and what people say about them."""

    def __init__(self, log: EventLog, labels: Labels) -> None:
        self._log, self._labels = log, labels

    def counts(self) -> dict[str, int]:
        """Count the kept samples of each class, largest count first."""
        with self._log.database.read() as connection:
            found = count_answers(connection)
        return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))

    def feedback(self, reviews: Sequence[Review], who: str) -> EventOutcome:
        """Learn from reviews of recognized samples; those that say nothing new are skipped."""
        by_id = {review.sample_id: review for review in reviews}
        with self._log.exclusive():
            found = self._labels.find(list(by_id), who)
            chosen = []
            for sample in found:
                review = by_id[sample.id]
                if sample.answer is None:
                    raise Refused(f"Sample {sample.id} was not recognized: label it instead.")
                label = sample.answer if review.right else review.label
                label = None if label is None else self._labels.check_label(label)
                if sample.state == "labeled" and sample.label == label:
                    continue
                if sample.state in ("labeled", "dismissed"):
                    raise Conflict(f"Sample {sample.id} was {sample.state} by {sample.who}: undo that first.")
                chosen.append((sample, label))
            if not chosen:
                return EventOutcome(None, FeedbackEvent.kind, self._log.model.version)
            event = FeedbackEvent(
                [sample.id for sample, _ in chosen],
                [label for _, label in chosen],
                [str(sample.answer) for sample, _ in chosen],
                [sample.kept in RANDOM for sample, _ in chosen],
                groups_of(sample.group for sample, _ in chosen),
            )
            return self._log.append(event, who)

    def reviewed(self, limit: int) -> dict[int, str | None]:
        """Return the samples reviewed last and what they are: a class, or None for no known one."""
        found: dict[int, str | None] = {}
        for payload in self._payloads():
            for sample, label in zip(payload["samples"], payload["labels"], strict=True):
                found.pop(sample, None)  # only the latest review of a sample counts
                found[sample] = label
        return dict(list(found.items())[-limit:])

    def _payloads(self) -> list[Mapping[str, Any]]:
        """Return the reviews in effect, oldest first."""
        with self._log.database.read() as connection:
            in_effect = set(events_in_effect(self._log.headers))
            ids = [h.id for h in self._log.headers if h.kind == FeedbackEvent.kind and h.id in in_effect]
            return [record.payload for record in events.read(connection, ids)]

    def confused_with(self, label: str) -> list[Confusion]:
        """Return what reviews say a class is confused with, most often first."""
        rows = [row for payload in self._payloads() for row in _review_rows(payload)]
        wrong = Counter((answer, true) for answer, true, _ in rows if answer != true)
        others = {true for answer, true in wrong if answer == label} | {
            a for a, true in wrong if true == label
        }
        found = [Confusion(other, wrong[label, other], wrong[str(other), label]) for other in others]
        return sorted(found, key=lambda one: (-one.taken_for_it - one.called_other, str(one.other)))

    def quality(self) -> list[Quality]:
        """Estimate how often recognition is right: first of all classes together, then of each class."""
        rows = [row for payload in self._payloads() for row in _review_rows(payload)]
        answers = sorted({answer for answer, _, _ in rows})
        return [
            _quality(None, rows),
            *(_quality(answer, [row for row in rows if row[0] == answer]) for answer in answers),
        ]


def _review_rows(payload: Any) -> Iterable[tuple[str, str | None, bool]]:
    return zip(payload["answers"], payload["labels"], payload["random"], strict=True)


def _quality(label: str | None, rows: Sequence[tuple[str, str | None, bool]]) -> Quality:
    drawn = [(answer, true) for answer, true, random in rows if random]
    right = sum(answer == true for answer, true in drawn)
    accepted = sum(true is None for _, true in drawn)
    return Quality(
        label, Share.of_counts(right, len(drawn)), Share.of_counts(accepted, len(drawn)), len(rows)
    )


# -- the operating point --------------------------------------------------------------------------


@dataclass(frozen=True)
class ObjectivePreview:
    """What another objective would change, counted on the newest samples of each kind, 2,000 at most.

    Attributes
    ----------
    objective : str
    threshold : float
    pending, would_be_known : int
        Samples in the pool, and how many of them would leave it.
    recognized, would_be_unknown : int
        Recognized samples that were kept, and how many of them would be unknown.
    reviewed, wrong_now, wrong_then : int
        Recognized samples that a person has reviewed, and how many the model answers wrongly, now and then:
        it names another class than the right one, or a class where there is none.
    """

    objective: str
    threshold: float
    pending: int
    would_be_known: int
    recognized: int
    would_be_unknown: int
    reviewed: int
    wrong_now: int
    wrong_then: int


@dataclass(frozen=True)
class OperatingPoint:
    """The objective in force, and what another would change, where one was given.

    `objective` is None for a model that has no objective, only a threshold.
    """

    objective: str | None
    threshold: float
    model_version: int
    preview: ObjectivePreview | None = None


class OperatingPoints:
    """The operating point of the live model."""

    def __init__(self, log: EventLog, recognized: RecognizedSamples) -> None:
        self._log, self._recognized = log, recognized

    def get(self, preview: str | None = None) -> OperatingPoint:
        """Return the operating point in force; with an objective, also what that would change."""
        wanted = None if preview is None else _parsed_objective(preview)
        with self._log.model.reading() as (model, version):
            objective = str(model.objective) if is_adjustable(model) else None
            found = None if wanted is None else self._preview(_adjustable(model), wanted)
            return OperatingPoint(objective, model.threshold_, version, found)

    def _preview(self, model: AdjustableRecognizer, objective: Objective) -> ObjectivePreview:
        pending, recognized, reviewed, truths = self._samples()
        try:
            other = model.with_objective(objective)
        except ValueError as error:  # no threshold reaches it
            raise Refused(str(error)) from error
        return ObjectivePreview(
            str(objective),
            other.threshold_,
            len(pending),
            len(pending) - _n_unknown(other, pending),
            len(recognized),
            _n_unknown(other, recognized),
            len(reviewed),
            _n_wrong(model, reviewed, truths),
            _n_wrong(other, reviewed, truths),
        )

    def move(self, objective: str, who: str) -> EventOutcome:
        """Change the objective of the operating point, as an event that can be undone."""
        wanted = str(_parsed_objective(objective))
        with self._log.exclusive():
            with self._log.model.reading() as (model, version):
                if str(_adjustable(model).objective) == wanted:
                    return EventOutcome(None, ObjectiveEvent.kind, version)
            return self._log.append(ObjectiveEvent(wanted), who)

    def _samples(self) -> tuple[Features, Features, Features, list[str | None]]:
        """Return features of pending, kept and reviewed samples, and the right labels of the last."""
        truths = self._recognized.reviewed(_NEWEST)
        with self._log.database.read() as connection:
            newest = [PoolFilter(state, newest_first=True) for state in POOL]
            pending, recognized = (
                features_of(connection, pool.ids(connection, where, _NEWEST)) for where in newest
            )
            left = find(connection, list(truths))  # others were erased
            reviewed = features_of(connection, list(left))
        return pending, recognized, reviewed, [truths[i] for i in left]


def _parsed_objective(text: str) -> Objective:
    try:
        return parse_objective(text)
    except ValueError as error:
        raise Refused(str(error)) from error


def _adjustable(model: Model) -> AdjustableRecognizer:
    if not is_adjustable(model):
        raise Conflict(f"A {type(model).__name__} has no operating point to move: its threshold is fixed.")
    return model


def _n_unknown(model: Model, features: Features) -> int:
    return sum(answer is None for answer in _answers(model, features))


def _n_wrong(model: Model, features: Features, truths: Sequence[str | None]) -> int:
    """Count the samples that are accepted as another class than the right one."""
    pairs = zip(_answers(model, features), truths, strict=True)
    return sum(answer is not None and answer != truth for answer, truth in pairs)


def _answers(model: Model, features: Features) -> list[str | None]:
    if not len(features):
        return []
    judgement = model.judge(features, 1)
    pairs = zip(judgement.labels.tolist(), judgement.accepted.tolist(), strict=True)
    return [label if accepted else None for label, accepted in pairs]
