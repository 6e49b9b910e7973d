"""Recognizing the samples of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.batch import Batch
from openworld.data.stream import Stream, read_ahead
from openworld.distributed.engine import LOCAL, Done, Engine


@dataclass(frozen=True)
class Answers:
    """What a model says about the samples of one part.

    Attributes
    ----------
    batch : Batch
        The samples; without features unless they are to be kept.
    answers : array of shape (n,)
        A class or the unknown label.
    unknown : bool array of shape (n,)
    membership : array of shape (n,)
        How likely the sample is of its best class, from 0 to 1.
    nearest, distances, memberships : arrays of shape (n, k)
        The nearest classes, nearest first; distances to them and memberships in them.
    """

    batch: Batch
    answers: NDArray[Any]
    unknown: NDArray[np.bool_]
    membership: NDArray[np.float64]
    nearest: NDArray[Any]
    distances: NDArray[np.float64]
    memberships: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.answers)


def recognize(
    model: Any,
    stream: Stream,
    engine: Engine = LOCAL,
    *,
    n_nearest: int = 1,
    keep_features: bool = False,
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
    n_nearest : int, default=1
        How many of the nearest classes to tell.
    keep_features : bool, default=False
        Whether the features come with the answers.
    parts : sequence of Part, optional
        Those of the stream that are wanted; by default all.
    progress : callable, optional
        Called with the number of samples done since the last call.
    """
    model.refresh()  # here, once, and neither by each thread nor by each worker
    wanted = stream.parts if parts is None else parts
    return engine.map(_answer, wanted, model, n_nearest, keep_features, done=progress)


def _answer(part: Any, model: Any, n_nearest: int, keep_features: bool) -> Answers:
    batches, judged = [], []
    for batch in read_ahead(part.batches()):
        if len(batch):
            judged.append(_judge(model, batch.X, n_nearest))
        batches.append(batch if keep_features else replace(batch, X=np.empty((len(batch), 0))))
    if not judged:  # nothing of the part could be read
        one, several = np.empty(0), np.empty((0, n_nearest))
        return Answers(Batch.joined(batches), one, one.astype(bool), one, several, several, several)
    return Answers(Batch.joined(batches), *map(np.concatenate, zip(*judged, strict=True)))


def _judge(model: Any, X: NDArray[Any], n_nearest: int) -> tuple[NDArray[Any], ...]:
    said = model.judge(X, n_nearest)
    return said.labels, ~said.accepted, said.membership, said.nearest, said.distances, said.memberships
