"""Reviews of recognized samples, what they estimate, and the operating point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from scipy.stats import binomtest

from openworld import OpenWorldRecognizer
from openworld.recognition import KnownRecall
from openworld.service.quality import Review
from openworld.service.settings import WorldSettings
from openworld.service.validation import Conflict, NotFound, Refused
from openworld.service.world import World
from openworld.store.records import PoolFilter

Draw = Callable[..., Any]
RECOGNIZED = PoolFilter(state="recognized", least_certain_first=True)
RANDOM = PoolFilter(state="recognized", random=True)
CENTERS = np.random.default_rng(5).normal(size=(12, 6)) * 2.2
KEEP = WorldSettings(keep_random=1.0)


@pytest.fixture
def keeping(url: str, models: Callable[[str], Any]) -> Any:
    """A world that keeps every recognized sample."""
    with World.open(url, models("nno"), WorldSettings(keep_random=1.0)) as world:
        yield world


def test_a_random_share_and_the_uncertain_are_kept(url: str, models: Any, things: Draw) -> None:
    with World.open(url, models("nno"), WorldSettings(keep_random=0.25)) as world:
        world.recognize(np.vstack([things(kind, 200, 1) for kind in range(3)]))
        kept = world.pool.page(RECOGNIZED, limit=1000).samples
        assert 90 < len(kept) < 215  # 600 x 0.25, within 6 standard deviations
        assert {sample.kept for sample in kept} == {"random"}


def test_the_uncertain_are_kept(url: str, models: Any, things: Draw) -> None:
    with World.open(url, models("nno"), WorldSettings(keep_below=1.1)) as world:
        answers = world.recognize(things(0, 5))
        assert None not in answers.sample_ids
        assert {sample.kept for sample in world.pool.page(RECOGNIZED).samples} == {"uncertain"}


def test_what_is_kept_is_bounded(url: str, models: Any, things: Draw) -> None:
    with World.open(url, models("nno"), WorldSettings(keep_random=1.0, max_recognized=10)) as world:
        for seed in range(8):
            world.recognize(things(0, 5, seed))
        kept = world.pool.page(RECOGNIZED).samples
        assert 10 <= len(kept) <= 20
        assert min(sample.id for sample in kept) > 5  # the oldest went


def test_what_came_as_unknown_and_is_recognized_later_is_in_the_random_share(
    url: str, models: Any, things: Draw
) -> None:
    with World.open(url, models("nno"), WorldSettings(keep_random=0.25)) as world:
        ids = world.recognize(things(5, 610)).sample_ids
        assert world.pool.count(RANDOM) == 0  # nothing is recognized yet
        world.labels.label(ids[:10], "teapot", "ann")
        world.rescorer.wait()
        assert world.recognized.counts() == {"teapot": 600}
        drawn = world.pool.ids(RANDOM)
        assert 90 < len(drawn) < 215  # 600 x 0.25, within 6 standard deviations
        chosen = next(i for i in ids[10:] if i not in drawn)
        world.recognized.feedback([Review(i, True) for i in (drawn[0], chosen)], "ann")
        overall, _ = world.recognized.quality()
        assert (overall.right.count, overall.right.of, overall.reviewed) == (1, 1, 2)


def test_what_came_as_unknown_leaves_the_random_share_but_is_not_deleted(
    url: str, models: Any, things: Draw
) -> None:
    with World.open(url, models("nno"), WorldSettings(keep_random=1.0, max_recognized=10)) as world:
        ids = world.recognize(things(5, 20)).sample_ids
        world.labels.label(ids[:10], "teapot", "ann")
        world.rescorer.wait()
        assert world.pool.ids(RANDOM) == ids[10:]
        newer = world.recognize(things(0, 20)).sample_ids
        assert world.pool.ids(RANDOM) == newer[10:]
        assert world.pool.ids(PoolFilter(state="recognized")) == [*ids[10:], *newer[10:]]


def test_a_review_that_was_undone_can_be_redone_though_the_sample_is_old(
    url: str, models: Any, things: Draw
) -> None:
    with World.open(url, models("nno"), WorldSettings(keep_random=1.0, max_recognized=10)) as world:
        (reviewed,) = world.recognize(things(0, 1)).sample_ids
        world.recognized.feedback([Review(reviewed, False, "b")], "ann")
        world.history.undo("ann")
        for seed in range(8):
            world.recognize(things(0, 5, 1 + seed))
        world.history.redo("ann")
        assert world.pool.get(reviewed).label == "b"


def test_least_certain_first_page_by_page(keeping: World, things: Draw) -> None:
    keeping.recognize(np.vstack([things(kind, 7, 3) for kind in range(3)]))
    listed, after = [], None
    while True:
        page = keeping.pool.page(RECOGNIZED, after, 4)
        listed += page.samples
        after = page.next
        if after is None:
            break
    assert len(listed) == len({sample.id for sample in listed}) == 21
    assert [s.membership for s in listed] == sorted(s.membership for s in listed)
    of_b = PoolFilter(state="recognized", answer="b", least_certain_first=True)
    assert {sample.answer for sample in keeping.pool.page(of_b).samples} == {"b"}
    assert keeping.recognized.counts() == {"a": 7, "b": 7, "c": 7}


def test_right_wrong_and_unknown(keeping: World, things: Draw) -> None:
    ids = keeping.recognize(things(0, 6, 5)).sample_ids
    assert None not in ids
    right, wrong, unknown = ids[:4], ids[4], ids[5]
    before = {info.label: info.count for info in keeping.classes.all()}
    outcome = keeping.recognized.feedback(
        [*(Review(i, True) for i in right), Review(wrong, False, "new"), Review(unknown, False)], "ann"
    )
    assert (outcome.kind, outcome.samples, outcome.added) == ("feedback", 6, ("new",))
    after = {info.label: info.count for info in keeping.classes.all()}
    assert after["a"] == before["a"] + 4
    assert after["new"] == 1
    assert [keeping.pool.get(i).label for i in right] == ["a"] * 4
    assert keeping.pool.get(unknown).state == "pending"
    # The model would recognize it again; what a person returned to the pool stays there.
    keeping.rescorer.wait()
    assert keeping.pool.get(unknown).state == "pending"
    keeping.history.undo("ann")
    assert {info.label: info.count for info in keeping.classes.all()} == before
    assert keeping.pool.get(wrong).label is None


def test_feedback_is_said_once_and_refused_where_it_makes_no_sense(keeping: World, things: Draw) -> None:
    (known,) = keeping.recognize(things(0)).sample_ids
    (stranger,) = keeping.recognize(things(6)).sample_ids
    assert keeping.recognized.feedback([Review(known, True)], "ann").samples == 1
    assert keeping.recognized.feedback([Review(known, True)], "ann").event_id is None
    with pytest.raises(Conflict, match="labeled by ann"):
        keeping.recognized.feedback([Review(known, False, "b")], "bob")
    with pytest.raises(Refused, match="was not recognized"):
        keeping.recognized.feedback([Review(stranger, True)], "ann")
    with pytest.raises(NotFound):
        keeping.recognized.feedback([Review(10**6, True)], "ann")


def test_the_estimate_counts_random_samples_only(url: str, models: Any, things: Draw) -> None:
    with World.open(url, models("nno"), WorldSettings(keep_below=1.1)) as world:
        ids = world.recognize(things(0, 5)).sample_ids
        world.recognized.feedback([Review(i, True) for i in ids], "ann")
        (all_classes, _) = world.recognized.quality()
        assert (all_classes.right.of, all_classes.reviewed) == (0, 5)
        assert (all_classes.right.low, all_classes.right.high) == (0.0, 1.0)


def test_the_estimate_with_its_interval(keeping: World, things: Draw) -> None:
    ids = [*keeping.recognize(things(0, 8, 2)).sample_ids, *keeping.recognize(things(1, 4, 2)).sample_ids]
    reviews = [Review(i, True) for i in ids[:9]]
    keeping.recognized.feedback([*reviews, Review(ids[9], False, "c"), Review(ids[10], False)], "ann")
    everything, a, b = keeping.recognized.quality()
    assert (everything.right.count, everything.right.of) == (9, 11)
    interval = binomtest(9, 11).proportion_ci(method="wilson")
    assert (everything.right.low, everything.right.high) == pytest.approx((interval.low, interval.high))
    assert (everything.wrong_accepts.count, everything.wrong_accepts.of) == (1, 11)
    assert (a.label, a.right.count, a.right.of) == ("a", 8, 8)
    assert (b.label, b.right.count, b.wrong_accepts.count) == ("b", 1, 1)
    keeping.history.undo("ann")
    assert keeping.recognized.quality()[0].reviewed == 0


def test_over_http(keeping: World, serving: Callable[..., Any], things: Draw) -> None:
    with serving(keeping) as client:
        ids = [sample_id for sample_id in keeping.recognize(things(0, 3, 4)).sample_ids if sample_id]
        check_http(client, ids)


@pytest.mark.parametrize("settings", [WorldSettings(keep_below=1.1), WorldSettings(keep_random=1.0)])
def test_an_answer_has_the_id_of_every_sample_that_is_kept(
    url: str, models: Any, serving: Callable[..., Any], things: Draw, settings: WorldSettings
) -> None:
    with World.open(url, models("nno"), settings) as world, serving(world) as client:
        body = {"vectors": things(0, 2).tolist()}
        found = client.post("/v1/recognize", json=body).json()["answers"]
        kept = world.pool.page(RECOGNIZED).samples
    assert {answer["sample_id"] for answer in found} == {sample.id for sample in kept}


def check_http(client: TestClient, ids: list[int]) -> None:
    headers = {"Idempotency-Key": "once"}
    body = {"reviews": [{"sample_id": ids[0], "right": True}, {"sample_id": ids[1], "unknown": True}]}
    first, second = (client.post("/v1/feedback", json=body, headers=headers).json() for _ in range(2))
    assert first == second
    quality = client.get("/v1/quality").json()
    assert quality[0]["right"]["count"] == 1
    assert quality[0]["wrong_accepts"]["count"] == 1
    twice = {"reviews": [{"sample_id": ids[2], "right": True, "unknown": True}]}
    assert client.post("/v1/feedback", json=twice).status_code == 422


# -- the operating point --------------------------------------------------------------------------


def _draw(kind: int, n: int, seed: int = 0) -> NDArray[np.float32]:
    random = np.random.default_rng([kind, seed])
    return (CENTERS[kind] + random.normal(size=(n, 6))).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> OpenWorldRecognizer:
    X, y = np.vstack([_draw(kind, 20) for kind in range(6)]), np.repeat(list("abcdef"), 20)
    return OpenWorldRecognizer(n_lifted=0, refresh_growth=0.1).fit(X, y)


@pytest.fixture
def overlapping(model: OpenWorldRecognizer, tmp_path: Path) -> Iterator[World]:
    """A world of classes that overlap, with samples of known and unknown classes."""
    with World.open(f"sqlite:///{tmp_path / 'overlapping.db'}", model, KEEP) as world:
        world.recognize(np.vstack([_draw(kind, 15, 1) for kind in range(12)]))
        yield world


def _states(world: World) -> tuple[int, int]:
    world.rescorer.wait()
    progress = world.labels.progress("ann")
    return progress.pending, progress.recognized


def test_a_preview_shows_what_moving_does(overlapping: World) -> None:
    point, before = overlapping.operating_point, _states(overlapping)
    assert (point.get().objective, point.get().preview) == ("error", None)
    lenient, strict = (point.get(text).preview for text in ("recall=0.99", "far=0.01"))
    assert lenient is not None
    assert strict is not None
    assert (lenient.pending, lenient.recognized) == before
    assert lenient.threshold < point.get().threshold < strict.threshold
    assert lenient.would_be_known > 0 == lenient.would_be_unknown
    assert strict.would_be_unknown > 0 == strict.would_be_known
    assert _states(overlapping) == before

    outcome = point.move("recall=.99", "ann")
    assert (outcome.kind, outcome.model_version) == ("objective", 1)
    assert point.get().objective == "recall=0.99"
    assert point.get().threshold == lenient.threshold
    assert _states(overlapping) == (before[0] - lenient.would_be_known, before[1] + lenient.would_be_known)
    assert point.move("recall=0.99", "bob").event_id is None
    overlapping.history.undo("ann")
    assert point.get().objective == "error"
    assert _states(overlapping) == before


def test_reviewed_samples_tell_how_many_wrong_answers_there_would_be(overlapping: World) -> None:
    kept = overlapping.pool.ids(PoolFilter("recognized"))
    wrong = [i for i in kept if i > 90]  # of the six unknown classes
    assert wrong
    overlapping.recognized.feedback([Review(i, right=i not in wrong) for i in kept], "ann")
    found = overlapping.operating_point.get("far=0.001").preview
    assert found is not None
    assert found.reviewed == len(kept)
    assert found.wrong_then < found.wrong_now <= len(wrong)


def test_what_was_moved_is_moved_after_a_restart(
    model: OpenWorldRecognizer, tmp_path: Path, state_of: Callable[[Any], Any]
) -> None:
    url = f"sqlite:///{tmp_path / 'world.db'}"
    with World.open(url, model) as world:
        world.operating_point.move("recall=0.9", "ann")
        world.labels.learn(_draw(7, 3), ["g"] * 3, "ann")
        with world.model.reading() as (live, _):
            before = state_of(live)
    with World.open(url) as world, world.model.reading() as (live, _):
        assert state_of(live) == before
        assert live.objective == KnownRecall(0.9)  # type: ignore[attr-defined]


def test_what_cannot_be_an_operating_point_is_refused(
    overlapping: World, models: Callable[[str], Any], tmp_path: Path
) -> None:
    with pytest.raises(Refused, match="no objective 'strict'"):
        overlapping.operating_point.get("strict")
    with pytest.raises(Refused, match="no objective 'recall=2'"):
        overlapping.operating_point.move("recall=2", "ann")
    with World.open(f"sqlite:///{tmp_path / 'nno.db'}", models("nno")) as world:
        assert world.operating_point.get().objective is None
        with pytest.raises(Conflict, match="NearestNonOutlier has no operating point to move"):
            world.operating_point.move("recall=0.9", "ann")
        with pytest.raises(Conflict, match="its threshold is fixed"):
            world.operating_point.get("recall=0.9")
