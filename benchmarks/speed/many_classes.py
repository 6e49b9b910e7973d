"""Cost and memory of a prediction among 1,000 to 1,000,000 classes, beside faiss and scikit-learn.

The class means are in groups of about a hundred, as species are in genera. Of five samples four are of known
classes and one is of a class that was not learnt. Each size is measured in processes of its own: one fits and
saves the model and runs the rivals, the other maps the saved model and answers. All on one thread.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from time import perf_counter, thread_time

import numpy as np
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from threadpoolctl import threadpool_limits

from benchmarks.speed.measure import best_time
from openworld import EuclideanMetric, NearestNonOutlier, load, save

M, SIZES = 128, (1_000, 10_000, 100_000, 1_000_000)
SPREAD, NOISE = 0.5, 0.35
SAMPLES, SINGLE, CHANGES = 2_000, 1_000, 50
# NearestCentroid and KNeighborsClassifier take minutes or many GiB beyond these.
LARGEST_CENTROID, LARGEST_NEIGHBORS = 10_000, 100_000


def draw(random: np.random.Generator, groups: np.ndarray, n: int, spread: float) -> np.ndarray:
    points = groups[random.integers(len(groups), size=n)]
    points += np.float32(spread) * random.standard_normal(points.shape, dtype=np.float32)
    return points


def fit_and_compare(n_classes: int, folder: Path) -> dict[str, float]:
    """Fit and save a model, and time exact search and the rivals on the same samples."""
    import faiss

    faiss.omp_set_num_threads(1)
    random = np.random.default_rng(0)
    groups = random.standard_normal((n_classes // 100, M), dtype=np.float32)
    means, labels = draw(random, groups, n_classes, SPREAD), np.arange(n_classes)
    known = means[random.integers(n_classes, size=SAMPLES * 4 // 5)]
    samples = np.concatenate([known, draw(random, groups, SAMPLES // 5, SPREAD)])
    samples += np.float32(NOISE) * random.standard_normal(samples.shape, dtype=np.float32)
    tau = float(np.quantile(np.linalg.norm(samples[: len(known)] - known, axis=1), 0.98))
    samples = samples[random.permutation(SAMPLES)]
    np.save(folder / "samples.npy", samples)

    start = perf_counter()
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau).fit(means, labels)
    figures = {"fit, s": perf_counter() - start}
    save(model, folder / "model.ow")
    exact = model.set_params(index="exact").optimize()
    np.save(folder / "answers.npy", exact.predict(samples))
    few = samples[: int(np.clip(2e8 // n_classes, 100, SAMPLES))]
    per_sample = 1e6 / len(few)
    figures["exact"] = best_time(lambda: exact.predict(few), 2) * per_sample
    flat = faiss.IndexFlatL2(M)
    flat.add(means)
    figures["IndexFlatL2"] = best_time(lambda: flat.search(few, 1), 2) * per_sample
    for name, rival, largest in (
        ("NearestCentroid", NearestCentroid(), LARGEST_CENTROID),
        ("KNeighborsClassifier", KNeighborsClassifier(1, algorithm="brute"), LARGEST_NEIGHBORS),
    ):
        if n_classes <= largest:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they warn of classes with one sample
                rival.fit(means, labels)
                figures[name] = best_time(lambda rival=rival: rival.predict(few), 2) * per_sample
    return figures


def serve(folder: Path) -> dict[str, float]:
    """Map the saved model, and time predictions and changes."""
    samples, expected = np.load(folder / "samples.npy"), np.load(folder / "answers.npy")
    start = perf_counter()
    model = load(folder / "model.ow", mapped=True)
    figures = {"load, s": perf_counter() - start}
    answers = model.predict(samples)
    figures["ours"] = best_time(lambda: model.predict(samples), 2) / len(samples) * 1e6
    wall, processor = [], []
    for sample in samples[:SINGLE, np.newaxis]:
        start, worked = perf_counter(), thread_time()
        model.predict(sample)
        wall.append(perf_counter() - start)
        processor.append(thread_time() - worked)
    figures["single p50, ms"] = 1e3 * float(np.median(wall))
    figures["single p99, ms"] = 1e3 * float(np.quantile(wall, 0.99))
    figures["single p99, ms of processor"] = 1e3 * float(np.quantile(processor, 0.99))
    figures["resident, MiB"] = resident("VmRSS")
    figures["of these mapped, MiB"] = resident("RssFile")
    figures["equal decisions, %"] = 100 * float(np.mean(answers == expected))
    figures |= changes(model, samples)
    return figures


def changes(model: NearestNonOutlier, samples: np.ndarray) -> dict[str, float]:
    start = perf_counter()
    model.partial_fit(samples[:1], [-2])  # rows that are mapped get room of their own
    first = perf_counter() - start
    times: dict[str, list[float]] = {"add": [], "correct": [], "forget": [], "predict after it": []}
    for i in range(CHANGES):
        label, sample = [-10 - i], samples[i : i + 1]
        for name, action in (
            ("add", lambda sample=sample, label=label: model.partial_fit(sample, label)),
            ("correct", lambda sample=sample, label=label: model.partial_fit(sample + 1, label)),
            ("forget", lambda i=i: model.forget_class(i)),
            ("predict after it", lambda sample=sample: model.predict(sample)),
        ):
            times[name].append(best_time(action, 1))
    medians = {f"{name}, us": 1e6 * float(np.median(taken)) for name, taken in times.items()}
    return {"first add, s": first, **medians}


def resident(which: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(which))


def child(*arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.speed.many_classes", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(sizes: tuple[int, ...] = SIZES) -> None:
    columns = {}
    for n_classes in sizes:
        with tempfile.TemporaryDirectory() as folder:
            columns[n_classes] = child("fit", str(n_classes), folder) | child("serve", folder)
        figures = columns[n_classes]
        figures["exact / ours"] = figures["exact"] / figures["ours"]
        figures["IndexFlatL2 / ours"] = figures["IndexFlatL2"] / figures["ours"]
        print(f"{n_classes:,}: {figures}", file=sys.stderr, flush=True)
    print(f"m = {M}, {SAMPLES:,} samples at a time, microseconds per sample unless said otherwise")
    print("| classes |", *(f"{n:,} |" for n in sizes))
    print("|---|", *("---:|" for _ in sizes))
    rows = dict.fromkeys(name for figures in columns.values() for name in figures)
    for name in rows:
        cells = (columns[n].get(name) for n in sizes)
        print(f"| {name} |", *("not run |" if cell is None else f"{cell:,.4g} |" for cell in cells))


if __name__ == "__main__":
    with threadpool_limits(1):
        match sys.argv[1:]:
            case ["fit", size, folder]:
                print(json.dumps(fit_and_compare(int(size), Path(folder))))
            case ["serve", folder]:
                print(json.dumps(serve(Path(folder))))
            case given:
                main(tuple(map(int, given)) or SIZES)
