"""tau by cross-class validation: some known classes play unknown, and tau must tell them apart."""

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
# Squared distances to the known means -> how far samples lie outside each class.
Outlyingness = Callable[[NDArray[np.floating[Any]]], Floats]


class Objective(Protocol):
    """What a threshold is to reach.

    An objective with a true attribute `named_right` counts a known sample as accepted only where it is named
    right too; the others count every known sample that is accepted.
    """

    def value(self, known: Floats, unknown: Floats, n_known: int, n_unknown: int) -> Floats:
        """Judge every possible cut at once; larger is better, minus infinity is not allowed.

        Parameters
        ----------
        known, unknown : arrays of shape (n_cuts,)
            How many known and how many unknown samples each cut accepts, both ascending.
        n_known, n_unknown : int
            How many there are.
        """
        ...


@dataclass(frozen=True)
class F1:
    """F1 of accepting the known, while at least a share `min_recall` of the known stays accepted.

    ``F1 = 2 k / (k + u + N)`` for k of N known and u unknown samples accepted. The authors used
    `min_recall` = 0.9; 0 gives plain F1.
    """

    min_recall: float = 0.9

    def __str__(self) -> str:
        return f"f1={self.min_recall:g}"

    def value(self, known: Floats, unknown: Floats, n_known: int, n_unknown: int) -> Floats:
        """Return F1 where the recall is reached."""
        return np.where(known / n_known >= self.min_recall, 2 * known / (known + unknown + n_known), -np.inf)


@dataclass(frozen=True)
class FalseAcceptRate:
    """Accept as many of the known as possible while at most a share `rate` of the unknown is accepted."""

    rate: float = 0.05

    def __str__(self) -> str:
        return f"far={self.rate:g}"

    def value(self, known: Floats, unknown: Floats, n_known: int, n_unknown: int) -> Floats:
        """Return the number of known samples accepted where few enough unknown ones are."""
        return np.where(unknown / n_unknown <= self.rate, known, -np.inf)


@dataclass(frozen=True)
class KnownRecall:
    """Accept as few of the unknown as possible while at least a share `recall` of the known is accepted."""

    recall: float = 0.95

    def __str__(self) -> str:
        return f"recall={self.recall:g}"

    def value(self, known: Floats, unknown: Floats, n_known: int, n_unknown: int) -> Floats:
        """Return minus the number of unknown samples accepted where enough known ones are."""
        return np.where(known / n_known >= self.recall, -unknown, -np.inf)


@dataclass(frozen=True)
class MinOpenWorldError:
    """The smallest open-world error (Eq. 9): many of the known named right, few of the unknown accepted.

    A known sample that is named wrong is an error whether it is accepted or not, so it does not count.
    """

    named_right = True

    def __str__(self) -> str:
        return "error"

    def value(self, known: Floats, unknown: Floats, n_known: int, n_unknown: int) -> Floats:
        """Return 1 minus the open-world error."""
        return np.asarray(known / n_known - unknown / n_unknown)


OpenWorldError = MinOpenWorldError  # deprecated: it is an objective, not an exception


def parse_objective(text: str) -> Objective:
    """Return the objective that a word stands for: ``error``, ``f1``, ``far=0.05`` or ``recall=0.95``.

    - ``error``: the smallest open-world error, which weighs known and unknown samples alike
    - ``f1``, ``f1=0.9``: the best F1, while at least that share of the known samples stays accepted
    - ``far=0.05``: as many known samples as possible, while at most that share of the unknown is accepted
    - ``recall=0.95``: as few unknown samples as possible, while at least that share of the known is accepted

    ``str(objective)`` gives the word back.
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
            f"There is no objective {text!r}. Give error, f1, far=0.05 or recall=0.95, shares from 0 to 1."
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
    """Find the threshold that is exactly optimal: accept what is below it.

    One sort and one sweep, O(n log n): only the order of the values matters, so one cut between every
    two neighboring distinct values is all there is to try. The threshold is put in the middle of
    its gap; of equally good cuts the one that accepts least is taken.

    Parameters
    ----------
    known, unknown : arrays
        How outlying the known and the unknown samples are, for example their distances.
    objective : Objective
    right : bool array, default=True
        Which of the known samples would be named right.
    slack : float, default=0
        Of all cuts whose value is at most this much below the best, the one that accepts least is taken.

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
        raise ValueError(f"No threshold reaches what {objective!r} asks for.")
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
    """What cross-class validation found, fold by fold, so that a person sees how sure it is.

    Attributes
    ----------
    tau : float
        The average of the folds' thresholds.
    fold_taus, fold_values : tuple of float
        The optimal threshold of each fold, and the value of the objective there.
    fold_known_accepted, fold_unknown_rejected : tuple of float
        Share of the known samples accepted and of the unknown ones rejected at the fold's threshold.
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
    """Find tau by letting some of the training classes play unknown, over several folds.

    The samples held out for it take no part in learning the metric and the means that they are
    judged with, as in the paper, where tau is estimated on validation data.

    Parameters
    ----------
    objective : Objective, default=F1(min_recall=0.9)
        What tau is to reach: `F1`, `FalseAcceptRate`, `KnownRecall`, `MinOpenWorldError`, or your own.
    n_folds : int, default=3
        Number of random splits of the classes; tau is the average of their optima.
    known_fraction : float, default=0.66
        Share of the classes that stay known in each fold.
    validation_fraction : float, default=0.2
        Share of each class's samples held out to judge with; a class of one sample is not judged.
    random_state : int, RandomState or None, default=0

    Notes
    -----
    The defaults of objective, folds and fraction are those that the authors used.
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
        """Choose the samples to judge with: a share of each class, leaving at least one to learn from."""
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
            Given which classes are known, of shape (K,), returns how far each held-out sample lies
            outside each of these when only they are known, of shape (n, number of known classes).
        codes : array of shape (n,)
            The class of each held-out sample, below `n_classes`; -1 for one of no class, always unknown.
        n_classes : int
        """
        self._validate_params()
        judged = np.unique(codes[codes >= 0])
        if len(judged) < 2:
            raise ValueError(
                "Cross-class validation needs at least 2 classes with 2 samples each, one class to play "
                f"known and one to play unknown; got {len(judged)} such class(es). Give more classes or "
                "samples, or set tau to a number."
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
    """Return the calibration that a parameter `tau` asks for; None where tau is a number."""
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

    The samples on which tau is found take no part in learning the metric and the means that they are judged
    with. A metric that learns batch by batch is given them afterwards.

    Parameters
    ----------
    metric : transformer
        Not fitted.
    tau : float, CrossClassValidation or None
    samples : array of shape (n, D)
    labels : array of shape (n,)
    outlyingness : callable
        Given squared distances to the known means, returns what is compared with tau.

    Returns
    -------
    metric, tau, calibration
        The calibration is None where tau is a number.
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
        # In float64, whatever the type of the samples: tau is found among values that differ little.
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
    """Find tau on samples of known classes, given their squared distances to all class means."""
    check_consistent_length(squared_distances, codes)
    found = calibrator.find(
        lambda known: outlyingness(squared_distances[:, known]), codes, squared_distances.shape[1]
    )
    # Where every sample coincides with its class mean the best threshold is 0; tau must be positive.
    return max(found.tau, float(np.finfo(np.float32).tiny)), found


def known_codes(classes: NDArray[Any], y: ArrayLike, unknown_label: Any = None) -> NDArray[np.intp]:
    """Return the positions of labels in the sorted classes; -1 for the unknown label, where one is given."""
    unknown = np.asarray((labels := check_labels(y)) == unknown_label)
    if not np.isin(labels[~unknown], classes).all():
        raise ValueError("recalibrate needs samples of known classes only; teach the others first.")
    return np.where(unknown, -1, np.searchsorted(classes, labels))
