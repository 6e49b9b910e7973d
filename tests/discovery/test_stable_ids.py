from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from openworld.discovery.stable_ids import keep_ids


def test_nothing_before_means_new_ids_in_order():
    assert keep_ids([[1, 2], [3]], {}, 7) == ([7, 8], 9)


def test_nothing_now_uses_up_no_id():
    assert keep_ids([], {1: [5]}, 2) == ([], 2)


def test_the_larger_part_of_a_split_cluster_keeps_its_id():
    assert keep_ids([[1, 2], [3, 4, 5]], {4: [1, 2, 3, 4, 5]}, 5) == ([5, 4], 6)


def test_merged_clusters_keep_the_id_of_the_larger():
    assert keep_ids([[1, 2, 3, 4, 5]], {1: [1, 2], 2: [3, 4, 5]}, 3) == ([2], 3)


def test_a_retired_id_does_not_come_back():
    assert keep_ids([[1, 2]], {}, 9) == ([9], 10)


def test_a_stray_does_not_carry_the_id_of_a_cluster_that_fell_apart():
    assert keep_ids([[1, 20, 21, 22, 23]], {1: [1, 2, 3, 4, 5, 6]}, 2) == ([2], 3)


def test_a_cluster_that_grew_keeps_its_id():
    assert keep_ids([list(range(100))], {1: [1, 2, 3]}, 2) == ([1], 2)


def test_the_pairing_with_most_in_common_wins_over_the_greedy_one():
    # Greedy would give id 1 to the first group (4 shared) and leave id 2 unused: 4 instead of 3 + 3.
    previous = {1: [0, 1, 2, 3, 10, 11, 12], 2: [4, 5, 6]}
    groups = [[0, 1, 2, 3, 4, 5, 6], [10, 11, 12]]
    assert keep_ids(groups, previous, 3) == ([2, 1], 3)


@st.composite
def partitions(draw):
    def partition() -> list[list[int]]:
        where = draw(st.lists(st.integers(-1, 3), min_size=12, max_size=12))
        groups = [[member for member in range(12) if where[member] == g] for g in range(4)]
        return [group for group in groups if group]

    return partition(), partition()


@given(partitions())
def test_the_shared_members_are_as_many_as_brute_force_finds(both):
    groups, old = both
    previous = dict(enumerate(old, start=1))
    next_id = len(old) + 1
    ids, after = keep_ids(groups, previous, next_id)
    assert len(set(ids)) == len(ids) == len(groups)
    assert after == next_id + sum(name >= next_id for name in ids)

    def worth(group: list[int], name: int) -> int:
        before = previous.get(name, [])
        shared = len(set(group) & set(before))
        return shared if 2 * shared >= min(len(group), len(before)) else 0

    choices = [*previous, *range(100, 100 + len(groups))]
    best = max(
        sum(worth(group, name) for group, name in zip(groups, chosen, strict=True))
        for chosen in permutations(choices, len(groups))
    )
    assert sum(worth(group, name) for group, name in zip(groups, ids, strict=True)) == best
    assert all(worth(group, name) > 0 for group, name in zip(groups, ids, strict=True) if name in previous)
