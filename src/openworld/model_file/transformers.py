"""Transformers of scikit-learn in model files: their parameters and arrays, never a pickle."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from openworld.model_file.packing import Arrays, Document, ModelFileError, plain_random_state, require

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, Normalizer, PCA, TruncatedSVD),
        *(GaussianRandomProjection, SparseRandomProjection),
    )
}
_PLAIN = (bool, int, float, str, type(None))


def is_transformer(document: Document) -> bool:
    """Return whether a document describes a transformer of scikit-learn."""
    return document.get("type") in {*_KINDS, "Pipeline", "FrozenEstimator"}


def describe_transformer(transformer: Any, at: str) -> tuple[Document, Arrays]:
    """Return document and arrays of a transformer, fitted or not; names of arrays begin with `at`.

    Raises
    ------
    ModelFileError
        If it is none of those that can be saved.
    """
    name = type(transformer).__name__
    if type(transformer) is FrozenEstimator:
        inner, found = describe_transformer(transformer.estimator, at)
        return {"type": name, "of": inner}, found
    if type(transformer) is Pipeline:
        return _describe_steps(transformer, at)
    if _KINDS.get(name) is not type(transformer):
        raise ModelFileError(
            f"Cannot save a model with a {name} inside; these can be saved: {', '.join(_KINDS)}, and "
            "pipelines of them."
        )
    parameters = plain_random_state(transformer.get_params(deep=False))
    values: Document = {}
    arrays: Arrays = {}
    in_columns: list[str] = []
    for key, value in vars(transformer).items():
        if not key.endswith("_") or key.startswith("_") or key == "feature_names_in_":
            continue
        if issparse(value):
            sparse: Any = value.tocsr()  # type: ignore[attr-defined]
            values[key] = {"shape": list(sparse.shape)}
            arrays |= {f"{at}.{key}.{part}": getattr(sparse, part) for part in ("data", "indices", "indptr")}
        elif isinstance(value, np.ndarray):
            # The order in memory decides the last bit of a product: a transposed array stays transposed.
            transposed = value.flags.f_contiguous and not value.flags.c_contiguous
            arrays[f"{at}.{key}"] = value.T if transposed else value
            in_columns += [key] * transposed
        elif isinstance(value := value.item() if isinstance(value, np.generic) else value, _PLAIN):
            values[key] = value
    return {"type": name, "parameters": parameters, "values": values, "transposed": in_columns}, arrays


def _describe_steps(pipeline: Pipeline, at: str) -> tuple[Document, Arrays]:
    steps: list[Any] = []
    arrays: Arrays = {}
    for name, step in pipeline.steps:
        document, found = describe_transformer(step, f"{at}.{len(steps)}")
        steps.append([name, document])
        arrays |= found
    return {"type": "Pipeline", "steps": steps}, arrays


def restore_transformer(document: Document, arrays: Arrays, at: str) -> Any:
    """Return the transformer that was described; an unfitted one where there are no arrays of it."""
    kind = document["type"]
    if kind == "FrozenEstimator":
        return FrozenEstimator(restore_transformer(document["of"], arrays, at))
    if kind == "Pipeline":
        steps = enumerate(document["steps"])
        return Pipeline([(str(n), restore_transformer(of, arrays, f"{at}.{i}")) for i, (n, of) in steps])
    parameters = {key: _plain(value) for key, value in document["parameters"].items()}
    transformer = _KINDS[kind](**parameters)
    fitted = {key: _finite(array) for key, array in _under(at, arrays).items()}
    fitted |= {key: fitted[key].T for key in document["transposed"]}
    for key, value in document["values"].items():
        fitted[key] = _sparse(value, arrays, f"{at}.{key}") if isinstance(value, dict) else _number(value)
    for key, value in fitted.items():
        require(key.endswith("_") and not key.startswith("_"), "transformer")
        setattr(transformer, key, value)
    return transformer


def _under(at: str, arrays: Arrays) -> dict[str, Any]:
    """Return the arrays of one transformer, without those of steps inside it or of a sparse matrix."""
    places = {name: name.rpartition(".") for name in arrays}
    return {key: arrays[name] for name, (place, _, key) in places.items() if place == at}


def _finite(array: Any) -> Any:
    require(array.dtype.kind in "iuf" and bool(np.all(np.isfinite(array))), "transformer")
    return array


def _number(value: Any) -> Any:
    """Return a fitted value; scikit-learn expects numbers of numpy's types."""
    return np.asarray(value)[()] if type(value) in (int, float) else _plain(value)


def _plain(value: Any) -> Any:
    """Return a value of a parameter; pairs were written as lists."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    require(isinstance(value, _PLAIN), "transformer")
    return value


def _sparse(value: Document, arrays: Arrays, name: str) -> Any:
    data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    matrix = csr_matrix((_finite(data), indices, indptr), shape=tuple(value["shape"]))
    matrix.check_format(full_check=True)
    return matrix
