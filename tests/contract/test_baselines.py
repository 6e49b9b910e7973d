"""Every recognizer that experiments know by name keeps the contract of design.md."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.base import clone

from openworld.evaluation.recognizers import RECOGNIZERS
from openworld.testing import contract_checks

BASELINES = {
    name: make() for name, make in RECOGNIZERS.items() if name not in ("openworld", "NCM", "NNO", "NCM-STH")
}


@pytest.mark.parametrize("check", contract_checks(), ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", BASELINES)
def test_contract(name: str, check: Any) -> None:
    check(clone(BASELINES[name]))
