"""Records the GIF of the README: a person opens the first new cluster of the demonstration and names it.

openworld demo --output new_folder
python scripts/page_gif.py http://127.0.0.1:8000 zeta docs/images/page.gif    # the name of that cluster
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

_SIZE = {"width": 1280, "height": 800}
_SHOWN = (960, 600)


def main(address: str, name: str, path: str) -> None:
    """Play the story in a browser and write it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=_SIZE)
        frames = list(_story(page, address, name))
        browser.close()
    shown = [Image.open(io.BytesIO(data)).resize(_SHOWN) for data, _ in frames]
    pictures = [picture.quantize(128, dither=Image.Dither.NONE) for picture in shown]
    pictures[0].save(
        path,
        save_all=True,
        append_images=pictures[1:],
        duration=[ms for _, ms in frames],
        loop=0,
        optimize=True,
    )


def _story(page: Page, address: str, name: str) -> Iterator[tuple[bytes, int]]:
    """Yield screenshots, each with the milliseconds that it is shown."""
    page.goto(f"{address}/login")
    page.get_by_label("Your name").fill("Ann")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{address}/")
    new = page.locator(".card", has_text="new").first
    expect(new).to_be_visible(timeout=60_000)
    yield page.screenshot(), 2500
    new.click()
    expect(page.locator("#preview")).to_contain_text("unlike every known class")
    page.wait_for_timeout(800)
    yield page.screenshot(), 1800
    page.keyboard.press("Enter")
    page.keyboard.type(name)
    expect(page.locator("#preview")).to_contain_text("New class")
    yield page.screenshot(), 1800
    page.keyboard.press("Enter")
    expect(page.locator("#outcome")).to_contain_text("Learned", timeout=60_000)
    page.wait_for_timeout(2000)
    yield page.screenshot(), 2500
    page.goto(f"{address}/classes?search={name}")
    page.locator(".card").first.click()
    expect(page.locator("#dialog h2")).to_have_text(name)
    page.wait_for_timeout(500)
    yield page.screenshot(), 2500


if __name__ == "__main__":
    main(*sys.argv[1:4])
