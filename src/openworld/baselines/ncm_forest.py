"""NCM forests: trees that split by the nearest of a few class means and grow with new samples."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from openworld.baselines.base import Baseline, Scorer
from openworld.recognition import CrossClassValidation

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]

# Random sets of class means tried at a node, and random left-right divisions of each set.
_SETS, _DIVISIONS = 4, 16


class NCMForest(Baseline):
    """A forest of nearest-class-mean trees; the score is the share of each class in the leaves reached.

    Ristin, Guillaumin, Gall & Van Gool, "Incremental learning of NCM forests for large-scale image
    classification", 2014. A node holds the means, over its own training samples, of a random set of about
    the root of the number of its classes, each assigned to the left or the right: a sample goes where its
    nearest mean is assigned to. Of the random sets and divisions tried, the one with the
    largest information gain is kept. A leaf's distribution is that of its training samples, and the trees'
    distributions are averaged.

    More samples, also of new classes, are learned as in their "incrementally grow tree" (IGT): they go down
    to the leaves and update the distributions there, and a leaf that has become large and mixed enough is
    split as in training. Existing splits never change. As in the paper, the samples are kept at the
    leaves. The trees depend on the order of the samples, and the threshold is that of `fit`. Some leaf
    regions are unbounded, so the accepted region is not bounded.

    The defaults are chosen for speed: 20 trees, and 4 random sets with 16 divisions each per node.

    Parameters
    ----------
    n_trees : int, default=20
    min_samples : int, default=10
        A leaf with fewer samples is not split.
    random_state : int, default=0
    threshold, unknown_label
        As in `Baseline`.
    """

    retrains = False
    order_matters = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._parameter_constraints,
        "n_trees": [Interval(Integral, 1, None, closed="left")],
        "min_samples": [Interval(Integral, 2, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_trees: int = 20,
        *,
        min_samples: int = 10,
        random_state: int = 0,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.n_trees = n_trees
        self.min_samples = min_samples
        self.random_state = random_state

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        trees = [Tree(self.min_samples, (self.random_state, number)) for number in range(self.n_trees)]
        return Forest(trees, np.empty((0, X.shape[1])), codes[:0], 0).grown(X, codes, n_classes)

    def _keep(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        """Keep the forest, which holds the samples, and the order in which classes came."""
        self._forest: Any = self._scorer
        self._arrived = self.classes_

    def _learn_more(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        """Grow the trees by the new samples."""
        new = np.setdiff1d(labels, self._arrived)
        self._arrived = np.concatenate([self._arrived, new])
        self.classes_, columns = np.unique(self._arrived, return_index=True)
        codes = columns[np.searchsorted(self.classes_, labels)]
        self._forest = forest = self._forest.grown(samples, codes, len(self._arrived))
        self._scorer = lambda samples: forest(samples)[:, columns]


class Forest:
    """Trees and the samples in their leaves; calling it returns the averaged distributions."""

    def __init__(self, trees: list[Tree], samples: Floats, codes: Positions, n_classes: int) -> None:
        self.trees = trees
        self.samples = samples
        self.codes = codes
        self.n_classes = n_classes

    def grown(self, samples: NDArray[Any], codes: Positions, n_classes: int) -> Forest:
        """Return a forest that also learned these samples; this one does not change."""
        all_samples = np.concatenate([self.samples, samples.astype(np.float64)])
        all_codes = np.concatenate([self.codes, codes])
        added = np.arange(len(self.codes), len(all_codes))
        trees = [tree.grown(all_samples, all_codes, added, n_classes) for tree in self.trees]
        return Forest(trees, all_samples, all_codes, n_classes)

    def __call__(self, samples: NDArray[Any]) -> Floats:
        """Return the averaged share of each class, shape (n, K)."""
        total, exact = np.zeros((len(samples), self.n_classes)), samples.astype(np.float64)
        for tree in self.trees:
            total += tree.shares(exact)
        return total / len(self.trees)


@dataclass(frozen=True)
class MeanSplit:
    """A node that sends a sample to the side of its nearest class mean."""

    means: Floats
    is_left: NDArray[np.bool_]
    left: int
    right: int

    def goes_left(self, samples: Floats) -> NDArray[np.bool_]:
        """Return which samples have their nearest mean on the left."""
        return np.asarray(self.is_left[nearest(samples, self.means)])


class Tree:
    """One NCM tree: a list of nodes, each a `Split` or the positions of a leaf's samples, class by class."""

    def __init__(self, min_samples: int, seed: tuple[int, ...]) -> None:
        self.min_samples = min_samples
        self.seed = seed
        self.nodes: list[MeanSplit | Positions] = [np.empty(0, dtype=np.intp)]
        self.distributions = np.zeros((1, 0))

    def grown(self, samples: Floats, codes: Positions, added: Positions, n_classes: int) -> Tree:
        """Return a tree with the added samples in its leaves, and large mixed leaves split."""
        tree = Tree(self.min_samples, self.seed)
        tree.nodes = list(self.nodes)
        random = np.random.default_rng((*self.seed, len(codes)))
        for leaf, arrived in self._leaves_of(samples[added]):
            present = self.nodes[leaf]
            assert not isinstance(present, MeanSplit)
            inside = np.concatenate([present, added[arrived]])
            tree.nodes[leaf] = inside[np.argsort(codes[inside], kind="stable")]
            tree._split(leaf, samples, codes, random)
        tree.distributions = np.zeros((len(tree.nodes), n_classes))
        for number, node in enumerate(tree.nodes):
            if not isinstance(node, MeanSplit):
                counts = np.bincount(codes[node], minlength=n_classes)
                tree.distributions[number] = counts / max(len(node), 1)
        return tree

    def shares(self, samples: Floats) -> Floats:
        """Return the share of each class in the leaf of each sample."""
        leaf_of = np.empty(len(samples), dtype=np.intp)
        for leaf, arrived in self._leaves_of(samples):
            leaf_of[arrived] = leaf
        return self.distributions[leaf_of]

    def _leaves_of(self, samples: Floats) -> list[tuple[int, Positions]]:
        """Return the leaves that samples reach, each with the positions of its samples."""
        found, waiting = [], [(0, np.arange(len(samples)))]
        while waiting:
            number, here = waiting.pop()
            node = self.nodes[number]
            if not isinstance(node, MeanSplit):
                found.append((number, here))
                continue
            left = node.goes_left(samples[here])
            for child, there in ((node.left, here[left]), (node.right, here[~left])):
                if len(there):
                    waiting.append((child, there))
        return found

    def _split(self, leaf: int, samples: NDArray[Any], codes: Positions, random: np.random.Generator) -> None:
        """Split a leaf and its descendants until they are small or of one class."""
        waiting = [leaf]
        while waiting:
            number = waiting.pop()
            here = self.nodes[number]
            assert not isinstance(here, MeanSplit)
            if len(here) < self.min_samples:
                continue
            found = best_split(samples[here], codes[here], random)
            if found is None:
                continue
            means, is_left, goes_left = found
            children = len(self.nodes), len(self.nodes) + 1
            self.nodes += [here[goes_left], here[~goes_left]]
            self.nodes[number] = MeanSplit(means, is_left, *children)
            waiting += children


def nearest(samples: Floats, means: Floats) -> Positions:
    """Return which mean is nearest to each sample."""
    return np.asarray(np.argmin(_distances(samples, means), axis=1))


def _distances(samples: Floats, means: Floats) -> Floats:
    """Return squared distances to the means, less the samples' own squared lengths."""
    return np.asarray(np.sum(means**2, axis=1) - 2 * (samples @ means.T))


def best_split(
    samples: Floats, codes: Positions, random: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]] | None:
    """Try random sets of class means and random divisions of them; return the most informative.

    Parameters
    ----------
    samples : array of shape (n, D)
    codes : array of shape (n,), ascending

    Returns
    -------
    means, is_left, goes_left : arrays, or None
        The set of means, their sides, and the sides of the samples; None where no split separates them.
    """
    classes, starts, local, counts = np.unique(
        codes, return_index=True, return_inverse=True, return_counts=True
    )
    if len(classes) == 1:
        return None
    means = np.add.reduceat(samples, starts, axis=0) / counts[:, None]
    size = max(2, round(np.sqrt(len(classes))))
    sets = np.array([random.permutation(len(classes))[:size] for _ in range(_SETS)])
    tried = np.unique(sets)
    distances = _distances(samples, means[tried])
    best, least = None, np.inf
    for chosen in sets:
        closest = distances[:, np.searchsorted(tried, chosen)].argmin(axis=1)
        table = np.bincount(local * size + closest, minlength=len(classes) * size).reshape(-1, size)
        divisions = random_divisions(size, random)
        left = table @ divisions
        mixing = impurity(left) + impurity(counts[:, None] - left)
        mixing[(left.sum(axis=0) == 0) | (left.sum(axis=0) == len(codes))] = np.inf
        if mixing.min() < least:
            least, is_left = mixing.min(), divisions[:, mixing.argmin()].astype(bool)
            best = means[chosen], is_left, is_left[closest]
    return best


def random_divisions(size: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return random assignments of `size` means to left (1) or right (0), in columns, none one-sided."""
    divisions = random.integers(0, 2, size=(size, _DIVISIONS))
    one_sided = (divisions.sum(axis=0) == 0) | (divisions.sum(axis=0) == size)
    divisions[random.integers(0, size, size=one_sided.sum()), np.flatnonzero(one_sided)] ^= 1
    return divisions


def impurity(counts: NDArray[np.int64]) -> Floats:
    """Return the number of samples times the entropy of their classes, for counts in columns."""
    totals = counts.sum(axis=0)
    return np.asarray(_x_log_x(totals) - _x_log_x(counts).sum(axis=0))


def _x_log_x(counts: NDArray[np.int64]) -> Floats:
    return np.asarray(counts * np.log(np.maximum(counts, 1)))
