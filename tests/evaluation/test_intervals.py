import math

import numpy as np
import pytest

from openworld.evaluation.intervals import fold_interval


def test_fold_interval_by_hand():
    # mean 2, deviation 1 (n - 1), t(.975; 2) = 4.302653: 2 ± 4.302653 / sqrt(3)
    interval = fold_interval([1.0, 2.0, 3.0])
    assert interval.estimate == 2.0
    assert interval.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-6)
    assert interval.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-6)
    assert fold_interval([0.5, 0.5]) == (0.5, 0.5, 0.5)


def test_fold_intervals_cover_the_truth():
    rng = np.random.default_rng(0)
    intervals = [fold_interval(rng.normal(0.4, 0.05, size=5), confidence=0.9) for _ in range(1000)]
    covered = np.mean([interval.low <= 0.4 <= interval.high for interval in intervals])
    assert covered == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("values", [[0.5], [], [[0.1, 0.2]], [0.1, np.nan]])
def test_fold_interval_refuses_what_it_cannot_use(values):
    with pytest.raises(ValueError, match="values must be"):
        fold_interval(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_confidence_is_checked(confidence):
    with pytest.raises(ValueError, match="confidence"):
        fold_interval([0.1, 0.2], confidence)
