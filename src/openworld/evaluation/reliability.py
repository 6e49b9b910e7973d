"""Whether a membership of 0.8 means right in 8 of 10 cases: reliability curve and calibration error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


class Reliability(NamedTuple):
    """Memberships in ten equal bins; empty bins are left out.

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
        """The expected calibration error: the mean distance of membership and share of right answers."""
        return float(self.weight @ np.abs(self.membership - self.right))


def reliability(known: npt.ArrayLike, correct: npt.ArrayLike, unknown: npt.ArrayLike) -> Reliability:
    """Compare memberships with how often they are right.

    Known and unknown samples count the same in all, whatever their numbers: half of the weight each. An
    unknown sample is right for no class.

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
