"""The protocol: what a recognizer is shown and when, and every value held against a brute-force count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score, roc_auc_score

from openworld import EuclideanMetric, NearestClassMean, NearestNonOutlier
from openworld.data.dataset import Dataset
from openworld.evaluation import recognizers
from openworld.evaluation.experiment import Experiment
from openworld.evaluation.protocol import CLOSED, OPEN, RANKED, ProtocolResult, array_bytes, run_protocol
from openworld.evaluation.run import run_experiment

EXPERIMENT = Experiment(
    "toy", data=("toy",), n_starting=4, step=3, n_known=9, unknown=(2, 5), orders=2, test_fraction=0.3
)


def make_dataset(n_classes: int = 16, per_class: int = 12, spread: float = 2.0, **parts: Any) -> Dataset:
    """Blobs; the first column is the number of the sample, so that a row tells which sample it is."""
    random = np.random.default_rng(7)
    y = np.repeat([f"c{i:02d}" for i in range(n_classes)], per_class)
    centers = spread * random.standard_normal((n_classes, 5))
    X = np.repeat(centers, per_class, axis=0) + random.standard_normal((len(y), 5))
    order = random.permutation(len(y))
    return Dataset("toy", np.column_stack([np.arange(len(y)), X[order]]), y[order], **parts)


def features_only(dataset: Dataset) -> Dataset:
    return replace(dataset, X=dataset.X[:, 1:])


class Spy:
    """Answers at random, seeded by the sample, and notes every sample that it is shown.

    Where it is told the truth, its answers are somewhat better than that.
    """

    def __init__(self, truth: Any = None) -> None:
        self.truth = truth
        self.calls: list[tuple[str, list[int], list[str]]] = []
        self.labels: list[str] = []
        self.unknown_label_ = "unknown"

    def _note(self, method: str, X: Any, y: Any = ()) -> None:
        self.calls.append((method, X[:, 0].astype(int).tolist(), list(y)))

    @property
    def classes_(self) -> Any:
        return np.array(sorted(self.labels))

    def fit(self, X: Any, y: Any) -> None:
        assert not self.calls, "fit comes first, and once"
        self._note("fit", X, y)
        self.labels = sorted(set(y))

    def partial_fit(self, X: Any, y: Any) -> None:
        self._note("partial_fit", X, y)
        self.labels = sorted({*self.labels, *y})

    def recalibrate(self, X: Any, y: Any) -> None:
        self._note("recalibrate", X, y)

    def refresh(self) -> None:
        self.calls.append(("refresh", [], []))

    def _scores(self, X: Any) -> Any:
        numbers = X[:, 0].astype(int)
        scores = np.array(
            [np.random.default_rng(i).normal(-1.0, 1.0, 40)[: len(self.labels)] for i in numbers]
        )
        if self.truth is not None:
            scores += 2 * (self.truth[numbers][:, np.newaxis] == self.classes_)
        return np.round(scores, 1)  # so that there are ties

    def predict(self, X: Any) -> Any:
        self._note("predict", X)
        scores = self._scores(X)
        return np.where(scores.max(axis=1) > 0, self.classes_[scores.argmax(axis=1)], "unknown")

    def decision_function(self, X: Any) -> Any:
        self._note("decision_function", X)
        return self._scores(X)


def run_spies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dataset: Dataset, experiment: Experiment
) -> list[Spy]:
    """Run a whole experiment on data from a file; return the spy of each class order."""
    spies: list[Spy] = []

    def make() -> Spy:
        spies.append(Spy())
        return spies[-1]

    monkeypatch.setitem(recognizers.RECOGNIZERS, "Spy", make)
    path = tmp_path / "toy.npz"
    if dataset.is_test is None:
        np.savez(
            path,
            X=dataset.X,
            y=dataset.y,
            **({"groups": dataset.groups} if dataset.groups is not None else {}),
        )
    else:
        train, test = ~dataset.is_test, dataset.is_test
        np.savez(
            path, X_train=dataset.X[train], y_train=dataset.y[train],
            X_test=dataset.X[test], y_test=dataset.y[test],
        )  # fmt: skip
    run_experiment(replace(experiment, data=(str(path),), recognizers=("Spy",)), tmp_path / "out", workers=0)
    return spies


@pytest.mark.parametrize("validation", [0.0, 0.2])
@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("kind", ["random", "groups", "test part"])
def test_nothing_leaks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, one_by_one: bool, validation: float
) -> None:
    parts: dict[str, Any] = {
        "random": {},
        "groups": {"groups": np.arange(192) % 8},
        "test part": {"is_test": np.random.default_rng(3).random(192) < 0.4},
    }[kind]
    dataset = make_dataset(**parts)
    label_of = dict(zip(dataset.X[:, 0].astype(int).tolist(), dataset.y.tolist(), strict=True))
    group_of = dict(enumerate(dataset.groups.tolist())) if dataset.groups is not None else {}
    experiment = replace(EXPERIMENT, one_by_one=one_by_one, validation_fraction=validation)
    spies = run_spies(monkeypatch, tmp_path, dataset, experiment)
    assert len(spies) == 2
    for spy in spies:
        learned: set[int] = set()
        tested: set[int] = set()
        calibrated: set[int] = set()
        refreshed = 0
        known: list[str] = []
        stage_sizes = []
        for method, rows, labels in spy.calls:
            assert len(set(rows)) == len(rows)
            if method in ("fit", "partial_fit"):
                assert labels == [label_of[row] for row in rows]
                new = set(labels)
                assert not new & set(known), "a class is learned once, when its stage has come"
                assert not learned & set(rows)
                assert method == "fit" or not one_by_one or len(new) == 1
                known += sorted(new)
                learned |= set(rows)
                stage_sizes.append(len(new))
            elif method == "recalibrate":
                assert labels == [label_of[row] for row in rows]
                assert set(labels) == set(known), "validation is of all starting classes and no other"
                assert len(known) == 4
                calibrated |= set(rows)
            elif method == "refresh":
                refreshed = len(known)
            else:
                assert refreshed == len(known), "the time of refresh is part of the time of learning"
                unknown = {label_of[row] for row in rows} - set(known)
                assert len(unknown) in (0, 5), "classes to come are neither known nor unknown: not tested"
                tested |= set(rows)
        ever_unknown = {label_of[row] for row in tested} - set(known)
        assert len(ever_unknown) == 5, "the unknown classes are the same at every stage"
        assert {label_of[row] for row in learned} == set(known)
        assert not tested & learned
        assert not tested & calibrated
        assert not learned & calibrated
        assert bool(calibrated) == (validation > 0)
        assert stage_sizes == ([4, 1, 1, 1, 1, 1] if one_by_one else [4, 3, 2])
        if dataset.is_test is not None:
            assert dataset.is_test[sorted(tested)].all()
            assert not dataset.is_test[sorted(learned | calibrated)].any()
        groups = [{group_of[row] for row in rows} for rows in (learned, calibrated, tested) if group_of]
        assert sum(map(len, groups)) == len(set().union(*groups)), "a group is in two parts"


def cells(outcome: ProtocolResult) -> dict[tuple[int, int, float, str], float]:
    """The values that depend on the answers alone."""
    rows = [row for row in outcome.rows if row["measure"] != "model_mib"]
    found = {(row["K"], row["U"], row["tau_factor"], row["measure"]): row["value"] for row in rows}
    assert len(found) == len(rows), "a cell was measured twice"
    return found


def test_values_by_brute_force() -> None:
    """Every measure in every cell, counted again from the answers with other code."""
    dataset = make_dataset(per_class=40)  # so many that 1 % and 2 % of the unknown samples are not the same
    split = EXPERIMENT.split(dataset, 1)
    found = cells(run_protocol(Spy(dataset.y), dataset, split, EXPERIMENT))
    spy, expected = Spy(dataset.y), {}
    for stage, added in enumerate(split.stages):
        spy.labels = sorted({*spy.labels, *added})
        for U in (0, 2, 5):
            unknown_classes = split.unknown[:U].tolist()
            rows = [i for i in split.test if dataset.y[i] in spy.labels or dataset.y[i] in unknown_classes]
            X = dataset.X[rows]
            truth = np.array([y if y in spy.labels else "unknown" for y in dataset.y[rows].tolist()])
            answer, scores = spy.predict(X), spy._scores(X)
            for name, value in brute_force(truth, answer, scores, spy.labels, U).items():
                expected[len(split.known(stage)), U, 1.0, name] = value
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=1e-12), key
    measures = {key[3] for key in found}
    assert measures == {*CLOSED, *OPEN, *RANKED, "forced_accuracy", "openness"}


def brute_force(truth: Any, answer: Any, scores: Any, classes: list[str], U: int) -> dict[str, float]:
    known = truth != "unknown"
    forced = np.array(classes)[scores.argmax(axis=1)]
    right = float(np.mean(answer[known] == truth[known]))
    values = {
        "multi_class_error": 1 - right,
        "closed_accuracy": right,
        "pooled_accuracy": float(np.mean(answer == truth)),
        "known_recall": float(np.mean(answer[known] != "unknown")),
        "forced_accuracy": float(np.mean(forced[known] == truth[known])),
        "openness": 1 - np.sqrt(2 * len(classes) / (2 * len(classes) + U)),
    }
    if not U:
        return values
    rejected = float(np.mean(answer[~known] == "unknown"))
    only = {"labels": classes, "zero_division": 0.0}
    precision = precision_score(truth, answer, average="macro", **only)
    recall = recall_score(truth, answer, average="macro", **only)
    best = scores.max(axis=1)
    correct = forced[known] == truth[known]
    pairs = [
        ok * ((s > t) + (s == t) / 2)
        for s, ok in zip(best[known], correct, strict=True)
        for t in best[~known]
    ]

    def ccr(rate: float) -> float:
        allowed = [t for t in [*best, np.inf] if np.mean(best[~known] >= t) <= rate]
        return float(np.mean(correct & (best[known] >= min(allowed))))

    return values | {
        "open_world_error": 1 - right + 1 - rejected,
        "unknown_rejection": rejected,
        "f1_micro": float(f1_score(truth, answer, average="micro", **only)),
        "f1_macro": float(2 * precision * recall / (precision + recall)),
        "normalized_accuracy": (right + rejected) / 2,
        "harmonic_accuracy": 2 * right * rejected / (right + rejected),
        "auroc": float(roc_auc_score(known, best)),
        "aupr": float(average_precision_score(known, best)),
        "oscr_area": float(np.mean(pairs)),
        "ccr_at_fpr_10": ccr(0.1),
        "ccr_at_fpr_1": ccr(0.01),
    }


@pytest.mark.parametrize("unequal", [False, True])
def test_a_classifier_that_never_rejects(unequal: bool) -> None:
    """Pooled accuracy is exactly closed accuracy x N / (N + N'), in every cell."""
    dataset = features_only(make_dataset())
    if unequal:
        keep = np.random.default_rng(0).random(len(dataset.y)) < 0.8
        dataset = replace(dataset, X=dataset.X[keep], y=dataset.y[keep])
    for order in (0, 1):
        split = EXPERIMENT.split(dataset, order)
        found = cells(run_protocol(NearestClassMean(), dataset, split, EXPERIMENT))
        labels = dataset.y[split.test]
        for stage in range(len(split.stages)):
            n = int(np.isin(labels, split.known(stage)).sum())
            for U in (0, 2, 5):
                n_unknown = int(np.isin(labels, split.unknown[:U]).sum())
                K = len(split.known(stage))
                closed, pooled = (found[K, U, 1.0, name] for name in ("closed_accuracy", "pooled_accuracy"))
                assert pooled == round(closed * n) / (n + n_unknown)
                assert closed == found[K, 0, 1.0, "pooled_accuracy"] == found[K, U, 1.0, "forced_accuracy"]
                assert found[K, U, 1.0, "known_recall"] == 1
                if U:
                    assert found[K, U, 1.0, "unknown_rejection"] == 0
                    assert found[K, U, 1.0, "open_world_error"] == pytest.approx(2 - closed)
    assert {key[2] for key in found} == {1.0}


def test_the_closed_set_is_always_tested_and_only_once() -> None:
    dataset = features_only(make_dataset())
    for unknown, expected in (((), {0}), ((0,), {0}), ((0, 3), {0, 3}), ((3, 3), {0, 3})):
        experiment = replace(EXPERIMENT, unknown=unknown)
        outcome = run_protocol(NearestClassMean(), dataset, experiment.split(dataset, 0), experiment)
        found = cells(outcome)
        assert {key[1] for key in found} == expected
        assert {key[0] for key in found} == {4, 7, 9}
        assert set(outcome.scores) == ({"known", "unknown", "correct"} if max(expected) else set())


def test_scores_are_of_the_last_stage_with_all_unknown_classes() -> None:
    dataset = features_only(make_dataset())
    split = EXPERIMENT.split(dataset, 0)
    recognizer = NearestNonOutlier(EuclideanMetric())
    outcome = run_protocol(recognizer, dataset, split, EXPERIMENT)
    labels = dataset.y[split.test]
    for kind, classes in (("known", split.known(2)), ("unknown", split.unknown)):
        X = dataset.X[split.test[np.isin(labels, classes)]]
        assert np.array_equal(outcome.scores[kind], recognizer.decision_function(X).max(axis=1))
    found = cells(outcome)
    assert outcome.scores["correct"].mean() == found[9, 5, 1.0, "forced_accuracy"]
    rejected = np.mean(outcome.scores["unknown"] <= 0)
    assert rejected == found[9, 5, 1.0, "unknown_rejection"]


def test_thresholds() -> None:
    """A smaller tau rejects more; the calibrated one is put back and gives what a plain run gives."""
    dataset = features_only(make_dataset(spread=1.5))
    factors = (2.0, 0.5, 1.0, 0.8, 1.25)
    experiment = replace(EXPERIMENT, tau_factors=factors)
    split = experiment.split(dataset, 0)
    plain, swept = NearestNonOutlier(), NearestNonOutlier()
    expected, found = (
        cells(run_protocol(plain, dataset, split, EXPERIMENT)),
        cells(run_protocol(swept, dataset, split, experiment)),
    )
    assert swept.tau_ == plain.tau_
    assert {key: value for key, value in found.items() if key[2] == 1.0} == expected
    assert {key[2] for key in found} == set(factors)
    assert {key[3] for key in found if key[2] != 1.0} == {*CLOSED, *OPEN}
    seen = set()
    for K in (4, 7, 9):
        rejection = [found[K, 5, factor, "unknown_rejection"] for factor in sorted(factors)]
        recall = [found[K, 5, factor, "known_recall"] for factor in sorted(factors)]
        assert rejection == sorted(rejection, reverse=True)
        assert recall == sorted(recall)
        seen |= {*rejection}
    assert len(seen) > 5, "the thresholds make a difference"


def test_a_threshold_is_a_multiple_of_the_calibrated_one() -> None:
    dataset = features_only(make_dataset(spread=1.5))
    experiment = replace(EXPERIMENT, tau_factors=(1.0, 0.7))
    split = experiment.split(dataset, 0)
    recognizer = NearestNonOutlier()
    found = cells(run_protocol(recognizer, dataset, split, experiment))
    X = dataset.X[split.test[np.isin(dataset.y[split.test], split.unknown)]]
    recognizer.tau_ *= 0.7
    assert found[9, 5, 0.7, "unknown_rejection"] == np.mean(recognizer.predict(X) == "unknown")


def test_one_class_at_a_time_gives_the_same() -> None:
    dataset = features_only(make_dataset())
    split = EXPERIMENT.split(dataset, 0)
    results = [
        cells(run_protocol(NearestNonOutlier(), dataset, split, replace(EXPERIMENT, one_by_one=one)))
        for one in (False, True)
    ]
    assert results[0].keys() == results[1].keys()
    for key, value in results[0].items():
        assert results[1][key] == pytest.approx(value, abs=1e-12), key


def test_validation_samples_set_the_threshold() -> None:
    dataset = features_only(make_dataset(per_class=20))
    experiment = replace(EXPERIMENT, validation_fraction=0.3)
    split = experiment.split(dataset, 0)
    recognizer = NearestNonOutlier()
    run_protocol(recognizer, dataset, split, experiment)
    starting = split.train[np.isin(dataset.y[split.train], split.stages[0])]
    held = split.validation[np.isin(dataset.y[split.validation], split.stages[0])]
    expected = NearestNonOutlier().fit(dataset.X[starting], dataset.y[starting])
    before = expected.tau_
    expected.recalibrate(dataset.X[held], dataset.y[held])
    assert recognizer.tau_ == expected.tau_ != before


def test_timings() -> None:
    dataset = features_only(make_dataset())
    outcome = run_protocol(NearestNonOutlier(), dataset, EXPERIMENT.split(dataset, 0), EXPERIMENT)
    assert [(row["K"], row["what"]) for row in outcome.timings] == [
        (4, "seconds_fit"), (4, "seconds_predict"),
        (7, "seconds_learn"), (7, "seconds_predict"),
        (9, "seconds_learn"), (9, "seconds_predict"),
    ]  # fmt: skip
    assert all(0 < row["seconds"] < 10 for row in outcome.timings)


def test_integer_labels_give_the_same_values() -> None:
    """Classes are numbers here, 0 and 1 among them, which no code may take for unknown or False."""
    text = features_only(make_dataset())
    numbers = replace(text, y=np.unique(text.y, return_inverse=True)[1])
    rows = [
        cells(run_protocol(NearestNonOutlier(), data, EXPERIMENT.split(data, 0), EXPERIMENT))
        for data in (text, numbers)
    ]
    assert rows[0] == rows[1]


def test_model_size() -> None:
    """The bytes of everything the recognizer holds: here a mean for each class, in two spaces and types."""
    dataset = features_only(make_dataset())
    outcome = run_protocol(NearestNonOutlier(), dataset, EXPERIMENT.split(dataset, 0), EXPERIMENT)
    sizes = {row["K"]: row["value"] for row in outcome.rows if row["measure"] == "model_mib"}
    assert [*sizes] == [4, 7, 9]
    assert 0 < sizes[4] < sizes[7] < sizes[9]
    shared = np.zeros(1000)
    assert array_bytes({"a": [shared, shared], "b": (np.zeros(5, dtype=np.uint8),)}) == 8005
