"""The paper's claims against hand-made tables: each can hold, fail, and be left open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from openworld.evaluation.summary import Finding, findings
from openworld.evaluation.table import Table

STAGES = (10, 20)
Values = dict[str, dict[str, Any]]


def make_table(recognizers: Values, orders: int = 3, data: str = "dir/toy.npz", unknown: int = 5) -> Table:
    """Make a table from values at (first stage, last stage) with `closed` and `open` accuracy.

    `noise` is added to the open accuracy with changing sign, `recall` and `rejection` hold at all stages,
    `tau` maps factors to what they add to the open accuracy.
    """
    rows: list[dict[str, Any]] = []

    def add(order: int, name: str, K: int, U: int, measure: str, value: float, factor: float = 1.0) -> None:
        rows.append(
            {"data": data, "recognizer": name, "order": order, "K": K, "U": U, "tau_factor": factor,
             "measure": measure, "value": value}
        )  # fmt: skip

    for name, given in recognizers.items():
        for order in range(orders):
            for stage, K in enumerate(STAGES):
                noise = given.get("noise", 0.0) * (-1) ** order
                add(order, name, K, 0, "pooled_accuracy", given["closed"][stage])
                add(order, name, K, 0, "known_recall", given.get("recall", 1.0))
                if unknown:
                    add(order, name, K, unknown, "pooled_accuracy", given["open"][stage] + noise)
                    add(order, name, K, unknown, "known_recall", given.get("recall", 1.0))
                    add(order, name, K, unknown, "unknown_rejection", given.get("rejection", 0.0))
                    for factor, change in given.get("tau", {}).items():
                        accuracy = given["open"][stage] + noise + change
                        add(order, name, K, unknown, "pooled_accuracy", accuracy, factor)
    return Table.of(rows)


NCM = {"closed": (0.8, 0.7), "open": (0.3, 0.4)}
NNO = {"closed": (0.79, 0.69), "open": (0.6, 0.65), "recall": 0.95, "rejection": 0.5}


def about(found: Iterable[Finding], words: str) -> Finding:
    (one,) = [finding for finding in found if words in finding.claim]
    return one


def test_the_papers_story() -> None:
    found = findings(make_table({"NCM": NCM, "NNO": NNO}))
    assert [finding.holds for finding in found] == [True] * 4
    assert {finding.verdict for finding in found} == {"holds here"}
    never = about(found, "never answers unknown")
    assert never.claim.startswith("NCM, ")
    assert never.evidence == "toy: 70.0 % with 20 known classes alone, 40.0 % with 5 unknown ones added"
    gain = about(found, "more accurate than NCM")
    assert "+27.50 points (95 % interval +27.50 to +27.50); NNO rejects 50.0 %" in gain.evidence
    assert "-1.00 points" in about(found, "closed-set testing").evidence
    assert "19.0 points with 10 known classes, 4.0 with 20" in about(found, "gap").evidence


def test_the_opposite_story() -> None:
    nno = {**NNO, "closed": (0.7, 0.6), "open": (0.2, 0.05)}
    found = findings(make_table({"NCM": NCM, "NNO": nno}))
    assert not about(found, "more accurate than NCM").holds
    assert about(found, "more accurate than NCM").verdict == "does not hold here"
    assert not about(found, "closed-set testing").holds
    assert not about(found, "gap").holds


def test_noise_leaves_it_open() -> None:
    found = findings(make_table({"NCM": NCM, "NNO": {**NNO, "noise": 0.5}}))
    gain = about(found, "more accurate than NCM")
    assert gain.holds is None
    assert gain.verdict == "this run cannot tell"


def test_noise_that_both_share_is_no_noise() -> None:
    """Class orders differ, in the same way for both: the difference is still sure."""
    found = findings(make_table({"NCM": {**NCM, "noise": 0.2}, "NNO": {**NNO, "noise": 0.2}}))
    assert about(found, "more accurate than NCM").holds


def test_a_single_class_order() -> None:
    sth = {**NNO, "open": (0.2, 0.2)}
    found = findings(make_table({"NCM": NCM, "NNO": {**NNO, "tau": {0.8: 0.0}}, "NCM-STH": sth}, orders=1))
    assert len(found) == 6
    gain = about(found, "more accurate than NCM")
    assert gain.holds is None
    assert "+27.50 points (one class order, so no interval)" in gain.evidence
    assert about(found, "softmax").holds is None
    assert about(found, "closed-set testing").holds
    assert not [finding for finding in found if "inf" in finding.evidence or "nan" in finding.evidence]


@pytest.mark.parametrize(
    ("accuracy", "noise", "holds"),
    [((0.5, 0.5), 0.0, True), ((0.7, 0.7), 0.0, False), ((0.5, 0.5), 0.4, None)],
)
def test_softmax(accuracy: tuple[float, float], noise: float, holds: bool | None) -> None:
    sth = {**NNO, "open": accuracy, "noise": noise}
    found = findings(make_table({"NCM": NCM, "NNO": NNO, "NCM-STH": sth}))
    assert about(found, "softmax").holds is holds


@pytest.mark.parametrize(
    ("tau", "holds"),
    [
        ({0.8: -0.01, 1.2: 0.01, 0.5: -0.3}, True),
        ({0.8: -0.03, 1.2: 0.0}, False),
        ({0.8: 0.0, 1.2: 0.03}, False),
        ({0.5: 0.0, 1.5: 0.0}, None),  # nothing within 20 % was tried
    ],
)
def test_a_broad_peak(tau: dict[float, float], holds: bool | None) -> None:
    found = findings(make_table({"NCM": NCM, "NNO": {**NNO, "tau": tau}}))
    assert about(found, "change of tau").holds is holds


def test_the_best_threshold_is_named() -> None:
    found = findings(make_table({"NCM": NCM, "NNO": {**NNO, "tau": {0.8: 0.015, 1.2: -0.01}}}))
    evidence = about(found, "change of tau").evidence
    assert (
        "at most 1.5 points; the best of the thresholds tried is 0.8 x tau (64.0 % against 62.5 %)"
        in evidence
    )


def test_accepting_all_known_samples_is_not_never_rejecting() -> None:
    """On easy data NNO accepts every known sample and rejects unknown ones: it is not said to collapse."""
    found = findings(make_table({"NCM": NCM, "NNO": {**NNO, "recall": 1.0}}))
    assert about(found, "never answers unknown").claim.startswith("NCM")
    lenient = {**NNO, "recall": 1.0, "rejection": 0.0}
    claims = [finding.claim for finding in findings(make_table({"NNO": lenient}))]
    assert any(claim.startswith("NNO, which never answers unknown") for claim in claims)


def test_one_stage_cannot_tell_about_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "STAGES", (10,))
    found = findings(make_table({"NCM": NCM, "NNO": NNO}))
    assert about(found, "gap").holds is None


def test_claims_about_what_was_not_run_are_not_made() -> None:
    assert findings(make_table({"NCM": NCM, "NNO": NNO}, unknown=0)) == []
    assert findings(make_table({"NNO": NNO})) == []
    assert [finding.claim[:3] for finding in findings(make_table({"NCM": NCM}))] == ["NCM"]


def test_every_data_set_has_its_own_findings() -> None:
    one, other = (make_table({"NCM": NCM, "NNO": NNO}, data=data) for data in ("one.npz", "other.npz"))
    found = findings(Table({**one.values, **other.values}))
    assert [finding.evidence.split(":")[0].split(",")[0] for finding in found] == ["one"] * 4 + ["other"] * 4
