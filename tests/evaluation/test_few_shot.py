"""Few-shot evaluation: the measures against counting by hand, the splits, and every recognizer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from openworld.data.dataset import Dataset
from openworld.evaluation.few_shot import FewShotExperiment, measure_order, measures
from openworld.evaluation.recognizers import RECOGNIZERS
from openworld.evaluation.split import Split


def toy(n_classes: int = 12, per_class: int = 12, distance: float = 4.0) -> Dataset:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), per_class)
    X = distance * random.normal(size=(n_classes, 8))[y] + random.normal(size=(len(y), 8))
    return Dataset("toy", X.astype(np.float32), y)


EXPERIMENT = FewShotExperiment(recognizers=("NNO",), n_base=5, n_new=2, n_unknown=5, samples=(1, 5, 20))


def test_the_measures_are_those_counted_by_hand():
    """Four samples each of a base class (0), a new one (1) and an unknown one (2)."""
    decision = np.array(
        [[9, 0], [8, 0], [1, 2], [-1, -2],  # base: right, right, taken for the new one, rejected
         [0, 7], [-1, -0.5], [3, 1], [0, 0.6],  # new: right, rejected, taken for the base class, right
         [-3, -4], [-5, -6], [-1, 0.5], [-2, -3]],  # unknown: one accepted
        dtype=float,
    )  # fmt: skip
    model = SimpleNamespace(
        classes_=np.array([0, 1]),
        unknown_label_=-1,
        decision_function=lambda X: decision,
        predict=lambda X: np.where(decision.max(axis=1) > 0, decision.argmax(axis=1), -1),
    )
    dataset = Dataset("toy", np.zeros((12, 1)), np.repeat([0, 1, 2], 4))
    nothing = np.arange(0)
    split = Split((np.array([0]), np.array([1])), np.array([2]), nothing, nothing, np.arange(12))
    found = measures(model, dataset, split, rejection=0.75)
    assert found["base right"] == 0.5
    assert (found["new right"], found["new rejected"], found["new taken for another"]) == (0.5, 0.25, 0.25)
    assert found["unknown rejected"] == 0.75
    # A quarter of the unknown samples may score above the threshold: it goes down to just above -2.
    assert found["new right at fixed rejection"] == 0.75
    assert found["base right at fixed rejection"] == 0.75
    # Rejecting all unknown samples needs a threshold above 0.5.
    assert measures(model, dataset, split, rejection=1.0)["new right at fixed rejection"] == 0.5
    assert found["new OSCR"] == pytest.approx((4 + 4 + 3) / 16), (
        "pairs with an unknown sample, right and above"
    )


def test_before_the_new_classes_only_base_and_unknown_are_measured():
    rows = list(measure_order(EXPERIMENT, toy(), 0))
    before = {row["measure"] for row in rows if row["n"] == 0}
    assert before == {"base right", "base right at fixed rejection", "base OSCR", "unknown rejected"}
    after = {row["measure"]: row["value"] for row in rows if row["n"] == 5}
    total = after["new right"] + after["new rejected"] + after["new taken for another"]
    assert total == pytest.approx(1)
    assert {row["n"] for row in rows} == {0, 1, 5, "all"}, "no class has 20 training samples"


def test_all_samples_of_a_class_are_as_many_as_it_has():
    """With 12 samples a class has 8 to train with: 8 of each are all of them."""
    experiment = replace(EXPERIMENT, samples=(1, 8))
    of_n = {n: [] for n in (1, 8, "all")}
    for row in measure_order(experiment, toy(distance=1.0), 0):
        of_n.get(row["n"], []).append((row["measure"], row["value"]))
    assert of_n["all"] == of_n[8] != of_n[1]


def test_a_class_order_depends_on_the_seed_alone_and_recognizers_do_not_meet():
    both = FewShotExperiment(recognizers=("NCM", "NNO"), n_base=5, n_new=2, n_unknown=5, samples=(1, 5, 20))
    rows = list(measure_order(both, toy(), 1))
    assert rows == list(measure_order(both, toy(), 1))
    alone = list(measure_order(EXPERIMENT, toy(), 1))
    assert [row for row in rows if row["recognizer"] == "NNO"] == alone
    other = list(measure_order(FewShotExperiment(**{**vars(EXPERIMENT), "seed": 1}), toy(distance=1.0), 1))
    assert other != list(measure_order(EXPERIMENT, toy(distance=1.0), 1))


@pytest.mark.parametrize(
    ("n_classes", "numbers"), [(90, (40, 10, 40)), (200, (40, 10, 40)), (10, (4, 1, 4)), (4, (2, 1, 1))]
)
def test_numbers_of_classes_are_scaled_to_the_data(n_classes: int, numbers: tuple[int, int, int]):
    scaled = FewShotExperiment().scaled_to(toy(n_classes, per_class=4))
    assert (scaled.n_base, scaled.n_new, scaled.n_unknown) == numbers


def test_too_few_classes():
    with pytest.raises(ValueError, match="toy: 3 usable classes are too few"):
        FewShotExperiment().scaled_to(toy(3))


@pytest.mark.parametrize("name", RECOGNIZERS)
def test_every_recognizer_learns_from_one_sample_without_changing_the_base_model(name: str):
    """Learning 1 sample after 5 gives what it gives at first: each number starts from the base model."""
    up = FewShotExperiment(recognizers=(name,), n_base=5, n_new=2, n_unknown=5, samples=(1, 5))
    down = FewShotExperiment(recognizers=(name,), n_base=5, n_new=2, n_unknown=5, samples=(5, 1))
    values = [
        {(row["n"], row["measure"]): row["value"] for row in measure_order(experiment, toy(), 0)}
        for experiment in (up, down)
    ]
    assert values[0] == values[1]
    assert {n for n, _ in values[0]} == {0, 1, 5, "all"}
