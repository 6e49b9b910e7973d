from __future__ import annotations

import asyncio
import json
import math
import threading

import numpy as np
import pytest

from openworld.store import StorageError


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'world.db'}"


def test_requests_at_once_share_a_product_and_not_their_errors(serving, world, things, monkeypatch):
    sizes = []
    real, started, go_on = world.recognition.start, threading.Event(), threading.Event()

    def recognize(X, *args, **kwargs):
        sizes.append(len(X))
        started.set()
        go_on.wait(300)
        return real(X, *args, **kwargs)

    monkeypatch.setattr(world.recognition, "start", recognize)
    with serving() as client:
        batcher = client.app.state.service.batcher

        async def ask() -> list[object]:
            first = asyncio.ensure_future(batcher.recognize(things(0), remember=False))
            while not started.is_set():
                await asyncio.sleep(0.001)
            rows = [things(kind, 2) for kind in (0, 1, 2)]
            bad = np.full((1, 4), np.nan, dtype=np.float32)
            asked = [batcher.recognize(X, remember=False) for X in (*rows, bad, things(1).astype(float))]
            rest = asyncio.gather(*asked, return_exceptions=True)
            await asyncio.sleep(0)
            go_on.set()
            return [await first, *await rest]

        first, a, b, c, bad, wide = client.portal.call(ask)
    labels = [[row["label"] for row in json.loads(reply)["answers"]] for reply in (first, a, b, c, wide)]
    assert labels == [["a"], ["a", "a"], ["b", "b"], ["c", "c"], ["b"]]
    assert "NaN" in str(bad)
    assert sizes[:2] == [1, 7]  # the ones that waited went together
    assert sizes[2:] == [4, 3, 2, 1, 1]  # then by halves, to find the culprit; float64 by itself


def test_full_batches_run_side_by_side_and_beside_them_one_that_is_not_full(
    serving, world, things, monkeypatch
):
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    sizes = []
    real, three, go_on = world.recognition.start, threading.Barrier(4), threading.Event()

    def recognize(X, *args, **kwargs):
        sizes.append(len(X))
        if len(sizes) <= 3:
            three.wait(300)  # until three batches have begun
        go_on.wait(300)
        return real(X, *args, **kwargs)

    monkeypatch.setattr(world.recognition, "start", recognize)
    with serving() as client:
        batcher = client.app.state.service.batcher

        async def ask() -> list[bytes]:
            samples = things(0), things(1, 300), things(2, 256), things(0, 2), things(1, 256)
            asked = [asyncio.ensure_future(batcher.recognize(X, remember=False)) for X in samples]
            await asyncio.to_thread(three.wait, 300)
            begun.extend(sizes)
            go_on.set()
            return await asyncio.gather(*asked)

        begun: list[int] = []
        replies = client.portal.call(ask)
    assert sorted(begun) == [3, 256, 300]
    assert sizes[3:] == [256]
    labels = [{row["label"] for row in json.loads(reply)["answers"]} for reply in replies]
    assert labels == [{"a"}, {"b"}, {"c"}, {"a"}, {"b"}]


def test_requests_that_arrive_together_share_a_batch_that_the_event_loop_recognizes(
    serving, world, things, monkeypatch
):
    batches = []
    real = world.recognition.start

    def recognize(X, *args, **kwargs):
        batches.append((len(X), threading.current_thread()))
        return real(X, *args, **kwargs)

    monkeypatch.setattr(world.recognition, "start", recognize)
    with serving() as client:
        batcher = client.app.state.service.batcher

        async def ask(seconds_per_row: float) -> threading.Thread:
            batcher._seconds_per_row = seconds_per_row
            asked = [asyncio.ensure_future(batcher.recognize(things(0), remember=False)) for _ in range(5)]
            await asyncio.sleep(0)
            asked.append(asyncio.ensure_future(batcher.recognize(things(0), remember=False)))
            await asyncio.gather(*asked)
            return threading.current_thread()

        event_loop = client.portal.call(ask, 1e-9)
        client.portal.call(ask, 1.0)
    assert batches[0] == (6, event_loop)
    assert batches[1][0] == 6
    assert batches[1][1].name.startswith("openworld-recognition")


def test_how_long_a_sample_takes_is_measured(serving, things):
    """The event loop recognizes nothing before it is known to take a moment, and a pause does not count."""
    with serving() as client:
        batcher = client.app.state.service.batcher
        assert batcher._seconds_per_row == math.inf
        client.portal.call(batcher.recognize, things(0, 20))
        measured = batcher._seconds_per_row
        assert 0 < measured < math.inf
        batcher._finish([], 1000.0)
        assert batcher._seconds_per_row == pytest.approx(1.1 * measured)


def test_a_known_sample_does_not_wait_for_the_disk(serving, world, things):
    far = np.full((1, 4), 900, dtype=np.float32)
    with serving() as client:
        batcher = client.app.state.service.batcher

        async def ask() -> tuple[bytes, bool, bytes]:
            with world.event_log.database.write():  # nothing can be stored meanwhile
                unknown = asyncio.ensure_future(batcher.recognize(far))
                known = await batcher.recognize(things(0))
                was_stored = unknown.done()
            return known, was_stored, await unknown

        known, was_stored, unknown = client.portal.call(ask)
        assert not was_stored
        assert json.loads(known)["answers"][0]["label"] == "a"
        (answer,) = json.loads(unknown)["answers"]
        assert world.pool.get(answer["sample_id"]).state == "pending"


def test_where_nothing_can_be_stored_known_samples_are_still_named(serving, world, things, monkeypatch):
    def fail(*args, **kwargs):
        raise StorageError("The disk of the database is full.")

    monkeypatch.setattr("openworld.service.recognition.store", fail)
    far = np.full((1, 4), 900, dtype=np.float32)
    with serving() as client:
        batcher = client.app.state.service.batcher

        async def ask() -> list[object]:
            return await asyncio.gather(
                *map(batcher.recognize, (things(0), far, things(1))), return_exceptions=True
            )

        first, failed, second = client.portal.call(ask)
    assert [json.loads(reply)["answers"][0]["label"] for reply in (first, second)] == ["a", "b"]
    assert isinstance(failed, StorageError)
