"""The 1-vs-Set machine: a slab between two parallel planes instead of a linear SVM's half-space."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from openworld.baselines.base import Baseline, Scorer
from openworld.baselines.linear_svm import fit_linear_svm, standardizer
from openworld.recognition import CrossClassValidation

Floats = NDArray[np.float64]

# Weight of the empirical risk 1 / F1 beside the open space risk, as in the authors' program.
_EMPIRICAL_WEIGHT = 2.0
# Minimum width of a slab, relative to a margin: an empty slab does not describe a class.
_LEAST_WIDTH = 1e-4


class OneVsSet(Baseline):
    """A linear SVM per class whose positive half-space is cut off by a second plane.

    Scheirer, Rocha, Sapkota & Boult, "Toward open set recognition", 2013. Between the near plane A
    and the far plane Omega, both parallel to the SVM's plane, lies the class. The planes minimize the
    empirical risk plus the open space risk of a linear slab,

        R_O = (d_Omega - d_A) / d+ + d+ / (d_Omega - d_A) + p_A w_A + p_Omega w_Omega,

    where d+ is the width that holds all samples of the class, p are the pressures, and w_A, w_Omega the empty
    margins between each plane and the class's samples inside the slab, in units of d+. The score is the
    signed distance to the nearer plane, positive inside, in units of the SVM's margin 1 / |w|.

    Differences from the paper: the empirical risk is 2 / F1, as in the authors' program; the planes lie on
    training scores, and each step moves the plane that lowers the risk most to its best place, where the
    authors' program moves in single steps; the slab of a class of one sample lies between the SVM's plane
    and its mirror image. The threshold on the score, by cross-class validation as for all baselines,
    widens or narrows all slabs alike. A slab is unbounded along its planes, so the accepted region is
    unbounded too. Samples are scaled to unit length and standardized first.

    Parameters
    ----------
    C : float, default=3.0
        Cost of errors of the linear SVMs, as in `LinearSVM`.
    near_pressure, far_pressure : float, default=0
        p_A and p_Omega: weights of the empty margins at the two planes.
    threshold, unknown_label
        As in `Baseline`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "near_pressure": [Interval(Real, 0, None, closed="left")],
        "far_pressure": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        C: float = 3.0,
        *,
        near_pressure: float = 0.0,
        far_pressure: float = 0.0,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.C = C
        self.near_pressure = near_pressure
        self.far_pressure = far_pressure

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        if n_classes == 1:
            return lambda samples: np.zeros((len(samples), 1))
        scale = standardizer(X, unit_length=True)
        vectors = scale(X)
        weights, intercepts = fit_linear_svm(vectors, codes, n_classes, self.C)
        margins = vectors @ weights + intercepts
        near, far = np.transpose(
            [
                refine_slab(margins[:, code], codes == code, self.near_pressure, self.far_pressure)
                for code in range(n_classes)
            ]
        )

        def depth(samples: NDArray[Any]) -> Floats:
            margins = scale(samples) @ weights + intercepts
            return np.asarray(np.minimum(margins - near, far - margins))

        return depth


def refine_slab(
    margins: Floats, positive: NDArray[np.bool_], near_pressure: float = 0.0, far_pressure: float = 0.0
) -> tuple[float, float]:
    """Find the two planes, as margins of the linear SVM, that minimize the risk of the slab.

    Starts from the SVM's plane and the class's largest margin. Each step moves the plane that lowers the
    risk most, until no move lowers it.

    Parameters
    ----------
    margins : array of shape (n,)
        Of all training samples.
    positive : array of shape (n,)
        Which of them are of the class.
    near_pressure, far_pressure : float
    """
    if positive.sum() == 1:
        own = margins[positive][0]
        return min(0.0, 2 * own), max(0.0, 2 * own)
    order = np.argsort(margins, kind="stable")
    risk = _SlabRisk(margins[order], positive[order], near_pressure, far_pressure)
    positions = np.arange(len(order))
    far = int(np.flatnonzero(positive[order])[-1])
    near = min(int(np.searchsorted(margins[order], 0.0)), far)
    least = float(risk(np.array([near]), np.array([far]))[0])
    while True:
        near_risks, far_risks = (
            risk(positions[: far + 1], np.array([far])),
            risk(np.array([near]), positions[near:]),
        )
        best = min(near_risks.min(), far_risks.min())
        if not best < least:
            return float(margins[order[near]]), float(margins[order[far]])
        if near_risks.min() <= far_risks.min():
            near = int(near_risks.argmin())
        else:
            far = near + int(far_risks.argmin())
        least = float(best)


class _SlabRisk:
    """The risk of slabs that reach from one training sample to another, in the order of their margins."""

    def __init__(
        self, margins: Floats, positive: NDArray[np.bool_], near_pressure: float, far_pressure: float
    ) -> None:
        self.margins = margins
        self.pressures = near_pressure, far_pressure
        self.n_before = np.concatenate([[0], np.cumsum(positive)])  # of the class, before each position
        self.own = margins[positive]
        self.width = max(self.own[-1] - self.own[0], _LEAST_WIDTH)  # d+

    def __call__(self, near: NDArray[np.intp], far: NDArray[np.intp]) -> Floats:
        """Return the risk of the slabs from position `near` to position `far`, both inside."""
        inside = self.n_before[far + 1] - self.n_before[near]
        f1 = 2 * inside / (far - near + 1 + len(self.own))
        ratio = np.maximum(self.margins[far] - self.margins[near], _LEAST_WIDTH) / self.width
        first, last = self.n_before[near], self.n_before[far + 1] - 1
        # Meaningless where no sample of the class is inside; such slabs get infinite risk below.
        near_margin = self.own[np.minimum(first, len(self.own) - 1)] - self.margins[near]
        far_margin = self.margins[far] - self.own[np.maximum(last, 0)]
        open_space = ratio + 1 / ratio
        open_space = open_space + self.pressures[0] * near_margin / self.width
        open_space = open_space + self.pressures[1] * far_margin / self.width
        empirical = _EMPIRICAL_WEIGHT / np.maximum(f1, np.finfo(np.float64).tiny)
        return np.asarray(np.where(inside > 0, open_space + np.minimum(empirical, 1e300), np.inf))
