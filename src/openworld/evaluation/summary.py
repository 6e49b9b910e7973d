"""Summary of a run: its main figures, and the paper's claims, each checked against the measured numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openworld.evaluation.compare import COMPARED
from openworld.evaluation.measures import Interval
from openworld.evaluation.table import Table, difference, is_significant

_ACCURACY = "pooled_accuracy"


@dataclass(frozen=True)
class Finding:
    """A claim of the paper, whether it holds in this run, and the numbers."""

    claim: str
    holds: bool | None
    evidence: str

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.holds is None:
            return "this run cannot tell"
        return "holds here" if self.holds else "does not hold here"


def means(table: Table) -> list[dict[str, Any]]:
    """Return the main measures of every recognizer at the last stage: means over class orders."""
    found = []
    for data in table.data:
        K, U = table.known(data)[-1], (table.unknown(data) or [0])[-1]
        for name in table.recognizers:
            measured = [measure for measure in COMPARED if table.has(data, name, K, U, measure)]
            values = {measure: float(table.cell(data, name, K, U, measure).mean()) for measure in measured}
            found.append({"data": data, "recognizer": name, "K": K, "U": U, **values})
    return found


def findings(table: Table) -> list[Finding]:
    """Check every claim of the paper that the run has numbers for, on every data set."""
    found = []
    for data in table.data:
        if table.unknown(data):
            found += [
                _never_rejects(table, data, name)
                for name in table.recognizers
                if table.never_rejects(data, name)
            ]
            if {"NCM", "NNO"} <= set(table.recognizers):
                found += [_nno_beats_ncm(table, data), _closed_alike(table, data), _gap_closes(table, data)]
            if {"NCM", "NNO", "NCM-STH"} <= set(table.recognizers):
                found.append(_softmax_fails(table, data))
            if len(table.tau_factors) > 1 and "NNO" in table.recognizers:
                found.append(_broad_peak(table, data))
    return found


def _shown(interval: Interval) -> str:
    mean, low, high = (100 * value for value in interval)
    if not np.isfinite(low):
        return f"{mean:+.2f} points (one class order, so no interval)"
    return f"{mean:+.2f} points (95 % interval {low:+.2f} to {high:+.2f})"


def _name(data: str) -> str:
    return Path(data).stem


def _never_rejects(table: Table, data: str, name: str) -> Finding:
    """The identity of any classifier that never rejects: pooled = closed x N / (N + N')."""
    K, U = table.known(data)[-1], table.unknown(data)[-1]
    closed, opened = table.cell(data, name, K, 0, _ACCURACY), table.cell(data, name, K, U, _ACCURACY)
    return Finding(
        f"{name}, which never answers unknown, collapses when unknown classes are tested",
        bool(np.all(opened < closed)),
        f"{_name(data)}: {100 * closed.mean():.1f} % with {K} known classes alone, "
        f"{100 * opened.mean():.1f} % with {U} unknown ones added",
    )


def _nno_beats_ncm(table: Table, data: str) -> Finding:
    U = table.unknown(data)[-1]
    gain = difference(
        table.over_stages(data, "NNO", U, _ACCURACY), table.over_stages(data, "NCM", U, _ACCURACY)
    )
    rejected = table.over_stages(data, "NNO", U, "unknown_rejection").mean()
    return Finding(
        "NNO is more accurate than NCM in open-set testing",
        bool(gain.low > 0) if is_significant(gain) else None,
        f"{_name(data)}, {U} unknown classes, mean over the stages: {_shown(gain)}; NNO rejects "
        f"{100 * rejected:.1f} % of unknown samples",
    )


def _closed_alike(table: Table, data: str) -> Finding:
    loss = difference(
        table.over_stages(data, "NNO", 0, _ACCURACY), table.over_stages(data, "NCM", 0, _ACCURACY)
    )
    return Finding(
        "In closed-set testing NNO is about as accurate as NCM (within 2 points, as published)",
        bool(loss.estimate > -0.02),
        f"{_name(data)}: {_shown(loss)}",
    )


def _gap_closes(table: Table, data: str) -> Finding:
    U, known = table.unknown(data)[-1], table.known(data)

    def gap(K: int) -> float:
        return float(
            np.mean(table.cell(data, "NNO", K, 0, _ACCURACY) - table.cell(data, "NNO", K, U, _ACCURACY))
        )

    return Finding(
        "The gap between closed-set and open-set accuracy of NNO shrinks as classes are added",
        gap(known[-1]) < gap(known[0]) if len(known) > 1 else None,
        f"{_name(data)}, {U} unknown classes: {100 * gap(known[0]):.1f} points with {known[0]} known "
        f"classes, {100 * gap(known[-1]):.1f} with {known[-1]}",
    )


def _softmax_fails(table: Table, data: str) -> Finding:
    U = table.unknown(data)[-1]
    behind = difference(
        table.over_stages(data, "NCM-STH", U, _ACCURACY), table.over_stages(data, "NNO", U, _ACCURACY)
    )
    return Finding(
        "Thresholding the softmax is worse than NNO",
        bool(behind.high < 0) if is_significant(behind) else None,
        f"{_name(data)}, {U} unknown classes: {_shown(behind)}",
    )


def _broad_peak(table: Table, data: str) -> Finding:
    U, known = table.unknown(data)[-1], table.known(data)

    def accuracy(factor: float) -> float:
        cells = [table.cell(data, "NNO", K, U, _ACCURACY, tau_factor=factor) for K in known]
        return float(np.mean(cells))

    near = [factor for factor in table.tau_factors if 0.8 <= factor <= 1.2 and factor != 1]
    change = max((abs(accuracy(factor) - accuracy(1.0)) for factor in near), default=0.0)
    best = max(table.tau_factors, key=accuracy)
    return Finding(
        "A change of tau by 20 % has only a small impact (under 2 points)",
        change < 0.02 if near else None,
        f"{_name(data)}, {U} unknown classes: at most {100 * change:.1f} points; the best of the thresholds "
        f"tried is {best:g} x tau ({100 * accuracy(best):.1f} % against {100 * accuracy(1.0):.1f} %)",
    )
