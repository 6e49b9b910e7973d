"""Simulate a stream in which classes drift and new ones appear; compare a frozen model with one that learns.

    python examples/drift_and_growth.py

Every week brings samples of all classes that exist by then. The frozen model only knows the first
classes. The growing model learns 5 labeled samples of each class every week, with `partial_fit`.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from openworld import OpenWorldRecognizer

WEEKS, N_FEATURES, N_START, N_LABELED = 8, 32, 6, 5


def main() -> None:
    random = np.random.default_rng(0)
    centers = random.normal(0, 3, (N_START + WEEKS, N_FEATURES))
    drift = random.normal(0, 0.35, centers.shape)

    def draw(week: int, label: int, n: int) -> np.ndarray:
        return centers[label] + week * drift[label] + random.normal(0, 1, (n, N_FEATURES))

    labels = np.repeat(np.arange(N_START), 30)
    frozen = OpenWorldRecognizer().fit(np.concatenate([draw(0, c, 30) for c in range(N_START)]), labels)
    growing = deepcopy(frozen)
    print("week  classes  frozen  growing   (share right; unknown is right for a class not learned)")
    for week in range(1, WEEKS + 1):
        classes = np.arange(N_START + week)
        truth = np.repeat(classes, 20)
        samples = np.concatenate([draw(week, c, 20) for c in classes])
        scores = [
            np.mean(model.predict(samples) == np.where(np.isin(truth, model.classes_), truth, -1))
            for model in (frozen, growing)
        ]
        print(f"{week:4}  {len(classes):7}  {scores[0]:6.2f}  {scores[1]:7.2f}")
        labeled = np.concatenate([draw(week, c, N_LABELED) for c in classes])
        growing.partial_fit(labeled, np.repeat(classes, N_LABELED))


if __name__ == "__main__":
    main()
