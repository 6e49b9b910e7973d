"""Recognizers by name, and your own by module and class."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openworld.evaluation.experiment import Experiment
from openworld.evaluation.recognizers import RECOGNIZERS, code_version, make_recognizer
from openworld.evaluation.run import Job

MODULE = """
from openworld import NearestNonOutlier
class Mine(NearestNonOutlier): pass
class Argument(NearestNonOutlier):
    def __init__(self, needed): ...
class Partial:
    def fit(self, X, y): ...
    def predict(self, X): ...
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "my_recognizers.py"
    path.write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_recognizers", raising=False)
    return path


def test_every_name_makes_a_new_recognizer():
    for name in RECOGNIZERS:
        first, second = make_recognizer(name), make_recognizer(name)
        assert first is not second
        assert type(first) is type(second)


def test_your_own(module: Path):
    mine = make_recognizer("my_recognizers:Mine")
    assert type(mine).__name__ == "Mine"
    assert Experiment("mine", recognizers=("my_recognizers:Mine", "NNO")).recognizers[0].endswith("Mine")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NNN", "no recognizer 'NNN'; there are openworld, NCM"),
        ("nowhere.at_all:Mine", "cannot import 'nowhere.at_all' for the recognizer"),
        ("my_recognizers:Yours", "the module 'my_recognizers' has no 'Yours'"),
        ("my_recognizers:", "no recognizer 'my_recognizers:'"),
        ("my_recognizers:number", "is not a class or function that makes a recognizer"),
        ("my_recognizers:Argument", "cannot make the recognizer 'my_recognizers:Argument' without arguments"),
        ("my_recognizers:Partial", "has no partial_fit, decision_function"),
    ],
)
def test_names_that_make_no_recognizer(module: Path, name: str, words: str):
    with pytest.raises(ValueError) as raised:
        make_recognizer(name)
    assert words in str(raised.value)


def test_results_of_changed_code_are_not_used_again(module: Path):
    def file_name() -> str:
        return Job(Experiment("e"), "data", "0", "my_recognizers:Mine", 0).file_name

    before = file_name()
    assert file_name() == before
    module.write_text(MODULE + "# changed\n")
    assert file_name() != before
    assert code_version("NNO") == code_version("NCM")
