"""The recognizer protocol: what the service, the evaluation and distributed learning rely on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openworld.index.growing_rows import Restorer
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.threshold import Objective

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Judgement:
    """A recognizer's full answer for n samples, computed in one pass.

    Attributes
    ----------
    labels : array of shape (n,)
        Class or unknown label of each sample, as returned by `predict`.
    accepted : bool array of shape (n,)
        False where the sample is unknown.
    decision : array of shape (n,)
        The largest value of `decision_function`. A sample is accepted where it is positive, or always by a
        recognizer that never rejects.
    membership : array of shape (n,)
        Membership, from 0 to 1, of the class with the largest decision.
    nearest : array of shape (n, k)
        The k nearest classes, nearest first.
    distances : array of shape (n, k)
        Distances to the nearest classes, ascending.
    memberships : array of shape (n, k)
        Memberships, from 0 to 1, of the nearest classes.
    threshold : float
        The recognizer's `threshold_`.
    """

    labels: NDArray[Any]
    accepted: NDArray[np.bool_]
    decision: Floats
    membership: Floats
    nearest: NDArray[Any]
    distances: Floats
    memberships: Floats
    threshold: float

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def joined(cls, judgements: Sequence[Judgement]) -> Judgement:
        """Return the judgements of several batches by one model as one; of no batches, an empty one."""
        if not judgements:
            one, several = np.empty(0), np.empty((0, 0))
            return cls(one, one.astype(bool), one, one, several, several, several, np.nan)
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(judgement, name) for judgement in judgements])
            for name in vars(judgements[0])
            if name != "threshold"
        }
        return replace(judgements[0], **arrays)


class Recognizer(Protocol):
    """Protocol of every recognizer, including the baselines.

    Attributes
    ----------
    accepts_bounded_region : bool
        Whether samples far from all data are unknown, in every direction.
    calibrates_itself : bool
        Whether learning updates the threshold. Otherwise `fit` sets it once, on held-out samples.
    """

    accepts_bounded_region: bool
    calibrates_itself: bool
    unknown_label_: Any
    n_features_in_: int

    @property
    def classes_(self) -> NDArray[Any]:
        """The known classes, sorted."""
        ...

    @property
    def threshold_(self) -> float:
        """The current threshold, on the recognizer's own scale."""
        ...

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the starting classes."""
        ...

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn further samples, of known and of new classes."""
        ...

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each sample, or the unknown label."""
        ...

    def decision_function(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return the decision value of every class, shape (n, K)."""
        ...

    def judge(self, X: ArrayLike, n: int = 5) -> Judgement:
        """Return answer, decision, membership and the n nearest classes of each sample, in one pass."""
        ...

    def refresh(self) -> Self:
        """Compute now what the next prediction would otherwise compute first.

        After that, predictions do not modify the model, so several threads may predict at the same time.
        """
        ...


class EditableRecognizer(Recognizer, Protocol):
    """Protocol of recognizers that can be served: classes can be corrected, and models can be added.

    Attributes
    ----------
    keeps_samples : bool
        Whether the recognizer keeps samples of its classes (`reservoir_`) and can compute its metric without
        them.
    """

    keeps_samples: bool

    @property
    def statistics_(self) -> ClassStatistics:
        """Counts and sums of the classes."""
        ...

    @property
    def metric_(self) -> Any:
        """The current metric. Its `transform` maps samples to the space in which distances are measured."""
        ...

    def class_mean(self, label: Any) -> Floats:
        """Return the point in feature space that represents a class, shape (D,)."""
        ...

    def nearest_classes(self, X: ArrayLike, n: int = 5) -> tuple[NDArray[Any], NDArray[np.floating[Any]]]:
        """Return the labels of the n nearest classes and the distances to them, shapes (n_samples, n)."""
        ...

    def relax_threshold(self, X: ArrayLike, y: ArrayLike) -> None:
        """Adjust the threshold to samples of known classes that were rejected by mistake and then learned."""
        ...

    def forget_class(self, label: Any) -> None:
        """Forget a class."""
        ...

    def rename_class(self, old: Any, new: Any) -> None:
        """Rename a class. No other class may have the new name."""
        ...

    def merge_classes(self, labels: Iterable[Any], into: Any) -> None:
        """Merge several classes into one."""
        ...

    def refresh(self, like: Self | None = None) -> Self:
        """Compute now what the next prediction would compute first.

        `like` is a refreshed model that has learned the same: what it has computed may be copied.
        """
        ...

    def restorer(self, labels: Iterable[Any]) -> Restorer:
        """Return a function that undoes the next change to these classes exactly, to the last bit.

        To undo several changes, call their functions in reverse order.
        """
        ...

    def without_classes(self) -> Self:
        """Return a copy without classes, to learn part of the data on another machine."""
        ...

    def __add__(self, other: Self) -> Self: ...


class AdjustableRecognizer(EditableRecognizer, Protocol):
    """Protocol of recognizers with an operating point: an objective and known unknowns set the threshold."""

    objective: Objective

    def set_objective(self, objective: Objective) -> Self:
        """Change the operating point."""
        ...

    def with_objective(self, objective: Objective) -> Self:
        """Return a copy of the model at another operating point."""
        ...

    def learn_unknown(self, X: ArrayLike) -> Self:
        """Learn samples that belong to no class."""
        ...


def is_adjustable(recognizer: Recognizer) -> TypeGuard[AdjustableRecognizer]:
    """Return whether a recognizer has an operating point that can be changed."""
    return hasattr(type(recognizer), "set_objective")
