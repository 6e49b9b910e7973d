"""Reliability of memberships: curve and expected calibration error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


class Reliability(NamedTuple):
    """Reliability curve of memberships in ten equal bins, without empty bins.

    Attributes
    ----------
    membership, right : arrays of shape (n_bins,)
        Mean membership and share of right answers in each bin.
    weight : array of shape (n_bins,)
        Share of the samples in each bin.
    """

    membership: FloatArray
    right: FloatArray
    weight: FloatArray

    @property
    def error(self) -> float:
        """The expected calibration error: mean distance between membership and share of right answers."""
        return float(self.weight @ np.abs(self.membership - self.right))


def reliability(known: npt.ArrayLike, correct: npt.ArrayLike, unknown: npt.ArrayLike) -> Reliability:
    """Compute the reliability curve: how often is the best class right, at each membership?

    Known and unknown samples each have half of the weight, whatever their numbers. For an unknown sample
    no class is right.

    Parameters
    ----------
    known : array of shape (N,)
        Membership of the best class of samples of known classes, from 0 to 1.
    correct : bool array of shape (N,)
        Whether that class is the sample's own.
    unknown : array of shape (N',)
        Membership of the best class of samples of unknown classes.
    """
    n_known, n_unknown = np.size(known), np.size(unknown)
    memberships = np.concatenate([known, unknown]).astype(np.float64)
    right = np.concatenate([correct, np.zeros(n_unknown)]).astype(np.float64)
    weights = np.repeat([0.5 / n_known, 0.5 / n_unknown], [n_known, n_unknown])
    bins = np.minimum((10 * memberships).astype(np.intp), 9)
    total = np.bincount(bins, weights, minlength=10).astype(np.float64)
    used = total > 0
    membership, share = (
        np.bincount(bins, weights * values, minlength=10)[used] / total[used]
        for values in (memberships, right)
    )
    return Reliability(membership, share, total[used])
