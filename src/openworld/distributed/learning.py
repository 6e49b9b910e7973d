"""Learning from streams of any size, in this process or on a cluster.

A stream that fits in memory is fitted at once. For a larger one, each part is learned by a model of its own,
and the models are added.
"""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from openworld.data.errors import DataError
from openworld.data.stream import Batch, Stream, read_ahead, require_samples
from openworld.distributed.checkpoint import Checkpoint
from openworld.distributed.engine import LOCAL, PARTS_IN_A_SUM, Done, Engine
from openworld.distributed.examples import examples_of
from openworld.distributed.metrics import fit_metric, held_out_share
from openworld.distributed.repeats import Repeats
from openworld.distributed.sampling import class_counts, draw, gather, is_chosen
from openworld.recognition import ClassStatistics, NCMMetric, near_copies, usual_distance
from openworld.recognition.class_statistics import ScatterKind

HELD_IN_MEMORY = 256 << 20  # bytes of features; a larger stream is learned part by part
_FAILURES_KEPT = 1_000
# What a model stores about its input: extractor, names of the features, examples of its classes, and what
# `openworld fit` found when it checked it.
_INPUT_ATTRIBUTES = ("extractor_", "feature_names_in_", "examples_", "self_check_")


@dataclass(frozen=True)
class Learned:
    """A model and counts of the samples it was learned from.

    Attributes
    ----------
    model : recognizer
    n_samples : int
    failures : list of (name, reason)
        The first thousand items that could not be read and were skipped.
    n_failures, n_unlabeled : int
        Number of items skipped because they could not be read, and because they had no label.
    whole : Batch or None
        All samples, if they were fitted at once.
    n_copies : int
        Number of pictures with near copies in their class.
    repeats : Repeats or None
        How many of the samples a fitted model had learned before.
    """

    model: Any
    n_samples: int
    failures: list[tuple[str, str]] = field(default_factory=list)
    n_failures: int = 0
    n_unlabeled: int = 0
    whole: Batch | None = field(default=None, repr=False)
    n_copies: int = 0
    repeats: Repeats | None = None

    def __add__(self, other: Learned) -> Learned:
        return Learned(
            self.model + other.model,
            self.n_samples + other.n_samples,
            (self.failures + other.failures)[:_FAILURES_KEPT],
            self.n_failures + other.n_failures,
            self.n_unlabeled + other.n_unlabeled,
            n_copies=self.n_copies + other.n_copies,
        )


def class_statistics(
    stream: Stream, engine: Engine = LOCAL, scatter: ScatterKind = "pooled"
) -> ClassStatistics:
    """Return counts, sums and scatter of the classes of a stream."""
    total = ClassStatistics(scatter)
    for block in engine.sums(_statistics_of, stream.parts, scatter):
        total += block
    return total


def learn(
    model: Any,
    stream: Stream,
    engine: Engine = LOCAL,
    *,
    progress: Done | None = None,
    checkpoint: Checkpoint | None = None,
    find_copies: bool = True,
) -> Learned:
    """Add the samples of a stream to a fitted recognizer.

    Parameters
    ----------
    model : recognizer
        Fitted. It is not changed.
    stream : Stream
        With labels.
    engine : Engine
        By default this process.
    progress : callable, optional
        Called with the number of samples done since the last call.
    checkpoint : Checkpoint, optional
        Where to store partial results; the parts that are stored there are not learned again.
    find_copies : bool, default=True
        Whether near copies among the pictures of a class become groups, unless they have groups.
    """
    _require_labels(stream)
    distance = _usual_distance(model) if find_copies and _may_have_copies(stream, model) else None
    found = _learn_parts(model.without_classes(), stream, engine, 0.0, progress, checkpoint, distance)
    require_samples(stream, found.n_samples, found.failures)
    whole = model + found.model
    for name in _INPUT_ATTRIBUTES:
        if hasattr(model, name):
            setattr(whole, name, getattr(model, name))
    return replace(found, model=whole, repeats=Repeats.of(model, found.model))


def fit(
    recognizer: Any,
    stream: Stream,
    engine: Engine = LOCAL,
    *,
    progress: Done | None = None,
    checkpoint: Checkpoint | None = None,
    held_in_memory: int = HELD_IN_MEMORY,
    find_copies: bool = True,
) -> Learned:
    """Fit a recognizer to a stream.

    A stream of up to `held_in_memory` bytes of features is read and fitted at once. For a larger one,
    everything that is a sum is computed from all samples: means, scatter, lengths, the reservoir, and the
    gradients of an `NCMMetric`. The rest is computed from a uniform sample of about 10,000 samples of at most
    1,000 classes: the representation of `OpenWorldRecognizer` (whether to lift and to standardize, mean and
    scale), and tau of the recognizers based on class means, on samples that the metric was not learned from.

    The other parameters are those of `learn`; the recognizer itself is not changed. Near copies are looked
    for only in a stream that is fitted at once.
    """
    _require_labels(stream)
    if stream.n_bytes <= held_in_memory:
        find_copies = find_copies and _may_have_copies(stream, recognizer)
        found = _fit_at_once(recognizer, stream, engine, progress, find_copies)
    else:
        found = _fit_in_parts(recognizer, stream, engine, progress, checkpoint)
    model = found.model
    if stream.source is not None and (examples := examples_of(stream.source)):
        model.examples_ = examples
    if stream.extractor is not None:
        model.extractor_ = stream.extractor
    if stream.feature_names is not None:
        model.feature_names_in_ = np.array(list(stream.feature_names), dtype=object)
    return found


def _fit_at_once(
    recognizer: Any, stream: Stream, engine: Engine, progress: Done | None, find_copies: bool
) -> Learned:
    batches = list(engine.map(_read, stream.parts, done=progress))
    whole = Batch.joined(batches)
    require_samples(stream, len(whole), whole.failures)
    whole, n_copies = _with_copies(whole) if find_copies else (whole, 0)
    model = clone(recognizer).fit(whole.X, whole.y, **groups_of(whole, recognizer))
    failures = whole.failures
    counts = len(failures), whole.n_unlabeled
    return Learned(model, len(whole), failures[:_FAILURES_KEPT], *counts, whole, n_copies)


def _may_have_copies(stream: Stream, recognizer: Any) -> bool:
    """Return whether to look for near copies: among pictures, for a recognizer that takes groups."""
    return stream.source is not None and stream.source.kind == "image" and takes_groups(recognizer)


def _usual_distance(model: Any) -> float:
    """Return the usual distance between two samples of a class that a model knows; 0 if it knows none."""
    samples, codes = model.reservoir_.samples(model.classes_, model.reservoir_.per_class)
    return usual_distance(samples, codes) if len(samples) else 0.0


def _with_copies(batch: Batch, distance: float | None = None) -> tuple[Batch, int]:
    """Return a batch with its near copies as groups, unless it has groups, and how many these are."""
    if batch.groups is not None or batch.y is None or not len(batch):
        return batch, 0
    groups = near_copies(batch.X, batch.y, distance)
    return (batch, 0) if groups is None else (replace(batch, groups=groups), int(np.sum(groups != "")))


def _read(part: Any) -> Batch:
    return Batch.joined(list(part.batches()))


def _fit_in_parts(
    recognizer: Any, stream: Stream, engine: Engine, progress: Done | None, checkpoint: Checkpoint | None
) -> Learned:
    share = 0.0 if recognizer.calibrates_itself else held_out_share(len(stream))
    started = None if checkpoint is None else checkpoint.load()
    if started is None:
        start = _prepared(recognizer, stream, engine, class_counts(stream, engine), share)
    else:
        start = started[0].model.without_classes()
    found = _learn_parts(start, stream, engine, share, progress, checkpoint)
    require_samples(stream, found.n_samples, found.failures)
    if recognizer.calibrates_itself:
        return found
    held_out = gather(stream, engine, share)
    assert held_out.y is not None
    model = found.model
    known = np.isin(held_out.y, model.classes_)
    if getattr(model, "calibration_", None) is not None:
        model.recalibrate(held_out.X[known], held_out.y[known])
    model.partial_fit(held_out.X, held_out.y)
    return replace(found, n_samples=found.n_samples + len(held_out))


def takes_groups(recognizer: Any) -> bool:
    """Return whether a recognizer learns samples with their groups."""
    return "groups" in inspect.signature(recognizer.partial_fit).parameters


def groups_of(batch: Batch, recognizer: Any) -> dict[str, Any]:
    """Return the argument `groups` of `fit` and `partial_fit`, if the samples have groups."""
    if batch.groups is None:
        return {}
    if not takes_groups(recognizer):
        raise DataError(f"the samples have groups, which a {type(recognizer).__name__} does not take.")
    return {"groups": batch.groups}


def _require_labels(stream: Stream) -> None:
    if not stream.labeled:
        raise DataError(f"{stream.name}: it has no labels.")


def _prepared(recognizer: Any, stream: Stream, engine: Engine, counts: Counter[Any], share: float) -> Any:
    """Return the recognizer without classes, with everything that learning the parts does not change."""
    drawn = draw(stream, engine, counts)
    if share == 0.0:
        return clone(recognizer).fit(drawn.X, drawn.y, **groups_of(drawn, recognizer)).without_classes()
    metric = NCMMetric() if recognizer.metric is None else clone(recognizer.metric)
    if isinstance(metric, NCMMetric):
        metric = fit_metric(metric, stream, engine)
    else:
        metric = metric.fit(drawn.X, drawn.y)
    model = clone(recognizer).set_params(metric=FrozenEstimator(metric))
    model.fit(drawn.X, drawn.y)
    model.metric, model.metric_ = recognizer.metric, metric
    return model.without_classes()


def _learn_parts(
    empty: Any,
    stream: Stream,
    engine: Engine,
    leave_out: float,
    progress: Done | None,
    checkpoint: Checkpoint | None,
    distance: float | None = None,
) -> Learned:
    total, n_done = (checkpoint.load() if checkpoint is not None else None) or (None, 0)
    if total is not None and progress is not None:
        progress(sum(map(len, stream.parts[:n_done])))
    shared = empty, leave_out, distance
    for block in engine.sums(learn_part, stream.parts[n_done:], *shared, done=progress):
        total = block if total is None else total + block
        n_done = min(n_done + PARTS_IN_A_SUM, len(stream.parts))
        if checkpoint is not None and n_done < len(stream.parts):
            checkpoint.save(total, n_done)
    assert total is not None  # a stream has at least one part
    return total


def learn_part(part: Any, empty: Any, leave_out: float, distance: float | None = None) -> Learned:
    """Learn the samples of one part, except the share that is held out.

    With the usual distance between two samples of a class, near copies in the part become groups.
    """
    model = empty.without_classes()
    # With a fixed metric, class means are projected once per part instead of once per batch.
    sums = ClassStatistics("none") if getattr(model, "metric_is_frozen", False) else None
    n_samples, n_unlabeled, n_copies = 0, 0, 0
    failures: list[tuple[str, str]] = []
    batches = read_ahead(part.batches())
    if distance is not None:
        whole, n_copies = _with_copies(Batch.joined(list(batches)), distance)
        batches = iter([whole])
    for read in batches:
        batch = read.take(~is_chosen(read.rows, leave_out)) if leave_out else read
        groups = groups_of(batch, model)
        if len(batch) and sums is None:
            model.partial_fit(batch.X, batch.y, **groups)
        elif sums is not None:
            sums.add(batch.X, batch.y)
        n_samples += len(batch)
        failures += batch.failures
        n_unlabeled += batch.n_unlabeled
    if sums is not None:
        model.learn_statistics(sums)
    counts = len(failures), n_unlabeled
    return Learned(model, n_samples, failures[:_FAILURES_KEPT], *counts, n_copies=n_copies)


def _statistics_of(part: Any, scatter: ScatterKind) -> ClassStatistics:
    statistics = ClassStatistics(scatter)
    for batch in read_ahead(part.batches()):
        statistics.add(batch.X, batch.y)
    return statistics
