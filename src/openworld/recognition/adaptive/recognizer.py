"""OpenWorldRecognizer: the recommended recognizer, beyond the paper."""

from __future__ import annotations

from contextlib import nullcontext
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from openworld.recognition.adaptive.choice import choose_metric
from openworld.recognition.adaptive.groups import group_hashes
from openworld.recognition.adaptive.memory import ClassMemory, ClassMemoryMixin, Derived
from openworld.recognition.adaptive.metric import AdaptiveMetric
from openworld.recognition.adaptive.radial import length_statistics
from openworld.recognition.adaptive.representation import preprocessed
from openworld.recognition.adaptive.reservoir import Reservoir, precise_enough
from openworld.recognition.adaptive.score import ScoreCalibration
from openworld.recognition.adaptive.scoring import all_scores, best_scores
from openworld.recognition.adaptive.training import TrainingBatch
from openworld.recognition.blas import one_blas_thread
from openworld.recognition.locking import thread_safe
from openworld.recognition.recognizer import Judgement
from openworld.recognition.threshold import MinOpenWorldError, Objective
from openworld.recognition.validation import (
    answers,
    check_announced,
    check_range,
    continue_training,
    start_training,
    unchanged_on_error,
)

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

_FEW_VALUES = 10_000_000  # of the samples to fit


@thread_safe
class OpenWorldRecognizer(ClassMemoryMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Name the class whose mean lies in the nearest direction of an adaptive metric, or answer unknown.

    Compared with the paper's NNO,

    - the metric (`AdaptiveMetric`) whitens with the covariance of *all* classes known so far, so it
      keeps learning with the classes and needs no retraining;
    - a class that is tight asks more of its samples than one that is spread out;
    - the threshold is found by letting each class in turn play unknown to all the others, on a few
      samples kept of each class, and follows as classes come.

    Up to 1,024 features are mapped by a random lift, unless nothing is left to gain: of directions, or of
    distances if features are few; more features where the lift promises a clear gain. Which of them, whether
    directions are standardized, and how much their covariance is shrunk without a lift, is decided on the
    starting classes by the same calibration.

    The score of a class is its cosine, or minus its distance with two classes or without a lift, both
    corrected for the number of samples that its mean is made of, so that a class is recognized from its first
    sample on; less a part of what its own samples score, and less a part of the best other class's score
    (`ScoreCalibration`). The accepted region is bounded by a second, radial factor ``b_c(x)``, 1 up to twice
    the length of the class's samples and falling to 0 from there; the decision is on the product of both, as
    Theorem 1 allows.

    Parameters
    ----------
    objective : Objective, default=MinOpenWorldError()
        What the threshold is to reach; any objective of `openworld.recognition.threshold`.
    metric : AdaptiveMetric, optional
        By default the representation is chosen on the starting classes, as described above.
    preprocessing : transformer, optional
        Fitted to the starting classes and kept as it is from then on: for example a scaler, `PCA` or a
        pipeline of these. To have one that is fitted already, wrap it in scikit-learn's `FrozenEstimator`.
    n_lifted : int, default=2000
        Rows of the random lift, at most 64 for each feature; 0 for none.
    reservoir_size : int, default=12
        Samples of each class kept for calibration; up to 1,200 in all while there are few classes. Where
        there are very many, fewer of each: no more than 1,000,000 in all, or one of each class.
    refresh_growth : float, default=0.0
        Relative change of the number of samples that triggers a refresh of metric and threshold. 0 refreshes
        after every change, so that the model depends only on what was learned; 0.1 spreads the cost.
    learn_unknowns : bool, default=False
        Whether `fit` and `partial_fit` accept samples with the unknown label, as `learn_unknown` does.
    unknown_label : label, optional
        What `predict` answers for unknown: by default -1 for numbers and "unknown" for text.
    random_state : int, default=0
        Determines the lift.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The known classes, sorted.
    metric_ : AdaptiveMetric
        With the statistics of all classes.
    memory_ : ClassMemory
        What is kept of the classes: statistics, lengths and reservoir.
    calibration_ : ScoreCalibration
        Threshold, weight and probabilities in force.
    unknown_label_ : label

    Notes
    -----
    Memory: the scatter and the map of the metric, 12 L^2 bytes with L the number of features or
    `n_lifted`; 4 D bytes for each sample of the reservoir, or 8 D where float32 is too coarse for the
    features; 4 L bytes for each class. More than 4,096 features are always lifted. Learning a batch of n
    samples costs n L^2; the first prediction after it refreshes metric and threshold at the cost of a
    few L^3, whatever the number of classes.

    From 50,000 classes on, where faiss is installed (`pip install openworld[scale]`), `predict` and `judge`
    search the class means in inverted lists, which takes 4 L bytes more for each class. They are rebuilt
    with the metric: with so many classes set `refresh_growth`.

    Methods may be called from several threads: those that predict run side by side, those that change the
    model run alone.

    The share of a forgotten class in the within-class scatter remains, which describes how samples
    vary but not where the class was.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from openworld import OpenWorldRecognizer
    >>> X, y = load_digits(return_X_y=True)
    >>> model = OpenWorldRecognizer().fit(X[y < 5], y[y < 5])
    >>> bool((model.predict(X[y == 7]) == -1).mean() > 0.8)
    True
    >>> model.partial_fit(X[y == 7][:50], y[y == 7][:50]).classes_.tolist()
    [0, 1, 2, 3, 4, 7]
    """

    accepts_bounded_region = True
    calibrates_itself = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "objective": [HasMethods(["value"])],
        "metric": [AdaptiveMetric, None],
        "preprocessing": [HasMethods(["fit", "transform"]), None],
        "n_lifted": [Interval(Integral, 0, None, closed="left")],
        "reservoir_size": [Interval(Integral, 1, None, closed="left")],
        "refresh_growth": [Interval(Real, 0, None, closed="left")],
        "learn_unknowns": ["boolean"],
        "unknown_label": "no_validation",
        "random_state": "no_validation",
    }

    def __init__(
        self,
        objective: Objective = MinOpenWorldError(),  # noqa: B008 -- frozen
        *,
        metric: AdaptiveMetric | None = None,
        preprocessing: Any = None,
        n_lifted: int = 2000,
        reservoir_size: int = 12,
        refresh_growth: float = 0.0,
        learn_unknowns: bool = False,
        unknown_label: Any = None,
        random_state: int = 0,
    ) -> None:
        self.objective = objective
        self.metric = metric
        self.preprocessing = preprocessing
        self.n_lifted = n_lifted
        self.reservoir_size = reservoir_size
        self.refresh_growth = refresh_growth
        self.learn_unknowns = learn_unknowns
        self.unknown_label = unknown_label
        self.random_state = random_state

    # -- learning ---------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose the representation on the starting classes, and learn them.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
            Labels of one class or more. With one class, or one sample of each, a warning says that the
            threshold is a guess. With `learn_unknowns` the unknown label marks samples of no class.
        sample_weight : array of shape (n,), optional
            How often to count each sample; whole numbers.
        groups : array of shape (n,), optional
            Samples that are near copies of each other: frames of a video, pictures of a burst, a picture
            changed in several ways. Calibration leaves out whole groups, and a class of one group counts as
            one of a single sample. None, NaN or "": a group of its own, as every sample is by default.

        Returns
        -------
        self
        """
        self._validate_params()
        with unchanged_on_error(self):
            samples, labels = start_training(self, X, y, sample_weight)
            check_range(samples)
            batch = TrainingBatch.split(self, samples, labels, group_hashes(groups, y, sample_weight))
            if len(batch.samples) < 2:
                n = "no sample of a class" if not len(batch.samples) else "1 sample"
                raise ValueError(f"OpenWorldRecognizer needs at least 2 samples to start with; got {n}.")
            with one_blas_thread() if samples.size <= _FEW_VALUES else nullcontext():
                self._learn_starting_classes(batch)
        return self

    def _learn_starting_classes(self, batch: TrainingBatch) -> None:
        """Learn the starting classes in the representation that best separates known from unknown samples."""
        samples, labels, groups, _ = batch
        reservoir = Reservoir(self.reservoir_size, dtype=precise_enough(samples))
        reservoir.add(samples, labels, groups)
        lengths = length_statistics(samples, labels)
        before = None if self.preprocessing is None else clone(self.preprocessing).fit(samples, labels)
        inner = preprocessed(before, samples)
        if self.metric is None:
            parameters = {"n_lifted": self.n_lifted, "random_state": self.random_state}
            self.metric_ = choose_metric(inner, labels, groups, **parameters)
        else:
            self.metric_ = clone(self.metric)
        self.metric_.fit_statistics(inner, labels)
        representation = self.metric_.representation_
        if before is not None:
            representation = representation.after(before)
            self.metric_.representation_, self.metric_.n_features_in_ = representation, samples.shape[1]
        statistics = self.metric_.statistics_
        self.memory_ = ClassMemory(representation, statistics, lengths, reservoir)
        self.memory_.add(batch._replace(samples=samples[:0], labels=labels[:0]))
        self._derived = Derived()
        self._current()

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn samples of known and of new classes.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
        classes : array, optional
            Not needed. For compatibility with scikit-learn: if given, labels outside it are rejected.
        sample_weight, groups : arrays of shape (n,), optional
            As in `fit`; a group goes on from one batch to the next.

        Returns
        -------
        self
        """
        check_announced(y, classes)
        if not hasattr(self, "memory_"):
            return self.fit(X, y, sample_weight, groups)
        samples, labels = continue_training(self, X, y, sample_weight)
        check_range(samples)
        hashes = group_hashes(groups, y, sample_weight)
        return self._learn(TrainingBatch.split(self, samples, labels, hashes))

    # -- recognizing ------------------------------------------------------------------------------

    @property
    def calibration_(self) -> ScoreCalibration:
        """The current threshold, weights and probabilities of the score."""
        return self._current().calibration

    @property
    def threshold_(self) -> float:
        """The score from which a sample is accepted."""
        return self.calibration_.threshold

    @property
    def tau_(self) -> float:
        """Raises AttributeError: the threshold is `threshold_`, which cannot be set."""
        raise AttributeError(f"{type(self).__name__} has no tau_; its threshold is threshold_.")

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters; a new objective recalibrates at once, the others take effect in `fit`."""
        super().set_params(**parameters)
        if "objective" in parameters and self.__sklearn_is_fitted__():
            self._derived = Derived()
        return self

    def set_objective(self, objective: Objective) -> Self:
        """Change the operating point: find the threshold for another objective, now.

        Nothing is learned again. If no threshold reaches the objective, the model does not change.
        """
        check_is_fitted(self)
        with unchanged_on_error(self):
            self.objective = objective
            self._derived = Derived()
            self._current()
        return self

    def with_objective(self, objective: Objective) -> Self:
        """Return a copy of the model at another operating point; both share the learned state.

        Neither may learn while both are in use.
        """
        check_is_fitted(self)
        return self._with(self.memory_).set_objective(objective)

    def relax_threshold(self, X: ArrayLike, y: ArrayLike) -> None:
        """Do nothing: calibration already takes newly learned samples into account."""

    def refresh(self, like: Self | None = None) -> Self:
        """Compute metric and threshold now, if enough was learned since the last time.

        Where another model has learned the same and is refreshed, its metric and threshold are copied.
        """
        if like is not None:
            self._copy_refresh(like)
        self._current().prepare()
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of each sample, or unknown.

        Parameters
        ----------
        X : array of shape (n, D)

        Returns
        -------
        labels : array of shape (n,)
        """
        model, positions = self._current(), []
        scored = best_scores(
            model, self.metric_.representation_, self._checked(X), 1, model.calibration.threshold
        )
        for scores, radial, classes in scored:
            best, decision, _ = model.best(scores, radial)
            best = best if classes is None else classes[np.arange(len(best)), best]
            positions.append(np.where(decision > 0, best, -1))
        return answers(model.classes, np.concatenate(positions), self.unknown_label_)

    def judge(self, X: ArrayLike, n: int = 5) -> Judgement:
        """Return answer, decision, membership and the n nearest classes of each sample, in one pass.

        Parameters
        ----------
        X : array of shape (n_samples, D)
        n : int, default=5
            Number of nearest classes.
        """
        model = self._current()
        parts = []
        scored = best_scores(model, self.metric_.representation_, self._checked(X), n, -np.inf)
        for scores, radial, classes in scored:
            best, decision, membership, nearest, distances, memberships = model.judge(scores, radial, n)
            if classes is not None:
                best = classes[np.arange(len(best)), best]
                nearest = np.take_along_axis(classes, nearest, axis=1)
            accepted = decision > 0
            labels = answers(model.classes, np.where(accepted, best, -1), self.unknown_label_)
            near = model.classes[nearest], distances, memberships
            parts.append(
                Judgement(labels, accepted, decision, membership, *near, model.calibration.threshold)
            )
        return Judgement.joined(parts)

    def decision_function(self, X: ArrayLike) -> Doubles:
        """Return the decision of every class, shape (n, K), columns as in `classes_`; positive accepts."""
        model = self._current()
        scored = all_scores(model, self.metric_.representation_, self._checked(X))
        parts = [model.decision(model.compared(scores), radial) for scores, radial in scored]
        return np.concatenate(parts)

    def membership(self, X: ArrayLike) -> Doubles:
        """Return the membership of each sample in each class, shape (n, K), from 0 to 1.

        Calibrated on held-out samples, known and unknown in equal numbers. Not normalized over classes:
        all are small for an unknown sample, and all fall to 0 away from the data.
        """
        model = self._current()
        scored = all_scores(model, self.metric_.representation_, self._checked(X))
        parts = [model.membership(model.compared(scores), radial) for scores, radial in scored]
        return np.concatenate(parts)

    def nearest_classes(self, X: ArrayLike, n: int = 5) -> tuple[NDArray[Any], Doubles]:
        """Find the n most similar classes of each sample.

        Returns
        -------
        labels : array of shape (n_samples, n)
        distances : array of shape (n_samples, n)
            ``1 - s_c(x)``, ascending.
        """
        judged = self.judge(X, n)
        return judged.nearest, judged.distances

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "memory_")
