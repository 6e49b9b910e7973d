"""What an act does to a model: the one function behind serving, starting again, undoing and going back.

All four must agree to the last bit, so a model is always brought up to date at once, and never when it is
first asked: with a metric that is refreshed now and then, the moment would make a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.recognition import NearestNonOutlier, OpenWorldRecognizer
from openworld.service.results import Refused
from openworld.store.log import Entry

Features = NDArray[np.floating[Any]]
Model = OpenWorldRecognizer | NearestNonOutlier

# How far towards a wrongly rejected sample tau moves.
_HEED = 0.1


@dataclass(frozen=True)
class Lesson:
    """Samples to learn. `accepted`: known ones that were rejected, which the threshold heeds."""

    X: Features
    labels: Sequence[str]
    accepted: bool = False


@dataclass(frozen=True)
class Renaming:
    """Another name for a class."""

    old: str
    new: str


@dataclass(frozen=True)
class Merging:
    """One class of several."""

    labels: Sequence[str]
    into: str


@dataclass(frozen=True)
class Forgetting:
    """A class to forget."""

    label: str


Step = Lesson | Renaming | Merging | Forgetting


def step_of(entry: Entry, features: Callable[[Sequence[int]], Features]) -> Step:
    """Return what a learning act of the log does to a model."""
    payload = entry.payload
    match entry.kind:
        case "learn":
            return Lesson(features(payload["samples"]), payload["labels"])
        case "label" | "accept":
            ids = payload["samples"]
            return Lesson(features(ids), [payload["label"]] * len(ids), accepted=entry.kind == "accept")
        case "rename":
            return Renaming(payload["old"], payload["new"])
        case "merge":
            return Merging(payload["labels"], payload["into"])
        case "forget":
            return Forgetting(payload["label"])
    raise ValueError(f"Act {entry.id} ({entry.kind}) does not change the model.")


def apply(model: Model, step: Step) -> None:
    """Change a model by one step and bring it up to date.

    Raises
    ------
    Refused
        If the model cannot take the step. It may then be half changed: throw it away.
    """
    try:
        match step:
            case Lesson():
                model.partial_fit(step.X, np.array(step.labels))
                if step.accepted:
                    _heed(model, step)
            case Renaming():
                model.rename_class(step.old, step.new)
            case Merging():
                model.merge_classes(step.labels, step.into)
            case Forgetting():
                model.forget_class(step.label)
        bring_up_to_date(model)
    except (ValueError, TypeError, LookupError) as error:
        raise Refused(error.args[0] if error.args else str(error)) from error


def bring_up_to_date(model: Model) -> None:
    """Compute all that predictions need, so that predicting changes nothing and many threads may do it."""
    model.predict(np.zeros((1, model.n_features_in_), dtype=np.float32))


def _heed(model: Model, lesson: Lesson) -> None:
    """Move tau a part of the way to samples that are still rejected.

    `OpenWorldRecognizer` finds its threshold anew from samples it keeps, these among them.
    """
    if isinstance(model, NearestNonOutlier):
        columns = np.searchsorted(model.classes_, lesson.labels)
        decisions = model.decision_function(lesson.X)[np.arange(len(columns)), columns]
        for lack in -np.minimum(decisions, 0):
            model.tau_ += _HEED * float(lack) * model.tau_
