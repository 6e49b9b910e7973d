"""The contact sheet, and the default extractor from pictures to the sheet."""

from __future__ import annotations

import base64
import io
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from openworld.cli import contact_sheet
from openworld.cli.contact_sheet import Group, known_groups, unknown_groups, write_sheet
from openworld.data.sources import open_source
from openworld.data.stream import Batch


class Parsed(HTMLParser):
    """The groups of a page with the names in each, its pictures, and whatever it would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.groups: dict[str, list[str]] = {}
        self.pictures: list[str] = []
        self.addresses: list[str] = []
        self._in = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self._in = tag
        if tag == "img":
            assert values["src"]
            self.pictures.append(values["src"])
            self.groups[list(self.groups)[-1]].append(values["alt"] or "")
        self.addresses += [value or "" for key, value in attrs if key in ("src", "href", "action")]

    def handle_data(self, data: str) -> None:
        if self._in == "h3" and data.strip():
            self.groups[data.strip()] = []
            self._in = ""


def row(answer: str, distance: float, *, unknown: bool = False) -> dict[str, Any]:
    return {"answer": answer, "unknown": unknown, "nearest_class": "cat", "distance": distance, "sample": 1}


def recognizer() -> Any:
    """Stand in for a recognizer whose metric is the space itself."""
    two_classes = {"cat": 1, "dog": 1}
    metric = SimpleNamespace(transform=lambda X: X)
    return SimpleNamespace(metric_=metric, statistics_=two_classes, keeps_samples=False)


def test_the_least_typical_of_a_class_come_first() -> None:
    rows = [row("dog", 1), row("cat", 2), row("dog", 3), row("?", 9, unknown=True), row("dog", 2)]
    assert [(group.title, group.members) for group in known_groups(rows)] == [
        ("cat", [1]),
        ("dog", [2, 4, 0]),
    ]


def test_unknown_ones_come_by_cluster() -> None:
    random = np.random.default_rng(0)
    centers = np.repeat(np.eye(6)[:2] * 9, 20, axis=0)
    X = np.concatenate([centers + 0.1 * random.standard_normal((40, 6)), [[-50.0] * 6], np.zeros((3, 6))])
    rows = [row("?", 1, unknown=True)] * 41 + [row("cat", 1)] * 3
    groups = unknown_groups(recognizer(), X, rows)
    assert [group.title for group in groups] == ["Cluster 1", "Cluster 2", "In no cluster"]
    assert sorted(sorted(group.members) for group in groups) == [[*range(20)], [*range(20, 40)], [40]]
    assert [group.cluster for group in groups] == [1, 2, None]
    few = unknown_groups(recognizer(), X[:3], rows[:3])
    assert [(group.title, sorted(group.members)) for group in few] == [("Unknown", [0, 1, 2])]
    assert unknown_groups(recognizer(), X[:3], rows[-3:]) == []


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contact_sheet, "FEWEST_SHOWN", 2)
    monkeypatch.setattr(contact_sheet, "SHOWN_IN_ALL", 4)
    names = ["<i>&.png", "b.png", "c.png", "d.png"]
    for i, name in enumerate(names):
        Image.new("RGB", (400, 100), (60 * i, 0, 0)).save(tmp_path / name)
    source = open_source(tmp_path)
    rows = [row("<script>", 1), row("<script>", 2), row("<script>", 3), row("?", 4, unknown=True)]
    failures = [("bad <b>.png", "the file is empty")]
    batch = Batch(np.zeros((4, 2)), None, np.arange(4), names, failures=failures)
    write_sheet(tmp_path / "s.html", "a & b", source, batch, rows, [Group("Unknown", [3])])
    page = (tmp_path / "s.html").read_text(encoding="utf-8")
    parsed = Parsed(page)
    assert parsed.groups == {"Unknown": ["d.png"], "<script>": ["c.png", "b.png"]}
    assert "<script>" not in page
    assert "a &amp; b" in page
    assert "and 1 more" in page
    assert "bad &lt;b&gt;.png" in page
    assert all(address.startswith(("data:image/jpeg;base64,", "#")) for address in parsed.addresses)
    with Image.open(io.BytesIO(base64.b64decode(parsed.pictures[0].split(",")[1]))) as small:
        assert small.size == (192, 48)
        red, green, blue = small.getpixel((90, 20))
    assert abs(red - 180) < 12
    assert max(green, blue) < 12


def test_a_picture_that_is_gone_is_shown_by_name(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    batch = Batch(np.zeros((2, 2)), None, np.arange(2), ["a.png", "b.png"])
    source = open_source(tmp_path)
    (tmp_path / "a.png").unlink()
    write_sheet(tmp_path / "s.html", "t", source, batch, [row("cat", 1), row("cat", 2)], [])
    page = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert len(Parsed(page).pictures) == 1
    assert "<span>a.png</span>" in page


def test_vectors_are_shown_by_number(tmp_path: Path) -> None:
    rows = [{**row("cat", 1), "sample": 1}, {**row("cat", 2), "sample": 2}]
    write_sheet(tmp_path / "s.html", "t", None, Batch(np.zeros((2, 2)), None, np.arange(2)), rows, [])
    assert "sample 2" in (tmp_path / "s.html").read_text(encoding="utf-8")


def shapes(folder: Path, kinds: tuple[str, ...], count: int, seed: int) -> Path:
    """Draw discs, crosses, grids and so on in random colors and places, for a network to tell apart."""
    from PIL import ImageDraw

    random = np.random.default_rng(seed)
    for kind in kinds:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            picture = Image.new("RGB", (96, 96), tuple(int(c) for c in random.integers(170, 255, 3)))
            pen = ImageDraw.Draw(picture)
            x, y = (int(v) for v in random.integers(25, 50, 2))
            ink = tuple(int(c) for c in random.integers(0, 110, 3))
            if kind == "disc":
                pen.ellipse((x - 20, y - 20, x + 40, y + 40), fill=ink)
            elif kind == "grid":
                for k in range(0, 96, 12):
                    pen.line((k + x % 12, 0, k + x % 12, 96), fill=ink, width=3)
                    pen.line((0, k + y % 12, 96, k + y % 12), fill=ink, width=3)
            elif kind == "cross":
                pen.line((x - 20, y - 20, x + 40, y + 40), fill=ink, width=9)
                pen.line((x - 20, y + 40, x + 40, y - 20), fill=ink, width=9)
            else:
                for _ in range(60):
                    a, b = (int(v) for v in random.integers(0, 92, 2))
                    pen.ellipse((a, b, a + 6, b + 6), fill=ink)
            picture.save(folder / kind / f"{i}.png")
    return folder


@pytest.mark.usefixtures("own_cache")
def test_the_default_extractor_end_to_end(run: Any, tmp_path: Path) -> None:
    photos = shapes(tmp_path / "photos", ("disc", "grid", "cross"), 10, 0)
    new = shapes(tmp_path / "new", ("disc", "grid", "cross", "dots"), 6, 1)
    model, sheet = tmp_path / "shapes.ow", tmp_path / "sheet.html"
    run("fit", photos, "-o", model)
    assert "Learned 3 classes from 30 pictures" in run.message
    run("recognize", model, new, "--sheet", sheet, "-o", tmp_path / "answers.csv")
    before = int(run.message.split("By their labels ")[1].split(" of 24")[0])
    parsed = Parsed(sheet.read_text(encoding="utf-8"))
    assert len(parsed.pictures) == 24
    assert sum(map(len, parsed.groups.values())) == 24
    assert {"disc", "grid", "cross"} <= parsed.groups.keys()
    assert "efficientnet-lite0" in run("inspect", model)
    run("learn", model, shapes(tmp_path / "teach", ("dots",), 6, 2))
    assert "1 new class; 4 classes known now" in run.message
    run("recognize", model, new, "-o", tmp_path / "answers.csv")
    after = int(run.message.split("By their labels ")[1].split(" of 24")[0])
    assert min(before, after) >= 15
