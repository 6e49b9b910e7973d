import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openworld.evaluation.reliability import reliability


def test_by_hand():
    found = reliability(
        known=[0.95, 0.85, 0.9, 0.15], correct=[True, False, True, False], unknown=[0.12, 1.0]
    )
    # Bins .1 to .2, .8 to .9 and .9 to 1; each known sample weighs 1/8, each unknown one 1/4.
    np.testing.assert_allclose(found.weight, [3 / 8, 1 / 8, 1 / 2])
    np.testing.assert_allclose(found.membership, [(0.15 + 2 * 0.12) / 3, 0.85, (0.95 + 0.9 + 2 * 1.0) / 4])
    np.testing.assert_allclose(found.right, [0, 0, 0.5])
    assert found.error == pytest.approx(3 / 8 * 0.13 + 1 / 8 * 0.85 + 1 / 2 * (0.9625 - 0.5))


def test_perfect_memberships_have_no_error():
    random = np.random.default_rng(0)
    known = random.uniform(size=200_000)
    # Half of the weight is unknown with the same memberships: among the known, right is twice as likely.
    correct = random.uniform(size=200_000) < 2 * known
    assert reliability(known[known < 0.5], correct[known < 0.5], known[known < 0.5]).error < 0.01


memberships = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(known=memberships, unknown=memberships, seed=st.integers(0, 9))
def test_weights_add_up_and_copies_change_nothing(known, unknown, seed):
    correct = np.random.default_rng(seed).integers(0, 2, size=len(known)).astype(bool)
    found = reliability(known, correct, unknown)
    assert found.weight.sum() == pytest.approx(1)
    assert 0 <= found.error <= 1
    again = reliability(known * 3, np.tile(correct, 3), unknown * 2)
    np.testing.assert_allclose(again.right, found.right)
    assert again.error == pytest.approx(found.error)
