"""Recognizing the samples of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.streams import Stream, read_ahead
from openworld.distributed.engine import HERE, Done, Engine


@dataclass(frozen=True)
class Answers:
    """What a model says about the samples of one part.

    Attributes
    ----------
    rows : array of shape (n,)
        The number of each sample in the stream, from 0.
    answers : array of shape (n,)
        A class or the unknown label.
    nearest : array of shape (n,)
        The nearest class.
    distances : array of shape (n,)
        The distance to it.
    y : array of shape (n,) or None
        The true labels, where the stream has them.
    names : list of str or None
    failures : list of (name, reason)
    """

    rows: NDArray[np.int64]
    answers: NDArray[Any]
    nearest: NDArray[Any]
    distances: NDArray[np.floating[Any]]
    y: NDArray[Any] | None
    names: list[str] | None
    failures: list[tuple[str, str]]


def recognize(
    model: Any,
    stream: Stream,
    engine: Engine = HERE,
    *,
    parts: Sequence[Any] | None = None,
    progress: Done | None = None,
) -> Iterator[Answers]:
    """Yield the answers to each part of a stream, in order.

    Parameters
    ----------
    model : recognizer
    stream : Stream
    engine : Engine
        By default this process.
    parts : sequence of Part, optional
        Those of the stream that are wanted; by default all.
    progress : callable, optional
        Called with the number of samples of each part when it is done.
    """
    # What a model makes when it is first asked is made once, and neither by each thread nor by each worker.
    _judged(model, np.zeros((1, stream.n_features), dtype=np.float32))
    return engine.map(_answer, stream.parts if parts is None else parts, model, done=progress)


def _answer(part: Any, model: Any) -> Answers:
    batches, judged = [], []
    for batch in read_ahead(part.batches()):
        if len(batch.X):
            judged.append(_judged(model, batch.X))
        batches.append(replace(batch, X=batch.X[:0].copy()))  # the features are no longer needed
    answers, nearest, distances = (
        np.concatenate([one[i] for one in judged]) if judged else np.empty(0) for i in range(3)
    )
    labels = [batch.y for batch in batches if batch.y is not None]
    return Answers(
        np.concatenate([batch.rows for batch in batches]),
        answers,
        nearest,
        distances,
        np.concatenate(labels) if labels else None,
        [name for batch in batches for name in batch.names or []] or None,
        [failure for batch in batches for failure in batch.failures],
    )


def _judged(model: Any, X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return answers, nearest classes and distances; in one pass where the model can."""
    if hasattr(model, "judge"):
        judged = model.judge(X, 1)
        return judged.labels, judged.nearest[:, 0], judged.distances[:, 0]
    nearest, distances = model.nearest_classes(X, 1)
    return model.predict(X), nearest[:, 0], distances[:, 0]
