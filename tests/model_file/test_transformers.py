"""Preprocessing and metrics of scikit-learn in model files: the same answers, and no pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from openworld import ModelFileError, NearestNonOutlier, OpenWorldRecognizer, load, save
from openworld.model_file import digest, dumps, loads
from openworld.model_file.transformers import describe_transformer, restore_transformer

RANDOM = np.random.default_rng(0)
Y = np.repeat(np.arange(5), 12)
X = (4 * RANDOM.standard_normal((5, 6))[Y] + RANDOM.standard_normal((60, 6))) * [1, 1, 1, 1, 1, 1000]

TRANSFORMERS = [
    StandardScaler(),
    StandardScaler(with_std=False),
    MinMaxScaler((0, 2)),
    MaxAbsScaler(),
    RobustScaler(),
    Normalizer(),
    PCA(3, random_state=0),
    TruncatedSVD(3, random_state=0),
    GaussianRandomProjection(4, random_state=0),
    SparseRandomProjection(4, random_state=0),
    SparseRandomProjection(4, dense_output=True, density=0.9, random_state=0),
    make_pipeline(StandardScaler(), PCA(4, random_state=0)),
    make_pipeline(StandardScaler(), make_pipeline(MinMaxScaler(), Normalizer())),
    FrozenEstimator(StandardScaler().fit(X)),
]


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
def test_a_transformer_comes_back(transformer: Any) -> None:
    fitted = clone(transformer).fit(X, Y)
    again = restore_transformer(*describe_transformer(fitted, "here"), "here")
    np.testing.assert_array_equal(_dense(again.transform(X)), _dense(fitted.transform(X)))
    assert str(again) == str(transformer)


def _dense(found: Any) -> Any:
    return found.toarray() if hasattr(found, "toarray") else found


@pytest.mark.parametrize("transformer", [TRANSFORMERS[0], TRANSFORMERS[11], TRANSFORMERS[13]], ids=str)
@pytest.mark.parametrize("parameter", ["preprocessing", "metric"])
def test_a_model_comes_back(transformer: Any, parameter: str, tmp_path: Path) -> None:
    kind = OpenWorldRecognizer if parameter == "preprocessing" else NearestNonOutlier
    model = kind(**{parameter: transformer}).fit(X[:50], Y[:50])
    save(model, tmp_path / "model.ow", exact=True)
    again = load(tmp_path / "model.ow")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert digest(dumps(again)) == digest(dumps(model))
    assert str(getattr(again, parameter)) == str(transformer)
    for each in (model, again):
        each.partial_fit(X[50:], Y[50:])
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_others_are_refused_by_name() -> None:
    model = OpenWorldRecognizer(preprocessing=FunctionTransformer(np.sqrt)).fit(np.abs(X), Y)
    with pytest.raises(ModelFileError, match=r"FunctionTransformer inside.*StandardScaler, MinMaxScaler"):
        dumps(model)


@pytest.mark.parametrize("harm", ["indices", "private", "nan"])
def test_unsound_arrays_are_refused(harm: str) -> None:
    fitted = SparseRandomProjection(4, random_state=0).fit(X)
    document, arrays = describe_transformer(fitted, "here")
    arrays = {name: array.copy() for name, array in arrays.items()}
    if harm == "indices":
        arrays["here.components_.indices"][0] = 99
    elif harm == "private":
        document["values"]["__class__"] = 1
    else:
        arrays["here.components_.data"][0] = np.nan
    with pytest.raises(ValueError, match=r"."):
        restore_transformer(document, arrays, "here")


def test_files_without_preprocessing_are_as_before() -> None:
    model = OpenWorldRecognizer().fit(X, Y)
    assert b"preprocessing" not in dumps(model)
    assert loads(dumps(model)).preprocessing is None
