"""Choosing tau by cross-class validation: some training classes are treated as unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_consistent_length

from openworld.index import ExactIndex
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.validation import as_float, check_labels, stratified_draw

Floats = NDArray[np.float64]
# Maps squared distances to the known means to the value that is compared with tau.
Outlyingness = Callable[[NDArray[np.floating[Any]]], Floats]


class Objective(Protocol):
    """What a threshold is optimized for.

    If an objective has a true attribute `named_right`, only correctly classified known samples count as
    accepted; otherwise every accepted known sample does.
    """

    def value(self, known: Floats, unknown: Floats, n_known: int, n_unknown: int) -> Floats:
        """Return the value of every possible cut; larger is better, minus infinity is not allowed.

        Parameters
        ----------
        known, unknown : arrays of shape (n_cuts,)
            Number of known and of unknown samples that each cut accepts, both ascending.
        n_known, n_unknown : int
            Number of known and of unknown samples.
        """
        ...


@dataclass(frozen=True)
class F1:
    """Maximize F1 while accepting at least a share `min_recall` of the known samples.

    ``F1 = 2 k / (k + u + N)`` where k of N known samples and u unknown samples are accepted. The authors
    used `min_recall` = 0.9; 0 gives plain F1.
    """

    min_recall: float = 0.9

    def __str__(self) -> str:
        return f"f1={self.min_recall:g}"

    def value(self, known: Floats, unknown: Floats, n_known: int, n_unknown: int) -> Floats:
        """Return F1 for cuts that reach the minimum recall."""
        return np.where(known / n_known >= self.min_recall, 2 * known / (known + unknown + n_known), -np.inf)


@dataclass(frozen=True)
class FalseAcceptRate:
    """Accept as many known samples as possible while accepting at most a share `rate` of the unknown ones."""

    rate: float = 0.05

    def __str__(self) -> str:
        return f"far={self.rate:g}"

    def value(self, known: Floats, unknown: Floats, n_known: int, n_unknown: int) -> Floats:
        """Return the number of accepted known samples for cuts that keep the false accept rate."""
        return np.where(unknown / n_unknown <= self.rate, known, -np.inf)


@dataclass(frozen=True)
class KnownRecall:
    """Accept as few unknown samples as possible while accepting a share `recall` of the known ones."""

    recall: float = 0.95

    def __str__(self) -> str:
        return f"recall={self.recall:g}"

    def value(self, known: Floats, unknown: Floats, n_known: int, n_unknown: int) -> Floats:
        """Return minus the number of accepted unknown samples for cuts that reach the recall."""
        return np.where(known / n_known >= self.recall, -unknown, -np.inf)


@dataclass(frozen=True)
class MinOpenWorldError:
    """Minimize the open-world error (Eq. 9).

    A misclassified known sample is an error whether it is accepted or rejected, so only correctly classified
    known samples count.
    """

    named_right = True

    def __str__(self) -> str:
        return "error"

    def value(self, known: Floats, unknown: Floats, n_known: int, n_unknown: int) -> Floats:
        """Return 1 minus the open-world error (Eq. 9)."""
        return np.asarray(known / n_known - unknown / n_unknown)


OpenWorldError = MinOpenWorldError  # deprecated: it is an objective, not an exception


def parse_objective(text: str) -> Objective:
    """Parse an objective: ``error``, ``f1``, ``far=0.05`` or ``recall=0.95``.

    - ``error``: minimize the open-world error, which weights known and unknown samples equally
    - ``f1``, ``f1=0.9``: maximize F1 while accepting at least that share of the known samples
    - ``far=0.05``: accept as many known samples as possible and at most that share of the unknown ones
    - ``recall=0.95``: accept as few unknown samples as possible and at least that share of the known ones

    ``str(objective)`` is the inverse.
    """
    word, _, number = text.strip().lower().partition("=")
    kinds: dict[str, Callable[..., Objective]] = {"f1": F1, "far": FalseAcceptRate, "recall": KnownRecall}
    try:
        if word == "error" and not number:
            return MinOpenWorldError()
        share = [float(number)] if number else []
        if word not in kinds or any(not 0 <= value <= 1 for value in share):
            raise ValueError
    except ValueError:
        raise ValueError(
            f"There is no objective {text!r}. Use error, f1, far=0.05 or recall=0.95; shares are 0 to 1."
        ) from None
    return kinds[word](*share)


def best_threshold(
    known: ArrayLike,
    unknown: ArrayLike,
    objective: Objective,
    right: ArrayLike = True,
    *,
    slack: float = 0.0,
) -> tuple[float, float]:
    """Find the optimal threshold exactly; values below it are accepted.

    One sort and one sweep, O(n log n), try a cut between every two neighboring distinct values. The threshold
    is the middle of the gap. Among equally good cuts, the one that accepts the fewest samples wins.

    Parameters
    ----------
    known, unknown : arrays
        Outlyingness of the known and of the unknown samples, for example their distances.
    objective : Objective
    right : bool array, default=True
        Whether each known sample would be classified correctly.
    slack : float, default=0
        Treat cuts as equally good if their values are at most this much below the best.

    Returns
    -------
    threshold, value : float
    """
    known, unknown = np.asarray(known, dtype=np.float64), np.asarray(unknown, dtype=np.float64)
    if not known.size or not unknown.size:
        raise ValueError("A threshold needs at least one known and one unknown sample.")
    if not np.all(np.isfinite(known)) or not np.all(np.isfinite(unknown)):
        raise ValueError("A threshold cannot be found among values that are NaN or infinite.")
    n_known = known.size
    if getattr(objective, "named_right", False):
        known = known[np.broadcast_to(np.asarray(right, dtype=bool), known.shape)]
    cuts = np.unique(np.concatenate([known, unknown]))
    # Cut 0 accepts nothing; cut i accepts the i smallest distinct values.
    accepted_known = np.r_[0, np.searchsorted(np.sort(known), cuts, side="right")].astype(np.float64)
    accepted_unknown = np.r_[0, np.searchsorted(np.sort(unknown), cuts, side="right")].astype(np.float64)
    values = objective.value(accepted_known, accepted_unknown, n_known, unknown.size)
    best = int(np.argmax(values >= values.max() - slack))
    if values[best] == -np.inf:
        raise ValueError(f"No threshold satisfies {objective!r}.")
    if best == 0:
        threshold = cuts[0]
    elif best == len(cuts):
        threshold = np.nextafter(cuts[-1], np.inf)
    else:
        threshold = cuts[best - 1] / 2 + cuts[best] / 2
        if threshold <= cuts[best - 1]:  # the two values are neighboring floats
            threshold = cuts[best]
    return float(threshold), float(values[best])


@dataclass(frozen=True)
class Calibration:
    """Result of cross-class validation, with the values of every fold to show how much they vary.

    Attributes
    ----------
    tau : float
        The average of the folds' thresholds.
    fold_taus, fold_values : tuple of float
        The optimal threshold of each fold, and the value of the objective there.
    fold_known_accepted, fold_unknown_rejected : tuple of float
        Share of known samples accepted, and of unknown samples rejected, at the fold's threshold.
    """

    tau: float
    fold_taus: tuple[float, ...]
    fold_values: tuple[float, ...]
    fold_known_accepted: tuple[float, ...]
    fold_unknown_rejected: tuple[float, ...]

    @property
    def deviation(self) -> float:
        """Standard deviation of the folds' thresholds."""
        return float(np.std(self.fold_taus))


def check_tau(tau: Any) -> float:
    """Return tau if it is a positive number."""
    if isinstance(tau, bool) or not isinstance(tau, Real) or not 0 < float(tau) < np.inf:
        raise ValueError(f"tau must be a positive number or a calibration object; got {tau!r}.")
    return float(tau)


class CrossClassValidation(BaseEstimator):  # type: ignore[misc]
    """Find tau by treating some of the training classes as unknown, over several folds.

    tau is found on held-out samples that were not used to learn the metric and the means, as in the paper,
    which estimates tau on validation data.

    Parameters
    ----------
    objective : Objective, default=F1(min_recall=0.9)
        `F1`, `FalseAcceptRate`, `KnownRecall`, `MinOpenWorldError`, or your own.
    n_folds : int, default=3
        Number of random splits of the classes; tau is the average of their optima.
    known_fraction : float, default=0.66
        Share of the classes that are known in each fold.
    validation_fraction : float, default=0.2
        Share of each class's samples to hold out. A class with a single sample has none held out.
    random_state : int, RandomState or None, default=0

    Notes
    -----
    The defaults of `objective`, `n_folds` and `known_fraction` are those of the authors.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "objective": [HasMethods(["value"])],
        "n_folds": [Interval(Integral, 1, None, closed="left")],
        "known_fraction": [Interval(Real, 0, 1, closed="neither")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        objective: Objective = F1(min_recall=0.9),  # noqa: B008 -- frozen
        *,
        n_folds: int = 3,
        known_fraction: float = 0.66,
        validation_fraction: float = 0.2,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.objective = objective
        self.n_folds = n_folds
        self.known_fraction = known_fraction
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def held_out(self, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Choose the samples to hold out: a share of each class, leaving at least one to learn from."""
        self._validate_params()
        order = check_random_state(self.random_state).permutation(len(codes))
        return stratified_draw(codes, self.validation_fraction, order)

    def find(
        self,
        outlyingness: Callable[[NDArray[np.bool_]], Floats],
        codes: NDArray[np.intp],
        n_classes: int,
    ) -> Calibration:
        """Find tau.

        Parameters
        ----------
        outlyingness : callable
            Takes a mask of the known classes, shape (K,), and returns the outlyingness of each held-out
            sample for each known class, shape (n, number of known classes).
        codes : array of shape (n,)
            The class of each held-out sample, below `n_classes`; -1 for a sample that is always unknown.
        n_classes : int
        """
        self._validate_params()
        judged = np.unique(codes[codes >= 0])
        if len(judged) < 2:
            raise ValueError(
                "Cross-class validation needs at least 2 classes with 2 samples each, one to treat as known "
                f"and one as unknown; got {len(judged)} such class(es). Give more classes or samples, or set "
                "tau to a number."
            )
        random_state = check_random_state(self.random_state)
        n_known = int(np.clip(round(self.known_fraction * len(judged)), 1, len(judged) - 1))
        folds = []
        for _ in range(self.n_folds):
            unknown_classes = random_state.permutation(judged)[n_known:]
            folds.append(self._fold(outlyingness, codes, n_classes, unknown_classes))
        taus, values, accepted, rejected = (tuple(column) for column in zip(*folds, strict=True))
        return Calibration(float(np.mean(taus)), taus, values, accepted, rejected)

    def _fold(
        self,
        outlyingness: Callable[[NDArray[np.bool_]], Floats],
        codes: NDArray[np.intp],
        n_classes: int,
        unknown_classes: NDArray[np.intp],
    ) -> tuple[float, float, float, float]:
        is_known = np.ones(n_classes, dtype=bool)
        is_known[unknown_classes] = False
        outlying = outlyingness(is_known)
        named, least = np.flatnonzero(is_known)[outlying.argmin(axis=1)], outlying.min(axis=1)
        of_known = (codes >= 0) & is_known[codes]
        known, unknown = least[of_known], least[~of_known]
        tau, value = best_threshold(known, unknown, self.objective, (named == codes)[of_known])
        return tau, value, float(np.mean(known < tau)), float(np.mean(unknown >= tau))


def calibrator_of(tau: Any) -> CrossClassValidation | None:
    """Return the calibrator that the parameter `tau` selects; None if tau is a number."""
    if tau is None:
        return CrossClassValidation()
    if hasattr(tau, "held_out"):
        return cast(CrossClassValidation, tau)
    check_tau(tau)
    return None


def fit_metric_and_tau(
    metric: Any, tau: Any, samples: NDArray[Any], labels: NDArray[Any], outlyingness: Outlyingness
) -> tuple[Any, float, Calibration | None]:
    """Learn the metric W and the threshold tau on the starting classes.

    tau is found on held-out samples that were not used to learn the metric and the means. A metric with
    `partial_fit` learns the held-out samples afterwards.

    Parameters
    ----------
    metric : transformer
        Not fitted.
    tau : float, CrossClassValidation or None
    samples : array of shape (n, D)
    labels : array of shape (n,)
    outlyingness : callable
        Maps squared distances to the known means to the value that is compared with tau.

    Returns
    -------
    metric, tau, calibration
        The calibration is None if tau is a number.
    """
    calibrator = calibrator_of(tau)
    if calibrator is None:
        return metric.fit(as_float(samples), labels), float(tau), None
    codes = np.unique(labels, return_inverse=True)[1]
    held = calibrator.held_out(codes)
    metric.fit(as_float(samples[~held]), labels[~held])
    means = ClassStatistics("none").add(samples[~held], codes[~held]).means
    squared: NDArray[np.floating[Any]] = np.empty((0, len(means)))
    if held.any():
        # float64 even for float32 samples: tau is chosen among values that differ little.
        projected = np.asarray(metric.transform(as_float(samples[held])), dtype=np.float64)
        index = ExactIndex(np.asarray(metric.transform(means), dtype=np.float64))
        squared = index.squared_distances(projected)
    tau, calibration = find_tau(calibrator, squared, codes[held], outlyingness)
    if hasattr(metric, "partial_fit"):
        metric.partial_fit(as_float(samples[held]), labels[held])
    return metric, tau, calibration


def find_tau(
    calibrator: CrossClassValidation,
    squared_distances: NDArray[np.floating[Any]],
    codes: NDArray[np.intp],
    outlyingness: Outlyingness,
) -> tuple[float, Calibration]:
    """Find tau on labeled samples, given their squared distances to all class means."""
    check_consistent_length(squared_distances, codes)
    found = calibrator.find(
        lambda known: outlyingness(squared_distances[:, known]), codes, squared_distances.shape[1]
    )
    # If every sample equals its class mean, the best threshold is 0; tau must be positive.
    return max(found.tau, float(np.finfo(np.float32).tiny)), found


def known_codes(classes: NDArray[Any], y: ArrayLike, unknown_label: Any = None) -> NDArray[np.intp]:
    """Return the position of each label in the sorted classes, or -1 for the unknown label if given."""
    unknown = np.asarray((labels := check_labels(y)) == unknown_label)
    if not np.isin(labels[~unknown], classes).all():
        raise ValueError("y has labels that are not known classes. Learn them first, or leave them out.")
    return np.where(unknown, -1, np.searchsorted(classes, labels))
