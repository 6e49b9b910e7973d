"""All recognizers by name: ours, the paper's, every baseline, and your own as `package.module:Class`."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from openworld._version import __version__
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


_NEEDED = ("fit", "partial_fit", "predict", "decision_function")


def make_recognizer(name: str) -> Any:
    """Return a new recognizer.

    Parameters
    ----------
    name : str
        A key of `RECOGNIZERS`, or `package.module:Class` for your own: a class, or a function, that makes a
        recognizer without arguments. `openworld.testing.check_recognizer` checks what it must keep.
    """
    if name in RECOGNIZERS:
        return RECOGNIZERS[name]()
    try:
        recognizer = _own(name)()
    except TypeError as error:
        raise ValueError(f"cannot make the recognizer {name!r} without arguments ({error}).") from error
    missing = [method for method in _NEEDED if not hasattr(recognizer, method)]
    if missing:
        raise ValueError(f"the recognizer {name!r} has no {', '.join(missing)}.")
    return recognizer


def check_names(names: Iterable[str]) -> None:
    """Refuse a name that makes no recognizer, before anything is run."""
    for name in names:
        if name not in RECOGNIZERS:
            make_recognizer(name)


def code_version(name: str) -> str:
    """Return what identifies a recognizer's code: the version of openworld, or a hash of your own module."""
    if name in RECOGNIZERS:
        return __version__
    source = Path(inspect.getfile(import_module(name.partition(":")[0]))).read_bytes()
    return f"{__version__}-{hashlib.sha256(source).hexdigest()[:12]}"


def _own(name: str) -> Callable[[], Any]:
    """Import what `package.module:Class` names."""
    module, _, attribute = name.partition(":")
    if not attribute:
        raise ValueError(
            f"no recognizer {name!r}; there are {', '.join(RECOGNIZERS)}, "
            "or your own as package.module:Class."
        )
    try:
        found = getattr(import_module(module), attribute)
    except ImportError as error:
        raise ValueError(
            f"cannot import {module!r} for the recognizer {name!r} ({error}). Modules are looked for in the "
            "current folder and on PYTHONPATH."
        ) from error
    except AttributeError:
        raise ValueError(f"the module {module!r} has no {attribute!r} for a recognizer.") from None
    if not callable(found):
        raise ValueError(f"{name!r} is not a class or function that makes a recognizer.")
    return found  # type: ignore[no-any-return]
