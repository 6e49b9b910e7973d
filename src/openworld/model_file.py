"""Model files: safetensors for the arrays, JSON for the rest. Nothing in them is ever executed.

A file holds the arrays of the model and, in the safetensors header, two texts: `openworld`, a JSON
document with the format version and all that is not an array, and `sha256`, the digest of both.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from openworld._version import __version__
from openworld.recognition import (
    F1,
    Calibration,
    ClassStatistics,
    CrossClassValidation,
    EuclideanMetric,
    FalseAcceptRate,
    KnownRecall,
    NCMMetric,
    NearestClassMean,
    NearestNonOutlier,
    SoftmaxThreshold,
)
from openworld.recognition.labels import as_array, check_unknown_label, label_kind
from openworld.recognition.thresholded import ThresholdMixin

FORMAT_VERSION = 1

Arrays = dict[str, NDArray[Any]]
Document = dict[str, Any]

_RECOGNIZERS = {kind.__name__: kind for kind in (NearestNonOutlier, NearestClassMean, SoftmaxThreshold)}
_METRICS = {kind.__name__: kind for kind in (NCMMetric, EuclideanMetric)}
_OBJECTIVES = {kind.__name__: kind for kind in (F1, FalseAcceptRate, KnownRecall)}
_METRIC_CURVES = (
    "loss_curve_",
    "held_out_loss_curve_",
    "steps_curve_",
    "seconds_curve_",
    "n_iter_",
    "seconds_",
)


# What reading nonsense can raise: no such key or row, a wrong type or value, too large, too deeply nested.
_UNSOUND = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError)


class ModelFileError(ValueError):
    """A model cannot be written, or a file is not a sound model file."""


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted recognizer to a file, all or nothing.

    The file is written beside its place, flushed to disk and then moved there, so a crash leaves
    either the old file or the new one.

    Parameters
    ----------
    model : NearestNonOutlier, NearestClassMean or SoftmaxThreshold
    path : path
        The customary ending is `.ow`.
    """
    document, arrays = _describe(model)
    text = _as_text(document)
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    try:
        save_file(arrays, temporary, metadata={"openworld": text, "sha256": _digest(text, arrays)})
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _flush_folder(target.parent)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a recognizer that predicts to the last bit as the saved one did.

    Raises
    ------
    ModelFileError
        If the file is truncated, altered, of another kind, or written by a newer openworld.
    FileNotFoundError
        If there is no such file.
    """
    _refuse_folder(path)
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            if not {"openworld", "sha256"} <= set(metadata):
                raise ModelFileError(f"{path} is a safetensors file, but not an openworld model.")
            text = metadata["openworld"]
            document = json.loads(text)
            version = document["format_version"]
            if version != FORMAT_VERSION:
                raise ModelFileError(
                    f"{path} has format {version}; this openworld ({__version__}) reads format "
                    f"{FORMAT_VERSION}. Update openworld."
                )
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 -- not a dict
        if _digest(text, arrays) != metadata["sha256"]:
            raise ModelFileError(f"{path} was altered after it was written: its checksum does not fit.")
        return _restore(document, arrays)
    except ModelFileError:
        raise
    except SafetensorError as error:
        raise ModelFileError(f"{path} is not an openworld model file, or it is damaged ({error}).") from error
    except _UNSOUND as error:
        raise ModelFileError(f"{path} does not describe a sound model ({error!r}).") from error


def read_description(path: str | os.PathLike[str]) -> Document:
    """Read the JSON document of a model file without its arrays and without checking them."""
    _refuse_folder(path)
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            document = json.loads((file.metadata() or {})["openworld"])
            _require(isinstance(document, dict), "parts")
            return dict(document)
    except (SafetensorError, *_UNSOUND) as error:
        raise ModelFileError(f"{path} is not an openworld model file, or it is damaged.") from error


def _refuse_folder(path: str | os.PathLike[str]) -> None:
    if os.path.isdir(path):
        raise ModelFileError(f"{path} is a folder, not a model file.")


# -- from model to document and arrays ----------------------------------------------------------------


def _describe(model: Any) -> tuple[Document, Arrays]:
    name = type(model).__name__
    if _RECOGNIZERS.get(name) is not type(model):
        raise ModelFileError(f"Cannot save a {name}; these can be saved: {', '.join(_RECOGNIZERS)}.")
    if not hasattr(model, "statistics_"):
        raise ModelFileError(f"This {name} is not fitted yet: there is nothing to save.")
    metric, metric_arrays = _describe_metric(model.metric_)
    statistics = model.statistics_
    document: Document = {
        "format_version": FORMAT_VERSION,
        "openworld_version": __version__,
        "recognizer": name,
        "parameters": {"unknown_label": _pack_labels([model.unknown_label])},
        "classes": _pack_labels(statistics.labels),
        "unknown_label": _pack_labels([model.unknown_label_]),
        "n_features": model.n_features_in_,
        "feature_names": list(map(str, getattr(model, "feature_names_in_", []))) or None,
        "metric_given": None if model.metric is None else _describe_estimator(model.metric),
        "metric": metric,
    }
    if hasattr(model, "tau_"):
        document["parameters"]["tau"] = _describe_tau(model.tau)
        document["tau"] = model.tau_
        document["calibration"] = None if model.calibration_ is None else asdict(model.calibration_)
    arrays = {
        "counts": statistics.counts,
        "sums": statistics.sums.reshape(len(statistics), model.n_features_in_),
        "projected_means": model._projected.rows,
        **metric_arrays,
    }
    return document, {key: np.ascontiguousarray(array) for key, array in arrays.items()}


def _as_text(document: Document) -> str:
    """Write the document as plain ASCII, so that any label can be stored."""
    try:
        return json.dumps(document, allow_nan=False, sort_keys=True, default=_plain_number)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"The model holds something that has no place in a file: {error}.") from error


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is neither a number nor a text")


def _describe_metric(metric: Any) -> tuple[Document, Arrays]:
    document = _describe_estimator(metric)
    arrays = {"metric.mean": metric.mean_, "metric.scale": metric.scale_, "metric.W": metric.W_}
    if isinstance(metric, NCMMetric):
        arrays["metric.biases"] = metric.biases_
        document["classes"] = _pack_labels(metric.classes_.tolist())
        document["curves"] = {name: getattr(metric, name) for name in _METRIC_CURVES}
    return document, arrays


def _describe_estimator(metric: Any) -> Document:
    name = type(metric).__name__
    if _METRICS.get(name) is not type(metric):
        raise ModelFileError(
            f"Cannot save a model with a metric of type {name}; these can be saved: {', '.join(_METRICS)}."
        )
    parameters = {key: value for key, value in metric.get_params().items() if key != "callback"}
    return {"type": name, "parameters": _plain_random_state(parameters)}


def _describe_tau(tau: Any) -> Any:
    if tau is None or not hasattr(tau, "held_out"):
        return None if tau is None else float(tau)
    objective = tau.objective
    foreign = _OBJECTIVES.get(type(objective).__name__) is not type(objective)
    if foreign or type(tau) is not CrossClassValidation:
        raise ModelFileError("Cannot save a calibration of your own making; set tau to a number to save.")
    parameters = _plain_random_state(tau.get_params())
    return {**parameters, "objective": {"type": type(objective).__name__, **asdict(objective)}}


def _plain_random_state(parameters: Document) -> Document:
    """Replace a random generator, which has no place in a file, by None; a seed stays."""
    if "random_state" not in parameters:
        return parameters
    seed = parameters["random_state"]
    return {**parameters, "random_state": int(seed) if isinstance(seed, int | np.integer) else None}


def _pack_labels(labels: list[Any]) -> Document | None:
    if labels == [None]:
        return None
    kind = label_kind(labels)
    values = [label.decode("latin-1") for label in labels] if kind == "bytes" else labels
    return {
        "kind": kind,
        "values": [value.item() if isinstance(value, np.generic) else value for value in values],
    }


# -- and back -----------------------------------------------------------------------------------------


def _restore(document: Document, arrays: Arrays) -> Any:
    kind = _RECOGNIZERS[document["recognizer"]]
    parameters = dict(document["parameters"])
    parameters["unknown_label"] = _unpack_label(parameters["unknown_label"])
    if "tau" in parameters:
        parameters["tau"] = _restore_tau(parameters["tau"])
    given = document["metric_given"]
    model = kind(metric=None if given is None else _restore_estimator(given), **parameters)
    labels, counts, sums = _unpack_labels(document["classes"]), arrays["counts"], arrays["sums"]
    model.n_features_in_ = int(document["n_features"])
    names = document["feature_names"]
    if names is not None:
        _require(isinstance(names, list) and len(names) == model.n_features_in_, "feature names")
        model.feature_names_in_ = np.array(list(map(str, names)), dtype=object)
    metric = _restore_metric(document["metric"], arrays, model.n_features_in_)
    _require(len(set(labels)) == len(labels), "classes")
    _require_floats(counts, (len(labels),), "counts")
    _require(bool(np.all(counts > 0)), "counts")
    _require_floats(sums, (len(labels), model.n_features_in_), "sums")
    _require_floats(arrays["projected_means"], (len(labels), metric.W_.shape[1]), "projected means")
    model.unknown_label_ = _unpack_label(document["unknown_label"])
    check_unknown_label(model.unknown_label_, as_array(labels or [model.unknown_label_])[: len(labels)])
    if isinstance(model, ThresholdMixin):
        model.tau_ = document["tau"]
        model.calibration_ = _restore_calibration(document["calibration"])
    model._restore(metric, ClassStatistics.restore(labels, counts, sums), arrays["projected_means"])
    return model


def _require(sound: bool, what: str) -> None:
    if not sound:
        raise ValueError(f"the {what} of the model do not fit together")


def _require_floats(array: NDArray[Any], shape: tuple[int, ...], what: str) -> None:
    _require(array.dtype == np.float64 and array.shape == shape and bool(np.all(np.isfinite(array))), what)


def _restore_metric(document: Document, arrays: Arrays, n_features: int) -> Any:
    metric = _restore_estimator(document)
    mean, scale, W = arrays["metric.mean"], arrays["metric.scale"], arrays["metric.W"]
    _require_floats(mean, (n_features,), "metric")
    _require_floats(scale, (n_features,), "metric")
    _require_floats(W, (n_features, W.shape[-1]), "metric")
    _require(bool(np.all(scale > 0)), "metric")
    metric.n_features_in_ = n_features
    metric._set_metric(mean, scale, W)
    if isinstance(metric, NCMMetric):
        metric.classes_ = np.array(_unpack_labels(document["classes"]))
        metric.biases_ = arrays["metric.biases"]
        _require_floats(metric.biases_, (len(metric.classes_),), "metric")
        for name in _METRIC_CURVES:
            setattr(metric, name, document["curves"][name])
    return metric


def _restore_estimator(document: Mapping[str, Any]) -> Any:
    return _METRICS[document["type"]](**document["parameters"])


def _restore_tau(tau: Any) -> Any:
    if not isinstance(tau, dict):
        return tau
    objective = dict(tau["objective"])
    return CrossClassValidation(**{**tau, "objective": _OBJECTIVES[objective.pop("type")](**objective)})


def _restore_calibration(calibration: Document | None) -> Calibration | None:
    if calibration is None:
        return None
    tau = float(calibration.pop("tau"))
    return Calibration(tau, **{name: tuple(map(float, values)) for name, values in calibration.items()})


def _unpack_labels(packed: Document) -> list[Any]:
    values: list[Any] = packed["values"]
    _require(isinstance(values, list), "labels")
    if packed["kind"] == "bytes":
        return [value.encode("latin-1") for value in values]
    _require(not values or label_kind(values) == packed["kind"], "labels")
    return values


def _unpack_label(packed: Document | None) -> Any:
    return None if packed is None else _unpack_labels(packed)[0]


# -- integrity ----------------------------------------------------------------------------------------


def _digest(text: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data.cast("B") if array.size else b"")
    return digest.hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _flush_folder(folder: Path) -> None:
    """Make the move itself durable, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
