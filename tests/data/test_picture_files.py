"""Pictures in folders, in zips and alone: what is taken, in which order, under which label."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from openworld.data import picture_files
from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.sources import Source, open_source


def put(root: Path, *names: str) -> Path:
    """Make files whose content is their own name."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


def opened(path: Path, columns: Columns | None = None) -> Source:
    source = open_source(path, columns=columns)
    assert source is not None
    assert source.kind == "image"
    assert len(source) == len(list(source)), "the length is known beforehand"
    return source


def listed(source: Source) -> list[tuple[str, str | None]]:
    return [(item.name, item.label) for item in source]


def test_the_first_folder_is_the_label(tmp_path: Path) -> None:
    put(tmp_path, "dog/b.PNG", "dog/a.jpg", "cat/indoors/today/1.webp", "007/1.bmp", "beside.png")
    source = opened(tmp_path)
    assert listed(source) == [
        ("007/1.bmp", "007"),
        ("beside.png", None),
        ("cat/indoors/today/1.webp", "cat"),
        ("dog/a.jpg", "dog"),
        ("dog/b.PNG", "dog"),
    ]
    assert source.labeled
    assert source.labels_are_folders
    assert [item.read().decode() for item in source] == [item.name for item in source]


def test_what_is_no_picture_or_hidden_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, "a/1.png", "a/notes.txt", "a/.2.png", ".thumbnails/a/1.png", "a/Thumbs.db")
    (tmp_path / "a" / "folder.png").mkdir()
    source = opened(tmp_path)
    assert listed(source) == [("a/1.png", "a")]
    assert source.notes == [
        f"{tmp_path}: 2 files that are not pictures were skipped: a/Thumbs.db, a/notes.txt."
    ]


def test_many_files_that_are_no_pictures(tmp_path: Path) -> None:
    names = [f"a/{i}" for i in range(7)]
    (note,) = opened(put(tmp_path, "a/1.png", *names)).notes
    assert note.endswith("7 files that are not pictures were skipped: a/0, a/1, a/2, a/3, a/4 and 2 more.")


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    source = opened(put(tmp_path, "2.png", "1.png"))
    assert listed(source) == [("1.png", None), ("2.png", None)]
    assert not source.labeled


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", "1.png")
    photos = put(tmp_path / "photos", "a/1.png")
    (photos / "b").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (photos / "a" / "again").symlink_to(photos, target_is_directory=True)
    assert listed(opened(photos)) == [("a/1.png", "a"), ("b/1.png", "b")]


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no pictures found.*the pictures of each class into a sub-folder"):
        open_source(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        open_source(tmp_path / "missing")


def test_one_picture(tmp_path: Path) -> None:
    put(tmp_path, "okapi.JPG")
    source = opened(tmp_path / "okapi.JPG")
    assert listed(source) == [("okapi.JPG", None)]
    assert next(iter(source)).read() == b"okapi.JPG"


def packed(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, name * 50)
    return path


def test_a_zip(tmp_path: Path) -> None:
    names = ("dog/2.png", "cat/deep/1.jpg", "__MACOSX/cat/._1.jpg", "cat/readme.txt", ".hidden/1.png")
    source = opened(packed(tmp_path / "photos.zip", *names))
    assert listed(source) == [("cat/deep/1.jpg", "cat"), ("dog/2.png", "dog")]
    assert source.notes == [
        f"{tmp_path / 'photos.zip'}: 1 file that is not a picture was skipped: cat/readme.txt."
    ]
    assert [item.read().decode() for item in source] == ["cat/deep/1.jpg" * 50, "dog/2.png" * 50]


def test_a_single_folder_around_a_zip_is_no_class(tmp_path: Path) -> None:
    path = packed(tmp_path / "photos.zip", "photos/today/dog/2.png", "photos/today/cat/1.jpg")
    assert listed(opened(path)) == [("cat/1.jpg", "cat"), ("dog/2.png", "dog")]
    assert listed(opened(packed(tmp_path / "one.zip", "okapi/1.png", "okapi/2.png"))) == [
        ("okapi/1.png", "okapi"),
        ("okapi/2.png", "okapi"),
    ]


def test_a_zip_that_is_none(tmp_path: Path) -> None:
    whole = packed(tmp_path / "photos.zip", "a/1.png", "a/2.png").read_bytes()
    for content in (b"", b"no zip", whole[: len(whole) // 2], whole[:-10]):
        (tmp_path / "cut.zip").write_bytes(content)
        with pytest.raises(DataError, match=r"cut\.zip: not a valid \.zip file"):
            open_source(tmp_path / "cut.zip")
    with pytest.raises(DataError, match="no pictures found in the zip"):
        open_source(packed(tmp_path / "texts.zip", "a/1.txt"))


def test_damaged_encrypted_and_huge_members_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = packed(tmp_path / "photos.zip", "a/1.png", "a/2.png")
    whole = bytearray(path.read_bytes())
    start = whole.index(b"a/1.png") + len(b"a/1.png")
    whole[start : start + 8] = b"????????"  # the first member's content
    path.write_bytes(bytes(whole))
    first, second = opened(path)
    with pytest.raises(DataError, match="damaged in the zip"):
        first.read()
    assert second.read() == b"a/2.png" * 50

    for place in (whole.index(b"PK\x01\x02") + 8, whole.index(b"PK\x03\x04") + 6):
        whole[place] |= 1  # the flag for encryption, of the first member
    path.write_bytes(bytes(whole))
    with pytest.raises(DataError, match="encrypted"):
        next(iter(opened(path))).read()

    monkeypatch.setattr(picture_files, "LARGEST_MEMBER", 100)
    with pytest.raises(DataError, match="350 bytes in the zip are too many"):
        second.read()


def test_special_files_are_not_read(tmp_path: Path) -> None:
    """A device may have no end, and a pipe that nobody writes to blocks forever."""
    (tmp_path / "device.png").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "pipe.png")
    put(tmp_path, "sound.png")
    (tmp_path / "list.csv").write_text("path\ndevice.png\npipe.png\nsound.png\n")
    for source in (opened(tmp_path), opened(tmp_path / "list.csv")):
        device, pipe, sound = source
        for item in (device, pipe):
            with pytest.raises(DataError, match="not a regular file"):
                item.read()
        assert sound.read() == b"sound.png"


FOLDERS = Columns(group="folder")


def grouped(path: Path, columns: Columns = FOLDERS) -> dict[str, str | None]:
    source = open_source(path, columns=columns)
    assert source is not None
    assert source.grouped == any(item.group is not None for item in source)
    return {item.name: item.group for item in source}


def test_a_sub_folder_of_a_class_is_a_group(tmp_path: Path) -> None:
    names = ("okapi/monday/1.jpg", "okapi/monday/2.jpg", "okapi/3.jpg", "zebra/monday/4.jpg", "5.jpg")
    put(tmp_path / "photos", *names, "zebra/tuesday/noon/6.jpg")
    found = {
        "5.jpg": None,
        "okapi/3.jpg": None,
        "okapi/monday/1.jpg": "okapi/monday",
        "okapi/monday/2.jpg": "okapi/monday",
        "zebra/monday/4.jpg": "zebra/monday",
        "zebra/tuesday/noon/6.jpg": "zebra/tuesday/noon",
    }
    assert grouped(tmp_path / "photos") == found
    assert set(grouped(tmp_path / "photos", Columns()).values()) == {None}
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for name in found:
            archive.write(tmp_path / "photos" / name, name)
    assert grouped(tmp_path / "photos.zip") == found


def test_in_a_folder_of_one_class_every_sub_folder_is_a_group(tmp_path: Path) -> None:
    put(tmp_path, "monday/1.jpg", "2.jpg")
    assert set(grouped(tmp_path).values()) == {None}  # monday is a class
    of_one = Columns(group="folder", one_class=True)
    assert grouped(tmp_path, of_one) == {"2.jpg": None, "monday/1.jpg": "monday"}


def test_folders_have_no_columns(tmp_path: Path) -> None:
    put(tmp_path / "photos", "okapi/1.jpg")
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.write(tmp_path / "photos" / "okapi" / "1.jpg", "okapi/1.jpg")
    for path in (tmp_path / "photos", tmp_path / "photos.zip", tmp_path / "photos" / "okapi" / "1.jpg"):
        with pytest.raises(DataError, match=r"which have no columns\. Use --group-column folder"):
            open_source(path, columns=Columns(group="burst"))
        source = open_source(path, columns=FOLDERS)
        assert source is not None
        assert not source.grouped
    assert "no sub-folders inside a class" in opened(tmp_path / "photos", FOLDERS).notes[0]
    assert opened(tmp_path / "photos").notes == []
