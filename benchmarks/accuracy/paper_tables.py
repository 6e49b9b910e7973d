"""Make the tables of docs/results.md and docs/results-features.md from the committed results.

    python -m benchmarks.accuracy.paper_tables

Writes what stands between the marks `<!-- NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.accuracy.leaderboard import RESULTS, fill, markdown
from openworld.evaluation.run import read_results
from openworld.evaluation.table import Table

# Top-1 accuracy in %, at 0, 100, 200 and 500 unknown classes, from the paper's Figures 3 and 4.
PUBLISHED = {
    "paper-50": [
        "20.6 / 6.9 / 4.1 / 1.9", "19.9 / 12.2 / 10.0 / 9.0", "9.1 / 6.1 / 4.6 / 2.6", "8.4 / 7.8 / 7.6 / 7.7"
    ],
    "paper-200": [
        "22.6 / 12.4 / 9.3 / 5.3", "22.4 / 17.7 / 16.3 / 12.4",
        "7.3 / 2.7 / 2.4 / 1.6", "7.0 / 5.3 / 6.2 / 6.4",
    ],
}  # fmt: skip
DATA = {"omniglot": "Omniglot, HOG", "letters": "letters"}
EXTRACTORS = {"SIFT": "dense SIFT", "HOG": "HOG", "LBP": "LBP", "deep": "deep"}
CALTECH_U = 40


def results_page(page: str) -> str:
    """Return docs/results.md with its tables filled in."""
    return fill(page, {name: paper_table(name) for name in PUBLISHED})


def features_page(page: str) -> str:
    """Return docs/results-features.md with its table filled in."""
    return fill(page, {"caltech101": caltech_table()})


def paper_table(experiment: str) -> str:
    """Return pooled accuracies at the first and the last stage, beside those published."""
    lines = [["published", *PUBLISHED[experiment]]]
    for name, shown in DATA.items():
        table = Table.of(read_results(RESULTS / f"{experiment}-{name}"))
        (data,) = table.data
        known = table.known(data)
        lines.append(
            [
                shown,
                *(
                    " / ".join(
                        f"{100 * table.values[data, recognizer, K, U, 1.0, 'pooled_accuracy'].mean():.1f}"
                        for U in (0, *table.unknown(data))
                    )
                    for K in (known[0], known[-1])
                    for recognizer in ("NCM", "NNO")
                ),
            ]
        )
    header = [f"{recognizer}, K = {K}" for K in (known[0], known[-1]) for recognizer in ("NCM", "NNO")]
    return markdown(["", *header], lines)


def caltech_table() -> str:
    """Return a line for each extractor and recognizer on Caltech-101."""
    table = Table.of(read_results(RESULTS / "features-caltech101"))

    def mean(data: str, name: str, K: int, U: int, measure: str) -> float:
        return float(table.values[data, name, K, U, 1.0, measure].mean())

    lines = []
    for data, shown in EXTRACTORS.items():
        for name in ("NCM", "NNO", "openworld"):
            first, last = table.known(data)[0], table.known(data)[-1]
            shares = [
                100 * mean(data, name, K, U, "pooled_accuracy") for K in (first, last) for U in (0, CALTECH_U)
            ] + [
                100 * mean(data, name, last, CALTECH_U, "unknown_rejection"),
                100 * mean(data, name, last, 0, "background_rejection"),
            ]
            scores = [mean(data, name, last, CALTECH_U, key) for key in ("auroc", "open_world_error")]
            cells = [*(f"{share:.1f}" for share in shares), *(f"{score:.3f}" for score in scores)]
            lines.append([shown if name == "NCM" else "", name, *cells])
    header = ["features", "recognizer", "closed, K = 20", "open, K = 20", "closed, K = 60", "open, K = 60",
              "unknown rejected", "background rejected", "AUROC", "open-world error"]  # fmt: skip
    return markdown(header, lines)


def main() -> None:
    """Fill both pages."""
    for name, filled in {"results": results_page, "results-features": features_page}.items():
        path = Path(f"docs/{name}.md")
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
