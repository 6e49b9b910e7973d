"""Uniform samples of a stream that do not depend on how it is cut into parts."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.stream import Batch, Stream, read_ahead
from openworld.distributed.engine import Engine
from openworld.recognition.adaptive.reservoir import scrambled

SAMPLES = 10_000
CLASSES = 1_000


def is_chosen(rows: NDArray[np.int64], share: float) -> NDArray[np.bool_]:
    """Choose a uniform share of the samples, by a hash of their index in the stream."""
    if share >= 1:
        return np.ones(len(rows), dtype=bool)
    return np.asarray(scrambled(rows) < np.uint64(int(share * 2**64)))


def class_counts(stream: Stream, engine: Engine) -> Counter[Any]:
    """Count the samples of each class; only labels are read."""
    total: Counter[Any] = Counter()
    for of_part in engine.map(_count_labels, stream.parts):
        total.update(of_part)
    return total


def draw(stream: Stream, engine: Engine, counts: Counter[Any], n_samples: int = SAMPLES) -> Batch:
    """Draw about `n_samples` samples uniformly, of at most 1,000 classes; all if there are fewer.

    Of more classes, those whose labels have the smallest hashes are used, so that each has enough samples.
    """
    classes = sorted(counts, key=_name_hash)[:CLASSES]
    total = sum(counts[label] for label in classes)
    chosen = None if len(classes) == len(counts) else np.array(classes)
    return gather(stream, engine, min(1.0, n_samples / total), chosen)


def gather(stream: Stream, engine: Engine, share: float, classes: NDArray[Any] | None = None) -> Batch:
    """Read a uniform share of the samples of some or all classes."""
    return Batch.joined(list(engine.map(_take, stream.parts, share, classes)))


def sample_of(stream: Stream, n_samples: int) -> Batch:
    """Read about `n_samples` samples, chosen uniformly, with their names."""
    share = min(1.0, n_samples / len(stream))
    return Batch.joined(
        [batch for part in stream.parts for batch in part.select(is_chosen(part.rows, share))]
    )


def _count_labels(part: Any) -> Counter[Any]:
    labels, counts = np.unique(part.labels(), return_counts=True)
    return Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True)))


def _take(part: Any, share: float, classes: NDArray[Any] | None) -> Batch:
    wanted = is_chosen(part.rows, share)
    if classes is not None:
        wanted &= np.isin(part.labels(), classes)
    found = Batch.joined(list(read_ahead(part.select(wanted))))
    return replace(found, names=None, ids=None, failures=[])  # which learning does not need


def _name_hash(label: Any) -> bytes:
    return hashlib.blake2b(repr(label).encode(), digest_size=8).digest()
