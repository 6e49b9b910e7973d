"""The folder layout of ILSVRC'10 and '12: training pictures by class, others by a list of numbers.

```
train/n01440764/n01440764_10026.JPEG    a folder per class, named by its WordNet id
val/ILSVRC2012_val_00000001.JPEG        or, as many rearrange them, val/n01440764/...
test/ILSVRC2010_test_00000001.JPEG      ILSVRC'10 only: the test labels of '12 were never published
.../ILSVRC2010_validation_ground_truth.txt    the class number of each val picture, in the order of names
.../ILSVRC2010_test_ground_truth.txt
.../meta.mat                            class number -> WordNet id and words (struct array `synsets`)
```
The lists may be anywhere below the folder, as in the unpacked development kit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.picture_files import groups_by_folder, picture_names
from openworld.data.sources import Item, Source, read_file

_WORDNET_ID = re.compile(r"n\d{8}")
_TRUTH_FILES = {"val": "*validation_ground_truth.txt", "test": "*test_ground_truth.txt"}
# Lists with a WordNet id and its words on each line.
_WORD_LISTS = ("synset_words.txt", "LOC_synset_mapping.txt", "words.txt")


@dataclass(frozen=True)
class Synset:
    """A class: its number in the competition (from 1), its WordNet id and its words."""

    number: int
    wordnet_id: str
    words: str


def is_layout(folder: Path) -> bool:
    """Return whether a folder has the layout of ILSVRC: `train` with folders named by WordNet ids."""
    train = folder / "train"
    return train.is_dir() and any(_WORDNET_ID.fullmatch(entry.name) for entry in train.iterdir())


def open_pictures(folder: Path, columns: Columns) -> Source:
    """Return the pictures with their WordNet ids as labels: `train/...`, then `val/...`, then `test/...`.

    Pictures of unpublished class are left out. For ILSVRC'12 only the training pictures are used, as in the
    paper's supplement, which draws 70 % of each class for training and 30 % for test. An experiment splits a
    data set without a test part in this way, for every class order.
    """
    names = [f"train/{name}" for name in picture_names(folder / "train") if _WORDNET_ID.match(name)]
    labels = [name.split("/")[1] for name in names]
    for part in _TRUTH_FILES:
        found = _labeled_part(folder, part)
        names += [f"{part}/{name}" for name, _ in found]
        labels += [label for _, label in found]
    if not names:
        raise DataError(f"{folder}: no pictures found in train/.")

    groups, notes = groups_by_folder(folder, names, columns, class_depth=2)

    def items() -> Iterator[Item]:
        for name, label in zip(names, labels, strict=True):
            yield Item(name, label, partial(read_file, folder / name), group=groups.get(name))

    return Source(
        str(folder),
        "image",
        len(names),
        items,
        labeled=True,
        is_test=_is_test if any(map(_is_test, names)) else None,
        notes=notes,
        grouped=bool(groups),
    )


def _is_test(name: str) -> bool:
    return not name.startswith("train/")


def read_classes(folder: Path) -> list[Synset]:
    """Return the classes of an ILSVRC folder, ordered by number.

    They are read from `meta.mat` of the development kit, or if there is none, from a list of words in the
    order of WordNet ids. Synsets of `meta.mat` without pictures are left out.

    Raises
    ------
    DataError
        If there is no such list, or it is damaged.
    """
    if found := _lists(folder, "meta.mat"):
        return _from_meta(found[0])
    for name in _WORD_LISTS:
        if found := _lists(folder, name):
            lines = sorted(line.split(maxsplit=1) for line in found[0].read_text("utf-8").splitlines())
            synsets = [line for line in lines if line and _WORDNET_ID.fullmatch(line[0])]
            return [Synset(i, first, *rest) for i, (first, *rest) in enumerate(synsets, 1) if rest]
    raise DataError(f"{folder}: there is no meta.mat and no {' or '.join(_WORD_LISTS)} in it.")


def _from_meta(path: Path) -> list[Synset]:
    try:
        synsets = np.atleast_1d(loadmat(path, squeeze_me=True, struct_as_record=False)["synsets"])
        number = next(name for name in synsets[0]._fieldnames if re.fullmatch(r"ILSVRC\d+_ID", name))
        classes = [
            Synset(int(getattr(synset, number)), str(synset.WNID), str(synset.words))
            for synset in synsets
            if int(getattr(synset, "num_children", 0)) == 0
        ]
    except Exception as error:  # a damaged file can raise any error
        raise DataError(f"{path}: not a list of ILSVRC classes ({error!r}).") from error
    return sorted(classes, key=lambda synset: synset.number)


def _labeled_part(folder: Path, part: str) -> list[tuple[str, str]]:
    """Return the name and WordNet id of the pictures of val or test; empty if the ids are not available."""
    names = picture_names(folder / part) if (folder / part).is_dir() else []
    if any("ILSVRC2012_" in name for name in names[:1]):
        return []
    if names and all(_WORDNET_ID.match(name) and "/" in name for name in names):
        return [(name, name.split("/")[0]) for name in names]
    truth = _lists(folder, _TRUTH_FILES[part])
    if not names or not truth:
        return []
    try:
        numbers = [int(line) for line in truth[0].read_text("utf-8").split()]
    except ValueError as error:
        raise DataError(f"{truth[0]}: not a list of class numbers ({error}).") from error
    wordnet_ids = {synset.number: synset.wordnet_id for synset in read_classes(folder)}
    if len(numbers) != len(names):
        raise DataError(
            f"{truth[0]} has {len(numbers)} class numbers, {folder / part} {len(names)} pictures."
        )
    if unknown := set(numbers) - wordnet_ids.keys():
        raise DataError(f"{truth[0]}: there is no class number {min(unknown)} in the list of classes.")
    return [(name, wordnet_ids[number]) for name, number in zip(names, numbers, strict=True)]


def _lists(folder: Path, pattern: str) -> list[Path]:
    """Return the files that match a pattern, without searching the folders of pictures, which are large."""
    found = [path for path in folder.glob(pattern) if path.is_file()]
    for below in folder.iterdir():
        if below.is_dir() and below.name not in ("train", *_TRUTH_FILES):
            found += below.rglob(pattern)
    return sorted(found)
