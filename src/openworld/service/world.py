"""The world: recognizer, pool of the unknown, people's acts and their history, behind one object.

Every method may be called from any thread. An act that returns is committed; an act that raises changed
nothing. `Refused`, `NotFound` and `Conflict` are the errors of an act; their messages are for people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openworld.model_file import dumps
from openworld.service.auth.keys import ApiKeys
from openworld.service.beginning import begin
from openworld.service.changes import Changes, Subscription
from openworld.service.classes import Classes
from openworld.service.clustering import Clusters
from openworld.service.labeller import Labeller
from openworld.service.once import Once
from openworld.service.pool import Pool
from openworld.service.recognition import Recognition
from openworld.service.replicas import Replicas
from openworld.service.rescoring import Rescorer
from openworld.service.results import (
    Answers,
    ClassInfo,
    Cluster,
    ClusterDraft,
    Comparison,
    Event,
    Item,
    Key,
    Outcome,
    Page,
    PoolFilter,
    Preview,
    Progress,
    Rescored,
    Role,
    Sample,
    Version,
)
from openworld.service.reviser import Reviser
from openworld.service.scribe import Scribe
from openworld.service.settings import WorldSettings
from openworld.store import Database, kept

_PENDING = PoolFilter()


class World:
    """A living recognizer on a database; make one with `World.open`."""

    @classmethod
    def open(
        cls,
        url: str,
        base_model: str | PathLike[str] | Any | None = None,
        settings: WorldSettings = WorldSettings(),  # noqa: B008 -- frozen
    ) -> World:
        """Open a database, bring its tables up to date and its model to where it was.

        Parameters
        ----------
        url : str
            Of SQLAlchemy: ``sqlite:///file.db`` or ``postgresql+psycopg://...``.
        base_model : path of a model file or fitted recognizer, optional
            What a new database begins with. One that has begun keeps its own; another model is refused.
        """
        return cls(url, base_model, settings)

    def __init__(self, url: str, base_model: Any, settings: WorldSettings) -> None:
        self._database = Database(url)
        self._changes = Changes()
        try:
            begin(self._database, base_model)
            self._scribe = Scribe(self._database, settings, self._changes)
        except BaseException:
            self._database.close()
            raise
        self._rescorer = Rescorer(self._database, self._scribe, settings, self._changes)
        self._pool = Pool(self._database)
        self._recognition = Recognition(
            self._database, self._scribe.living, self._rescorer, self._changes, settings.n_nearest
        )
        self._labeller = Labeller(self._scribe, settings.n_nearest)
        self._classes = Classes(self._scribe)
        self._clusters = Clusters(self._scribe, self._changes, settings.lease_seconds)
        self._reviser = Reviser(self._scribe)
        self._keys = ApiKeys(self._database)
        self._once = Once(self._scribe)
        self._replicas = Replicas(self._database, self._changes, self._follow, self._rescorer.hear)

    def close(self) -> None:
        """Finish what is under way and leave the database; nothing acknowledged is lost without it."""
        self._replicas.close()
        self._recognition.close()
        self._rescorer.close()
        self._database.close()

    def _done(self, outcome: Outcome) -> Outcome:
        """Have the pool scored again where there is a new version."""
        self._rescorer.want()
        return outcome

    def _follow(self) -> None:
        """Learn what other servers on the database have learnt."""
        if self._scribe.follow():
            self._rescorer.want()

    # -- recognizing ------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version of the model that answers now."""
        return self._scribe.living.version

    @property
    def n_features(self) -> int:
        """How many numbers a feature has."""
        with self._scribe.living.reading() as (model, _):
            return int(model.n_features_in_)

    @property
    def extractor(self) -> dict[str, str] | None:
        """The id of the extractor that the model's features are from, if the model file names one."""
        with self._scribe.living.reading() as (model, _):
            return getattr(model, "extractor_", None)

    def recognize(
        self,
        X: ArrayLike,
        items: Sequence[Item] | None = None,
        *,
        remember: bool = True,
        keep_known: bool = False,
    ) -> Answers:
        """Name each sample or answer unknown; the unknown go to the pool before this returns.

        Parameters
        ----------
        X : array of shape (n, D)
        items : sequence of n Items, optional
            Text, source and thumbnail of each sample.
        remember : bool, default=True
            Store the unknown. The same content again gets the same `sample_id`.
        keep_known : bool, default=False
            Store the recognized samples as well.
        """
        return self._recognition.recognize(X, items, remember, keep_known)

    # -- the pool ---------------------------------------------------------------------------------

    def pool(self, where: PoolFilter = _PENDING, after: str | None = None, limit: int = 100) -> Page:
        """List samples; give the `next` of a page as `after` to go on."""
        return self._pool.page(where, after, limit)

    def sample_ids(self, where: PoolFilter = _PENDING, limit: int | None = None) -> list[int]:
        """List the ids of samples, in the order of `pool`."""
        return self._pool.ids(where, limit)

    def count(self, where: PoolFilter = _PENDING) -> int:
        """Count samples."""
        return self._pool.count(where)

    def sample(self, sample_id: int) -> Sample:
        """Return one sample, or raise `NotFound`."""
        return self._pool.sample(sample_id)

    def thumbnail(self, sample_id: int) -> bytes:
        """Return the picture of a sample, or raise `NotFound`."""
        return self._pool.thumbnail(sample_id)

    def features(self, sample_ids: Sequence[int]) -> NDArray[np.floating[Any]]:
        """Return the features of samples, shape (n, D), in the order asked for."""
        return self._pool.features(sample_ids)

    def pending(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ids of all pending samples, ascending, and their clusters, -1 for none."""
        return self._pool.pending()

    def in_metric(self, X: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Map samples to the space where the model in force takes distances."""
        with self._scribe.living.reading() as (model, _):
            return np.asarray(model.metric_.transform(X))

    def similar(self, sample_id: int, n: int = 20) -> list[tuple[Sample, float]]:
        """Return the pending samples nearest to one, nearest first, with distances in feature space."""
        return self._pool.similar(sample_id, n)

    def rescored(self, version: int | None = None, timeout: float | None = None) -> Rescored | None:
        """Wait until the pool was scored by a version (by default the current one) or a later one.

        Returns None when `timeout` seconds have passed. With ``timeout=0`` it does not wait.
        """
        return self._rescorer.wait(self.version if version is None else version, timeout)

    # -- clusters ---------------------------------------------------------------------------------

    def clusters(self) -> list[Cluster]:
        """List the clusters that have pending samples, largest first."""
        return self._clusters.all()

    def cluster(self, cluster_id: int) -> Cluster:
        """Return one cluster, or raise `NotFound`."""
        return self._clusters.one(cluster_id)

    def set_clusters(self, drafts: Sequence[ClusterDraft]) -> list[int]:
        """Replace the clusters by what the clustering job found, and return their ids.

        Clusters that a person holds, merged or split stay as they are, and so do their samples.
        """
        return self._clusters.set(drafts)

    def lease_cluster(self, cluster_id: int, who: str) -> Cluster:
        """Hold a cluster, or hold it longer; raise `Conflict` where another person holds it."""
        return self._clusters.lease(cluster_id, who)

    def release_cluster(self, cluster_id: int, who: str) -> None:
        """Let go of a cluster; nothing happens where it is not held by this person."""
        self._clusters.release(cluster_id, who)

    def merge_clusters(self, cluster_ids: Sequence[int], who: str) -> Outcome:
        """Make one cluster of several: the first one takes the samples of the others."""
        return self._clusters.merge(cluster_ids, who)

    def split_cluster(self, cluster_id: int, sample_ids: Sequence[int], who: str) -> Outcome:
        """Move some samples of a cluster to a new cluster; its id is in the event's payload, as `into`."""
        return self._clusters.split(cluster_id, sample_ids, who)

    # -- acts -------------------------------------------------------------------------------------

    @property
    def once(self) -> Once:
        """What does an act once that is asked for twice."""
        return self._once

    def learn(
        self, X: ArrayLike, labels: Sequence[str], who: str, items: Sequence[Item] | None = None
    ) -> Outcome:
        """Learn labelled samples. A sample learnt before under the same label is not learnt twice."""
        return self._done(self._labeller.learn(X, labels, who, items))

    def label(self, sample_ids: Sequence[int], label: str, who: str) -> Outcome:
        """Give stored samples a label, of a known or a new class, and learn them.

        Samples that have this label already are passed over; one with another label is a `Conflict`.
        """
        return self._done(self._labeller.label(sample_ids, label, who))

    def label_cluster(self, cluster_id: int, label: str, who: str, without: Sequence[int] = ()) -> Outcome:
        """Label the pending samples of a cluster, except the strays in `without`."""
        return self._done(self._labeller.label_cluster(cluster_id, label, who, without))

    def dismiss(self, sample_ids: Sequence[int], reason: str, who: str) -> Outcome:
        """Take samples out of the pool that are no class or bad input."""
        return self._done(self._labeller.dismiss(sample_ids, reason, who))

    def accept(self, sample_id: int, label: str, who: str) -> Outcome:
        """Say that a rejected sample is of a known class: it is learnt, and the threshold heeds it."""
        return self._done(self._labeller.label([sample_id], label, who, "accept"))

    def preview(self, sample_ids: Sequence[int], label: str) -> Preview:
        """Tell what labelling these samples would change, without doing it."""
        return self._labeller.preview(sample_ids, label)

    def progress(self, who: str) -> Progress:
        """Count pending, recognized, labelled and dismissed samples, and those of one person."""
        return self._labeller.progress(who)

    # -- classes ----------------------------------------------------------------------------------

    def classes(self) -> list[ClassInfo]:
        """List the known classes with counts and descriptions, without examples and neighbours."""
        return self._classes.all()

    def class_info(self, label: str, examples: int = 12) -> ClassInfo:
        """Return one class with its nearest other class and some labelled samples, or raise `NotFound`."""
        return self._classes.one(label, examples)

    def describe(self, label: str, text: str, who: str) -> Outcome:
        """Say what a class is."""
        return self._done(self._classes.describe(label, text, who))

    def rename(self, old: str, new: str, who: str) -> Outcome:
        """Give a class another name that no class has."""
        return self._done(self._classes.rename(old, new, who))

    def merge(self, labels: Sequence[str], into: str, who: str) -> Outcome:
        """Make one class of several."""
        return self._done(self._classes.merge(labels, into, who))

    def forget(self, label: str, who: str) -> Outcome:
        """Forget a class; its stored samples return to the pool."""
        return self._done(self._classes.forget(label, who))

    # -- history ----------------------------------------------------------------------------------

    def undo(self, who: str, event_id: int | None = None) -> Outcome:
        """Undo an act: by default the person's last one that is not undone."""
        return self._done(self._reviser.undo(who, event_id))

    def redo(self, who: str, event_id: int | None = None) -> Outcome:
        """Do an undone act again: by default what the person undid last, unless they acted since."""
        return self._done(self._reviser.redo(who, event_id))

    def history(self, before: int | None = None, limit: int = 100, who: str | None = None) -> list[Event]:
        """List acts, newest first; give the id of the last as `before` to go on."""
        return self._reviser.history(before, limit, who)

    def versions(self, before: int | None = None, limit: int = 100) -> list[Version]:
        """List versions of the model, newest first."""
        return self._reviser.versions(before, limit)

    def compare_versions(self, a: int, b: int) -> Comparison:
        """Tell which classes and counts differ between two versions."""
        return self._reviser.compare(a, b)

    def activate(self, version: int, who: str) -> Outcome:
        """Go back to the model of an earlier version, as a new version; labels follow."""
        return self._done(self._reviser.activate(version, who))

    # -- exports, watching, keys ------------------------------------------------------------------

    def export_labelled(self) -> Iterator[tuple[Sample, NDArray[np.floating[Any]]]]:
        """Yield every labelled sample with its feature."""
        return self._pool.labelled()

    def export_log(self) -> Iterator[Event]:
        """Yield every act, oldest first."""
        return self._reviser.export()

    def export_model(self) -> bytes:
        """Return the current model as the bytes of a model file."""
        with self._scribe.living.reading() as (model, _):
            return dumps(model)

    def subscribe(self) -> Subscription:
        """Listen to changes: a context manager whose `get(timeout)` returns the next `Change`."""
        return self._changes.subscribe()

    def turn(self, name: str, *, wait: bool = True) -> AbstractContextManager[bool]:
        """Let one server on the database at a time do something; gives whether it is this one's turn."""
        return self._database.turn(name, wait=wait)

    def kept(self, name: str) -> bytes | None:
        """Return what the servers on the database share under a name, if anything."""
        with self._database.read() as connection:
            return kept.get(connection, name)

    def keep(self, name: str, data: bytes, *, replace: bool = True) -> bytes:
        """Share something with the other servers; return what is there then.

        With ``replace=False`` what is there already stays.
        """
        with self._database.write() as connection:
            before = None if replace else kept.get(connection, name)
            if before is None:
                kept.put(connection, name, data)
        return data if before is None else before

    def create_key(self, name: str, role: Role) -> str:
        """Make an API key and return its secret, which is not stored."""
        return self._keys.create(name, role)

    def check_key(self, secret: str) -> Key | None:
        """Return the key with this secret, unless there is none or it was revoked."""
        return self._keys.check(secret)

    def keys(self) -> list[Key]:
        """List all keys, revoked ones too."""
        return self._keys.all()

    def revoke_key(self, name: str) -> None:
        """Make a key useless, or raise `NotFound`."""
        self._keys.revoke(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
