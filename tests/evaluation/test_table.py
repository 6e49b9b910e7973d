"""The table of a run: cells, means over stages, paired differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openworld.evaluation.measures import Interval
from openworld.evaluation.table import Table, difference, is_significant


def row(order: int, value: float, **changes: Any) -> dict[str, Any]:
    cell = {"data": "d", "recognizer": "NNO", "K": 10, "U": 5, "tau_factor": 1.0, "measure": "auroc"}
    return {**cell, "order": order, "value": value, **changes}


def test_values_stand_in_the_order_of_the_class_orders() -> None:
    """Rows may come in any order; pairing depends on it."""
    table = Table.of([row(2, 0.3), row(10, 0.4), row(0, 0.1), row(1, 0.2)])
    assert table.cell("d", "NNO", 10, 5, "auroc").tolist() == [0.1, 0.2, 0.3, 0.4]


def test_axes() -> None:
    rows = [
        row(0, 0.0, data=data, recognizer=recognizer, K=K, U=U, tau_factor=factor)
        for data, stages, unknown in (("z", (20, 5), (7, 0, 3)), ("a", (9,), (0,)))
        for recognizer in ("NNO", "NCM")
        for K in stages
        for U in unknown
        for factor in ((1.0,) if recognizer == "NCM" else (2.0, 0.5, 1.0))
    ]
    table = Table.of(rows)
    assert table.data == ["z", "a"]
    assert table.recognizers == ["NNO", "NCM"]
    assert table.known("z") == [5, 20]
    assert table.known("a") == [9]
    assert table.unknown("z") == [3, 7]
    assert table.unknown("a") == []
    assert table.tau_factors == [0.5, 1.0, 2.0]
    assert table.has("z", "NNO", 5, 3, "auroc", 0.5)
    assert not table.has("z", "NCM", 5, 3, "auroc", 0.5)
    assert not table.has("z", "NNO", 5, 3, "aupr")
    assert table.cell("z", "NNO", 5, 3, "auroc", tau_factor=2.0).tolist() == [0.0]
    with pytest.raises(KeyError):
        table.cell("z", "NNO", 5, 4, "auroc")


def test_the_mean_over_stages_is_of_each_class_order() -> None:
    rows = [row(order, K / 100 + order, K=K) for order in range(3) for K in (10, 20, 60)]
    rows += [row(order, 99.0, K=10, tau_factor=2.0) for order in range(3)]
    assert Table.of(rows).over_stages("d", "NNO", 5, "auroc") == pytest.approx([0.3, 1.3, 2.3])


@pytest.mark.parametrize(
    ("recall", "rejection", "expected"),
    [(1.0, 0.0, True), (0.9, 0.0, False), (1.0, 0.1, False)],
)
def test_never_rejects(recall: float, rejection: float, expected: bool) -> None:
    """A recognizer that accepts every known sample may still reject unknown ones."""
    rows = [
        row(order, 1.0, K=K, U=U, measure="known_recall") for order in (0, 1) for K in (4, 8) for U in (0, 5)
    ]
    rows += [row(order, 0.0, K=K, measure="unknown_rejection") for order in (0, 1) for K in (4, 8)]
    rows += [
        row(1, recall, K=8, U=5, measure="known_recall"),
        row(1, rejection, K=8, measure="unknown_rejection"),
    ]
    rows += [row(0, 0.5, K=8, U=5, measure="known_recall", tau_factor=0.1)]  # plays no part
    assert Table.of(rows).never_rejects("d", "NNO") is expected


def test_differences_are_paired() -> None:
    """The orders differ much from each other, the two sides little and always in one direction."""
    a, b = np.array([0.5, 0.1, 0.9]), np.array([0.49, 0.08, 0.89])
    interval = difference(a, b)
    # mean .04 / 3, deviation of (.01, .02, .01) is .01 / sqrt(3), t(.975, 2) = 4.302653
    half = 4.302653 * 0.01 / np.sqrt(3) / np.sqrt(3)
    assert interval == pytest.approx((0.04 / 3, 0.04 / 3 - half, 0.04 / 3 + half))
    assert difference(b, a) == pytest.approx((-0.04 / 3, -0.04 / 3 - half, -0.04 / 3 + half))
    assert difference(a, a) == (0, 0, 0)


def test_one_class_order_proves_nothing() -> None:
    interval = difference(np.array([0.9]), np.array([0.1]))
    assert interval == (0.8, -np.inf, np.inf)
    assert not is_significant(interval)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.1, 0.3, True), (-0.3, -0.1, True), (-0.1, 0.3, False), (0.0, 0.3, False), (-0.3, 0.0, False)],
)
def test_significance(low: float, high: float, expected: bool) -> None:
    assert is_significant(Interval((low + high) / 2, low, high)) is expected
