"""Giving samples labels, or dismissing them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np
from numpy.typing import ArrayLike
from sqlalchemy import Connection

from openworld.service.acts import Lesson
from openworld.service.judging import judge
from openworld.service.results import (
    Conflict,
    Item,
    NotFound,
    Outcome,
    Preview,
    Progress,
    Refused,
    Sample,
)
from openworld.service.scribe import Act, Payload, Scribe
from openworld.service.validation import as_features, check_items, check_name, check_text
from openworld.store import clusters, samples
from openworld.store.log import Entry
from openworld.store.samples import Mark, NewSample


class Labeller:
    """The acts that give samples a label or take them out of the pool."""

    def __init__(self, scribe: Scribe, n_nearest: int) -> None:
        self._scribe, self._n_nearest = scribe, n_nearest
        self._database = scribe.database

    def learn(self, X: ArrayLike, labels: Sequence[str], who: str, items: Sequence[Item] | None) -> Outcome:
        """Learn labelled samples."""
        with self._scribe.living.reading() as (model, version):
            features = as_features(X, model.n_features_in_)
            names = [self._check_label(label) for label in labels]
            things = list(items) if items is not None else [Item()] * len(features)
            if not len(features) or len(names) != len(features) or len(things) != len(features):
                raise Refused(
                    f"There are {len(features)} samples, {len(names)} labels, {len(things)} items: give one "
                    "of each for at least one sample."
                )
            check_items(things)
            judgement = judge(model, features, self._n_nearest)
        verdicts = judgement.verdicts(list(range(len(features))), version)
        new = [NewSample(*row, "labelled", 0) for row in zip(features, things, verdicts, strict=True)]
        with self._scribe.acting():
            chosen = self._not_learnt_yet(new, names)
            if not chosen:
                return self._nothing("learn")
            some, given = [new[i] for i in chosen], [names[i] for i in chosen]

            def payload(connection: Connection) -> Payload:
                return {"samples": samples.store(self._database, connection, some), "labels": given}

            act = Act(check_name(who, "A person"), "learn", payload, len(chosen), also=_mark_labelled)
            return self._scribe.write(act, Lesson(features[chosen], given))

    def _not_learnt_yet(self, new: Sequence[NewSample], labels: Sequence[str]) -> list[int]:
        """Return which samples are to be learnt: each content once."""
        hashes = [sample.content_hash() for sample in new]
        with self._database.read() as connection:
            known = {digest: label for digest, (_, label) in samples.find_content(connection, hashes).items()}
        chosen = []
        for i, (digest, label) in enumerate(zip(hashes, labels, strict=True)):
            before = known.get(digest)
            if before is not None and before != label:
                raise Conflict(
                    f"Sample {i} is labelled {before!r} already, not {label!r}: undo that act first."
                )
            if before is None:
                chosen.append(i)
            known[digest] = label
        return chosen

    def label(self, sample_ids: Sequence[int], label: str, who: str, kind: str = "label") -> Outcome:
        """Give samples a label, and learn them; `kind` is accept for known ones that were rejected."""
        name = self._check_label(label)
        with self._scribe.acting():
            found = self._find(sample_ids, who)
            for sample in found:
                if sample.label not in (None, name):
                    raise Conflict(
                        f"Sample {sample.id} was labelled {sample.label!r} by {sample.who}, not {name!r}: "
                        "undo that act first."
                    )
            ids = [sample.id for sample in found if sample.label is None]
            if kind == "accept" and name not in self._labels():
                raise NotFound(f"There is no class {name!r} yet: label the sample to make one.")
            if not ids:
                return self._nothing(kind)
            with self._database.read() as connection:
                features = samples.features_of(connection, ids)
            payload = {"samples": ids, "label": name}
            act = Act(check_name(who, "A person"), kind, payload, len(ids), also=_mark_labelled)
            return self._scribe.write(act, Lesson(features, [name] * len(ids), kind == "accept"))

    def label_cluster(self, cluster_id: int, label: str, who: str, without: Sequence[int]) -> Outcome:
        """Label the pending samples of a cluster, except some."""
        with self._scribe.acting():
            with self._database.read() as connection:
                members = clusters.members(connection, [cluster_id])
            strays = set(without)
            ids = [i for i in members if i not in strays]
            if not ids:
                raise NotFound(f"Cluster {cluster_id} has no samples to label.")
            return self.label(ids, label, who)

    def dismiss(self, sample_ids: Sequence[int], reason: str, who: str) -> Outcome:
        """Take samples out of the pool."""
        check_text(reason, "The reason")
        with self._scribe.acting():
            found = self._find(sample_ids, who)
            for sample in found:
                if sample.state == "labelled":
                    raise Conflict(f"Sample {sample.id} is labelled {sample.label!r}: undo that act first.")
            ids = [sample.id for sample in found if sample.state != "dismissed"]
            if not ids:
                return self._nothing("dismiss")

            def also(connection: Connection, entry: Entry) -> None:
                gone = Mark("dismissed", None, entry.who, entry.at, entry.id)
                samples.mark(connection, dict.fromkeys(ids, gone))

            payload = {"samples": ids, "reason": reason}
            return self._scribe.write(
                Act(check_name(who, "A person"), "dismiss", payload, len(ids), also=also)
            )

    def preview(self, sample_ids: Sequence[int], label: str) -> Preview:
        """Tell what labelling samples would change."""
        found = self._find(sample_ids, None)
        with self._database.read() as connection:
            features = samples.features_of(connection, [sample.id for sample in found])
        labels = self._labels()
        with self._scribe.living.reading() as (model, _):
            middle = features.mean(axis=0, keepdims=True, dtype=np.float64)
            nearest = judge(model, middle, self._n_nearest).nearest(0)
        problem = None
        try:
            label = self._check_label(label)
        except Refused as error:
            problem = str(error)
        return Preview(
            label,
            label not in labels,
            sum(sample.label is None for sample in found),
            nearest,
            _similar_names(label, labels),
            {sample.id: sample.label for sample in found if sample.label is not None},
            problem,
        )

    def progress(self, who: str) -> Progress:
        """Count samples by state, of all and of one person."""
        with self._database.read() as connection:
            all_, mine = samples.count_states(connection), samples.count_states(connection, who)
        return Progress(
            all_.get("pending", 0),
            all_.get("recognized", 0),
            all_.get("labelled", 0),
            all_.get("dismissed", 0),
            mine.get("labelled", 0),
            mine.get("dismissed", 0),
        )

    def _find(self, sample_ids: Sequence[int], who: str | None) -> list[Sample]:
        """Return samples in the order given, or raise; with `who`, none that another person holds."""
        ids = list(dict.fromkeys(sample_ids))
        if not ids:
            raise Refused("No samples were given.")
        with self._database.read() as connection:
            found = samples.find(connection, ids)
            missing = [i for i in ids if i not in found]
            if missing:
                raise NotFound(f"There is no sample {missing[0]}.")
            holder = None if who is None else clusters.held_by_others(connection, ids, who)
        if holder is not None:
            raise Conflict(f"{holder} is working on these samples now.")
        return [found[i] for i in ids]

    def _check_label(self, label: str) -> str:
        name = check_name(label)
        with self._scribe.living.reading() as (model, _):
            if name == model.unknown_label_:
                raise Refused(f"{name!r} is what the model calls unknown: choose another name.")
        return name

    def _labels(self) -> list[str]:
        with self._scribe.living.reading() as (model, _):
            return [str(label) for label in model.classes_]

    def _nothing(self, kind: str) -> Outcome:
        return Outcome(None, kind, self._scribe.living.version)


def _mark_labelled(connection: Connection, entry: Entry) -> None:
    ids = entry.payload["samples"]
    labels = entry.payload["labels"] if entry.kind == "learn" else [entry.payload["label"]] * len(ids)
    samples.mark(
        connection,
        {
            i: Mark("labelled", label, entry.who, entry.at, entry.id)
            for i, label in zip(ids, labels, strict=True)
        },
    )


def _similar_names(label: str, labels: Sequence[str]) -> tuple[str, ...]:
    """Return other labels that look much like one, best first."""
    folded: dict[str, list[str]] = {}
    for name in labels:
        if name != label:
            folded.setdefault(name.casefold(), []).append(name)
    close = get_close_matches(label.casefold(), folded, n=5, cutoff=0.8)
    return tuple(name for key in close for name in folded[key])
