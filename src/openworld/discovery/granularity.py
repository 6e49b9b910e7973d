"""How alike the samples of one class are: learned from known classes, used on the unknown pool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from openworld.discovery.linkage import Dendrogram

Floats = NDArray[np.floating[Any]]
Positions = NDArray[np.intp]

THRESHOLDS = np.arange(0.06, 0.96, 0.02)
PROMISED = 0.85  # purity of known samples among the pool: people need pure clusters before complete ones
APART = 0.6  # share of its own class among the known samples around one; two classes in each cluster: 0.5
LEAST_THRESHOLD = 0.3  # whatever the known classes say: less alike than this is never one cluster
MOST_THRESHOLD = 0.97
_LEAST_ALONE = 0.5  # the same without known classes: a silhouette is also high for groups of alike classes
_STEP = 1.2  # of `finer`, in the log-odds of the threshold: from .8 to .93, or to .55
_USUAL_CLASSES = 20  # as many known classes weigh as much as what is usual
_NEARLY_BEST = 0.85  # share of the best silhouette; the finest such cut is used, as purity comes first
_HIGHER = 1.02  # than at the usual cut, for a finer one: rounding does not decide
_NO_CLUSTERS = 0.1  # silhouettes of noise are below, those of classes above
_SMALLEST = 5  # samples of a cluster that counts for the silhouette
_ROWS_TO_JUDGE = 2_000
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
    found : float or None
        The threshold before any steps of `finer`; None without such steps.
    """

    threshold: float
    slope: float
    intercept: float
    n_classes: int = 0
    found: float | None = None

    def purity(self, separation: Floats, known_share: Floats) -> NDArray[np.float64]:
        """Estimate the share of the commonest class in clusters.

        From their `separations`, and the share of held-out known samples among all that were clustered
        together: a cluster that attracts known classes probably mixes them with unknown ones. What is usual
        is for a cut that was found, and less is to be expected of a coarser one.
        """
        coarser = 1.0 if self.found is None else min(self.threshold / self.found, 1.0)
        usual = np.sqrt(coarser) * expit(USUAL.slope * separation + USUAL.intercept)
        own = expit(self.slope * separation + self.intercept)
        return np.asarray(_shrunk(own, usual, self.n_classes) * (1 - known_share))

    def finer(self, steps: int) -> Granularity:
        """Return the granularity for smaller clusters, or for larger ones where `steps` is negative."""
        if not steps:
            return self
        threshold = float(np.clip(expit(logit(self.threshold) + _STEP * steps), 0.05, MOST_THRESHOLD))
        return replace(self, threshold=threshold, found=self.found or self.threshold)


# What was best on the development sets, where known classes say little.
USUAL = Granularity(threshold=0.8, slope=8.2, intercept=0.1)


def calibrate(
    dendrogram: Dendrogram,
    vectors: NDArray[np.float32],
    codes: Positions,
    *,
    finer: int = 0,
    region: Positions | slice = slice(None),
) -> Granularity:
    """Find the coarsest cut that keeps known classes apart from the pool and from each other.

    Held-out samples of known classes lie among the pool and are clustered with it. Their clusters have to be
    as pure as `PROMISED` on average, and to hold no more of other known classes than `APART` allows; where no
    cut is that pure, the purest is taken. How much of a class a cut recovers is not asked: known classes have
    few samples here, which smoothing makes compact, and so they are recovered by cuts that are too fine for
    unknown classes of many samples. With fewer than two known classes the silhouette of the clusters tells.

    Parameters
    ----------
    dendrogram : Dendrogram
        Of pool and known samples, smoothed.
    vectors : array of shape (n, d)
        Pool and known samples before smoothing; unit vectors.
    codes : array of shape (n,)
        The class of each sample, -1 for those of the pool.
    finer : int, default=0
        Steps from the cut that was found to smaller clusters, or to larger ones, where purity is estimated.
    region : array, optional
        Positions of samples that were linked at once: without known classes they find the cut.
    """
    known = np.flatnonzero(codes >= 0)
    n_classes = len(np.unique(codes[known]))
    if n_classes < 2:
        return _by_silhouette(dendrogram, vectors, region).finer(finer)
    judged = [_judge(dendrogram.cut(threshold), codes, known) for threshold in THRESHOLDS]
    enough = [min(cut.purity.mean() / PROMISED, cut.apart.mean() / APART, 1.0) for cut in judged]
    coarsest = float(THRESHOLDS[int(np.argmax(np.round(enough, 9)))])
    threshold = max(_shrunk(coarsest, USUAL.threshold, n_classes), LEAST_THRESHOLD)
    found = Granularity(threshold, USUAL.slope, USUAL.intercept, n_classes).finer(finer)
    slope, intercept = _purity_curve(dendrogram, vectors, codes, known, found.threshold)
    return replace(found, slope=slope, intercept=intercept)


def _by_silhouette(
    dendrogram: Dendrogram, vectors: NDArray[np.float32], region: Positions | slice
) -> Granularity:
    """Find a cut without known classes: the finest whose silhouette is nearly the best.

    Finer than usual only where the silhouette is higher than at the usual cut: where classes lie apart, all
    cuts are nearly as good.
    """

    def quality(threshold: float) -> float:
        cluster_of = np.unique(dendrogram.cut(threshold)[region], return_inverse=True)[1]
        return silhouette(vectors[region], cluster_of)

    cuts = THRESHOLDS[::2]
    found = np.array([quality(threshold) for threshold in cuts])
    if found.max() < _NO_CLUSTERS:
        return USUAL
    good = (found >= _NEARLY_BEST * found.max()) & (
        (cuts <= USUAL.threshold) | (found > _HIGHER * quality(USUAL.threshold))
    )
    finest = max(cuts[good], default=USUAL.threshold)
    return replace(USUAL, threshold=max(float(finest), _LEAST_ALONE))


def silhouette(vectors: NDArray[np.float32], cluster_of: Positions) -> float:
    """Return the mean silhouette of unit vectors (Rousseeuw, 1987), 0 for samples in no cluster of five.

    With cosine distances, and the mean similarity to the most similar other cluster.
    """
    means, sizes = cluster_means(vectors, cluster_of)
    large = np.flatnonzero(sizes >= _SMALLEST)
    if len(large) < 2:
        return 0.0
    rows = np.arange(0, len(vectors), 1 + (len(vectors) - 1) // _ROWS_TO_JUDGE)
    position = np.searchsorted(large, cluster_of[rows]).clip(max=len(large) - 1)
    clustered = large[position] == cluster_of[rows]
    some, own = rows[clustered], position[clustered]
    similarities = vectors[some] @ means[large].T
    here = (np.arange(len(some)), own)
    size = sizes[large[own]]
    inside = 1 - (similarities[here] * size - 1) / (size - 1)  # without the sample itself
    similarities[here] = -np.inf
    outside = 1 - similarities.max(axis=1)
    return float(np.sum((outside - inside) / np.maximum(np.maximum(outside, inside), 1e-9)) / len(rows))


def _shrunk(found: Any, usual: Any, n_classes: int) -> Any:
    """Return the mean of what was found and what is usual: the fewer classes, the nearer to the latter."""
    return (n_classes * found + _USUAL_CLASSES * usual) / (n_classes + _USUAL_CLASSES)


class _Judged(NamedTuple):
    """The clusters of known samples: how pure among the pool, and how far apart from other known classes.

    Samples that are alone in their cluster are left out, unless all are.
    """

    samples: Positions
    purity: Floats
    apart: Floats


def _judge(cluster_of: Positions, codes: Positions, known: Positions) -> _Judged:
    """Return the share of its own class in the cluster of each known sample.

    Pool samples are of unknown classes and make a cluster impure. Not all: the pool also holds rejected
    samples of known classes, so half as many as there are known ones cost nothing. Other known classes are
    not in the pool and may be many more than its own, so they count separately.
    """
    sizes, n_known = np.bincount(cluster_of), np.bincount(cluster_of[known], minlength=cluster_of.max() + 1)
    several = sizes[cluster_of[known]] > 1
    samples = known[several] if several.any() else known
    clusters = cluster_of[samples]
    pairs = clusters * (codes.max() + 1) + codes[samples]
    _, position, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    same = counts[position]
    strange = np.maximum((sizes - n_known)[clusters] - same / 2, 0)
    return _Judged(samples, same / (same + strange), same / n_known[clusters])


def _purity_curve(
    dendrogram: Dendrogram,
    vectors: NDArray[np.float32],
    codes: Positions,
    known: Positions,
    threshold: float,
) -> tuple[float, float]:
    """Fit the purity of the clusters of known samples to their separation, at cuts near the chosen one."""
    separation, purity = [], []
    for nearby in THRESHOLDS[np.abs(THRESHOLDS - threshold) <= _NEARBY][::2]:
        cluster_of = dendrogram.cut(float(nearby))
        judged = _judge(cluster_of, codes, known)
        wanted, position = np.unique(cluster_of[judged.samples], return_inverse=True)
        separation.append(separations(vectors, cluster_of, wanted)[position])
        purity.append(judged.purity)
    return _logistic(np.concatenate(separation), np.concatenate(purity))


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
