"""The folders of ILSVRC'10 and '12, made small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from openworld.data.columns import Columns
from openworld.data.dataset import Dataset
from openworld.data.errors import DataError
from openworld.data.ilsvrc_pictures import Synset, read_classes
from openworld.data.sources import Source, open_source
from openworld.evaluation.split import make_split

TENCH, SHARK, FISH = "n01440764", "n01484850", "n02512053"


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def save_meta(folder: Path, year: int) -> None:
    """Write `meta.mat` of a development kit: the numbers are not in the order of the WordNet ids."""
    kinds = [(f"ILSVRC{year}_ID", object), ("WNID", object), ("words", object), ("num_children", object)]
    synsets = np.zeros((3, 1), dtype=kinds)
    synsets[0, 0] = (1, SHARK, "great white shark, white shark", 0)
    synsets[1, 0] = (2, TENCH, "tench, Tinca tinca", 0)
    synsets[2, 0] = (3, FISH, "fish", 2)
    folder.mkdir(parents=True)
    savemat(folder / "meta.mat", {"synsets": synsets})


def opened(root: Path) -> Source:
    source = open_source(root)
    assert source is not None
    assert len(source) == len(list(source))
    return source


def train(root: Path) -> list[tuple[str, str]]:
    names = [f"train/{wnid}/{wnid}_{i}.JPEG" for wnid in (TENCH, SHARK) for i in range(3)]
    touch(root, *names)
    return [(name, name.split("/")[1]) for name in names]


def test_2010(tmp_path: Path) -> None:
    expected = train(tmp_path)
    touch(tmp_path, *(f"val/ILSVRC2010_val_0000000{i}.JPEG" for i in (1, 2)))
    touch(tmp_path, *(f"test/ILSVRC2010_test_0000000{i}.JPEG" for i in (1, 2, 3)))
    save_meta(tmp_path / "devkit-1.0" / "data", 2010)
    (tmp_path / "devkit-1.0" / "data" / "ILSVRC2010_validation_ground_truth.txt").write_text("2\n1\n")
    (tmp_path / "ILSVRC2010_test_ground_truth.txt").write_text("1\n1\n2\n")
    source = opened(tmp_path)
    assert [(item.name, item.label) for item in source] == [
        *expected,
        ("val/ILSVRC2010_val_00000001.JPEG", TENCH),
        ("val/ILSVRC2010_val_00000002.JPEG", SHARK),
        ("test/ILSVRC2010_test_00000001.JPEG", SHARK),
        ("test/ILSVRC2010_test_00000002.JPEG", SHARK),
        ("test/ILSVRC2010_test_00000003.JPEG", TENCH),
    ]
    assert all(item.read() == item.name.encode() for item in source)
    assert source.is_test is not None
    assert [source.is_test(item.name) for item in source] == [False] * 6 + [True] * 5


def test_2012_is_its_training_pictures(tmp_path: Path) -> None:
    expected = train(tmp_path)
    touch(tmp_path, "val/ILSVRC2012_val_00000001.JPEG", "test/ILSVRC2012_test_00000001.JPEG")
    save_meta(tmp_path / "ILSVRC2012_devkit_t12" / "data", 2012)
    source = opened(tmp_path)
    assert [(item.name, item.label) for item in source] == expected
    assert source.is_test is None


def test_of_2012_each_class_order_draws_70_and_30_percent_of_each_class() -> None:
    """As in the supplement; the split is the same whenever seed and order are."""
    y = np.repeat([TENCH, SHARK, FISH], [100, 60, 40])
    dataset = Dataset("ilsvrc12", np.zeros((200, 1)), y)
    options = {"seed": 0, "n_starting": 2, "step": 1, "n_known": 2, "n_unknown": 1}
    splits = [make_split(dataset, order=order, **options) for order in (0, 1, 0)]
    for split in splits:
        assert {wnid: int((y[split.test] == wnid).sum()) for wnid in (TENCH, SHARK, FISH)} == {
            TENCH: 30, SHARK: 18, FISH: 12
        }  # fmt: skip
        assert len(split.train) == 140
    assert np.array_equal(splits[0].test, splits[2].test)
    assert not np.array_equal(splits[0].test, splits[1].test)


def test_val_by_class_and_without_any_list(tmp_path: Path) -> None:
    expected = train(tmp_path)
    touch(tmp_path, f"val/{SHARK}/a.JPEG")
    assert [(item.name, item.label) for item in opened(tmp_path)] == [
        *expected,
        (f"val/{SHARK}/a.JPEG", SHARK),
    ]


def test_pictures_without_truth_are_left_out(tmp_path: Path) -> None:
    expected = train(tmp_path)
    touch(tmp_path, "test/ILSVRC2010_test_00000001.JPEG")
    assert [(item.name, item.label) for item in opened(tmp_path)] == expected


def test_classes(tmp_path: Path) -> None:
    save_meta(tmp_path / "kit", 2010)
    assert read_classes(tmp_path) == [
        Synset(1, SHARK, "great white shark, white shark"),
        Synset(2, TENCH, "tench, Tinca tinca"),
    ]
    (tmp_path / "kit" / "meta.mat").unlink()
    with pytest.raises(DataError, match=r"no meta\.mat and no synset_words\.txt"):
        read_classes(tmp_path)
    (tmp_path / "synset_words.txt").write_text(f"{SHARK} great white shark\n\n{TENCH} tench, Tinca tinca\n")
    assert read_classes(tmp_path) == [
        Synset(1, TENCH, "tench, Tinca tinca"),
        Synset(2, SHARK, "great white shark"),
    ]


def test_lists_that_do_not_fit(tmp_path: Path) -> None:
    train(tmp_path)
    touch(tmp_path, "val/ILSVRC2010_val_00000001.JPEG")
    save_meta(tmp_path / "kit", 2010)
    truth = tmp_path / "kit" / "ILSVRC2010_validation_ground_truth.txt"
    for text, words in [
        ("1\n2\n", "has 2 class numbers.*1 pictures"),
        ("3\n", "no class number 3"),
        ("shark\n", "not a list of class numbers"),
    ]:
        truth.write_text(text)
        with pytest.raises(DataError, match=words):
            open_source(tmp_path)
    truth.write_text("1\n")
    (tmp_path / "kit" / "meta.mat").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"meta\.mat: not a list of ILSVRC classes"):
        open_source(tmp_path)


def test_groups_are_folders_inside_a_synset(tmp_path: Path) -> None:
    touch(tmp_path, f"train/{TENCH}/1.JPEG", f"train/{TENCH}/film/2.JPEG")
    source = open_source(tmp_path, columns=Columns(group="folder"))
    assert source is not None
    assert source.grouped
    assert {item.name: item.group for item in source} == {
        f"train/{TENCH}/1.JPEG": None,
        f"train/{TENCH}/film/2.JPEG": f"train/{TENCH}/film",
    }
