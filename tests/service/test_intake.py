"""Samples into a world: progress, refusals, learning the labeled; and files that people send."""

from __future__ import annotations

import json
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.sources import Item, Source, listed_items
from openworld.data.stream import Stream
from openworld.data.streams import open_stream
from openworld.service import intake as intake_module
from openworld.service.app import starting_model
from openworld.service.inputs import Inputs
from openworld.service.intake import Intake, ending
from openworld.service.settings import ServiceSettings
from openworld.service.validation import Conflict
from openworld.service.world import World
from openworld.store.records import PoolFilter


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


@pytest.mark.filterwarnings("ignore:Too little to calibrate with")
def test_groups_of_tables_and_pictures(intake_of: Any, tmp_path: Path) -> None:
    long = "x" * 201
    (tmp_path / "points.csv").write_text(
        f"p,q,label,video\n1,1,a,one\n1,2,a,one\n9,9,b,\n9,8,b,two\n5,5,b,{long}"
    )
    world, intake = intake_of(features=2)
    found = run(intake, open_stream(tmp_path / "points.csv", columns=Columns(group="video")))
    assert (found.learned, found.refused) == (4, 1)
    assert "200 characters" in found.refusals[0][1]
    groups = [world.pool.get(i).group for i in range(1, 5)]
    assert groups == ["one", "one", None, "two"]
    (event,) = world.history.export()
    assert event.payload["groups"] == ["one", "one", "", "two"]


def test_groups_of_texts(intake_of: Any) -> None:
    world, intake = intake_of(extractor="ngrams")
    pairs = [(text, "mail" if label == "refund" else None) for text, label in QUESTIONS]
    items = [Item(text, None, text.encode, group=group) for text, group in pairs]
    run(intake, listed_items("lines", "text", items))
    stored = world.pool.page(PoolFilter()).samples
    assert {(sample.text, sample.group) for sample in stored} == set(pairs)


# -- files that people send -----------------------------------------------------------------------


open_upload = partial(intake_module.open_upload, most=10)


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def items(path: Path, **options: Any) -> list[tuple[str, str | None, bytes]]:
    source = open_upload(path, "sent", **{"takes_items": True, **options})
    assert isinstance(source, Source)
    return [(item.name, item.label, item.read()) for item in source]


def test_the_ending_says_what_a_file_is() -> None:
    assert [ending(name) for name in ("A.JPG", "b.csv", "c.zip", "d.exe", "e.csv.gz", "../f.txt", "")] == [
        ".jpg",
        ".csv",
        ".zip",
        None,
        None,
        ".txt",
        None,
    ]


def test_each_line_of_a_text_is_a_text_even_if_a_file_has_that_name(tmp_path: Path) -> None:
    secret = written(tmp_path, "secret", "hidden")
    lines = f"{secret}\n\n  hello  \n{secret}\n"
    found = items(written(tmp_path, "0.txt", lines))
    assert [(name, label) for name, label, _ in found] == [
        (str(secret), None),
        ("hello", None),
        (str(secret), None),
    ]
    assert all(b"hidden" not in content for _, _, content in found)


def test_paths_in_a_table_are_refused(tmp_path: Path) -> None:
    secret = written(tmp_path, "secret.png", "hidden")
    table = written(tmp_path, "0.csv", f"path,label\n{secret},a\n")
    with pytest.raises(DataError, match=r"^sent lists paths of pictures.*send the pictures"):
        open_upload(table, "sent", takes_items=True)


def test_a_table_of_texts_and_one_of_numbers(tmp_path: Path) -> None:
    texts = written(tmp_path, "0.csv", "text,label,score\nhello,hi,1\nbye,,2\n")
    assert items(texts) == [("hello", "hi", b"hello"), ("bye", None, b"bye")]
    numbers = open_upload(written(tmp_path, "1.csv", "a,b,label\n1,2,x\n3,4,y\n"), "n.csv", takes_items=False)
    assert isinstance(numbers, Stream)
    assert (numbers.n_features, len(numbers)) == (2, 2)
    np.save(tmp_path / "2.npy", np.eye(3, dtype=np.float32))
    assert len(open_upload(tmp_path / "2.npy", "v.npy", takes_items=False)) == 3


def test_a_zip_of_folders_and_a_damaged_one(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "0.zip", "w") as archive:
        archive.writestr("cat/../../1.png", b"left out")
        archive.writestr("cat/2.png", b"two")
        archive.writestr("notes.txt", b"left out")
    assert items(tmp_path / "0.zip") == [("cat/2.png", "cat", b"two")]
    with pytest.raises(DataError, match=r"^sent: not a valid \.zip"):
        open_upload(written(tmp_path, "1.zip", b"PK nothing"), "sent", takes_items=True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("0.txt", "ab\n" * 101),
        ("0.txt", "\r" * 101),
        ("0.csv", "text\n" + "a\n" * 101),
        ("0.jsonl", '{"text": "a"}\n' * 101),
        ("0.jsonl", '{"text": [' + "[]," * 201 + "[]]}"),
        ("0.json", "[" + "{}," * 201 + "{}]"),
        ("0.json", "[" + "1," * 1001 + "1]"),
    ],
)
def test_a_file_of_too_many_lines_or_values_is_refused_before_it_is_parsed(
    name: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "_open", lambda *_: pytest.fail("it was parsed"))
    with pytest.raises(DataError, match=r"^sent has more lines or values than 10 samples.*in parts"):
        open_upload(written(tmp_path, name, content), "sent", takes_items=True)


def test_a_zip_of_too_many_members_is_refused_before_they_are_listed(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "0.zip", "w") as archive:
        for i in range(101):
            archive.writestr(f"{i}.png", b"")
    with pytest.raises(DataError, match="more lines or values"):
        open_upload(tmp_path / "0.zip", "sent", takes_items=True)


def test_a_table_that_unpacks_to_a_thousand_times_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"text": ["x" * 100_000] * 9}), tmp_path / "0.parquet", compression="zstd")
    read = list[int]()
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda _, n, **__: read.append(n) or iter(()))
    assert items(tmp_path / "0.parquet") == []
    assert read == [1]  # the same long text in each of many rows would fill the memory
    monkeypatch.setattr(intake_module, "_UNPACKED_BYTES", 50_000)
    with pytest.raises(DataError, match=r"^sent unpacks to .* in parts"):
        open_upload(tmp_path / "0.parquet", "sent", takes_items=True)


def test_long_texts_come_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "_BATCH_CHARACTERS", 10)
    texts = [Item("a" * n, None, b"".lower) for n in (4, 4, 4, 20, 1)]
    batches = [[len(item.name) for item in batch] for batch in intake_module._batches(texts, 256)]
    assert batches == [[4, 4, 4], [20], [1]]


def test_tasks_of_label_studio(tmp_path: Path) -> None:
    tasks = [{"data": {"text": "hello"}, "annotations": [{"result": [{"value": {"choices": ["hi"]}}]}]}]
    assert items(written(tmp_path, "0.json", json.dumps(tasks))) == [("hello", "hi", b"hello")]
    with pytest.raises(DataError, match=r"^sent: not JSON"):
        open_upload(written(tmp_path, "1.json", "{"), "sent", takes_items=True)
