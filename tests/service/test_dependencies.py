"""A request repeated under its idempotency key has its effect once, on any server, after any interruption."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from openworld import EuclideanMetric, NearestNonOutlier
from openworld.features.extractor import load_extractor
from openworld.service.dependencies import IdempotencyKey, IdempotencyStore
from openworld.service.validation import Refused
from openworld.service.world import World
from openworld.service.world_event import EventOutcome
from openworld.store import idempotency
from openworld.store.records import ClusterDraft

Draw = Callable[..., NDArray[np.float32]]
KEY = IdempotencyKey("ann", "k1", "digest of the request")
NPY = "/v1/recognize.npy"


def _kinds(world: World) -> list[str]:
    return [event.kind for event in world.history.events()]


def test_the_second_time_is_answered_as_the_first(world: World, things: Draw) -> None:
    def learn() -> EventOutcome:
        return world.labels.learn(things(5, 3), ["five"] * 3, "ann")

    first = IdempotencyStore(world.event_log).run(KEY, learn)
    assert (first.added, first.samples) == (("five",), 3)
    world.history.undo("bob", first.event_id)
    assert IdempotencyStore(world.event_log).run(KEY, learn) == first
    assert _kinds(world) == ["undo", "learn"]
    with pytest.raises(Refused, match="'k1' was used for another request"):
        IdempotencyStore(world.event_log).run(replace(KEY, digest="another"), learn)
    assert IdempotencyStore(world.event_log).run(replace(KEY, who="bob"), learn).event_id == 3
    assert IdempotencyStore(world.event_log).run(replace(KEY, part=1), learn).event_id is None
    world.history.undo("ann", 3)
    assert IdempotencyStore(world.event_log).run(replace(KEY, part=1), learn).event_id is None  # as before


def test_another_server_and_one_that_starts_again_know_it(
    url: str, things: Draw, models: Callable[[str], Any]
) -> None:
    with World.open(url, models("nno")) as world:
        first = IdempotencyStore(world.event_log).run(
            KEY, lambda: world.labels.learn(things(5, 3), ["five"] * 3, "ann")
        )
        if url.startswith("postgresql"):  # an SQLite file has one server
            with World.open(url) as other:
                assert IdempotencyStore(other.event_log).run(KEY, lambda: other.history.undo("ann")) == first
    with World.open(url) as world:
        assert IdempotencyStore(world.event_log).run(KEY, lambda: world.history.undo("ann")) == first
        assert _kinds(world) == ["learn"]


def test_many_at_the_same_moment_are_one(world: World, things: Draw) -> None:
    for kind in range(3, 9):
        world.labels.learn(things(kind, 2), [f"k{kind}"] * 2, "ann")
    found: list[EventOutcome] = []

    def undo() -> None:
        found.append(IdempotencyStore(world.event_log).run(KEY, lambda: world.history.undo("ann")))

    threads = [threading.Thread(target=undo) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert _kinds(world).count("undo") == 1


def test_what_failed_is_tried_again(world: World, things: Draw) -> None:
    with pytest.raises(Refused):
        IdempotencyStore(world.event_log).run(KEY, lambda: world.labels.learn(things(5), [""], "ann"))
    assert IdempotencyStore(world.event_log).run(
        KEY, lambda: world.labels.learn(things(5), ["five"], "ann")
    ).added == ("five",)


def test_event_and_answer_are_written_together_or_not_at_all(
    world: World, things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(idempotency, "put", fail)
        with pytest.raises(OSError, match="full"):
            IdempotencyStore(world.event_log).run(KEY, lambda: world.labels.learn(things(5), ["five"], "ann"))
    assert _kinds(world) == []
    assert world.recognize(things(5), remember=False).labels == [None]
    assert IdempotencyStore(world.event_log).find(KEY) is None
    world.labels.learn(things(5), ["five"], "ann")  # without a key
    assert IdempotencyStore(world.event_log).find(KEY) is None


def test_the_answer_to_a_request_without_an_event_is_stored_once(world: World) -> None:
    IdempotencyStore(world.event_log).store(KEY, "[1]")
    IdempotencyStore(world.event_log).store(KEY, "[2]")
    assert IdempotencyStore(world.event_log).find(KEY) == "[1]"


# -- over HTTP ------------------------------------------------------------------------------------


def _key(name: str = "k") -> dict[str, str]:
    return {"Idempotency-Key": name}


def _requests(unknown, clusters, vectors):
    """Return every kind of request that appends an event, in an order in which each succeeds."""
    return [
        ("POST", "/v1/clusters/merge", {"cluster_ids": clusters}),
        ("POST", f"/v1/clusters/{clusters[0]}/split", {"sample_ids": unknown[:1]}),
        ("POST", "/v1/dismiss", {"sample_ids": unknown[:1], "reason": "blurred"}),
        ("POST", "/v1/accept", {"sample_id": unknown[1], "label": "a"}),
        ("POST", "/v1/label", {"sample_ids": unknown[2:4], "label": "five"}),
        ("POST", "/v1/label", {"cluster_id": clusters[0], "label": "six"}),
        ("POST", "/v1/learn", {"vectors": vectors, "labels": ["seven"] * len(vectors)}),
        ("PATCH", "/v1/classes/seven", {"label": "sept", "description": "a number"}),
        ("POST", "/v1/classes/merge", {"labels": ["sept"], "into": "six"}),
        ("DELETE", "/v1/classes/six", None),
        ("POST", "/v1/undo", {}),
        ("POST", "/v1/undo", {}),
        ("POST", "/v1/redo", {}),
        ("POST", "/v1/versions/0/activate", None),
    ]


def test_every_request_sent_twice_has_its_effect_once(client, world, unknown, things):
    clusters = world.clusters.replace(
        [ClusterDraft(unknown[:3], unknown[0]), ClusterDraft(unknown[3:], unknown[3])]
    )
    for i, (method, path, body) in enumerate(_requests(unknown, clusters, things(7, 2).tolist())):
        n_before = len(world.history.events())
        first, second = (client.request(method, path, json=body, headers=_key(f"{i}")) for _ in range(2))
        assert first.status_code == 200, (path, first.text)
        assert second.status_code == 200, (path, second.text)
        assert first.json() == second.json()
        n_events = 2 if method == "PATCH" else 1
        assert len(world.history.events()) == n_before + n_events, path
    assert [info.label for info in world.classes.all()] == ["a", "b", "c"]


def test_a_key_belongs_to_one_request_of_one_person(client, world, unknown):
    keys = {name: world.keys.create(name, "labeler") for name in ("ann", "bob")}

    def dismiss(who: str, sample: int):
        headers = {**_key(), "Authorization": f"Bearer {keys[who]}"}
        return client.post("/v1/dismiss", json={"sample_ids": [sample]}, headers=headers)

    assert dismiss("ann", unknown[0]).json()["event_id"] == 1
    refused = dismiss("ann", unknown[1])
    assert refused.status_code == 422
    assert "'k' was used for another request" in refused.json()["detail"]
    assert dismiss("bob", unknown[1]).json()["event_id"] == 2
    elsewhere = {**_key(), "Authorization": f"Bearer {keys['ann']}"}
    assert client.post("/v1/undo", json={}, headers=elsewhere).status_code == 422
    assert len(world.history.events()) == 2


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_keys_of_no_use_are_refused(client, things, as_npy, key):
    for found in (
        client.post("/v1/undo", json={}, headers=_key(key)),
        client.post(NPY, content=as_npy(things(5)), headers=_key(key)),
    ):
        assert found.status_code == 422


def test_what_is_recognized_twice_under_a_key_was_seen_once(client, world, things, as_npy):
    X = things(5, 2)

    def asked(content, name="npy", query=""):
        return client.post(NPY + query, content=content, headers=_key(name))

    first, second = asked(as_npy(X)), asked(as_npy(X))
    assert first.json() == second.json()
    body = {"vectors": things(6, 2).tolist()}
    third, fourth = (client.post("/v1/recognize", json=body, headers=_key("json")) for _ in range(2))
    assert third.json() == fourth.json()
    assert [sample.seen for sample in world.pool.page().samples] == [1, 1, 1, 1]
    world.labels.learn(X, ["five", "five"], "ann")
    assert asked(as_npy(X)).json() == first.json()
    assert asked(as_npy(X), "new").json()["answers"][0]["label"] == "five"
    assert asked(as_npy(X + 1)).status_code == 422
    assert asked(as_npy(X), query="?nearest=1").status_code == 422


def test_pictures_sent_twice_are_the_same_whatever_is_between_them(url, serving):
    def picture(level: int, other: int = 0) -> bytes:
        file = io.BytesIO()
        Image.new("RGB", (30, 20), (level, other, other)).save(file, "PNG")
        return file.getvalue()

    extractor = load_extractor("pixels")
    pictures = [Image.open(io.BytesIO(picture(level))) for level in (0, 5, 200, 205)]
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=4.0)
    model.fit(extractor.transform(pictures), np.repeat(["dark", "red"], 2))
    model.extractor_ = extractor.id.as_dict()

    def learn(client, level: int, label: str, boundary: str):
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}", **_key()}
        files, data = {"files": ("p.png", picture(level))}, {"labels": label}
        request = client.build_request("POST", "/v1/learn/images", files=files, data=data, headers=kind)
        return client.send(request)

    with World.open(url.replace("world.db", "pictures.db"), model) as world, serving(world) as client:
        first, second = learn(client, 100, "new", "abc"), learn(client, 100, "new", "xyz")
        assert first.json()["added"] == ["new"]
        assert first.json() == second.json()
        assert learn(client, 100, "other", "abc").status_code == 422
        assert learn(client, 101, "new", "abc").status_code == 422
        for _ in range(2):
            files = {"files": ("p.png", picture(255, 255))}
            assert client.post("/v1/recognize/images", files=files, headers=_key("r")).status_code == 200
        (sample,) = world.pool.page().samples
        assert sample.seen == 1
