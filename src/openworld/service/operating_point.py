"""The operating point: how strictly the model rejects, what another objective would change, and moving it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openworld.recognition import OpenWorldRecognizer, parse_objective
from openworld.recognition.threshold import Objective
from openworld.service.event_log import EventLog
from openworld.service.events import ObjectiveEvent
from openworld.service.live_model import Model
from openworld.service.recognized import RecognizedSamples
from openworld.service.results import Conflict, Outcome, PoolFilter, Refused
from openworld.store import pool
from openworld.store.samples import POOL, Features, features_of, find

_NEWEST = 2000  # samples of a kind that a preview looks at


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
        wanted = None if preview is None else _parsed(preview)
        with self._log.model.reading() as (model, version):
            objective = str(model.objective) if isinstance(model, OpenWorldRecognizer) else None
            found = None if wanted is None else self._preview(_checked(model), wanted)
            return OperatingPoint(objective, model.threshold_, version, found)

    def _preview(self, model: OpenWorldRecognizer, objective: Objective) -> ObjectivePreview:
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

    def move(self, objective: str, who: str) -> Outcome:
        """Move the operating point to where an objective asks for, as an event that can be undone."""
        wanted = str(_parsed(objective))
        with self._log.exclusive():
            with self._log.model.reading() as (model, version):
                if str(_checked(model).objective) == wanted:
                    return Outcome(None, ObjectiveEvent.kind, version)
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


def _parsed(text: str) -> Objective:
    try:
        return parse_objective(text)
    except ValueError as error:
        raise Refused(str(error)) from error


def _checked(model: Model) -> OpenWorldRecognizer:
    if not isinstance(model, OpenWorldRecognizer):
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
