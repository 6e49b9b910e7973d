"""What near copies among the training samples do to a recognizer, and what `groups` change.

    OPENWORLD_DATA=... python -m benchmarks.accuracy.near_copies [drawings pictures]

Each training sample of 40 characters of Omniglot (HOG), or of 20 kinds of pictures of Caltech-101
(EfficientNet-Lite0), comes with copies that are moved, turned and cropped a little, as a burst of photos or
augmented data have them. Tests are other samples of the same classes, and of as many unknown ones. Then ten
more classes are learned from one burst of ten each. Means over class orders of seeds 100 to 102.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import rotate, shift

from benchmarks.accuracy.caltech101 import BACKGROUND, caltech_pictures
from benchmarks.speed.measure import real_data
from openworld import OpenWorldRecognizer
from openworld.features import HOG, load_extractor
from openworld.features.decode import decode
from openworld.recognition import near_copies, usual_distance

SEEDS = (100, 101, 102)
N_NEW, BURST = 10, 10
TESTED = 12  # samples of each class
SETTINGS = ("one of each group", "with copies", "with copies, as groups", "with copies, groups found")


@dataclass(frozen=True)
class Samples:
    """Raw samples of classes, how to change one a little, and their features."""

    raw: list[Any]
    labels: NDArray[Any]
    changed: Callable[[Any, np.random.Generator], Any]
    features: Callable[[list[Any]], NDArray[np.float32]]
    n_known: int
    bursts: tuple[tuple[int, int], ...]  # groups of a class, samples of a group


def drawings() -> Samples:
    """Characters of Omniglot."""
    data, hog = np.load(real_data("omniglot28.npz")), HOG(cell=4)

    def changed(image: Any, random: np.random.Generator) -> Any:
        turned = rotate(image.astype(float), random.uniform(-4, 4), reshape=False, order=1)
        return np.clip(shift(turned, random.uniform(-0.7, 0.7, 2), order=1), 0, 255).astype(np.uint8)

    def features(images: list[Any]) -> NDArray[np.float32]:
        return np.stack([hog.descriptors(image).ravel() for image in images]).astype(np.float32)

    return Samples(list(data["images"]), data["labels"], changed, features, 40, ((6, 1), (4, 6), (2, 10)))


def pictures() -> Samples:
    """Pictures of Caltech-101."""
    found = [picture for picture in caltech_pictures() if picture.label != BACKGROUND]
    extractor = load_extractor("efficientnet-lite0")

    def changed(picture: Image.Image, random: np.random.Generator) -> Image.Image:
        turned = picture.rotate(random.uniform(-4, 4), Image.Resampling.BILINEAR)
        left, top, right, bottom = random.uniform(0.02, 0.08, 4)
        width, height = picture.size
        return turned.crop((left * width, top * height, (1 - right) * width, (1 - bottom) * height))

    def features(images: list[Image.Image]) -> NDArray[np.float32]:
        return np.concatenate([extractor.transform(images[i : i + 64]) for i in range(0, len(images), 64)])

    labels = np.array([picture.label for picture in found])
    return Samples(
        [decode(picture.read()) for picture in found],
        labels,
        changed,
        features,
        20,
        ((8, 1), (5, 6), (2, 10)),
    )


MAKERS = {"drawings": drawings, "pictures": pictures}


def measure(samples: Samples, seed: int, n_groups: int, n_copies: int) -> Iterator[tuple[str, list[float]]]:
    """Yield what each setting reaches: right, rejected, error, promised error; new classes right."""
    random = np.random.default_rng(seed)
    counts = dict(zip(*np.unique(samples.labels, return_counts=True), strict=True))
    enough = [label for label, count in counts.items() if count >= n_groups + TESTED]
    classes = random.permutation(enough)[: 2 * samples.n_known + N_NEW]
    of_class = {label: random.permutation(np.flatnonzero(samples.labels == label)) for label in classes}
    known, new, unknown = np.split(classes, [samples.n_known, samples.n_known + N_NEW])
    train = [i for label in known for i in of_class[label][:n_groups]]
    first = [of_class[label][0] for label in new]
    X, groups = copied(samples, train, n_copies, random)
    X_new, groups_new = copied(samples, first, BURST, random)
    test = np.array([i for label in classes for i in of_class[label][n_groups:][:TESTED]])
    X_test, y_test = samples.features([samples.raw[i] for i in test]), samples.labels[test]
    y, y_new = samples.labels[groups], samples.labels[groups_new]
    for setting in SETTINGS:
        some, some_new = (slice(None, None, n_copies), slice(None, None, BURST))
        if setting != SETTINGS[0]:
            some = some_new = slice(None)
        given, given_new = (groups, groups_new) if setting == SETTINGS[2] else (None, None)
        if setting == SETTINGS[3]:
            given, given_new = near_copies(X, y), near_copies(X_new, y_new, usual_distance(X, y))
        model = OpenWorldRecognizer().fit(X[some], y[some], groups=given)
        promised, answers = model.calibration_.error, model.predict(X_test)
        right = np.mean((answers == y_test)[np.isin(y_test, known)])
        rejected = np.mean(answers[np.isin(y_test, unknown)] == model.unknown_label_)
        model.partial_fit(X_new[some_new], y_new[some_new], groups=given_new)
        learned = np.mean((model.predict(X_test) == y_test)[np.isin(y_test, new)])
        yield setting, [float(x) for x in (right, rejected, 2 - right - rejected, promised, learned)]


def copied(
    samples: Samples, chosen: list[int], n: int, random: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Return features of samples, each with n - 1 changed copies, and the sample that each was made from."""
    raw = [[samples.raw[i], *(samples.changed(samples.raw[i], random) for _ in range(n - 1))] for i in chosen]
    return samples.features([one for group in raw for one in group]), np.repeat(chosen, n)


def main() -> None:
    print("| data | groups x copies | learned | right | rejected | error | promised | new classes right |")
    print("|---|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or MAKERS:
        samples = MAKERS[name]()
        for n_groups, n_copies in samples.bursts:
            found: dict[str, list[list[float]]] = {}
            for seed in SEEDS:
                for setting, values in measure(samples, seed, n_groups, n_copies):
                    found.setdefault(setting, []).append(values)
            for setting, rows in found.items():
                shown = " | ".join(f"{value:.2f}" for value in np.mean(rows, axis=0))
                print(f"| {name} | {n_groups} x {n_copies} | {setting} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
