"""Recognized samples are kept for review, corrected by feedback, and give an estimate of the accuracy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from scipy.stats import binomtest

from openworld.service.recognized import Review
from openworld.service.results import Conflict, NotFound, PoolFilter, Refused
from openworld.service.settings import WorldSettings
from openworld.service.world import World

Draw = Callable[..., Any]
RECOGNIZED = PoolFilter(state="recognized", least_certain_first=True)


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
        check_http(client, things)


def check_http(client: TestClient, things: Draw) -> None:
    vectors = things(0, 3, 4).tolist()
    found = client.post("/v1/recognize", json={"vectors": vectors}).json()["answers"]
    ids = [answer["sample_id"] for answer in found]
    assert None not in ids
    headers = {"Idempotency-Key": "once"}
    body = {"reviews": [{"sample_id": ids[0], "right": True}, {"sample_id": ids[1], "unknown": True}]}
    first, second = (client.post("/v1/feedback", json=body, headers=headers).json() for _ in range(2))
    assert first == second
    quality = client.get("/v1/quality").json()
    assert quality[0]["right"]["count"] == 1
    assert quality[0]["wrong_accepts"]["count"] == 1
    twice = {"reviews": [{"sample_id": ids[2], "right": True, "unknown": True}]}
    assert client.post("/v1/feedback", json=twice).status_code == 422
