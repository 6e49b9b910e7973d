"""Measures of scores before any threshold: ROC, precision and recall, OSCR.

A sample is accepted at threshold t when its score is >= t. Tied samples are accepted together, so no
measure depends on the order of the samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.metrics import auc, average_precision_score, roc_auc_score

from openworld.evaluation.decisions import BoolArray, IntArray

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of N known and N' unknown test samples; larger is more known.

    Make it with :meth:`of`. The measures depend on the order of the scores alone, so they are kept as
    ranks, which are finite even where a score is minus infinity.

    Attributes
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        The distinct scores, ascending.
    known_rank : ndarray of shape (N,)
        Position of each known sample's score in `thresholds`.
    unknown_rank : ndarray of shape (N',)
        Position of each unknown sample's score in `thresholds`.
    known_correct : ndarray of bool of shape (N,)
        Whether the class of the known sample's largest score is its own.
    """

    thresholds: FloatArray
    known_rank: IntArray
    unknown_rank: IntArray
    known_correct: BoolArray

    @classmethod
    def of(
        cls, known_score: npt.ArrayLike, unknown_score: npt.ArrayLike, known_correct: npt.ArrayLike
    ) -> Scores:
        """Check and rank the scores.

        Parameters
        ----------
        known_score : array-like of shape (N,)
            Scores of the samples of known classes; larger is more known. Minus infinity is allowed, as
            a recognizer may give it far from all its classes, and ranks lowest; NaN and plus infinity
            are refused.
        unknown_score : array-like of shape (N',)
            Scores of the samples of unknown classes.
        known_correct : array-like of bool of shape (N,)
            Whether each known sample's class is right when it may not be rejected.

        Raises
        ------
        ValueError
            If there are no known or no unknown samples, a score is NaN or plus infinity, or
            `known_correct` is not a bool for each known sample.
        """
        known, unknown = _scores("known_score", known_score), _scores("unknown_score", unknown_score)
        correct = np.array(known_correct)
        if correct.dtype != np.bool_ or correct.shape != known.shape:
            raise ValueError(
                f"known_correct must be bool of shape {known.shape}, got {correct.dtype} of {correct.shape}"
            )
        thresholds, rank = np.unique(np.concatenate([known, unknown]), return_inverse=True)
        return cls(thresholds, rank[: known.size], rank[known.size :], correct)


class OSCRCurve(NamedTuple):
    """The open-set classification rate curve, from "reject everything" to "accept everything".

    Attributes
    ----------
    thresholds : ndarray of shape (n_thresholds + 1,)
        Plus infinity, then the distinct scores, descending.
    false_positive_rate : ndarray of shape (n_thresholds + 1,)
        FPR at each threshold, from 0 to 1.
    correct_classification_rate : ndarray of shape (n_thresholds + 1,)
        CCR at each threshold, from 0 to the closed-set accuracy without rejection.
    """

    thresholds: FloatArray
    false_positive_rate: FloatArray
    correct_classification_rate: FloatArray


def auroc(scores: Scores) -> float:
    """Return the area under the ROC curve, known (positive) against unknown.

    ``P(s > s') + P(s = s') / 2`` for the scores s of a known and s' of an unknown sample.
    """
    return float(roc_auc_score(*_labeled_ranks(scores)))


def aupr(scores: Scores) -> float:
    """Return the area under the precision-recall curve, known (positive) against unknown.

    The average precision, ``sum_t (R(t) - R(t_before)) P(t)`` over the distinct scores t descending,
    with recall R(t) the share of known samples with score >= t and precision P(t) the share of known
    ones among all samples with score >= t. A random score gives about N / (N + N').
    """
    return float(average_precision_score(*_labeled_ranks(scores)))


def oscr_curve(scores: Scores) -> OSCRCurve:
    """Return the open-set classification rate curve (Dhamija et al. 2018).

    At threshold t, CCR(t) is the share of the N known samples that are given their own class *and*
    score >= t, and FPR(t) is the share of the N' unknown samples that score >= t. (The paper has > t
    in CCR; with >= in both, a threshold means one and the same decision in both.)

    References
    ----------
    A. R. Dhamija, M. Günther, T. E. Boult, "Reducing network agnostophobia", NeurIPS 2018.
    """
    return OSCRCurve(
        np.concatenate([[np.inf], scores.thresholds[::-1]]),
        _accepted(scores, scores.unknown_rank) / scores.unknown_rank.size,
        _accepted(scores, scores.known_rank[scores.known_correct]) / scores.known_rank.size,
    )


def oscr_area(scores: Scores) -> float:
    """Return the area under the OSCR curve, straight lines between its points.

    Equal to ``P(correct and s > s') + P(correct and s = s') / 2`` for the scores s of a known and s' of
    an unknown sample. It is the closed-set accuracy when all known samples score above all unknown
    ones, half of it when all scores are equal, and `auroc` when all known samples are correct.
    """
    curve = oscr_curve(scores)
    return float(auc(curve.false_positive_rate, curve.correct_classification_rate))


def ccr_at_fpr(scores: Scores, false_positive_rate: float) -> float:
    """Return the largest CCR(t) of `oscr_curve` whose FPR(t) is at most `false_positive_rate`.

    No interpolation: a threshold reaches the value on these samples; 0 if only "reject everything"
    keeps to the rate.

    Parameters
    ----------
    scores : Scores
    false_positive_rate : float
        In [0, 1].

    Raises
    ------
    ValueError
        If `false_positive_rate` is out of range.
    """
    if not 0.0 <= false_positive_rate <= 1.0:
        raise ValueError(f"false_positive_rate must be in [0, 1], got {false_positive_rate}")
    curve = oscr_curve(scores)
    # Both rates grow along the curve, so the last allowed point has the largest CCR.
    n_allowed = np.searchsorted(curve.false_positive_rate, false_positive_rate, side="right")
    return float(curve.correct_classification_rate[n_allowed - 1])


def _scores(name: str, values: npt.ArrayLike) -> FloatArray:
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or scores.size == 0:
        raise ValueError(f"{name} must be one-dimensional and not empty, got shape {scores.shape}")
    if not np.all(scores < np.inf):
        raise ValueError(f"{name} must not hold NaN or plus infinity")
    return scores


def _accepted(scores: Scores, ranks: IntArray) -> IntArray:
    """Return how many of `ranks` are accepted at +inf and at each threshold, descending."""
    per_threshold = np.bincount(ranks, minlength=scores.thresholds.size)
    return np.concatenate([[0], np.cumsum(per_threshold[::-1])])


def _labeled_ranks(scores: Scores) -> tuple[BoolArray, IntArray]:
    """Return whether each sample is known, and its rank, as scikit-learn's metrics take them."""
    is_known = np.repeat([True, False], [scores.known_rank.size, scores.unknown_rank.size])
    return is_known, np.concatenate([scores.known_rank, scores.unknown_rank])
