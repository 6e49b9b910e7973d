"""OpenWorldRecognizer among very many classes: with the index it answers as without."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from openworld import AdaptiveMetric, OpenWorldRecognizer, load, save
from openworld.index import choice
from openworld.recognition.adaptive.scoring_index import ScoreIndex

pytest.importorskip("faiss")

N_CLASSES = 600
RNG = np.random.default_rng(0)
GROUPS = RNG.normal(size=(30, 16))
MEANS = GROUPS[RNG.integers(30, size=N_CLASSES + 20)] + 0.5 * RNG.normal(size=(N_CLASSES + 20, 16))
Y = np.repeat(np.arange(N_CLASSES), 3)
X = (MEANS[Y] + 0.15 * RNG.normal(size=(len(Y), 16))).astype(np.float32)
KNOWN = MEANS[RNG.integers(N_CLASSES, size=600)] + 0.15 * RNG.normal(size=(600, 16))
SAMPLES = np.vstack([KNOWN, 1.2 * RNG.normal(size=(200, 16))]).astype(np.float32)


@pytest.fixture(scope="module")
def models():
    """The same model with an index and without one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "APPROXIMATE_FROM", N_CLASSES)
        indexed = OpenWorldRecognizer(metric=AdaptiveMetric(), refresh_growth=1.0).fit(X, Y)
    assert len(indexed._current().index.training.centroids) > 64
    plain = deepcopy(indexed)
    plain._derived = replace(plain._derived, model=replace(plain._current(), index=None))
    return indexed, plain


def assert_same(indexed, plain, samples=SAMPLES, least=0.995):
    expected, found = plain.judge(samples), indexed.judge(samples)
    assert np.mean(found.labels == expected.labels) >= least
    assert np.mean(indexed.predict(samples) == expected.labels) >= least
    assert np.mean(np.isclose(found.decision, expected.decision, atol=1e-5)) >= least
    assert np.mean(np.isclose(found.membership, expected.membership, atol=1e-4)) >= least
    assert np.mean(found.nearest[:, 0] == expected.nearest[:, 0]) >= least
    assert np.mean(found.nearest == expected.nearest) >= 0.97
    assert np.all(np.diff(found.distances, axis=1) >= 0)
    assert all(len(set(row)) == 5 for row in found.nearest.tolist())


def test_the_largest_score_is_the_smallest_distance():
    """Few enough rows that every list is searched: what is found is exact."""
    means = RNG.normal(size=(60, 5))
    means *= RNG.uniform(0.8, 1.5, size=(60, 1)) / np.linalg.norm(means, axis=1, keepdims=True)
    means = means.astype(np.float32)
    penalties = RNG.uniform(-0.4, 0.7, size=60).astype(np.float32)
    directions = means[::2] + np.float32(0.3) * RNG.normal(size=(30, 5)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    index = ScoreIndex(means, penalties)
    for n in (1, 4, 60):
        rows = index.largest(directions, n, 0.3)
        expected = np.argsort(penalties - directions @ means.T, axis=1)[:, :n]
        np.testing.assert_array_equal(rows[:, :n], expected)


def test_answers_are_those_of_all_scores(models):
    indexed, plain = models
    labels = plain.predict(SAMPLES)
    assert 0.1 < np.mean(labels == -1) < 0.6
    assert_same(indexed, plain)
    np.testing.assert_allclose(
        indexed.decision_function(SAMPLES[:5]), plain.decision_function(SAMPLES[:5]), atol=1e-6
    )


def test_far_samples_are_unknown_and_long_ones_are_answered_exactly(models):
    indexed, plain = models
    far = SAMPLES[:50] * np.geomspace(1, 1e6, 50, dtype=np.float32)[:, np.newaxis]
    np.testing.assert_array_equal(indexed.predict(far), plain.predict(far))
    assert np.all(indexed.predict(far)[-20:] == -1)


def test_the_index_follows_what_is_learnt(models):
    indexed, plain = map(deepcopy, models)
    kept = indexed._current().index
    extra = np.repeat(np.arange(N_CLASSES, N_CLASSES + 20), 3)
    samples = (MEANS[extra] + 0.15 * RNG.normal(size=(60, 16))).astype(np.float32)
    for one in (indexed, plain):
        one.partial_fit(samples, extra - 10_000)  # they sort before all others
        one.partial_fit(SAMPLES[:3], np.arange(3))
        one.rename_class(7, 99_999)
    assert indexed._current().index is kept
    assert_same(indexed, plain)
    assert_same(indexed, plain, samples)
    assert np.mean(indexed.predict(samples) == extra - 10_000) > 0.9


def test_classes_that_are_forgotten_or_merged_are_not_found(models, tmp_path):
    """Ten classes around one place become one, and all but one of those around another are forgotten."""
    indexed, plain = map(deepcopy, models)
    kept = indexed._current().index
    nearest = np.argsort(np.linalg.norm(MEANS[:N_CLASSES] - MEANS[[0, 500], np.newaxis], axis=2), axis=1)
    merged, forgotten = nearest[:, :10].tolist()
    for one in (indexed, plain):
        one.merge_classes(merged, into=-5)
        for label in forgotten[1:]:
            one.forget_class(label)
    assert indexed._current().index is kept
    assert_same(indexed, plain)
    samples = MEANS[[*merged, *forgotten]].astype(np.float32)
    assert not set(indexed.judge(samples).nearest.ravel().tolist()) & {*merged, *forgotten[1:]}
    assert_same(indexed, plain, samples)
    save(indexed, tmp_path / "model.ow")
    assert_same(load(tmp_path / "model.ow"), plain)


def test_a_saved_index_is_not_trained_again(models, tmp_path, monkeypatch):
    indexed, _ = models
    save(indexed, tmp_path / "model.ow")
    monkeypatch.setattr(
        "openworld.recognition.adaptive.scoring_index.train", lambda *given: pytest.fail("trained")
    )
    for mapped in (False, True):
        loaded = load(tmp_path / "model.ow", mapped=mapped)
        found, expected = vars(loaded.judge(SAMPLES)), vars(indexed.judge(SAMPLES))
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name])
