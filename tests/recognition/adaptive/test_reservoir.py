"""What a reservoir keeps, against sorting everything by hash."""

import copy
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openworld.recognition.adaptive.reservoir import Reservoir, row_hashes, scrambled

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 3)).astype(np.float32)
Y = RANDOM.integers(0, 4, size=120)


def content(reservoir):
    return {
        label: [sample.tolist() for sample in reservoir.samples(np.array([label]), 10**6)[0]]
        for label in sorted(reservoir._kept)
    }


def split_mix(number):
    """The hash of a whole number, in whole numbers of Python."""
    bits = (number + 0x9E3779B97F4A7C15) % 2**64
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % 2**64
    return bits ^ (bits >> 31)


def hash_of(sample):
    words = struct.unpack(f"={len(sample)}I", struct.pack(f"={len(sample)}f", *sample))
    return split_mix(sum(word * split_mix(i) for i, word in enumerate(words)) % 2**64)


def brute_force(samples, labels, size, total=0, most_in_all=10**6):
    """Sort the distinct samples of each class by hash and keep the first."""
    most = max(1, min(max(size, total // len(set(labels))), most_in_all // len(set(labels))))
    found = {}
    for label in sorted(set(labels)):
        distinct = {tuple(sample.tolist()) for sample in samples[labels == label]}
        found[label] = [list(sample) for sample in sorted(distinct, key=hash_of)[:most]]
    return found


def filled(samples=X, labels=Y, size=5, total=0, most=10**6):
    reservoir = Reservoir(size, total, most=most)
    reservoir.add(samples, labels)
    return reservoir


def test_the_smallest_hashes_are_kept():
    assert content(filled()) == brute_force(X, Y, 5)
    assert content(filled(size=2, total=40)) == brute_force(X, Y, 10)
    assert content(filled(size=1000)) == brute_force(X, Y, 1000)


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    n_pieces=st.integers(1, 20),
    size=st.integers(1, 40),
    total=st.sampled_from([0, 30, 200]),
    most=st.sampled_from([2, 30, 10**6]),
)
def test_order_and_pieces_make_no_difference(seed, n_pieces, size, total, most):
    order = np.random.default_rng(seed).permutation(len(X))
    reservoir = Reservoir(size, total, most=most)
    for piece in np.array_split(order, n_pieces):
        reservoir.add(X[piece], Y[piece])
    assert content(reservoir) == brute_force(X, Y, size, total, most)
    assert len(reservoir) == sum(map(len, content(reservoir).values()))


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    n_parts=st.integers(1, 8),
    size=st.integers(1, 40),
    total=st.sampled_from([0, 30, 200]),
    most=st.sampled_from([2, 30, 10**6]),
)
def test_merged_parts_are_the_whole(seed, n_parts, size, total, most):
    random = np.random.default_rng(seed)
    part_of = random.integers(0, n_parts, size=len(X))
    parts = [filled(X[part_of == i], Y[part_of == i], size, total, most) for i in range(n_parts)]
    whole = Reservoir(size, total, most=most)
    for i in random.permutation(n_parts):
        whole.merge_from(parts[i])
    assert content(whole) == brute_force(X, Y, size, total, most)


def test_pieces_inside_a_batch(monkeypatch):
    monkeypatch.setattr("openworld.recognition.adaptive.reservoir._ROWS_AT_ONCE", 7)
    assert content(filled(size=3, total=40)) == brute_force(X, Y, 3, 40)


def test_merging_leaves_the_other_as_it_was():
    one, other = filled(X[:60], Y[:60]), filled(X[60:], Y[60:])
    before = content(other)
    one.merge_from(other)
    one.add(X[60:] + 1, Y[60:])
    assert content(other) == before


def test_one_more_class_can_be_undone_where_all_keep_fewer_then():
    reservoir = Reservoir(4, total=0, most=8)
    reservoir.add(RANDOM.normal(size=(40, 3)), np.arange(40) % 2)
    before = content(reservoir)
    restore = reservoir.restorer([7])
    reservoir.add(RANDOM.normal(size=(5, 3)), np.full(5, 7))
    assert len(reservoir) == 6  # two of each class
    restore()
    assert content(reservoir) == before


def test_the_size_is_bounded():
    reservoir = Reservoir(4, total=100)
    for batch in range(20):
        reservoir.add(RANDOM.normal(size=(200, 3)), np.arange(200) % (5 * (batch + 1)))
        per_class = max(4, 100 // (5 * (batch + 1)))
        assert reservoir.per_class == per_class
        assert all(len(kept) <= per_class for kept in content(reservoir).values())


def test_memory_does_not_grow_with_the_samples():
    reservoir = filled(size=5)
    before = len(pickle.dumps(reservoir))
    reservoir.add(RANDOM.normal(size=(20_000, 3)), RANDOM.integers(0, 4, size=20_000))
    assert len(pickle.dumps(reservoir)) < before + 200


def test_the_batch_is_not_kept_for_the_sake_of_a_sample():
    batch = RANDOM.normal(size=(1000, 3)).astype(np.float32)
    reservoir = filled(batch, np.r_[np.zeros(999, dtype=int), 1])
    for kept in reservoir._kept.values():
        for sample, *_ in kept.values():
            owner = sample if sample.base is None else sample.base
            assert owner.nbytes <= 5 * batch[0].nbytes


def test_samples_changed_afterwards_are_kept_as_they_were():
    samples = X.copy()
    reservoir = filled(samples, Y, 1000)
    samples[:] = 0
    assert content(reservoir) == brute_force(X, Y, 1000)


def test_duplicates_count_once():
    samples = np.repeat(X[:4], 50, axis=0)
    reservoir = filled(samples, np.zeros(200, dtype=int), size=10)
    assert len(content(reservoir)[0]) == 4
    reservoir.add(samples, np.ones(200, dtype=int))
    assert len(content(reservoir)[1]) == 4


def test_the_choice_is_uniform():
    """Each of 200 samples is as likely as any other, whatever its value."""
    times = np.zeros(200)
    for trial in range(400):
        samples = np.column_stack([np.arange(200), np.full(200, trial)])
        chosen = filled(samples, np.zeros(200, dtype=int), size=20).samples(np.array([0]), 20)[0]
        times[chosen[:, 0].astype(int)] += 1
    assert times.sum() == 400 * 20
    # 40 times on average, with the deviation of a binomial distribution: 6.
    assert times.std() == pytest.approx(6, abs=1)
    assert abs(times[:100].mean() - 40) < 3
    assert times.min() > 15
    assert times.max() < 70


def test_forget():
    reservoir = filled()
    before = content(reservoir)
    reservoir.forget(2)
    del before[2]
    assert content(reservoir) == before
    reservoir.forget("no such class")
    assert content(reservoir) == before


def test_rename():
    reservoir = filled()
    before = content(reservoir)
    reservoir.rename(2, 9)
    before[9] = before.pop(2)
    assert content(reservoir) == before
    reservoir.rename(9, 9)
    assert content(reservoir) == before
    with pytest.raises(KeyError):
        reservoir.rename(77, 78)


@pytest.mark.parametrize("into", [1, 3, 9])
def test_merge(into):
    reservoir = filled(size=1000)
    reservoir.merge([1, 2], into)
    labels = np.where(np.isin(Y, [1, 2, into]), into, Y)
    assert content(reservoir) == brute_force(X, labels, 1000)


def test_merge_keeps_the_bound():
    reservoir = filled(size=5)
    reservoir.merge([0, 1, 2], 0)
    labels = np.where(Y < 3, 0, Y)
    assert content(reservoir) == brute_force(X, labels, 5)


def test_samples():
    reservoir = filled()
    found, codes = reservoir.samples(np.array([3, 0, 77]), 2)
    assert found.dtype == np.float32
    assert codes.tolist() == [0, 0, 1, 1]
    expected = brute_force(X, Y, 2)
    assert found.tolist() == expected[3] + expected[0]


def test_copy_and_empty():
    reservoir = Reservoir(7, 50, np.float64)
    reservoir.add(X, Y)
    before, other = content(reservoir), reservoir.copy()
    other.forget(0)
    other.add(X + 1, Y)
    assert content(reservoir) == before
    empty = reservoir.empty()
    assert content(empty) == {}
    assert (empty.size, empty.total, empty.dtype) == (7, 50, np.float64)
    assert (other.size, other.total, other.dtype) == (7, 50, np.float64)


@pytest.mark.parametrize("through", [copy.deepcopy, copy.copy])  # the latter by the state that is sent
def test_copies_of_the_standard_library_are_independent(through):
    reservoir = filled(size=3, total=40)
    reservoir.add(X[:0], Y[:0])
    other = through(reservoir)
    assert content(other) == content(reservoir)
    other.add(X + 1, Y)
    reservoir.add(X + 2, Y)
    both = np.concatenate
    assert content(other) == brute_force(both([X, X + 1]), both([Y, Y]), 3, 40)
    assert content(reservoir) == brute_force(both([X, X + 2]), both([Y, Y]), 3, 40)


def test_other_processes_get_few_arrays():
    buffers = []
    pickle.dumps(filled(size=1000), protocol=5, buffer_callback=buffers.append)
    assert len(buffers) <= 1


@pytest.mark.parametrize("labels", [np.array(["a", "b"]), np.array([b"a", b"b"]), np.array([True, False])])
def test_labels_of_any_kind(labels):
    reservoir = filled(X[:2], labels)
    assert reservoir.samples(labels, 5)[1].tolist() == [0, 1]


def test_the_precision_decides_which_samples_are_distinct():
    samples = 1e9 + np.arange(40.0)[:, np.newaxis]  # float32 tells multiples of 64 apart
    assert len(content(filled(samples, np.zeros(40, dtype=int), 100))[0]) == 2
    reservoir = Reservoir(100, dtype=np.float64)
    reservoir.add(samples, np.zeros(40, dtype=int))
    assert sorted(content(reservoir)[0]) == samples.tolist()


def test_whole_numbers_and_other_layouts_agree():
    counts = RANDOM.integers(0, 255, size=(50, 4)).astype(np.uint8)
    expected = content(filled(counts, Y[:50]))
    assert content(filled(counts.astype(np.float64), Y[:50])) == expected
    assert content(filled(np.asfortranarray(counts.astype(np.float32)), Y[:50])) == expected
    assert content(filled(np.repeat(counts, 2, axis=1)[:, ::2], Y[:50])) == expected


# -- hashes ---------------------------------------------------------------------------------------


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


def test_rows_of_small_whole_numbers_are_distinguished():
    """Their bits end in many zeros, and so do the sums of products."""
    rows = np.stack(np.meshgrid(np.arange(256), np.arange(256)), axis=-1).reshape(-1, 2).astype(np.float32)
    hashes = row_hashes(rows)
    assert len(np.unique(hashes)) == len(rows)
    share = (hashes < np.uint64(2**62)).mean()
    assert share == pytest.approx(0.25, abs=0.01)


def test_a_row_has_its_hash_whatever_the_others():
    rows = np.random.default_rng(1).normal(size=(50, 7)).astype(np.float32)
    assert row_hashes(rows).tolist() == [int(row_hashes(rows[i : i + 1])[0]) for i in range(50)]
