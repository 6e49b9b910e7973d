"""The unknown pool: listing and reading stored samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from openworld.service.results import NotFound, Page, PoolFilter, Refused, Sample
from openworld.store import Database, samples
from openworld.store import pool as stored
from openworld.store.pool import Ids
from openworld.store.samples import Features

_SIMILAR_BATCH = 5000
_PENDING = PoolFilter()


class Pool:
    """The stored samples."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, where: PoolFilter = _PENDING, after: str | None = None, limit: int = 100) -> Page:
        """List samples; give the `next` of a page as `after` to continue."""
        try:
            with self._database.read() as connection:
                return Page(*stored.page(connection, where, after, limit))
        except stored.BadCursor:
            raise Refused(f"{after!r} is not a cursor of this list: start again without a cursor.") from None

    def ids(self, where: PoolFilter = _PENDING, limit: int | None = None) -> list[int]:
        """List the ids of samples, in the order of `page`."""
        with self._database.read() as connection:
            return stored.ids(connection, where, limit)

    def count(self, where: PoolFilter = _PENDING) -> int:
        """Count samples."""
        with self._database.read() as connection:
            return stored.count(connection, where)

    def get(self, sample_id: int) -> Sample:
        """Return one sample, or raise `NotFound`."""
        with self._database.read() as connection:
            found = samples.find(connection, [sample_id])
        if not found:
            raise NotFound(f"There is no sample {sample_id}.")
        return found[sample_id]

    def some(self, sample_ids: Sequence[int]) -> list[Sample]:
        """Return the samples that exist of those asked for."""
        with self._database.read() as connection:
            return list(samples.find(connection, sample_ids).values())

    def thumbnail(self, sample_id: int) -> bytes:
        """Return the small picture of a sample, or raise `NotFound`."""
        return self._picture(sample_id, large=False)

    def preview(self, sample_id: int) -> bytes:
        """Return the largest picture of a sample that is stored, or raise `NotFound`."""
        return self._picture(sample_id, large=True)

    def _picture(self, sample_id: int, *, large: bool) -> bytes:
        with self._database.read() as connection:
            picture = samples.picture_of(connection, sample_id, large=large)
        if picture is None:
            raise NotFound(f"Sample {sample_id} has no picture.")
        return picture

    def features(self, sample_ids: Sequence[int]) -> Features:
        """Return the features of samples, shape (n, D), in the order asked for."""
        with self._database.read() as connection:
            try:
                return samples.features_of(connection, sample_ids)
            except KeyError as error:
                raise NotFound(f"There is no sample {error.args[0]}.") from None

    def pending(self) -> tuple[Ids, Ids]:
        """Return the ids of all pending samples, ascending, and their clusters, -1 for none."""
        with self._database.read() as connection:
            return stored.pending(connection)

    def similar(self, sample_id: int, n: int = 20) -> list[tuple[Sample, float]]:
        """Return the pending samples nearest to one, nearest first, with distances in feature space."""
        wanted = self.features([sample_id])[0].astype(np.float64)
        ids, squares = np.empty(0, dtype=np.int64), np.empty(0)
        with self._database.read() as connection:
            for some, features in stored.pending_features(connection, _SIMILAR_BATCH):
                apart = features - wanted
                ids = np.concatenate([ids, some])
                squares = np.concatenate([squares, np.einsum("ij,ij->i", apart, apart)])
                squares[ids == sample_id] = np.inf
                near = np.argsort(squares, kind="stable")[:n]  # of equals, the one that was stored first
                ids, squares = ids[near], squares[near]
            found = samples.find(connection, ids.tolist())
        pairs = zip(ids.tolist(), np.sqrt(squares).tolist(), strict=True)
        return [(found[i], distance) for i, distance in pairs if i != sample_id]

    def labeled(self) -> Iterator[tuple[Sample, Features]]:
        """Yield every labeled sample with its feature."""
        with self._database.read() as connection:
            yield from stored.labeled(connection)
