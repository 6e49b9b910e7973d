"""What a new user tries first: OpenWorldRecognizer against NearestNonOutlier on small, low-dimensional data.

    python -m benchmarks.accuracy.small_sets

Each row is the mean of draws with seeds 11 to 15: the share of known test samples named right, that of
unknown samples rejected, and the open-world error (Eq. 9) of both recognizers with their defaults.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from openworld import NearestNonOutlier, OpenWorldRecognizer

SEEDS = range(11, 16)
Draws = Iterator["Draw"]


class Draw(NamedTuple):
    """Training samples, test samples of known classes, and samples of unknown ones."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_known: NDArray[Any]
    y_known: NDArray[Any]
    X_unknown: NDArray[Any]


def blobs(counts: tuple[int, ...], n_features: int = 5, deviations: float = 9.0) -> Callable[[int], Draws]:
    """Gaussian blobs with centers at least so many deviations apart; four of them are unknown."""

    def draws(seed: int) -> Draws:
        random = np.random.default_rng(seed)
        centers = _far_apart(random, len(counts) + 4, n_features, deviations)

        def draw(classes: NDArray[Any]) -> NDArray[Any]:
            return centers[classes] + random.standard_normal((len(classes), n_features))

        y, y_known = np.repeat(np.arange(len(counts)), counts), np.repeat(np.arange(len(counts)), 200)
        unknown = np.repeat(np.arange(len(counts), len(centers)), 200)
        yield Draw(draw(y), y, draw(y_known), y_known, draw(unknown))

    return draws


def _far_apart(random: np.random.Generator, n: int, n_features: int, deviations: float) -> NDArray[Any]:
    centers = np.empty((0, n_features))
    while len(centers) < n:
        center = random.uniform(-2 * deviations, 2 * deviations, n_features)
        if not len(centers) or np.linalg.norm(centers - center, axis=1).min() >= deviations:
            centers = np.vstack([centers, center])
    return centers


def classes_of(
    load: Callable[..., Any], n_known: int, per_class: int | None = None
) -> Callable[[int], Draws]:
    """Some classes of a data set are known; all such choices, or five at random where there are more."""

    def draws(seed: int) -> Draws:
        X, y = load(return_X_y=True)
        random = np.random.default_rng(seed)
        choices = list(combinations(np.unique(y), n_known))
        chosen = choices if len(choices) <= 5 else [choices[i] for i in random.permutation(len(choices))[:1]]
        for classes in chosen:
            known = np.isin(y, classes)
            X_train, X_test, y_train, y_test = train_test_split(
                X[known], y[known], test_size=0.3, stratify=y[known], random_state=seed
            )
            if per_class is not None:
                rows = [random.permutation(np.flatnonzero(y_train == label))[:per_class] for label in classes]
                X_train, y_train = X_train[np.concatenate(rows)], y_train[np.concatenate(rows)]
            yield Draw(X_train, y_train, X_test, y_test, X[~known])

    return draws


SETS: dict[str, Callable[[int], Draws]] = {
    "blobs, 5-D, 500/50/5/1 samples": blobs((500, 50, 5, 1)),
    "blobs, 5-D, 50 each": blobs((50, 50, 50, 50)),
    "blobs, 2-D, 50 each": blobs((50, 50, 50), 2),
    "blobs, 20-D, 10 each": blobs((10,) * 6, 20),
    "blobs, 5-D, 12 classes of 1 to 12": blobs(tuple(range(1, 13)), 5),
    "blobs, 5-D, two classes of 3": blobs((3, 3)),
    "blobs, 5-D, two classes of 10": blobs((10, 10)),
    "blobs, 5-D, one class of 50": blobs((50,)),
    "blobs, 5-D, three classes of 1": blobs((1, 1, 1)),
    "iris, 2 known": classes_of(load_iris, 2),
    "wine, 2 known": classes_of(load_wine, 2),
    "wine, all known": classes_of(load_wine, 3),
    "breast cancer, 1 known": classes_of(load_breast_cancer, 1),
    "breast cancer, all known": classes_of(load_breast_cancer, 2),
    "digits, 5 known": classes_of(load_digits, 5),
    "digits, 2 known, 3 samples each": classes_of(load_digits, 2, 3),
    "digits, 2 known, 10 samples each": classes_of(load_digits, 2, 10),
}


def measure(recognizer: Any, draw: Draw) -> tuple[float, float, float]:
    """Return the shares of known samples named right and of unknown ones rejected, and the error.

    A recognizer that cannot be fitted is taken to name nothing; without unknown samples none is accepted.
    """
    try:
        recognizer.fit(draw.X, draw.y)
    except ValueError:
        return float("nan"), float("nan"), float("nan")
    right = float(np.mean(recognizer.predict(draw.X_known) == draw.y_known))
    rejected = 1.0
    if len(draw.X_unknown):
        rejected = float(np.mean(recognizer.predict(draw.X_unknown) == recognizer.unknown_label_))
    return right, rejected, 2 - right - rejected


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)  # of a threshold that is a guess
    print("| data | ours: right / rejected / error | NNO: right / rejected / error |")
    print("|---|---|---|")
    for name, draws in SETS.items():
        found = [
            [measure(make(), draw) for make in (OpenWorldRecognizer, NearestNonOutlier)]
            for seed in SEEDS
            for draw in draws(seed)
        ]
        cells = [" / ".join(f"{value:.3f}" for value in row) for row in np.mean(found, axis=0)]
        print(f"| {name} | {' | '.join(cells)} |".replace("nan / nan / nan", "cannot be fitted"), flush=True)


if __name__ == "__main__":
    main()
