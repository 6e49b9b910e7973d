"""OpenWorldRecognizer: representation, statistics, reservoir, and all that predictions read.

What is drawn at random is stored, not drawn again: numpy promises the stream of a seed for one version only.
What BLAS computes is stored too, as the last bit of a product of matrices differs from machine to machine.
Only a file that need not be exact leaves out the map of the metric, where it follows from the scatter, and
the rows of the lift of many features, which follow from random bits: numpy promises those for ever.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from openworld.index.growing_rows import GrowingRows
from openworld.model_file.metrics import (
    MAPPED,
    REPRESENTED,
    SAMPLE,
    describe_metric,
    restore_metric,
    restore_whitening,
)
from openworld.model_file.packing import (
    Arrays,
    Document,
    ModelFileError,
    is_own_objective,
    pack_groups,
    pack_objective,
    pack_triangle,
    pack_zeros,
    plain_random_state,
    require,
    require_floats,
    require_number,
    require_training,
    require_whole,
    unpack_groups,
    unpack_objective,
    unpack_triangle,
    unpack_zeros,
)
from openworld.recognition import AdaptiveMetric, ClassStatistics, ColdStartRecognizer, OpenWorldRecognizer
from openworld.recognition.adaptive.cold_start import FEWEST_CLASSES, StartingMemory
from openworld.recognition.adaptive.memory import ClassMemory
from openworld.recognition.adaptive.reservoir import Reservoir
from openworld.recognition.adaptive.score import ScoreCalibration
from openworld.recognition.adaptive.scoring import ScoringModel, by_row, sorted_classes
from openworld.recognition.adaptive.scoring_index import ScoreIndex
from openworld.recognition.adaptive.training import TrainingBatch
from openworld.recognition.class_sums import PooledScatter

# Arrays of the state with one value for each class, in the order of the sorted labels.
SORTED_BY_LABEL = ("rows", "penalties", "factors", "radii")


def describe(model: OpenWorldRecognizer, exact: bool) -> tuple[Document, Arrays]:
    """Return what is particular to this recognizer, brought up to date where it can predict.

    Unless it is to be exact, the scatter is rounded to float32 and the map left out where it follows from it.
    """
    if is_own_objective(model.objective):
        raise ModelFileError("Cannot save an objective of your own making; set one of openworld's to save.")
    parameters = plain_random_state(model.get_params(deep=False))
    given = parameters.pop("metric")
    preprocessing = parameters.pop("preprocessing")  # the metric has it, fitted
    if given is not None:
        parameters["metric"] = plain_random_state(given.get_params())
    try:
        _check_parameters(parameters)
    except ValueError as error:
        raise ModelFileError(f"Cannot save this model: {error}.") from error
    parameters["objective"] = pack_objective(model.objective)
    labels, kept = model.statistics_.labels, _describe_kept(model)
    if isinstance(model.memory_, StartingMemory):
        if preprocessing is not None:
            raise ModelFileError("Preprocessing can be saved once it is fitted, with the second class.")
        return {"parameters": parameters, "state": None}, {"starting": model.memory_.batch().samples, **kept}
    state = model.state()
    metric, metric_arrays = describe_metric(model.metric_, model.statistics_, exact)
    lengths = model.memory_.lengths
    samples, codes = model.reservoir_.samples(np.array(labels, dtype=object), sys.maxsize)
    document: Document = {
        "parameters": parameters,
        "metric": metric,
        "reservoir": {
            "size": model.reservoir_.size,
            "total": model.reservoir_.total,
            "dtype": model.reservoir_.dtype.name,
            "samples_of_class": np.bincount(codes, minlength=len(labels)).tolist(),
        },
        "state": state and {"n_samples": state[0], **_describe_calibration(state[1].calibration)},
    }
    arrays = {**metric_arrays, **kept, **pack_zeros("reservoir", samples.reshape(-1, model.n_features_in_))}
    if labels:  # a model that knows no class yet has no statistics
        rows = [lengths.row(label) for label in labels]
        arrays["sums"] = model.statistics_.sums
        arrays |= _describe_scatter(model.statistics_, exact)
        arrays["length_sums"] = lengths.sums[rows, 0]
        arrays["length_scatter"] = np.array([lengths.class_scatter(label)[0, 0] for label in labels])
    if state is not None:
        scoring = state[1]
        arrays |= {name: getattr(scoring, name) for name in SORTED_BY_LABEL}
        arrays["vectors"] = scoring.vectors.rows
        if scoring.index is not None:
            centroids, lists = scoring.index.training
            arrays |= {"index.centroids": centroids, "index.lists": lists}
    return document, arrays


def _describe_kept(model: OpenWorldRecognizer) -> Arrays:
    """Return the samples of no class, and the hashes of the groups of the others, where there are some."""
    unknowns = model.memory_.kept_unknowns()
    labels = np.array(model.statistics_.labels, dtype=object)
    groups = pack_groups(model.reservoir_.groups(labels), model.reservoir_.times(labels))
    return groups | ({"unknowns": unknowns} if len(unknowns) else {})


def _describe_calibration(calibration: ScoreCalibration) -> Document:
    return {
        name: None if isinstance(value, float) and np.isnan(value) else value
        for name, value in asdict(calibration).items()
    }


def _describe_scatter(statistics: ClassStatistics, exact: bool) -> Arrays:
    """Return the arrays of the scatter; an exact file keeps apart what a later change adds up."""
    scatter = statistics.pooled
    assert scatter is not None
    if not exact or not len(scatter.rows):
        return {"scatter": pack_triangle(scatter.total, np.float64 if exact else np.float32)}
    matrix = np.zeros((scatter.rows.shape[1],) * 2) if scatter.matrix is None else scatter.matrix
    return {"scatter": pack_triangle(matrix, np.float64), "scatter_rows": scatter.rows}


def restore(kind: Any, document: Document, arrays: Arrays, labels: list[Any]) -> Any:
    """Return the recognizer; `labels` and the counts were checked before."""
    parameters = {**document["parameters"]}
    parameters["objective"] = unpack_objective(parameters["objective"])
    _check_parameters(parameters)
    if "metric" in parameters:
        parameters["metric"] = AdaptiveMetric(**parameters["metric"])
    model: OpenWorldRecognizer = kind(**parameters)
    counts, n_features = arrays["counts"], document["n_features"]
    if "starting" in arrays:
        starting = _restore_starting(model, arrays, labels, counts, n_features)
        _restore_unknowns(starting.memory_, arrays, n_features)
        return starting
    metric = restore_metric(document["metric"], arrays, n_features)
    if (fitted := metric.representation_.preprocessing) is not None:
        model.preprocessing = clone(fitted)
    metric.statistics_, lengths = ClassStatistics("pooled"), ClassStatistics("per_class")
    if labels:
        n_classes, n_dimensions = len(labels), metric.representation_.n_dimensions
        most = REPRESENTED * counts[:, np.newaxis]
        sums = require_floats(arrays["sums"], (n_classes, n_dimensions), "sums", most=most)
        scatter = _restore_scatter(arrays, n_dimensions, float(counts.sum()))
        most = SAMPLE * n_features * counts
        length_sums = require_floats(arrays["length_sums"], (n_classes,), "lengths", most=most)
        length_scatter = require_floats(arrays["length_scatter"], (n_classes,), "lengths", most=SAMPLE * most)
        require(bool(np.all(length_sums >= 0) and np.all(length_scatter >= 0)), "lengths")
        metric.statistics_ = ClassStatistics.restore(labels, counts, sums, "pooled", scatter)
        lengths = ClassStatistics.restore(
            labels, counts, length_sums[:, np.newaxis], "per_class", length_scatter[:, np.newaxis, np.newaxis]
        )
    metric.whitening_ = restore_whitening(document["metric"], arrays, metric)
    reservoir = _restore_reservoir(document["reservoir"], arrays, labels, counts, n_features)
    memory = ClassMemory(metric.representation_, metric.statistics_, lengths, reservoir)
    _restore_unknowns(memory, arrays, n_features)
    model.restore(metric, memory, _restore_state(document["state"], arrays, metric))
    return model


def _restore_starting(
    model: Any, arrays: Arrays, labels: list[Any], counts: NDArray[Any], n_features: int
) -> ColdStartRecognizer:
    """Return a recognizer that knows too little to recognize anything."""
    require(isinstance(model, ColdStartRecognizer) and len(labels) < FEWEST_CLASSES, "state")
    samples = require_floats(arrays["starting"], (int(counts.sum()), n_features), "starting", most=SAMPLE)
    starting: ColdStartRecognizer = model.start(n_features)
    if labels:
        names = np.repeat(np.array(labels, dtype=object), counts.astype(np.intp))
        starting.memory_.add(TrainingBatch(samples, names, unpack_groups(arrays, len(names))[0]))
    return starting


def _restore_unknowns(memory: ClassMemory, arrays: Arrays, n_features: int) -> None:
    """Put the samples of no class back, where the model has some."""
    if "unknowns" in arrays:
        found = arrays["unknowns"]
        require_floats(found, (len(found), n_features), "unknowns", memory.unknowns.dtype.name)
        memory.add(TrainingBatch(found[:0], np.empty(0), unknowns=found))


def _check_parameters(parameters: Document) -> None:
    require_whole(parameters["n_lifted"], "parameters")
    require_whole(parameters["reservoir_size"], "parameters", 1)
    require_number(parameters["refresh_growth"], "parameters", 0)
    require(isinstance(parameters.get("learn_unknowns", False), bool), "parameters")
    if parameters["random_state"] is not None:
        require_whole(parameters["random_state"], "parameters")


def _restore_scatter(arrays: Arrays, n_dimensions: int, n_samples: float) -> PooledScatter:
    matrix, rows = arrays["scatter"], arrays.get("scatter_rows", np.empty((0, n_dimensions)))
    most = REPRESENTED**2 * n_samples
    if matrix.ndim == 2:  # up to format 2
        require_floats(matrix, (n_dimensions, n_dimensions), "scatter", most=most)
    else:
        lower = unpack_triangle(matrix, n_dimensions, "scatter", most).astype(np.float64)
        matrix = lower + np.tril(lower, -1).T
    require(bool(np.all(matrix.diagonal() >= 0)), "scatter")
    require_floats(rows, (len(rows), n_dimensions), "scatter", most=most**0.5)
    return PooledScatter(rows, np.array(matrix))


def _restore_reservoir(
    document: Document, arrays: Arrays, labels: list[Any], counts: NDArray[Any], n_features: int
) -> Reservoir:
    n_samples = document["samples_of_class"]
    require(isinstance(n_samples, list) and len(n_samples) == len(labels), "reservoir")
    of_class = np.array([require_whole(n, "reservoir", 1) for n in n_samples], dtype=np.intp)
    require(bool(np.all(of_class <= counts)), "reservoir")
    size = require_whole(document["size"], "reservoir", 1)
    total = require_whole(document["total"], "reservoir")
    dtype = document["dtype"]
    require(dtype in ("float32", "float64"), "reservoir")
    samples = unpack_zeros(arrays, "reservoir", (int(of_class.sum()), n_features), dtype, SAMPLE)
    reservoir = Reservoir(size, total, dtype)
    names = np.repeat(np.array(labels, dtype=object), of_class)
    reservoir.add(samples, names, *unpack_groups(arrays, len(names)))
    return reservoir


def _restore_state(
    document: Document | None, arrays: Arrays, metric: AdaptiveMetric
) -> tuple[float, ScoringModel] | None:
    """Return when the metric was refreshed, and what predictions read."""
    if document is None:
        return None
    n_classes = len(metric.statistics_)
    calibration = _restore_calibration(document, metric)
    require(n_classes > 0 and calibration.slope > 0, "state")
    old = "unit_means" in arrays  # format 1: scores were angular, whatever the number of samples
    vectors, rows = arrays["unit_means" if old else "vectors"], arrays["rows"]
    n_rows = len(vectors)
    require(rows.dtype == np.int64 and rows.shape == (n_classes,), "state")
    require(len(np.unique(rows)) == n_classes and rows.min() >= 0 and rows.max() < n_rows, "state")
    require_floats(vectors, (n_rows, metric.representation_.n_dimensions), "state", np.float32, MAPPED)
    penalties = require_floats(arrays["penalties"], (n_classes,), "state", np.float32)
    factors = np.ones_like(penalties) if old else arrays["factors"]
    require_floats(factors, (n_classes,), "state", np.float32)
    radii = require_floats(arrays["radii"], (n_classes,), "state")
    require(bool(np.all(radii > 0) and np.all(factors > 0)), "state")
    return require_number(document["n_samples"], "state"), ScoringModel(
        sorted_classes(metric.statistics_)[0],
        metric.whitening_,
        GrowingRows(vectors, np.float32),
        rows.astype(np.intp),
        penalties,
        factors,
        radii,
        calibration,
        _restore_index(arrays, vectors, rows, penalties),
    )


def _restore_calibration(document: Document, metric: AdaptiveMetric) -> ScoreCalibration:
    values = {"strictness": 0.0, **document}  # 0.1.0 wrote none
    del values["n_samples"]
    if "power" in values:  # format 1
        metric.power = require_number(values.pop("power"), "state", 0)
        values = {
            "by_distance": False,
            "runner_up": 0.0,
            "noise": 0.0,
            "typical": 0.0,
            "error": None,
            **values,
        }
    require(set(values) == {field.name for field in fields(ScoreCalibration)}, "state")
    require(isinstance(values["by_distance"], bool), "state")
    for name in ("quality", "error"):  # None: not known
        values[name] = float("nan") if values[name] is None else require_number(values[name], "state")
    checked = ("by_distance", "quality", "error")
    numbers = {name: require_number(value, "state") for name, value in values.items() if name not in checked}
    return ScoreCalibration(
        by_distance=values["by_distance"], quality=values["quality"], error=values["error"], **numbers
    )


def _restore_index(
    arrays: Arrays, vectors: NDArray[Any], rows: NDArray[Any], penalties: NDArray[Any]
) -> ScoreIndex | None:
    """Return the index of very many classes, where the model had one."""
    if "index.lists" not in arrays:
        return None
    n_rows, n_dimensions = vectors.shape
    training = require_training(arrays, n_rows, n_dimensions + 1)
    return ScoreIndex(vectors, by_row(penalties, rows, n_rows), training)
