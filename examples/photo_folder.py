"""Fit a model to a folder of pictures, and recognize the pictures in another folder.

    pip install "openworld[images]"
    python examples/photo_folder.py photos/ new-photos/      # photos/ has one sub-folder per class

Prints how often each class was recognized, and writes the model to photos.ow.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image

from openworld import OpenWorldRecognizer, save
from openworld.features import load_extractor


def features(paths: list[Path]) -> np.ndarray:
    """Return one row of features for each picture; 64 pictures at a time, to save memory."""
    extractor = load_extractor("efficientnet-lite0")
    batches = (paths[start : start + 64] for start in range(0, len(paths), 64))
    return np.concatenate([extractor.transform([Image.open(p).convert("RGB") for p in b]) for b in batches])


def pictures(folder: Path) -> list[Path]:
    """Return the picture files below a folder."""
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in {".jpg", ".jpeg", ".png", ".webp"})


def main(known: Path, new: Path) -> None:
    known_paths, new_paths = pictures(known), pictures(new)
    model = OpenWorldRecognizer().fit(features(known_paths), [p.parent.name for p in known_paths])
    answers = model.predict(features(new_paths))
    for label, count in Counter(answers.tolist()).most_common():
        print(f"{count:5}  {label}")
    save(model, "photos.ow")
    print("Wrote photos.ow. To name the unknown pictures on a page: openworld serve photos.ow")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
