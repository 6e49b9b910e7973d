"""Looking at the samples that are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from openworld.service.results import NotFound, Page, PoolFilter, Refused, Sample
from openworld.store import Database, samples
from openworld.store import pool as stored
from openworld.store.pool import Ids
from openworld.store.samples import Features

_SIMILAR_BATCH = 5000


class Pool:
    """The stored samples."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, where: PoolFilter, after: str | None, limit: int) -> Page:
        """Return the samples after a cursor."""
        try:
            with self._database.read() as connection:
                return Page(*stored.page(connection, where, after, limit))
        except stored.BadCursor:
            raise Refused(f"{after!r} is no cursor of such a list: start again without it.") from None

    def ids(self, where: PoolFilter, limit: int | None) -> list[int]:
        """Return the ids of samples."""
        with self._database.read() as connection:
            return stored.ids(connection, where, limit)

    def count(self, where: PoolFilter) -> int:
        """Count samples."""
        with self._database.read() as connection:
            return stored.count(connection, where)

    def sample(self, sample_id: int) -> Sample:
        """Return one sample."""
        with self._database.read() as connection:
            found = samples.find(connection, [sample_id])
        if not found:
            raise NotFound(f"There is no sample {sample_id}.")
        return found[sample_id]

    def thumbnail(self, sample_id: int) -> bytes:
        """Return the picture of a sample."""
        with self._database.read() as connection:
            picture = samples.thumbnail_of(connection, sample_id)
        if picture is None:
            raise NotFound(f"Sample {sample_id} has no picture.")
        return picture

    def features(self, sample_ids: Sequence[int]) -> Features:
        """Return the features of samples."""
        with self._database.read() as connection:
            try:
                return samples.features_of(connection, sample_ids)
            except KeyError as error:
                raise NotFound(f"There is no sample {error.args[0]}.") from None

    def pending(self) -> tuple[Ids, Ids]:
        """Return the ids and clusters of the pending samples."""
        with self._database.read() as connection:
            return stored.pending(connection)

    def similar(self, sample_id: int, n: int) -> list[tuple[Sample, float]]:
        """Return the pending samples nearest to one."""
        wanted = self.features([sample_id])[0].astype(np.float64)
        ids, squares = np.empty(0, dtype=np.int64), np.empty(0)
        with self._database.read() as connection:
            for some, features in stored.pending_features(connection, _SIMILAR_BATCH):
                apart = features - wanted
                ids = np.concatenate([ids, some])
                squares = np.concatenate([squares, np.einsum("ij,ij->i", apart, apart)])
                squares[ids == sample_id] = np.inf
                near = np.argsort(squares, kind="stable")[:n]  # of equals the one that came first
                ids, squares = ids[near], squares[near]
            found = samples.find(connection, ids.tolist())
        pairs = zip(ids.tolist(), np.sqrt(squares).tolist(), strict=True)
        return [(found[i], distance) for i, distance in pairs if i != sample_id]

    def labelled(self) -> Iterator[tuple[Sample, Features]]:
        """Yield every labelled sample with its feature."""
        with self._database.read() as connection:
            yield from stored.labelled(connection)
