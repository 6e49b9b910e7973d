"""Experiments as data: reading, checking, scaling, and the paper's experiments."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openworld.data.dataset import Dataset
from openworld.evaluation.experiment import (
    EXPERIMENTS,
    PAPER_50,
    Experiment,
    experiment_from,
    named_or_read,
)


def dataset(n_classes: int, per_class: int = 6) -> Dataset:
    y = np.arange(n_classes * per_class) % n_classes
    return Dataset("toy", np.zeros((len(y), 1)), y)


def to_toml(values: dict[str, Any]) -> str:
    """JSON's texts, numbers, lists and booleans are TOML's too."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def test_toml_round_trip(tmp_path: Path) -> None:
    experiment = Experiment(
        "mine", data=("a.npz", 'b "quoted".csv'), recognizers=("NNO", "NCM-STH"), n_starting=7, step=3,
        n_known=20, unknown=(0, 5, 9), orders=4, seed=11, test_fraction=0.25, validation_fraction=0.5,
        one_by_one=True, tau_factors=(0.5, 1.0, 2.0),
    )  # fmt: skip
    path = tmp_path / "mine.toml"
    path.write_text(to_toml(asdict(experiment)), encoding="utf-8")
    assert named_or_read(str(path)) == experiment
    assert experiment_from(json.loads(json.dumps(asdict(experiment)))) == experiment
    assert experiment_from(tomllib.loads(path.read_text())).digest() == experiment.digest()


def test_what_a_file_leaves_out_is_the_papers(tmp_path: Path) -> None:
    path = tmp_path / "short.toml"
    path.write_text('data = "letters"\nrecognizers = "NNO"\nunknown = 100\ntau_factors = 1\n')
    assert named_or_read(str(path)) == replace(PAPER_50, name="short", recognizers=("NNO",), unknown=(100,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("unknowns = [1]", "An experiment has no unknowns; it has data, n_known,"),
        ("a = 1\nb = 2", "An experiment has no a, b"),
        ("unknown = [1", "not a valid TOML file"),
        ("orders = '3'", "orders cannot be '3'; an example is 5"),
        ("orders = 2.5", "orders cannot be 2.5"),
        ("orders = true", "orders cannot be True"),
        ("orders = [3]", "orders cannot be [3]"),
        ("unknown = ['many']", "unknown cannot be ['many']; an example is [100, 200, 500]"),
        ("unknown = [1.5]", "unknown cannot be [1.5]"),
        ("data = [1]", "data cannot be [1]"),
        ("one_by_one = 1", "one_by_one cannot be 1"),
        ("test_fraction = 'half'", "test_fraction cannot be 'half'"),
        ("recognizers = 'NMC'", "no recognizer 'NMC'; there are openworld, NCM"),
        ("orders = 0", "experiment 'mine': orders must be at least 1."),
    ],
)
def test_bad_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError) as raised:
        named_or_read(str(path))
    assert words in str(raised.value)


def test_names_that_are_nothing(tmp_path: Path) -> None:
    for name in ("papre-50", str(tmp_path / "missing.toml"), str(tmp_path), ""):
        with pytest.raises(ValueError, match=r"There is no experiment .*; there are paper-50, paper-200"):
            named_or_read(name)
    path = tmp_path / "latin.toml"
    path.write_bytes('name = "Köln"'.encode("latin-1"))
    with pytest.raises(ValueError, match="not a valid TOML file"):
        named_or_read(str(path))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"data": ()}, "data names no data set"),
        ({"data": ("a", "a")}, "data names a data set twice"),
        ({"recognizers": ()}, "recognizers names no recognizer"),
        ({"recognizers": ("NNO", "NNO")}, "recognizers names one twice"),
        ({"recognizers": ("NNO", "SVM")}, "no recognizer 'SVM'; there are openworld, NCM"),
        ({"n_starting": 0}, "n_starting must lie between 1 and n_known"),
        ({"n_starting": 201}, "n_starting must lie between 1 and n_known"),
        ({"step": 0}, "step must be at least 1"),
        ({"unknown": (5, -1)}, "unknown holds a negative number"),
        ({"orders": 0}, "orders must be at least 1"),
        ({"seed": -1}, "seed must not be negative"),
        ({"test_fraction": 0.0}, "test_fraction must lie between 0 and 1"),
        ({"test_fraction": 1.0}, "test_fraction must lie between 0 and 1"),
        ({"test_fraction": float("nan")}, "test_fraction must lie between 0 and 1"),
        (
            {"validation_fraction": -0.1},
            "validation_fraction must lie between 0 and what test_fraction leaves",
        ),
        (
            {"validation_fraction": 0.7},
            "validation_fraction must lie between 0 and what test_fraction leaves",
        ),
        ({"tau_factors": (0.5,)}, "tau_factors needs 1.0"),
        ({"tau_factors": ()}, "tau_factors needs 1.0"),
        ({"tau_factors": (0.0, 1.0)}, "tau_factors must be positive"),
    ],
)
def test_bad_values(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as raised:
        Experiment("mine", **values)
    assert str(raised.value).startswith("experiment 'mine': ")
    assert words in str(raised.value)


def test_the_papers_experiments() -> None:
    assert set(EXPERIMENTS) >= {"paper-50", "paper-200", "softmax-threshold", "tau-sweep", "features"}
    assert all(experiment.name == name for name, experiment in EXPERIMENTS.items())

    def numbers(name: str) -> tuple[Any, ...]:
        e = EXPERIMENTS[name]
        return e.n_starting, e.step, e.n_known, e.unknown, e.recognizers

    assert numbers("paper-50") == (50, 50, 200, (100, 200, 500), ("NCM", "NNO", "openworld"))
    assert numbers("paper-200") == (200, 100, 500, (100, 200, 500), ("NCM", "NNO", "openworld"))
    assert numbers("softmax-threshold") == (50, 50, 200, (100,), ("NCM", "NNO", "NCM-STH"))
    assert numbers("tau-sweep") == (50, 50, 200, (100,), ("NCM", "NNO"))
    assert EXPERIMENTS["tau-sweep"].tau_factors == (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5)
    assert EXPERIMENTS["features"].unknown == (500,)
    assert len(EXPERIMENTS["features"].data) == 3
    assert all(experiment.orders > 1 for experiment in EXPERIMENTS.values()), "needed for intervals"


def test_the_digest_is_of_what_the_values_depend_on() -> None:
    same = [
        replace(PAPER_50, name="other"),
        replace(PAPER_50, orders=2),
        replace(PAPER_50, recognizers=("NNO",)),
        replace(PAPER_50, data=("a.npz",)),
    ]
    other = [
        replace(PAPER_50, n_starting=49), replace(PAPER_50, step=49), replace(PAPER_50, n_known=199),
        replace(PAPER_50, unknown=(100, 200)), replace(PAPER_50, seed=1),
        replace(PAPER_50, test_fraction=0.4), replace(PAPER_50, validation_fraction=0.1),
        replace(PAPER_50, one_by_one=True), replace(PAPER_50, tau_factors=(1.0, 2.0)),
    ]  # fmt: skip
    assert {experiment.digest() for experiment in same} == {PAPER_50.digest()}
    assert len({experiment.digest() for experiment in (PAPER_50, *other)}) == 1 + len(other)


def test_nothing_is_scaled_without_need() -> None:
    experiment = Experiment("mine", n_starting=3, step=2, n_known=6, unknown=(2, 4))
    assert experiment.scaled_to(dataset(10)) is experiment
    assert experiment.scaled_to(dataset(9)) != experiment


@pytest.mark.parametrize(
    ("n_classes", "starting", "step", "known", "unknown"),
    [(4, 2, 1, 3, (1,)), (10, 2, 1, 3, (1, 2, 7)), (70, 5, 5, 20, (10, 20, 50))],
)
def test_paper_50_on_small_data_sets(
    n_classes: int, starting: int, step: int, known: int, unknown: tuple[int, ...]
) -> None:
    scaled = PAPER_50.scaled_to(dataset(n_classes))
    assert (scaled.n_starting, scaled.step, scaled.n_known) == (starting, step, known)
    assert scaled.unknown == unknown
    split = scaled.split(dataset(n_classes), 0)
    assert len(split.unknown) == unknown[-1]


def test_too_small_a_data_set() -> None:
    with pytest.raises(ValueError, match="toy: 3 usable classes are too few for an experiment"):
        PAPER_50.scaled_to(dataset(3))


@given(
    n_classes=st.integers(4, 60),
    n_known=st.integers(1, 80),
    starting=st.integers(1, 80),
    step=st.integers(1, 80),
    unknown=st.lists(st.integers(0, 500), max_size=3),
    validation=st.sampled_from([0.0, 0.2]),
)
@settings(max_examples=150)
def test_a_scaled_experiment_fits_the_data_set(
    n_classes: int, n_known: int, starting: int, step: int, unknown: list[int], validation: float
) -> None:
    asked = Experiment(
        "mine", n_starting=min(starting, n_known), step=step, n_known=n_known, unknown=tuple(unknown),
        orders=2, validation_fraction=validation,
    )  # fmt: skip
    data = dataset(n_classes)
    scaled = asked.scaled_to(data)
    assert scaled.n_known + scaled.n_unknown <= n_classes
    assert 1 <= scaled.n_starting <= scaled.n_known
    for used, wanted in (
        (scaled.n_starting, asked.n_starting), (scaled.n_known, asked.n_known),
        (scaled.step, asked.step), (scaled.n_unknown, asked.n_unknown),
    ):  # fmt: skip
        assert used <= wanted, "nothing is scaled up"
    assert (scaled.n_unknown > 0) == (asked.n_unknown > 0)
    assert scaled.n_starting >= min(2, asked.n_starting), "a threshold needs two classes"
    for order in range(2):
        scaled.split(data, order)


def test_validation_samples_count_when_scaling() -> None:
    """A class with three samples has too few to learn from once test and validation took one each."""
    y = np.concatenate([np.arange(30) % 5, np.arange(9) % 3 + 100])
    data = Dataset("uneven", np.zeros((39, 1)), y)
    asked = Experiment("mine", n_starting=2, n_known=4, unknown=(4,), validation_fraction=0.1)
    scaled = asked.scaled_to(data)
    assert scaled.n_known + scaled.n_unknown <= 5
    scaled.split(data, 0)
