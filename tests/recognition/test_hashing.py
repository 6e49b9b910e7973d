"""Hashes against known values, and against what a hash is for."""

from __future__ import annotations

import numpy as np
import pytest

from openworld.recognition.hashing import row_hashes, scrambled


def test_split_mix_gives_the_published_numbers():
    """The first outputs of SplitMix64 with seed 1234567 (Vigna's reference, as on Rosetta Code)."""
    step = 0x9E3779B97F4A7C15
    seeds = np.array([(1234567 + i * step) % 2**64 for i in range(5)], dtype=np.uint64)
    assert scrambled(seeds).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_no_two_numbers_share_one():
    assert len(np.unique(scrambled(np.arange(100_000)))) == 100_000


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 2, 3, 8])
def test_rows_that_differ_in_one_bit_have_different_hashes(dtype, width):
    row = np.random.default_rng(0).normal(size=(1, width)).astype(dtype)
    n_bits = 8 * row.nbytes
    rows = np.repeat(row, n_bits, axis=0)
    flipped = rows.view(np.uint8)
    flipped[np.arange(n_bits), np.arange(n_bits) // 8] ^= (1 << (np.arange(n_bits) % 8)).astype(np.uint8)
    assert len({*row_hashes(rows).tolist(), *row_hashes(row).tolist()}) == n_bits + 1


def test_rows_of_small_whole_numbers_are_told_apart():
    """Their bits end in many zeros, and so do the sums of products."""
    rows = np.stack(np.meshgrid(np.arange(256), np.arange(256)), axis=-1).reshape(-1, 2).astype(np.float32)
    hashes = row_hashes(rows)
    assert len(np.unique(hashes)) == len(rows)
    share = (hashes < np.uint64(2**62)).mean()
    assert share == pytest.approx(0.25, abs=0.01)


def test_a_row_has_its_hash_whatever_the_others():
    rows = np.random.default_rng(1).normal(size=(50, 7)).astype(np.float32)
    assert row_hashes(rows).tolist() == [int(row_hashes(rows[i : i + 1])[0]) for i in range(50)]
