"""Many samples into a world: learned, recognized, unknown, or refused by name."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openworld.data.errors import DataError
from openworld.data.sources import Item, listed_items
from openworld.data.streams import open_stream
from openworld.service.app import starting_model
from openworld.service.inputs import Inputs
from openworld.service.intake import Intake
from openworld.service.results import Conflict, PoolFilter
from openworld.service.settings import ServiceSettings
from openworld.service.world import World


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'world.db'}"


@pytest.fixture
def intake_of(url: str, settings_of: Any) -> Any:
    """Make an intake into a new world; the same one again continues."""
    worlds: list[World] = []

    def make(**changed: Any) -> tuple[World, Intake]:
        labels = changed.pop("labels", True)
        settings: ServiceSettings = settings_of(max_text=30, **changed)
        if not worlds:
            worlds.append(World.open(url, partial(starting_model, settings)))
        return worlds[0], Intake(worlds[0], Inputs(worlds[0], settings), "ann", labels=labels)

    yield make
    for world in worlds:
        world.close()


def texts(*pairs: tuple[str, str | None]) -> Any:
    return listed_items("lines", "text", [Item(text, label, text.encode) for text, label in pairs])


QUESTIONS = [
    *((f"where is my parcel {i}", "delivery") for i in range(6)),
    *((f"i want my money back {i}", "refund") for i in range(6)),
    *((f"please call me {i}", None) for i in range(4)),
]


def run(intake: Intake, *data: Any) -> Any:
    for one in data:
        for _ in intake.take(one):
            pass
    return intake.finish()


def test_labeled_texts_are_learned_and_others_wait_in_the_pool(intake_of: Any) -> None:
    world, intake = intake_of(extractor="ngrams")
    found = run(intake, texts(*QUESTIONS, ("x" * 31, None), ("a label that is reserved", "unknown")))
    assert (found.learned, found.unknown + found.recognized, found.refused) == (12, 4, 2)
    assert found.done == found.total == 18
    reasons = dict(found.refusals)
    assert "30 characters" in reasons["x" * 31]
    assert "choose another name" in reasons["a label that is reserved"]
    assert [info.label for info in world.classes.all()] == ["delivery", "refund"]
    assert world.history.events()[0].who == "ann"
    assert world.recognize(
        Inputs(world, ServiceSettings()).texts(["where is my parcel 17"])[0], remember=False
    ).labels == ["delivery"]
    again = run(intake_of(extractor="ngrams")[1], texts(*QUESTIONS))
    assert (again.learned, again.known_before) == (0, 12)
    other = run(intake_of(extractor="ngrams")[1], texts(("where is my parcel 1", "refund")))
    assert "labeled 'delivery' already" in other.refusals[0][1]


def test_without_labels_all_are_recognized(intake_of: Any) -> None:
    world, intake = intake_of(extractor="ngrams", labels=False)
    found = run(intake, texts(*QUESTIONS))
    assert (found.learned, found.unknown) == (0, 16)
    assert world.pool.count() == 16
    assert world.classes.all() == []


def test_pictures_that_cannot_be_read_are_named(intake_of: Any) -> None:
    from io import BytesIO

    from PIL import Image

    def picture(shade: int) -> bytes:
        file = BytesIO()
        Image.new("RGB", (40, 30), (shade, 0, 0)).save(file, "PNG")
        return file.getvalue()

    def gone() -> bytes:
        raise DataError("it is damaged in the zip.")

    world, intake = intake_of(extractor="pixels")
    items = [Item(f"{shade}.png", None, partial(picture, shade)) for shade in (10, 200)]
    items += [Item("bad.png", None, lambda: b"no picture"), Item("gone.png", None, gone)]
    found = run(intake, listed_items("photos", "image", items))
    assert (found.unknown, found.refused) == (2, 2)
    assert [name for name, _ in found.refusals] == ["bad.png", "gone.png"]
    assert "damaged in the zip" in dict(found.refusals)["gone.png"]
    assert [sample.source for sample in world.pool.page().samples] == ["10.png", "200.png"]
    assert world.pool.thumbnail(world.pool.ids()[0])[:2] == b"\xff\xd8"
    with pytest.raises(Conflict, match="takes pictures"):
        run(intake_of(extractor="pixels")[1], texts(("a text", None)))


def test_vectors_of_a_table(intake_of: Any, tmp_path: Path) -> None:
    rows = [f"{x + i / 10},{x},{label}" for x, label in ((0, "a"), (9, "b")) for i in range(5)]
    (tmp_path / "points.csv").write_text("\n".join(["p,q,label", *rows]))
    (tmp_path / "more.csv").write_text("\n".join(["p,q", *(f"{50 + i},50" for i in range(5))]))
    world, intake = intake_of(features=2)
    found = run(intake, open_stream(tmp_path / "points.csv"), open_stream(tmp_path / "more.csv"))
    assert (found.learned, found.unknown) == (10, 5)
    assert world.pool.count(PoolFilter(state="labeled", label="a")) == 5
    np.testing.assert_allclose(sorted(world.pool.features(world.pool.ids())[:, 1]), [50] * 5)
