"""Try it with a model of pictures, and with one of texts."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page, expect

from openworld import EuclideanMetric, NearestNonOutlier
from openworld.features.extractor import load_extractor
from openworld.service.settings import ServiceSettings
from openworld.service.world import World

SETTINGS = ServiceSettings(clustering=False, log_level="error", max_text=40)


def _world(folder: Path, extractor: str, things: Sequence[Any], labels: Sequence[str], tau: float) -> World:
    loaded = load_extractor(extractor)
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=tau)
    model.fit(loaded.transform(things), labels)
    model.extractor_ = loaded.id.as_dict()
    return World.open(f"sqlite:///{folder / 'world.db'}", model)


def _stripes(across: bool, shift: int = 0) -> Image.Image:
    bright = np.broadcast_to((np.arange(64) + shift) // 8 % 2 * 255, (64, 64)).astype(np.uint8)
    return Image.fromarray(bright if across else np.ascontiguousarray(bright.T))


def _png(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def _drop(page: Page, *named: tuple[str, bytes]) -> None:
    """Drop files on the form, as a person does who drags them from a folder."""
    dragged = page.evaluate_handle(
        """named => {
            const files = new DataTransfer();
            for (const [name, bytes] of named) files.items.add(new File([new Uint8Array(bytes)], name));
            return files;
        }""",
        [(name, list(data)) for name, data in named],
    )
    page.dispatch_event("#drop", "dragover", {"dataTransfer": dragged})
    expect(page.locator("#drop.over")).to_have_count(1)
    page.dispatch_event("#drop", "drop", {"dataTransfer": dragged})
    expect(page.locator("#drop.over")).to_have_count(0)


def test_a_picture_is_dropped_or_chosen(serve: Any, tabs: Any, tmp_path: Path) -> None:
    pictures = [_stripes(across, shift) for across in (True, False) for shift in range(3)]
    labels = np.repeat(["upright", "level"], 3)
    with serve(tmp_path, SETTINGS, _world(tmp_path, "pixels", pictures, labels, 12.0)) as site:
        tab = tabs(site)
        tab.allowed.append("422 (Unprocessable")
        page = tab.open("/try")
        assert page.locator("#letter, textarea[name=text]").count() == 0
        _drop(page, ("fence.png", _png(_stripes(True, 1))))
        expect(page.locator(".verdict")).to_contain_text("upright")
        expect(page.locator("#answer tbody th")).to_have_text(["upright", "level"])
        assert site.world.pool.count() == 0

        page.locator("#drop").get_by_label("Save to Unknowns").check()
        picture = _png(Image.new("L", (300, 200), 255))
        page.set_input_files("#file", {"name": "snow.png", "mimeType": "image/png", "buffer": picture})
        expect(page.locator(".verdict")).to_contain_text("unknown")
        (sample,) = site.world.pool.page().samples
        assert (sample.kind, sample.source) == ("image", "snow.png")
        page.get_by_role("link", name="name it").click()
        expect(page.locator(".tile img")).to_be_visible()

        page = tab.open("/try")
        _drop(
            page,
            ("fence.png", _png(_stripes(True, 1))),
            ("notes.txt", b"no picture"),
            ("shelf.png", _png(_stripes(False, 1))),
        )
        answers = page.locator("#answer > div")
        expect(answers).to_have_count(3)  # three files, three answers
        expect(answers.nth(0).locator(".verdict")).to_contain_text("upright")
        expect(answers.nth(1)).to_contain_text("notes.txt: Picture 0 (notes.txt)")
        expect(answers.nth(2).locator(".verdict")).to_contain_text("level")
        expect(answers.nth(2).get_by_role("img", name="shelf.png")).to_be_visible()

        answers.nth(2).get_by_label("Wrong? It is").fill("shelf")
        answers.nth(2).get_by_role("button", name="Learn").click()
        expect(answers.nth(2)).to_contain_text("Learned “shelf” from this sample.")
        assert "shelf" in [info.label for info in site.world.classes.all()]
        page.get_by_role("button", name="Undo").click()
        expect(page.locator("#outcome")).to_contain_text("Undone. “shelf” is no longer known.")


def test_a_text_is_pasted(serve: Any, tabs: Any, tmp_path: Path) -> None:
    words = ["red apple", "green apple", "slow train", "fast train"]
    labels = np.repeat(["fruit", "railway"], 2)
    with serve(tmp_path, SETTINGS, _world(tmp_path, "ngrams", words, labels, 0.9)) as site:
        tab = tabs(site)
        tab.allowed.append("422 (Unprocessable")
        page = tab.open("/try")
        assert page.locator("#letter, #drop").count() == 0
        form = page.locator("form", has=page.get_by_label("Text", exact=True))

        def ask(text: str) -> None:
            form.get_by_label("Text", exact=True).fill(text)
            form.get_by_role("button", name="Recognize").click()

        ask("an apple")
        expect(page.locator(".verdict")).to_contain_text("fruit")
        expect(page.locator("#answer tbody th")).to_have_text(["fruit", "railway"])
        form.get_by_label("Save to Unknowns").check()
        ask("<i>xyzzy</i>")
        expect(page.locator(".verdict")).to_contain_text("unknown")
        (sample,) = site.world.pool.page().samples
        assert (sample.kind, sample.text, sample.source) == ("text", "<i>xyzzy</i>", "try it")
        ask("x" * 41)
        expect(page.locator("#answer")).to_contain_text("A text can have at most 40 characters; one has 41.")
        ask("<i>xyzzy</i>")
        page.get_by_role("link", name="name it").click()
        expect(page.locator(".tile")).to_contain_text("<i>xyzzy</i>")
