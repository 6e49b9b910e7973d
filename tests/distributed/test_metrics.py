"""Metrics from streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import log_softmax

from openworld import AdaptiveMetric, NCMMetric
from openworld.data.stream import Stream
from openworld.data.streams import open_stream
from openworld.distributed import fit_metric, sampling
from openworld.distributed.metrics import held_out_share
from openworld.recognition.metric.passes import Gradient, SearchPoint
from openworld.samples import Extraction

Data = tuple[np.ndarray, np.ndarray]
PIXELS = Extraction("pixels")


def loss(metric: NCMMetric, X: np.ndarray, y: np.ndarray) -> float:
    """Eq. 1 or Eq. 2 on all samples, with scipy's softmax."""
    Z = metric.transform(X.astype(float))
    means = np.array([Z[y == c].mean(axis=0) for c in metric.classes_])
    exponents = (
        -cdist(Z, means, "sqeuclidean") / 2 if metric.form == "distance" else Z @ means.T + metric.biases_
    )
    return -float(log_softmax(exponents, axis=1)[np.arange(len(y)), y].mean())


def test_adaptive_metric_from_a_stream(stream: Stream, data: Data) -> None:
    streamed = fit_metric(AdaptiveMetric(standardize=True, power=0.5), stream)
    whole = AdaptiveMetric(standardize=True, power=0.5).fit(*data)
    assert np.allclose(streamed.transform(data[0]), whole.transform(data[0]), atol=1e-5)


@pytest.mark.parametrize("form", ["distance", "dot"])
def test_ncm_metric_from_a_stream_is_as_likely_as_in_memory(stream: Stream, data: Data, form: Any) -> None:
    X, y = data
    streamed = fit_metric(NCMMetric(3, form=form, max_iter=60), stream)
    whole = NCMMetric(3, form=form).fit(X, y)
    assert min(streamed.held_out_loss_curve_) < streamed.held_out_loss_curve_[0]
    assert loss(streamed, X, y) < 1.1 * loss(whole, X, y)  # each stops early, by other held-out samples
    learned_from = ~sampling.is_chosen(np.arange(len(X)), held_out_share(len(X)))
    assert np.allclose(streamed.mean_, X[learned_from].mean(axis=0, dtype=float))
    assert np.allclose(streamed.scale_, X[learned_from].std(axis=0, dtype=float))


def test_ncm_metric_does_not_mind_a_file_sorted_by_class(tmp_path: Path, stream: Stream, data: Data) -> None:
    order = np.argsort(data[1], kind="stable")
    np.save(tmp_path / "sorted.npy", data[0][order])
    np.save(tmp_path / "sorted.labels.npy", data[1][order])
    in_order = fit_metric(NCMMetric(3), open_stream(tmp_path / "sorted.npy", part_bytes=130 * 24))
    shuffled = fit_metric(NCMMetric(3), stream)
    assert min(in_order.held_out_loss_curve_) < 1.25 * min(shuffled.held_out_loss_curve_)


def test_gradients_are_those_of_finite_differences(data: Data) -> None:
    X, y = data[0][:60].astype(float), data[1][:60]
    random = np.random.default_rng(0)
    classes, D = np.unique(y), X.shape[1]
    into, V = random.standard_normal((D, D)) / 3, random.standard_normal((D, 2)) / 3
    means, biases = random.standard_normal((len(classes), D)), random.standard_normal(len(classes))
    for b in (None, biases):
        point = SearchPoint(classes, X.mean(axis=0), into, means, V, b)
        parts = Gradient.of(point, X[:25], y[:25]) + Gradient.of(point, X[25:], y[25:])
        for i, j in ((0, 0), (3, 1)):
            step = np.zeros_like(V)
            step[i, j] = 1e-5
            up, down = (
                Gradient.of(SearchPoint(classes, point.mean, into, means, V + s * step, b), X, y).loss
                for s in (1, -1)
            )
            assert parts.V[i, j] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)
