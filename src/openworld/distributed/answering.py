"""Recognize the samples of a stream, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from openworld.data.stream import Batch, Stream, read_ahead
from openworld.distributed.engine import LOCAL, Done, Engine
from openworld.recognition import Judgement


@dataclass(frozen=True)
class Answers:
    """The samples of one part and the model's answers.

    Attributes
    ----------
    batch : Batch
        The samples, without features unless they were asked for.
    judgement : Judgement
    """

    batch: Batch
    judgement: Judgement

    def __len__(self) -> int:
        return len(self.judgement)


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
        Number of nearest classes to return with each answer.
    keep_features : bool, default=False
        Whether to return the features with the answers.
    parts : sequence of Part, optional
        The parts of the stream to recognize; by default all.
    progress : callable, optional
        Called with the number of samples done since the last call.
    """
    model.refresh()  # once here, instead of in every thread or worker
    wanted = stream.parts if parts is None else parts
    return engine.map(_answer, wanted, model, n_nearest, keep_features, done=progress)


def _answer(part: Any, model: Any, n_nearest: int, keep_features: bool) -> Answers:
    batches, judgements = [], []
    for batch in read_ahead(part.batches()):
        if len(batch):
            judgements.append(model.judge(batch.X, n_nearest))
        batches.append(batch if keep_features else replace(batch, X=np.empty((len(batch), 0))))
    return Answers(Batch.joined(batches), Judgement.joined(judgements))
