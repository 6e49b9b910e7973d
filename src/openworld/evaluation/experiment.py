"""Experiment settings, and the paper's experiments by name."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from openworld.data.dataset import Dataset
from openworld.evaluation.recognizers import RECOGNIZERS, check_names
from openworld.evaluation.split import Split, make_split, require_classes, usable_classes


@dataclass(frozen=True)
class Experiment:
    """Settings of an open-world experiment; the same settings give the same results table.

    Attributes
    ----------
    name : str
    data : tuple of str
        Names or paths of data sets; several of them are several feature sets.
    recognizers : tuple of str
        Names from `openworld.evaluation.recognizers`, or your own as `package.module:Class`.
    n_starting, step, n_known : int
        Starting classes, classes added at each stage, classes known at the end.
    unknown : tuple of int
        Numbers of unknown classes to test with. The closed set, 0, is always tested.
    orders : int
        Number of class orders; each has its own split of classes and samples.
    seed : int
    test_fraction, validation_fraction : float
        Shares of the samples, or groups, for test and validation. Validation samples are used to
        calibrate recognizers that offer `recalibrate`; without them they hold out training samples.
    one_by_one : bool
        Add the classes of a stage one at a time, as the paper does, instead of all at once.
    tau_factors : tuple of float
        Thresholds to test, as multiples of the calibrated one.
    """

    name: str
    data: tuple[str, ...] = ("letters",)
    recognizers: tuple[str, ...] = ("NCM", "NNO", "openworld")
    n_starting: int = 50
    step: int = 50
    n_known: int = 200
    unknown: tuple[int, ...] = (100, 200, 500)
    orders: int = 5
    seed: int = 0
    test_fraction: float = 0.3
    validation_fraction: float = 0.0
    one_by_one: bool = False
    tau_factors: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        problems = [
            (not self.data, "data names no data set"),
            (len(set(self.data)) < len(self.data), "data names a data set twice"),
            (not self.recognizers, "recognizers names no recognizer"),
            (len(set(self.recognizers)) < len(self.recognizers), "recognizers names one twice"),
            (not 1 <= self.n_starting <= self.n_known, "n_starting must lie between 1 and n_known"),
            (self.step < 1, "step must be at least 1"),
            (any(u < 0 for u in self.unknown), "unknown holds a negative number"),
            (self.orders < 1, "orders must be at least 1"),
            (self.seed < 0, "seed must not be negative"),
            (not 0 < self.test_fraction < 1, "test_fraction must lie between 0 and 1"),
            (
                not 0 <= self.validation_fraction < 1 - self.test_fraction,
                "validation_fraction must lie between 0 and what test_fraction leaves",
            ),
            (not all(f > 0 for f in self.tau_factors), "tau_factors must be positive"),
            (1.0 not in self.tau_factors, "tau_factors needs 1.0"),
        ]
        for wrong, text in problems:
            if wrong:
                raise ValueError(f"experiment {self.name!r}: {text}.")
        try:
            check_names(self.recognizers)
        except ValueError as error:
            raise ValueError(f"experiment {self.name!r}: {error}") from error

    @property
    def n_unknown(self) -> int:
        """The largest number of unknown classes."""
        return max(self.unknown, default=0)

    def digest(self) -> str:
        """Return a short hash of the settings that the measured values depend on."""
        facts = {k: v for k, v in asdict(self).items() if k not in ("name", "orders", "recognizers", "data")}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def split(self, dataset: Dataset, order: int) -> Split:
        """Return the split of one class order."""
        return make_split(
            dataset,
            seed=self.seed,
            order=order,
            n_starting=self.n_starting,
            step=self.step,
            n_known=self.n_known,
            n_unknown=self.n_unknown,
            test_fraction=self.test_fraction,
            validation_fraction=self.validation_fraction,
        )

    def scaled_to(self, dataset: Dataset) -> Experiment:
        """Return the experiment with its numbers of classes scaled down to what the data set has."""
        available = usable_classes(
            dataset,
            seed=self.seed,
            orders=self.orders,
            test_fraction=self.test_fraction,
            validation_fraction=self.validation_fraction,
        )
        wanted = self.n_known + self.n_unknown
        if available >= wanted:
            return self
        require_classes(dataset, available)
        factor = available / wanted
        n_known = min(max(3, int(self.n_known * factor)), self.n_known)
        most = available - n_known
        unknown = tuple(sorted({min(max(1, int(u * factor)), most) for u in self.unknown if u}))
        return replace(
            self,
            n_starting=min(max(2, int(self.n_starting * factor)), self.n_starting, n_known),
            step=max(1, int(self.step * factor)),
            n_known=n_known,
            unknown=unknown,
        )


PAPER_50 = Experiment("paper-50")
PAPER_200 = Experiment("paper-200", n_starting=200, step=100, n_known=500)
EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        PAPER_50,
        PAPER_200,
        replace(PAPER_50, name="softmax-threshold", recognizers=("NCM", "NNO", "NCM-STH"), unknown=(100,)),
        replace(
            PAPER_50,
            name="tau-sweep",
            recognizers=("NCM", "NNO"),
            unknown=(100,),
            tau_factors=tuple(round(0.5 + 0.1 * i, 1) for i in range(11)),
        ),
        replace(
            PAPER_50,
            name="features",
            data=("letters-sift", "letters-hog", "letters-lbp"),
            unknown=(500,),
        ),
        Experiment(
            "leaderboard",
            recognizers=tuple(RECOGNIZERS),
            n_starting=20,
            step=20,
            n_known=60,
            unknown=(40,),
            orders=3,
        ),
    )
}


def named_or_read(name: str, others: Iterable[str] = ()) -> Experiment:
    """Return an experiment by its name, or read it from a TOML file; an error lists `others` as well."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    path = Path(name)
    if path.suffix != ".toml" or not path.is_file():
        known = ", ".join((*EXPERIMENTS, *others))
        raise ValueError(f"There is no experiment {name!r}; there are {known}; or give a .toml file.")
    try:
        return experiment_from(tomllib.loads(path.read_text(encoding="utf-8")), default_name=path.stem)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a valid TOML file ({error}).") from error


def experiment_from(values: dict[str, Any], default_name: str = "experiment") -> Experiment:
    """Make an experiment from plain values, as a TOML or JSON file holds them."""
    known = {field.name for field in fields(Experiment)}
    strange = sorted(set(values) - known)
    if strange:
        raise ValueError(f"An experiment has no {', '.join(strange)}; it has {', '.join(sorted(known))}.")
    plain: dict[str, Any] = {"name": default_name}
    for key, value in values.items():
        example = getattr(PAPER_50, key)
        plain[key] = value
        if isinstance(example, tuple):
            plain[key] = tuple(value) if isinstance(value, list | tuple) else (value,)
        if not _is_like(plain[key], example):
            shown = list(example) if isinstance(example, tuple) else example
            raise ValueError(
                f"experiment {plain['name']!r}: {key} cannot be {value!r}; an example is {shown!r}."
            )
    return Experiment(**plain)


def _is_like(value: Any, example: Any) -> bool:
    """Return whether a value has the type of an example; integers pass as floats."""
    if isinstance(example, tuple):
        return all(_is_like(item, example[0]) for item in value)
    return type(value) is type(example) or (type(value) is int and type(example) is float)
