"""Statistics, lengths and reservoir are always of the same classes."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from openworld import AdaptiveMetric, ClassStatistics, OpenWorldRecognizer
from openworld.recognition.adaptive.memory import ClassMemory, Derived
from openworld.recognition.adaptive.representation import Representation
from openworld.recognition.adaptive.reservoir import Reservoir
from openworld.recognition.adaptive.scoring import make_scoring_model
from openworld.recognition.adaptive.training import TrainingBatch

X, CODES = load_iris(return_X_y=True)
Y = np.array(["a", "b", "c"])[CODES]


def empty_memory():
    representation = Representation.of(X, standardize=False, n_lifted=0, seed=0)
    return ClassMemory(representation, ClassStatistics("pooled"), ClassStatistics("per_class"), Reservoir(12))


def learned(samples=X, labels=Y):
    memory = empty_memory()
    memory.add(TrainingBatch(samples, labels))
    return memory


def classes_of(memory):
    parts = memory.statistics.labels, memory.lengths.labels, list(memory.reservoir._kept)
    assert len({tuple(sorted(part)) for part in parts}) == 1
    assert memory.statistics.counts.tolist() == memory.lengths.counts.tolist()
    return sorted(memory.statistics.labels)


def test_every_change_is_one_of_all_parts():
    memory = learned(X[:100], Y[:100])
    assert classes_of(memory) == ["a", "b"]
    memory.add(TrainingBatch(X[90:], Y[90:]))
    assert classes_of(memory) == ["a", "b", "c"]
    memory.rename("a", "z")
    assert classes_of(memory) == ["b", "c", "z"]
    memory.merge(["b", "c"], "bc")
    assert classes_of(memory) == ["bc", "z"]
    memory.forget("z")
    assert classes_of(memory) == ["bc"]
    assert classes_of(memory.empty()) == []


def test_parts_add_up_to_the_whole():
    total = learned(X[::2], Y[::2]) + learned(X[1::2], Y[1::2])
    whole = learned()
    np.testing.assert_allclose(total.statistics.scatter, whole.statistics.scatter, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(total.lengths.sums, whole.lengths.sums)
    classes = np.array(classes_of(whole))
    for found, expected in zip(
        total.reservoir.samples(classes, 9), whole.reservoir.samples(classes, 9), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("broken", ["statistics", "lengths", "reservoir"])
def test_a_part_that_fails_leaves_all_as_they_were(broken, monkeypatch):
    """An error inside the reservoir once left a class without samples to calibrate with."""
    memory = learned(X[:100], Y[:100])
    before = memory.statistics.scatter.copy(), memory.lengths.sums.copy()
    part = getattr(memory, broken)

    def fails(*given):
        raise MemoryError

    monkeypatch.setattr(type(part), "add" if broken == "reservoir" else "_combine_scatter", fails)
    with pytest.raises(MemoryError):
        memory.add(TrainingBatch(X[90:], Y[90:]))
    monkeypatch.undo()
    assert classes_of(memory) == ["a", "b"]
    np.testing.assert_array_equal(memory.statistics.scatter, before[0])
    np.testing.assert_array_equal(memory.lengths.sums, before[1])


def test_what_is_left_after_learning_and_renaming():
    model = OpenWorldRecognizer(metric=AdaptiveMetric()).fit(X, Y)
    derived = model._derived.after_change(np.array(["b"])).after_change(["d"])
    assert derived.model is None
    assert derived.previous is model._derived.model
    assert derived.changed == {"b", "d"}
    renamed = derived.renamed("b", "z")
    assert renamed.changed == {"z", "d"}
    assert renamed.previous.classes.tolist() == ["a", "c", "z"]
    assert Derived().renamed("b", "z") == Derived()


def test_samples_that_calibration_whitened_show_the_tightness_too():
    samples, digits = load_digits(return_X_y=True)
    model = OpenWorldRecognizer(metric=AdaptiveMetric()).fit(samples, digits)
    shared, memory = model._current(), model.memory_
    assert shared.calibration.weight
    alone = make_scoring_model(model.metric_, memory.lengths, memory.reservoir, shared.calibration)
    np.testing.assert_allclose(shared.penalties, alone.penalties, rtol=1e-5)
    np.testing.assert_allclose(shared.vectors.rows, alone.vectors.rows, atol=1e-5)
