"""Samples as the model sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.service.world import World

Features = NDArray[np.floating[Any]]


def in_metric(world: World, X: Features) -> Features:
    """Map samples to the space where the model in force takes distances."""
    with world._scribe.living.reading() as (model, _):
        return np.asarray(model.metric_.transform(X))
