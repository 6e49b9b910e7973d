"""Labeled samples as files, and back again; what can be read of a damaged database."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from openworld import load
from openworld.data.columns import Columns
from openworld.data.sources import open_source
from openworld.samples import open_samples
from openworld.service.app import open_world
from openworld.service.export import LABELED_FORMS, export_readable, folder_name
from openworld.service.inputs import Inputs
from openworld.service.validation import Refused
from openworld.service.world import World
from openworld.store.records import SampleContent
from openworld.store.storage import DamagedError

PAGE = 4096
N = 120


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'world.db'}"


@pytest.fixture
def starting(settings_of: Callable[..., Any]) -> Iterator[Callable[..., tuple[World, Inputs]]]:
    opened: list[World] = []

    def start(**changed: Any) -> tuple[World, Inputs]:
        settings = settings_of(**changed)
        opened.append(open_world(settings))
        return opened[-1], Inputs(opened[-1], settings)

    yield start
    for world in opened:
        world.close()


LABELS = ["a/b", "a/b", 'naïve, "quoted"', "a/b", 'naïve, "quoted"', 'naïve, "quoted"']


def exported(world: World, form: str, folder: Path, ending: str) -> Path:
    path = folder / f"out.{ending}"
    path.write_bytes(b"".join(LABELED_FORMS[form](world)))
    return path


def pairs(path: Path) -> set[tuple[str | None, bytes]]:
    source = open_source(path)
    assert source is not None
    return {(item.label, item.read()) for item in source}


def test_texts(starting: Any, tmp_path: Path) -> None:
    world, inputs = starting(extractor="ngrams")
    texts = [f"line {i}, with a comma\nand a break" for i in range(6)]
    world.labels.learn(*inputs.texts(texts)[:1], LABELS, "ann", inputs.texts(texts)[1])
    expected = {(label, text.encode()) for label, text in zip(LABELS, texts, strict=True)}
    assert pairs(exported(world, "csv", tmp_path, "csv")) == expected
    assert pairs(exported(world, "parquet", tmp_path, "parquet")) == expected
    assert pairs(exported(world, "label-studio", tmp_path, "json")) == expected
    archive = zipfile.ZipFile(exported(world, "zip", tmp_path, "zip"))
    assert {name.partition("/")[0] for name in archive.namelist()} == {folder_name(label) for label in LABELS}
    assert {archive.read(name).decode() for name in archive.namelist()} == set(texts)
    (row, *_) = csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text()))
    assert (row["who"], row["id"]) == ("ann", "1")


def test_pictures_as_folders_that_fit_reads(starting: Any, tmp_path: Path) -> None:
    world, inputs = starting(extractor="pixels")
    pictures = []
    for shade in range(6):
        file = io.BytesIO()
        Image.new("RGB", (40, 30), (40 * shade, 0, 0)).save(file, "PNG")
        pictures.append((f"{shade}.png", file.getvalue()))
    features, items = inputs.pictures(pictures)
    world.labels.learn(features, ["x", "x", "x", "y", "y", "y"], "ann", items)
    stored = {(label, world.pool.preview(i)) for i, label in zip(range(1, 7), "xxxyyy", strict=True)}
    assert pairs(exported(world, "zip", tmp_path, "zip")) == stored
    assert pairs(exported(world, "parquet", tmp_path, "parquet")) == stored
    assert pairs(exported(world, "label-studio", tmp_path, "json")) == stored
    rows = list(csv.DictReader(io.StringIO(exported(world, "csv", tmp_path, "csv").read_text())))
    assert [(row["source"], row["label"]) for row in rows][:1] == [("0.png", "x")]


def test_vectors(starting: Any, tmp_path: Path) -> None:
    world, _ = starting(features=3)
    X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    world.labels.learn(X, LABELS, "ann")
    for form in ("csv", "parquet", "npz"):
        batch = open_samples(str(exported(world, form, tmp_path, form))).read()
        np.testing.assert_allclose(batch.X, X, atol=1e-6)
        assert batch.y is not None
        assert batch.y.tolist() == LABELS
    for form in ("zip", "label-studio"):
        with pytest.raises(Refused, match="vectors: use csv"):
            LABELED_FORMS[form](world)


GROUPS = ["a/b/monday", "a/b/monday", "tape 1", None, "tape 1", None]


def partition(path: Path, group: str) -> set[tuple[str | None, int]]:
    """Return which samples are of one group: their labels, and how many there are."""
    source = open_source(path, columns=Columns(group=group))
    assert source is not None
    counts = Counter((item.label, item.group) for item in source if item.group is not None)
    return {(label, n) for (label, _), n in counts.items()}


@pytest.mark.filterwarnings("ignore:Too little to calibrate with")
def test_groups_of_pictures_and_texts(starting: Any, tmp_path: Path) -> None:
    for extractor in ("pixels", "ngrams"):
        folder = tmp_path / extractor
        folder.mkdir()
        world, inputs = starting(extractor=extractor, database=f"sqlite:///{folder / 'world.db'}")
        if extractor == "pixels":
            files = []
            for shade in range(6):
                file = io.BytesIO()
                Image.new("RGB", (40, 30), (40 * shade, 0, 0)).save(file, "PNG")
                files.append((f"{shade}.png", file.getvalue()))
            features, items = inputs.pictures(files)
        else:
            features, items = inputs.texts([f"text {i}" for i in range(6)])
        items = [replace(item, group=group) for item, group in zip(items, GROUPS, strict=True)]
        world.labels.learn(features, LABELS, "ann", items)
        forms = [("parquet", "parquet", "group"), ("label-studio", "json", "group")]
        forms += [("zip", "zip", "folder")] if extractor == "pixels" else [("csv", "csv", "group")]
        for form, ending, column in forms:
            path = exported(world, form, folder, ending)
            labels = map(folder_name, LABELS[1:3]) if form == "zip" else LABELS[1:3]
            assert partition(path, column) == {(label, 2) for label in labels}
        for line in exported(world, "ndjson", folder, "ndjson").read_text().splitlines():
            assert json.loads(line)["group"] == GROUPS[json.loads(line)["id"] - 1]


@pytest.mark.filterwarnings("ignore:Too little to calibrate with")
def test_groups_of_vectors(starting: Any, tmp_path: Path) -> None:
    world, _ = starting(features=3)
    X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    world.labels.learn(X, LABELS, "ann", [SampleContent(group=group) for group in GROUPS])
    for form, column in (("csv", "group"), ("parquet", "group"), ("npz", "groups")):
        path = exported(world, form, tmp_path, form)
        batch = open_samples(str(path), columns=Columns(group=column)).read()
        np.testing.assert_allclose(batch.X, X, atol=1e-6)
        assert batch.y is not None
        assert batch.groups is not None
        assert batch.y.tolist() == LABELS
        assert batch.groups.tolist() == [group or "" for group in GROUPS]


def test_nothing_labeled_yet(starting: Any, tmp_path: Path) -> None:
    world, _ = starting(extractor="ngrams")
    assert json.loads(exported(world, "label-studio", tmp_path, "json").read_bytes()) == []
    assert zipfile.ZipFile(exported(world, "zip", tmp_path, "zip")).namelist() == []
    assert len(exported(world, "csv", tmp_path, "csv").read_text().splitlines()) == 1
    assert len(exported(world, "parquet", tmp_path, "parquet").read_bytes()) > 0


@pytest.mark.parametrize(
    "label", ["a/b", "..", ".hidden", "a%2Fb", 'x:*?"<>|', "dot.", "back\\slash", "plain"]
)
def test_names_of_folders_are_safe_and_stay_different(label: str) -> None:
    name = folder_name(label)
    assert not set(name) & set('/\\:*?"<>|')
    assert not name.startswith(".")
    assert name != folder_name(label + "x")
    assert folder_name("a/b") != folder_name("a%2Fb")


# -- a damaged SQLite file ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, models: Callable[[str], Any], things: Any) -> Path:
    """A database in which many samples were learned one by one."""
    path = tmp_path_factory.mktemp("whole") / "world.db"
    with World.open(f"sqlite:///{path}", models("nno")) as world:
        for i in range(N):
            world.labels.learn(things(5 + i % 3, 1, i), [f"kind {i % 3}"], "ann")
    return path


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def damaged(whole: Path, path: Path, page: int) -> Path:
    """Copy a database and overwrite one of its pages."""
    content = bytearray(whole.read_bytes())
    content[page * PAGE : (page + 1) * PAGE] = b"\xaa" * PAGE
    path.write_bytes(content)
    return path


def test_a_whole_file_gives_everything(whole: Path, tmp_path: Path) -> None:
    assert export_readable(whole, "log", tmp_path / "log.ndjson") == N
    assert export_readable(whole, "labeled", tmp_path / "out.ndjson") == N
    assert export_readable(whole, "labeled", tmp_path / "out.npz") == N
    with World.open(f"sqlite:///{whole}") as world:
        events = list(world.history.export())
        stored: list[tuple[Any, NDArray[Any]]] = list(world.pool.labeled())
    assert [(row["id"], row["payload"]) for row in lines(tmp_path / "log.ndjson")] == [
        (event.id, event.payload) for event in events
    ]
    found = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(found["X"], [feature for _, feature in stored])
    assert found["y"].tolist() == [sample.label for sample, _ in stored]
    assert [row["feature"] for row in lines(tmp_path / "out.ndjson")] == found["X"].tolist()
    assert export_readable(whole, "model", tmp_path / "model.ow") == 1
    assert load(tmp_path / "model.ow").n_features_in_ == 4


def test_one_damaged_page_loses_little(whole: Path, tmp_path: Path) -> None:
    """Whatever page it is, what is exported was stored, and most of it is there."""
    export_readable(whole, "log", tmp_path / "all.ndjson")
    everything = lines(tmp_path / "all.ndjson")
    n_pages, n_damaged, counts = whole.stat().st_size // PAGE, 0, []
    for page in range(1, n_pages, max(1, n_pages // 12)):
        path = damaged(whole, tmp_path / "damaged.db", page)
        try:
            World.open(f"sqlite:///{path}", alone=False).close()
        except DamagedError:
            n_damaged += 1
        counts.append(export_readable(path, "log", tmp_path / "log.ndjson"))
        assert all(row in everything for row in lines(tmp_path / "log.ndjson"))
    assert n_damaged > 3
    assert np.median(counts) == N
    assert sum(counts) > 0.7 * N * len(counts)


def test_the_file_itself_is_left_alone(whole: Path, tmp_path: Path) -> None:
    path = damaged(whole, tmp_path / "damaged.db", 5)
    before = path.read_bytes()
    export_readable(path, "log", tmp_path / "log.ndjson")
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["damaged.db", "log.ndjson"]


def test_nothing_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "world.db"
    path.write_bytes(b"no database at all" * 1000)
    assert export_readable(path, "log", tmp_path / "log.ndjson") == 0
