"""Scores of samples by what OpenWorldRecognizer has learned, and the state that predictions read."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.index import InvertedLists, Training, candidates, is_approximate, train
from openworld.index.growing_rows import GrowingRows
from openworld.recognition.adaptive.calibration import ScoreCalibration, filled, tightness
from openworld.recognition.adaptive.metric import AdaptiveMetric, Whitening, unit
from openworld.recognition.adaptive.radial import lengths_of, radial_factor, radii_of
from openworld.recognition.adaptive.representation import Representation
from openworld.recognition.adaptive.reservoir import Reservoir
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.validation import as_array

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Rows = NDArray[np.intp]

_TIGHTNESS_SAMPLES = 6000
_FEW, _MANY = 16, 64  # so few of so many scores are quicker to look for one after the other
# Samples are worked on so many at a time, and fewer where there are very many classes.
_CHUNK_ROWS, _CHUNK_SCORES = 1024, 1 << 24
_CANDIDATES = 8


@dataclass(frozen=True)
class ScoringModel:
    """What predictions need.

    Attributes
    ----------
    classes : array of shape (K,)
        Sorted.
    whitening : Whitening
    unit_means : GrowingRows
        Directions of the class means, in the order in which they were learnt, so that one more costs no copy
        of the others.
    rows : array of shape (K,)
        The row of each class in `unit_means`.
    penalties : array of shape (K,)
        What the tightness of each class takes off its similarity.
    radii : array of shape (K,)
        The length of a sample up to which each class's radial factor is 1; it falls to 0 at twice that.
    calibration : ScoreCalibration
    index : ScoreIndex or None
        Of the rows in `unit_means`, where there are very many.
    """

    classes: NDArray[Any]
    whitening: Whitening
    unit_means: GrowingRows
    rows: NDArray[np.intp]
    penalties: Floats
    radii: Doubles
    calibration: ScoreCalibration
    index: ScoreIndex | None = None

    def found(
        self, represented: Floats, lengths: Doubles, n: int, threshold: float
    ) -> tuple[Floats, NDArray[np.intp]] | None:
        """Return the scores of the classes that may be the n best, largest first, and their positions.

        Those with scores below the threshold need not be the best. None without an index, and where a sample
        is so long that the largest decision need not be that on the class with the largest score.
        """
        if self.index is None:
            return None
        directions = unit(self.whitening(represented))
        rows = self.index.largest(directions, n, threshold)
        # Of equal scores the first class is taken; what is missing comes last.
        positions = np.sort(np.where(rows < 0, len(self.rows), self._positions[rows]), axis=1)
        missing = positions == len(self.rows)
        positions[missing] = 0
        scores = np.einsum("ij,ikj->ik", directions, self.unit_means.rows[self.rows[positions]])
        scores -= self.penalties[positions]
        scores[missing] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")
        scores, positions = (np.take_along_axis(part, order, axis=1) for part in (scores, positions))
        return None if np.any(lengths > self.radii[positions[:, 0]]) else (scores, positions)

    @cached_property
    def _positions(self) -> NDArray[np.intp]:
        """The class of each row in `unit_means`."""
        positions = np.empty(len(self.unit_means), dtype=np.intp)
        positions[self.rows] = np.arange(len(self.rows))
        return positions

    def scores(self, represented: Floats) -> Floats:
        """Return ``cos(x, mu_c) - w r_c`` of represented samples and every class, shape (n, K)."""
        scores = unit(self.whitening(represented)) @ self.unit_means.rows.T
        if len(self.rows) < scores.shape[1] or np.any(self.rows[1:] < self.rows[:-1]):
            scores = scores[:, self.rows]
        scores -= self.penalties
        return np.asarray(scores)

    def best(self, scores: Floats, radial: Doubles | float) -> tuple[NDArray[np.intp], Doubles]:
        """Return the position of the class with the largest decision, and that decision, shapes (n,)."""
        rows = np.arange(len(scores))
        if isinstance(radial, float):  # all samples are short: the largest score decides
            best = scores.argmax(axis=1)
            return best, self.decision(scores[rows, best], radial)
        decision = self.decision(scores, radial)
        best = decision.argmax(axis=1)
        return best, decision[rows, best]

    def membership(self, scores: Floats, radial: Doubles | float) -> Doubles:
        """Return the calibrated probabilities, which fall to 0 away from the data."""
        return np.asarray(self.calibration.probability(scores) * radial)

    def judge(
        self, scores: Floats, radial: Doubles | float, n: int
    ) -> tuple[NDArray[np.intp], Doubles, Doubles, NDArray[np.intp], Doubles, Doubles]:
        """Return best class, its decision and membership; the n nearest, their ``1 - s`` and memberships."""
        rows, n = np.arange(len(scores)), min(n, scores.shape[1])
        best, decision = self.best(scores, radial)
        nearest, near = _largest(scores, n)
        if isinstance(radial, float):
            membership, memberships = (self.membership(part, radial) for part in (scores[rows, best], near))
        else:
            membership = self.membership(scores[rows, best], radial[rows, best])
            memberships = self.membership(near, np.take_along_axis(radial, nearest, axis=1))
        return best, decision, membership, nearest, 1 - near.astype(np.float64), memberships

    def renamed(self, old: Any, new: Any) -> ScoringModel:
        """Return the model with a class under another name."""
        names = as_array([new if label == old else label for label in self.classes.tolist()])
        order = np.argsort(names, kind="stable")
        return replace(
            self,
            classes=names[order],
            rows=self.rows[order],
            penalties=self.penalties[order],
            radii=self.radii[order],
        )

    def decision(self, scores: Floats, radial: Doubles | float) -> Doubles:
        """Return angular times radial factor, minus the threshold.

        Scores lie between -2 and 1: ``(2 + s) / 3`` is an abating function from 0 to 1 like the radial one.
        """
        angular = (2 + scores.astype(np.float64)) / 3
        return np.asarray(angular * radial - (2 + self.calibration.threshold) / 3)


def sorted_classes(statistics: ClassStatistics) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes in sorted order and their rows in the statistics."""
    classes = as_array(statistics.labels)
    order = np.argsort(classes, kind="stable")
    return classes[order], order


def make_scoring_model(
    metric: AdaptiveMetric,
    lengths: ClassStatistics,
    reservoir: Reservoir,
    calibration: ScoreCalibration,
    previous: ScoringModel | None = None,
    changed: Set[Any] = frozenset(),
) -> ScoringModel:
    """Make the model from statistics and reservoir.

    Where a previous model by the same metric is given, only the classes that changed since then are made
    anew, so learning one class costs little however many there are. Its rows are taken over: it is not to
    be used afterwards.
    """
    classes, order = sorted_classes(metric.statistics_)
    if previous is None:
        unit_means = GrowingRows(np.empty((0, metric.representation_.n_dimensions)), np.float32)
        rows = np.full(len(classes), -1, dtype=np.intp)
        penalties = np.empty(len(classes), dtype=np.float32)
    else:
        unit_means = previous.unit_means
        found = np.searchsorted(previous.classes, classes).clip(max=len(previous.classes) - 1)
        rows = np.where(previous.classes[found] == classes, previous.rows[found], -1)
        penalties = previous.penalties[found]
    new = (rows < 0) | np.isin(classes, as_array(list(changed)))

    counts = metric.statistics_.counts[order[new]]
    means = metric.statistics_.sums[order[new]] / counts[:, np.newaxis]
    whitened = metric.whitening_(means.astype(np.float32))
    first, n_added = len(unit_means), int(np.sum(rows < 0))
    unit_means.extend(np.empty((n_added, whitened.shape[1]), dtype=np.float32))
    rows[rows < 0] = np.arange(first, first + n_added)
    unit_means.rows[rows[new]] = unit(whitened)
    per_class = int(np.clip(_TIGHTNESS_SAMPLES // len(classes), 4, reservoir.size))
    samples, codes = reservoir.samples(classes[new], per_class)
    shown = metric.whitening_(metric.representation_(samples))
    tight = tightness(unit(shown), shown, codes, whitened, counts)
    penalties[new] = np.float32(calibration.weight) * tight
    penalties, radii = filled(penalties), radii_of(lengths, classes)
    index = previous.index if previous is not None else None
    if index is not None:
        changed_rows = np.sort(rows[new])
        index.update(changed_rows, unit_means.rows[changed_rows], _by_row(penalties, rows)[changed_rows])
    elif previous is None and is_approximate("auto", len(classes)):
        index = ScoreIndex(unit_means.rows, _by_row(penalties, rows))
    return ScoringModel(classes, metric.whitening_, unit_means, rows, penalties, radii, calibration, index)


def _largest(scores: Floats, n: int) -> tuple[NDArray[np.intp], Floats]:
    """Return the positions of the n largest scores of each row, largest first, and these scores.

    Of equals the first comes first.
    """
    if n <= _FEW and scores.shape[1] >= _MANY:
        return _one_by_one(scores, n)
    found = np.sort(np.argpartition(-scores, n - 1, axis=1)[:, :n], axis=1)
    largest = np.take_along_axis(scores, found, axis=1)
    order = np.argsort(-largest, axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(largest, order, axis=1)


def _one_by_one(scores: Floats, n: int) -> tuple[NDArray[np.intp], Floats]:
    rows, left = np.arange(len(scores)), scores.copy()
    found, largest = np.empty((len(scores), n), dtype=np.intp), np.empty((len(scores), n), dtype=scores.dtype)
    for i in range(n):
        found[:, i] = left.argmax(axis=1)
        largest[:, i] = left[rows, found[:, i]]
        left[rows, found[:, i]] = -np.inf
    return found, largest


def _by_row(penalties: Floats, rows: NDArray[np.intp]) -> Floats:
    """Return the penalties in the order of the rows."""
    ordered = np.empty_like(penalties)
    ordered[rows] = penalties
    return ordered


def all_scores(
    model: ScoringModel, representation: Representation, samples: NDArray[Any]
) -> Iterator[tuple[Floats, Doubles | float]]:
    """Yield scores and radial factors of every class."""
    n_rows = int(np.clip(_CHUNK_SCORES // len(model.classes), 1, _CHUNK_ROWS))
    for start in range(0, len(samples), n_rows):
        chunk = samples[start : start + n_rows]
        yield model.scores(representation(chunk)), radial_factor(chunk, model.radii)


def best_scores(
    model: ScoringModel, representation: Representation, samples: NDArray[Any], n: int, threshold: float
) -> Iterator[tuple[Floats, Doubles | float, NDArray[np.intp] | None]]:
    """Yield scores and radial factors of the classes that may be the n best, and the positions of these.

    The positions are None where the scores are of all classes. Where no score is above the threshold, the
    best ones may be missing.
    """
    for start in range(0, len(samples), _CHUNK_ROWS):
        chunk = samples[start : start + _CHUNK_ROWS]
        found = None
        if model.index is not None:
            found = model.found(representation(chunk), lengths_of(chunk), n, threshold)
        if found is None:
            for scores, radial in all_scores(model, representation, chunk):
                yield scores, radial, None
        else:
            yield found[0], 1.0, found[1]


class ScoreIndex:
    """Directions of class means with their penalties, in inverted lists.

    The largest score ``s = cos(x, mu) - p`` is the smallest distance between x with a zero appended and mu
    with ``sqrt(2 (p - p_0))`` appended, where p_0 is the least penalty: its square is ``2 (1 - p_0 - s)``.

    Parameters
    ----------
    unit_means : array of shape (K, L)
    penalties : array of shape (K,)
    training : Training, optional
        Where it was saved; by default found anew.
    """

    def __init__(self, unit_means: Floats, penalties: Floats, training: Training | None = None) -> None:
        self._least = penalties.min()

        def vectors(rows: Any) -> Floats:
            return self._appended(unit_means[rows], penalties[rows])

        self._lists = InvertedLists(training or train(vectors, len(unit_means)), vectors)

    @property
    def training(self) -> Training:
        """What a later index of these means need not find anew."""
        return self._lists.training

    def _appended(self, unit_means: Floats, penalties: Floats) -> Floats:
        # A class learnt later may have a smaller penalty; it is then found as if it had the least one.
        last = np.sqrt(2 * np.maximum(penalties - self._least, 0))
        return np.ascontiguousarray(np.column_stack([unit_means, last]), dtype=np.float32)

    def update(self, rows: Rows, unit_means: Floats, penalties: Floats) -> None:
        """Put other means into these rows, which are in ascending order; those behind the last are new."""
        vectors, new = self._appended(unit_means, penalties), rows >= len(self.training.lists)
        if not new.all():
            self._lists.replace(rows[~new], vectors[~new])
        self._lists.add(vectors[new])

    def largest(self, directions: Floats, n: int, threshold: float) -> Rows:
        """Return the rows of some classes, the n with the largest scores among them, shape (n_samples, k).

        Where there are fewer, the row is -1. Samples none of whose scores is above the threshold are looked
        up in more lists, except in those that hold none above it either.
        """
        seen = self._appended(directions, np.full(len(directions), self._least))
        boundary = np.sqrt(max(2 * (1 - float(self._least) - threshold), 0.0))
        n = min(n, len(self.training.lists))
        return candidates(self._lists, seen, n, float(boundary), max(_CANDIDATES, n + 1))[1]
