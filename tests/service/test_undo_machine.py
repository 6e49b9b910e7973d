"""Random events, undos, redos and rollbacks, with restarts, against a model that is taught the plain list."""

from __future__ import annotations

import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.typing import NDArray

from openworld import EuclideanMetric, NearestNonOutlier, OpenWorldRecognizer
from openworld.distributed import takes_groups
from openworld.model_file.documents import describe
from openworld.service.settings import WorldSettings
from openworld.service.validation import Conflict, NotFound, Refused
from openworld.service.world import World
from openworld.service.world_event import EventOutcome
from openworld.store.records import SampleContent

pytestmark = pytest.mark.filterwarnings("ignore:Too little to calibrate with")  # all classes but one may go

RANDOM = np.random.default_rng(3)
CENTERS = RANDOM.normal(size=(8, 3)) * 10
PROBE = (np.repeat(CENTERS, 2, axis=0) + RANDOM.normal(size=(16, 3))).astype(np.float32)
LABELS = st.sampled_from(["a", "b", "c", "d", "e"])
WHO = st.sampled_from(["ann", "bob"])
Action = tuple[str, Any]


def _base(kind: str) -> Any:
    X = (np.repeat(CENTERS[:3], 6, axis=0) + RANDOM.normal(size=(18, 3))).astype(np.float32)
    y = np.repeat(["a", "b", "c"], 6)
    if kind == "nno":
        return NearestNonOutlier(EuclideanMetric(standardize=False), tau=4.0).fit(X, y)
    return OpenWorldRecognizer(n_lifted=0, refresh_growth=0.1).fit(X, y)


BASES = {kind: _base(kind) for kind in ("nno", "adaptive")}


class UndoMachine(RuleBasedStateMachine):
    """The reference keeps, for each version, the plain list of what the model was taught."""

    @initialize(kind=st.sampled_from(["nno", "adaptive"]))
    def begin(self, kind: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{Path(self.folder.name) / 'world.db'}"
        self.kind = kind
        self.settings = WorldSettings(snapshot_events=3, snapshots_kept=2)
        self.world = World.open(self.url, BASES[kind], self.settings)
        self.lists: list[list[tuple[int, Action]]] = [[]]  # of each version
        self.seed = 0
        for thing, label in ((3, "d"), (4, "e"), (0, "a")):
            self.learn(thing, label, "ann", None)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()
            self.folder.cleanup()

    def _try(self, action: Action, who: str) -> None:
        """Append an event to the world; where it is refused the reference must refuse it too."""
        try:
            outcome = self._do(action, who)
        except (Refused, NotFound, Conflict):
            with pytest.raises((ValueError, KeyError)):
                _teach(_model(self.kind, self.lists[-1]), action)
            return
        assert outcome.event_id is not None
        assert outcome.model_version == len(self.lists)
        self.lists.append([*self.lists[-1], (outcome.event_id, action)])

    def _do(self, action: Action, who: str) -> EventOutcome:
        match action:
            case ("learn", (X, label, group)):
                items = [SampleContent(group=group)] * len(X)
                return self.world.labels.learn(X, [label] * len(X), who, items)
            case ("rename", (old, new)):
                return self.world.classes.rename(old, new, who)
            case ("merge", (labels, into)):
                return self.world.classes.merge(labels, into, who)
            case (_, label):
                return self.world.classes.forget(label, who)

    @rule(thing=st.integers(0, 7), label=LABELS, who=WHO, group=st.sampled_from([None, "x", "y"]))
    def learn(self, thing: int, label: str, who: str, group: str | None) -> None:
        self.seed += 1
        X = CENTERS[thing] + np.random.default_rng(self.seed).normal(size=(2, 3))
        self._try(("learn", (X.astype(np.float32), label, group)), who)

    @rule(old=LABELS, new=LABELS, who=WHO)
    def rename(self, old: str, new: str, who: str) -> None:
        if old != new:
            self._try(("rename", (old, new)), who)

    @rule(labels=st.lists(LABELS, min_size=2, max_size=2, unique=True), into=LABELS, who=WHO)
    def merge(self, labels: list[str], into: str, who: str) -> None:
        parts = [label for label in labels if label != into]
        if into in _model(self.kind, self.lists[-1]).classes_:
            self._try(("merge", (parts, into)), who)
        else:
            with pytest.raises(NotFound):
                self.world.classes.merge(parts, into, who)

    @rule(label=LABELS, who=WHO)
    def forget(self, label: str, who: str) -> None:
        self._try(("forget", label), who)

    @precondition(lambda self: len(self.lists[-1]) > 0)
    @rule(data=st.data(), who=WHO)
    def undo_and_redo(self, data: st.DataObject, who: str) -> None:
        actions = self.lists[-1]
        position = data.draw(st.integers(0, len(actions) - 1))
        without = actions[:position] + actions[position + 1 :]
        try:
            outcome = self.world.history.undo(who, actions[position][0])
        except Refused:
            with pytest.raises((ValueError, KeyError)):
                _model(self.kind, without)
            return
        assert outcome.model_version == len(self.lists)
        self.lists.append(without)
        if data.draw(st.booleans()):
            self.check()
            assert self.world.history.redo(who).model_version == len(self.lists)
            self.lists.append(actions)

    @rule(data=st.data(), who=WHO)
    def roll_back(self, data: st.DataObject, who: str) -> None:
        version = data.draw(st.integers(0, len(self.lists) - 1))
        before = self.lists[-1]
        outcome = self.world.history.rollback(version, who)
        if self.lists[version] != before:
            assert outcome.model_version == len(self.lists)
            self.lists.append(self.lists[version])
        if data.draw(st.booleans()):
            outcome = self.world.history.undo(who, outcome.event_id)
            if self.lists[-1] != before:
                assert outcome.model_version == len(self.lists)
                self.lists.append(before)

    @rule()
    def open_again(self) -> None:
        self.world.close()
        self.world = World.open(self.url, settings=self.settings)

    @invariant()
    def check(self) -> None:
        if not hasattr(self, "world"):
            return
        model = _model(self.kind, self.lists[-1])
        answers = self.world.recognize(PROBE, remember=False)
        assert answers.model_version == len(self.lists) - 1
        with self.world.model.reading() as (live, _):
            assert _state(live) == _state(model)
        expected = [None if label == "unknown" else label for label in model.predict(PROBE)]
        assert answers.labels == expected
        if self.kind == "adaptive":
            assert np.array_equal(answers.judgement.decision, model.decision_function(PROBE).max(axis=1))
        else:
            assert np.array_equal(answers.judgement.distances, model.nearest_classes(PROBE)[1])
        labels: dict[bytes, str] = {}
        for _, action in self.lists[-1]:
            _fold_labels(labels, action)
        stored = {feature.tobytes(): sample.label for sample, feature in self.world.pool.labeled()}
        assert stored == labels


def _state(model: Any) -> tuple[str, dict[str, bytes]]:
    document, arrays = describe(model)
    return repr(document), {name: array.tobytes() for name, array in arrays.items()}


def _fold_labels(labels: dict[bytes, str], action: Action) -> None:
    match action:
        case ("learn", (X, label, _)):
            labels.update({x.tobytes(): label for x in X})
        case ("rename", (old, new)):
            labels.update({x: new for x, label in labels.items() if label == old})
        case ("merge", (parts, into)):
            labels.update({x: into for x, label in labels.items() if label in parts})
        case (_, forgotten):
            for x in [x for x, label in labels.items() if label == forgotten]:
                del labels[x]


def _model(kind: str, actions: list[tuple[int, Action]]) -> Any:
    model = deepcopy(BASES[kind])
    for _, action in actions:
        _teach(model, action)
    return model


def _teach(model: Any, action: Action) -> NDArray[Any]:
    match action:
        case ("learn", (X, label, group)):
            groups = {"groups": [group] * len(X)} if takes_groups(model) else {}
            model.partial_fit(X, [label] * len(X), **groups)
        case ("rename", (old, new)):
            model.rename_class(old, new)
        case ("merge", (labels, into)):
            model.merge_classes(labels, into)
        case (_, label):
            model.forget_class(label)
    found: NDArray[Any] = model.predict(PROBE)
    return found


TestUndo = UndoMachine.TestCase
TestUndo.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)
