"""Open space risk and open set risk (Eq. 4, 5), by Monte Carlo."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ndtri

from openworld.theory.abating import AbatingModel, Floats, as_points
from openworld.theory.sampling import OpenSpace, Proposal, Sampling, proposal_centers

Booleans = NDArray[np.bool_]
RecognitionFunction = Callable[[Floats], Floats]

# An estimate is meaningful if the effective sample size is at least the first number and at least the second
# number of points weigh nearly as much as the heaviest one. The effective sample size alone is too
# optimistic if the mixture does not fit the recognized region (for example a long thin one in ten
# dimensions): then a single point dominates the weights.
_MIN_EFFECTIVE, _MIN_HEAVIEST = 100, 25


class OpenSpaceWarning(UserWarning):
    """An open space risk was estimated from too few points to mean anything."""


@dataclass(frozen=True)
class OpenSpaceRisk:
    """An estimate of the open space risk (Eq. 4) and of its uncertainty.

    Attributes
    ----------
    risk : float
        In [0, 1]; NaN if no point was recognized, since Eq. 4 is then 0 / 0.
    standard_error : float
        Standard error of the ratio, by the delta method. It is 0 if all recognized points, or none, were in
        open space; use the interval then.
    interval : tuple of float
        Wilson score interval for the equivalent number of equally weighted points.
    effective_sample_size : float
        Number of equally weighted recognized points that would be as informative as the weighted ones.
    n_samples : int
        Number of points drawn.
    log_measure : float
        Logarithm of the denominator of Eq. 4, the recognized measure of S_o (for a recognizer, the volume
        it accepts).
    meaningful : bool
        Whether the effective sample size is at least 100 and at least 25 points have 1/e of the weight of the
        heaviest point or more. If not, do not rely on the risk or the interval.
    """

    risk: float
    standard_error: float
    interval: tuple[float, float]
    effective_sample_size: float
    n_samples: int
    log_measure: float
    meaningful: bool


@dataclass(frozen=True)
class OpenSetRisk:
    """Eq. 5: ``total = open_space.risk + lambda_r * empirical``."""

    total: float
    open_space: OpenSpaceRisk
    empirical: float
    lambda_r: float


def open_space_risk(
    recognition: Any,
    X: ArrayLike,
    r: float,
    R: float,
    *,
    label: Any = None,
    sampling: Sampling | None = None,
) -> OpenSpaceRisk:
    """Estimate the open space risk (Eq. 4): the share of the recognized region that lies in open space.

    The recognition function f_y of Eq. 4 is

    - for a recognizer (anything with `predict`): 1 where it predicts a class (the class `label`, if given)
      and 0 where it predicts unknown. The risk is then "the relative measure of positively labeled open
      space compared to the overall measure of positively labeled space", as the paper explains Eq. 4, and
      recognizers with different score scales can be compared. A recognizer without an `unknown_label_`
      recognizes everything;
    - for an `AbatingModel`: its value;
    - for any other function of points (n, D): its positive part, since f_y(x) <= 0 means not recognized.

    Sampling finds regions near the samples, at any scale, and regions that fill a fair part of S_o. It can
    miss a small recognized region far from the samples, and in many dimensions every such region is small.

    Parameters
    ----------
    recognition : recognizer, AbatingModel or callable
    X : array of shape (N, D)
        The known training samples; for the risk of one class, those of that class.
        Points are drawn around at most 2,000 of them, chosen at random; all count for Eq. 3.
    r, R : float
        The radii of Eq. 3: of the balls around the samples, and of S_o around their mean.
    label : label, optional
        The class y of a recognizer; by default all classes together.
    sampling : Sampling, optional

    Returns
    -------
    OpenSpaceRisk

    Warns
    -----
    OpenSpaceWarning
        If the estimate is not meaningful because too few points carry the weight. More points help, but
        little if the recognized region is long and thin in many dimensions.
    """
    sampling = Sampling() if sampling is None else sampling
    function = _recognition_function(recognition, label)
    space = OpenSpace(X, r, R)
    random = np.random.default_rng(sampling.random_state)
    proposal = Proposal(space, proposal_centers(space, recognition, random), sampling, random)
    log_masses, in_open_space = [], []
    for points, log_weights in proposal.draw():
        with np.errstate(divide="ignore"):
            log_masses.append(log_weights + np.log(_values(function, points)))
        in_open_space.append(space.contains(points))
    result = _estimate(np.concatenate(log_masses), np.concatenate(in_open_space), space, sampling)
    if not result.meaningful:
        warnings.warn(_complaint(result), OpenSpaceWarning, stacklevel=2)
    return result


def _complaint(result: OpenSpaceRisk) -> str:
    if np.isnan(result.risk):
        return f"None of {result.n_samples} points was recognized: the open space risk is not meaningful."
    return (
        f"The open space risk is not meaningful: too few of the {result.n_samples} points carry its weight "
        f"(the effective sample size is {result.effective_sample_size:.1f})."
    )


def zero_one_error(y: NDArray[Any], answers: NDArray[Any]) -> float:
    """Return the share of answers that are wrong."""
    return float(np.mean(y != answers))


def open_set_risk(
    recognition: Any,
    X: ArrayLike,
    y: ArrayLike,
    r: float,
    R: float,
    *,
    lambda_r: float = 1.0,
    label: Any = None,
    evaluation: tuple[ArrayLike, ArrayLike] | None = None,
    empirical_risk: Callable[[NDArray[Any], NDArray[Any]], float] = zero_one_error,
    sampling: Sampling | None = None,
) -> OpenSetRisk:
    """Return the open set risk ``R_O(f) + lambda_r R_E(f)`` (Eq. 5).

    R_E compares the recognizer's labels with the true ones; a sample of no known class has the recognizer's
    unknown label. With `label`, or for a function or an abating model, R_E compares two booleans: whether
    the sample is of the class, and whether ``f(x) > 0``.

    Parameters
    ----------
    recognition, X, r, R, label, sampling
        As in `open_space_risk`.
    y : array of shape (N,)
        Labels of X; booleans for a function or an abating model.
    lambda_r : float, default=1.0
        The weight of the empirical risk, at least 0.
    evaluation : tuple of arrays (n, D) and (n,), optional
        Other labeled samples for the empirical risk; by default X and y.
    empirical_risk : callable, default=zero_one_error
        R_E, a function of the true and the predicted labels.
    """
    if not 0 <= lambda_r < np.inf:
        raise ValueError(f"lambda_r must be finite and at least 0; got {lambda_r!r}.")
    points, truth = (X, y) if evaluation is None else evaluation
    empirical = empirical_risk(*_truth_and_answers(recognition, as_points(points), np.asarray(truth), label))
    open_space = open_space_risk(recognition, X, r, R, label=label, sampling=sampling)
    return OpenSetRisk(open_space.risk + lambda_r * empirical, open_space, empirical, float(lambda_r))


# -- the recognition function ---------------------------------------------------------------------


def _recognition_function(recognition: Any, label: Any) -> RecognitionFunction:
    """Return f_y of Eq. 4; its positive part counts."""
    if hasattr(recognition, "predict"):
        return lambda points: np.asarray(_accepted(recognition, points, label), dtype=np.float64)
    if label is not None:
        raise ValueError("`label` can be given only with a recognizer.")
    function = recognition.value if isinstance(recognition, AbatingModel) else recognition
    if not callable(function):
        raise TypeError(f"Give a recognizer, an AbatingModel or a function of points; got {recognition!r}.")
    return function


def _accepted(recognizer: Any, points: Floats, label: Any) -> Booleans:
    answers = np.asarray(recognizer.predict(points))
    if label is not None:
        return np.asarray(answers == label)
    if not hasattr(recognizer, "unknown_label_"):
        return np.ones(len(points), dtype=np.bool_)
    return np.asarray(answers != recognizer.unknown_label_)


def _values(function: RecognitionFunction, points: Floats) -> Floats:
    values = np.asarray(function(points), dtype=np.float64)
    if values.shape != (len(points),) or not np.all(np.isfinite(values)):
        raise ValueError("A recognition function must return one finite number per point.")
    return np.maximum(values, 0.0)


def _truth_and_answers(
    recognition: Any, points: Floats, truth: NDArray[Any], label: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    if len(points) != len(truth):
        raise ValueError(f"There are {len(points)} samples but {len(truth)} labels.")
    if label is None and hasattr(recognition, "predict"):
        return truth, np.asarray(recognition.predict(points))
    if label is None and not np.isin(truth, (0, 1)).all():
        raise ValueError("With a single recognition function, y must be booleans: of the class or not.")
    is_of_class = np.asarray(truth.astype(np.bool_) if label is None else truth == label)
    return is_of_class, _values(_recognition_function(recognition, label), points) > 0


def _estimate(
    log_masses: Floats, in_open_space: Booleans, space: OpenSpace, sampling: Sampling
) -> OpenSpaceRisk:
    """Estimate the ratio of Eq. 4 from the weighted values of f_y at the points."""
    n, largest = len(log_masses), log_masses.max()
    if largest == -np.inf:
        return OpenSpaceRisk(np.nan, np.nan, (0.0, 1.0), 0.0, n, -np.inf, False)
    masses = np.exp(log_masses - largest)
    far, near = masses[in_open_space], masses[~in_open_space]
    risk, variance = _ratio(far, near)
    effective = float(masses.sum() ** 2 / np.sum(masses**2))
    return OpenSpaceRisk(
        risk=risk,
        standard_error=float(np.sqrt(variance)),
        interval=_wilson(risk, min(effective, _binomial_size(far, near)), sampling.confidence),
        effective_sample_size=effective,
        n_samples=n,
        log_measure=float(largest + np.log(masses.mean()) + _log_ball_volume(space)),
        meaningful=bool(effective >= _MIN_EFFECTIVE and np.sum(masses >= np.exp(-1)) >= _MIN_HEAVIEST),
    )


def _ratio(far: Floats, near: Floats) -> tuple[float, float]:
    """Return ``sum(far) / (sum(far) + sum(near))`` and its variance by the delta method."""
    total = far.sum() + near.sum()
    # Not 1 - risk, which rounds to 0 if the risk is near 1.
    risk, rest = far.sum() / total, near.sum() / total
    variance = rest**2 * np.sum((far / total) ** 2) + risk**2 * np.sum((near / total) ** 2)
    return float(risk), float(variance)


def _binomial_size(far: Floats, near: Floats) -> float:
    """Return the number of binomial trials that would estimate the ratio as precisely as these points.

    One point of mass 1, the largest possible, is added on either side: with few points or none on a side,
    their masses alone would be too optimistic.
    """
    risk, variance = _ratio(np.append(far, 1.0), np.append(near, 1.0))
    return risk * (1 - risk) / variance


def _wilson(share: float, n: float, confidence: float) -> tuple[float, float]:
    """Return the Wilson score interval of a share of n trials, which is valid at 0 and 1 too."""
    z2 = float(ndtri((1 + confidence) / 2)) ** 2
    center = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    # At the ends the formula gives exactly 0 and 1; rounding must not exclude them.
    low = 0.0 if share == 0 else max(0.0, float(center - half))
    high = 1.0 if share == 1 else min(1.0, float(center + half))
    return low, high


def _log_ball_volume(space: OpenSpace) -> float:
    """Return the logarithm of the volume of S_o."""
    n_features = len(space.center)
    return float(n_features / 2 * np.log(np.pi) - gammaln(n_features / 2 + 1) + n_features * np.log(space.R))
