"""Import and export over HTTP."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import openworld
from openworld.service.api.files import _line
from openworld.service.app import open_world
from openworld.service.intake import IntakeSummary
from openworld.service.world import World


def test_exports(client, unknown, world, tmp_path):
    client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "fünf"})
    lines = client.get("/v1/export/labeled").text.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["label"] for row in rows] == ["fünf"] * 3
    np.testing.assert_array_equal([row["feature"] for row in rows], world.pool.features(unknown[:3]))
    data = np.load(io.BytesIO(client.get("/v1/export/labeled", params={"format": "npz"}).content))
    np.testing.assert_array_equal(data["X"], world.pool.features(unknown[:3]))
    assert data["y"].tolist() == ["fünf"] * 3
    assert data["ids"].tolist() == unknown[:3]
    (event,) = [json.loads(line) for line in client.get("/v1/export/log").text.splitlines()]
    assert (event["kind"], event["who"], event["payload"]["label"]) == ("label", "local", "fünf")
    path = tmp_path / "model.ow"
    path.write_bytes(client.get("/v1/export/model").content)
    assert "fünf" in openworld.load(path).classes_
    assert client.get("/v1/export/labeled", params={"format": "pickle"}).status_code == 422


# -- import ---------------------------------------------------------------------------------------


@pytest.fixture
def starting(url: str, settings_of: Callable[..., Any]) -> Iterator[Callable[..., World]]:
    """Open a world that starts from nothing."""
    opened: list[World] = []

    def start(**settings: Any) -> World:
        opened.append(open_world(settings_of(**settings)))
        return opened[-1]

    yield start
    for world in opened:
        world.close()


def picture(shade: int, side: int = 40) -> bytes:
    file = io.BytesIO()
    image = Image.new("RGB", (side, side), (shade, shade, shade))
    image.paste((255 - shade, 0, 0), (0, 0, side // 2, side // 3))
    image.save(file, "PNG")
    return file.getvalue()


def zipped(**files: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file.getvalue()


def send(client: Any, *files: tuple[str, bytes | str], **params: Any) -> list[dict[str, Any]]:
    answer = client.post("/v1/import", files=[("files", file) for file in files], params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_pictures_a_zip_and_what_cannot_be_read(serving: Any, starting: Any) -> None:
    world = starting(extractor="pixels")
    labeled = {
        f"{name}/{i}.png": picture(shade + i)
        for name, shade in (("dark", 0), ("light", 200))
        for i in range(4)
    }
    with serving(world) as client:
        lines = send(
            client,
            ("one.png", picture(120)),
            ("notes.docx", b"?"),
            ("broken.png", b"?"),
            ("all.zip", zipped(**labeled)),
            ("bad.zip", b"?"),
            ("lines.txt", "a text"),
        )
    assert [line["finished"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert len(lines) > 3
    last = lines[-1]
    assert (last["learned"], last["unknown"], last["refused"]) == (8, 1, 4)
    assert last["done"] == last["total"] == 13
    reasons = {one["name"]: one["reason"] for one in last["refusals"]}
    assert list(reasons) == ["notes.docx", "broken.png", "bad.zip", "lines.txt"]
    assert "cannot be read" in reasons["notes.docx"]
    assert "takes pictures" in reasons["lines.txt"]
    assert [info.label for info in world.classes.all()] == ["dark", "light"]
    assert world.pool.get(1).source == "one.png"


def test_labels_can_be_left_alone(serving: Any, starting: Any) -> None:
    world = starting(extractor="ngrams")
    rows = [f"where is my parcel {i},delivery\nmoney back {i},refund" for i in range(3)]
    table = "\n".join(["text,label", *rows])
    with serving(world) as client:
        assert send(client, ("q.csv", table), labels=False)[-1]["unknown"] == 6
        assert send(client, ("q.csv", table))[-1]["learned"] == 6
        assert send(client, ("q.csv", table))[-1]["known_before"] == 6
    assert [info.label for info in world.classes.all()] == ["delivery", "refund"]


def test_vectors_and_limits(serving: Any, starting: Any, as_npy: Callable[[Any], bytes]) -> None:
    world = starting(features=3)
    with serving(world, max_import=4) as client:
        assert send(client, ("v.npy", as_npy(np.eye(3, dtype=np.float32))))[-1]["unknown"] == 3
        (refused,) = send(client, ("v.npy", as_npy(np.ones((5, 3), np.float32))))[-1]["refusals"]
        assert "the limit is 4" in refused["reason"]
        (refused,) = send(client, ("v.npy", as_npy(np.ones((2, 7), np.float32))))[-1]["refusals"]
        assert "samples of 3 numbers" in refused["reason"]
        missing = np.ones((2, 3), np.float32)
        missing[1, 2] = np.nan
        (refused,) = send(client, ("v.npy", as_npy(missing)))[-1]["refusals"]
        assert refused["reason"] == "sample 2, feature number 3: the value is missing."
        (refused,) = send(client, ("v.csv", "a,b,c\n1,2,x\n"))[-1]["refusals"]
        assert refused["reason"].endswith("'x' is not a number. Its columns are: a, b, c.")  # no option
    with serving(world, max_body_mb=0.0001) as client:
        assert client.post("/v1/import", files=[("files", ("v.npy", b"0" * 1000))]).status_code == 413


def test_a_viewer_cannot_import(serving: Any, starting: Any, tmp_path: Path) -> None:
    world = starting(features=3)
    key = world.keys.create("vic", "viewer")
    with serving(world) as client:
        answer = client.post(
            "/v1/import",
            files=[("files", ("v.csv", "a,b,c\n1,2,3\n"))],
            headers={"Authorization": f"Bearer {key}"},
        )
    assert answer.status_code == 403
    assert world.pool.count() == 0


def test_a_text_that_utf_8_cannot_hold_is_named_among_the_refused() -> None:
    summary = IntakeSummary()
    summary.refuse("\ud800 x", "surrogates not allowed")
    assert json.loads(_line(summary, finished=True))["refusals"][0]["name"] == "? x"


@pytest.mark.filterwarnings("ignore:Too little to calibrate with")
def test_groups_are_folders_or_columns(serving: Any, starting: Any) -> None:
    world = starting(extractor="pixels")
    labeled = {
        f"{name}/{day}/{i}.png": picture(shade + i)
        for name, shade, day in (("dark", 0, "mon"), ("dark", 20, "tue"), ("light", 200, "mon"))
        for i in range(2)
    }
    with serving(world) as client:
        assert send(client, ("all.zip", zipped(**labeled)), group_column="folder")[-1]["learned"] == 6
        (refused,) = send(client, ("all.zip", zipped(**labeled)), group_column="video")[-1]["refusals"]
        assert refused["reason"] == "all.zip holds pictures in folders, which have no columns."
        (refused,) = send(client, ("one.png", picture(120)), group_column="video")[-1]["refusals"]
        assert "no columns" in refused["reason"]
        (refused,) = send(client, ("t.txt", "text"), group_column="video")[-1]["refusals"]
        assert refused["reason"].startswith("a .txt file has no columns, so its lines have no groups. Use")
        (refused,) = send(client, ("t.csv", "text,vdeo\na,b"), group_column="video")[-1]["refusals"]
        assert refused["reason"] == 't.csv has no column named "video". Its columns are: text, vdeo.'
    assert {world.pool.get(i).group for i in range(1, 7)} == {"dark/mon", "dark/tue", "light/mon"}
    assert world.pool.count() == 0


def test_the_reason_of_an_array_without_columns_has_no_option_and_no_path(
    serving: Any, starting: Any, as_npy: Any
) -> None:
    with serving(starting(features=2)) as client:
        (refused,) = send(client, ("x.npy", as_npy(np.zeros((3, 2)))), group_column="video")[-1]["refusals"]
    assert refused["reason"].startswith("a .npy file has no named columns.")
    assert "--" not in refused["reason"]
    assert "/" not in refused["reason"]
