"""Recognition: judge samples with the live model and store the unknown ones in the pool."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sqlalchemy import Connection

from openworld.recognition import Judgement
from openworld.service.live_model import LiveModel
from openworld.service.notifications import Notifications
from openworld.service.replay import never_learned
from openworld.service.rescoring import Rescorer
from openworld.service.settings import WorldSettings
from openworld.service.validation import Refused, as_features, check_items
from openworld.store import Database
from openworld.store.records import Kept, SampleContent
from openworld.store.samples import (
    NewSample,
    Verdict,
    delete_previews,
    delete_samples,
    leave_random_share,
    old_recognized,
    store,
)

_MAX_PER_TRANSACTION = 2000
_RECOGNIZED_BETWEEN_DELETIONS = 500
_PREVIEWS_BETWEEN_DELETIONS = 100


@dataclass(frozen=True, eq=False)
class RecognitionResult:
    """The answers on n samples: the model's judgement, its version, and the ids of the stored samples.

    `labels` hold None for unknown, `sample_ids` None for samples that were not stored.
    """

    judgement: Judgement
    labels: list[str | None]
    sample_ids: list[int | None]
    model_version: int

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, rows: Iterable[int] | None = None, n_nearest: int | None = None) -> list[dict[str, Any]]:
        """Return answers as the API gives them, each with so many nearest classes at most."""
        decision, membership, nearest, distances, memberships = self._columns
        return [
            {
                "label": self.labels[i],
                "unknown": self.labels[i] is None,
                "decision": decision[i],
                "membership": membership[i],
                "distance": distances[i][0] if distances[i] else None,
                "nearest": [
                    {"label": label, "distance": distance, "membership": likely}
                    for label, distance, likely in islice(
                        zip(nearest[i], distances[i], memberships[i], strict=True), n_nearest
                    )
                ],
                "sample_id": self.sample_ids[i],
            }
            for i in (range(len(self)) if rows is None else rows)
        ]

    @cached_property
    def _columns(self) -> tuple[list[Any], ...]:
        """The judgement as plain values: converting whole arrays is faster than reading single elements."""
        judged = self.judgement
        arrays = (judged.decision, judged.membership, judged.nearest, judged.distances, judged.memberships)
        return tuple(array.tolist() for array in arrays)


class Recognition:
    """Recognizes samples with the live model."""

    def __init__(
        self,
        database: Database,
        model: LiveModel,
        rescorer: Rescorer,
        notifications: Notifications,
        settings: WorldSettings,
    ) -> None:
        self._model, self._rescorer, self._notifications = model, rescorer, notifications
        self._settings = settings
        self._random = np.random.default_rng()
        self._writer = PoolWriter(database, settings)

    def recognize(
        self,
        X: ArrayLike,
        items: Sequence[SampleContent] | None = None,
        *,
        remember: bool = True,
    ) -> RecognitionResult:
        """Name each sample or answer unknown; see `World.recognize`."""
        result, _, stored = self.start(X, items, remember=remember)
        stored.result()
        return result

    def start(
        self,
        X: ArrayLike,
        items: Sequence[SampleContent] | None = None,
        *,
        remember: bool = True,
    ) -> tuple[RecognitionResult, Set[int], Future[None]]:
        """Name each sample or answer unknown, and begin to store what is to be stored.

        Returns
        -------
        result : RecognitionResult
        rows : set of int
            The rows of the samples to store; their ids are in the result once `stored` is done.
        stored : Future
        """
        with self._model.reading() as (model, version):
            features = as_features(X, model.n_features_in_)
            if items is not None and len(items) != len(features):
                raise Refused(f"There are {len(features)} samples and {len(items)} items: give one for each.")
            if not len(features):
                raise Refused("No samples were given.")
            judged = model.judge(features, self._settings.n_nearest)
        labels = [
            label if accepted else None
            for label, accepted in zip(judged.labels.tolist(), judged.accepted.tolist(), strict=True)
        ]
        result = RecognitionResult(judged, labels, [None] * len(labels), version)
        kept = self._kept(judged) if remember else {}
        rows = [i for i, label in enumerate(labels) if remember and (label is None or i in kept)]
        new = {
            i: NewSample(
                features[i],
                SampleContent() if items is None else items[i],
                Verdict.of(judged, i, version),
                "pending" if labels[i] is None else "recognized",
                kept=kept.get(i),
            )
            for i in rows
        }
        check_items([sample.item for sample in new.values()])
        return result, new.keys(), self._store(result, new)

    def _store(self, result: RecognitionResult, new: Mapping[int, NewSample]) -> Future[None]:
        """Begin to store samples, by their rows in the result."""
        done: Future[None] = Future()
        if not new:
            done.set_result(None)
            return done

        def finish(stored: Future[list[int]]) -> None:
            if (error := stored.exception()) is not None:
                done.set_exception(error)
                return
            ids = stored.result()
            for row, sample_id in zip(new, ids, strict=True):
                result.sample_ids[row] = sample_id
            if self._model.version != result.model_version:
                self._rescorer.rescore(ids)
            n_unknown = sum(result.labels[row] is None for row in new)
            if n_unknown:
                self._notifications.publish("unknown", {"samples": n_unknown})
            done.set_result(None)

        self._writer.store(list(new.values())).add_done_callback(finish)
        return done

    def _kept(self, judged: Judgement) -> dict[int, Kept]:
        """Return which samples are kept for review, and why.

        The random share is drawn from all samples: the uncertain ones, and the unknown ones too, because a
        later version may recognize them.
        """
        drawn = self._random.random(len(judged.accepted)) < self._settings.keep_random
        uncertain = judged.accepted & (judged.membership < self._settings.keep_below)
        kept: dict[int, Kept] = dict.fromkeys(np.flatnonzero(uncertain).tolist(), "uncertain")
        kept |= dict.fromkeys(np.flatnonzero(drawn & judged.accepted).tolist(), "random")
        return kept | dict.fromkeys(np.flatnonzero(drawn & ~judged.accepted).tolist(), "drawn")

    def close(self) -> None:
        """Store what waits and stop."""
        self._writer.close()


class _WriteOrder(NamedTuple):
    samples: Sequence[NewSample]
    stored: Future[list[int]]


class PoolWriter:
    """A thread that stores all waiting samples in one transaction: the flush to disk is what takes time."""

    def __init__(self, database: Database, settings: WorldSettings) -> None:
        self._database, self._settings = database, settings
        self._n_kept = _RECOGNIZED_BETWEEN_DELETIONS  # so that the first batch triggers a deletion
        self._n_previews = 0
        self._orders: queue.SimpleQueue[_WriteOrder | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="openworld-pool", daemon=True)
        self._thread.start()

    def store(self, samples: Sequence[NewSample]) -> Future[list[int]]:
        """Store samples; the future has their ids once they are committed."""
        order = _WriteOrder(samples, Future())
        self._orders.put(order)
        return order.stored

    def close(self) -> None:
        """Store what waits and stop."""
        self._orders.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            orders = [order]
            while sum(len(order.samples) for order in orders) < _MAX_PER_TRANSACTION:
                try:
                    following = self._orders.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    self._store(orders)
                    return
                orders.append(following)
            self._store(orders)

    def _store(self, orders: Sequence[_WriteOrder]) -> None:
        try:
            with self._database.write() as connection:
                new = [sample for order in orders for sample in order.samples]
                ids = store(self._database, connection, new)
                self._delete_old(connection, sum(sample.kept is not None for sample in new))
                self._n_previews += sum(sample.item.preview is not None for sample in new)
                if self._n_previews >= min(_PREVIEWS_BETWEEN_DELETIONS, self._settings.max_previews + 1):
                    self._n_previews = 0
                    delete_previews(connection, self._settings.max_previews)
        except BaseException as error:
            for order in orders:
                order.stored.set_exception(error)
            return
        for order in orders:
            order.stored.set_result(ids[: len(order.samples)])
            ids = ids[len(order.samples) :]

    def _delete_old(self, connection: Connection, n_kept: int) -> None:
        """Delete recognized samples that are too old or too many, now and then.

        Those that came as unknown are not deleted: they only leave the random share, so that it holds samples
        of the same age whether they were recognized on arrival or later.
        """
        self._n_kept += n_kept
        if not n_kept or self._n_kept < min(_RECOGNIZED_BETWEEN_DELETIONS, self._settings.max_recognized + 1):
            return
        self._n_kept = 0
        before = datetime.now(UTC) - timedelta(days=self._settings.recognized_days)
        old = old_recognized(connection, self._settings.max_recognized, before)
        drawn = [i for i, kept in old.items() if kept == "drawn"]
        leave_random_share(connection, drawn)
        delete_samples(connection, never_learned(connection, old.keys() - drawn))
