"""The paper's protocol for one recognizer and one class order: learn, test, add classes, test again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.dataset import Dataset
from openworld.evaluation import measures as m
from openworld.evaluation.experiment import Experiment
from openworld.evaluation.reliability import reliability
from openworld.evaluation.split import Split

Row = dict[str, Any]

# Measures of decisions on known samples alone, of decisions on known and unknown samples, of scores.
CLOSED: dict[str, Callable[[m.Decisions], float]] = {
    "multi_class_error": m.multi_class_error,
    "pooled_accuracy": m.pooled_accuracy,
    "closed_accuracy": m.closed_set_accuracy,
    "known_recall": m.known_recall,
}
OPEN: dict[str, Callable[[m.Decisions], float]] = {
    "open_world_error": m.open_world_error,
    "unknown_rejection": m.unknown_rejection_rate,
    "f1_micro": m.open_set_f1_micro,
    "f1_macro": m.open_set_f1_macro,
    "normalized_accuracy": m.normalized_accuracy,
    "harmonic_accuracy": m.harmonic_accuracy,
}
RANKED: dict[str, Callable[[m.Scores], float]] = {
    "auroc": m.auroc,
    "aupr": m.aupr,
    "oscr_area": m.oscr_area,
    "ccr_at_fpr_10": lambda scores: m.ccr_at_fpr(scores, 0.1),
    "ccr_at_fpr_1": lambda scores: m.ccr_at_fpr(scores, 0.01),
}


@dataclass
class ProtocolResult:
    """Results of one recognizer in one class order.

    `rows` are the measured values and `timings` CPU seconds. `scores` are those of the last stage with all
    unknown classes: `known` and `unknown` (the largest decision), `correct`, and, for a recognizer that has
    `membership`, that of the best class: `known_membership` and `unknown_membership`.
    """

    rows: list[Row] = field(default_factory=list)
    timings: list[Row] = field(default_factory=list)
    scores: dict[str, NDArray[Any]] = field(default_factory=dict)


def run_protocol(recognizer: Any, dataset: Dataset, split: Split, experiment: Experiment) -> ProtocolResult:
    """Run all stages of one class order.

    The recognizer sees the training samples of a class when it learns the class, and never any test
    sample or unknown class.
    """
    outcome = ProtocolResult()
    for stage, classes in enumerate(split.stages):
        n_known = len(split.known(stage))
        seconds = _learn(recognizer, dataset, split, experiment, classes, first=stage == 0)
        _record_time(outcome, n_known, "seconds_fit" if stage == 0 else "seconds_learn", seconds)
        _test(recognizer, dataset, split, experiment, stage, outcome)
    return outcome


def _learn(
    recognizer: Any,
    dataset: Dataset,
    split: Split,
    experiment: Experiment,
    classes: NDArray[Any],
    *,
    first: bool,
) -> float:
    """Learn some classes from their training samples; return the CPU seconds.

    It includes `refresh`, the work that would otherwise fall to the first prediction; your own recognizer
    need not have it.
    """
    chosen = split.train[np.isin(dataset.y[split.train], classes)]
    X, y = dataset.X[chosen], dataset.y[chosen]
    batches = [(X, y)]
    if experiment.one_by_one and not first:
        batches = [(X[y == label], y[y == label]) for label in classes]
    start = process_time()
    if first:
        recognizer.fit(X, y)
        held = split.validation[np.isin(dataset.y[split.validation], classes)]
        if len(held) and hasattr(recognizer, "recalibrate"):
            recognizer.recalibrate(dataset.X[held], dataset.y[held])
    else:
        for batch in batches:
            recognizer.partial_fit(*batch)
    if hasattr(recognizer, "refresh"):
        recognizer.refresh()
    return process_time() - start


def _test(
    recognizer: Any,
    dataset: Dataset,
    split: Split,
    experiment: Experiment,
    stage: int,
    outcome: ProtocolResult,
) -> None:
    """Test with the known classes of a stage and each number of unknown classes."""
    n_classes = len(split.known(stage))
    labels = dataset.y[split.test]
    known = split.test[np.isin(labels, split.known(stage))]
    start = process_time()
    recognizer.predict(dataset.X[known])
    _record_time(outcome, n_classes, "seconds_predict", (process_time() - start) / len(known))

    samples = np.concatenate([known, split.test[np.isin(labels, split.unknown)]])
    X, truth = dataset.X[samples], dataset.y[samples]
    decision = recognizer.decision_function(X)
    membership = recognizer.membership(X) if hasattr(recognizer, "membership") else None
    predictions = dict(_predictions(recognizer, X, experiment))
    for n_unknown in sorted({0, *experiment.unknown}):
        tested = np.isin(truth, split.unknown[:n_unknown])
        tested[: len(known)] = True
        values = _ranking(recognizer, decision[tested], truth[tested], len(known), outcome)
        if membership is not None and n_unknown:
            values["calibration_error"] = _calibration(decision, membership, tested, len(known), outcome)
        values["openness"] = m.openness(n_classes, n_classes + n_unknown)
        if n_unknown == 0:
            values["model_mib"] = array_bytes(recognizer) / 2**20
        for factor, predicted in predictions.items():
            decided = _decided(recognizer, truth[tested], predicted[tested])
            row = {"K": n_classes, "U": n_unknown, "tau_factor": factor}
            for name, value in {**decided, **(values if factor == 1 else {})}.items():
                outcome.rows.append({**row, "measure": name, "value": value})


def _predictions(
    recognizer: Any, X: NDArray[Any], experiment: Experiment
) -> Iterator[tuple[float, NDArray[Any]]]:
    """Yield the predictions at each multiple of tau; without tau, at the calibrated threshold only."""
    if not hasattr(recognizer, "tau_"):
        yield 1.0, recognizer.predict(X)
        return
    tau = recognizer.tau_
    for factor in experiment.tau_factors:
        recognizer.tau_ = factor * tau
        yield factor, recognizer.predict(X)
    recognizer.tau_ = tau


def _decided(recognizer: Any, truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, float]:
    decisions = m.Decisions.of(truth, predicted, recognizer.classes_, recognizer.unknown_label_)
    chosen = {**CLOSED, **OPEN} if len(decisions.unknown_pred) else CLOSED
    return {name: measure(decisions) for name, measure in chosen.items()}


def _ranking(
    recognizer: Any, decision: NDArray[Any], truth: NDArray[Any], n_known: int, outcome: ProtocolResult
) -> dict[str, float]:
    """Compute the measures of scores, which need no threshold."""
    forced = recognizer.classes_[decision.argmax(axis=1)]
    correct = forced[:n_known] == truth[:n_known]
    values = {"forced_accuracy": float(correct.mean())}
    if len(truth) > n_known:
        best = decision.max(axis=1).astype(np.float64)
        scores = m.Scores.of(best[:n_known], best[n_known:], correct)
        values |= {name: measure(scores) for name, measure in RANKED.items()}
        outcome.scores = {"known": best[:n_known], "unknown": best[n_known:], "correct": correct}
    return values


def _calibration(
    decision: NDArray[Any],
    membership: NDArray[Any],
    tested: NDArray[np.bool_],
    n_known: int,
    outcome: ProtocolResult,
) -> float:
    """Return the expected calibration error of the membership of the best class."""
    best = membership[np.arange(len(decision)), decision.argmax(axis=1)][tested]
    outcome.scores |= {"known_membership": best[:n_known], "unknown_membership": best[n_known:]}
    return reliability(best[:n_known], outcome.scores["correct"], best[n_known:]).error


def array_bytes(part: Any, seen: set[int] | None = None) -> int:
    """Return the bytes of all arrays reachable from an object."""
    seen = set() if seen is None else seen
    if id(part) in seen:
        return 0
    seen.add(id(part))
    if isinstance(part, np.ndarray):
        return part.nbytes
    inside: list[Any] = []
    if isinstance(part, dict):
        inside += part.values()
    elif isinstance(part, list | tuple | set):
        inside += part
    elif callable(part) and getattr(part, "__closure__", None):
        inside += [cell.cell_contents for cell in part.__closure__]
    inside += vars(part).values() if hasattr(part, "__dict__") and not isinstance(part, type) else []
    return sum(array_bytes(item, seen) for item in inside)


def _record_time(outcome: ProtocolResult, n_known: int, what: str, seconds: float) -> None:
    outcome.timings.append({"K": n_known, "what": what, "seconds": seconds})
