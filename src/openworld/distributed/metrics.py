"""Learning metrics from streams: AdaptiveMetric in one pass, NCMMetric by one pass per gradient."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from openworld.data.stream import Stream, read_ahead
from openworld.distributed.engine import LOCAL, Engine
from openworld.distributed.sampling import SAMPLES, class_counts, draw, gather, is_chosen
from openworld.recognition import AdaptiveMetric, ClassStatistics, NCMMetric
from openworld.recognition.adaptive.metric import represented_statistics
from openworld.recognition.adaptive.representation import Representation
from openworld.recognition.metric.passes import Gradient, SearchPoint, fit_in_passes

M = TypeVar("M", NCMMetric, AdaptiveMetric)


def held_out_share(n_samples: int) -> float:
    """Return the share of samples to hold out: a tenth, but about 10,000 samples at most."""
    return min(0.1, SAMPLES / n_samples)


def fit_metric(metric: M, stream: Stream, engine: Engine = LOCAL) -> M:
    """Fit a metric to all samples of a stream.

    An `AdaptiveMetric` learns mean and scale, if it standardizes, from a uniform sample, and its statistics
    from all samples in one pass. An `NCMMetric` needs one pass for means and scatter and about one for each
    step of the optimization; see `openworld.recognition.metric.passes.fit_in_passes`.

    Returns
    -------
    metric
        The same object.
    """
    if isinstance(metric, AdaptiveMetric):
        drawn = draw(stream, engine, class_counts(stream, engine))
        first = clone(metric).fit(drawn.X, drawn.y)
        metric.representation_, metric.n_features_in_ = first.representation_, stream.n_features
        metric.statistics_ = ClassStatistics("pooled")
        for block in engine.sums(_represented, stream.parts, metric.representation_):
            metric.statistics_ += block
        return metric.refresh()
    return fit_in_passes(metric, _StreamPasses(stream, engine))


class _StreamPasses:
    """Repeated passes over a stream, except a share of held-out samples."""

    def __init__(self, stream: Stream, engine: Engine) -> None:
        self.stream, self.engine = stream, engine
        self.share = held_out_share(len(stream))

    def statistics(self) -> ClassStatistics:
        total = ClassStatistics("pooled")
        for block in self.engine.sums(_training_statistics, self.stream.parts, self.share):
            total += block
        return total

    def held_out(self) -> tuple[NDArray[Any], NDArray[Any]]:
        found = gather(self.stream, self.engine, self.share)
        assert found.y is not None  # a stream to learn from has labels
        return found.X, found.y

    def gradient(self, point: SearchPoint) -> Gradient:
        none = Gradient(0, 0.0, np.zeros_like(point.V), np.zeros(len(point.classes)))
        return sum(self.engine.sums(_gradient, self.stream.parts, point, self.share), start=none)


def _represented(part: Any, representation: Representation) -> ClassStatistics:
    statistics = ClassStatistics("pooled")
    for batch in read_ahead(part.batches()):
        statistics += represented_statistics(representation, batch.X, batch.y)
    return statistics


def _training_statistics(part: Any, share: float) -> ClassStatistics:
    statistics = ClassStatistics("pooled")
    for batch in read_ahead(part.batches()):
        kept = ~is_chosen(batch.rows, share)
        statistics.add(batch.X[kept], batch.y[kept])
    return statistics


def _gradient(part: Any, point: SearchPoint, share: float) -> Gradient:
    total = Gradient(0, 0.0, np.zeros_like(point.V), np.zeros(len(point.classes)))
    for batch in read_ahead(part.batches()):
        kept = ~is_chosen(batch.rows, share)
        total += Gradient.of(point, batch.X[kept], batch.y[kept])
    return total
