"""Labeled samples as files, and back again."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from openworld.data.sources import open_source
from openworld.samples import open_samples
from openworld.service.app import open_world
from openworld.service.inputs import Inputs
from openworld.service.labeled_files import LABELED_FORMS, folder_name
from openworld.service.validation import Refused
from openworld.service.world import World


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
        with pytest.raises(Refused, match="vectors: take csv"):
            LABELED_FORMS[form](world)


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
