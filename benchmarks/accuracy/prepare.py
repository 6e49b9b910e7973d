"""Make feature files from the real data in OPENWORLD_DATA, for `openworld evaluate --data`.

    OPENWORLD_DATA=... python -m benchmarks.accuracy.prepare FOLDER

Omniglot drawings become HOG cells of 4 pixels; CLINC150 questions become the mean of their words'
vectors in the table of the `wordllama` wheel, or hashed character n-grams where the wheel is not given.
"""

from __future__ import annotations

import csv
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

from benchmarks.speed.measure import real_data
from openworld.features import HOG


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    wheel = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    for name, arrays in {
        "omniglot": omniglot(),
        "cifar100-deep": parts("cifar100-enl0.npz"),
        "ilsvrc10-sift": parts("ilsvrc10-sift-10classes.npz"),
        "clinc150": clinc(wheel),
    }.items():
        np.savez(folder / f"{name}.npz", **arrays)
        print(f"{name}: {arrays['X'].shape}, {len(np.unique(arrays['y']))} classes")


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


def clinc(wheel: Path | None) -> dict[str, Any]:
    with real_data("clinc150.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["label"] != "oos"]
    texts = [row["text"] for row in rows]
    return {
        "X": _hashed(texts) if wheel is None else _wordllama(texts, wheel),
        "y": np.array([row["label"] for row in rows]),
        "is_test": np.array([row["split"] == "test" for row in rows]),
    }


def _hashed(texts: list[str]) -> Any:
    vectorizer = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=2048)
    return vectorizer.transform(texts).toarray().astype(np.float32)


def _wordllama(texts: list[str], wheel: Path) -> Any:
    """The table and tokenizer inside the wheel, read without installing it (needs `tokenizers`)."""
    from safetensors.numpy import load
    from tokenizers import Tokenizer

    with zipfile.ZipFile(wheel) as archive:
        tokenizer = Tokenizer.from_str(
            archive.read("wordllama/tokenizers/l2_supercat_tokenizer_config.json").decode()
        )
        (table,) = load(archive.read("wordllama/weights/l2_supercat_256.safetensors")).values()
    tokenizer.no_padding()
    tokenizer.no_truncation()
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    return np.stack([table[e.ids].astype(np.float32).mean(axis=0) for e in encoded])


if __name__ == "__main__":
    main()
