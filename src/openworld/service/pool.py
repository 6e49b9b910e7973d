"""Looking at the samples that are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from openworld.service.results import NotFound, Page, PoolFilter, Refused, Sample
from openworld.store import Database, samples
from openworld.store import pool as stored
from openworld.store.samples import Features

_SIMILAR_BATCH = 2000


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

    def similar(self, sample_id: int, n: int) -> list[tuple[Sample, float]]:
        """Return the pending samples nearest to one."""
        wanted = self.features([sample_id])[0].astype(np.float64)
        ids: list[int] = []
        distances = [np.empty(0)]
        with self._database.read() as connection:
            for some, features in samples.pending_features(connection, _SIMILAR_BATCH):
                ids += some
                distances.append(np.linalg.norm(features - wanted, axis=1))
            every = np.concatenate(distances)
            near = [i for i in np.argsort(every, kind="stable").tolist() if ids[i] != sample_id][:n]
            found = samples.find(connection, [ids[i] for i in near])
        return [(found[ids[i]], float(every[i])) for i in near]

    def labelled(self) -> Iterator[tuple[Sample, Features]]:
        """Yield every labelled sample with its feature."""
        with self._database.read() as connection:
            yield from stored.labelled(connection)
