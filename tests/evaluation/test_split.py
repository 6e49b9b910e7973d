"""Splits: nothing is in two parts, nothing is torn apart, and everything follows from (seed, order)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openworld.data.dataset import Dataset
from openworld.evaluation.split import Split, make_split, usable_classes, usual_number_known

SEEDS = st.integers(0, 2**32)


def dataset(
    n_classes: int = 12, per_class: int = 10, groups: Any = None, is_test: Any = None, seed: int = 0
) -> Dataset:
    y = np.repeat([f"class {i:02d}" for i in range(n_classes)], per_class)
    y = np.random.default_rng(seed).permutation(y)
    return Dataset("toy", np.arange(len(y), dtype=float)[:, None], y, groups, is_test)


def split_of(data: Dataset, seed: int = 0, order: int = 0, **changes: Any) -> Split:
    wanted = {"n_starting": 3, "step": 2, "n_known": 8, "n_unknown": 4, **changes}
    return make_split(data, seed=seed, order=order, **wanted)


def check(data: Dataset, split: Split) -> None:
    """Check what holds for every split."""
    known = split.known(len(split.stages) - 1)
    chosen = np.concatenate([known, split.unknown])
    assert len(set(chosen.tolist())) == len(chosen), "a class comes twice"
    everything = np.concatenate([split.train, split.validation, split.test])
    assert len(set(everything.tolist())) == len(everything), "a sample is in two parts"
    assert sorted(everything) == np.flatnonzero(np.isin(data.y, chosen)).tolist(), "a sample is in no part"
    for label in chosen:
        assert np.sum(data.y[split.train] == label) >= 2
        assert np.sum(data.y[split.test] == label) >= 1


@given(seed=SEEDS, order=st.integers(0, 50), validation=st.sampled_from([0.0, 0.1, 0.3]))
@settings(max_examples=40)
def test_classes_and_samples_are_disjoint_and_complete(seed: int, order: int, validation: float) -> None:
    data = dataset()
    split = split_of(data, seed, order, validation_fraction=validation)
    check(data, split)
    assert [len(stage) for stage in split.stages] == [3, 2, 2, 1]
    assert [len(split.known(stage)) for stage in range(4)] == [3, 5, 7, 8]
    assert len(split.unknown) == 4


@pytest.mark.parametrize(
    ("n_starting", "step", "n_known", "sizes"),
    [(8, 2, 8, [8]), (1, 1, 4, [1, 1, 1, 1]), (2, 100, 8, [2, 6]), (2, 3, 8, [2, 3, 3]), (2, 6, 8, [2, 6])],
)
def test_stages(n_starting: int, step: int, n_known: int, sizes: list[int]) -> None:
    split = split_of(dataset(), n_starting=n_starting, step=step, n_known=n_known)
    assert [len(stage) for stage in split.stages] == sizes


def test_no_unknown_classes() -> None:
    split = split_of(dataset(), n_unknown=0)
    assert len(split.unknown) == 0
    check(dataset(), split)


@pytest.mark.parametrize(("test", "validation"), [(0.3, 0.0), (0.3, 0.3), (0.5, 0.2), (0.2, 0.7), (0.1, 0.1)])
def test_each_class_is_split_in_the_shares_asked_for(test: float, validation: float) -> None:
    data = dataset(per_class=20)
    split = split_of(data, test_fraction=test, validation_fraction=validation)
    for part, share in ((split.test, test), (split.validation, validation)):
        counts = Counter(data.y[part].tolist())
        if share:
            assert set(counts.values()) == {round(20 * share)}
            assert len(counts) == 12
        else:
            assert not counts


@given(seed=SEEDS, order=st.integers(0, 50), validation=st.sampled_from([0.0, 0.2]))
@settings(max_examples=40)
def test_groups_are_never_torn_apart(seed: int, order: int, validation: float) -> None:
    groups = np.random.default_rng(5).permutation(np.arange(240) % 10)
    data = dataset(per_class=20, groups=groups)
    split = split_of(data, seed, order, n_known=4, n_unknown=2, validation_fraction=validation)
    check(data, split)
    parts = [set(groups[part].tolist()) for part in (split.train, split.validation, split.test)]
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]
    assert [len(part) for part in parts[1:]] == [round(10 * validation), 3]


def test_a_share_of_few_groups_is_at_least_one() -> None:
    data = dataset(groups=np.arange(120) % 4)
    split = split_of(data, test_fraction=0.1, validation_fraction=0.1, n_known=4, n_unknown=1)
    assert len(np.unique(np.asarray(data.groups)[split.test])) == 1
    assert len(np.unique(np.asarray(data.groups)[split.validation])) == 1


@given(seed=SEEDS, validation=st.sampled_from([0.0, 0.2]), grouped=st.booleans())
@settings(max_examples=30)
def test_a_test_part_of_the_data_set_is_the_test(seed: int, validation: float, grouped: bool) -> None:
    is_test = np.random.default_rng(1).random(240) < 0.4
    groups = np.random.default_rng(2).permutation(np.arange(240) % 12) if grouped else None
    data = dataset(per_class=20, groups=groups, is_test=is_test)
    split = split_of(data, seed, validation_fraction=validation, n_known=5, n_unknown=3)
    check(data, split)
    assert is_test[split.test].all()
    assert not is_test[split.train].any()
    assert not is_test[split.validation].any()
    assert (len(split.validation) > 0) == (validation > 0)
    if groups is not None:
        assert not set(groups[split.train].tolist()) & set(groups[split.validation].tolist())


def same(a: Split, b: Split) -> bool:
    pairs = [*zip(a.stages, b.stages, strict=True)]
    pairs += [(getattr(a, name), getattr(b, name)) for name in ("unknown", "train", "validation", "test")]
    return all(np.array_equal(one, other) for one, other in pairs)


def test_seed_and_order_determine_the_split() -> None:
    data = dataset()
    splits = [split_of(data, seed, order) for seed in (0, 1, 2) for order in (0, 1, 2)]
    again = [split_of(data, seed, order) for seed in (0, 1, 2) for order in (0, 1, 2)]
    assert all(map(same, splits, again))
    assert len({tuple(np.concatenate(split.stages)) for split in splits}) == len(splits)
    assert len({tuple(split.test) for split in splits}) == len(splits)


def test_random_state_outside_plays_no_part() -> None:
    np.random.seed(0)  # noqa: NPY002
    first = split_of(dataset(), 3)
    np.random.seed(1)  # noqa: NPY002
    assert same(first, split_of(dataset(), 3))


def test_every_class_comes_in_every_role() -> None:
    """Over many orders a class is starting, added, unknown and left out: no class is favored."""
    data = dataset(per_class=4)
    roles: dict[str, set[str]] = {str(label): set() for label in data.classes}
    for order in range(60):
        split = split_of(data, 0, order, n_known=6, n_unknown=3)
        for name, classes in (
            ("starting", split.stages[0]),
            ("added", np.concatenate(split.stages[1:])),
            ("unknown", split.unknown),
        ):
            for label in classes:
                roles[label].add(name)
    assert all(len(role) == 3 for role in roles.values())


def test_the_samples_do_not_depend_on_the_numbers_of_classes() -> None:
    """Experiments with other numbers of classes, and so all recognizers, see the same test samples."""
    data = dataset()
    few, many = split_of(data, n_known=3, n_unknown=1), split_of(data, n_known=8, n_unknown=4)
    assert set(few.test.tolist()) < set(many.test.tolist())
    assert set(few.train.tolist()) < set(many.train.tolist())


def test_classes_with_too_few_samples_are_left_out() -> None:
    y = np.repeat(["enough", "three", "two", "one"], [10, 3, 2, 1])
    data = Dataset("small", np.zeros((16, 1)), y)
    for order in range(20):
        split = make_split(data, seed=0, order=order, n_starting=1, step=1, n_known=1, n_unknown=1)
        assert {*split.known(0).tolist(), *split.unknown.tolist()} == {"enough", "three"}
    assert usable_classes(data, seed=0, orders=20, test_fraction=0.3) == 2
    assert usable_classes(data, seed=0, orders=20, test_fraction=0.3, validation_fraction=0.1) == 1
    with pytest.raises(ValueError, match="small has 2 classes with training and test samples; 2 known and 1"):
        make_split(data, seed=0, order=0, n_starting=1, step=1, n_known=2, n_unknown=1)


def test_usable_classes_is_what_every_order_has() -> None:
    """With groups it varies from order to order which classes have test samples."""
    random = np.random.default_rng(0)
    data = Dataset("uneven", np.zeros((90, 1)), random.integers(0, 25, 90), random.integers(0, 6, 90))
    for validation in (0.0, 0.2):
        n = usable_classes(data, seed=1, orders=10, test_fraction=0.3, validation_fraction=validation)
        assert 0 < n < 25
        wanted: dict[str, Any] = {"n_starting": 1, "step": 1, "validation_fraction": validation}
        for order in range(10):
            check(data, split_of(data, 1, order, n_known=n, n_unknown=0, **wanted))
        with pytest.raises(ValueError, match="were asked for"):
            [split_of(data, 1, order, n_known=n + 1, n_unknown=0, **wanted) for order in range(10)]


def test_too_few_groups() -> None:
    for n_groups, shares in ((1, {}), (2, {"test_fraction": 0.8}), (2, {"validation_fraction": 0.5})):
        data = dataset(groups=np.arange(120) % n_groups)
        with pytest.raises(ValueError, match=r"toy: \d groups are too few to split"):
            split_of(data, **shares)


def test_integer_labels() -> None:
    data = Dataset("numbers", np.zeros((100, 1)), np.arange(100) % 10)
    split = split_of(data, n_known=6, n_unknown=4)
    check(data, split)
    assert split.unknown.dtype.kind == "i"


@pytest.mark.parametrize(
    ("n_classes", "expected"), [(1, 1), (2, 1), (7, 3), (10, 5), (19, 9), (20, 10), (60, 12), (1000, 100)]
)
def test_a_fifth_is_known_where_unknown_classes_are_clustered(n_classes, expected):
    assert usual_number_known(n_classes) == expected
