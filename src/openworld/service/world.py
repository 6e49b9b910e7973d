"""The world: recognizer, unknown pool, people's labels and their history, on one database.

A world is its parts; callers use them directly, from any thread:

- `model`: the live model,
- `pool`: the stored samples,
- `labels`, `classes`, `clusters`, `recognized`: what people do, as events,
- `operating_point`: how strictly the model rejects,
- `history`: events and versions; undo, redo, rollback,
- `keys`: API keys,
- `event_log`, `notifications`, `replicas`, `rescorer`: what these are built on.

An event that was acknowledged is committed; a call that raises changed nothing. `Refused`, `NotFound` and
`Conflict` have messages for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike
from sqlalchemy import Connection

from openworld import model_file
from openworld.recognition import ColdStartRecognizer
from openworld.service.auth import ApiKeys
from openworld.service.classes import Classes
from openworld.service.event_log import EventLog
from openworld.service.history import History
from openworld.service.labels import Labels
from openworld.service.live_model import check_serves, from_bytes
from openworld.service.notifications import Notifications
from openworld.service.pool import Clusters, UnknownPool
from openworld.service.quality import OperatingPoints, RecognizedSamples
from openworld.service.recognition import Recognition, RecognitionResult
from openworld.service.replicas import Replicas
from openworld.service.rescoring import Rescorer
from openworld.service.settings import WorldSettings
from openworld.service.validation import Refused
from openworld.store import Database, events
from openworld.store.records import SampleContent


class World:
    """A recognizer that keeps learning, on a database; make one with `World.open`."""

    @classmethod
    def open(
        cls,
        url: str,
        base_model: str | PathLike[str] | Any | None = None,
        settings: WorldSettings = WorldSettings(),  # noqa: B008 -- frozen
        *,
        alone: bool = True,
    ) -> World:
        """Open a database: migrate its tables, and replay its events.

        Parameters
        ----------
        url : str
            ``sqlite:///file.db`` or ``postgresql://...``.
        base_model : path of a model file, fitted recognizer, or a function that returns one, optional
            The first model of a new database; labels that are numbers become texts. An existing database
            refuses any other than its own, unless it began with nothing and nothing was done in it yet: then
            its samples are judged by this one. A function is called for a new database only.
        alone : bool, default=True
            Refuse an SQLite file that another process has opened with `alone`. Use False to read a database
            that a server has open.
        """
        return cls(url, base_model, settings, alone)

    def __init__(self, url: str, base_model: Any, settings: WorldSettings, alone: bool) -> None:
        first = None if base_model is None or callable(base_model) else _model_bytes(base_model)
        self._database = Database(url, create=base_model is not None)
        self.notifications = Notifications()
        try:
            if alone:
                self._database.lock()
            if callable(base_model) and not _has_model(self._database):
                first = _model_bytes(base_model())
            _store_first_model(self._database, first, alone)
            log = self.event_log = EventLog(self._database, settings, self.notifications)
        except BaseException:
            self._database.close(remove_if_new=True)
            raise
        self.model = log.model
        self.pool = UnknownPool(self._database)
        self.history = History(log)
        self.labels = Labels(log, self.history, settings)
        self.classes = Classes(log)
        self.clusters = Clusters(log, self.notifications, settings)
        self.keys = ApiKeys(self._database)
        self.rescorer = Rescorer(log, settings, self.notifications)
        self.replicas = Replicas(log, self.notifications)
        self.recognition = Recognition(
            self._database, self.model, self.rescorer, self.notifications, settings
        )
        self.recognized = RecognizedSamples(log, self.labels)
        self.operating_point = OperatingPoints(log, self.recognized)

    def recognize(
        self,
        X: ArrayLike,
        items: Sequence[SampleContent] | None = None,
        *,
        remember: bool = True,
    ) -> RecognitionResult:
        """Name each sample or answer unknown; unknown samples are in the pool when this returns.

        Parameters
        ----------
        X : array of shape (n, D)
        items : sequence of n SampleContent, optional
            Text, source, pictures and group of each sample.
        remember : bool, default=True
            Store the unknown samples, and the share of recognized ones that the settings ask for. The same
            content again gets the same `sample_id`.
        """
        return self.recognition.recognize(X, items, remember=remember)

    def check(self) -> None:
        """Raise unless the database can be used."""
        self._database.check()

    def close(self, *, remove_if_new: bool = False) -> None:
        """Finish the work in progress and close the database; nothing acknowledged is lost without it.

        With `remove_if_new`, an SQLite file that this world has created is removed.
        """
        self.replicas.close()
        self.recognition.close()
        self.rescorer.close()
        self._database.close(remove_if_new=remove_if_new)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _has_model(database: Database) -> bool:
    with database.read() as connection:
        return bool(events.snapshot_histories(connection))


def _store_first_model(database: Database, data: bytes | None, alone: bool) -> None:
    """Store the first model of a new database; refuse another model for an existing one."""
    model = None if data is None else from_bytes(data)
    with database.write() as connection:
        histories = events.snapshot_histories(connection)
        if histories:
            before = events.snapshot(connection, histories[0])
            if data is None or model is None or _same_model(data, before):
                return
            if not (
                _is_untouched(connection, from_bytes(before), model) and alone and not database.is_shared
            ):
                raise Refused(
                    "This database was created with another model: start without a model to continue with "
                    "it, or use a new database for the new model."
                )
            events.drop_snapshots(connection, histories)
            events.drop_versions(connection)
        if data is None or model is None:
            raise Refused(
                "This database is new: give the model to start with, or start without one: --extractor "
                "efficientnet-lite0 for pictures, --extractor minilm for texts, --features N for vectors."
            )
        labels = sorted(str(label) for label in model.statistics_.labels)
        history = model_file.digest(data)
        events.add_snapshot(connection, history, data, is_base=True)
        summary = {
            "added": labels,
            "removed": [],
            "samples": 0,
            "classes": len(labels),
            "threshold": model.threshold_,
        }
        events.add_version(connection, 0, None, history, summary)


def _is_untouched(connection: Connection, before: Any, model: Any) -> bool:
    """Return whether a database began with nothing, for the features of a model, and has no events yet.

    Samples may be in it: they were imported before there was a model.
    """
    return (
        isinstance(before, ColdStartRecognizer)
        and not len(before.statistics_)
        and events.last_id(connection) == 0
        and before.n_features_in_ == model.n_features_in_
        and getattr(before, "extractor_", None) == getattr(model, "extractor_", None)
    )


def _model_bytes(base_model: str | PathLike[str] | Any) -> bytes:
    """Return a model as the bytes of its file, with labels as texts; refuse one that cannot be served."""
    data = Path(base_model).read_bytes() if isinstance(base_model, str | PathLike) else None
    model: Any = base_model if data is None else model_file.loads(data)
    check_serves(model)
    if not isinstance(model.unknown_label_, str):
        model, data = model_file.with_text_labels(model), None
    return model_file.dumps(model) if data is None else data


def _same_model(one: bytes, other: bytes) -> bool:
    """Return whether two files hold the same model, perhaps written by different versions of this package."""
    if model_file.digest(one) == model_file.digest(other):
        return True
    first, second = (model_file.digest(model_file.dumps(from_bytes(data))) for data in (one, other))
    return first == second
