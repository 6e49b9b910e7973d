"""OpenWorldRecognizer: the recommended recognizer, beyond the paper."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from openworld.recognition.adaptive.calibration import ScoreCalibration, calibrate, hold_out
from openworld.recognition.adaptive.metric import (
    LARGEST_SCATTER,
    AdaptiveMetric,
    Whitening,
    represented_statistics,
)
from openworld.recognition.adaptive.radial import length_statistics
from openworld.recognition.adaptive.reservoir import Reservoir, precise_enough
from openworld.recognition.adaptive.scoring import (
    ScoringModel,
    all_scores,
    best_scores,
    make_scoring_model,
    sorted_classes,
)
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.recognizer import Judgement
from openworld.recognition.threshold import MinOpenWorldError, Objective
from openworld.recognition.validation import (
    answers,
    as_array,
    as_key,
    check_announced,
    check_labels,
    check_range,
    check_unknown_label,
    continue_training,
    start_training,
    unchanged_on_error,
)

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

# With more features than this a lift no longer pays for its cost.
_LARGEST_LIFTED = 1024
_LIFTED_PER_FEATURE = 32


class OpenWorldRecognizer(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Name the class whose mean lies in the nearest direction of an adaptive metric, or answer unknown.

    Compared with the paper's NNO,

    - the metric (`AdaptiveMetric`) whitens with the covariance of *all* classes known so far, so it
      keeps learning with the classes and needs no retraining;
    - a class that is tight asks more of its samples than one that is spread out;
    - the threshold is found by letting each class in turn play unknown to all the others, on a few
      samples kept of each class, and follows as classes come.

    How the features are represented, as they are or standardized, with or without a random lift, is
    decided on the starting classes by the same calibration; how much their covariance is shrunk, on all
    that are known.

    The score of class c is ``s_c(x) = cos(x, mu_c) - w r_c``: angular and abating. The accepted region is
    bounded by a second, radial factor ``b_c(x)``, 1 up to twice the length of the class's samples and
    falling to 0 from there; the decision is on their product, as Theorem 1 allows.

    Parameters
    ----------
    objective : Objective, default=MinOpenWorldError()
        What the threshold is to reach; any objective of `openworld.recognition.threshold`.
    n_lifted : int, default=2000
        Rows of the random lift that is tried, at most 32 for each feature; 0 tries none.
    reservoir_size : int, default=12
        Samples of each class kept for calibration; up to 1,200 in all while there are few classes.
    refresh_growth : float, default=0.0
        The share by which the samples must grow before metric and threshold are computed anew. 0 does so
        after every change, so the model depends only on what was learnt; 0.1 spreads the cost.
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
    search the class means in inverted lists, which takes 4 L bytes more for each class. They are found anew
    with the metric: with so many classes set `refresh_growth`.

    A forgotten class leaves its share of the within-class scatter behind, which tells how samples vary
    but nothing about that class's place.

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

    def __init__(
        self,
        objective: Objective = MinOpenWorldError(),  # noqa: B008 -- frozen
        *,
        n_lifted: int = 2000,
        reservoir_size: int = 12,
        refresh_growth: float = 0.0,
        unknown_label: Any = None,
        random_state: int = 0,
    ) -> None:
        self.objective = objective
        self.n_lifted = n_lifted
        self.reservoir_size = reservoir_size
        self.refresh_growth = refresh_growth
        self.unknown_label = unknown_label
        self.random_state = random_state

    # -- learning ---------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Choose the representation on the starting classes, and learn them.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
            Labels of at least two classes with two samples each.

        Returns
        -------
        self
        """
        with unchanged_on_error(self):
            self._check_parameters()
            samples, labels = start_training(self, X, y)
            check_range(samples)
            if len(np.unique(labels)) < 2:
                raise ValueError("OpenWorldRecognizer needs at least 2 classes to start with; got 1 class.")
            self.reservoir_ = Reservoir(self.reservoir_size, dtype=precise_enough(samples))
            self.reservoir_.add(samples, labels)
            self._lengths = length_statistics(samples, labels)
            candidates = [metric.fit(samples, labels) for metric in self._candidates(samples.shape[1])]
            self.metric_ = max(candidates, key=self._quality) if len(candidates) > 1 else candidates[0]
            self._forget_model()
            self._current()  # a threshold that cannot be found is an error of fit, not of predict
        return self

    def _check_parameters(self) -> None:
        for name, least in (("n_lifted", 0), ("reservoir_size", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} must be a whole number, {least} or more; got {value!r}.")
        if not isinstance(self.refresh_growth, Real) or not 0 <= self.refresh_growth < np.inf:
            raise ValueError(f"refresh_growth must be a number, 0 or more; got {self.refresh_growth!r}.")

    def _candidates(self, n_features: int) -> list[AdaptiveMetric]:
        """Return the representations to choose from, simplest first: of equals the first is taken."""
        lifts = [0, min(self.n_lifted, _LIFTED_PER_FEATURE * n_features)]
        if n_features > LARGEST_SCATTER:
            lifts = [self.n_lifted or 2000]
        elif n_features > _LARGEST_LIFTED or not self.n_lifted:
            lifts = [0]
        return [
            AdaptiveMetric(standardize=standardize, n_lifted=n_lifted, random_state=self.random_state)
            for n_lifted in lifts
            for standardize in (False, True)
        ]

    def _quality(self, metric: AdaptiveMetric) -> float:
        return self._calibrate(metric, *sorted_classes(metric.statistics_)).quality

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn new samples, of known and of new classes alike.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
        classes : array, optional
            Not needed. Where it is given, as scikit-learn does, a label outside it is refused.

        Returns
        -------
        self
        """
        check_announced(y, classes)
        if not hasattr(self, "metric_"):
            return self.fit(X, y)
        with unchanged_on_error(self):
            samples, labels = continue_training(self, X, y)
            check_range(samples)
            batch = represented_statistics(self.metric_.representation_, samples, labels)
            lengths = length_statistics(samples, labels)
            self.statistics_.check_combines(batch)
            self.metric_.statistics_ += batch
            self._lengths += lengths
            self.reservoir_.add(samples, labels)
            self._classes_changed(np.unique(labels))
        return self

    @property
    def statistics_(self) -> ClassStatistics:
        """Counts, sums and scatter of the represented samples."""
        check_is_fitted(self)
        statistics: ClassStatistics = self.metric_.statistics_
        return statistics

    # -- correcting -------------------------------------------------------------------------------

    def forget_class(self, label: Any) -> None:
        """Forget a class; at least two stay."""
        if label in self.statistics_ and len(self.statistics_) <= 2:
            raise ValueError("OpenWorldRecognizer needs at least 2 classes; none of the last two can go.")
        self.statistics_.forget(label)
        self._lengths.forget(label)
        self.reservoir_.forget(label)
        self._forget_model()

    def rename_class(self, old: Any, new: Any) -> None:
        """Give a class another name that no class has yet."""
        self._check_new_label(new)
        self.statistics_.rename(old, new)
        self._lengths.rename(old, new)
        self.reservoir_.rename(old, new)
        for made in ("model", "previous"):
            if self._cache[made] is not None:
                self._cache[made] = self._cache[made].renamed(as_key(old), as_key(new))
        self._cache["changed"] = {as_key(new) if label == old else label for label in self._cache["changed"]}

    def merge_classes(self, labels: Iterable[Any], into: Any) -> None:
        """Make one class of several, with the mean of all their samples."""
        parts = list(dict.fromkeys(as_key(label) for label in labels))
        self._check_new_label(into)
        if not set(self.statistics_.labels) - {*parts, as_key(into)}:
            raise ValueError("OpenWorldRecognizer needs at least 2 classes; merging these would leave 1.")
        self.statistics_.merge(parts, into)
        self._lengths.merge(parts, into)
        self.reservoir_.merge(parts, into)
        self._forget_model()

    def _check_new_label(self, label: Any) -> None:
        check_is_fitted(self)
        check_unknown_label(self.unknown_label_, check_labels([as_key(label)]))

    # -- adding models ----------------------------------------------------------------------------

    def without_classes(self) -> Self:
        """Return a copy with the same representation that knows no class yet, to learn a part elsewhere."""
        check_is_fitted(self)
        empty = deepcopy(self)
        empty.metric_.statistics_ = ClassStatistics("pooled")
        empty._lengths = ClassStatistics("per_class")
        empty.reservoir_ = self.reservoir_.empty()
        empty._forget_model()
        return empty

    def __add__(self, other: Self) -> Self:
        for part in (self, other) if type(self) is type(other) else ():
            check_is_fitted(part)
        if type(self) is not type(other) or not self.metric_.representation_.is_same(
            other.metric_.representation_
        ):
            raise ValueError(
                "Only models with one representation can be added: make the parts with without_classes()."
            )
        if len(other.statistics_):
            check_unknown_label(self.unknown_label_, as_array(other.statistics_.labels))
        whole = deepcopy(self)
        whole.metric_.statistics_ += other.statistics_
        whole._lengths += other._lengths
        whole.reservoir_.merge_from(other.reservoir_)
        whole._forget_model()
        return whole

    # -- recognizing ------------------------------------------------------------------------------

    @property
    def classes_(self) -> NDArray[Any]:
        """The known classes, sorted."""
        return sorted_classes(self.statistics_)[0]

    @property
    def calibration_(self) -> ScoreCalibration:
        """Threshold, weight of the tightness and probabilities in force."""
        return self._current().calibration

    @property
    def threshold_(self) -> float:
        """The score from which a sample is accepted."""
        return self.calibration_.threshold

    def relax_threshold(self, X: ArrayLike, y: ArrayLike) -> None:
        """Do nothing: calibration takes the samples kept of each class into account, new ones too."""

    def class_mean(self, label: Any) -> Doubles:
        """Return the mean of the samples kept of a class, shape (D,).

        The mean of all its samples is kept in the space of the representation only.
        """
        self.statistics_.row(label)
        kept, _ = self.reservoir_.samples(np.array([label]), self.reservoir_.per_class)
        return np.asarray(kept.mean(axis=0), dtype=np.float64)

    def refresh(self) -> Self:
        """Compute metric and threshold now, if what was learned since the last time asks for it."""
        self._current()
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Name the class of each sample, or answer unknown.

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
            best, decision = model.best(scores, radial)
            best = best if classes is None else classes[np.arange(len(best)), best]
            positions.append(np.where(decision > 0, best, -1))
        return answers(model.classes, np.concatenate(positions), self.unknown_label_)

    def judge(self, X: ArrayLike, n: int = 5) -> Judgement:
        """Answer all that may be asked about samples, in one pass.

        Parameters
        ----------
        X : array of shape (n_samples, D)
        n : int, default=5
            How many of the nearest classes to tell.
        """
        model = self._current()
        parts = []
        scored = best_scores(model, self.metric_.representation_, self._checked(X), n, -np.inf)
        for scores, radial, classes in scored:
            best, decision, membership, nearest, distances, memberships = model.judge(scores, radial, n)
            if classes is not None:
                best = classes[np.arange(len(best)), best]
                nearest = np.take_along_axis(classes, nearest, axis=1)
            parts.append((best, decision, membership, nearest, distances, memberships))
        best, decision, membership, nearest, distances, memberships = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        accepted = decision > 0
        return Judgement(
            answers(model.classes, np.where(accepted, best, -1), self.unknown_label_),
            accepted,
            decision,
            membership,
            model.classes[nearest],
            distances,
            memberships,
            model.calibration.threshold,
        )

    def decision_function(self, X: ArrayLike) -> Doubles:
        """Return the decision on every class, shape (n, K), columns as in `classes_`; positive accepts."""
        model = self._current()
        scored = all_scores(model, self.metric_.representation_, self._checked(X))
        parts = [model.decision(scores, radial) for scores, radial in scored]
        return np.concatenate(parts)

    def membership(self, X: ArrayLike) -> Doubles:
        """Return how likely each sample is of each class, shape (n, K), from 0 to 1.

        Calibrated on samples held out, known and unknown in equal numbers. Not normalized over classes:
        all are small for an unknown sample, and all fall to 0 away from the data.
        """
        model = self._current()
        scored = all_scores(model, self.metric_.representation_, self._checked(X))
        parts = [model.membership(scores, radial) for scores, radial in scored]
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

    def _checked(self, X: ArrayLike) -> NDArray[Any]:
        samples: NDArray[Any] = validate_data(self, X, reset=False, dtype="numeric")
        return samples

    # -- the model, made anew when it is asked for after a change ----------------------------------

    def _current(self) -> ScoringModel:
        check_is_fitted(self)
        if len(self.statistics_) < 2:
            raise ValueError("This recognizer knows fewer than 2 classes: teach it more with partial_fit.")
        if self._cache["model"] is None:
            self._cache["model"] = self._make_model()
            self._cache["previous"], self._cache["changed"] = None, set()
        model: ScoringModel = self._cache["model"]
        return model

    def _make_model(self) -> ScoringModel:
        n_samples = float(self.statistics_.counts.sum())
        kept, previous = self._cache["metric"], self._cache["previous"]
        if kept is None or n_samples > (1 + self.refresh_growth) * kept[0]:
            calibration = self._calibrate(self.metric_, *sorted_classes(self.statistics_))
            self.metric_.whitening_ = Whitening.of(self.statistics_, calibration.power)
            kept, previous = (n_samples, calibration), None
            self._cache["metric"] = kept
        changed = self._cache["changed"]
        return make_scoring_model(self.metric_, self._lengths, self.reservoir_, kept[1], previous, changed)

    def _calibrate(
        self, metric: AdaptiveMetric, classes: NDArray[Any], order: NDArray[np.intp]
    ) -> ScoreCalibration:
        """Calibrate on at most a few thousand samples, however many classes there are."""
        per_class = int(np.clip(_CALIBRATION_SAMPLES // len(classes), 2, self.reservoir_.per_class))
        samples, codes = self.reservoir_.samples(classes, per_class)
        represented = metric.representation_(samples)
        return calibrate(hold_out(metric.statistics_, order, represented, codes), self.objective)

    def _state(self) -> tuple[float, ScoringModel] | None:
        """Return what a model file keeps: how many samples the metric is from, and what predictions need.

        None where too little is known to predict, as in a part that is to be added to others.
        """
        try:
            model = self._current()
        except ValueError:
            return None
        return self._cache["metric"][0], model

    def _restore(
        self,
        metric: AdaptiveMetric,
        lengths: ClassStatistics,
        reservoir: Reservoir,
        state: tuple[float, ScoringModel] | None,
    ) -> None:
        """Set what was learnt, as read from a model file."""
        self.metric_, self._lengths, self.reservoir_ = metric, lengths, reservoir
        self._forget_model()
        if state is not None:
            n_samples, model = state
            self._cache["metric"], self._cache["model"] = (n_samples, model.calibration), model

    def _classes_changed(self, labels: Iterable[Any]) -> None:
        """Keep the metric, if it may be kept, and what was made of the other classes."""
        self._cache["previous"] = self._cache["model"] or self._cache["previous"]
        self._cache["changed"] |= set(map(as_key, labels))
        self._cache["model"] = None

    def _forget_model(self) -> None:
        self._cache: dict[str, Any] = {"model": None, "metric": None, "previous": None, "changed": set()}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "metric_")


_CALIBRATION_SAMPLES = 3000
