"""Cost and memory of a prediction among 1,000 to 1,000,000 classes, beside faiss and scikit-learn.

The class means are in groups of about a hundred, as species are in genera. Of five samples four are of known
classes and one is of a class that was not learnt. For each size one process fits and saves the model, one
maps it and answers, and one runs exact search and the rivals beside it, in turn. All on one thread; what is
compared is time of the processor, as others may work on the machine too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from time import perf_counter, process_time, thread_time

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


def fit(n_classes: int, folder: Path) -> dict[str, float]:
    """Fit and save a model, with samples and what exact search answers."""
    random = np.random.default_rng(0)
    groups = random.standard_normal((n_classes // 100, M), dtype=np.float32)
    means = draw(random, groups, n_classes, SPREAD)
    known = means[random.integers(n_classes, size=SAMPLES * 4 // 5)]
    samples = np.concatenate([known, draw(random, groups, SAMPLES // 5, SPREAD)])
    samples += np.float32(NOISE) * random.standard_normal(samples.shape, dtype=np.float32)
    tau = float(np.quantile(np.linalg.norm(samples[: len(known)] - known, axis=1), 0.98))
    samples = samples[random.permutation(SAMPLES)]
    start = perf_counter()
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau).fit(means, np.arange(n_classes))
    figures = {"fit, s": perf_counter() - start}
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
    figures = {"load, s": perf_counter() - start}
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
    """Time predictions of our model, exact search and the rivals in turn, on the same samples."""
    import faiss

    faiss.omp_set_num_threads(1)
    means, samples = np.load(folder / "means.npy"), np.load(folder / "samples.npy")
    labels = np.arange(len(means))
    few = samples[: int(np.clip(2e8 // len(means), 200, SAMPLES))]
    ours, exact = load(folder / "model.ow"), load(folder / "model.ow", mapped=True)
    exact.set_params(index="exact").optimize()
    flat = faiss.IndexFlatL2(M)
    flat.add(means)
    actions = {
        "ours": lambda: ours.predict(few),
        "ours, exact": lambda: exact.predict(few),
        "IndexFlatL2": lambda: flat.search(few, 1),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they warn of classes with one sample
        if len(means) <= LARGEST_CENTROID:
            centroid = NearestCentroid().fit(means, labels)
            actions["NearestCentroid"] = lambda: centroid.predict(few)
        if len(means) <= LARGEST_NEIGHBORS:
            neighbors = KNeighborsClassifier(1, algorithm="brute").fit(means, labels)
            actions["KNeighborsClassifier"] = lambda: neighbors.predict(few)
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(4):
        for name, action in actions.items():
            start = process_time()
            action()
            best[name] = min(best[name], (process_time() - start) / len(few) * 1e6)
    ratios = {f"{name} / ours": best[name] / best["ours"] for name in ("ours, exact", "IndexFlatL2")}
    return best | ratios


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
    columns: dict[int, dict[str, float]] = {}
    for n_classes in sizes:
        with tempfile.TemporaryDirectory() as folder:
            columns[n_classes] = child("fit", str(n_classes), folder)
            columns[n_classes] |= child("compare", folder) | child("serve", folder)
        print(f"{n_classes:,}: {columns[n_classes]}", file=sys.stderr, flush=True)
    print(f"m = {M}; microseconds of processor time per sample of a batch, unless said otherwise")
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
                print(json.dumps(fit(int(size), Path(folder))))
            case ["compare", folder]:
                print(json.dumps(compare(Path(folder))))
            case ["serve", folder]:
                print(json.dumps(serve(Path(folder))))
            case given:
                main(tuple(map(int, given)) or SIZES)
