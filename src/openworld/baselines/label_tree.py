"""A label tree: linear classifiers choose between groups of similar classes."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils._param_validation import Interval

from openworld.baselines.base import Baseline, Scorer
from openworld.baselines.linear_svm import standardizer
from openworld.recognition import CrossClassValidation

Floats = NDArray[np.float64]


class LabelTree(Baseline):
    """A probabilistic label tree; the score of a class is the probability of its path.

    After Bengio, Weston & Grangier 2010, Deng, Satheesh, Berg & Fei-Fei 2011, and Liu, Sadeghi, Tappen,
    Shah & Liu 2013. At each node a multinomial logistic regression chooses between at most `branching`
    groups of classes, trained on the samples of the node's classes; ``P(class) = prod P(branch | node)``
    along the path from the root.

    Differences from the papers: the groups are clusters of class means (Ward's linkage), not learned with
    the classifiers or taken from a confusion matrix; all paths are followed, not only the best branch, so
    the answer is the most probable leaf. Scores do not decay with distance from the data: the accepted
    region is not bounded. Samples are scaled to unit length and standardized first.

    Parameters
    ----------
    branching : int, default=16
        Maximum number of branches of a node.
    threshold, unknown_label
        As in `Baseline`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._parameter_constraints,
        "branching": [Interval(Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        branching: int = 16,
        *,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.branching = branching

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        scale = standardizer(X, unit_length=True)
        vectors = scale(X)
        means = np.array([vectors[codes == code].mean(axis=0) for code in range(n_classes)])
        root = Node(vectors, codes, np.arange(n_classes), means, self.branching)

        def path_probabilities(samples: NDArray[Any]) -> Floats:
            scores = np.zeros((len(samples), n_classes))
            root.follow(scale(samples), np.ones(len(samples)), scores)
            return scores

        return path_probabilities


class Node:
    """A node for some of the classes, with a branch for each group of them."""

    def __init__(
        self,
        vectors: Floats,
        codes: NDArray[np.intp],
        members: NDArray[np.intp],
        means: Floats,
        branching: int,
    ) -> None:
        self.members = members
        self.branches: list[Node] = []
        if len(members) == 1:
            return
        groups = group_classes(means[members], branching)
        here = np.isin(codes, members)
        vectors, codes = vectors[here], codes[here]
        targets = groups[np.searchsorted(members, codes)]
        self.weights, self.intercepts = choose_branch(vectors, targets)
        self.branches = [
            Node(vectors, codes, members[groups == group], means, branching) for group in np.unique(groups)
        ]

    def follow(self, vectors: Floats, probability: Floats, scores: Floats) -> None:
        """Write the probability of each leaf below into its column of `scores`."""
        if not self.branches:
            scores[:, self.members[0]] = probability
            return
        shares = softmax(vectors @ self.weights + self.intercepts, axis=1)
        for branch, share in zip(self.branches, shares.T, strict=True):
            branch.follow(vectors, probability * share, scores)


def choose_branch(vectors: Floats, branches: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Train a multinomial logistic regression; return its weights (D, B) and intercepts (B,)."""
    # The samples' mean squared length is 1, not D: this is a C of 0.1 for standardized features.
    model = LogisticRegression(C=0.1 * vectors.shape[1], tol=1e-3, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 200 iterations are close enough
        model.fit(vectors.astype(np.float32), branches)
    weights = model.coef_.astype(np.float64).T
    intercepts = model.intercept_.astype(np.float64)
    if weights.shape[1] == 1:  # two branches: scikit-learn stores only the second
        weights, intercepts = np.hstack([0 * weights, weights]), np.append(0 * intercepts, intercepts)
    return weights, intercepts


def group_classes(means: Floats, branching: int) -> NDArray[np.intp]:
    """Divide classes into at most `branching` groups, at least two, with means close to each other."""
    if len(means) <= branching:
        return np.arange(len(means))
    groups: NDArray[np.intp] = fcluster(linkage(means, "ward"), branching, "maxclust").astype(np.intp)
    if len(np.unique(groups)) == 1:  # the means coincide
        return np.arange(len(means)) % branching
    return groups
