"""How alike the samples of one class are: learned from known classes, used on the unknown pool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from openworld.discovery.linkage import Dendrogram

Floats = NDArray[np.floating[Any]]
Positions = NDArray[np.intp]

THRESHOLDS = np.arange(0.06, 0.96, 0.02)
PROMISED = 0.85  # purity of known samples among the pool: people need pure clusters before complete ones
LEAST_THRESHOLD = 0.3  # whatever the known classes say: less alike than this is never one cluster
MOST_THRESHOLD = 0.97
_STEP = 1.25  # of `finer`
_OF_COHESION = 0.8
_USUAL_CLASSES = 20  # as many known classes weigh as much as what is usual
_NEARBY = 0.11  # cuts this near to the chosen one tell how purity goes with separation
_PAIRS_AT_ONCE = 2**24


@dataclass(frozen=True)
class Granularity:
    """Where to cut the dendrogram of the pool, and how pure the clusters are.

    Attributes
    ----------
    threshold : float
        Clusters merge down to this mean similarity.
    slope, intercept : float
        Of the logistic curve that estimates the purity of a cluster from its separation.
    n_classes : int
        Known classes this was learned from; with few of them it is close to `USUAL`.
    """

    threshold: float
    slope: float
    intercept: float
    n_classes: int = 0

    def purity(self, separation: Floats) -> NDArray[np.float64]:
        """Estimate the share of the commonest class in clusters from their `separations`."""
        usual = expit(USUAL.slope * separation + USUAL.intercept)
        own = expit(self.slope * separation + self.intercept)
        return np.asarray(_shrunk(own, usual, self.n_classes))

    def finer(self, steps: int) -> Granularity:
        """Return the granularity for smaller clusters, or for larger ones where `steps` is negative."""
        threshold = float(np.clip(self.threshold * _STEP**steps, 0.05, MOST_THRESHOLD))
        return replace(self, threshold=threshold)


# What was best on the development sets, for a pool without known classes.
USUAL = Granularity(threshold=0.6, slope=8.2, intercept=0.1)


def calibrate(
    dendrogram: Dendrogram, vectors: NDArray[np.float32], codes: Positions, nearest: NDArray[np.float32]
) -> Granularity:
    """Find the cut that recovers known classes best, of those that keep them pure.

    Held-out samples of known classes lie among the pool and are clustered with it. A cut is judged by the
    BCubed F-measure of these samples: precision is the share of their cluster that is of their class, recall
    the share of their class that is in their cluster. A cut that mixes them with the pool, so that their
    purity there is below `PROMISED`, is taken only where there is no other, and then the purest.

    Parameters
    ----------
    dendrogram : Dendrogram
        Of pool and known samples, smoothed.
    vectors : array of shape (n, d)
        Pool and known samples before smoothing; unit vectors.
    codes : array of shape (n,)
        The class of each sample, -1 for those of the pool.
    nearest : array of shape (n,)
        Similarity of each sample to a near neighbor, as `neighbors.smooth` returns.
    """
    known = np.flatnonzero(codes >= 0)
    n_classes = len(np.unique(codes[known]))
    if n_classes < 2:
        return replace(USUAL, threshold=usual_threshold(nearest, 1.0))
    class_of = np.unique(codes[known], return_inverse=True)[1]
    usual = usual_threshold(nearest, float(np.median(cohesions(vectors[known], class_of))))
    judged = [_judge(dendrogram.cut(threshold), codes, known) for threshold in THRESHOLDS]
    precision, recall, purity = np.array([[values.mean() for values in cut] for cut in judged]).T
    measure = 2 * precision * recall / (precision + recall)
    if purity.max() >= PROMISED:
        measure[purity < PROMISED] = 0.0
    else:
        measure = purity
    best = float(THRESHOLDS[int(np.argmax(np.round(measure, 9)))])
    threshold = max(_shrunk(best, usual, n_classes), LEAST_THRESHOLD)
    slope, intercept = _purity_curve(dendrogram, vectors, codes, known, threshold)
    return Granularity(threshold, slope, intercept, n_classes)


def usual_threshold(nearest: NDArray[np.float32], cohesion: float) -> float:
    """Return the threshold to start from, given the similarity of near neighbors and the cohesion of a class.

    In few dimensions everything is alike, and so what is of one class must be more alike.
    """
    most = max(_OF_COHESION * cohesion, USUAL.threshold)
    return float(np.clip(3 * np.median(nearest) - 2, USUAL.threshold, most))


def _shrunk(found: Any, usual: Any, n_classes: int) -> Any:
    """Return the mean of what was found and what is usual: the fewer classes, the nearer to the latter."""
    return (n_classes * found + _USUAL_CLASSES * usual) / (n_classes + _USUAL_CLASSES)


def _judge(cluster_of: Positions, codes: Positions, known: Positions) -> tuple[Floats, Floats, Floats]:
    """Return precision, recall and purity of the clusters of known samples; a sample alone has only recall.

    Pool samples are of unknown classes and make a cluster impure. Not all: the pool also holds rejected
    samples of known classes, so half as many as there are known ones cost nothing. For the precision, they
    count at most as one class of the same size, as known classes have few samples here and unknown ones
    many. The purity is that among the pool: the other known classes are not in it, and may be many more than
    its own.
    """
    of_class, classes = cluster_of[known], codes[known]
    pairs = of_class * (codes.max() + 1) + classes
    _, position, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    same = counts[position]
    sizes, n_known = np.bincount(cluster_of), np.bincount(of_class, minlength=cluster_of.max() + 1)
    from_pool = (sizes - n_known)[of_class]
    strange = np.maximum(from_pool - same / 2, 0)
    precision = same / (n_known[of_class] + np.minimum(strange, same))
    recall = same / np.bincount(classes)[classes]
    several = sizes[of_class] > 1
    rated = several if several.any() else np.ones_like(several)
    return precision[rated], recall, (same / (same + strange))[rated]


def _purity_curve(
    dendrogram: Dendrogram,
    vectors: NDArray[np.float32],
    codes: Positions,
    known: Positions,
    threshold: float,
) -> tuple[float, float]:
    """Fit the precision of known samples to the separation of their clusters, at cuts near the chosen one."""
    separation, precision = [], []
    for nearby in THRESHOLDS[np.abs(THRESHOLDS - threshold) <= _NEARBY][::2]:
        cluster_of = dendrogram.cut(float(nearby))
        several = known[np.bincount(cluster_of)[cluster_of[known]] > 1]
        if len(several):
            wanted, position = np.unique(cluster_of[several], return_inverse=True)
            separation.append(separations(vectors, cluster_of, wanted)[position])
            precision.append(_judge(cluster_of, codes, known)[0])
    if not separation:
        return USUAL.slope, USUAL.intercept
    return _logistic(np.concatenate(separation), np.concatenate(precision))


def cluster_means(
    vectors: NDArray[np.float32], cluster_of: Positions
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the mean of each cluster 0, 1, ... and its size."""
    sizes = np.bincount(cluster_of).astype(np.float64)
    order = np.argsort(cluster_of, kind="stable")
    starts = (np.cumsum(sizes) - sizes).astype(np.intp)
    sums = np.add.reduceat(vectors[order], starts, axis=0)
    return (sums / sizes[:, np.newaxis]).astype(np.float32), sizes


def cohesions(vectors: NDArray[np.float32], cluster_of: Positions) -> NDArray[np.float64]:
    """Return the mean similarity of the pairs in each cluster of unit vectors; 1 for a single sample."""
    means, sizes = cluster_means(vectors, cluster_of)
    squares = sizes**2 * np.einsum("ij,ij->i", means, means, dtype=np.float64)
    pairs = np.maximum(sizes * (sizes - 1), 1.0)
    return np.asarray(np.where(sizes > 1, (squares - sizes) / pairs, 1.0))


def separations(
    vectors: NDArray[np.float32], cluster_of: Positions, wanted: Positions
) -> NDArray[np.float64]:
    """Return how much more alike some clusters are within than to the most similar other cluster.

    Similarities are means over pairs of unit vectors. Single samples are no clusters; without another
    cluster the similarity to it is 0.
    """
    means, sizes = cluster_means(vectors, cluster_of)
    others = np.flatnonzero(sizes > 1)
    outside = np.zeros(len(wanted))
    step = max(1, _PAIRS_AT_ONCE // max(len(others), 1))
    for start in range(0, len(wanted), step):
        some = wanted[start : start + step]
        products = means[some] @ means[others].T
        products[some[:, np.newaxis] == others] = 0.0
        outside[start : start + step] = products.max(axis=1, initial=0.0)
    return np.asarray(cohesions(vectors, cluster_of)[wanted] - outside)


def _logistic(values: Floats, shares: Floats) -> tuple[float, float]:
    """Fit shares as a logistic curve of values, rising with them."""
    from sklearn.linear_model import LogisticRegression  # loads much that nothing else here needs

    both = np.r_[values, values][:, np.newaxis]
    truth = np.repeat([1, 0], len(values))
    weights = np.r_[shares, 1 - shares]
    if weights[: len(values)].sum() < 1 or weights[len(values) :].sum() < 1:
        return USUAL.slope, USUAL.intercept
    model = LogisticRegression(C=100.0).fit(both, truth, weights)
    return max(float(model.coef_[0, 0]), 0.0), float(model.intercept_[0])
