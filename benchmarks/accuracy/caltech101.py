"""The supplement's `features` experiment on Caltech-101: dense SIFT, HOG, LBP and deep features.

    OPENWORLD_DATA=... python -m benchmarks.accuracy.caltech101
    python -m benchmarks.accuracy.caltech101 --draw     # only the table and the figure, of stored results

20 starting classes, + 10 up to 60, and 40 unknown ones; at most 80 pictures of a class, of which 30 % are for
test. Faces_easy is left out: it shows the same people as Faces. Each class order has visual words of its
own, learned on the training pictures of its starting classes and on no others. LBP is there as in the
supplement, the shares of 59 patterns in a picture, and as words of its cells. What is rejected of the
collection's background pictures, of no class at all, is measured after the last stage.
"""

from __future__ import annotations

import csv
import json
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.speed.measure import real_data
from openworld.data.dataset import Dataset
from openworld.data.sources import Item
from openworld.evaluation.experiment import Experiment
from openworld.evaluation.protocol import run_protocol
from openworld.evaluation.recognizers import RECOGNIZERS
from openworld.evaluation.run import PACKAGES, RESULT_COLUMNS, TIMING_COLUMNS, read_results
from openworld.evaluation.split import Split
from openworld.evaluation.table import Table
from openworld.features import (
    HOG,
    LBP,
    DenseSIFT,
    Descriptor,
    Extractor,
    ExtractorId,
    VisualWords,
    load_extractor,
)
from openworld.features.cache import FeatureCache
from openworld.features.decode import decode
from openworld.features.extraction import extract_batches
from openworld.features.extractor import Kind
from openworld.features.word_file import WordHistograms

OUTPUT = Path("benchmarks/accuracy/results/features-caltech101")
FIGURE = Path("docs/images/features-caltech101.png")
WORDS: dict[str, tuple[Descriptor, int]] = {
    "SIFT": (DenseSIFT(), 1000),
    "HOG": (HOG(), 300),
    "LBP-words": (LBP(), 300),
}
EXPERIMENT = Experiment(
    "features-caltech101",
    data=("SIFT", "HOG", "LBP", "LBP-words", "deep"),
    recognizers=("NCM", "NNO", "openworld"),
    n_starting=20,
    step=10,
    n_known=60,
    unknown=(40,),
    orders=3,
)
BACKGROUND, TWIN = "BACKGROUND_Google", "Faces_easy"
MOST_OF_A_CLASS = 80
TITLES = {
    "SIFT": "dense SIFT, 1,000 words",
    "HOG": "HOG, 300 words",
    "LBP": "LBP, 59 values",
    "LBP-words": "LBP, 300 words",
    "deep": "deep (EfficientNet-Lite0)",
}
COLORS = {"NCM": "#0072B2", "NNO": "#D55E00", "openworld": "#009E73"}
MARKERS = {"NCM": "o", "NNO": "s", "openworld": "^"}
Row = dict[str, Any]


class Patterns:
    """The share of each local binary pattern in a picture."""

    kind: Kind = "image"
    id = ExtractorId("lbp", "1", "", "gray, whole picture")
    n_features = 59

    def transform(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return the shares, of shape (n, 59)."""
        return np.stack([LBP().histogram(np.asarray(picture)) for picture in batch])


def main() -> None:
    if "--draw" not in sys.argv:
        start = perf_counter()
        with threadpool_limits(1):
            results, timings = run()
        OUTPUT.mkdir(parents=True, exist_ok=True)
        write_csv(OUTPUT / "results.csv", RESULT_COLUMNS, results)
        write_csv(OUTPUT / "timings.csv", TIMING_COLUMNS, timings)
        facts = {
            "experiment": asdict(EXPERIMENT),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
            "seconds": perf_counter() - start,
        }
        (OUTPUT / "run.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    table = Table.of(read_results(OUTPUT))
    print_table(table)
    draw(table)


def run() -> tuple[list[Row], list[Row]]:
    """Run every recognizer on every class order of every feature set; return results and timings."""
    pictures = list(caltech_pictures())
    of_class = [picture for picture in pictures if picture.label != BACKGROUND]
    background = [picture for picture in pictures if picture.label == BACKGROUND]
    y = np.array([picture.label for picture in of_class])
    results: list[Row] = []
    timings: list[Row] = []
    for order in range(EXPERIMENT.orders):
        # Which picture is for what depends on the labels alone, so it is known before there are features.
        split = EXPERIMENT.split(Dataset("caltech101", np.empty((len(y), 0)), y), order)
        starting = [of_class[i] for i in split.train if y[i] in split.stages[0]]
        for data in EXPERIMENT.data:
            extractor = extractor_of(data, starting, order)
            dataset = Dataset(data, features(of_class, extractor), y)
            unknown = features(background, extractor)
            for name in EXPERIMENT.recognizers:
                who = {"data": data, "recognizer": name, "order": order}
                rows, seconds = played(name, dataset, split, unknown)
                results += [{**who, **row} for row in rows]
                timings += [{**who, **row} for row in seconds]
                print(f"{data}, order {order + 1}, {name}", file=sys.stderr, flush=True)
    return results, timings


def caltech_pictures() -> Iterator[Item]:
    """Yield the pictures that are used, all of the background among them."""
    with np.load(real_data("caltech101-jpeg128.npz"), allow_pickle=False) as file:
        blob, offsets, labels, names = (file[key] for key in ("blob", "offsets", "labels", "class_names"))
    random = np.random.default_rng(0)
    for label, name in enumerate(names.tolist()):
        if name == TWIN:
            continue
        shuffled = random.permutation(np.flatnonzero(labels == label))
        for i in shuffled if name == BACKGROUND else shuffled[:MOST_OF_A_CLASS]:
            yield Item(f"{name}/{i}.jpg", name, blob[offsets[i] : offsets[i + 1]].tobytes)


def extractor_of(data: str, starting: list[Item], order: int) -> Extractor:
    """Return what makes a feature set; visual words are learned on the pictures given, the rest is ready."""
    if data == "deep":
        return load_extractor("efficientnet-lite0")
    if data == "LBP":
        return Patterns()
    descriptor, n_words = WORDS[data]
    words = VisualWords(descriptor, n_words, random_state=order)
    words.fit([np.asarray(decode(picture.read())) for picture in starting])
    return WordHistograms(words, f"{data}-{order}")


def features(pictures: list[Item], extractor: Extractor) -> NDArray[np.float32]:
    with FeatureCache() as cache:
        batches = extract_batches(pictures, extractor, cache=cache, on_error="stop")
        return np.concatenate([batch.X for batch in batches])


def played(
    name: str, dataset: Dataset, split: Split, background: NDArray[np.float32]
) -> tuple[list[Row], list[Row]]:
    recognizer = RECOGNIZERS[name]()
    outcome = run_protocol(recognizer, dataset, split, EXPERIMENT)
    rejected = float(np.mean(recognizer.predict(background) == recognizer.unknown_label_))
    row = {"K": EXPERIMENT.n_known, "U": 0, "tau_factor": 1.0, "measure": "background_rejection"}
    return [*outcome.rows, {**row, "value": rejected}], outcome.timings


def write_csv(path: Path, columns: tuple[str, ...], rows: list[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=columns, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def print_table(table: Table) -> None:
    """Print the first and the last stage in %, mean over class orders."""
    (U,) = EXPERIMENT.unknown
    first, last = EXPERIMENT.n_starting, EXPERIMENT.n_known
    columns = [
        (first, 0, "pooled_accuracy"), (first, U, "pooled_accuracy"), (last, 0, "pooled_accuracy"),
        (last, U, "pooled_accuracy"), (last, U, "unknown_rejection"), (last, 0, "background_rejection"),
    ]  # fmt: skip
    print(
        f"| features | recognizer | closed, K = {first} | open, K = {first} | closed, K = {last} "
        f"| open, K = {last} | unknown rejected | background rejected | AUROC | open-world error |"
    )
    print("|---|---|" + "---|" * 8)
    for data in EXPERIMENT.data:
        for name in EXPERIMENT.recognizers:
            cells = [table.cell(data, name, *column) for column in columns]
            percents = [f"{100 * cell.mean():.1f} ± {100 * cell.std():.1f}" for cell in cells]
            others = [table.cell(data, name, last, U, what).mean() for what in ("auroc", "open_world_error")]
            print(f"| {data} | {name} |", " | ".join([*percents, *(f"{x:.3f}" for x in others)]), "|")


def draw(table: Table) -> None:
    """Draw closed-set (CS) and open-set (OS) accuracy against known classes, a panel for each feature set.

    The dotted line is the open-set accuracy of calling everything unknown.
    """
    (U,) = EXPERIMENT.unknown
    figure = Figure(figsize=(13, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(EXPERIMENT.data), sharey=True)
    for panel, data in zip(panels, EXPERIMENT.data, strict=True):
        known = table.known(data)
        for name in EXPERIMENT.recognizers:
            for prefix, count, line, face in (("CS", 0, "--", "white"), ("OS", U, "-", COLORS[name])):
                cells = [100 * table.cell(data, name, K, count, "pooled_accuracy") for K in known]
                mean, deviation = np.mean(cells, axis=1), np.std(cells, axis=1)
                panel.plot(
                    known, mean, line, color=COLORS[name], marker=MARKERS[name], markersize=5,
                    markerfacecolor=face, label=f"{prefix}-{name}",
                )  # fmt: skip
                panel.fill_between(known, mean - deviation, mean + deviation, color=COLORS[name], alpha=0.12)
        # NCM never rejects, so its open accuracy is its closed one times the share of known samples.
        shares = [
            table.cell(data, "NCM", K, U, "pooled_accuracy")
            / table.cell(data, "NCM", K, 0, "pooled_accuracy")
            for K in known
        ]
        panel.plot(known, 100 - 100 * np.mean(shares, axis=1), ":", color="#666666", label="OS, all unknown")
        panel.set_title(TITLES[data], fontsize=10)
        panel.set(xlabel="known classes", xticks=known, ylim=(0, 100))
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("top-1 accuracy (%)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=7, frameon=False)
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    main()
