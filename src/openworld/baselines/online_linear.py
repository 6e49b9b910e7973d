"""Online linear classifiers: Pegasos and the passive-aggressive algorithm."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from openworld.baselines.base import Baseline, Scorer
from openworld.baselines.linear_svm import standardizer
from openworld.recognition import CrossClassValidation
from openworld.recognition.adaptive.reservoir import Reservoir

Floats = NDArray[np.float64]
# Updates the weights, shape (K, D), and the step count of each row in place, given one sample and its signs:
# +1 for its class, -1 for the others.
Step = Callable[[Floats, NDArray[np.int64], Floats, Floats], None]

# Samples kept of each class, and in all while there are few classes.
_KEPT_PER_CLASS, _KEPT_IN_ALL = 10, 1000


class OnlineLinear(Baseline):
    """Base of the linear classifiers that learn online: one weight vector per class against the rest.

    The score is the margin. A subclass implements `_rule`. scikit-learn's `SGDClassifier` does not do,
    because it must know all classes from the start: here a new class adds a row of zeros. `partial_fit`
    makes its passes over the new samples and the few kept of each known class (at most 10 each, or 1000
    in all while there are few classes). Without these a new row would see no samples of the old classes,
    and the old rows only samples to push away. Scores come from the weights averaged over the last pass;
    learning continues from the last weights. Scaling (length 1, then standardized) and threshold are
    those found in `fit`. The result depends on the order of the samples.

    Parameters
    ----------
    C : float, default=1.0
        Cost of errors; see the subclass.
    n_epochs : int, default=5
        Passes over the samples of each `fit` and `partial_fit`, each in another random order.
    random_state : int, default=0
    threshold, unknown_label
        As in `Baseline`.
    """

    retrains = False
    order_matters = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        n_epochs: int = 5,
        random_state: int = 0,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.C = C
        self.n_epochs = n_epochs
        self.random_state = random_state

    def _rule(self, n_samples: int) -> Step:
        """Return the update rule for this number of starting samples."""
        raise NotImplementedError

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        start = Rows.start(X, self._rule(len(X)), n_classes)
        return start.learn(X, codes, self.n_epochs, self.random_state)

    def _keep(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        """Keep a few samples of each class."""
        self._reservoir = Reservoir(_KEPT_PER_CLASS, _KEPT_IN_ALL)
        self._reservoir.add(samples, labels)

    def _learn_more(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        """Take steps for the new samples and the few kept of the classes known before."""
        all_classes = np.union1d(self.classes_, labels)
        kept, kept_codes = self._reservoir.samples(all_classes, self._reservoir.per_class)
        rows: Any = self._scorer
        self._scorer = rows.moved(np.searchsorted(all_classes, self.classes_), len(all_classes)).learn(
            np.concatenate([samples, kept]),
            np.concatenate([np.searchsorted(all_classes, labels), kept_codes]),
            self.n_epochs,
            self.random_state,
        )
        self._reservoir = self._reservoir.copy()
        self._reservoir.add(samples, labels)
        self.classes_ = all_classes


class Pegasos(OnlineLinear):
    """Pegasos: stochastic sub-gradient steps on the objective of the linear SVM.

    Shalev-Shwartz, Singer, Srebro & Cotter, 2011, Fig. 1: at step t of a row, with eta = 1 / (lambda t),
    ``w <- (1 - eta lambda) w``, plus ``eta y x`` where ``y w . x < 1``. The bias is the weight of a
    constant feature (Sec. 6). lambda is 1 / (n C) for the n samples of `fit`. There is no projection step;
    the average of the last pass is used instead of the last weights.

    Parameters
    ----------
    C : float, default=3.0
        Cost of errors, as in `LinearSVM`, but the loss is not squared here.
    n_epochs, random_state, threshold, unknown_label
        As in `OnlineLinear`.
    """

    def __init__(
        self,
        C: float = 3.0,
        *,
        n_epochs: int = 5,
        random_state: int = 0,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(
            C, n_epochs=n_epochs, random_state=random_state, threshold=threshold, unknown_label=unknown_label
        )

    def _rule(self, n_samples: int) -> Step:
        return pegasos_rule(1 / (self.C * n_samples))


class PassiveAggressive(OnlineLinear):
    """The passive-aggressive algorithm PA-I.

    Crammer, Dekel, Keshet, Shalev-Shwartz & Singer, 2006, Fig. 1: where the loss l = max(0, 1 - y w . x) is
    not 0, ``w <- w + min(C, l / |x|^2) y x``. One row per class against the rest; the bias is the weight of
    a constant feature; the average of the last pass is used instead of the last weights.

    Parameters
    ----------
    C : float, default=1.0
        The largest step.
    n_epochs, random_state, threshold, unknown_label
        As in `OnlineLinear`.
    """

    def _rule(self, n_samples: int) -> Step:
        return passive_aggressive_rule(self.C)


def pegasos_rule(penalty: float) -> Step:
    """Return the step of Pegasos for a penalty lambda."""

    def step(weights: Floats, steps: NDArray[np.int64], sample: Floats, signs: Floats) -> None:
        violated = np.flatnonzero(signs * (weights @ sample) < 1)
        steps += 1
        weights *= (1 - 1 / steps)[:, None]
        weights[violated] += (signs[violated] / (penalty * steps[violated]))[:, None] * sample

    return step


def passive_aggressive_rule(C: float) -> Step:
    """Return the step of PA-I for a largest step C."""

    def step(weights: Floats, steps: NDArray[np.int64], sample: Floats, signs: Floats) -> None:
        loss = 1 - signs * (weights @ sample)
        violated = np.flatnonzero(loss > 0)
        sizes = np.minimum(C, loss[violated] / (sample @ sample))
        weights[violated] += (signs[violated] * sizes)[:, None] * sample

    return step


class Rows:
    """Weights of all classes, sorted by class; calling it returns the margins of samples."""

    def __init__(self, scale: Callable[[NDArray[Any]], Floats], step: Step, weights: Floats) -> None:
        self.scale = scale
        self.step = step
        self.weights = weights
        self.average = np.zeros_like(weights)
        self.steps = np.zeros(len(weights), dtype=np.int64)

    @classmethod
    def start(cls, X: NDArray[Any], step: Step, n_classes: int) -> Rows:
        """Return rows of zeros, and the scaling of these samples."""
        return cls(standardizer(X, unit_length=True), step, np.zeros((n_classes, X.shape[1] + 1)))

    def moved(self, positions: NDArray[np.intp], n_classes: int) -> Rows:
        """Return a copy with the rows at these positions and rows of zeros between them."""
        rows = Rows(self.scale, self.step, np.zeros((n_classes, self.weights.shape[1])))
        rows.weights[positions], rows.average[positions] = self.weights, self.average
        rows.steps[positions] = self.steps
        return rows

    def learn(self, X: NDArray[Any], codes: NDArray[np.intp], n_epochs: int, random_state: int) -> Rows:
        """Make some passes over the samples; return self."""
        samples = self._with_constant(X)
        random = np.random.default_rng(random_state)
        for _ in range(n_epochs):
            total = np.zeros_like(self.weights)
            for position in random.permutation(len(samples)):
                signs = np.full(len(self.weights), -1.0)
                signs[codes[position]] = 1.0
                self.step(self.weights, self.steps, samples[position], signs)
                total += self.weights
            self.average = total / len(samples)
        return self

    def __call__(self, samples: NDArray[Any]) -> Floats:
        """Return the margin of every class, shape (n, K)."""
        return np.asarray(self._with_constant(samples) @ self.average.T)

    def _with_constant(self, samples: NDArray[Any]) -> Floats:
        return np.column_stack([self.scale(samples), np.ones(len(samples))])
