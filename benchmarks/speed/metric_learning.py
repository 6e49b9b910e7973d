"""The default solver of NCMMetric against the authors' SGD, on the paper's own features.

OPENWORLD_DATA=... python -m benchmarks.speed.metric_learning
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NearestCentroid

from benchmarks.speed.measure import real_data
from openworld import NCMMetric

STEPS = 20_000


def main() -> None:
    data = np.load(real_data("ilsvrc10-sift-10classes.npz"))
    X, y = data["X_train"].astype(np.float32), data["y_train"]
    X_test, y_test = data["X_test"].astype(np.float32), data["y_test"]
    print(f"metric learning, {X.shape[0]} x {X.shape[1]} dense SIFT counts, {len(set(y))} classes")

    NCMMetric(max_iter=1).fit(X, y)  # warm up
    ours = NCMMetric().fit(X, y)
    sgd = NCMMetric(512, solver="sgd", max_iter=STEPS).fit(X, y)
    target = sgd.held_out_loss_curve_[-1]
    reached = next(
        seconds
        for seconds, loss in zip(ours.seconds_curve_, ours.held_out_loss_curve_, strict=True)
        if loss <= target
    )
    print(f"authors' SGD, {STEPS:,} steps: held-out loss {target:.4f} after {sgd.seconds_:.1f} s")
    print(
        f"default solver: that loss or lower after {reached:.2f} s, {sgd.seconds_ / reached:.0f} times sooner"
    )
    final = min(ours.held_out_loss_curve_)
    print(f"default solver: ends at held-out loss {final:.4f} after {ours.seconds_:.2f} s")

    start = perf_counter()
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(X, y)
    lda_seconds = perf_counter() - start
    for name, metric in (("NCM, default solver", ours), ("NCM, authors' SGD", sgd)):
        nearest = NearestCentroid().fit(metric.transform(X), y)
        accuracy = nearest.score(metric.transform(X_test), y_test)
        print(f"{name}: test accuracy {accuracy:.4f}, {metric.seconds_:.2f} s to learn")
    accuracy = lda.score(X_test, y_test)
    print(f"scikit-learn LDA, shrinkage=auto: test accuracy {accuracy:.4f}, {lda_seconds:.2f} s to learn")


if __name__ == "__main__":
    main()
