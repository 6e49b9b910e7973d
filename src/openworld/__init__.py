"""openworld: open-world recognition.

It recognizes known classes, detects samples of unknown classes, and learns new classes incrementally. Public
names are imported on first use, so that `import openworld` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from openworld._version import __version__

if TYPE_CHECKING:
    from openworld.client import AsyncClient, Client, ServiceError
    from openworld.model_file import ModelFileError, load, save
    from openworld.recognition import (
        F1,
        AdaptiveMetric,
        AdjustableRecognizer,
        Calibration,
        ClassStatistics,
        CrossClassValidation,
        EditableRecognizer,
        EuclideanMetric,
        FalseAcceptRate,
        Judgement,
        KnownRecall,
        MinOpenWorldError,
        NCMMetric,
        NearestClassMean,
        NearestNonOutlier,
        OpenWorldError,
        OpenWorldRecognizer,
        Recognizer,
        SoftmaxThreshold,
    )

__all__ = [
    "F1",
    "AdaptiveMetric",
    "AdjustableRecognizer",
    "AsyncClient",
    "Calibration",
    "ClassStatistics",
    "Client",
    "CrossClassValidation",
    "EditableRecognizer",
    "EuclideanMetric",
    "FalseAcceptRate",
    "Judgement",
    "KnownRecall",
    "MinOpenWorldError",
    "ModelFileError",
    "NCMMetric",
    "NearestClassMean",
    "NearestNonOutlier",
    "OpenWorldError",
    "OpenWorldRecognizer",
    "Recognizer",
    "ServiceError",
    "SoftmaxThreshold",
    "__version__",
    "load",
    "save",
]

_PLACES = {
    **dict.fromkeys(("ModelFileError", "load", "save"), "openworld.model_file"),
    **dict.fromkeys(("AsyncClient", "Client", "ServiceError"), "openworld.client"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'openworld' has no attribute {name!r}")
    return getattr(import_module(_PLACES.get(name, "openworld.recognition")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
