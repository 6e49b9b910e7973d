"""What the baselines share: input checks, retraining on all samples, and the calibrated threshold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from openworld.recognition import CrossClassValidation, MinOpenWorldError
from openworld.recognition.recognizer import Judgement
from openworld.recognition.validation import (
    answers,
    as_float,
    check_announced,
    check_samples,
    continue_training,
    start_training,
    unchanged_on_error,
)

Scorer = Callable[[NDArray[Any]], NDArray[np.float64]]
_CHUNK_ROWS = 2048


class Baseline(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A recognizer that scores every class and answers unknown where the best score is below a threshold.

    A subclass implements `_train(X, codes, n_classes)`, which returns a scorer: a function from samples to
    one score per class, larger for more likely, shape (n, K).

    `partial_fit` keeps all samples and retrains on them. A baseline that learns without them overrides
    `_keep` and `_learn_more` and sets ``retrains = False``.

    Parameters
    ----------
    threshold : float or CrossClassValidation, optional
        By default cross-class validation with `MinOpenWorldError`, the objective of `OpenWorldRecognizer`:
        some classes play unknown to a system trained on the others.
    unknown_label : label, optional
        By default -1 for numbers and "unknown" for text.
    """

    accepts_bounded_region = False
    calibrates_itself = False
    retrains = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "threshold": [Interval(Real, None, None, closed="both"), CrossClassValidation, None],
        "unknown_label": "no_validation",
    }

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
        self._validate_params()
        with unchanged_on_error(self):
            self._learn(*start_training(self, X, y))
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn more samples of known and new classes. `classes` is checked and otherwise ignored."""
        check_announced(y, classes)
        if not hasattr(self, "classes_"):
            return self.fit(X, y)
        with unchanged_on_error(self):
            self._learn_more(*continue_training(self, X, y))
        return self

    def _learn(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        """Train on all samples, sorted by class and hash: their order does not matter."""
        hashes = [
            hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in np.ascontiguousarray(samples)
        ]
        self.classes_, codes = np.unique(labels, return_inverse=True)
        order = np.lexsort((np.array(hashes), codes))
        samples, labels, codes = samples[order], labels[order], codes[order]
        self.threshold_ = self._find_threshold(samples, codes)
        self._scorer = self._train(samples, codes, len(self.classes_))
        self._keep(samples, labels)

    def _keep(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        """Keep what `_learn_more` needs of the samples learned in `fit`: by default all of them."""
        self._samples, self._labels = samples, labels

    def _learn_more(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        """Learn checked samples of known and new classes: by default, retrain on everything."""
        if (labels.dtype.kind in "US") != (self._labels.dtype.kind in "US"):
            raise TypeError("Unknown label type: mixed kinds. Give every label the kind of the first ones.")
        self._learn(np.concatenate([self._samples, samples]), np.concatenate([self._labels, labels]))

    @property
    def _calibrator(self) -> CrossClassValidation | None:
        """The cross-class validation to run; None where the threshold is a given number."""
        if self.threshold is None:
            return CrossClassValidation(MinOpenWorldError())
        return self.threshold if isinstance(self.threshold, CrossClassValidation) else None

    def _find_threshold(self, X: NDArray[Any], codes: NDArray[np.intp]) -> float:
        calibrator = self._calibrator
        if calibrator is None:
            return float(self.threshold)  # type: ignore[arg-type]
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
        samples = check_samples(self, X)
        parts = [
            self._scorer(as_float(samples[start : start + _CHUNK_ROWS]))
            for start in range(0, len(samples), _CHUNK_ROWS)
        ]
        return np.asarray(np.concatenate(parts) - self.threshold_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class with the largest score, or unknown where it is below the threshold."""
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

    @property
    def tau_(self) -> float:
        """Raises AttributeError: the threshold is `threshold_`."""
        raise AttributeError(f"{type(self).__name__} has no tau_; its threshold is threshold_.")

    def refresh(self) -> Self:
        """Do nothing: `fit` and `partial_fit` compute all that predictions need."""
        return self
