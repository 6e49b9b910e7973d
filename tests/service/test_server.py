"""Starting and stopping the server, slow connections, logs."""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic, sleep
from unittest.mock import MagicMock, Mock

import httpx
import pytest
import structlog
import uvicorn
from fastapi import FastAPI

from openworld.service import server as service_server
from openworld.service.server import (
    _config,
    address,
    check_may_listen,
    check_port,
    serve,
    set_up_logging,
)
from openworld.service.settings import ServiceSettings
from openworld.service.validation import Refused

PATIENCE = 30.0


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'world.db'}"


def test_listening_to_others_needs_a_key(world, settings_of):
    for host in ("127.0.0.1", "localhost", "::1"):
        check_may_listen(settings_of(host=host), world)
    with pytest.raises(Refused, match="openworld key create"):
        check_may_listen(settings_of(host="0.0.0.0"), world)
    check_may_listen(settings_of(host="0.0.0.0", key="a secret of many letters"), world)
    world.keys.create("gone", "admin")
    world.keys.revoke("gone")
    with pytest.raises(Refused, match="no key"):
        check_may_listen(settings_of(host="192.168.1.2"), world)
    with pytest.raises(Refused, match=r"a\.example gives others access"):  # through a proxy
        check_may_listen(settings_of(allowed_hosts="a.example"), world)
    world.keys.create("ann", "admin")
    check_may_listen(settings_of(host="192.168.1.2"), world)
    check_may_listen(settings_of(allowed_hosts="a.example"), world)


def test_addresses():
    assert address("127.0.0.1", 80) == "http://127.0.0.1:80"
    assert address("::1", 80) == "http://[::1]:80"


def test_a_port_in_use_is_said_plainly(settings_of):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(Refused, match=rf"Port {port} of 127\.0\.0\.1 is in use.*--port 0"):
            check_port(settings_of(port=port))
    check_port(settings_of(port=port))
    check_port(settings_of(port=0))
    with pytest.raises(Refused, match=r"Cannot listen on 192\.0\.2\.1"):  # of no machine: for documentation
        check_port(settings_of(host="192.0.2.1", port=0))


def test_the_process_has_one_blas_thread_and_one_arena(settings_of, monkeypatch):
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "MALLOC_ARENA_MAX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(service_server.sys, "platform", "linux")
    monkeypatch.setattr(service_server, "set_up_logging", Mock())
    library = Mock()
    monkeypatch.setattr(service_server.ctypes, "CDLL", lambda name: library)
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(Refused):
        serve(settings_of(port=other.getsockname()[1]), print)
    assert os.environ.pop("OPENBLAS_NUM_THREADS") == "1"
    library.mallopt.assert_called_once_with(-8, 1)


def test_the_environment_sets_another_number_of_arenas(monkeypatch):
    library = Mock()
    monkeypatch.setattr(service_server.ctypes, "CDLL", lambda name: library)
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    service_server.limit_arenas()
    library.mallopt.assert_not_called()


def test_what_the_server_starts_with_is_exempt_from_garbage_collection(settings_of, monkeypatch):
    """Collecting it takes 80 ms, in which nobody is answered."""
    monkeypatch.setattr(service_server, "_set_up_process", Mock())
    monkeypatch.setattr(service_server._Server, "run", lambda server: frozen.append(gc.get_freeze_count()))
    frozen = [gc.get_freeze_count()]
    try:
        serve(settings_of(port=0, features=3), print)
        assert frozen[1] > frozen[0] + 10_000
    finally:
        gc.unfreeze()


def test_clients_end_idle_connections_before_the_server_does(settings_of):
    """A connection that both ends close at one moment loses the request that was just sent."""
    client = httpx.Limits().keepalive_expiry
    assert client is not None
    assert _config(FastAPI(), settings_of()).timeout_keep_alive > 2 * client


# -- connections ----------------------------------------------------------------------------------


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a server that answers with the length of the body."""
    monkeypatch.setattr(service_server, "HEADER_SECONDS", 0.2)
    monkeypatch.setattr(service_server, "BODY_SECONDS", 0.2)

    async def app(scope, receive, send):  # type: ignore[no-untyped-def]
        n_bytes, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            n_bytes, more = n_bytes + len(message.get("body", b"")), message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
        await send({"type": "http.response.body", "body": str(n_bytes).encode()})

    config = uvicorn.Config(app, port=0, http=service_server.Connection, log_config=None, lifespan="off")
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


def test_a_request_in_pieces_is_answered_and_so_is_the_next(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_server, "HEADER_SECONDS", PATIENCE)
    monkeypatch.setattr(service_server, "BODY_SECONDS", PATIENCE)
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        for _ in range(2):
            for piece in (b"POST / HTTP/1.1\r\nHost: a\r\n", b"Content-Length: 9\r\n\r\n1234", b"56789"):
                client.sendall(piece)
            answer = b""
            while not answer.endswith(b"9"):
                answer += client.recv(1000)
            assert answer.startswith(b"HTTP/1.1 200")


def test_a_body_that_trickles_in_is_given_up(port: int) -> None:
    """Each piece is in time; the whole is not."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client, suppress(ConnectionError):
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
        client.settimeout(0.05)
        end = monotonic() + PATIENCE
        while monotonic() < end:
            client.sendall(b"1")
            with suppress(TimeoutError):
                assert client.recv(100) == b""
                return
        pytest.fail("it is still open")


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"POST / HTTP/1.1\r\nHost: a\r\n", b"X: " + 997 * b"x" + b"\r\n"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nX: ", 1000 * b"x"),
        (b"POST /", 1000 * b"x"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: x\r\n" * 200),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 1000),
    ],
    ids=["many headers", "long header", "long path", "headers after the body", "parameters of a chunk"],
)
def test_endless_headers_are_refused(
    port: int, start: bytes, piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_server, "HEADER_SECONDS", PATIENCE)
    monkeypatch.setattr(service_server, "BODY_SECONDS", PATIENCE)
    monkeypatch.setattr(service_server.Connection, "max_bytes", 1 << 20)
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        client.sendall(start)
        with pytest.raises(ConnectionError):
            client.sendall(50_000 * piece)


def test_a_worker_has_time_to_start_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn kills one that does not answer."""
    started = list[uvicorn.Config]()

    def supervise(config: uvicorn.Config, sockets: list[socket.socket]) -> Mock:
        started.append(config)
        sockets[0].close()
        return Mock()

    for name in ("open_world", "Inputs", "_to_environment"):
        monkeypatch.setattr(service_server, name, MagicMock())
    monkeypatch.setattr(service_server, "Multiprocess", supervise)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")  # so that it is restored
    settings = ServiceSettings(database="postgresql://nowhere/x", workers=2, port=0)
    service_server._serve_with_workers(settings, lambda _: None)
    assert started[0].timeout_worker_healthcheck >= 60


# -- logs -----------------------------------------------------------------------------------------


def test_logs_are_lines_of_json(client, monkeypatch):
    before, config = logging.getLogger().handlers[:], structlog.get_config()
    level, stream = logging.getLogger().level, io.StringIO()
    try:
        monkeypatch.setattr("sys.stderr", stream)
        set_up_logging("info", "json")
        client.get("/v1/samples/99?secret=1")
        client.get("/health")
        logging.getLogger("a.library").warning("by %s", "hand")
    finally:
        logging.getLogger().handlers[:] = before
        logging.getLogger().setLevel(level)
        structlog.configure(**config)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    ours = [line for line in lines if line["event"] == "request"]
    assert [(line["path"], line["status"], line["level"]) for line in ours] == [
        ("/v1/samples/99", 404, "warning")
    ]
    assert lines[-1]["event"] == "by hand"


@pytest.mark.parametrize(
    ("terminal", "no_color", "colored"), [(True, None, True), (True, "1", False), (False, None, False)]
)
def test_logs_for_people_have_colors_on_a_terminal_only(monkeypatch, terminal, no_color, colored):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    before, level, config = logging.getLogger().handlers[:], logging.getLogger().level, structlog.get_config()
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    try:
        monkeypatch.setattr("sys.stderr", stream)
        set_up_logging("info", "console")
        structlog.get_logger("openworld").warning("something", number=1)
    finally:
        logging.getLogger().handlers[:] = before
        logging.getLogger().setLevel(level)
        structlog.configure(**config)
    assert "something" in stream.getvalue()
    assert ("\x1b[" in stream.getvalue()) is colored
