from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from openworld.data.dataset import Dataset
from openworld.evaluation import loop
from openworld.evaluation.loop import PEOPLE, LoopExperiment, NamesClusters, measure_order


def toy(n_classes: int = 20, size: int = 40) -> Dataset:
    random = np.random.default_rng(0)
    y = np.array([f"class {i:02}" for i in np.repeat(np.arange(n_classes), size)])
    X = 3 * random.normal(size=(n_classes, 12))[np.repeat(np.arange(n_classes), size)]
    return Dataset("toy", (X + random.normal(size=X.shape)).astype(np.float32), y)


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return list(measure_order(LoopExperiment(n_known=8, rounds=2, actions=8), toy(), 0))


def last(rows: list[dict], method: str) -> dict[str, float]:
    return {row["measure"]: row["value"] for row in rows if (row["method"], row["round"]) == (method, 2)}


def test_every_person_goes_through_all_rounds(rows):
    assert {(row["method"], row["round"]) for row in rows} == {
        (name, step) for name in PEOPLE for step in (1, 2)
    }
    assert all(0 <= row["value"] <= 1 for row in rows)


def test_names_of_clusters_teach_many_samples_with_few_actions(rows):
    spent = {row["method"]: (row["actions"], row["labeled"]) for row in rows if row["round"] == 2}
    actions, labeled = spent["openworld, names clusters"]
    assert actions <= 16
    assert labeled > 5 * actions
    assert all(
        actions == labeled <= 160 for name, (actions, labeled) in spent.items() if "clusters" not in name
    )
    assert last(rows, "openworld, names clusters")["classes discovered"] > 0.5


def test_who_never_says_unknown_is_wrong_where_not_right(rows):
    found = last(rows, "logistic regression, random samples")
    assert found["wrong accepts"] == pytest.approx(1 - found["accuracy"])


@pytest.fixture
def person() -> NamesClusters:
    data = toy()
    return NamesClusters(data, np.flatnonzero(data.y < "class 08"), np.random.default_rng(0))


def members(person: NamesClusters, sizes: dict[str, int]) -> np.ndarray:
    return np.concatenate([np.flatnonzero(person.dataset.y == name)[:n] for name, n in sizes.items()])


def test_strays_cost_actions_and_are_not_taught(person):
    assert person._name(members(person, {"class 10": 10, "class 11": 2}), last=5)
    assert person.actions == 3
    assert set(person.dataset.y[person.labeled]) == {"class 10"}


def test_a_cluster_with_many_strays_or_too_few_actions_left_is_not_named(person):
    assert not person._name(members(person, {"class 10": 10, "class 11": 3}), last=50)
    assert not person._name(members(person, {"class 10": 10, "class 11": 2}), last=2)
    assert (person.actions, len(person.labeled)) == (0, 0)


def found_as(monkeypatch: pytest.MonkeyPatch, *clusters: np.ndarray, loose: bool = False) -> None:
    """Let the search find these clusters, at the finest granularity alone."""
    shown = SimpleNamespace(clusters=[SimpleNamespace(members=cluster, loose=loose) for cluster in clusters])
    nothing = SimpleNamespace(clusters=[])
    finest = loop.FINER[0]
    monkeypatch.setattr(loop, "find_clusters", lambda *_, finer, **__: shown if finer == finest else nothing)


@pytest.mark.parametrize("loose", [False, True])
def test_every_step_of_the_granularity_is_an_action_and_so_is_selecting_a_loose_cluster(
    person, monkeypatch, loose
):
    cluster = members(person, {"class 10": 20})
    found_as(monkeypatch, cluster, loose=loose)
    person.receive(cluster)
    person.work(30)
    assert person.actions == 2 + (1 + loose) + 2  # two steps to finer clusters, a name, two steps back
    person.work(1)
    assert person.actions == 6 + loose  # the next round starts with steps to finer clusters again


def test_a_mixed_cluster_is_split_and_its_parts_are_named(person, monkeypatch):
    mixed = members(person, {"class 10": 20, "class 11": 16})
    found_as(monkeypatch, mixed)
    person.receive(mixed)
    person.work(30)
    assert set(person.dataset.y[person.labeled]) == {"class 10", "class 11"}
    assert person.actions <= 5 + 4


def test_a_small_cluster_of_no_class_is_dismissed(person, monkeypatch):
    noise = members(person, {f"class {i}": 2 for i in (10, 11, 12)})
    rest = members(person, {"class 13": 3})
    found_as(monkeypatch, noise)
    person.receive(np.concatenate([noise, rest]))
    person.work(30)
    assert len(person.labeled) == 0
    assert person.actions == 1 + 4  # to dismiss it, and to change the granularity
    assert not np.isin(noise, person.pool).any()


def test_what_the_model_recognizes_by_now_costs_nothing(person, monkeypatch):
    first = members(person, {"class 10": 40})
    found_as(monkeypatch, first[:30], first[30:36])
    person.pool = first
    person.work(30)
    recognized = person.model.judge(person.dataset.X[first[30:36]], 1).accepted
    assert recognized.sum() >= 2  # fewer than 5 are left of the second cluster
    assert person.actions == 1 + 4  # the name of the first, and other granularities
