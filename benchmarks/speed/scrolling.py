"""Scrolling with 20,000 pending samples in Chromium: frames, long tasks, processor time; empty page too.

python -m benchmarks.speed.scrolling    # needs playwright and chromium
"""

from __future__ import annotations

import io
import logging
import shutil
import socket
import tempfile
import threading
from typing import Any

import numpy as np
import structlog
import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from sqlalchemy import update

from benchmarks.speed.pages import _world
from openworld.service.app import create_app
from openworld.service.settings import ServiceSettings
from openworld.service.world import World
from openworld.store.tables import thumbnails

PENDING = 20_000
TURNS, PIXELS, PAUSE = 80, 500, 60  # of the wheel; pixels of each; milliseconds between two
CHROMIUM = ["--headless", "--no-sandbox", "--disable-gpu"]
PAGES = {
    "empty page": "/no-such-page",
    "list of clusters": "/",
    "cluster of 4,000 samples": "/unknowns/group?cluster=1",
}
WATCH = """
document.documentElement.style.minHeight = "60000px";
window.frames_ = [];
window.tasks_ = [];
new PerformanceObserver(list => window.tasks_.push(...list.getEntries().map(task => task.duration)))
  .observe({ type: "longtask" });
requestAnimationFrame(function next(now) { window.frames_.push(now); requestAnimationFrame(next); });
"""


def _with_pictures(world: World) -> None:
    """Give all samples a picture that a browser has to decode."""
    file = io.BytesIO()
    coarse = np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize((256, 256), Image.Resampling.BICUBIC).save(file, "JPEG")
    with world.event_log.database.write() as connection:
        connection.execute(update(thumbnails).values(data=file.getvalue()))


def _scrolled(page: Page, address: str) -> dict[str, Any]:
    browser = page.context.new_cdp_session(page)
    browser.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(address)
    page.mouse.move(400, 600)
    page.evaluate(WATCH)
    for _ in range(TURNS):
        page.mouse.wheel(0, PIXELS)
        page.wait_for_timeout(PAUSE)
    gaps = np.diff(page.evaluate("window.frames_"))
    tasks = page.evaluate("window.tasks_")
    spent = {one["name"]: one["value"] for one in browser.send("Performance.getMetrics")["metrics"]}
    return {
        "frames/s": 1e3 / gaps.mean(),
        "p99 ms": np.quantile(gaps, 0.99),
        "tasks > 50 ms": len(tasks),
        "longest ms": max(tasks, default=0),
        "main thread, processor ms": 1e3 * spent["TaskDuration"],
        "pixels": page.evaluate("scrollY"),
        "tiles": page.locator(".tile, .card").count(),
    }


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory() as folder, _world(folder, PENDING) as world:
        _with_pictures(world)
        app = create_app(world, ServiceSettings(clustering=False, log_level="error"))
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            for name, path in PAGES.items():
                found = _scrolled(page, url + path)
                print(f"{name:26}" + "".join(f"{key}: {value:.0f}   " for key, value in found.items()))
            browser.close()
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
