"""The recognizer protocol: what the service, the evaluation and distributed learning ask of a recognizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.threshold import Objective

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Judgement:
    """All that a recognizer says about n samples, computed in one pass.

    Attributes
    ----------
    labels : array of shape (n,)
        The class, or the unknown label; as `predict` returns them.
    accepted : bool array of shape (n,)
        False where the answer is unknown.
    decision : array of shape (n,)
        The largest decision of each sample. Positive accepts, except for recognizers that always accept.
    membership : array of shape (n,)
        How likely the sample is of the class with the largest decision, from 0 to 1.
    nearest : array of shape (n, k)
        The k nearest classes, nearest first.
    distances : array of shape (n, k)
        The distances to these, ascending.
    memberships : array of shape (n, k)
        How likely the sample is of each of these, from 0 to 1.
    threshold : float
        The threshold in force, `threshold_` of the recognizer.
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


class Recognizer(Protocol):
    """What every recognizer has, the baselines too.

    Attributes
    ----------
    accepts_bounded_region : bool
        Whether the answer far from all data is unknown, in every direction.
    calibrates_itself : bool
        Whether the threshold follows what is learned. Otherwise `fit` finds it once, on samples held out.
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
        """The threshold in force, in the recognizer's own unit."""
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
        """Return the decision on every class, shape (n, K)."""
        ...

    def judge(self, X: ArrayLike, n: int = 5) -> Judgement:
        """Return answer, decision, membership and the n nearest classes of each sample, in one pass."""
        ...

    def refresh(self) -> Self:
        """Compute now what the next prediction would compute first.

        Afterwards predictions change nothing in the model, so that many threads may make them.
        """
        ...


class EditableRecognizer(Recognizer, Protocol):
    """A recognizer whose classes can be corrected and whose models can be added: one that can be served.

    Attributes
    ----------
    keeps_samples : bool
        Whether it keeps samples of its classes (`reservoir_`), and a metric that can be made without them.
    """

    keeps_samples: bool

    @property
    def statistics_(self) -> ClassStatistics:
        """What was learned about the classes."""
        ...

    @property
    def metric_(self) -> Any:
        """The metric in use: its `transform` maps samples to the space where distances are taken."""
        ...

    def class_mean(self, label: Any) -> Floats:
        """Return a point in feature space that stands for a class, shape (D,)."""
        ...

    def nearest_classes(self, X: ArrayLike, n: int = 5) -> tuple[NDArray[Any], NDArray[np.floating[Any]]]:
        """Return labels of and distances to the n nearest classes, shapes (n_samples, n)."""
        ...

    def relax_threshold(self, X: ArrayLike, y: ArrayLike) -> None:
        """Take into account samples of known classes that were rejected by mistake and learned since."""
        ...

    def forget_class(self, label: Any) -> None:
        """Forget a class."""
        ...

    def rename_class(self, old: Any, new: Any) -> None:
        """Give a class another name that no class has yet."""
        ...

    def merge_classes(self, labels: Iterable[Any], into: Any) -> None:
        """Make one class of several."""
        ...

    def restorer(self, labels: Iterable[Any]) -> Callable[[], None]:
        """Return a function that undoes the next change of these classes, to the last bit.

        The functions of several changes are called in the reverse order.
        """
        ...

    def without_classes(self) -> Self:
        """Return a copy that knows no class yet, to learn a part on another machine."""
        ...

    def __add__(self, other: Self) -> Self: ...


class AdjustableRecognizer(EditableRecognizer, Protocol):
    """A recognizer with an operating point: its threshold follows an objective and known unknowns."""

    objective: Objective

    def set_objective(self, objective: Objective) -> Self:
        """Move the operating point."""
        ...

    def with_objective(self, objective: Objective) -> Self:
        """Return the model at another operating point, to compare."""
        ...

    def learn_unknown(self, X: ArrayLike) -> Self:
        """Learn samples that are of no class."""
        ...


def is_adjustable(recognizer: Recognizer) -> TypeGuard[AdjustableRecognizer]:
    """Tell whether a recognizer has an operating point that can be moved."""
    return hasattr(type(recognizer), "set_objective")
