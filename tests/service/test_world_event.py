"""Groups of near copies in events: from the stored samples to the model, and the same in every replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld import OpenWorldRecognizer, model_file
from openworld.service.events import event_of
from openworld.service.live_model import copy
from openworld.service.quality import Review
from openworld.service.settings import WorldSettings
from openworld.service.validation import Refused
from openworld.service.world import World
from openworld.service.world_event import groups_of
from openworld.store.records import SampleContent

Features = NDArray[np.float32]
N_FEATURES = 20
CENTERS = 1.4 * np.random.default_rng(99).normal(size=(100, N_FEATURES))
KEEP_ALL = WorldSettings(keep_random=1.0, max_recognized=10**6)


def bursts(n_groups: int, n_copies: int, seed: int, kinds: Sequence[int] = (40,)) -> Features:
    """Pictures of some kinds: a kind varies from burst to burst, a burst hardly at all."""
    random = np.random.default_rng(seed)
    middles = np.repeat(CENTERS[list(kinds)], n_groups, axis=0)
    middles = middles + random.normal(size=middles.shape)
    X = np.repeat(middles, n_copies, axis=0)
    return (X + 0.1 * random.normal(size=X.shape)).astype(np.float32)


@pytest.fixture(scope="module")
def base() -> OpenWorldRecognizer:
    labels = np.repeat([f"kind {i}" for i in range(12)], 10)
    return OpenWorldRecognizer().fit(bursts(10, 1, 0, range(12)), labels)


def items(groups: Sequence[str | None]) -> list[SampleContent]:
    return [SampleContent(group=group) for group in groups]


def stored(world: World, X: Features, groups: Sequence[str | None]) -> list[int]:
    return [i for i in world.recognize(X, items(groups)).sample_ids if i is not None]


def digest(world: World) -> str:
    return model_file.digest(world.model.to_bytes())


def payloads(world: World) -> list[dict[str, Any]]:
    return [dict(event.payload) for event in world.history.export()]


def test_a_class_named_from_one_burst_is_recognized_more_often(
    tmp_path: Any, base: OpenWorldRecognizer
) -> None:
    new = bursts(200, 1, 5)
    found = {None: 0.0, "burst": 0.0}
    with World.open(f"sqlite:///{tmp_path / 'world.db'}", base) as world:
        for seed in range(10, 14):
            for group in found:
                ids = stored(world, bursts(1, 10, seed), [group] * 10)
                world.labels.label(ids, "okapi", "ann")
                labels = world.recognize(new, remember=False).labels
                found[group] += labels.count("okapi") / len(labels) / 4
                world.history.undo("ann")
    assert found["burst"] > found[None] + 0.2


def teach(world: World, leave_out: int | None = None) -> None:
    """Learn, label and review samples with groups; one that is learned may be left out."""
    X = bursts(3, 4, 1, (40, 41, 0))
    groups: list[str | None] = [f"burst {i // 4}" for i in range(len(X))]
    groups[11] = None
    rows = [i for i in range(12) if i != leave_out]
    world.labels.learn(X[rows], ["okapi"] * len(rows), "ann", items([groups[i] for i in rows]))
    ids = stored(world, X[12:24], groups[12:24])
    world.labels.label(ids[:6], "quoll", "ann")
    ids = stored(world, X[24:], groups[24:])
    recognized = [i for i in ids if world.pool.get(i).answer is not None]
    assert len(recognized) > 5
    reviews = [Review(i, False, "quoll" if n % 3 else None) for n, i in enumerate(recognized)]
    world.recognized.feedback(reviews, "ann")
    world.classes.rename("quoll", "tiger quoll", "ann")


def test_replay_undo_and_redo_give_the_same_model(url: str, base: OpenWorldRecognizer) -> None:
    with World.open(url, base, KEEP_ALL) as world:
        before = digest(world)
        teach(world)
        taught = digest(world)
        kinds = [event.kind for event in world.history.export()]
        assert kinds == ["learn", "label", "feedback", "rename"]
        for payload in payloads(world)[:3]:
            assert len(payload["groups"]) == len(payload["samples"])
        for _ in kinds:
            world.history.undo("ann")
        assert digest(world) == before
        for _ in kinds:
            world.history.redo("ann")
        assert digest(world) == taught
        with World.open(url, alone=False) as replica:
            assert digest(replica) == taught
            outcome = world.labels.learn(bursts(1, 3, 9), ["okapi"] * 3, "ann", items(["one"] * 3))
            replica.event_log.follow()
            assert replica.model.version == outcome.model_version
            assert digest(replica) == digest(world) != taught
            world.history.undo("ann")
            replica.event_log.follow()
            assert digest(replica) == taught
    with World.open(url) as world:
        assert digest(world) == taught
        world.event_log.snapshot()
    with World.open(url) as world:
        assert digest(world) == taught


def test_the_model_learns_what_the_event_says(
    tmp_path: Any, base: OpenWorldRecognizer, state_of: Callable[[Any], Any]
) -> None:
    X, groups = bursts(2, 4, 3), ["monday"] * 4 + [None, None, "friday", "friday"]
    with World.open(f"sqlite:///{tmp_path / 'world.db'}", base) as world:
        world.labels.learn(X, ["okapi"] * 8, "ann", items(groups))
        assert payloads(world)[0]["groups"] == ["monday"] * 4 + ["", "", "friday", "friday"]
        with world.model.reading() as (live, _):
            direct = copy(base).partial_fit(X, ["okapi"] * 8, groups=groups)
            assert live.threshold_ == direct.threshold_
            assert state_of(live) == state_of(direct)
            assert live.threshold_ != copy(base).partial_fit(X, ["okapi"] * 8).threshold_


def test_without_groups_events_are_as_they_were(tmp_path: Any, base: OpenWorldRecognizer) -> None:
    with World.open(f"sqlite:///{tmp_path / 'world.db'}", base) as world:
        world.labels.learn(bursts(1, 2, 1), ["okapi"] * 2, "ann", items([None, None]))
        ids = stored(world, bursts(4, 1, 2, (50,)), [None] * 4)
        world.labels.label(ids, "quoll", "ann")
        assert payloads(world) == [
            {"samples": [1, 2], "labels": ["okapi"] * 2},
            {"samples": ids, "label": "quoll"},
        ]


def test_an_erased_sample_of_a_group_was_never_learned(
    url: str, tmp_path: Any, base: OpenWorldRecognizer
) -> None:
    with World.open(f"sqlite:///{tmp_path / 'other.db'}", base, KEEP_ALL) as other:
        teach(other, leave_out=5)
        expected = digest(other)
    with World.open(url, base, KEEP_ALL) as world:
        teach(world)
        assert digest(world) != expected
        world.labels.erase([6], "ann")
        assert digest(world) == expected
    with World.open(url) as world:
        assert digest(world) == expected


def test_samples_that_move_to_another_class_take_their_groups_along(
    tmp_path: Any, base: OpenWorldRecognizer
) -> None:
    with World.open(f"sqlite:///{tmp_path / 'world.db'}", base) as world:
        world.labels.learn(bursts(2, 2, 1), ["okapi"] * 4, "ann", items(["a", "a", "b", None]))
        world.labels.relabel([2, 3], "quoll", "ann", admin=False)
        rest, moved = payloads(world)[-2:]
        assert rest == {"samples": [1, 4], "labels": ["okapi"] * 2, "groups": ["a", ""]}
        assert moved == {"samples": [2, 3], "label": "quoll", "groups": ["a", "b"]}


def test_a_known_sample_keeps_its_group(url: str, base: OpenWorldRecognizer) -> None:
    with World.open(url, base, KEEP_ALL) as world:
        X = bursts(1, 3, 4)
        ids = stored(world, X, ["first", None, None])
        world.recognize(X, items(["second", "second", None]))
        assert [world.pool.get(i).group for i in ids] == ["first", "second", None]
        world.labels.learn(X, ["okapi"] * 3, "ann", items(["third"] * 3))
        assert payloads(world)[0]["groups"] == ["first", "second", "third"]
        assert [world.pool.get(i).group for i in ids] == ["first", "second", "third"]


def test_a_model_that_takes_no_groups_learns_without_them(world: World, things: Any) -> None:
    ids = stored(world, things(5, 3), ["burst"] * 3)
    world.labels.label(ids, "five", "ann")
    assert payloads(world)[0]["groups"] == ["burst"] * 3
    assert world.recognize(things(5), remember=False).labels == ["five"]


@pytest.mark.parametrize("group", ["\0", "\ud800", "x" * 201])
def test_groups_that_cannot_be_stored_are_refused(world: World, things: Any, group: str) -> None:
    with pytest.raises(Refused, match="A group"):
        world.recognize(things(5), items([group]))
    with pytest.raises(Refused, match="A group"):
        world.labels.learn(things(5), ["five"], "ann", items([group]))
    assert world.pool.count() == 0


def test_groups_of_samples() -> None:
    assert groups_of(["a", None, ""]) == ["a", "", ""]
    assert groups_of([None, ""]) == groups_of([]) == []
    event = event_of("label", {"samples": [1, 2], "label": "a", "groups": ["x", ""]})
    assert event.without({1}).payload == {"samples": [2], "label": "a", "groups": [""]}
    feedback = {"samples": [1, 2], "labels": [None, "a"], "answers": ["b", "b"], "random": [True, False]}
    assert event_of("feedback", {**feedback, "groups": ["x", "y"]}).payload["groups"] == ["x", "y"]
