"""Answering on samples, and putting the unknown ones into the pool."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from openworld.service.judging import judge
from openworld.service.live_model import LiveModel
from openworld.service.notifications import Notifications
from openworld.service.pool_writer import PoolWriter
from openworld.service.rescoring import Rescorer
from openworld.service.results import Answers, Item, Refused
from openworld.service.validation import as_features, check_items
from openworld.store import Database
from openworld.store.samples import NewSample


class Recognition:
    """Recognizes samples with the live model."""

    def __init__(
        self,
        database: Database,
        model: LiveModel,
        rescorer: Rescorer,
        notifications: Notifications,
        n_nearest: int,
    ) -> None:
        self._model, self._rescorer, self._notifications = model, rescorer, notifications
        self._n_nearest = n_nearest
        self._writer = PoolWriter(database)

    def recognize(
        self, X: ArrayLike, items: Sequence[Item] | None, remember: bool, keep_known: bool
    ) -> Answers:
        """Name samples or answer unknown."""
        with self._model.reading() as (model, version):
            features = as_features(X, model.n_features_in_)
            if items is not None and len(items) != len(features):
                raise Refused(f"There are {len(features)} samples and {len(items)} items: give one for each.")
            if not len(features):
                raise Refused("No samples were given.")
            judgement = judge(model, features, self._n_nearest)
        ids: list[int | None] = [None] * len(features)
        rows = [i for i, label in enumerate(judgement.labels) if remember and (label is None or keep_known)]
        if rows:
            things = [Item() if items is None else items[i] for i in rows]
            check_items(things)
            new = [
                NewSample(features[i], item, verdict, "pending" if verdict.answer is None else "recognized")
                for i, item, verdict in zip(rows, things, judgement.verdicts(rows, version), strict=True)
            ]
            stored = self._writer.store(new)
            for i, sample_id in zip(rows, stored, strict=True):
                ids[i] = sample_id
            if self._model.version != version:
                self._rescorer.rescore(stored)
            self._notifications.publish("unknown", {"samples": len(stored)})
        return Answers(
            judgement.labels,
            judgement.decision,
            judgement.membership,
            judgement.nearest_labels,
            judgement.nearest_distances,
            judgement.nearest_memberships,
            ids,
            judgement.threshold,
            version,
        )

    def close(self) -> None:
        """Store what waits and stop."""
        self._writer.close()
