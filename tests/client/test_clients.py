from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Iterator
from dataclasses import fields
from time import sleep
from unittest.mock import ANY

import httpx
import numpy as np
import pytest

import openworld
from openworld import EuclideanMetric, NearestNonOutlier
from openworld.client import AsyncClient, Client, ServiceError
from openworld.client.calls import endpoint
from openworld.client.endpoints import Endpoints
from openworld.client.records import Outcome

X = np.array([[0.0, 0.0], [0.2, 0.0], [9.0, 0.0], [9.2, 0.0]], dtype=np.float32)
FAR = np.array([[0.0, 50.0], [0.1, 50.0]], dtype=np.float32)


@pytest.fixture
def address(tmp_path) -> Iterator[str]:
    import uvicorn

    from openworld.service.app import create_app, open_world
    from openworld.service.settings import load_settings

    settings = load_settings(database=f"sqlite:///{tmp_path / 'world.db'}", clustering=False)
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=2.0).fit(X, ["a", "a", "b", "b"])
    with open_world(settings, model) as world:
        app = create_app(world, settings)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        app.state.service.broadcast.close()
        server.should_exit = True
        thread.join()


def test_the_whole_loop(address, tmp_path):
    with Client(address) as client:
        found = client.recognize(np.vstack([X[:1], FAR]), nearest=1)
        assert [answer["label"] for answer in found["answers"]] == ["a", None, None]
        assert found["answers"][0]["nearest"] == [{"label": "a", "distance": ANY, "membership": ANY}]
        assert [answer["nearest"][0]["membership"] for answer in found["answers"]] == [ANY, 0, 0]
        ids = [answer["sample_id"] for answer in found["answers"] if answer["sample_id"] is not None]
        assert [sample["id"] for sample in client.pool()["samples"]] == ids
        assert client.label(ids, "c/d")["added"] == ["c/d"]
        assert client.recognize(FAR, remember=False)["answers"][0]["label"] == "c/d"
        assert [info["label"] for info in client.classes()] == ["a", "b", "c/d"]
        assert client.change_class("c/d", "cd", "both")[0]["kind"] == "rename"
        assert client.undo()["kind"] == "undo"
        assert client.redo()["kind"] == "redo"
        assert client.learn([[0.1, 99.0], [0.0, 99.0]], ["e", "e"])["added"] == ["e"]
        assert client.merge_classes(["cd", "e"], "cd")["removed"] == ["e"]
        assert client.forget("cd")["removed"] == ["cd"]
        assert client.dismiss(ids[:1], "no")["samples"] == 1
        assert client.accept(ids[1], "a")["kind"] == "accept"
        assert client.progress()["my_dismissed"] == 1
        assert client.history(limit=1)[0]["kind"] == "accept"
        assert client.activate(0)["model_version"] == client.versions()[0]["id"]
        assert client.clusters()["clusters"] == []
        path = tmp_path / "model.ow"
        path.write_bytes(client.export_model())
        assert openworld.load(path).classes_.tolist() == ["a", "b"]


def test_the_same_without_waiting(address):
    async def loop() -> list[str | None]:
        async with AsyncClient(address) as client:
            found = await client.recognize(FAR)
            ids = [answer["sample_id"] for answer in found["answers"]]
            await client.label([i for i in ids if i is not None], "c")
            answers = await asyncio.gather(*(client.recognize(row[None], remember=False) for row in FAR))
            return [answer["answers"][0]["label"] for answer in answers]

    assert asyncio.run(loop()) == ["c", "c"]


def test_what_is_refused_raises_in_words(address):
    with Client(address) as client:
        with pytest.raises(ServiceError, match="samples of 2 numbers") as refused:
            client.recognize([[1.0]])
        assert refused.value.status == 422
        with pytest.raises(ServiceError, match="no class 'zz'") as missing:
            client.forget("zz")
        assert missing.value.status == 404
        for asked in (lambda: client.recognize_texts(["a"]), lambda: client.recognize_images([b"x"])):
            with pytest.raises(ServiceError, match="takes vectors"):
                asked()
        for asked in (lambda: client.learn_texts(["a"], ["a"]), lambda: client.learn_images([b"x"], ["a"])):
            with pytest.raises(ServiceError, match="takes vectors"):
                asked()
        with pytest.raises(ServiceError, match="There is no cluster 1"):
            client.label_cluster(1, "x")


def test_events(address):
    with Client(address) as client, Client(address) as other:
        events, done = client.events(), threading.Event()

        def speak() -> None:  # again and again: the stream may open late
            while not done.wait(0.1):
                other.recognize(FAR)

        speaker = threading.Thread(target=speak)
        speaker.start()
        found = next(events)
        done.set()
        events.close()
        speaker.join()
    assert (found["event"], found["data"]) == ("unknown", {"samples": 2})

    async def first() -> str:
        async with AsyncClient(address) as listener, AsyncClient(address) as speaker:
            events = listener.events()
            waiting = asyncio.ensure_future(anext(events))
            while not (await asyncio.wait([waiting], timeout=0.1))[0]:
                await speaker.recognize(FAR + 1)
            await events.aclose()
            return waiting.result()["event"]

    assert asyncio.run(first()) == "unknown"


def test_the_key_is_sent_and_strange_answers_are_reported():
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer ow_x"
        return httpx.Response(502, text="the proxy is down")

    with (
        Client("http://service", "ow_x", transport=httpx.MockTransport(answer)) as client,
        pytest.raises(ServiceError, match="the proxy is down") as failed,
    ):
        client.progress()
    assert failed.value.status == 502


class _Losing:
    """Loses the first answers of each request after the service has done what was asked."""

    def __init__(self, n_lost: int) -> None:
        self.n_lost, self.keys = n_lost, []

    def lose(self, request: httpx.Request) -> None:
        self.keys.append(request.headers.get("idempotency-key"))
        if len(self.keys) <= self.n_lost:
            raise httpx.ReadError("the connection was lost", request=request)


class _LosingTransport(_Losing, httpx.BaseTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with httpx.HTTPTransport() as real:
            answer = real.handle_request(request)
            answer.read()
        self.lose(request)
        return answer


class _AsyncLosingTransport(_Losing, httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        async with httpx.AsyncHTTPTransport() as real:
            answer = await real.handle_async_request(request)
            await answer.aread()
        self.lose(request)
        return answer


def test_a_request_whose_answer_got_lost_is_sent_again_and_has_its_effect_once(address):
    losing = _LosingTransport(1)
    with Client(address, transport=losing) as client:
        assert client.learn(FAR, ["c", "c"])["added"] == ["c"]
        assert losing.keys[0] == losing.keys[1] is not None
        assert client.undo()["removed"] == ["c"]
        assert losing.keys[2] not in (None, losing.keys[0])
        assert [event["kind"] for event in client.history()] == ["undo", "learn"]
        assert losing.keys[3] is None
        assert client.recognize(FAR)["answers"][0]["unknown"]

    other = _AsyncLosingTransport(1)

    async def redo() -> list[str]:
        async with AsyncClient(address, transport=other) as client:
            await client.redo()
            return [event["kind"] for event in await client.history()]

    assert asyncio.run(redo()) == ["redo", "undo", "learn"]
    assert other.keys[0] == other.keys[1] is not None


def test_a_connection_that_stays_lost_is_reported(address):
    losing = _LosingTransport(9)
    with Client(address, transport=losing) as client, pytest.raises(ServiceError) as lost:
        client.progress()
    assert len(losing.keys) == 2
    assert lost.value.status is None
    assert isinstance(lost.value.__cause__, httpx.ReadError)


def test_a_service_that_is_not_there_is_named():
    url = "http://127.0.0.1:9"  # the port of "discard", which nobody listens on

    async def ask() -> None:
        async with AsyncClient(url) as client:
            await client.progress()

    with Client(url) as client:
        for asked in (client.progress, lambda: next(client.events()), lambda: asyncio.run(ask())):
            with pytest.raises(
                ServiceError, match=r"No response from http://127\.0\.0\.1:9.* running there\?"
            ):
                asked()


def test_every_endpoint_is_documented():
    endpoints = {name: value for name, value in vars(Endpoints).items() if isinstance(value, endpoint)}
    assert len(endpoints) > 20
    for value in endpoints.values():
        assert inspect.getdoc(value)


def test_outcomes_have_the_fields_of_the_service():
    from openworld.service.world_event import EventOutcome

    assert list(Outcome.__annotations__) == [field.name for field in fields(EventOutcome)]


def test_methods_show_their_signature():
    with Client() as client:
        expected = "(X: 'ArrayLike', remember: 'bool' = True, nearest: 'int' = 5, "
        expected += "group: 'str | None' = None) -> 'Recognized'"
        assert str(inspect.signature(client.recognize)) == expected
        assert client.recognize.__qualname__ == "Client.recognize"
        assert client.recognize.__doc__ == Client.recognize.__doc__
        assert client.export_model.__name__ == "export_model"
    assert str(inspect.signature(Client.recognize)) == expected


def test_pictures_are_given_by_path_or_as_bytes(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(b"the picture")
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.read())
        return httpx.Response(200, json={})

    with Client(transport=httpx.MockTransport(answer)) as client:
        for images in ([str(path), b"other bytes"], path, str(path)):
            client.recognize_images(images)
        client.learn_images([path], ["a"])
        with pytest.raises(FileNotFoundError):
            client.recognize_images(["no such file.jpg"])
    assert len(sent) == 4
    for body in sent:
        assert b'filename="a.jpg"' in body
        assert b"the picture" in body
    assert b"other bytes" in sent[0]


def test_groups_are_sent():
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if "json" in request.headers.get("content-type", "") else {}
        sent.append((request.url.path, request.url.params.get("group"), body.get("groups")))
        return httpx.Response(200, json={})

    with Client(transport=httpx.MockTransport(answer)) as client:
        client.recognize(X, group="a b")
        client.recognize_texts(["x"], group="a b")
        client.recognize_images([b"x"], group="a b")
        client.learn(X[:1], ["a"], group="a b")
        client.learn_texts(["x"], ["a"], group="a b")
        client.learn_images([b"x"], ["a"], group="a b")
        client.recognize_texts(["x", "y"], groups=("a", None))
        client.learn(X[:2], ["a", "a"], groups=["a", None])
        client.learn_texts(["x", "y"], ["a", "a"], groups=["a", None])
        client.recognize(X)
        client.learn(X[:1], ["a"])
    assert [one[1:] for one in sent[:6]] == [("a b", None)] * 6
    assert [one[1:] for one in sent[6:9]] == [(None, ["a", None])] * 3
    assert [one[1:] for one in sent[9:]] == [(None, None)] * 2


def test_groups_reach_the_samples(address):
    with Client(address) as client:
        (answer, _) = client.recognize(FAR, group="burst")["answers"]
        client.learn([[0.1, 99.0], [0.0, 99.0]], ["e", "e"], groups=["one", None])
        groups = {sample["id"]: sample["group"] for sample in client.pool(all=True)["samples"]}
        assert list(groups.values()) == ["burst", "burst", "one", None]
        assert answer["sample_id"] in groups


def test_a_method_is_called_through_the_class_as_well(address):
    with Client(address) as client:
        assert Client.progress(client) == client.progress()
