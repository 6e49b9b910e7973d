"""Make feature files from the real data in OPENWORLD_DATA, for `openworld evaluate --data`.

    OPENWORLD_DATA=... python -m benchmarks.accuracy.prepare FOLDER [NAME ...]

Omniglot drawings become HOG cells of 4 pixels. The questions of CLINC150 and BANKING77 go through the
extractors `minilm`, `wordllama` (`pip install openworld[text]`) and `ngrams`, the pictures of Caltech-101
through `efficientnet-lite0`; `minilm` and the pictures take some minutes and come last. NAME makes only the
files named.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.caltech101 import BACKGROUND, caltech_pictures, features
from benchmarks.speed.measure import real_data
from openworld.features import HOG, load_extractor


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    names = sys.argv[2:] or list(MAKERS)
    for name in names:
        arrays = MAKERS[name]()
        np.savez(folder / f"{name}.npz", **arrays)
        print(f"{name}: {arrays['X'].shape}, {len(np.unique(arrays['y']))} classes", flush=True)


def omniglot() -> dict[str, Any]:
    data = np.load(real_data("omniglot28.npz"))
    hog = HOG(cell=4)
    X = np.stack([hog.descriptors(image).ravel() for image in data["images"]])
    return {"X": X.astype(np.float32), "y": data["labels"], "groups": data["drawer"]}


def parts(name: str) -> dict[str, Any]:
    """A data set with a test part of its own."""
    data = np.load(real_data(name))
    X = np.concatenate([data["X_train"], data["X_test"]]).astype(np.float32)
    y = np.concatenate([data["y_train"], data["y_test"]])
    return {"X": X, "y": y, "is_test": np.arange(len(X)) >= len(data["X_train"])}


def questions(name: str, extractor: str) -> dict[str, Any]:
    """A file of texts, labels and splits, without the out-of-scope questions of CLINC150."""
    with real_data(name).open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["label"] != "oos"]
    return {
        "X": load_extractor(extractor).transform([row["text"] for row in rows]),
        "y": np.array([row["label"] for row in rows]),
        "is_test": np.array([row["split"] == "test" for row in rows]),
    }


def caltech() -> dict[str, Any]:
    """Caltech-101 as EfficientNet-Lite0 features, at most 80 pictures of a class."""
    pictures = [picture for picture in caltech_pictures() if picture.label != BACKGROUND]
    X = features(pictures, load_extractor("efficientnet-lite0"))
    return {"X": X, "y": np.array([picture.label for picture in pictures])}


MAKERS: dict[str, Callable[[], dict[str, Any]]] = {
    "cifar100-deep": lambda: parts("cifar100-enl0.npz"),
    "cub200-deep": lambda: parts("cub200-enl0.npz"),
    "ilsvrc10-sift": lambda: parts("ilsvrc10-sift-10classes.npz"),
    "omniglot": omniglot,
    "clinc150": lambda: questions("clinc150.csv", "wordllama"),
    "banking77": lambda: questions("banking77.csv", "wordllama"),
    "clinc150-ngrams": lambda: questions("clinc150.csv", "ngrams"),
    "banking77-ngrams": lambda: questions("banking77.csv", "ngrams"),
    "caltech101-deep": caltech,
    "clinc150-minilm": lambda: questions("clinc150.csv", "minilm"),
    "banking77-minilm": lambda: questions("banking77.csv", "minilm"),
}


if __name__ == "__main__":
    main()
