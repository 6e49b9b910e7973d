"""Leaving out in closed form, against leaving out by computing everything again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openworld import ClassStatistics
from openworld.recognition.adaptive import held_out as module
from openworld.recognition.adaptive.held_out import HeldOut, hold_out
from openworld.recognition.adaptive.metric import Whitening, center_weights


class Case:
    """Samples of some classes, each `copies` times, and the covariance that whitens them."""

    def __init__(self, sizes, n_features=4, shrinkage=0.2, seed=0, copies=1):
        random = np.random.default_rng(seed)
        self.codes = np.repeat(np.arange(len(sizes)), sizes)
        centers = 2 * random.normal(size=(len(sizes), n_features))
        self.samples = centers[self.codes] + random.normal(size=(len(self.codes), n_features))
        self.groups = np.repeat(np.arange(len(self.codes)), copies)
        self.codes, self.samples = np.repeat(self.codes, copies), np.repeat(self.samples, copies, axis=0)
        sizes = np.multiply(sizes, copies).tolist()
        self.counts = np.array(sizes, dtype=float)
        self.means = self.means_of(np.ones(len(self.codes), dtype=bool))
        deviations = self.samples - self.means[self.codes]
        self.degrees = self.counts.sum() - len(sizes)
        self.per_sample = (1 - shrinkage) / self.degrees
        self.covariance = self.per_sample * deviations.T @ deviations + shrinkage * np.eye(n_features)
        self.shares = center_weights(self.counts)
        root = np.linalg.inv(np.linalg.cholesky(self.covariance)).T
        center = self.shares @ self.means
        several = self.counts[self.codes] > copies
        self.judged = np.flatnonzero(several)
        self.held_out = HeldOut(
            ((self.samples - center) @ root)[several].astype(np.float32),
            self.codes[several],
            ((self.means - center) @ root).astype(np.float32),
            self.counts,
            self.shares,
            self.per_sample,
            (copies / self.counts[self.codes])[several],
            self.counts / copies,
            self.groups[several] if copies > 1 else None,
        )

    def means_of(self, kept):
        classes = range(len(self.counts))
        return np.array([self.samples[kept & (self.codes == c)].mean(axis=0) for c in classes])

    def products(self, sample, means, center, covariance):
        inverse = np.linalg.inv(covariance)
        a, b = sample - center, means - center
        return b @ inverse @ a, a @ inverse @ a, np.einsum("ij,jk,ik->i", b, inverse, b)


SIZES = st.lists(st.integers(1, 9), min_size=2, max_size=5).filter(lambda sizes: max(sizes) > 1)


@settings(max_examples=30)
@given(sizes=SIZES, seed=st.integers(0, 99))
def test_a_sample_left_out_of_covariance_mean_and_center(sizes, seed):
    case = Case(sizes, seed=seed)
    own = case.held_out.own()
    for rows, known, _ in case.held_out:
        for at, i in enumerate(case.judged[rows]):
            code, n = case.codes[i], case.counts[case.codes[i]]
            means = case.means_of(np.arange(len(case.codes)) != i)
            deviation = case.samples[i] - case.means[code]
            covariance = case.covariance - case.per_sample * n / (n - 1) * np.outer(deviation, deviation)
            expected = case.products(case.samples[i], means, case.shares @ means, covariance)
            found = known.mixed[at], known.samples[at, 0], known.means[at]
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)
            np.testing.assert_array_equal(known.counts, case.counts)
            assert known.left_out[at] == code
            row = rows.start + at
            np.testing.assert_allclose(own.mixed[row], known.mixed[at, code], rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(own.means[row], known.means[at, code], rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(own.samples[row], known.samples[at], rtol=1e-3, atol=1e-3)
            assert own.counts[row] == known.left[at] == pytest.approx(n - 1)


@settings(max_examples=30)
@given(sizes=SIZES, copies=st.integers(2, 4), seed=st.integers(0, 99))
def test_a_group_of_copies_left_out_of_covariance_mean_and_center(sizes, copies, seed):
    case = Case(sizes, seed=seed, copies=copies)
    own = case.held_out.own()
    for rows, known, _ in case.held_out:
        for at, i in enumerate(case.judged[rows]):
            code, kept = case.codes[i], case.groups != case.groups[i]
            means = case.means_of(kept)
            of_class = case.codes == code
            before, after = (
                (part - mean).T @ (part - mean)
                for part, mean in (
                    (case.samples[of_class], case.means[code]),
                    (case.samples[of_class & kept], means[code]),
                )
            )
            covariance = case.covariance - case.per_sample * (before - after)
            expected = case.products(case.samples[i], means, case.shares @ means, covariance)
            for one, other in zip(
                (known.mixed[at], known.samples[at, 0], known.means[at]), expected, strict=True
            ):
                np.testing.assert_allclose(one, other, rtol=4e-3, atol=4e-3)
            row = rows.start + at
            assert own.mixed[row, 0] == pytest.approx(known.mixed[at, code], abs=1e-3)
            assert known.left[at] == pytest.approx(sizes[code] - 1)
            assert known.counts[code] == pytest.approx(sizes[code])


@settings(max_examples=30)
@given(sizes=SIZES, seed=st.integers(0, 99))
def test_a_class_left_out_of_covariance_and_center(sizes, seed):
    case = Case(sizes, seed=seed)
    for rows, _, unknown in case.held_out:
        for at, i in enumerate(case.judged[rows]):
            code = case.codes[i]
            others = np.arange(len(sizes)) != code
            deviations = (case.samples - case.means[case.codes])[case.codes == code]
            left = (case.degrees - (case.counts[code] - 1)) / case.degrees
            covariance = (case.covariance - case.per_sample * deviations.T @ deviations) / max(
                left, 1 / case.degrees
            )
            shares = case.shares[others] / case.shares[others].sum()
            center = shares @ case.means[others]
            mixed, square, squares = case.products(case.samples[i], case.means, center, covariance)
            np.testing.assert_allclose(unknown.mixed[at][others], mixed[others], rtol=0.02, atol=0.02)
            np.testing.assert_allclose(unknown.samples[at, 0], square, rtol=0.02, atol=0.02)
            np.testing.assert_allclose(unknown.means[at][others], squares[others], rtol=0.02, atol=0.02)
            assert unknown.mixed[at, code] == -np.inf


def test_what_the_shrinkage_put_into_the_covariance_stays_when_a_class_is_left_out():
    """By far most of the variance of few samples in many dimensions: distances are as before."""
    random = np.random.default_rng(0)
    codes, labels = np.repeat([0, 1], 4), np.repeat(["a", "b"], 4)
    samples = random.normal(size=(8, 300)).astype(np.float32)
    statistics = ClassStatistics("pooled")
    statistics.add(samples, labels)
    held_out = hold_out(statistics, Whitening.of(statistics), np.arange(2), samples, codes)
    assert 0.95 < held_out.shrunk <= 1
    [(_, known, unknown)] = list(held_out)
    other = (np.arange(8), 1 - codes)
    distances = [p.samples[:, 0] - 2 * p.mixed[other] + p.means[other] for p in (known, unknown)]
    np.testing.assert_allclose(distances[1], distances[0], rtol=0.2)


def test_samples_of_a_class_that_are_not_kept_leave_the_covariance_too():
    """Lengths are about those with all samples kept; they were off by .13 when only the kept ones left."""
    errors = []
    for seed in range(3):
        random = np.random.default_rng(seed)
        codes = np.repeat(np.arange(6), 200)
        scales = np.exp(0.7 * random.normal(size=(6, 8)))  # each class varies in its own directions
        samples = (2 * random.normal(size=(6, 8)))[codes] + scales[codes] * random.normal(size=(1200, 8))
        samples = samples.astype(np.float32)
        statistics = ClassStatistics("pooled").add(samples, codes)
        whitening, kept = Whitening.of(statistics), np.arange(1200) % 200 < 40
        all_left, some_left = (
            next(iter(hold_out(statistics, whitening, np.arange(6), samples[part], codes[part])))[2]
            for part in (np.ones(1200, dtype=bool), kept)
        )
        errors.append(np.log(some_left.samples / all_left.samples[kept]))
    assert np.mean(np.abs(errors)) < 0.09


@pytest.mark.parametrize("pairs", [1, 20, 10**6])
@pytest.mark.parametrize("bound", ["_PAIRS_AT_ONCE", "_CACHED_PAIRS"])
def test_blocks_of_classes_make_no_difference(bound, pairs, monkeypatch):
    case = Case((4, 1, 6, 3, 2))
    [(_, known, unknown)] = list(case.held_out)
    monkeypatch.setattr(module, bound, pairs)
    blocks = list(case.held_out)
    assert [i for rows, *_ in blocks for i in range(rows.start, rows.stop)] == list(range(15))
    np.testing.assert_allclose(np.concatenate([k.mixed for _, k, _ in blocks]), known.mixed, rtol=1e-4)
    np.testing.assert_allclose(np.concatenate([u.mixed for *_, u in blocks]), unknown.mixed, rtol=1e-4)


def test_holding_out_whitens_what_the_statistics_hold():
    case = Case((4, 1, 6, 3))
    names = np.array(["d", "a", "c", "b"])
    statistics = ClassStatistics("pooled").add(case.samples, names[case.codes])
    order = statistics.rows(names)
    whitening = Whitening.of(statistics)
    samples = case.samples.astype(np.float32)
    found = hold_out(statistics, whitening, order, samples, case.codes)
    assert found.codes.tolist() == [0] * 4 + [2] * 6 + [3] * 3  # a class of one sample cannot be judged
    np.testing.assert_allclose(found.samples, whitening(samples)[case.codes != 1], atol=1e-6)
    np.testing.assert_allclose(found.shares @ found.means, 0, atol=1e-5)
    np.testing.assert_allclose(found.means, whitening(case.means.astype(np.float32)), atol=1e-5)


def test_some_samples_are_the_first_of_every_nth_class():
    held_out = Case((4, 2, 6, 3)).held_out
    some = held_out.some(3, 2)
    assert some.codes.tolist() == [0] * 3 + [2] * 3
    np.testing.assert_array_equal(some.samples, held_out.samples[[0, 1, 2, 6, 7, 8]])
    assert some.means is held_out.means
    assert held_out.some(6, 1) is held_out
