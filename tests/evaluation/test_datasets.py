"""The letters in the paper's feature sets."""

from __future__ import annotations

import numpy as np
import pytest

from openworld.data.letters import Letters
from openworld.evaluation import datasets
from openworld.evaluation.experiment import EXPERIMENTS
from openworld.features import HOG


@pytest.fixture
def few_letters(monkeypatch: pytest.MonkeyPatch) -> Letters:
    images = np.random.default_rng(0).integers(0, 256, size=(4, 28, 28), dtype=np.uint8)
    letters = Letters(images, np.array(["a", "a", "b", "b"]), np.array(["x", "y", "x", "y"]))
    monkeypatch.setattr(datasets, "load_letters", lambda: letters)
    return letters


@pytest.mark.parametrize(
    ("name", "n_features"), [("letters-sift", 2048), ("letters-hog", 775), ("letters-lbp", 531)]
)
def test_feature_sets_of_the_letters(few_letters: Letters, name: str, n_features: int) -> None:
    dataset = datasets.load(name)
    assert dataset.X.shape == (4, n_features)
    assert dataset.X.dtype == np.float32
    assert dataset.y.tolist() == ["a", "a", "b", "b"]
    assert dataset.groups is not None
    assert dataset.groups.tolist() == ["x", "y", "x", "y"]
    assert len(np.unique(dataset.X, axis=0)) == 4


def test_a_row_is_the_descriptors_of_one_letter(few_letters: Letters) -> None:
    rows = datasets.load("letters-hog").X
    np.testing.assert_allclose(rows[2], HOG(cell=4).descriptors(few_letters.images[2]).ravel(), rtol=1e-6)


def test_the_features_experiment_names_feature_sets_that_exist() -> None:
    assert set(EXPERIMENTS["features"].data) == set(datasets.FEATURE_SETS)


def test_other_names_are_left_to_the_data_layer() -> None:
    with pytest.raises(FileNotFoundError, match="neither a built-in data set"):
        datasets.load("no-such-data")
