from __future__ import annotations

import json
import threading

import numpy as np
import pytest


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'world.db'}"


def test_requests_at_once_share_a_product_and_not_their_errors(serving, world, things, monkeypatch):
    sizes = []
    real, started, go_on = world.recognition.recognize, threading.Event(), threading.Event()

    def recognize(X, *args, **kwargs):
        sizes.append(len(X))
        started.set()
        go_on.wait(300)
        return real(X, *args, **kwargs)

    monkeypatch.setattr(world.recognition, "recognize", recognize)
    with serving() as client:
        batcher = client.app.state.service.batcher

        async def ask() -> list[object]:
            import asyncio

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
    assert sizes[2:] == [2, 2, 2, 1, 1]  # then one by one, to find the culprit; float64 by itself
