"""`openworld evaluate loop`: a simulated deployment, with a person who has few actions to spend.

A model knows some classes; a stream brings samples of these and of others. What is unknown is pooled and
clustered, the person names clusters, the model learns, the stream goes on. Compared with labeling samples.

An action is what the page takes one gesture for: naming a cluster, selecting all of a loose one, deselecting
one stray, splitting a cluster in two, dismissing one, one step of the granularity, or labeling one sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from openworld.data.dataset import Dataset
from openworld.discovery import PoolSpace, find_clusters, split
from openworld.discovery.clusters import MIN_SIZE
from openworld.evaluation.split import make_split, usual_number_known
from openworld.recognition import OpenWorldRecognizer

Indices = NDArray[np.intp]
Row = dict[str, Any]

COLUMNS = ("data", "order", "method", "round", "actions", "labeled", "stream", "measure", "value")
FEW_STRAYS = 2  # are deselected; a cluster with more of them is split
FINER = (2, 1, 0)  # steps of the granularity at which a person looks at the pool, one after the other
MORE_ACTIONS = 10  # for those who label sample by sample


@dataclass(frozen=True)
class LoopExperiment:
    """A stream in rounds, each followed by some actions of a person.

    Attributes
    ----------
    data : tuple of str
    orders, seed : int
    n_known : int or None
        Starting classes; None for a fifth of them, from 10 to 100, and at most half.
    n_classes : int
        Classes in the stream, at most; the others are left out.
    rounds : int
    actions : int
        Actions of a person after each round. Those who label sample by sample have ten times as many.
    """

    data: tuple[str, ...] = ("letters",)
    orders: int = 2
    seed: int = 31
    n_known: int | None = None
    n_classes: int = 150
    rounds: int = 6
    actions: int = 30


def measure_order(experiment: LoopExperiment, dataset: Dataset, order: int) -> Iterator[Row]:
    """Simulate one class order with every kind of person, and yield what is reached after each round."""
    usable = min(len(np.unique(dataset.y)), experiment.n_classes)
    n_known = experiment.n_known or usual_number_known(usable)
    parts = make_split(
        dataset,
        seed=experiment.seed,
        order=order,
        n_starting=n_known,
        step=1,
        n_known=n_known,
        n_unknown=usable - n_known,
    )
    random = np.random.default_rng([experiment.seed, order])
    is_start = np.isin(dataset.y[parts.train], parts.stages[0])
    is_start &= random.random(len(is_start)) < 0.5  # the rest of the known classes comes with the stream
    stream = np.array_split(random.permutation(parts.train[~is_start]), experiment.rounds)
    for name, make in PEOPLE.items():
        person = make(dataset, parts.train[is_start], np.random.default_rng([experiment.seed, order]))
        n_actions = experiment.actions * (1 if isinstance(person, NamesClusters) else MORE_ACTIONS)
        for step, batch in enumerate(stream):
            person.receive(batch)
            person.work(n_actions)
            n_samples = sum(map(len, stream[: step + 1]))
            who = {"data": dataset.name, "order": order, "method": name, "round": step + 1}
            spent = {"actions": person.actions, "labeled": len(person.labeled), "stream": n_samples}
            for measure, value in person.measures(parts.test, parts.unknown).items():
                yield {**who, **spent, "measure": measure, "value": value}


class Teacher(ABC):
    """A person who teaches a model. `labeled` are the samples taught so far, the starting ones excluded."""

    def __init__(self, dataset: Dataset, start: Indices, random: np.random.Generator) -> None:
        self.dataset, self.start, self.random = dataset, start, random
        self.pool: Indices = start[:0]
        self.labeled: Indices = start[:0]
        self.actions = 0

    @abstractmethod
    def receive(self, batch: Indices) -> None:
        """Let the stream bring samples."""

    @abstractmethod
    def work(self, n_actions: int) -> None:
        """Spend actions on teaching the model."""

    @abstractmethod
    def predict(self, samples: Indices) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the likeliest class of each sample, and whether it is taken for one of it."""

    def measures(self, test: Indices, unknown: NDArray[Any]) -> dict[str, float]:
        """Test on samples of all classes of the stream."""
        likeliest, accepted = self.predict(test)
        right = likeliest == self.dataset.y[test]
        discovered = np.isin(unknown, self.dataset.y[self.labeled])
        return {
            "accuracy": float((right & accepted).mean()),
            "wrong accepts": float((~right & accepted).mean()),
            "classes discovered": float(discovered.mean()),
            "likeliest class right": float(right.mean()),
        }


class TeachesOpenWorld(Teacher):
    """Teaches an `OpenWorldRecognizer`, which pools what it rejects."""

    def __init__(self, dataset: Dataset, start: Indices, random: np.random.Generator) -> None:
        super().__init__(dataset, start, random)
        self.model = OpenWorldRecognizer(refresh_growth=0.05).fit(dataset.X[start], dataset.y[start])

    def receive(self, batch: Indices) -> None:
        """Pool what is rejected."""
        self.pool = np.concatenate([self.pool, batch])
        self._forget_recognized()

    def _forget_recognized(self) -> None:
        if len(self.pool):
            self.pool = self.pool[~self.model.judge(self.dataset.X[self.pool], 1).accepted]

    def _teach(self, samples: Indices) -> None:
        self.model.partial_fit(self.dataset.X[samples], self.dataset.y[samples])
        self.labeled = np.concatenate([self.labeled, samples])
        self.pool = np.setdiff1d(self.pool, samples)

    def predict(self, samples: Indices) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the nearest class, and whether the sample is accepted."""
        judged = self.model.judge(self.dataset.X[samples], 1)
        return judged.nearest[:, 0], judged.accepted


class NamesClusters(TeachesOpenWorld):
    """Names clusters from the top; deselects few strays, splits a cluster with many, dismisses noise."""

    finer = 0

    def work(self, n_actions: int) -> None:
        """Go through finer clusters, which have fewer strays, then through coarser ones."""
        last = self.actions + n_actions
        for finer in FINER:
            self.actions = min(self.actions + abs(finer - self.finer), last)
            self.finer = finer
            if self.actions == last:
                break
            self._go_through(last)

    def _go_through(self, last: int) -> None:
        """Cluster the pool and name, split or dismiss clusters."""
        space = PoolSpace.of(self.model)
        vectors = space.transform(self.dataset.X[self.pool])
        row_of = {sample: row for row, sample in enumerate(self.pool.tolist())}
        found = find_clusters(vectors, self.pool, known=space.known, finer=self.finer).clusters
        waiting = deque((cluster.members, cluster.loose) for cluster in found)
        while waiting and self.actions < last:
            members, loose = waiting.popleft()
            members = self._pending(members)
            if len(members) < MIN_SIZE or self._name(members, last, loose):
                continue
            self.actions += 1
            if len(members) >= 2 * MIN_SIZE:
                rows = [row_of[member] for member in members.tolist()]
                # What is clear comes first.
                waiting.extend((part, False) for part in split(vectors[rows], members))
            else:
                self.pool = np.setdiff1d(self.pool, members)
        self._forget_recognized()

    def _pending(self, members: Indices) -> Indices:
        """Return the members that the model, as it is now, does not recognize."""
        return members[~self.model.judge(self.dataset.X[members], 1).accepted]

    def _name(self, members: Indices, last: int, loose: bool = False) -> bool:
        """Name the commonest class without the strays, if they are few and actions are left."""
        codes = np.unique(self.dataset.y[members], return_inverse=True)[1]
        counts = np.bincount(codes)
        n_strays = len(members) - int(counts.max())
        n_actions = 1 + n_strays + loose  # nothing is selected in a loose cluster
        if n_strays > FEW_STRAYS or self.actions + n_actions > last or counts.max() < MIN_SIZE - 1:
            return False
        self.actions += n_actions
        self._teach(members[codes == counts.argmax()])
        return True


class LabelsSamples(TeachesOpenWorld):
    """Labels samples of the pool one by one, at random."""

    def work(self, n_actions: int) -> None:
        """Label samples of the pool."""
        chosen = self.random.permutation(self.pool)[:n_actions]
        self.actions += len(chosen)
        if len(chosen):
            self._teach(chosen)
            self._forget_recognized()


class LabelsForRegression(Teacher):
    """Labels samples of the stream one by one, at random, and refits logistic regression."""

    def receive(self, batch: Indices) -> None:
        """Pool everything."""
        self.pool = np.concatenate([self.pool, batch])

    def work(self, n_actions: int) -> None:
        """Label samples and refit."""
        chosen = self._choose(n_actions)
        self.actions += len(chosen)
        self.labeled = np.concatenate([self.labeled, chosen])
        self.pool = np.setdiff1d(self.pool, chosen)
        rows = np.concatenate([self.start, self.labeled])
        self.model = make_pipeline(Normalizer(), StandardScaler(), LogisticRegression(max_iter=100, tol=1e-3))
        self.model.fit(self.dataset.X[rows], self.dataset.y[rows])

    def _choose(self, n_actions: int) -> Indices:
        return self.random.permutation(self.pool)[:n_actions]

    def predict(self, samples: Indices) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the likeliest class; nothing is unknown."""
        return self.model.predict(self.dataset.X[samples]), np.ones(len(samples), dtype=bool)


class LabelsUncertain(LabelsForRegression):
    """Labels the samples with the smallest margin between the two likeliest classes first."""

    def _choose(self, n_actions: int) -> Indices:
        if not hasattr(self, "model"):
            return super()._choose(n_actions)
        likely = np.sort(self.model.predict_proba(self.dataset.X[self.pool]), axis=1)
        return self.pool[np.argsort(likely[:, -1] - likely[:, -2], kind="stable")[:n_actions]]


PEOPLE: dict[str, Callable[[Dataset, Indices, np.random.Generator], Teacher]] = {
    "openworld, names clusters": NamesClusters,
    "openworld, labels samples": LabelsSamples,
    "logistic regression, random samples": LabelsForRegression,
    "logistic regression, uncertain samples": LabelsUncertain,
}
