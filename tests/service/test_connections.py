"""Connections whose request never arrives are closed; those that wait for us are not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from time import monotonic, sleep

import pytest
import uvicorn

from openworld.service import connections

PATIENCE = 30.0


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a server that answers with the length of the body."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.2)

    async def app(scope, receive, send):  # type: ignore[no-untyped-def]
        n_bytes, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            n_bytes, more = n_bytes + len(message.get("body", b"")), message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
        await send({"type": "http.response.body", "body": str(n_bytes).encode()})

    config = uvicorn.Config(app, port=0, http=connections.Connection, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    end = monotonic() + PATIENCE
    while not server.started:
        assert monotonic() < end
        sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST / HTTP/1.1\r\nHost: a\r\nX-Slow: ",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n",
    ],
)
def test_a_request_that_never_arrives_is_given_up(port: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        client.sendall(sent)
        assert client.recv(100) == b""  # closed, and before the patience ends


def test_a_request_in_pieces_is_answered_and_so_is_the_next(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        for _ in range(2):
            for piece in (b"POST / HTTP/1.1\r\nHost: a\r\n", b"Content-Length: 9\r\n\r\n1234", b"56789"):
                client.sendall(piece)
            answer = b""
            while not answer.endswith(b"9"):
                answer += client.recv(1000)
            assert answer.startswith(b"HTTP/1.1 200")
