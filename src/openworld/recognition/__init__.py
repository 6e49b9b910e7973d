"""The paper: nearest class means in a learnt metric, the Nearest Non-Outlier rule, tau, new classes.

Start with `nearest_non_outlier.py`; `metric_learning.py` has W, `threshold.py` has tau, and
`class_statistics.py` has what is learnt about the classes.
"""

from openworld.recognition.abating import (
    Cone,
    Gaussian,
    LinearlyMapped,
    Maximum,
    Product,
    ReversedWeibull,
    Thresholded,
    WeightedSum,
    zero_risk_threshold,
)
from openworld.recognition.adaptive_metric import AdaptiveMetric
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.metric_learning import EuclideanMetric, NCMMetric
from openworld.recognition.nearest_class_mean import NearestClassMean, SoftmaxThreshold
from openworld.recognition.nearest_non_outlier import NearestNonOutlier
from openworld.recognition.open_space import (
    OpenSetRisk,
    OpenSpace,
    OpenSpaceRisk,
    Sampling,
    open_set_risk,
    open_space_risk,
)
from openworld.recognition.open_world_recognizer import OpenWorldRecognizer
from openworld.recognition.recognizer import EditableRecognizer, Judgement, Recognizer
from openworld.recognition.threshold import (
    F1,
    Calibration,
    CrossClassValidation,
    FalseAcceptRate,
    KnownRecall,
    MinOpenWorldError,
    OpenWorldError,
    best_threshold,
)

__all__ = [
    "F1",
    "AdaptiveMetric",
    "Calibration",
    "ClassStatistics",
    "Cone",
    "CrossClassValidation",
    "EditableRecognizer",
    "EuclideanMetric",
    "FalseAcceptRate",
    "Gaussian",
    "Judgement",
    "KnownRecall",
    "LinearlyMapped",
    "Maximum",
    "MinOpenWorldError",
    "NCMMetric",
    "NearestClassMean",
    "NearestNonOutlier",
    "OpenSetRisk",
    "OpenSpace",
    "OpenSpaceRisk",
    "OpenWorldError",
    "OpenWorldRecognizer",
    "Product",
    "Recognizer",
    "ReversedWeibull",
    "Sampling",
    "SoftmaxThreshold",
    "Thresholded",
    "WeightedSum",
    "best_threshold",
    "open_set_risk",
    "open_space_risk",
    "zero_risk_threshold",
]
