"""The form of the score and its threshold, against brute force."""

import numpy as np
import pytest

from openworld import ClassStatistics, MinOpenWorldError
from openworld.recognition.adaptive import calibration as module
from openworld.recognition.adaptive.calibration import calibrate
from openworld.recognition.adaptive.held_out import HeldOut, Products, hold_out
from openworld.recognition.adaptive.metric import Whitening
from openworld.recognition.adaptive.score import two_largest
from openworld.recognition.adaptive.scored import average_threshold, oscr_area


def held_out_of(samples, codes):
    statistics = ClassStatistics("pooled").add(samples, codes)
    order = np.argsort(statistics.labels)
    represented = samples.astype(np.float32)
    return hold_out(statistics, Whitening.of(statistics), order, represented, codes)


def blobs(n_classes=6, per_class=12, n_features=5, spread=4.0, seed=0):
    random = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_classes), per_class)
    centers = spread * random.normal(size=(n_classes, n_features))
    return centers[codes] + random.normal(size=(len(codes), n_features)), codes


def test_the_noise_predicts_how_cosines_shrink():
    """Simulated: cosines of samples with means of n samples, over those with means of very many."""
    random = np.random.default_rng(0)
    n_features, signal = 200, 10.0
    means = random.normal(size=(40, n_features))
    means *= signal / np.linalg.norm(means, axis=1, keepdims=True)
    codes = np.repeat(np.arange(40), 30)
    samples = means[codes] + random.normal(size=(1200, n_features))
    own = np.array([samples[codes == c].mean(axis=0) for c in range(40)])
    counts, shares = np.full(40, 30.0), np.full(40, 1 / 40)
    arrays = samples.astype(np.float32), codes, own.astype(np.float32)
    held_out = HeldOut(*arrays, counts, shares, 0.0, parts=1 / counts[codes], effective=counts)
    noise = module._noise(held_out)
    assert noise == pytest.approx(n_features / signal**2, rel=0.1)

    def cosine(n):
        few = np.array([samples[codes == c][:n].mean(axis=0) for c in range(40)])
        test = means + random.normal(size=means.shape)
        lengths = np.linalg.norm(few, axis=1) * np.linalg.norm(test, axis=1)
        return np.mean(np.sum(few * test, axis=1) / lengths)

    full = cosine(30) * (1 + noise / 30) ** 0.5
    for n in (1, 2, 5):
        assert cosine(n) * (1 + noise / n) ** 0.5 == pytest.approx(full, rel=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_promised_follows_from_the_scores(seed):
    held_out = held_out_of(*blobs(spread=1.0, seed=seed))
    found = calibrate(held_out, MinOpenWorldError())
    form, scored = module.scored_samples(held_out, distances=False)
    assert found.quality == form.quality == oscr_area(scored.known, scored.right, scored.unknown)
    missed = 1 - np.mean(scored.right & (scored.known > found.threshold))
    _, optimism = average_threshold(scored, held_out.codes, MinOpenWorldError())
    error = missed + np.mean(scored.unknown > found.threshold)
    assert found.error == pytest.approx(error + optimism)
    assert scored.error(found.threshold) == pytest.approx(error)


@pytest.mark.parametrize(("n_classes", "distances"), [(6, False), (10, False), (6, True)])
def test_the_scores_are_those_of_all_classes(n_classes, distances):
    """The two largest are found block by block; here from all products at once."""
    held_out = held_out_of(*blobs(n_classes, spread=1.0))
    [(_, as_known, as_unknown)] = list(held_out)
    form, scored = module.scored_samples(held_out, distances)
    own = form.similarities(held_out.own(), 5)[:, 0]
    penalties = form.penalties(own, held_out.codes, n_classes)
    for products, found in ((as_known, scored.known), (as_unknown, scored.unknown)):
        scores = form.similarities(products, 5) - penalties
        best = scores.argmax(axis=1)
        scores.sort(axis=1)
        counts = held_out.counts[best] - (best == products.left_out)
        again = penalties[best], form.factors(counts, 5)
        np.testing.assert_allclose(found, form.compared(scores[:, -1], scores[:, -2], *again))
    scores = form.similarities(as_known, 5) - penalties
    np.testing.assert_array_equal(scored.right, scores.argmax(axis=1) == held_out.codes)


@pytest.mark.parametrize(
    ("n_classes", "distances", "expected"),
    [
        (2, False, (True, 0.0, 0.0)),
        (3, False, (False, 0.0, 0.0)),
        (5, False, (False, 0.0, 0.0)),
        (6, False, (False, 0.0, 0.25)),
        (8, False, (False, 0.25, 0.25)),
        (3, True, (True, 0.0, 0.0)),
        (8, True, (True, 0.0, 0.0)),
    ],
)
def test_the_form_follows_from_the_number_of_classes(n_classes, distances, expected):
    found = calibrate(held_out_of(*blobs(n_classes)), MinOpenWorldError(), distances=distances)
    assert (found.by_distance, found.weight, found.runner_up) == expected


def test_what_is_promised_is_measured():
    """On samples and classes that were never seen, averaged over draws."""
    random = np.random.default_rng(0)
    promised, measured = [], []
    for _ in range(24):
        centers = 1.6 * random.normal(size=(40, 6))
        codes = np.repeat(np.arange(20), 30)
        samples = centers[codes] + random.normal(size=(len(codes), 6))
        held_out = held_out_of(samples, codes)
        found = calibrate(held_out, MinOpenWorldError(), distances=True)
        root = np.linalg.lstsq(samples[:200] - samples[:200].mean(0), (
            held_out.samples[:200] - held_out.samples[:200].mean(0)), rcond=None)[0]  # fmt: skip
        origin = samples[0] - np.linalg.lstsq(root.T, held_out.samples[0], rcond=None)[0]
        new = np.repeat(np.arange(40), 50)
        white = (centers[new] + random.normal(size=(len(new), 6)) - origin) @ root
        squares = (held_out.means**2).sum(axis=1)
        products = Products(
            white @ held_out.means.T, (white**2).sum(axis=1)[:, np.newaxis], squares, held_out.counts
        )
        own = found.similarities(held_out.own(), 6)[:, 0]
        scores = found.similarities(products, 6) - found.penalties(own, held_out.codes, 20)
        best, first, second = two_largest(scores)
        compared = found.compared(first, second, np.zeros(len(first)), np.ones(len(first)))
        known = new < 20
        right = (best == new)[known]
        missed = 1 - np.mean(right & (compared[known] > found.threshold))
        promised.append((found.quality, found.error))
        measured.append((
            oscr_area(compared[known], right, compared[~known]),
            missed + np.mean(compared[~known] > found.threshold),
        ))  # fmt: skip
    np.testing.assert_allclose(np.mean(promised, axis=0), np.mean(measured, axis=0), atol=0.03)


@pytest.mark.parametrize("sizes", [(6,), (1, 1, 1), (2, 2)])
def test_too_little_to_calibrate_with_is_said(sizes):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    samples = 9.0 * np.eye(4)[codes] + np.random.default_rng(0).normal(size=(len(codes), 4))
    with pytest.warns(UserWarning, match="Too little to calibrate with"):
        found = calibrate(held_out_of(samples, codes), MinOpenWorldError())
    assert found.by_distance
    assert found.threshold < 0
    assert np.isnan(found.quality)


def test_two_classes_that_overlap_accept_most_of_their_samples():
    """They say nothing about unknown classes; many features would, as everything lies far apart there."""
    samples, codes = blobs(n_classes=2, per_class=100, n_features=4, spread=0.5)
    held_out = held_out_of(samples, codes)
    calibration = calibrate(held_out, MinOpenWorldError(), distances=True, few_features=True)
    _, scored = module.scored_samples(held_out, distances=True)
    share = np.mean(scored.known[scored.right] > calibration.threshold)
    assert 0.9 < share < 0.98


@pytest.mark.parametrize("seed", range(5))
def test_probability_rises_with_the_score(seed):
    found = calibrate(held_out_of(*blobs(spread=1.0, seed=seed)), MinOpenWorldError())
    probabilities = found.probability(np.linspace(-2, 2, 101, dtype=np.float32))
    assert probabilities.dtype == np.float64
    assert np.all(np.diff(probabilities) >= 0)
    assert np.all((probabilities >= 0) & (probabilities <= 1))


def test_separable_scores_give_a_finite_curve():
    found = calibrate(held_out_of(*blobs(spread=50.0)), MinOpenWorldError())
    assert found.quality == 1
    assert np.isfinite(found.slope)
    assert np.isfinite(found.intercept)


def test_classes_of_the_same_samples_have_finite_noise():
    samples = np.random.default_rng(0).normal(size=(20, 40))
    found = calibrate(held_out_of(np.vstack([samples] * 2), np.repeat([0, 1], 20)), MinOpenWorldError())
    assert np.isfinite(found.noise)
    assert np.isfinite(found.threshold)
