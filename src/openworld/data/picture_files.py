"""Pictures in a folder or a zip file, or a single one; the name of a sub-folder may be the class."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.sources import Item, Source, listed_items, read_file

# Files with these extensions are read as pictures, and errors are reported; others are skipped with a note.
ENDINGS = {
    ".apng", ".avif", ".bmp", ".gif", ".heic", ".heif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pbm",
    ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp",
}  # fmt: skip
_SKIPPED_SHOWN = 5
LARGEST_MEMBER = 1 << 27  # bytes of one picture in a zip file, against zip bombs


def is_picture(name: str) -> bool:
    """Return whether a file is a picture, by its extension; hidden files are not."""
    return PurePosixPath(name).suffix.lower() in ENDINGS and not _is_hidden(name)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in PurePosixPath(name).parts)


def _skipped_note(place: Path, names: Iterable[str]) -> list[str]:
    """Return a note about the files that do not have the extension of a picture, except hidden ones."""
    skipped = [name for name in names if not is_picture(name) and not _is_hidden(name)]
    if not skipped:
        return []
    files = "1 file that is not a picture was"
    if len(skipped) > 1:
        files = f"{len(skipped):,} files that are not pictures were"
    more = f" and {len(skipped) - _SKIPPED_SHOWN:,} more" if len(skipped) > _SKIPPED_SHOWN else ""
    return [f"{place}: {files} skipped: {', '.join(skipped[:_SKIPPED_SHOWN])}{more}."]


def folder(path: Path, columns: Columns) -> Source:
    """Return the pictures below a folder, sorted; the first sub-folder of a path is the label."""
    files = file_names(path)
    names = [name for name in files if is_picture(name)]
    if not names:
        raise DataError(
            f"{path}: no pictures found at any depth. To fit, put the pictures of each class into a "
            "sub-folder; other commands need no sub-folders."
        )

    groups, notes = groups_by_folder(path, names, columns)

    def items() -> Iterator[Item]:
        for name in names:
            yield Item(name, _first_folder(name), partial(read_file, path / name), group=groups.get(name))

    return Source(
        str(path),
        "image",
        len(names),
        items,
        labeled=any("/" in name for name in names),
        labels_are_folders=True,
        notes=[*_skipped_note(path, files), *notes],
        grouped=bool(groups),
    )


def groups_by_folder(
    path: Path, names: Sequence[str], columns: Columns, class_depth: int = 1
) -> tuple[dict[str, str], list[str]]:
    """Return the groups of the pictures that have one, and notes: each folder inside a class is a group.

    `class_depth` is the number of folders in the path of a class, as 2 in `train/n01440764`.
    """
    if columns.group is None:
        return {}, []
    if columns.group != "folder":
        raise DataError(
            f"{path} holds pictures in folders, which have no columns. Use --group-column folder: the "
            "pictures of one sub-folder of a class, such as okapi/monday, are then one group."
        )
    outside = 0 if columns.one_class else class_depth
    groups = {name: str(PurePosixPath(name).parent) for name in names if name.count("/") > outside}
    none = f"{path}: there are no sub-folders inside a class, so every picture is a group of its own."
    return groups, [] if groups else [none]


def picture_names(path: Path) -> list[str]:
    """Return the sorted relative paths of the pictures below a folder."""
    return [name for name in file_names(path) if is_picture(name)]


def file_names(path: Path) -> list[str]:
    """Return the sorted relative paths of the files below a folder; links are followed, cycles are not."""
    found, seen = [], set()
    for place, folders, files in os.walk(path, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        below = PurePosixPath(Path(place).relative_to(path).as_posix())
        found += [str(below / name) for name in files]
    return sorted(found)


def one(path: Path, columns: Columns) -> Source:
    """Return a single picture."""
    groups_by_folder(path, [path.name], columns)  # raises an error if the user named a column
    return listed_items(str(path), "image", [Item(path.name, None, partial(read_file, path))])


def zipped(path: Path, columns: Columns) -> Source:
    """Return the pictures of a zip file, read without unpacking; the first folder of a path is the label.

    A single top folder around everything, as many programs create, is not a class.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise DataError(f"{path}: not a valid .zip file ({error}).") from error
    files = sorted(
        (member for member in archive.infolist() if not member.is_dir()), key=lambda member: member.filename
    )
    members = [member for member in files if is_picture(member.filename)]
    if not members:
        raise DataError(f"{path}: no pictures found in the zip.")
    names = _without_common_folder([member.filename for member in members])
    groups, notes = groups_by_folder(path, names, columns)
    items = [
        Item(name, _first_folder(name), partial(_read_member, archive, member), group=groups.get(name))
        for name, member in zip(names, members, strict=True)
    ]
    notes = [*_skipped_note(path, (member.filename for member in files)), *notes]
    return listed_items(str(path), "image", items, labels_are_folders=True, notes=notes)


def _first_folder(name: str) -> str | None:
    first, slash, _ = name.partition("/")
    return first if slash else None


def _without_common_folder(names: list[str]) -> list[str]:
    """Remove the folder that all names share, as long as there are folders inside it."""
    while all(name.count("/") > 1 for name in names) and len({_first_folder(name) for name in names}) == 1:
        names = [name.partition("/")[2] for name in names]
    return names


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.flag_bits & 1:
        raise DataError("it is encrypted in the zip; unpack it first.")
    if member.file_size > LARGEST_MEMBER:
        raise DataError(f"its {member.file_size:,} bytes in the zip are too many for a picture.")
    try:
        return archive.read(member)
    except Exception as error:  # a damaged zip file can raise any error
        raise DataError(f"it is damaged in the zip ({error}).") from error
