"""Groups: samples that are near copies of each other, such as the frames of a video.

A held-out sample of a group leaves its copies behind, so that it looks much nearer to its class than a new
sample will. Calibration therefore leaves out the whole group; and the mean of a class of few groups is known
no better than from so many samples.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Doubles = NDArray[np.float64]
Hashes = NDArray[np.uint64]
Codes = NDArray[np.intp]

ALONE = 0  # the hash of a sample that is a group of its own
_NO_GROUP = {"", "None", "nan", "NaT", "<NA>"}


def group_hashes(groups: ArrayLike | None, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Hashes:
    """Return a hash of the group of each sample with a label in y; 0 for a group of its own.

    Samples are repeated as often as their weights say.
    """
    n_samples = len(np.asarray(y))
    if groups is None:
        hashes = np.full(n_samples, ALONE, dtype=np.uint64)
    else:
        names = np.asarray(groups)
        if names.shape != (n_samples,):
            raise ValueError(
                f"groups must have one value for each of the {n_samples} samples; got shape {names.shape}."
            )
        if names.dtype.kind == "f":  # as pandas has whole numbers beside missing ones: 1.0 is 1
            names = np.array([f"{name:.17g}" for name in names.tolist()])
        found, of_sample = np.unique(names.astype(str), return_inverse=True)
        hashes = np.array([_hash(name) for name in found.tolist()], dtype=np.uint64)[of_sample]
    return hashes if sample_weight is None else np.repeat(hashes, np.asarray(sample_weight).astype(np.intp))


def _hash(name: str) -> int:
    if name in _NO_GROUP:
        return ALONE
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return max(int.from_bytes(digest, "little"), ALONE + 1)


class Grouping(NamedTuple):
    """Which samples of some classes are of one group.

    Attributes
    ----------
    numbers : array of shape (n,)
        The group of each sample.
    times : array of shape (n,)
        How often each sample came in its group: exact copies are kept once.
    alike : array of shape (n,)
        The share of the *other* samples kept of its class that are of its group: an estimate without bias of
        the share among all other samples of the class.
    repetition : array of shape (K,)
        The mean of that over the samples of a class: how likely two of its samples are of one group.
    copies : array of shape (K,)
        The mean of ``times (1 - alike)``; over the number of samples, what exact copies add to `repetition`.
    """

    numbers: Codes
    times: Doubles
    alike: Doubles
    repetition: Doubles
    copies: Doubles

    @classmethod
    def of(cls, hashes: Hashes, codes: Codes, n_classes: int, times: Codes | None = None) -> Self:
        """Return the grouping of samples from the hashes of their groups and their classes.

        `times` is how often each came in its group; by default, and for a sample without a group, once.
        """
        own = np.where(hashes == ALONE, np.arange(len(hashes)), -1)
        _, numbers = np.unique(np.array([codes, hashes.view(np.int64), own]), axis=1, return_inverse=True)
        numbers = numbers.ravel().astype(np.intp)  # NumPy 2.0.0 returns a row
        n = np.ones(len(hashes)) if times is None else np.maximum(times, 1.0)
        kept = np.bincount(codes, n, minlength=n_classes)
        alike = (np.bincount(numbers, n)[numbers] - n) / np.maximum(kept[codes] - n, 1)
        repetition, copies = (
            np.bincount(codes, n * values, minlength=n_classes) / np.maximum(kept, 1)
            for values in (alike, n * (1 - alike))
        )
        return cls(numbers, n, alike, repetition, np.where(kept > 0, copies, 1.0))

    def some(self, rows: NDArray[Any]) -> Self:
        """Return the grouping of some of the samples."""
        return self._replace(numbers=self.numbers[rows], times=self.times[rows], alike=self.alike[rows])

    def parts(self, counts: Doubles, codes: Codes) -> Doubles:
        """Return the share of its class that the group of each sample has."""
        own = np.minimum(self.times / counts[codes], 1)
        return np.asarray(own + (1 - own) * self.alike)

    def effective(self, counts: Doubles) -> Doubles:
        """Return how many samples that are no copies would tell as much about each class mean.

        ``1 / sum_g p_g^2`` with the share p_g of each group: the number of groups if they are of one size.
        """
        return np.asarray(counts / (counts * self.repetition + self.copies))
