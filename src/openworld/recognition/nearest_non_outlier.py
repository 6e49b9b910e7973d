"""Nearest Non-Outlier (NNO): the paper's algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from openworld.index import IndexKind
from openworld.recognition.class_mean_recognizer import ClassMeanRecognizer
from openworld.recognition.recognizer import Judgement
from openworld.recognition.threshold import CrossClassValidation
from openworld.recognition.thresholded import ThresholdMixin

Floats = NDArray[np.floating[Any]]


class NearestNonOutlier(ThresholdMixin, ClassMeanRecognizer):
    """Name the nearest class whose mean is closer than tau; answer unknown when there is none.

    The recognition function of class i is (Eq. 8)

        f_i(x) = Gamma(m/2 + 1) / (pi^(m/2) tau^m) * (1 - |W'x - W'mu_i| / tau)

    x is an outlier for class i when f_i(x) <= 0, and unknown when it is an outlier for every class.
    The constant in front is positive, so the sign of ``1 - d / tau`` decides; with m = 512 the constant
    itself underflows, so it is only ever used as a logarithm (`log_density`).

    The metric and tau are learnt by `fit` on the starting classes; `partial_fit` then adds samples and
    classes by updating means alone, as in the paper.

    Parameters
    ----------
    metric : transformer, optional
        Maps samples to the space where distances are taken; by default a new `NCMMetric`. One without
        `partial_fit` stays frozen after `fit`; one with it is refreshed as classes come.
    tau : float or CrossClassValidation, optional
        The distance from which a class mean no longer claims a sample. By default found by
        `CrossClassValidation`. Set `tau_` to change it later without fitting again.
    unknown_label : label, optional
        What `predict` answers for unknown: by default -1 for numbers and "unknown" for text. The
        paper's is 0. It can never be a class.
    index : {"auto", "exact", "approximate"}, default="auto"
        How the nearest mean is searched. "auto" is approximate from 50,000 classes on where faiss is
        installed (`pip install openworld[scale]`) and the metric stays frozen; see `optimize`.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The known classes, sorted.
    tau_ : float
        The threshold in force.
    calibration_ : Calibration or None
        What cross-class validation found, fold by fold.
    metric_ : transformer
        The fitted metric.
    statistics_ : ClassStatistics
        Counts and sums of the classes in the space of the features.
    unknown_label_ : label
        The label for unknown in use.

    Examples
    --------
    >>> from openworld import EuclideanMetric, NearestNonOutlier
    >>> X, y = [[0.0], [1.0], [9.0], [10.0]], ["cat", "cat", "dog", "dog"]
    >>> nno = NearestNonOutlier(EuclideanMetric(standardize=False), tau=2.0).fit(X, y)
    >>> nno.predict([[1.5], [5.0], [8.0]]).tolist()
    ['cat', 'unknown', 'dog']
    >>> nno.partial_fit([[5.0]], ["fox"]).predict([[5.5]]).tolist()
    ['fox']
    """

    def __init__(
        self,
        metric: TransformerMixin | None = None,
        tau: float | CrossClassValidation | None = None,
        *,
        unknown_label: Any = None,
        index: IndexKind = "auto",
    ) -> None:
        self.metric = metric
        self.tau = tau
        self.unknown_label = unknown_label
        self.index = index

    def _outlyingness(self, squared_distances: Floats) -> NDArray[np.float64]:
        """Return the distance to each mean."""
        return np.sqrt(squared_distances, dtype=np.float64)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Name the class of each sample, or answer unknown.

        Parameters
        ----------
        X : array of shape (n, D)

        Returns
        -------
        labels : array of shape (n,)
        """
        check_is_fitted(self)
        distances, rows = self._nearest(X, boundary=self.tau_)
        accepted = distances[:, 0] < np.float64(self.tau_)  # 1 - d / tau > 0, also for float32 distances
        return self._answers(np.where(accepted, rows[:, 0], -1))

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``1 - d / tau`` for every class, shape (n, K), columns as in `classes_`.

        Positive: not an outlier for that class. The largest value decides; 1 is the class mean itself.
        """
        distances = np.sqrt(self._squared_distances(X), dtype=np.float64)
        return np.asarray(1 - distances / self.tau_)

    def judge(self, X: ArrayLike, n: int = 5) -> Judgement:
        """Return answer, decision, membership and the n nearest classes of each sample, in one pass.

        The membership is the decision ``1 - d / tau``, and 0 for outliers.

        Parameters
        ----------
        X : array of shape (n_samples, D)
        n : int, default=5
        """
        check_is_fitted(self)
        found, rows = self._nearest(X, n)
        distances = found.astype(np.float64)
        decisions = 1 - distances / self.tau_
        memberships = np.clip(decisions, 0, 1)
        accepted = distances[:, 0] < self.tau_
        return Judgement(
            self._answers(np.where(accepted, rows[:, 0], -1)),
            accepted,
            decisions[:, 0],
            memberships[:, 0],
            self._labels_of(rows),
            distances,
            memberships,
            self.tau_,
        )

    @property
    def _tau_per_decision(self) -> float:
        return self.tau_

    def log_density(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the logarithm of Eq. 8 for every class, shape (n, K); minus infinity for outliers."""
        m = self._known_index().means.shape[1]
        log_constant = gammaln(m / 2 + 1) - m / 2 * np.log(np.pi) - m * np.log(self.tau_)
        with np.errstate(divide="ignore"):
            return np.asarray(log_constant + np.log(np.maximum(self.decision_function(X), 0)))
