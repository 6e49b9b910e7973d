"""NNO's `predict` against the bare matrix products it needs, and against scikit-learn's NearestCentroid."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
from sklearn.neighbors import NearestCentroid
from threadpoolctl import threadpool_limits

from benchmarks.speed.measure import best_times
from openworld import NCMMetric, NearestNonOutlier

N, K, D, M = 10_000, 1_000, 1_000, 512


def main() -> None:
    random = np.random.default_rng(0)
    centers = random.standard_normal((K, D)).astype(np.float32)
    y = np.repeat(np.arange(K), 3)
    X = centers[y] + random.standard_normal((len(y), D), dtype=np.float32)
    model = NearestNonOutlier(NCMMetric(M, max_iter=1), tau=30.0).fit(X, y)
    samples = centers[random.integers(K, size=N)] + random.standard_normal((N, D), dtype=np.float32)
    W = model.metric_.affine_[np.dtype("float32")][0]
    means = np.ascontiguousarray(model.class_means_.index.means.T, dtype=np.float32)
    projected = model.metric_.transform(samples)
    centroid = NearestCentroid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that the classes hold few samples
        centroid.fit(model.metric_.transform(X), y)

    with threadpool_limits(1):  # on a shared machine a second thread waits more than it works
        ours, products, theirs = best_times(
            [
                lambda: model.predict(samples),
                lambda: (samples @ W) @ means,
                lambda: centroid.predict(projected),
            ]
        )
    print(f"predict, {N:,} samples, {K:,} classes, {D} features, m = {M}, float32, one thread")
    print(f"NearestNonOutlier.predict: {ours:.3f} s")
    print(f"bare matrix products: {products:.3f} s; ours takes {ours / products:.2f} times as long")
    print(f"NearestCentroid on projected data: {theirs:.3f} s; ours takes {ours / theirs:.2f} times as long")
    for n in (N, 4 * N):
        many = np.tile(samples, (n // N, 1))
        tracemalloc.start()
        model.predict(many)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"peak memory beyond the input for {n:,} samples: {peak / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
