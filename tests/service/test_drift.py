"""The sequential test of the share of unknown samples."""

from __future__ import annotations

import numpy as np
import pytest

from openworld.service.drift import Drift, DriftTest


def _fed(*shares: tuple[float, int], seed: int = 0, version: int = 1) -> DriftTest:
    """Return a test that has seen so many samples with each share of unknown, one by one."""
    random, test = np.random.default_rng(seed), DriftTest()
    for share, n in shares:
        for i, unknown in enumerate(random.random(n) < share):
            test.add(int(unknown), 1, version, float(i))
    return test


def test_nothing_is_said_before_the_usual_share_is_known() -> None:
    assert _fed((0.2, 299)).result == Drift()
    assert _fed((0.2, 300)).result.usual == pytest.approx(0.2, abs=0.08)


def test_false_alarms_are_rare() -> None:
    # 40 runs of 2,500 samples are 100,000: one false alarm is expected at most.
    runs = [(share, seed) for share in (0.05, 0.3) for seed in range(20)]
    alarms = [_fed((share, 2800), seed=seed).result.direction for share, seed in runs]
    assert len(alarms) - alarms.count(None) <= 2


@pytest.mark.parametrize(("after", "direction"), [(0.5, "more"), (0.02, "fewer")])
def test_a_change_raises_the_alarm_that_ends_with_it(after: float, direction: str) -> None:
    changed = _fed((0.2, 1000), (after, 400)).result
    assert (changed.direction, changed.evidence) == (direction, 1.0)
    assert changed.since is not None
    assert 0 < changed.since < 400
    assert _fed((0.2, 1000), (after, 400), (0.2, 3000)).result.direction is None


def test_a_new_version_starts_again() -> None:
    test = _fed((0.2, 1000), (0.6, 300))
    assert test.result.direction == "more"
    test.add(1, 1, 2, 0.0)
    assert test.result == Drift()
