from __future__ import annotations

import numpy as np
import pytest

from openworld.data.dataset import Dataset
from openworld.evaluation.loop import PEOPLE, LoopExperiment, NamesClusters, measure_order


def toy(n_classes: int = 20, size: int = 40) -> Dataset:
    random = np.random.default_rng(0)
    y = np.array([f"class {i:02}" for i in np.repeat(np.arange(n_classes), size)])
    X = 3 * random.normal(size=(n_classes, 12))[np.repeat(np.arange(n_classes), size)]
    return Dataset("toy", (X + random.normal(size=X.shape)).astype(np.float32), y)


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return list(measure_order(LoopExperiment(n_known=8, rounds=2, acts=8), toy(), 0))


def last(rows: list[dict], method: str) -> dict[str, float]:
    return {row["measure"]: row["value"] for row in rows if (row["method"], row["round"]) == (method, 2)}


def test_every_person_goes_through_all_rounds(rows):
    assert {(row["method"], row["round"]) for row in rows} == {
        (name, step) for name in PEOPLE for step in (1, 2)
    }
    assert all(0 <= row["value"] <= 1 for row in rows)


def test_names_of_clusters_teach_many_samples_with_few_acts(rows):
    spent = {row["method"]: (row["acts"], row["labeled"]) for row in rows if row["round"] == 2}
    acts, labeled = spent["openworld, names clusters"]
    assert acts <= 16
    assert labeled > 5 * acts
    assert all(acts == labeled <= 160 for name, (acts, labeled) in spent.items() if "clusters" not in name)
    assert last(rows, "openworld, names clusters")["classes discovered"] > 0.5


def test_who_never_says_unknown_is_wrong_where_not_right(rows):
    found = last(rows, "logistic regression, random samples")
    assert found["wrong accepts"] == pytest.approx(1 - found["accuracy"])


def test_strays_cost_acts_and_are_not_taught():
    data = toy()
    person = NamesClusters(data, np.flatnonzero(data.y < "class 08"), np.random.default_rng(0))
    first, second = np.flatnonzero(data.y == "class 10"), np.flatnonzero(data.y == "class 11")
    person._see(np.concatenate([first[:10], second[:2]]), last=5)
    assert person.acts == 3
    assert set(data.y[person.labeled]) == {"class 10"}
    person._see(np.concatenate([first[10:20], second[2:6]]), last=5)  # too many strays for what is left
    assert (person.acts, len(person.labeled)) == (4, 10)
