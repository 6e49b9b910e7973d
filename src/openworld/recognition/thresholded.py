"""A threshold on how outlying a sample is, given as a number or found by calibration."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length

from openworld.index import ExactIndex
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.threshold import Calibration, CrossClassValidation
from openworld.recognition.validation import as_float, check_labels

if TYPE_CHECKING:
    from openworld.recognition.class_mean_recognizer import ClassMeanRecognizer

    _Base = ClassMeanRecognizer
else:
    _Base = object

Floats = NDArray[np.floating[Any]]


class ThresholdMixin(_Base):
    """Adds tau to a recognizer by class means: a sample at least as outlying as tau is unknown.

    Subclasses say in `_outlyingness` what is compared with tau.
    """

    tau: Any
    calibration_: Calibration | None

    @property
    def tau_(self) -> float:
        """The threshold in force. It can be set at any time without fitting again."""
        return self._tau

    @tau_.setter
    def tau_(self, tau: Any) -> None:
        if isinstance(tau, bool) or not isinstance(tau, Real) or not 0 < float(tau) < np.inf:
            raise ValueError(f"tau must be a positive number or a calibration object; got {tau!r}.")
        self._tau = float(tau)

    @property
    def threshold_(self) -> float:
        """The threshold in force: `tau_`."""
        return self.tau_

    def relax_threshold(self, X: ArrayLike, y: ArrayLike, share: float = 0.1) -> None:
        """Move tau a share of the way to samples of known classes that are still rejected.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
            The right labels of samples that were rejected by mistake.
        share : float, default=0.1
        """
        columns = np.searchsorted(self.classes_, check_labels(y))
        decisions = self.decision_function(X)[np.arange(len(columns)), columns]
        for missing in -np.minimum(decisions, 0):
            self.tau_ += share * float(missing) * self._tau_per_decision

    @property
    def _tau_per_decision(self) -> float:
        """By how much tau must grow for the decisions of rejected samples to grow by 1, about."""
        return 1.0

    def _outlyingness(self, squared_distances: Floats) -> NDArray[np.float64]:
        """Return how far samples lie outside each class from their squared distances to the known means."""
        raise NotImplementedError

    def recalibrate(
        self, X: ArrayLike, y: ArrayLike, calibration: CrossClassValidation | None = None
    ) -> Self:
        """Find tau anew on labelled samples of known classes; metric and means stay.

        Parameters
        ----------
        X : array of shape (n, D)
            Samples that the class means were preferably not learnt from.
        y : array of shape (n,)
        calibration : CrossClassValidation, optional
            By default the one given as `tau`.
        """
        classes, labels = self.classes_, check_labels(y)
        if not np.isin(labels, classes).all():
            raise ValueError("recalibrate needs samples of known classes only; teach the others first.")
        codes = np.searchsorted(classes, labels)
        squared = self._squared_distances(X)
        check_consistent_length(squared, codes)
        self._find_tau(calibration or self._calibrator(), squared, codes)
        return self

    def _calibrator(self) -> CrossClassValidation:
        return self.tau if hasattr(self.tau, "held_out") else CrossClassValidation()

    def _learn_parameters(self, X: Floats, labels: NDArray[Any]) -> None:
        """Learn metric and tau. Samples held out for tau are not used for the metric."""
        if self.tau is not None and not hasattr(self.tau, "held_out"):
            self.tau_ = self.tau
            self.calibration_ = None
            super()._learn_parameters(X, labels)
            return
        calibrator = self._calibrator()
        codes = np.unique(labels, return_inverse=True)[1]
        held = calibrator.held_out(codes)
        super()._learn_parameters(X[~held], labels[~held])
        means = ClassStatistics("none").add(X[~held], codes[~held]).means
        index = ExactIndex(np.asarray(self.metric_.transform(means), dtype=np.float64))
        squared: Floats = np.empty((0, len(means)))
        if held.any():
            squared = index.squared_distances(
                np.asarray(self.metric_.transform(as_float(X[held])), dtype=np.float64)
            )
        self._find_tau(calibrator, squared, codes[held])
        if hasattr(self.metric_, "partial_fit"):
            self.metric_.partial_fit(as_float(X[held]), labels[held])

    def _find_tau(
        self, calibrator: CrossClassValidation, squared_distances: Floats, codes: NDArray[np.intp]
    ) -> None:
        self.calibration_ = calibrator.find(
            lambda known: self._outlyingness(squared_distances[:, known]), codes, squared_distances.shape[1]
        )
        # Where every sample coincides with its class mean the best threshold is 0; tau must be positive.
        self.tau_ = max(self.calibration_.tau, float(np.finfo(np.float32).tiny))
