"""Scores of samples by what OpenWorldRecognizer has learned, and the state that predictions read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.index import is_approximate
from openworld.index.growing_rows import GrowingRows, Restorer
from openworld.recognition.adaptive.groups import Grouping
from openworld.recognition.adaptive.held_out import HeldOut, hold_out
from openworld.recognition.adaptive.metric import AdaptiveMetric, Whitening, row_lengths, unit
from openworld.recognition.adaptive.radial import lengths_of, radial_factor, radii_of
from openworld.recognition.adaptive.representation import Representation
from openworld.recognition.adaptive.reservoir import Reservoir
from openworld.recognition.adaptive.score import ScoreCalibration, two_largest
from openworld.recognition.adaptive.scoring_index import ScoreIndex
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.validation import as_array

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Rows = NDArray[np.intp]

_TIGHTNESS_SAMPLES = 4000
_FEW, _MANY = 16, 64  # so few of so many scores are quicker to look for one after the other
# Samples are worked on so many at a time, and fewer where there are very many classes.
_CHUNK_ROWS, _CHUNK_SCORES = 1024, 1 << 24
_FAR = 100.0  # a penalty with which no sample is near


@dataclass(frozen=True)
class ScoringModel:
    """What predictions need.

    Attributes
    ----------
    classes : array of shape (K,)
        Sorted.
    whitening : Whitening
    vectors : GrowingRows
        One row for each class, in the order in which they were learned, so that one more costs no copy of
        the others: its mean, for a score by distance; otherwise the direction of its mean, with the length
        that the number of its samples asks for.
    rows : array of shape (K,)
        The row of each class in `vectors`; rows of classes forgotten since are zeros.
    penalties : array of shape (K,)
        What the tightness of each class takes off its similarity.
    factors : array of shape (K,)
        Of the squared distances, or of the cosines: what the number of samples of each class does to them.
    radii : array of shape (K,)
        The length of a sample up to which each class's radial factor is 1; it falls to 0 at twice that.
    calibration : ScoreCalibration
    index : ScoreIndex or None
        Of `vectors`, where there are very many.
    """

    classes: NDArray[Any]
    whitening: Whitening
    vectors: GrowingRows
    rows: NDArray[np.intp]
    penalties: Floats
    factors: Floats
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
        scores = np.einsum("ij,ikj->ik", directions, self.vectors.rows[self.rows[positions]])
        scores -= self.penalties[positions]
        scores[missing] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")
        scores, positions = (np.take_along_axis(part, order, axis=1) for part in (scores, positions))
        return None if np.any(lengths > self.radii[positions[:, 0]]) else (scores, positions)

    @cached_property
    def _positions(self) -> NDArray[np.intp]:
        """The class of each row in `vectors`; K for a row that no class has any more."""
        positions = np.full(len(self.vectors), len(self.rows), dtype=np.intp)
        positions[self.rows] = np.arange(len(self.rows))
        return positions

    @cached_property
    def _squares(self) -> Floats:
        """The squared length of the vector of each class."""
        vectors = self.vectors.rows
        return np.asarray(np.einsum("ij,ij->i", vectors, vectors)[self.rows])

    def prepare(self) -> None:
        """Compute now what the first prediction would compute."""
        _ = self._positions if self.index is not None else None
        _ = self._squares if self.calibration.by_distance else None

    def scores(self, represented: Floats) -> Floats:
        """Return the score of represented samples and every class, shape (n, K), see `ScoreCalibration`."""
        whitened: NDArray[Any] = self.whitening(represented)
        if self.calibration.by_distance:  # the small difference of large products
            whitened = whitened.astype(np.float64)
        scores = whitened @ self.vectors.rows.T
        if len(self.rows) < scores.shape[1] or np.any(self.rows[1:] < self.rows[:-1]):
            scores = scores.take(self.rows, axis=1)  # which is row by row, as scores[:, rows] is not
        if not self.calibration.by_distance:
            scores /= row_lengths(whitened)
        else:
            scores *= -2
            scores += np.einsum("ij,ij->i", whitened, whitened)[:, np.newaxis]
            scores += self._squares
            np.maximum(scores, 0, out=scores)
            scores *= self.factors
            np.sqrt(scores, out=scores)
            np.negative(scores, out=scores)
        scores -= self.penalties
        return np.asarray(scores, dtype=np.float32)

    def compared(self, scores: Floats, classes: NDArray[np.intp] | None = None) -> Floats:
        """Return what is compared with the threshold, for every class; see `ScoreCalibration`.

        Where the scores are of some classes only, the two with the largest scores among them, the positions
        of these classes are given too.
        """
        if not self.calibration.runner_up or scores.shape[1] < 2:
            return scores
        best, first, second = two_largest(scores)
        named = best if classes is None else classes[np.arange(len(best)), best]
        penalties, factors = self.penalties[named], self.factors[named]
        others = self.calibration.compared(np.zeros_like(first), first, penalties, np.ones_like(first))
        compared = scores + others[:, np.newaxis]
        compared[np.arange(len(scores)), best] = self.calibration.compared(first, second, penalties, factors)
        return np.asarray(compared)

    def best(self, scores: Floats, radial: Doubles | float) -> tuple[NDArray[np.intp], Doubles, Floats]:
        """Return the position of the class with the largest decision, that decision, and what is compared."""
        if isinstance(radial, float):  # all samples are short: the largest score decides
            best, first, second = two_largest(scores)
            compared = first
            if scores.shape[1] > 1:
                compared = self.calibration.compared(first, second, self.penalties[best], self.factors[best])
            return best, self.decision(compared, radial), compared
        compared = self.compared(scores)
        decision = self.decision(compared, radial)
        best = decision.argmax(axis=1)
        at_best = (np.arange(len(scores)), best)
        return best, decision[at_best], compared[at_best]

    def membership(self, compared: Floats, radial: Doubles | float) -> Doubles:
        """Return the calibrated probabilities, which fall to 0 away from the data."""
        return np.asarray(self.calibration.probability(compared) * radial)

    def judge(
        self, scores: Floats, radial: Doubles | float, n: int
    ) -> tuple[NDArray[np.intp], Doubles, Doubles, NDArray[np.intp], Doubles, Doubles]:
        """Return best class, its decision and membership; the n nearest, their ``1 - s`` and memberships."""
        rows, n = np.arange(len(scores)), min(n, scores.shape[1])
        best, decision, compared = self.best(scores, radial)
        nearest, near = _largest(scores, min(max(n, 2), scores.shape[1]))
        near_compared = self.compared(near, nearest)[:, :n]
        nearest, near = nearest[:, :n], near[:, :n]
        if isinstance(radial, float):
            membership, memberships = (self.membership(part, radial) for part in (compared, near_compared))
        else:
            membership = self.membership(compared, radial[rows, best])
            memberships = self.membership(near_compared, np.take_along_axis(radial, nearest, axis=1))
        return best, decision, membership, nearest, 1 - near.astype(np.float64), memberships

    def restorer(self, labels: Iterable[Any]) -> Restorer:
        """Return a function that undoes what the next model, made from this one, changes in its rows."""
        rows = np.sort(self.rows[np.isin(self.classes, as_array(list(labels)))])
        return Restorer([part.restorer(rows) for part in (self.vectors, self.index) if part is not None])

    def renamed(self, old: Any, new: Any) -> ScoringModel:
        """Return the model with a class under another name."""
        names = as_array([new if label == old else label for label in self.classes.tolist()])
        order = np.argsort(names, kind="stable")
        return replace(
            self,
            classes=names[order],
            rows=self.rows[order],
            penalties=self.penalties[order],
            factors=self.factors[order],
            radii=self.radii[order],
        )

    def decision(self, compared: Floats, radial: Doubles | float) -> Doubles:
        """Return ``exp(s - threshold) b - 1``, with the radial factor b: positive accepts.

        A product of two abating functions, the score's and the radial one, in units of the threshold.
        """
        over = np.exp(compared.astype(np.float64) - self.calibration.threshold)
        return np.asarray(over * radial - 1)


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
    held_out: HeldOut | None = None,
) -> ScoringModel:
    """Make the model from statistics and reservoir.

    Where a previous model by the same metric is given, only the classes that changed since then are made
    again, so learning one class costs little however many there are. Its rows are taken over: it is not to
    be used afterwards. Without a previous model, the whitened means and samples of the sorted classes may be
    given.
    """
    classes, order = sorted_classes(metric.statistics_)
    vectors, rows, penalties, factors = _kept_of(previous, classes, metric.representation_.n_dimensions)
    new = (rows < 0) | np.isin(classes, as_array(list(changed)))

    if held_out is None:
        samples, codes, grouping = shown_samples(reservoir, classes[new], len(classes))
        represented = metric.representation_(samples)
        statistics, seen = metric.statistics_, previous is None
        held_out = hold_out(
            statistics, metric.whitening_, order[new], represented, codes, grouping, seen=seen
        )
    whitened = held_out.means
    first, n_added = len(vectors), int(np.sum(rows < 0))
    vectors.extend(np.empty((n_added, whitened.shape[1]), dtype=np.float32))
    rows[rows < 0] = np.arange(first, first + n_added)
    factors[new] = calibration.factors(held_out.effective, whitened.shape[1])
    if calibration.by_distance:
        vectors.rows[rows[new]] = whitened
    else:
        vectors.rows[rows[new]] = unit(whitened) * factors[new][:, np.newaxis]
    penalties[new] = 0
    if calibration.weight:
        own = calibration.similarities(held_out.own(), whitened.shape[1])[:, 0]
        penalties[new] = calibration.penalties(own, held_out.codes, len(whitened))
    radii = radii_of(lengths, classes)
    index, left = None, _rows_left(previous, metric.statistics_, changed)
    vectors.rows[left] = 0
    if previous is not None and previous.index is not None:
        index, moved = previous.index, np.sort(np.concatenate([rows[new], left]))
        index.update(moved, vectors.rows[moved], by_row(penalties, rows, len(vectors))[moved])
    elif previous is None and not calibration.by_distance and is_approximate("auto", len(classes)):
        index = ScoreIndex(vectors.rows, by_row(penalties, rows, len(vectors)))
    return ScoringModel(
        classes, metric.whitening_, vectors, rows, penalties, factors, radii, calibration, index
    )


def shown_samples(
    reservoir: Reservoir, classes: NDArray[Any], n_classes: int
) -> tuple[NDArray[Any], Rows, Grouping | None]:
    """Return samples that show how tight classes are, their positions in `classes`, and their groups."""
    per_class = int(np.clip(_TIGHTNESS_SAMPLES // n_classes, 4, reservoir.per_class))
    return *reservoir.samples(classes, per_class), reservoir.grouping(classes, per_class)


def _rows_left(previous: ScoringModel | None, statistics: ClassStatistics, changed: Set[Any]) -> Rows:
    """Return the rows of a previous model whose classes are no longer there."""
    gone = [label for label in changed if label not in statistics]
    if previous is None or not gone:
        return np.empty(0, dtype=np.intp)
    return np.asarray(previous.rows[np.isin(previous.classes, as_array(gone))])


def _kept_of(
    previous: ScoringModel | None, classes: NDArray[Any], n_dimensions: int
) -> tuple[GrowingRows, Rows, Floats, Floats]:
    """Return the vectors of a previous model; the row of each class (-1: none), its penalty and factor."""
    if previous is None:
        nothing = GrowingRows(np.empty((0, n_dimensions)), np.float32)
        rows = np.full(len(classes), -1, dtype=np.intp)
        return nothing, rows, np.empty(len(classes), np.float32), np.empty(len(classes), np.float32)
    found = np.searchsorted(previous.classes, classes).clip(max=len(previous.classes) - 1)
    rows = np.where(previous.classes[found] == classes, previous.rows[found], -1)
    return previous.vectors, rows, previous.penalties[found], previous.factors[found]


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


def by_row(penalties: Floats, rows: Rows, n_rows: int) -> Floats:
    """Return the penalties in the order of the rows; rows that no class has are far from everything."""
    ordered = np.full(n_rows, _FAR, dtype=np.float32)
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
