"""NearestNonOutlier, NearestClassMean and SoftmaxThreshold: a metric, class means and perhaps tau."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from openworld.index import ApproximateIndex, Training
from openworld.model_file.packing import (
    Arrays,
    Document,
    ModelFileError,
    is_own_objective,
    pack_labels,
    pack_objective,
    plain_random_state,
    require,
    require_floats,
    require_number,
    require_training,
    unpack_labels,
    unpack_objective,
)
from openworld.model_file.transformers import describe_transformer, is_transformer, restore_transformer
from openworld.recognition import (
    Calibration,
    ClassStatistics,
    CrossClassValidation,
    EuclideanMetric,
    NCMMetric,
)
from openworld.recognition.class_means import ClassMeans

_METRICS = {kind.__name__: kind for kind in (NCMMetric, EuclideanMetric)}
_METRIC_CURVES = (
    "loss_curve_",
    "held_out_loss_curve_",
    "steps_curve_",
    "seconds_curve_",
    "n_iter_",
    "seconds_",
)


def describe(model: Any, exact: bool) -> tuple[Document, Arrays]:
    """Return what is particular to a recognizer by class means, which is always exact."""
    metric, metric_arrays = _describe_metric(model.metric_)
    document: Document = {
        "parameters": {},
        "metric_given": None if model.metric is None else _describe_estimator(model.metric),
        "metric": metric,
        "index_trained": isinstance(model.class_means_.index, ApproximateIndex),
    }
    if hasattr(model, "tau_"):
        document["parameters"]["tau"] = _describe_tau(model.tau)
        document["tau"] = model.tau_
        document["calibration"] = None if model.calibration_ is None else asdict(model.calibration_)
    arrays = {
        "sums": model.statistics_.sums.reshape(len(model.statistics_), model.n_features_in_),
        "projected_means": model.class_means_.index.means,
        "index.origin": model.class_means_.index.origin,
        **metric_arrays,
    }
    if "index" in model.get_params(deep=False):
        document["parameters"]["index"] = model.index
    if document["index_trained"]:
        centroids, lists = model.class_means_.index.training
        arrays |= {"index.centroids": centroids, "index.lists": lists}
    return document, arrays


def _describe_metric(metric: Any) -> tuple[Document, Arrays]:
    document = _describe_estimator(metric)
    if is_transformer(document):
        return describe_transformer(metric, "metric")
    arrays = {"metric.mean": metric.mean_, "metric.scale": metric.scale_, "metric.W": metric.W_}
    if isinstance(metric, NCMMetric):
        arrays["metric.biases"] = metric.biases_
        document["classes"] = pack_labels(metric.classes_.tolist())
        document["curves"] = {name: getattr(metric, name) for name in _METRIC_CURVES}
    return document, arrays


def _describe_estimator(metric: Any) -> Document:
    name = type(metric).__name__
    if _METRICS.get(name) is not type(metric):
        return describe_transformer(metric, "metric_given")[0]
    parameters = {key: value for key, value in metric.get_params().items() if key != "callback"}
    return {"type": name, "parameters": plain_random_state(parameters)}


def _describe_tau(tau: Any) -> Any:
    if tau is None or not hasattr(tau, "held_out"):
        return None if tau is None else float(tau)
    if type(tau) is not CrossClassValidation or is_own_objective(tau.objective):
        raise ModelFileError("Cannot save a calibration of your own making; set tau to a number to save.")
    return {**plain_random_state(tau.get_params()), "objective": pack_objective(tau.objective)}


def restore(kind: Any, document: Document, arrays: Arrays, labels: list[Any]) -> Any:
    """Return a recognizer by class means; `labels` and the counts were checked before."""
    parameters, given = document["parameters"], document["metric_given"]
    if "tau" in parameters:
        parameters["tau"] = _restore_tau(parameters["tau"])
    n_features = document["n_features"]
    metric = _restore_metric(document["metric"], arrays, n_features)
    if given is not None:
        given = clone(metric) if is_transformer(given) else _restore_estimator(given)
    model = kind(metric=given, **parameters)
    sums = require_floats(arrays["sums"], (len(labels), n_features), "sums")
    projected = arrays["projected_means"]
    require_floats(projected, (len(labels), _n_dimensions(metric, n_features)), "projected means")
    if hasattr(kind, "tau_"):
        model.tau_ = require_number(document["tau"], "tau")
        model.calibration_ = _restore_calibration(document["calibration"])
    statistics = ClassStatistics.restore(labels, arrays["counts"], sums)
    origin, training = _restore_index(document, arrays, projected.shape)
    model.class_means_ = ClassMeans(metric, statistics, model.index, origin, projected, training)
    return model


def _restore_index(
    document: Document, arrays: Arrays, shape: tuple[int, ...]
) -> tuple[NDArray[np.float64] | None, Training | None]:
    """Return origin and training of the index; files written before these were kept have none."""
    n_classes, m = shape
    trained = document.get("index_trained")
    if trained is None:
        return None, None
    origin = require_floats(arrays["index.origin"], (m,), "index")
    if not trained:
        return origin, None
    return origin, require_training(arrays, n_classes, m)


def _n_dimensions(metric: Any, n_features: int) -> int:
    """Return how many values the metric makes of a sample."""
    return int(np.asarray(metric.transform(np.zeros((1, n_features)))).shape[1])


def _restore_metric(document: Document, arrays: Arrays, n_features: int) -> Any:
    if is_transformer(document):
        return restore_transformer(document, arrays, "metric")
    metric = _restore_estimator(document)
    mean, scale, W = arrays["metric.mean"], arrays["metric.scale"], arrays["metric.W"]
    require_floats(mean, (n_features,), "metric")
    require_floats(scale, (n_features,), "metric")
    require_floats(W, (n_features, W.shape[-1]), "metric")
    require(bool(np.all(scale > 0)), "metric")
    metric.n_features_in_ = n_features
    metric.set_fitted(mean, scale, W)
    if isinstance(metric, NCMMetric):
        metric.classes_ = np.array(unpack_labels(document["classes"]))
        metric.biases_ = require_floats(arrays["metric.biases"], (len(metric.classes_),), "metric")
        for name in _METRIC_CURVES:
            setattr(metric, name, document["curves"][name])
    return metric


def _restore_estimator(document: Mapping[str, Any]) -> Any:
    return _METRICS[document["type"]](**document["parameters"])


def _restore_tau(tau: Any) -> Any:
    if not isinstance(tau, dict):
        return None if tau is None else require_number(tau, "tau")
    return CrossClassValidation(**{**tau, "objective": unpack_objective(tau["objective"])})


def _restore_calibration(calibration: Document | None) -> Calibration | None:
    if calibration is None:
        return None
    tau = require_number(calibration.pop("tau"), "calibration")
    curves = {
        name: tuple(require_number(value, "calibration") for value in values)
        for name, values in calibration.items()
    }
    return Calibration(tau, **curves)
