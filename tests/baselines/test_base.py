"""Every baseline keeps the contract of the recognizers."""

from __future__ import annotations

from typing import Any

import pytest

from openworld.baselines.base import Baseline
from openworld.baselines.extreme_value_machine import CosineExtremeValueMachine, ExtremeValueMachine
from openworld.baselines.label_tree import LabelTree
from openworld.baselines.linear_svm import LinearSVM
from openworld.baselines.logistic_regression import MaximumLogit, MaximumProbability
from openworld.baselines.mahalanobis import Mahalanobis, RelativeMahalanobis
from openworld.baselines.ncm_forest import NCMForest
from openworld.baselines.nearest_neighbors import NearestNeighborDistance, OpenSetNearestNeighbor
from openworld.baselines.one_vs_set import OneVsSet
from openworld.baselines.online_linear import PassiveAggressive, Pegasos
from openworld.baselines.openmax import OpenMax
from openworld.baselines.pi_svm import PISVM
from openworld.baselines.streaming_lda import StreamingLDA
from openworld.baselines.w_svm import WSVM
from openworld.recognition import CrossClassValidation, MinOpenWorldError
from openworld.testing import contract_checks

ONE_FOLD = CrossClassValidation(MinOpenWorldError(), n_folds=1)  # the default has 3, which is slow for SVMs
BASELINES = [
    CosineExtremeValueMachine(),
    ExtremeValueMachine(),
    ExtremeValueMachine(cover_threshold=1.5),
    LabelTree(branching=3),
    LinearSVM(),
    Mahalanobis(),
    MaximumLogit(),
    MaximumProbability(),
    NCMForest(n_trees=6),
    NearestNeighborDistance(),
    NearestNeighborDistance(k=7),
    OneVsSet(),
    OpenMax(),
    OpenSetNearestNeighbor(),
    PISVM(threshold=ONE_FOLD),
    PassiveAggressive(),
    Pegasos(),
    RelativeMahalanobis(),
    StreamingLDA(),
    WSVM(threshold=ONE_FOLD),
]


@pytest.mark.parametrize("check", contract_checks(), ids=lambda check: check.__name__)
@pytest.mark.parametrize("baseline", BASELINES, ids=str)
def test_contract(baseline: Baseline, check: Any) -> None:
    check(baseline)
