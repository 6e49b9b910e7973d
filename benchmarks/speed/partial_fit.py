"""What one new class costs in models of more and more classes, with a frozen metric."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from openworld import EuclideanMetric, NearestNonOutlier

D, SAMPLES, ADDED = 1_000, 100, 30


def main() -> None:
    random = np.random.default_rng(0)
    model = NearestNonOutlier(EuclideanMetric(), tau=10.0)
    model.fit(random.standard_normal((20, D)), np.arange(20) % 10)
    baseline = None
    print(
        f"partial_fit of one new class, {SAMPLES} samples, {D} features, {ADDED} classes added at each size"
    )
    for n_classes in (100, 1_000, 10_000):
        more = np.arange(len(model.classes_), n_classes)
        for part in np.array_split(more, max(1, len(more) // 1_000)):
            model.partial_fit(random.standard_normal((len(part), D)), part)
        times = []
        for i in range(ADDED):
            batch = random.standard_normal((SAMPLES, D))
            labels = np.full(SAMPLES, 1_000_000 + n_classes + i)
            start = perf_counter()
            model.partial_fit(batch, labels)
            times.append(perf_counter() - start)
        for i in range(ADDED):
            model.forget_class(1_000_000 + n_classes + i)
        mean = float(np.median(times))
        baseline = baseline or mean
        print(
            f"{n_classes:>7,} classes: {1e3 * mean:.2f} ms, {mean / baseline:.2f} times that at 100 classes"
        )


if __name__ == "__main__":
    main()
