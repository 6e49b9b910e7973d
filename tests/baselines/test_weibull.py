"""The Weibull fit against SciPy's, libMR's and what must hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import weibull_min

from openworld.baselines.weibull import MAX_SHAPE, Weibull, fit_upper_tail, fit_weibull

SCORES = np.array([-1.31, -1.12, -1.05, -0.98, -0.91, -0.7, -0.42, -0.11, 0.05, 0.32])
ASKED = np.array([-2, -1, -0.5, 0, 0.5, 1.0])


@pytest.mark.parametrize("seed", range(8))
def test_agrees_with_scipy(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.gamma(random.uniform(0.5, 5), size=random.integers(3, 60)) * 10.0 ** random.integers(
        -3, 4
    )
    fitted = fit_weibull(values)
    shape, _, scale = weibull_min.fit(values, floc=0)
    assert fitted.shape == pytest.approx(shape, rel=1e-3)
    assert fitted.scale == pytest.approx(scale, rel=1e-3)
    ours = weibull_min.logpdf(values, fitted.shape, scale=fitted.scale).sum()
    assert ours >= weibull_min.logpdf(values, shape, scale=scale).sum() - 1e-9
    assert fitted.cdf(values) == pytest.approx(weibull_min.cdf(values, fitted.shape, scale=fitted.scale))
    assert fitted.survival(values) == pytest.approx(weibull_min.sf(values, fitted.shape, scale=fitted.scale))


def test_finds_the_parameters_of_a_large_sample() -> None:
    values = 3.0 * np.random.default_rng(0).weibull(1.7, size=200_000)
    fitted = fit_weibull(values)
    assert fitted.shape == pytest.approx(1.7, rel=0.01)
    assert fitted.scale == pytest.approx(3.0, rel=0.01)


def test_agrees_with_libmr() -> None:
    """The numbers were printed by libmr 0.1.9: MR().fit_high and fit_low with a tail of 6."""
    high = fit_upper_tail(np.sort(SCORES)[-6:])
    assert (high.scale, high.shape) == pytest.approx((1.778466136181773, 4.371749681138163), rel=1e-5)
    expected = [0.0, 0.05202972, 0.30400982, 0.74489068, 0.97706872, 0.99981731]
    assert high.cdf(ASKED) == pytest.approx(expected, abs=1e-6)
    low = fit_upper_tail(np.sort(-SCORES)[-6:])
    assert (low.scale, low.shape) == pytest.approx((1.3927033722207027, 7.879286693379589), rel=1e-5)
    expected = [1.0, 4.40745693e-01, 1.25940564e-02, 5.57935354e-06, 0.0, 0.0]
    assert low.cdf(-ASKED) == pytest.approx(expected, abs=1e-6)


def test_many_tails_of_different_lengths_at_once() -> None:
    random = np.random.default_rng(1)
    tails = [random.gamma(2, size=n) for n in (1, 2, 5, 40)]
    padded = np.full((4, 40), np.nan)
    for row, tail in zip(padded, tails, strict=True):
        row[: len(tail)] = tail
    together = fit_weibull(padded)
    for number, tail in enumerate(tails):
        alone = fit_weibull(tail)
        assert together.shape[number] == pytest.approx(alone.shape)
        assert together.scale[number] == pytest.approx(alone.scale)


def test_values_that_are_all_the_same_give_a_step() -> None:
    fitted = fit_weibull([2.0, 2.0, 2.0])
    assert fitted.shape == MAX_SHAPE
    assert fitted.cdf([1.9, 2.1]) == pytest.approx([0.0, 1.0])
    assert fit_weibull([5.0]).scale == pytest.approx(5.0)


def test_nothing_below_the_location_and_no_overflow_beyond() -> None:
    weibull = Weibull(3.0, 2.0, location=-1.0)
    assert weibull.cdf([-np.inf, -5.0, -1.0, 1.0, 1e300]) == pytest.approx([0, 0, 0, 1 - np.exp(-1), 1])
    assert weibull.survival(3.0) == pytest.approx(np.exp(-8))


@pytest.mark.parametrize("values", [[], [np.nan], [1.0, 0.0], [1.0, -2.0], [1.0, np.inf]])
def test_refuses_what_cannot_be_fitted(values: list[float]) -> None:
    with pytest.raises(ValueError):
        fit_weibull(values)
