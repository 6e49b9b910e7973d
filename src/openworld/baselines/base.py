"""What the baselines share: labels, samples kept for retraining, and a threshold found as ours is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from openworld.recognition import CrossClassValidation, MinOpenWorldError
from openworld.recognition.recognizer import Judgement
from openworld.recognition.validation import (
    answers,
    as_float,
    check_announced,
    continue_training,
    start_training,
    unchanged_on_error,
)

Scorer = Callable[[NDArray[Any]], NDArray[np.float64]]
_CHUNK_ROWS = 2048


class Baseline(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A recognizer that scores every class and answers unknown where the best score is below a threshold.

    A subclass has `_train(X, codes, n_classes)`, which returns a scorer: a function from samples to one
    score per class, larger for more likely, shape (n, K).

    `partial_fit` keeps all samples and trains again on them; a baseline that learns without them
    overrides it, and says so with ``retrains = False``. The threshold is found by cross-class
    validation: some classes play unknown to a system trained on the others.

    Parameters
    ----------
    threshold : float or CrossClassValidation, optional
        By default cross-class validation with `MinOpenWorldError`, the objective of `OpenWorldRecognizer`.
    unknown_label : label, optional
        By default -1 for numbers and "unknown" for text.
    """

    accepts_bounded_region = False
    calibrates_itself = False
    retrains = True

    def __init__(
        self, *, threshold: float | CrossClassValidation | None = None, unknown_label: Any = None
    ) -> None:
        self.threshold = threshold
        self.unknown_label = unknown_label

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        """Train on samples of classes 0 .. n_classes - 1 and return the scorer."""
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the starting classes and the threshold."""
        with unchanged_on_error(self):
            self._learn(*start_training(self, X, y))
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn further samples, of known and new classes alike, by training again on all samples."""
        check_announced(y, classes)
        if not hasattr(self, "classes_"):
            return self.fit(X, y)
        with unchanged_on_error(self):
            samples, labels = continue_training(self, X, y)
            if (labels.dtype.kind in "US") != (self._labels.dtype.kind in "US"):
                raise TypeError(
                    "Unknown label type: mixed kinds. Give every label the kind of the first ones."
                )
            self._learn(np.concatenate([self._samples, samples]), np.concatenate([self._labels, labels]))
        return self

    def _learn(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        """Train on all samples, in an order that does not depend on the order they came in."""
        hashes = [
            hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in np.ascontiguousarray(samples)
        ]
        classes, codes = np.unique(labels, return_inverse=True)
        order = np.lexsort((np.array(hashes), codes))
        self._samples, self._labels, self.classes_ = samples[order], labels[order], classes
        codes = codes[order]
        self.threshold_ = self._find_threshold(self._samples, codes)
        self._scorer = self._train(self._samples, codes, len(classes))

    def _find_threshold(self, X: NDArray[Any], codes: NDArray[np.intp]) -> float:
        if self.threshold is not None and not isinstance(self.threshold, CrossClassValidation):
            return float(self.threshold)
        calibrator = self.threshold or CrossClassValidation(MinOpenWorldError())
        held = calibrator.held_out(codes)
        n_classes = int(codes.max()) + 1

        def outlyingness(known: NDArray[np.bool_]) -> NDArray[np.float64]:
            shown = ~held & known[codes]
            new_codes = np.cumsum(known) - 1
            scorer = self._train(X[shown], new_codes[codes[shown]], int(known.sum()))
            return -scorer(X[held])

        return -calibrator.find(outlyingness, codes[held], n_classes).tau

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the score of every class minus the threshold, shape (n, K): positive is accepted."""
        check_is_fitted(self, "classes_")
        samples: NDArray[Any] = validate_data(self, X, reset=False, dtype="numeric")
        parts = [
            self._scorer(as_float(samples[start : start + _CHUNK_ROWS]))
            for start in range(0, len(samples), _CHUNK_ROWS)
        ]
        return np.asarray(np.concatenate(parts) - self.threshold_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Name the class with the largest score, or answer unknown where it is below the threshold."""
        decision = self.decision_function(X)
        accepted = decision.max(axis=1) > 0
        return answers(self.classes_, np.where(accepted, decision.argmax(axis=1), -1), self.unknown_label_)

    def judge(self, X: ArrayLike, n: int = 5) -> Judgement:
        """Return answer, decision, membership and the n best classes of each sample, in one pass.

        The distance is minus the decision. The membership is the logistic function of the decision: 0.5 at
        the threshold, not calibrated.
        """
        decision = self.decision_function(X)
        best = np.argsort(-decision, axis=1, kind="stable")[:, :n]
        largest = np.take_along_axis(decision, best, axis=1)
        accepted = largest[:, 0] > 0
        return Judgement(
            answers(self.classes_, np.where(accepted, best[:, 0], -1), self.unknown_label_),
            accepted,
            largest[:, 0],
            expit(largest[:, 0]),
            self.classes_[best],
            -largest,
            expit(largest),
            self.threshold_,
        )

    def refresh(self) -> Self:
        """Do nothing: `fit` and `partial_fit` compute all that predictions need."""
        return self
