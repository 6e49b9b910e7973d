"""The paper: nearest class means in a learnt metric, the Nearest Non-Outlier rule, tau, new classes.

Start with `nearest_non_outlier.py`; `metric_learning.py` has W, `threshold.py` has tau, and
`class_statistics.py` has what is learnt about the classes.
"""

from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.metric_learning import EuclideanMetric, NCMMetric
from openworld.recognition.nearest_class_mean import NearestClassMean, SoftmaxThreshold
from openworld.recognition.nearest_non_outlier import NearestNonOutlier
from openworld.recognition.threshold import (
    F1,
    Calibration,
    CrossClassValidation,
    FalseAcceptRate,
    KnownRecall,
    best_threshold,
)

__all__ = [
    "F1",
    "Calibration",
    "ClassStatistics",
    "CrossClassValidation",
    "EuclideanMetric",
    "FalseAcceptRate",
    "KnownRecall",
    "NCMMetric",
    "NearestClassMean",
    "NearestNonOutlier",
    "SoftmaxThreshold",
    "best_threshold",
]
