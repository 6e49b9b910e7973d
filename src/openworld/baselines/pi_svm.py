"""The PI-SVM: probability of inclusion, fitted to the scores of samples near the class boundary."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import OneClassSVM
from sklearn.utils._param_validation import Interval

from openworld.baselines.base import Baseline, Scorer
from openworld.baselines.linear_svm import one_vs_rest, standardizer
from openworld.baselines.weibull import Weibull, fit_upper_tail
from openworld.recognition import CrossClassValidation
from openworld.recognition.validation import rank_in_class

Floats = NDArray[np.float64]

# The authors fit the tail to 1.5 scores per support vector of that side.
TAIL_PER_SUPPORT_VECTOR = 1.5
_HELD_OUT_FOLDS = 3
_NU = 0.1


class PISVM(Baseline):
    """An RBF SVM per class against the rest, calibrated to a probability of inclusion.

    Jain, Scheirer & Boult, "Multi-class open set recognition using probability of inclusion", 2014. The
    score of class y is the unnormalized posterior ``rho(y) P_I(f_y(x))`` with equal priors rho, where

        P_I(f) = exp(-((1 + t - f) / scale)^shape)

    is the survival function of a Weibull distribution fitted to the smallest scores of the class's own
    samples, the ones near the decision boundary, negated and shifted as libMR does (t is the largest of
    them).

    Differences from the paper: the Weibull is fitted to scores of samples held out in 3 folds, because in
    many dimensions nearly all training samples are support vectors with scores of exactly 1, and a fit to
    them rejects everything; C and the kernel width are constants, not searched for; a tail of fewer than
    three distinct scores also includes the plane itself (score 0); with a single class, the one-class SVM
    of the same paper (PI-OSVM) is used. Samples are scaled to unit length and standardized first, so the
    accepted region is not bounded; in any case the score far from all data is that of the intercept, a
    constant that need not be small.

    Parameters
    ----------
    C : float, default=10.0
        Cost of errors, as in `LinearSVM`, but the loss is not squared here.
    threshold, unknown_label
        As in `Baseline`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        C: float = 10.0,
        *,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.C = C

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        scale = standardizer(X, unit_length=True)
        vectors = scale(X)
        gram = rbf_kernel(vectors, gamma=1.0)
        if n_classes == 1:
            dual, inclusion = one_class_inclusion(gram, codes, n_classes)
            intercepts = -np.ones(1)
        else:
            dual, intercepts = one_vs_rest(gram, codes, n_classes, self.C)
            inclusion = fit_inclusion(held_out_scores(gram, codes, dual, intercepts, self.C), codes, dual)
        used = dual.any(axis=1)
        dual, vectors = dual[used], vectors[used]
        return lambda samples: inclusion.survival(
            -(rbf_kernel(scale(samples), vectors, gamma=1.0) @ dual + intercepts)
        )


def held_out_scores(
    gram: Floats, codes: NDArray[np.intp], dual: Floats, intercepts: NDArray[np.float64], C: float
) -> Floats:
    """Return out-of-fold scores of all training samples, shape (n, K).

    The only sample of a class cannot be held out: it gets the scores of the given machines.
    """
    n_classes = dual.shape[1]
    counts = np.bincount(codes, minlength=n_classes)
    fold = np.where(counts[codes] > 1, rank_in_class(codes, np.arange(len(codes))) % _HELD_OUT_FOLDS, -1)
    scores = np.asarray(gram @ dual + intercepts)
    for number in range(_HELD_OUT_FOLDS):
        out, kept = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        if len(out):
            part, part_intercepts = one_vs_rest(gram[np.ix_(kept, kept)], codes[kept], n_classes, C)
            scores[out] = gram[np.ix_(out, kept)] @ part + part_intercepts
    return scores


def fit_inclusion(scores: Floats, codes: NDArray[np.intp], dual: Floats) -> Weibull:
    """Fit the negated smallest scores of each class's own samples; survival(-f) is P_I(f)."""
    tails = []
    for code, (column, coefficients) in enumerate(zip(scores.T, dual.T, strict=True)):
        own = codes == code
        size = int(TAIL_PER_SUPPORT_VECTOR * np.count_nonzero(coefficients[own]))
        tails.append(upper_tail(-column[own], size))
    return fit_tails(tails)


def one_class_inclusion(gram: Floats, codes: NDArray[np.intp], n_classes: int) -> tuple[Floats, Weibull]:
    """Train an RBF one-class SVM per class and fit the probability of inclusion to its scores.

    Scores are divided by the offset: ``f(x) = sum(a_i k(x, x_i)) / rho - 1`` is -1 far from all data and
    0 on the boundary, whatever the number of samples. The score of a training sample to fit is the one
    that the others give it, without its own term in the sum.

    Returns
    -------
    dual : array of shape (n, K)
        The coefficients ``a_i / rho``.
    inclusion : Weibull
        Of the K classes; survival(-f) is the probability of inclusion.
    """
    dual, tails = np.zeros((len(codes), n_classes)), []
    for code in range(n_classes):
        own = np.flatnonzero(codes == code)
        block = gram[np.ix_(own, own)]
        machine = OneClassSVM(kernel="precomputed", nu=_NU).fit(block)
        coefficients = np.zeros(len(own))
        coefficients[machine.support_] = machine.dual_coef_[0] / machine.offset_[0]
        dual[own, code] = coefficients
        from_others = block @ coefficients - np.diagonal(block) * coefficients - 1
        tails.append(upper_tail(-from_others, int(TAIL_PER_SUPPORT_VECTOR * len(machine.support_))))
    return dual, fit_tails(tails)


def upper_tail(values: Floats, size: int) -> Floats:
    """Return the largest values, at least three; with the plane's score 0 where too few are distinct."""
    tail = np.sort(values)[-max(size, 3) :]
    return tail if len(np.unique(tail)) >= 3 else np.append(tail, 0.0)


def fit_tails(tails: list[Floats]) -> Weibull:
    """Fit tails of different lengths at once."""
    padded = np.full((len(tails), max(len(tail) for tail in tails)), np.nan)
    for row, tail in zip(padded, tails, strict=True):
        row[: len(tail)] = tail
    return fit_upper_tail(padded)
