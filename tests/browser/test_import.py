"""Start from nothing in a real browser: drop files, name two clusters, see more of the same recognized."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import expect

from openworld.service.app import open_world
from openworld.service.settings import load_settings


def pictures(shapes: Any, shape: str, n: int, seed: int = 0) -> list[dict[str, Any]]:
    files = []
    for i, image in enumerate(shapes["draw"](shape, n, seed)):
        file = io.BytesIO()
        Image.fromarray(image).resize((64, 64)).save(file, "PNG")
        files.append({"name": f"{shape}{seed}-{i}.png", "mimeType": "image/png", "buffer": file.getvalue()})
    return files


@pytest.fixture
def empty(tmp_path: Path, serve: Any) -> Iterator[Any]:
    """A service that knows nothing, for pictures."""
    settings = load_settings(
        database=f"sqlite:///{tmp_path / 'empty.db'}", extractor="pixels", clustering=False, log_level="error"
    )
    with serve(tmp_path, settings, open_world(settings)) as site:
        yield site


def drop(page: Any, files: list[dict[str, Any]]) -> None:
    """Drop files on the form, as a mouse would."""
    sent = [{**file, "buffer": base64.b64encode(file["buffer"]).decode()} for file in files]
    data = page.evaluate_handle(
        """files => {
          const data = new DataTransfer();
          for (const { name, mimeType, buffer } of files) {
            const bytes = Uint8Array.from(atob(buffer), c => c.charCodeAt(0));
            data.items.add(new File([bytes], name, { type: mimeType }));
          }
          return data;
        }""",
        sent,
    )
    page.dispatch_event("#import", "drop", {"dataTransfer": data})


def name_cluster(tab: Any, label: str) -> None:
    tab.ready()
    tab.page.get_by_label("What is it?").fill(label)
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#outcome")).to_contain_text(f"Learned “{label}”")


def test_drop_files_name_two_clusters_and_see_more_recognized(empty: Any, tabs: Any, shapes: Any) -> None:
    tab = tabs(empty, "Ann")
    page = tab.page
    page.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    expect(page.get_by_role("heading", name="Start here")).to_be_visible()
    broken = {"name": "broken.png", "mimeType": "image/png", "buffer": b"nothing"}
    other = {"name": "notes.docx", "mimeType": "application/octet-stream", "buffer": b"nothing"}
    drop(page, [*pictures(shapes, "triangle", 12), *pictures(shapes, "bars", 12), broken, other])
    expect(page.locator("#import-summary")).to_have_text("Done: 24 unknown, 2 refused.")
    expect(page.locator("#import-refusals li")).to_have_count(2)
    expect(page.locator("#import-refusals")).to_contain_text("broken.png: not a picture")
    expect(page.locator("#import-bar")).to_have_js_property("value", 1)

    empty.service.clustering.run_once()  # the page does not reload: its summary is to be read
    page.get_by_role("link", name="Look at the unknowns").click()
    expect(page.locator(".card")).to_have_count(2)
    for cluster in empty.world.clusters.all():
        members = empty.world.pool.page().samples
        first = next(sample for sample in members if sample.cluster_id == cluster.id)
        tab.open(f"/unknowns/group?cluster={cluster.id}")
        name_cluster(tab, str(first.source).rstrip("-0123456789.png") or "bars")
    assert {info.label for info in empty.world.classes.all()} == {"triangle", "bars"}

    tab.open("/data")
    files = [*pictures(shapes, "triangle", 3, 5), *pictures(shapes, "bars", 3, 5)]
    page.get_by_label("Drop pictures here").set_input_files(files)  # as the keyboard does
    expect(page.locator("#import-summary")).to_contain_text("6 recognized")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in pictures(shapes, "ell", 4):
            archive.writestr(f"ell/{file['name']}", file["buffer"])
    files = [{"name": "ell.zip", "mimeType": "application/zip", "buffer": packed.getvalue()}]
    page.get_by_label("Drop pictures here").set_input_files(files)
    expect(page.locator("#import-summary")).to_have_text("Done: 4 learned.")
    with page.expect_download() as download:
        page.get_by_role("link", name="Folders (.zip)").click()
    names = zipfile.ZipFile(download.value.path()).namelist()
    assert {name.partition("/")[0] for name in names} == {"triangle", "bars", "ell"}
