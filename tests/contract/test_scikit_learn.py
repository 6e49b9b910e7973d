"""Recognizers among scikit-learn's tools: pipelines, searches, sparse data, threads, pickles."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import random as random_sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.random_projection import SparseRandomProjection

from openworld import (
    AdaptiveMetric,
    EuclideanMetric,
    FalseAcceptRate,
    KnownRecall,
    MinOpenWorldError,
    NearestClassMean,
    NearestNonOutlier,
    OpenWorldRecognizer,
    SoftmaxThreshold,
    scorers,
)
from openworld.baselines.mahalanobis import Mahalanobis
from openworld.model_selection import LeaveClassesOut

RECOGNIZERS = [
    OpenWorldRecognizer(n_lifted=0),
    NearestNonOutlier(EuclideanMetric()),
    NearestClassMean(EuclideanMetric()),
    SoftmaxThreshold(EuclideanMetric()),
    Mahalanobis(),
]


def blobs(n_classes: int = 6, per_class: int = 20) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), per_class)
    return 4 * random.standard_normal((n_classes, 5))[y] + random.standard_normal((len(y), 5)), y


@pytest.mark.parametrize("recognizer", RECOGNIZERS, ids=str)
def test_many_threads_may_predict_at_once(recognizer: Any) -> None:
    X, y = blobs()
    model = clone(recognizer).fit(X, y).partial_fit(X[:5] + 0.1, y[:5])
    alone = clone(recognizer).fit(X, y).partial_fit(X[:5] + 0.1, y[:5])
    expected = alone.predict(X), alone.decision_function(X)
    model.refresh()
    with ThreadPoolExecutor(8) as pool:
        for predicted in pool.map(model.predict, [X] * 24):
            np.testing.assert_array_equal(predicted, expected[0])
        for decision in pool.map(model.decision_function, [X] * 24):
            np.testing.assert_array_equal(decision, expected[1])


@pytest.mark.parametrize("recognizer", RECOGNIZERS, ids=str)
def test_pickle_and_joblib(recognizer: Any, tmp_path: Any) -> None:
    X, y = blobs()
    model = clone(recognizer).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    for again in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):  # noqa: S301
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_a_search_over_objective() -> None:
    X, y = blobs()
    objectives = [MinOpenWorldError(), FalseAcceptRate(0.01), KnownRecall(0.99)]
    search = GridSearchCV(
        OpenWorldRecognizer(n_lifted=0),
        {"objective": objectives},
        cv=LeaveClassesOut(2),
        scoring=scorers.neg_open_world_error,
        error_score="raise",
    ).fit(X, y)
    assert search.best_params_["objective"] in objectives
    assert -2 <= search.best_score_ <= 0


def test_a_search_over_metric_and_preprocessing() -> None:
    X, y = blobs()
    grid = {
        "metric": [None, AdaptiveMetric(), AdaptiveMetric(standardize=True, directions=False)],
        "preprocessing": [None, StandardScaler()],
    }
    search = GridSearchCV(
        OpenWorldRecognizer(n_lifted=0),
        grid,
        cv=LeaveClassesOut(2),
        scoring=scorers.neg_open_world_error,
        error_score="raise",
    ).fit(X, y)
    assert len(search.cv_results_["params"]) == 6
    metrics = [EuclideanMetric(), make_pipeline(StandardScaler(), PCA(3))]
    other = GridSearchCV(
        NearestNonOutlier(), {"metric": metrics}, cv=LeaveClassesOut(2), scoring=scorers.oscr_area
    )
    assert 0 < other.fit(X, y).best_score_ <= 1


@pytest.mark.parametrize("recognizer", RECOGNIZERS[:4], ids=str)
def test_a_weight_says_how_often_a_sample_counts(recognizer: Any) -> None:
    X, y = blobs()
    times = np.arange(len(y)) % 3
    if not isinstance(recognizer, OpenWorldRecognizer):  # tau is found on random parts of the samples
        recognizer = clone(recognizer)
        if "tau" in recognizer.get_params():
            recognizer.set_params(tau=5.0)
    weighted = clone(recognizer).fit(X, y, sample_weight=times)
    repeated = clone(recognizer).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-12)
    weighted.partial_fit(X[:3], y[:3], sample_weight=[0, 2, 1])
    repeated.partial_fit(X[[1, 1, 2]], y[[1, 1, 2]])
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-12)
    for wrong, message in ((0.5, "whole numbers"), (0, "0 for every|non-zero"), (-1, "egative")):
        with pytest.raises(ValueError, match=message):
            clone(recognizer).fit(X, y, sample_weight=np.full(len(y), wrong))


def test_output_as_data_frames() -> None:
    X, y = blobs()
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    metric = AdaptiveMetric().set_output(transform="pandas").fit(frame, y)
    assert metric.transform(frame).columns[0] == "adaptivemetric0"
    pipeline = make_pipeline(StandardScaler(), OpenWorldRecognizer(n_lifted=0)).set_output(transform="pandas")
    assert pipeline.fit(frame, y).predict(frame).shape == y.shape
    with config_context(transform_output="pandas"):
        model = OpenWorldRecognizer(n_lifted=0, preprocessing=StandardScaler()).fit(frame, y)
        assert model.predict(frame).shape == y.shape


@pytest.mark.parametrize("recognizer", RECOGNIZERS, ids=str)
def test_a_notebook_shows_the_recognizer(recognizer: Any) -> None:
    assert type(recognizer).__name__ in recognizer._repr_html_()


def test_a_new_objective_takes_effect_at_once() -> None:
    X, y = blobs()
    model = OpenWorldRecognizer(KnownRecall(0.5), n_lifted=0).fit(X, y)
    strict = model.threshold_
    model.set_params(objective=KnownRecall(0.999))
    assert model.threshold_ < strict
    assert model.threshold_ == OpenWorldRecognizer(KnownRecall(0.999), n_lifted=0).fit(X, y).threshold_


@pytest.mark.parametrize("recognizer", [RECOGNIZERS[0], RECOGNIZERS[4]], ids=str)
def test_a_tau_that_does_not_exist_cannot_be_set(recognizer: Any) -> None:
    X, y = blobs()
    model = clone(recognizer).fit(X, y)
    assert not hasattr(model, "tau_")
    with pytest.raises(AttributeError, match="tau_"):
        model.tau_ = 3.0


def test_sparse_data_of_many_columns_through_a_projection() -> None:
    X = random_sparse(200, 50_000, density=0.002, format="csr", random_state=0)
    y = np.arange(200) % 4
    with pytest.raises(TypeError, match=r"Sparse data.*SparseRandomProjection"):
        NearestNonOutlier().fit(X, y)
    projection = SparseRandomProjection(n_components=50, dense_output=True, random_state=0)
    model = make_pipeline(projection, NearestNonOutlier(EuclideanMetric())).fit(X, y)
    assert model.predict(X).shape == (200,)


def test_texts_by_tf_idf() -> None:
    texts = [f"{thing} {i} {thing}" for thing in ("cat", "dog", "car", "sun") for i in range(12)]
    labels = np.repeat(["cat", "dog", "car", "sun"], 12)
    projection = SparseRandomProjection(n_components=30, dense_output=True, random_state=0)
    model = make_pipeline(
        TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 3)),
        projection,
        NearestClassMean(EuclideanMetric()),
    )
    assert (model.fit(texts, labels).predict(texts) == labels).mean() > 0.9


def test_pandas_categories_and_feature_names() -> None:
    X, y = blobs()
    names = pd.Series(np.array(list("abcdef"))[y], dtype="category")
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    model = NearestNonOutlier(EuclideanMetric()).fit(frame, names)
    assert model.classes_.tolist() == list("abcdef")
    assert model.feature_names_in_.tolist() == list("vwxyz")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["w", "v", "x", "y", "z"]])
