"""A real server and a real browser, shared by all browser tests of a module."""

from __future__ import annotations

import logging
import runpy
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import structlog
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

from openworld.service.app import create_app
from openworld.service.settings import ServiceSettings
from openworld.service.world import World

_HERE = Path(__file__).parent
_chromium = runpy.run_path(str(_HERE / "chromium.py"))
_shapes = runpy.run_path(str(_HERE / "shapes.py"))


_closers: list[threading.Thread] = []
_PATIENCE = 60_000  # ms, for a loaded machine
expect.set_options(timeout=_PATIENCE)


@pytest.fixture(scope="package", autouse=True)
def _quiet_log() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    for closer in _closers:
        closer.join()
    structlog.reset_defaults()


@pytest.fixture(scope="module")  # not longer: asyncio.run fails in this thread while playwright is there
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = _chromium["find"](playwright.chromium.executable_path)
        browser = playwright.chromium.launch(executable_path=path, args=_chromium["ARGUMENTS"])
        yield browser
        browser.close()


@dataclass
class Site:
    """A server with a world of shapes behind it."""

    url: str
    world: World
    service: Any
    shapes: dict[str, Any] = field(default_factory=lambda: _shapes)
    tabs: list[Tab] = field(default_factory=list)

    def stream(self, seed: int) -> dict[str, list[int]]:
        """Send new unknown shapes and have them clustered; return their ids."""
        ids: dict[str, list[int]] = self.shapes["stream"](self.world, seed)
        self.service.clustering.run_once()
        return ids

    def cluster_of(self, sample_id: int) -> int:
        """Return the cluster of a sample."""
        cluster = self.world.pool.get(sample_id).cluster_id
        assert cluster is not None
        return cluster

    def recognizes(self, shape: str, seed: int = 77) -> list[str | None]:
        """Return what the model calls new drawings of a shape."""
        return list(
            self.world.recognize(
                self.shapes["features"](self.shapes["draw"](shape, 3, seed)), remember=False
            ).labels
        )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site with unknown shapes in its pool."""
    with serving(tmp_path, ServiceSettings(clustering=False, lease_seconds=600, log_level="error")) as site:
        site.stream(0)
        yield site


class serving:
    """Serves a world, by default a new one of shapes, on a free port, in a thread."""

    def __init__(self, folder: Path, settings: ServiceSettings, world: World | None = None) -> None:
        self._settings = settings
        self._world = _shapes["open_world"](folder) if world is None else world

    def __enter__(self) -> Site:
        app = create_app(self._world, self._settings)
        self._socket = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            log_level="error",
            timeout_graceful_shutdown=1,
            timeout_keep_alive=600,  # a page of a busy machine may ask just after 5 s, the default
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()
        url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._site = Site(url, self._world, app.state.service)
        return self._site

    def __exit__(self, *_: object) -> None:
        for tab in self._site.tabs:  # an open page would ask a server that is gone
            tab.context.close()
        self._server.should_exit = True
        closer = threading.Thread(target=self._close)
        closer.start()  # while the next test begins
        _closers.append(closer)

    def _close(self) -> None:
        self._thread.join()
        self._socket.close()
        self._world.close()


@pytest.fixture(scope="session")
def shapes() -> dict[str, Any]:
    return _shapes


@pytest.fixture(scope="session")
def serve() -> type[serving]:
    return serving


class Tab:
    """A page whose console errors, exceptions and refused scripts fail the test."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context, self.url = context, url
        self.page: Page = context.new_page()
        self.page.set_default_timeout(_PATIENCE)
        self.allowed: list[str] = []
        self._problems: list[str] = []
        self.page.on("console", lambda message: message.type == "error" and self._note(message.text))
        self.page.on("pageerror", lambda error: self._note(str(error)))

    def _note(self, problem: str) -> None:
        self._problems.append(problem)

    def open(self, path: str) -> Page:
        """Go to a page and wait until its script runs."""
        try:
            self.page.goto(self.url + path, wait_until="load")
        except Error as error:
            if "ERR_ABORTED" not in str(error):
                raise
            self.page.goto(self.url + path, wait_until="load")  # the page itself went on at that moment
        return self.page

    def ready(self) -> None:
        """Wait, after following a link, until the script of the new page runs."""
        expect(self.page.locator("body[data-ready]")).to_have_count(1)

    def check(self) -> None:
        """Fail where something went wrong that the test did not allow."""
        # A page that is left aborts its requests, and so does a clock that is put forward.
        allowed = [*self.allowed, "AbortError"]
        bad = [p for p in self._problems if not any(words in p for words in allowed)]
        assert bad == []


@pytest.fixture
def tabs(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Open tabs, each for another person with a browser of their own."""
    opened: list[Tab] = []

    def open_tab(site: Site, name: str | None = None, **options: Any) -> Tab:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        tab = Tab(context, site.url)
        opened.append(tab)
        site.tabs.append(tab)
        if name is not None:
            tab.open("/login").get_by_label("Your name").fill(name)
            tab.page.keyboard.press("Enter")
            tab.page.wait_for_url(site.url + "/")
        return tab

    yield open_tab
    for tab in opened:
        tab.context.close()
    for tab in opened:
        tab.check()
