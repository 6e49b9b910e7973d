"""Nearest Non-Outlier (NNO): the paper's algorithm.

In the paper's words, an open world recognizer is a recognition function F with a novelty detector nu
(`predict`), a labeling process L (a person), and an incremental learning function I_t (`partial_fit`).
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from openworld.index import IndexKind
from openworld.recognition.class_means import ClassMeans
from openworld.recognition.class_means_mixin import ClassMeansMixin
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.locking import thread_safe
from openworld.recognition.metric.ncm import new_metric
from openworld.recognition.recognizer import Judgement
from openworld.recognition.threshold import (
    Calibration,
    CrossClassValidation,
    calibrator_of,
    check_tau,
    find_tau,
    fit_metric_and_tau,
    known_codes,
)
from openworld.recognition.validation import (
    check_announced,
    continue_training,
    start_training,
    unchanged_on_error,
)

Floats = NDArray[np.floating[Any]]


@thread_safe
class NearestNonOutlier(ClassMeansMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predict the class with the nearest mean, or unknown if no mean is closer than tau.

    The recognition function of class i is (Eq. 8)

        f_i(x) = Gamma(m/2 + 1) / (pi^(m/2) tau^m) * (1 - |W'x - W'mu_i| / tau)

    x is an outlier for class i when f_i(x) <= 0, and unknown when it is an outlier for every class. The
    constant factor is positive, so the sign of ``1 - d / tau`` decides. With m = 512 the factor underflows,
    so it is only used as a logarithm (`log_density`).

    `fit` learns the metric, tau and the means of the starting classes. `partial_fit` then learns samples and
    new classes by updating means only, as in the paper.

    Parameters
    ----------
    metric : transformer, optional
        Maps samples to the space in which distances are measured; by default a new `NCMMetric`. A metric
        without `partial_fit` is fixed after `fit`; a metric with `partial_fit` is updated by every batch.
    tau : float or CrossClassValidation, optional
        Distance from a class mean at which a sample becomes an outlier for the class. By default found by
        `CrossClassValidation`. Set `tau_` to change it without fitting again.
    unknown_label : label, optional
        Label for unknown samples: by default -1 for numeric labels and "unknown" for strings (the paper
        uses 0). No class can have this label.
    index : {"auto", "exact", "approximate"}, default="auto"
        How to search for the nearest mean. "auto" uses approximate search for 50,000 classes or more if
        faiss is installed (`pip install openworld[scale]`) and the metric is fixed; see `optimize`.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The known classes, sorted.
    tau_ : float
        The current threshold.
    calibration_ : Calibration or None
        The result of cross-class validation; None if tau was given.
    metric_ : transformer
        The fitted metric.
    statistics_ : ClassStatistics
        Sample count and feature sum of each class.
    unknown_label_ : label
        The label for unknown samples.
    class_means_ : ClassMeans
        The statistics, the projected means and their index.

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

    calibration_: Calibration | None
    # In the metric's space. A metric with fewer components than features ignores some directions of the
    # feature space, and the accepted region is unbounded along those (Theorem 2).
    accepts_bounded_region = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "metric": [HasMethods(["fit", "transform"]), None],
        "tau": [Interval(Real, 0, None, closed="neither"), HasMethods(["held_out", "find"]), None],
        "unknown_label": "no_validation",
        "index": [StrOptions({"auto", "exact", "approximate"})],
    }

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

    # -- learning ---------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the metric W, the threshold tau and the class means from the starting classes.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
            Labels: integers, strings or booleans, none of them the unknown label.
        sample_weight : array of shape (n,), optional
            How often to count each sample; whole numbers.

        Returns
        -------
        self
        """
        self._validate_params()
        with unchanged_on_error(self):
            samples, labels = start_training(self, X, y, sample_weight)
            metric, self.tau_, self.calibration_ = fit_metric_and_tau(
                new_metric(self.metric), self.tau, samples, labels, _distances
            )
            self.class_means_ = ClassMeans(metric, ClassStatistics("none").add(samples, labels), self.index)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn samples of known and of new classes: the incremental learning function I_t.

        W and tau stay fixed. I_t updates the mean of class i with the n samples x_k that a person labeled
        as i, or adds the class if it is new:

            mu_i <- (N_i mu_i + sum_k x_k) / (N_i + n),   N_i <- N_i + n

        No other class changes. A metric with a `partial_fit` method learns the samples too, and then all
        means are projected again. On a recognizer that is not fitted yet this is the same as `fit`.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
        classes : array, optional
            Not needed. For compatibility with scikit-learn: if given, labels outside it are rejected.
        sample_weight : array of shape (n,), optional
            How often to count each sample; whole numbers.

        Returns
        -------
        self
        """
        check_announced(y, classes)
        if not hasattr(self, "class_means_"):
            return self.fit(X, y, sample_weight)
        samples, labels = continue_training(self, X, y, sample_weight)
        self.class_means_ = self.class_means_.learn(samples, labels)
        return self

    # -- recognizing ------------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of each sample, or unknown: recognition function F and novelty detector nu.

        With y* = argmax_i f_i(x) (Eq. 6) and nu(x) = [f_y*(x) > 0], F(x) is y* where nu(x) = 1 and unknown
        where nu(x) = 0 (Eq. 7). f_i depends on the distance only, so y* is the class with the nearest mean.

        Parameters
        ----------
        X : array of shape (n, D)

        Returns
        -------
        labels : array of shape (n,)
        """
        means = self._known()
        distances, rows = means.nearest(self._checked(X), boundary=self.tau_)
        accepted = distances[:, 0] < np.float64(self.tau_)  # 1 - d / tau > 0, also for float32 distances
        return means.answers(rows[:, 0], accepted, self.unknown_label_)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``1 - d / tau`` for every class, shape (n, K), columns as in `classes_`.

        Positive values mean that the sample is not an outlier for the class; 1 is the class mean itself.
        """
        return np.asarray(1 - _distances(self._known().squared_distances(self._checked(X))) / self.tau_)

    def log_density(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ln f_i(x) (Eq. 8) for every class, shape (n, K); minus infinity for outliers."""
        m = self._known().index.means.shape[1]
        log_constant = gammaln(m / 2 + 1) - m / 2 * np.log(np.pi) - m * np.log(self.tau_)
        with np.errstate(divide="ignore"):
            return np.asarray(log_constant + np.log(np.maximum(self.decision_function(X), 0)))

    def judge(self, X: ArrayLike, n: int = 5) -> Judgement:
        """Return answer, decision, membership and the n nearest classes of each sample, in one pass.

        The membership of a class is ``max(0, 1 - d / tau)``.

        Parameters
        ----------
        X : array of shape (n_samples, D)
        n : int, default=5
        """
        means = self._known()
        found, rows = means.nearest(self._checked(X), n)
        distances = found.astype(np.float64)
        decisions = 1 - distances / self.tau_
        memberships = np.clip(decisions, 0, 1)
        accepted = distances[:, 0] < self.tau_
        return Judgement(
            means.answers(rows[:, 0], accepted, self.unknown_label_),
            accepted,
            decisions[:, 0],
            memberships[:, 0],
            means.labels_of(rows),
            distances,
            memberships,
            self.tau_,
        )

    # -- the threshold ----------------------------------------------------------------------------

    @property
    def tau_(self) -> float:
        """The current threshold. It can be set at any time without fitting again."""
        return self._tau

    @tau_.setter
    def tau_(self, tau: float) -> None:
        self._tau = check_tau(tau)

    @property
    def threshold_(self) -> float:
        """The current threshold, `tau_`."""
        return self.tau_

    def recalibrate(
        self, X: ArrayLike, y: ArrayLike, calibration: CrossClassValidation | None = None
    ) -> Self:
        """Find tau again on labeled samples of known classes; the metric and the means do not change.

        Parameters
        ----------
        X : array of shape (n, D)
            Preferably samples that were not used to learn the class means.
        y : array of shape (n,)
            Known classes, or the unknown label for samples that should be rejected (known unknowns).
        calibration : CrossClassValidation, optional
            By default the one given as `tau`.
        """
        codes = known_codes(self.classes_, y, self.unknown_label_)
        squared = self._known().squared_distances(self._checked(X))
        calibrator = calibration or calibrator_of(self.tau) or CrossClassValidation()
        self.tau_, self.calibration_ = find_tau(calibrator, squared, codes, _distances)
        return self

    def relax_threshold(self, X: ArrayLike, y: ArrayLike, share: float = 0.1) -> None:
        """Increase tau toward samples of known classes that are still rejected.

        Parameters
        ----------
        X : array of shape (n, D)
            Samples that were rejected by mistake.
        y : array of shape (n,)
            Their true labels.
        share : float, default=0.1
            How much of the missing distance each sample adds to tau.
        """
        own = known_codes(self.classes_, y)
        decisions = self.decision_function(X)[np.arange(len(own)), own]
        for missing in -np.minimum(decisions, 0):
            self.tau_ += share * float(missing) * self.tau_


def _distances(squared_distances: Floats) -> NDArray[np.float64]:
    return np.sqrt(squared_distances, dtype=np.float64)
