from __future__ import annotations

import numpy as np
import pytest

from openworld import NCMMetric, NearestNonOutlier, OpenWorldRecognizer
from openworld.discovery import PoolSpace


def classes(n_classes: int, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), size)
    features = 2 * random.normal(size=(n_classes, 30))[labels] + random.normal(size=(len(labels), 30))
    return features.astype(np.float32), np.array([f"class {label}" for label in labels])


def test_held_out_samples_look_no_more_alike_than_new_ones():
    """Few samples and many features: to the metric that learned from them, they look far more alike."""
    features, labels = classes(8, 12)
    model = OpenWorldRecognizer(n_lifted=0).fit(features, labels)
    space = PoolSpace.of(model)
    assert space.known is not None
    codes = space.known.codes

    def alike(vectors: np.ndarray, code: np.ndarray) -> float:
        same = (code[:, np.newaxis] == code) & ~np.eye(len(code), dtype=bool)
        return float((vectors @ vectors.T)[same].mean())

    random = np.random.default_rng(1)
    means = np.stack([features[labels == label].mean(axis=0) for label in model.classes_])
    code = np.repeat(np.arange(8), 10)
    unseen = (means[code] + random.normal(size=(80, 30))).astype(np.float32)
    held_out, seen = (
        alike(space.known.vectors, codes),
        alike(model.metric_.transform(features), np.unique(labels, return_inverse=True)[1]),
    )
    new_ones = alike(space.transform(unseen), code)
    assert abs(held_out - new_ones) < abs(seen - new_ones) + 0.05
    assert held_out < seen


def test_the_model_itself_is_not_changed():
    features, labels = classes(6, 10)
    model = OpenWorldRecognizer().fit(features, labels)
    before = model.decision_function(features)
    space = PoolSpace.of(model)
    assert len(space.transform(features)) == len(features)
    np.testing.assert_array_equal(model.decision_function(features), before)


@pytest.mark.parametrize(
    ("n_classes", "size", "per_class"), [(5, 4, 2), (5, 30, 10), (5, 90, 30), (5, 240, 40), (900, 6, 3)]
)
def test_a_class_lends_a_third_of_its_samples_or_half_of_few(n_classes, size, per_class):
    features, labels = classes(n_classes, size)
    known = PoolSpace.of(OpenWorldRecognizer(n_lifted=0).fit(features, labels)).known
    assert known is not None
    assert set(np.unique(known.codes, return_counts=True)[1]) == {per_class}
    assert len(known.codes) <= 2_400


def test_recognizers_without_samples_have_their_metric():
    features, labels = classes(6, 10)
    model = NearestNonOutlier(NCMMetric(5, max_iter=5)).fit(features, labels)
    space = PoolSpace.of(model)
    assert space.known is None
    np.testing.assert_array_equal(space.transform(features), model.metric_.transform(features))


def test_without_a_recognizer_the_features_are_taken_as_they_are():
    features, _ = classes(3, 4)
    space = PoolSpace.of(None)
    assert space.known is None
    np.testing.assert_array_equal(space.transform(features), features)
