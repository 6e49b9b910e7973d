"""The recognizers that experiments know by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openworld.recognition import NearestClassMean, NearestNonOutlier, OpenWorldRecognizer, SoftmaxThreshold

RECOGNIZERS: dict[str, Callable[[], Any]] = {
    "NCM": NearestClassMean,
    "NNO": NearestNonOutlier,
    "NCM-STH": SoftmaxThreshold,
    "openworld": OpenWorldRecognizer,
}
