"""The paper's theory: abating models (Theorems 1 and 2) and open space risk (Eq. 3 to 5).

Nothing else in the package imports it. Use it to check recognizers against the theory.
"""

from openworld.theory.abating import Cone, Gaussian, ReversedWeibull, Thresholded, zero_risk_threshold
from openworld.theory.combinations import LinearlyMapped, Maximum, Product, WeightedSum
from openworld.theory.open_space import OpenSetRisk, OpenSpaceRisk, open_set_risk, open_space_risk
from openworld.theory.sampling import OpenSpace, Sampling

__all__ = [
    "Cone",
    "Gaussian",
    "LinearlyMapped",
    "Maximum",
    "OpenSetRisk",
    "OpenSpace",
    "OpenSpaceRisk",
    "Product",
    "ReversedWeibull",
    "Sampling",
    "Thresholded",
    "WeightedSum",
    "open_set_risk",
    "open_space_risk",
    "zero_risk_threshold",
]
