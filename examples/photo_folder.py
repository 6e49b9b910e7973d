"""A folder of pictures becomes a model; another folder is recognized; what is unknown is grouped.

pip install "openworld[images]"
python examples/photo_folder.py photos/ new-photos/      # photos/ has one sub-folder per class
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
    """Return one row for each picture, 64 pictures at a time."""
    extractor = load_extractor("efficientnet-lite0")
    batches = (paths[start : start + 64] for start in range(0, len(paths), 64))
    return np.concatenate([extractor.transform([Image.open(p).convert("RGB") for p in b]) for b in batches])


def pictures(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in {".jpg", ".jpeg", ".png", ".webp"})


def main(known: Path, new: Path) -> None:
    known_paths, new_paths = pictures(known), pictures(new)
    model = OpenWorldRecognizer().fit(features(known_paths), [p.parent.name for p in known_paths])
    answers = model.predict(features(new_paths))
    for label, count in Counter(answers.tolist()).most_common():
        print(f"{count:5}  {label}")
    save(model, "photos.ow")
    print("Wrote photos.ow. Name what is unknown: openworld serve photos.ow")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
