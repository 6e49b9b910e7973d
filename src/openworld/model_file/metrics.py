"""AdaptiveMetric: the representation, and the whitening where it does not follow from the statistics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from openworld.model_file.packing import (
    Arrays,
    Document,
    pack_triangle,
    plain_random_state,
    require,
    require_floats,
    require_number,
    require_whole,
    unpack_triangle,
)
from openworld.model_file.transformers import describe_transformer, restore_transformer
from openworld.recognition import AdaptiveMetric, ClassStatistics
from openworld.recognition.adaptive.metric import Whitening
from openworld.recognition.adaptive.representation import Representation

# Bounds of what learning can make, so that no product overflows later: of a sample, of its representation (a
# direction, a lifted one, or a million deviations), and of the metric's map and all that it has mapped.
SAMPLE = float(np.finfo(np.float32).max)
REPRESENTED = 1e9
MAPPED = 1e18
_PREPROCESSING = "preprocessing"  # with which the names of its arrays begin


def describe_metric(
    metric: AdaptiveMetric, statistics: ClassStatistics, exact: bool
) -> tuple[Document, Arrays]:
    """Return the document and the arrays; unless exact, without what follows from the others."""
    representation, whitening = metric.representation_, metric.whitening_
    document = {
        "type": "AdaptiveMetric",
        "standardize": representation.mean is not None,
        "n_lifted": representation.n_lifted,
        **plain_random_state({"random_state": representation.seed}),
        "length": representation.length,
        "directions": representation.directions,
        "power": metric.power,
        "shrinkage": whitening.shrinkage,
        "per_sample": whitening.per_sample,
    }
    arrays: Arrays = {"metric.centre": whitening.center}
    if representation.axes is not None:
        arrays["metric.axes"] = representation.axes.astype(np.float16)
    if representation.n_lifted and (exact or not representation.rows_follow):
        rows, short = representation.rows, representation.rows.astype(np.float16)
        arrays["metric.rows"] = short if np.array_equal(short, rows) else rows
    if representation.preprocessing is not None:
        described, found = describe_transformer(representation.preprocessing, _PREPROCESSING)
        document |= {"n_features": representation.n_features, "preprocessing": described}
        arrays |= found
    if representation.mean is not None and representation.scale is not None:
        arrays |= {"metric.mean": representation.mean, "metric.scale": representation.scale}
    if exact or not _map_follows(metric, statistics):
        arrays["metric.map"] = pack_triangle(whitening.map.T, np.float32)
    return document, arrays


def _map_follows(metric: AdaptiveMetric, statistics: ClassStatistics) -> bool:
    """Return whether the map of the metric is that of the statistics, and not one from before a change."""
    if not len(statistics):
        return False
    return np.array_equal(Whitening.of(statistics, metric.power).map, metric.whitening_.map)


def restore_metric(document: Document, arrays: Arrays, n_features_in: int) -> AdaptiveMetric:
    """Return the metric, without statistics and whitening yet."""
    preprocessing, n_features = None, n_features_in
    if "preprocessing" in document:
        preprocessing = restore_transformer(document["preprocessing"], arrays, _PREPROCESSING)
        n_features = require_whole(document["n_features"], "metric", 1)
    require(document["type"] == "AdaptiveMetric" and isinstance(document["standardize"], bool), "metric")
    standardize, n_lifted = document["standardize"], require_whole(document["n_lifted"], "metric")
    seed, mean, scale = document["random_state"], None, None
    if seed is not None:
        require_whole(seed, "metric")
    if standardize:
        mean = require_floats(arrays["metric.mean"], (n_features,), "metric", most=SAMPLE)
        scale = require_floats(arrays["metric.scale"], (n_features,), "metric")
        require(bool(np.all(scale > 0)), "metric")
    length = require_number(document["length"], "metric", np.finfo(np.float64).tiny)
    directions = document.get("directions", True)  # this and what has a default below: not in format 1
    require(directions is True or (directions is False and standardize), "metric")
    representation = Representation(n_features, n_lifted, seed, mean, scale, length, directions)
    if n_lifted:
        representation = _restore_lift(representation, arrays)
    power = require_number(document.get("power", 1.0), "metric", 0)
    metric = AdaptiveMetric(
        standardize=standardize, n_lifted=n_lifted, random_state=seed, directions=directions, power=power
    )
    if preprocessing is not None:
        representation = representation.after(preprocessing)
    metric.n_features_in_, metric.representation_ = n_features_in, representation
    return metric


def _restore_lift(representation: Representation, arrays: Arrays) -> Representation:
    """Return the map with the rows of its lift: those of the file, or drawn again."""
    n_lifted = representation.n_lifted
    n_directions = representation.n_features + (representation.mean is not None)
    if "metric.axes" in arrays:
        axes = arrays["metric.axes"]
        require_floats(axes, (n_directions, axes.shape[-1]), "metric", np.float16)
        representation = replace(representation, axes=axes.astype(np.float32))
    if "metric.rows" in arrays:
        rows = arrays["metric.rows"]
        require(rows.dtype in (np.float16, np.float32), "metric")
        most = REPRESENTED / (representation.n_features + 1)
        require_floats(rows, (n_directions, n_lifted), "metric", rows.dtype, most)
        return representation.with_rows(rows.astype(np.float32))
    require(representation.draws_alike and arrays["metric.centre"].shape == (n_lifted,), "metric")
    require(bool(np.all(np.isfinite(representation.rows))), "metric")
    return representation


def restore_whitening(document: Document, arrays: Arrays, metric: AdaptiveMetric) -> Whitening:
    """Return the whitening of a metric that has its statistics: read, or computed from them."""
    n_dimensions = metric.representation_.n_dimensions
    stored = arrays.get("metric.map")
    if stored is None:
        require(len(metric.statistics_) > 0, "metric")
        whitening_map = Whitening.of(metric.statistics_, metric.power).map
    elif stored.ndim == 2:  # up to format 2
        shape = (n_dimensions, n_dimensions)
        whitening_map = require_floats(stored, shape, "metric", np.float32, MAPPED)
    else:
        require(stored.dtype == np.float32, "metric")
        whitening_map = np.ascontiguousarray(unpack_triangle(stored, n_dimensions, "metric", MAPPED).T)
    return Whitening(
        require_floats(arrays["metric.centre"], (n_dimensions,), "metric", np.float32, REPRESENTED),
        whitening_map,
        require_number(document["shrinkage"], "metric", 0),
        require_number(document.get("per_sample", 0.0), "metric", 0),
    )
