"""The paper's Nearest Non-Outlier algorithm, its parts, and the default `OpenWorldRecognizer`.

Start with `nearest_non_outlier.py`, which has the complete algorithm. The metric W is in `metric/`, the
choice of tau in `threshold.py`, the class statistics in `class_statistics.py`, and `OpenWorldRecognizer` in
`adaptive/`.
"""

from openworld.recognition.adaptive.cold_start import ColdStartRecognizer
from openworld.recognition.adaptive.metric import AdaptiveMetric
from openworld.recognition.adaptive.near_copies import near_copies, usual_distance
from openworld.recognition.adaptive.recognizer import OpenWorldRecognizer
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.metric.ncm import EuclideanMetric, NCMMetric
from openworld.recognition.nearest_class_mean import NearestClassMean, SoftmaxThreshold
from openworld.recognition.nearest_non_outlier import NearestNonOutlier
from openworld.recognition.recognizer import (
    AdjustableRecognizer,
    EditableRecognizer,
    Judgement,
    Recognizer,
    is_adjustable,
)
from openworld.recognition.threshold import (
    F1,
    Calibration,
    CrossClassValidation,
    FalseAcceptRate,
    KnownRecall,
    MinOpenWorldError,
    OpenWorldError,
    best_threshold,
    parse_objective,
)

__all__ = [
    "F1",
    "AdaptiveMetric",
    "AdjustableRecognizer",
    "Calibration",
    "ClassStatistics",
    "ColdStartRecognizer",
    "CrossClassValidation",
    "EditableRecognizer",
    "EuclideanMetric",
    "FalseAcceptRate",
    "Judgement",
    "KnownRecall",
    "MinOpenWorldError",
    "NCMMetric",
    "NearestClassMean",
    "NearestNonOutlier",
    "OpenWorldError",
    "OpenWorldRecognizer",
    "Recognizer",
    "SoftmaxThreshold",
    "best_threshold",
    "is_adjustable",
    "near_copies",
    "parse_objective",
    "usual_distance",
]
