"""The server process: start, worker processes, connections, logs, graceful shutdown."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import parent_process
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import structlog
import structlog.tracebacks
import uvicorn
from fastapi import FastAPI
from pydantic import SecretStr
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from openworld.recognition.blas import limit_blas_threads
from openworld.service.app import create_app, open_world
from openworld.service.dependencies import ServiceState
from openworld.service.inputs import Inputs
from openworld.service.settings import PREFIX, ServiceSettings, load_settings
from openworld.service.validation import Refused
from openworld.service.world import World

_SECONDS_TO_FINISH = 10
# uvicorn kills a worker that does not answer for this long. With its default of 5 seconds, a worker on a busy
# machine never gets to the end of its imports.
_SECONDS_TO_ANSWER = 120
# Longer than clients keep an idle connection (httpx: 5 seconds): if both ends close it at the same moment, a
# request that the client has just sent is lost.
_IDLE_SECONDS = 30
_SWITCH_SECONDS = 0.0005  # so that computing threads and the event loop do not block each other
_ARENAS = 1
_M_ARENA_MAX = -8  # from malloc.h
HEADER_SECONDS = 20.0  # from the first byte, or from connecting, until the headers are there
BODY_SECONDS = 60.0  # between two pieces of a body, and for all of it,
BYTES_PER_SECOND = 500  # plus a second for so many bytes
HEADER_BYTES = 1 << 16
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def serve(
    settings: ServiceSettings,
    say: Callable[[str], object],
    model: Any = None,
    alongside: Callable[[ServiceState], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Serve until SIGTERM or SIGINT; requests in progress are finished.

    Parameters
    ----------
    settings : ServiceSettings
    say : callable
        Called with the address once the server listens.
    model : fitted recognizer, or a function that returns one, optional
        The first model of a new database, in place of the file in the settings.
    alongside : callable, optional
        Called with the state of the service; returns a context that lasts while one process serves, for
        example to stream samples in.
    """
    _set_up_process(settings)
    check_port(settings)
    if settings.workers > 1:
        _serve_with_workers(settings, say)
        return
    with open_world(settings, model) as world:
        check_may_listen(settings, world)
        app = create_app(world, settings)
        try:
            app.state.service.inputs.prepare()
        except Refused:
            world.close(remove_if_new=True)
            raise
        freeze_objects()
        with alongside(app.state.service):
            _Server(_config(app, settings), app.state.service, say).run()


def _set_up_process(settings: ServiceSettings) -> None:
    """Set what belongs to the whole process, of a server or of a worker."""
    set_up_logging(settings.log_level, settings.log_format)
    sys.setswitchinterval(_SWITCH_SECONDS)
    Connection.max_bytes = HEADER_BYTES + 2 * int(1e6 * settings.max_body_mb)
    limit_blas_threads()
    limit_arenas()


def limit_arenas() -> None:
    """Bound the memory that glibc keeps for threads that need none at the moment.

    It gives each thread an arena of its own, which rarely returns what was freed. The environment variable
    MALLOC_ARENA_MAX sets another number.
    """
    if "MALLOC_ARENA_MAX" not in os.environ and sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries do not have it
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, _ARENAS)


def freeze_objects() -> None:
    """Exempt what exists now, and lives as long as the server, from garbage collection.

    A collection stops all threads while it looks at every object, and there are hundreds of thousands.
    """
    gc.collect()
    gc.freeze()


def check_port(settings: ServiceSettings) -> None:
    """Raise `Refused` if the address cannot be listened on."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.create_server((settings.host, settings.port), family=family).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Refused(
                f"Port {settings.port} of {settings.host} is in use, perhaps by another openworld serve. "
                "Choose another with --port, or use --port 0 for a free one."
            ) from error
        raise Refused(
            f"Cannot listen on {settings.host}, port {settings.port}: {error.strerror or error}."
        ) from error


def check_may_listen(settings: ServiceSettings, world: World) -> None:
    """Raise `Refused` if others could reach the service, directly or through a proxy, and there is no key."""
    if (settings.is_loopback and not settings.allowed_hosts) or settings.key is not None:
        return
    keys = world.keys.all()
    if all(key.revoked_at is not None for key in keys):
        how = (
            f"Answering to {', '.join(settings.allowed_hosts)}"
            if settings.is_loopback
            else f"Listening on {settings.host}"
        )
        raise Refused(
            f"{how} gives others access, and this database has no key: anyone could read and teach. "
            "Create one with `openworld key create NAME --role admin`, or listen on 127.0.0.1 only."
        )


class _Server(uvicorn.Server):
    """Reports its address, and ends event streams at shutdown: they would never end by themselves."""

    def __init__(self, config: uvicorn.Config, state: ServiceState, say: Callable[[str], object]) -> None:
        super().__init__(config)
        self._state, self._say = state, say

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.servers:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._say(address(host, port))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn's own would raise the signal again at the end, before the world is closed.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._state.broadcast.close()
        await super().shutdown(sockets)


def address(host: str, port: int) -> str:
    """Return the URL of the service."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _config(app: FastAPI | str, settings: ServiceSettings, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        http=Connection,
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
        **more,
    )


# -- several processes ----------------------------------------------------------------------------


def _serve_with_workers(settings: ServiceSettings, say: Callable[[str], object]) -> None:
    if not settings.database.startswith("postgres"):
        raise Refused(
            f"{settings.workers} workers need PostgreSQL: one process at a time can use SQLite. Give "
            "--database postgresql://..., or --workers 1."
        )
    with open_world(settings) as world:  # errors are reported once, not by every worker
        check_may_listen(settings, world)
        Inputs(world, settings).prepare()
    _to_environment(settings.model_copy(update={"model": None}))
    config = _config("openworld.service.server:application", settings, factory=True, workers=settings.workers)
    config.timeout_worker_healthcheck = _SECONDS_TO_ANSWER
    listening = config.bind_socket()
    listening.listen(config.backlog)  # connections wait until the workers are ready
    say(address(*listening.getsockname()[:2]))
    with TemporaryDirectory() as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        Multiprocess(config, [listening]).run()


def _to_environment(settings: ServiceSettings) -> None:
    """Write settings to the environment, where the worker processes read them."""
    for name, value in settings:
        if isinstance(value, SecretStr):
            value = value.get_secret_value()
        if isinstance(value, tuple):
            value = ",".join(value)
        if isinstance(value, str | int | float | Path):
            os.environ[PREFIX + name.upper()] = str(value)
        else:
            os.environ.pop(PREFIX + name.upper(), None)


def application() -> FastAPI:
    """Return the application of a worker, with the settings of the environment."""
    settings = load_settings()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _set_up_process(settings)
    app = create_app(open_world(settings), settings, close_world=True)
    freeze_objects()
    return app


def _end_with_parent() -> None:
    """Shut this worker down when the process that started it has ended, even by `kill -9`."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


# -- connections ----------------------------------------------------------------------------------


class Connection(HttpToolsProtocol):  # type: ignore[misc, unused-ignore]
    """A connection that closes if a request is too slow or too large; the response may take any time.

    One timer checks the deadline, which moves with each step of a request: setting a timer costs more than
    the rest of a step.
    """

    max_bytes = 1 << 27  # of a request; chunks of a body have heads, and headers may follow it
    _deadline: float | None = None
    _timer: asyncio.TimerHandle | None = None
    _is_in_body = False
    _n_received = _n_bytes = 0
    _body_started = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first headers."""
        super().connection_made(transport)
        self._wait(HEADER_SECONDS)

    def connection_lost(self, error: Exception | None) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request; the next piece of a body may come later again."""
        self._n_received = len(data)
        super().data_received(data)
        if self._deadline is None or self.transport.is_closing():
            return
        self._n_bytes += len(data)
        if not self._is_in_body:
            if self._n_bytes > HEADER_BYTES:
                self.send_400_response("The headers are too large.")
        elif self._n_bytes > self.max_bytes:
            self.transport.close()
        else:
            left = self._body_started + BODY_SECONDS + self._n_bytes / BYTES_PER_SECOND - self.loop.time()
            self._wait(min(BODY_SECONDS, left))

    def on_message_begin(self) -> None:
        """Wait for the headers of a request."""
        self._n_bytes = -self._n_received  # the rest of this piece may be of the request before
        self._wait(HEADER_SECONDS)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Wait for the body of a request."""
        self._is_in_body, self._body_started = True, self.loop.time()
        self._wait(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Remove the deadline: the request is complete."""
        self._is_in_body = False
        self._deadline = None
        super().on_message_complete()

    def _wait(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds
        if self._timer is None:
            self._timer = self.loop.call_later(min(HEADER_SECONDS, BODY_SECONDS), self._look)

    def _look(self) -> None:
        """Close the connection if the deadline has passed, or look again later."""
        self._timer = None
        if self._deadline is None or self.transport.is_closing():
            return
        left = self._deadline - self.loop.time()
        if left <= 0:
            self.transport.close()
        else:
            self._timer = self.loop.call_later(left, self._look)


# -- logs -----------------------------------------------------------------------------------------


def set_up_logging(level: str, form: str) -> None:
    """Send the records of structlog, and of libraries that use `logging`, to the error stream."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if form == "json":
        # Without the values of variables: there may be a password among them.
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        ends: list[Any] = [
            structlog.processors.ExceptionRenderer(tracebacks),
            structlog.processors.JSONRenderer(),
        ]
    else:
        colors = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        plain = structlog.dev.plain_traceback
        ends = [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ends],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    logging.getLogger("alembic").setLevel(logging.WARNING)
