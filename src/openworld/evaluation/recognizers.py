"""All recognizers by name: ours, the paper's, and every baseline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from openworld.recognition import (
    CrossClassValidation,
    MinOpenWorldError,
    NearestClassMean,
    NearestNonOutlier,
    OpenWorldRecognizer,
    SoftmaxThreshold,
)

RECOGNIZERS: dict[str, Callable[[], Any]] = {
    "openworld": OpenWorldRecognizer,
    "NCM": NearestClassMean,
    "NNO": NearestNonOutlier,
    # NNO with the objective of the baselines below, for a fair comparison of open-world error.
    "NNO-eq9": lambda: NearestNonOutlier(tau=CrossClassValidation(MinOpenWorldError())),
    "NCM-STH": SoftmaxThreshold,
    "1-vs-Set": OneVsSet,
    "W-SVM": WSVM,
    "PI-SVM": PISVM,
    "linear-SVM": LinearSVM,
    "Pegasos": Pegasos,
    "passive-aggressive": PassiveAggressive,
    "label-tree": LabelTree,
    "NCM-forest": NCMForest,
    "EVM": ExtremeValueMachine,
    "EVM-cosine": CosineExtremeValueMachine,
    "OpenMax": OpenMax,
    "OSNN": OpenSetNearestNeighbor,
    "kNN-distance": NearestNeighborDistance,
    "Mahalanobis": Mahalanobis,
    "relative-Mahalanobis": RelativeMahalanobis,
    "streaming-LDA": StreamingLDA,
    "max-probability": MaximumProbability,
    "max-logit": MaximumLogit,
}
