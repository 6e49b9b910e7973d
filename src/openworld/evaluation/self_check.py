"""Self-check: what a recognizer will do on new data, estimated from samples and classes held out of training.

The recognizer is fitted three more times without a third of the samples of each class, which play new samples
of known classes, and three times without a third of the classes, which play unknown. Every sample is judged
once as known and once as unknown, by a model whose metric and threshold have not seen it.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from openworld.data.values import group_numbers
from openworld.evaluation.score_measures import Scores, oscr_area
from openworld.recognition.validation import rank_in_class

MOST_SAMPLES = 2000
N_FOLDS = 3
_NEAREST = 5
_RESAMPLES = 200
_SHOWN = 10
_OVERLAP = 0.05  # share of a class nearest to one other class, above which the two overlap
_STRAYS = 3  # so few samples are no overlap, however small the class


@dataclass(frozen=True)
class SelfCheck:
    """What the held-out samples say.

    Attributes
    ----------
    n_samples, n_classes : int
        How many were checked.
    right, missed, misnamed : float
        Shares of the samples of known classes that were named right, called unknown, and given a wrong name.
    nearest_right : float
        The share whose nearest class is right, were nothing rejected.
    rejected : float or None
        The share of the samples of unknown classes that were called unknown; None with two classes.
    oscr : float or None
        Area under the OSCR curve: how often a known sample is named right and scores above an unknown one.
    oscr_interval : (float, float) or None
        95 % interval of that, by drawing classes again.
    worst_classes : list of (label, share right, samples)
    confused : list of (label, answer, samples)
        Pairs of classes, most often confused first; samples called unknown do not count.
    suspects : list of (position, label, other label, membership)
        Samples whose label may be wrong, the surest first; positions are rows of X.
    """

    n_samples: int
    n_classes: int
    right: float
    missed: float
    misnamed: float
    nearest_right: float
    rejected: float | None = None
    oscr: float | None = None
    oscr_interval: tuple[float, float] | None = None
    worst_classes: list[tuple[Any, float, int]] = field(default_factory=list)
    confused: list[tuple[Any, Any, int]] = field(default_factory=list)
    suspects: list[tuple[int, Any, Any, float]] = field(default_factory=list)

    @property
    def is_near_chance(self) -> bool:
        """Whether naming is hardly better than guessing, within two standard errors.

        False where the samples are so few that guessing could look halfway right.
        """
        chance = 1 / self.n_classes
        most = chance + 2 * math.sqrt(chance * (1 - chance) / max(self.n_samples, 1))
        return self.nearest_right <= most < (1 + chance) / 2


@dataclass(frozen=True)
class _HeldOutAnswers:
    """The judgements of held-out samples, as known and as unknown, by position in X."""

    rows: NDArray[np.intp]
    answers: NDArray[Any]
    accepted: NDArray[np.bool_]
    decision: NDArray[np.float64]
    nearest: NDArray[Any]
    membership: NDArray[np.float64]  # in the nearest class
    own_membership: NDArray[np.float64]  # in the class of the label; 0 where that is not among the nearest

    @classmethod
    def by(cls, model: Any, X: NDArray[Any], y: NDArray[Any], rows: NDArray[np.intp]) -> _HeldOutAnswers:
        said = model.judge(X[rows], min(_NEAREST, len(model.classes_)))
        own = np.where(said.nearest == y[rows, np.newaxis], said.memberships, 0.0).max(axis=1)
        nearest, membership = said.nearest[:, 0], said.memberships[:, 0]
        return cls(rows, said.labels, said.accepted, said.decision, nearest, membership, own)

    @classmethod
    def joined(cls, parts: list[_HeldOutAnswers]) -> _HeldOutAnswers:
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__annotations__))


def self_check(
    recognizer: Any,
    X: NDArray[Any],
    y: NDArray[Any],
    *,
    groups: NDArray[Any] | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> SelfCheck | None:
    """Fit copies of a recognizer without some classes and samples, and judge these.

    Parameters
    ----------
    recognizer : recognizer
        Its parameters are used; it is not changed.
    X : array of shape (n, D)
    y : array of shape (n,)
        Of more than 2,000 samples so many are drawn, as evenly from the classes as can be.
    groups : array of str of shape (n,), optional
        The samples of a class that are of one group are near copies of each other: they are held out
        together. A class of a single group is never held out as known. "": a group of its own.
    seed : int, default=0
    progress : callable, optional
        Called with (fits done, fits).

    Returns
    -------
    SelfCheck, or None where fewer than two classes have two samples, or no class has two groups.
    """
    chosen = _drawn(y, seed)
    classes, codes = np.unique(y[chosen], return_inverse=True)
    folds = _folds(codes, None if groups is None else groups[chosen])
    if len(classes) < 2 or folds.max() < 0:
        return None
    held_out = [folds == fold for fold in range(N_FOLDS)]
    left_out = [codes % N_FOLDS == fold for fold in range(N_FOLDS)] if len(classes) > 2 else []
    parts: list[list[_HeldOutAnswers]] = [[], []]
    for i, out in enumerate([*held_out, *left_out]):
        train, tested = chosen[~out], chosen[out]
        if len(np.unique(y[train])) > 1 and len(tested):
            with suppress(ValueError), warnings.catch_warnings():  # few samples of a class may be left
                warnings.filterwarnings("ignore", message="Too little to calibrate with")
                together = {} if groups is None else {"groups": groups[train]}
                model = clone(recognizer).fit(X[train], y[train], **together)
                parts[i >= N_FOLDS].append(_HeldOutAnswers.by(model, X, y, tested))
        if progress is not None:
            progress(i + 1, len(held_out) + len(left_out))
    known_parts, unknown_parts = parts
    if not known_parts:
        return None
    unknown_judged = _HeldOutAnswers.joined(unknown_parts) if unknown_parts else None
    return _summary(_HeldOutAnswers.joined(known_parts), unknown_judged, y, len(classes))


def _drawn(y: NDArray[Any], seed: int) -> NDArray[np.intp]:
    """Return the positions of up to 2,000 samples, of classes with at least two, in random order."""
    order = np.random.default_rng(seed).permutation(len(y))
    _, codes, counts = np.unique(y[order], return_inverse=True, return_counts=True)
    several = counts[codes] > 1
    order, codes = order[several], codes[several]
    first = np.argsort(rank_in_class(codes), kind="stable")[:MOST_SAMPLES]  # about equally many per class
    kept = order[np.sort(first)]
    _, codes, counts = np.unique(y[kept], return_inverse=True, return_counts=True)
    return np.asarray(kept[counts[codes] > 1])


def _folds(codes: NDArray[np.intp], groups: NDArray[Any] | None) -> NDArray[np.intp]:
    """Return the fold in which each sample is held out with its group; -1 if its class has no other group."""
    if groups is None:
        return rank_in_class(codes) % N_FOLDS
    pairs = np.column_stack([codes, group_numbers(groups)])
    found, of_sample = np.unique(pairs, axis=0, return_inverse=True)
    classes = found[:, 0]
    folds = np.where(np.bincount(classes)[classes] > 1, rank_in_class(classes) % N_FOLDS, -1)
    return np.asarray(folds[of_sample.ravel()])  # NumPy 2.0.0 returns a column


def _summary(
    known: _HeldOutAnswers, unknown: _HeldOutAnswers | None, y: NDArray[Any], n_classes: int
) -> SelfCheck:
    truth = y[known.rows]
    right = (known.answers == truth) & known.accepted
    misnamed = known.accepted & ~right
    nearest_right = known.nearest == truth
    rejected = oscr = interval = None
    if unknown is not None:
        rejected = float(np.mean(~unknown.accepted))
        oscr, interval = _oscr(known, nearest_right, truth, unknown, y[unknown.rows])
    return SelfCheck(
        len(known.rows),
        n_classes,
        float(right.mean()),
        float(np.mean(~known.accepted)),
        float(misnamed.mean()),
        float(nearest_right.mean()),
        rejected,
        oscr,
        interval,
        _worst(truth, right),
        _confused(truth[misnamed], known.answers[misnamed]),
        _suspects(known, truth),
    )


def _oscr(
    known: _HeldOutAnswers,
    correct: NDArray[np.bool_],
    truth: NDArray[Any],
    unknown: _HeldOutAnswers,
    unknown_truth: NDArray[Any],
) -> tuple[float, tuple[float, float]]:
    """Return the OSCR area and its interval, by drawing classes with replacement."""
    area = oscr_area(Scores.of(known.decision, unknown.decision, correct))
    classes = np.union1d(truth, unknown_truth)  # with groups, some classes may be judged only as unknown
    of_class = [np.flatnonzero(truth == label) for label in classes]
    of_unknown = [np.flatnonzero(unknown_truth == label) for label in classes]
    random = np.random.default_rng(0)
    areas = []
    for _ in range(_RESAMPLES):
        drawn = random.integers(0, len(classes), len(classes))
        rows = np.concatenate([of_class[i] for i in drawn])
        others = np.concatenate([of_unknown[i] for i in drawn])
        if len(rows) and len(others):
            scores = Scores.of(known.decision[rows], unknown.decision[others], correct[rows])
            areas.append(oscr_area(scores))
    low, high = np.quantile(areas, [0.025, 0.975])
    return area, (float(low), float(high))


def _worst(truth: NDArray[Any], right: NDArray[np.bool_]) -> list[tuple[Any, float, int]]:
    """Return the classes whose samples are named right least often, if any is not always."""
    classes, codes, counts = np.unique(truth, return_inverse=True, return_counts=True)
    shares = np.bincount(codes, right) / counts
    order = np.argsort(shares, kind="stable")[:_SHOWN]
    found = zip(classes[order].tolist(), shares[order].tolist(), counts[order].tolist(), strict=True)
    return [one for one in found if one[1] < 1]


def _confused(truth: NDArray[Any], answers: NDArray[Any]) -> list[tuple[Any, Any, int]]:
    pairs = Counter(zip(truth.tolist(), answers.tolist(), strict=True))
    return [(label, answer, count) for (label, answer), count in pairs.most_common(_SHOWN)]


def _suspects(known: _HeldOutAnswers, truth: NDArray[Any]) -> list[tuple[int, Any, Any, float]]:
    """Return samples that another class claims as surely as its own ones, and their own class does not.

    After the idea of confident learning (Northcutt et al. 2021): the bar of a class is the lower quartile of
    the membership of the samples that are labeled with it and nearest to it. Where classes overlap, many
    samples with right labels pass it, so samples of such pairs of classes are not returned.
    """
    own = known.nearest == truth
    bars = {
        label: float(np.quantile(known.membership[own & (truth == label)], 0.25))
        for label in np.unique(truth[own]).tolist()
    }
    bar = np.array([bars.get(label, np.inf) for label in known.nearest.tolist()])
    sizes, pairs = Counter(truth.tolist()), list(zip(truth.tolist(), known.nearest.tolist(), strict=True))
    strays = Counter(pairs)
    apart = np.array([strays[pair] <= max(_STRAYS, _OVERLAP * sizes[pair[0]]) for pair in pairs])
    surely = (known.membership >= bar) & (known.own_membership < known.membership / 2)
    found = [
        (int(known.rows[i]), *pairs[i], float(known.membership[i]))
        for i in np.flatnonzero(~own & apart & surely)
    ]
    return sorted(found, key=lambda one: -one[3])
