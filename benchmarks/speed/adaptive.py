"""OpenWorldRecognizer: what one more class costs against refitting, and prediction against NNO's.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.adaptive

Processor seconds, as others may work on the machine too.
"""

from __future__ import annotations

from time import process_time

import numpy as np

from benchmarks.speed.measure import best_times
from openworld import NCMMetric, NearestNonOutlier, OpenWorldRecognizer

D, K, SAMPLES, N = 1_280, 1_000, 100, 5_000


def main() -> None:
    random = np.random.default_rng(0)
    centers = np.maximum(random.standard_normal((K + 5, D)), 0).astype(np.float32)

    def draw(classes: np.ndarray) -> np.ndarray:
        return np.maximum(centers[classes] + random.standard_normal((len(classes), D), dtype=np.float32), 0)

    y = np.repeat(np.arange(K), SAMPLES)
    X = draw(y)
    start = process_time()
    model = OpenWorldRecognizer().fit(X, y)
    model.predict(X[:10])
    refit = process_time() - start
    print(f"OpenWorldRecognizer, {K:,} classes x {SAMPLES} samples, {D} features")
    print(f"fit from scratch and the first prediction: {refit:.1f} s")
    times = []
    for extra in range(K, K + 3):
        labels = np.full(100, extra)
        batch = draw(labels)
        start = process_time()
        model.partial_fit(batch, labels)
        model.predict(batch[:1])
        times.append(process_time() - start)
    one = float(np.median(times))
    print(
        f"one more class of 100 samples and the first prediction: {one:.2f} s, {one / refit:.3f} of refitting"
    )
    model.set_params(refresh_growth=0.1)

    def learn() -> None:
        model.partial_fit(extra, np.full(100, K + 3))

    extra = draw(np.full(100, K + 3))
    for name, change in (
        ("learn", learn),
        ("merge", lambda: model.merge_classes([K + 3, K], K)),
        ("forget", lambda: model.forget_class(K)),
    ):
        start = process_time()
        change()
        model.predict(X[:1])
        print(f"{name} a class with refresh_growth=0.1: {1e3 * (process_time() - start):.0f} ms")

    nno = NearestNonOutlier(NCMMetric(512, max_iter=1), tau=30.0).fit(X, y)
    samples = draw(random.integers(K, size=N))
    actions = [lambda: model.predict(samples), lambda: nno.predict(samples)]
    ours, theirs = best_times(actions, clock=process_time)
    print(f"predict, {N:,} samples, {K:,} classes: {1e6 * ours / N:.1f} us each")
    print(
        f"NearestNonOutlier, m = 512: {1e6 * theirs / N:.1f} us; ours takes {ours / theirs:.2f} times as long"
    )


if __name__ == "__main__":
    main()
