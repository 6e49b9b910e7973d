"""Cost and memory of a prediction among 1,000 to 1,000,000 classes, beside faiss and scikit-learn.

The class means are in groups of about a hundred, as species are in genera; and once more, for the largest
sizes, scattered without any groups, which is the worst case for inverted lists. Of five samples four are of
known classes and one is of a class that was not learned. For each size one process fits and saves the model,
one maps it and answers, and one runs exact search and the baselines beside it in turn. All on one thread;
processor time is compared, as others may work on the machine too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from time import perf_counter, process_time, thread_time
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from threadpoolctl import threadpool_limits

from openworld import EuclideanMetric, NearestNonOutlier, OpenWorldRecognizer, load, save
from openworld.index.choice import APPROXIMATE_FROM
from openworld.recognition import AdaptiveMetric

M, SIZES = 128, (1_000, 10_000, 100_000, 1_000_000)
SCATTERED_FROM = 100_000
SPREAD, NOISE = 0.5, 0.35
SAMPLES, SINGLE, CHANGES = 10_000, 1_000, 50


def draw(random: np.random.Generator, groups: np.ndarray, n: int, spread: float) -> np.ndarray:
    points = groups[random.integers(len(groups), size=n)]
    points += np.float32(spread) * random.standard_normal(points.shape, dtype=np.float32)
    return points


def fit(n_classes: int, folder: Path, kind: str) -> dict[str, float]:
    """Fit and save a model, with samples and what exact search answers."""
    random = np.random.default_rng(0)
    groups, spread = np.zeros((1, M), dtype=np.float32), 1.0
    if kind == "grouped":
        groups, spread = random.standard_normal((n_classes // 100, M), dtype=np.float32), SPREAD
    means = draw(random, groups, n_classes, spread)
    known = means[random.integers(n_classes, size=SAMPLES * 4 // 5)]
    samples = np.concatenate([known, draw(random, groups, SAMPLES // 5, spread)])
    samples += np.float32(NOISE) * random.standard_normal(samples.shape, dtype=np.float32)
    tau = float(np.quantile(np.linalg.norm(samples[: len(known)] - known, axis=1), 0.98))
    samples = samples[random.permutation(SAMPLES)]
    start = process_time()
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau).fit(means, np.arange(n_classes))
    figures = {"fit, s of processor": process_time() - start}
    save(model, folder / "model.ow")
    np.save(folder / "means.npy", means)
    np.save(folder / "samples.npy", samples)
    np.save(folder / "answers.npy", model.set_params(index="exact").optimize().predict(samples))
    return figures


def serve(folder: Path) -> dict[str, float]:
    """Map the saved model, and measure predictions, memory and changes."""
    samples, expected = np.load(folder / "samples.npy"), np.load(folder / "answers.npy")
    start = perf_counter()
    model = load(folder / "model.ow", mapped=True)
    figures = {"load mapped, s": perf_counter() - start}
    figures["equal decisions, %"] = 100 * float(np.mean(model.predict(samples) == expected))
    wall, processor = [], []
    for sample in samples[:SINGLE, np.newaxis]:
        start, worked = perf_counter(), thread_time()
        model.predict(sample)
        wall.append(perf_counter() - start)
        processor.append(thread_time() - worked)
    for name, times in (("", wall), (" of processor", processor)):
        figures[f"single p50, ms{name}"] = 1e3 * float(np.median(times))
        figures[f"single p99, ms{name}"] = 1e3 * float(np.quantile(times, 0.99))
    figures["resident, MiB"] = resident("VmRSS")
    figures["of these mapped, MiB"] = resident("RssFile")
    return figures | changes(model, samples)


def compare(folder: Path) -> dict[str, float]:
    """Time predictions of our model, exact search and the baselines in turn, on the same samples."""
    import faiss

    faiss.omp_set_num_threads(1)
    means, samples = np.load(folder / "means.npy"), np.load(folder / "samples.npy")
    few = samples[: int(np.clip(2e8 // len(means), 200, 2_000))]
    ours, exact = load(folder / "model.ow"), load(folder / "model.ow", mapped=True)
    exact.set_params(index="exact").optimize()
    flat = faiss.IndexFlatL2(M)
    flat.add(means)
    actions = {
        "ours": (lambda: ours.predict(few), len(few)),
        "ours, exact": (lambda: exact.predict(few), len(few)),
        "IndexFlatL2": (lambda: flat.search(few, 1), len(few)),
    }
    if len(means) < APPROXIMATE_FROM:
        forced = load(folder / "model.ow").set_params(index="approximate").optimize()
        actions["ours, approximate"] = (lambda: forced.predict(few), len(few))
    for name, baseline in scikit_learn(means).items():
        fewer = few[:50] if len(means) > 100_000 else few
        actions[name] = (lambda baseline=baseline, fewer=fewer: baseline.predict(fewer), len(fewer))
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(4):
        for name, (action, n_samples) in actions.items():
            start = process_time()
            action()
            best[name] = min(best[name], (process_time() - start) / n_samples * 1e6)
    return best | {f"{name} / ours": best[name] / best["ours"] for name in best if name != "ours"}


def scikit_learn(means: np.ndarray) -> dict[str, Any]:
    """Return scikit-learn's classifiers by these means.

    What `fit` of NearestCentroid would find is set by hand: it compares every class with every label.
    """
    labels = np.arange(len(means))
    centroid = NearestCentroid()
    centroid.n_features_in_, centroid.classes_ = M, labels
    centroid.class_prior_ = np.full(len(means), 1 / len(means))
    centroid.centroids_ = means.astype(np.float64)
    neighbors = KNeighborsClassifier(1, algorithm="brute")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes with one sample
        neighbors.fit(means, labels)
    return {"NearestCentroid": centroid, "KNeighborsClassifier": neighbors}


def changes(model: NearestNonOutlier, samples: np.ndarray) -> dict[str, float]:
    start = thread_time()
    model.partial_fit(samples[:1], [-2])
    first = thread_time() - start
    times: dict[str, list[float]] = {"add": [], "correct": [], "forget": [], "predict after it": []}
    for i in range(CHANGES):
        label, sample = [-10 - i], samples[i : i + 1]
        for name, action in (
            ("add", lambda sample=sample, label=label: model.partial_fit(sample, label)),
            ("correct", lambda sample=sample, label=label: model.partial_fit(sample + 1, label)),
            ("forget", lambda i=i: model.forget_class(i)),
            ("predict after it", lambda sample=sample: model.predict(sample)),
        ):
            start = thread_time()
            action()
            times[name].append(thread_time() - start)
    medians = {f"{name}, us": 1e6 * float(np.median(taken)) for name, taken in times.items()}
    return {"first add, us": 1e6 * first, **medians}


def open_world(n_classes: int) -> None:
    """Fit an OpenWorldRecognizer to three samples of each class, and compare its predictions with NNO's."""
    random = np.random.default_rng(0)
    groups = random.standard_normal((n_classes // 100, M), dtype=np.float32)
    means = draw(random, groups, n_classes, SPREAD)
    y = np.repeat(np.arange(n_classes), 3)
    X = means[y]
    X += np.float32(NOISE) * random.standard_normal(X.shape, dtype=np.float32)
    of = random.integers(n_classes, size=SAMPLES)
    samples = means[of] + np.float32(NOISE) * random.standard_normal((SAMPLES, M), dtype=np.float32)
    others = draw(random, groups, SAMPLES // 5, SPREAD)
    print(f"{n_classes:,} classes of 3 samples, {M} features; resident before: {resident('VmRSS'):,.0f} MiB")
    start = process_time()
    model = OpenWorldRecognizer(metric=AdaptiveMetric(), refresh_growth=0.1).fit(X, y)
    print(f"fit: {process_time() - start:.1f} s of processor time; {len(model.reservoir_):,} samples kept")
    print(f"resident: {resident('VmRSS'):,.0f} MiB, {resident('VmHWM'):,.0f} at the peak", flush=True)
    answers = model.predict(samples)
    print(f"named right: {np.mean(answers == of):.3f}, rejected: {np.mean(answers == -1):.3f}")
    print(f"unknown rejected: {np.mean(model.predict(others) == -1):.3f}", flush=True)
    nno = NearestNonOutlier(EuclideanMetric(standardize=False), tau=7.0).fit(means, np.arange(n_classes))
    best = [float("inf")] * 2
    for _ in range(4):
        for i, recognizer in enumerate((model, nno)):
            start = process_time()
            recognizer.predict(samples)
            best[i] = min(best[i], (process_time() - start) / SAMPLES * 1e6)
    print(
        f"predict: {best[0]:.0f} us a sample, {best[0] / best[1]:.2f} times NearestNonOutlier's {best[1]:.0f}"
    )
    start = thread_time()
    model.partial_fit(samples[:3], [-2] * 3).predict(samples[:1])
    print(f"learn a class and predict: {thread_time() - start:.2f} s")


def resident(which: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(which))


def child(*arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.speed.many_classes", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(sizes: tuple[int, ...] = SIZES) -> None:
    columns: dict[str, dict[str, float]] = {}
    kinds = [(n, "grouped") for n in sizes] + [(n, "scattered") for n in sizes if n >= SCATTERED_FROM]
    for n_classes, kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            figures = child("fit", str(n_classes), folder, kind)
            figures |= child("compare", folder) | child("serve", folder)
        name = f"{n_classes:,}" + ", scattered" * (kind == "scattered")
        columns[name] = figures
        print(f"{name}: {figures}", file=sys.stderr, flush=True)
    print(f"m = {M}; microseconds of processor time per sample of a batch, unless said otherwise")
    print("| classes |", *(f"{name} |" for name in columns))
    print("|---|", *("---:|" for _ in columns))
    for row in dict.fromkeys(name for figures in columns.values() for name in figures):
        cells = (figures.get(row) for figures in columns.values())
        print(f"| {row} |", *("- |" if cell is None else f"{cell:,.4g} |" for cell in cells))


if __name__ == "__main__":
    with threadpool_limits(1):
        match sys.argv[1:]:
            case ["fit", size, folder, kind]:
                print(json.dumps(fit(int(size), Path(folder), kind)))
            case ["compare", folder]:
                print(json.dumps(compare(Path(folder))))
            case ["serve", folder]:
                print(json.dumps(serve(Path(folder))))
            case ["open-world", size]:
                open_world(int(size))
            case given:
                main(tuple(map(int, given)) or SIZES)
