"""Hashes that are identical on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]


def scrambled(numbers: NDArray[np.integer[Any]]) -> Hashes:
    """Return a 64-bit hash of each integer; different integers have different hashes (SplitMix64)."""
    bits = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def row_hashes(rows: NDArray[np.floating[Any]]) -> Hashes:
    """Return a hash of the bits of each row of a C-contiguous float32 or float64 table.

    Multilinear hashing: each 32-bit word is multiplied by its own 64-bit key, and the products are summed
    modulo 2^64 (Lemire and Kaser, Strongly universal string hashing is fast, 2014).
    """
    words = rows.view(np.uint32)
    keys = scrambled(np.arange(words.shape[1]))
    return scrambled(np.einsum("ij,j->i", words, keys))
