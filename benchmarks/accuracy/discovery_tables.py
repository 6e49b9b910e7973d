"""Make the tables of docs/discovery.md from the committed results of `evaluate discovery` and `loop`.

    python -m benchmarks.accuracy.discovery_tables

Writes what stands between the marks `<!-- NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.accuracy.leaderboard import RESULTS, fill, markdown
from openworld.evaluation.run import read_results

PAGE = Path("docs/discovery.md")
DATA = {
    "letters": "letters",
    "omniglot": "Omniglot HOG",
    "cifar100-deep": "CIFAR-100 deep",
    "clinc150": "CLINC150",
    "caltech101-deep": "Caltech-101 deep",
}
OURS, K_MEANS, HDBSCAN = "openworld", "k-means, true k", "HDBSCAN"
POOL_COLUMNS = [(OURS, name) for name in ("clusters", "purity", "own cluster", "share clustered", "ARI")]
POOL_COLUMNS += [(K_MEANS, "ARI"), (HDBSCAN, "ARI")]
LOOP_DATA = {
    "caltech101-deep": "Caltech-101 deep, 20 of 100",
    "clinc150": "CLINC150, 30 of 150",
    "omniglot": "Omniglot HOG, 30 of 150",
}
ROUNDS = (1, 3, 6)
LOOP_COLUMNS = ("accuracy", "likeliest class right", "wrong accepts", "classes discovered")


def discovery_page(page: str) -> str:
    """Return docs/discovery.md with its tables filled in."""
    pools, loop = (read_results(RESULTS / name) for name in ("discovery", "loop"))
    return fill(
        page, {"pools": pools_table(pools), "conditions": conditions_table(pools), "loop": loop_table(loop)}
    )


def pools_table(rows: list[dict[str, Any]]) -> str:
    """Return means over the class orders; the numbers of unknown classes stand side by side."""
    values = defaultdict(list)
    for row in rows:
        values[row["data"], int(row["K"]), int(row["U"]), row["method"], row["measure"]].append(row["value"])
    lines = []
    for data, shown in DATA.items():
        (K,) = {K for of, K, *_ in values if of == data}
        sizes = sorted({U for of, _, U, *_ in values if of == data})
        cells = [
            " / ".join(_number(values.get((data, K, U, *column)), column[1]) for U in sizes)
            for column in POOL_COLUMNS
        ]
        lines.append([f"{shown}, {K}", " / ".join(f"{U:,}" for U in sizes), *cells])
    header = ["data, known classes", "unknown classes", "clusters", "purity", "own", "share", "ARI"]
    return markdown([*header, K_MEANS, HDBSCAN], lines)


def conditions_table(rows: list[dict[str, Any]]) -> str:
    """Return on how many pools, or data sets, each condition is met."""
    pools: dict[tuple[str, Any, Any], dict[tuple[str, str], float]] = defaultdict(dict)
    for row in rows:
        pools[row["data"], row["U"], row["order"]][row["method"], row["measure"]] = float(row["value"])
    largest = max(pool[OURS, "largest share"] for pool in pools.values())

    def met(left: tuple[str, str], right: tuple[str, str] | float) -> str:
        bounds = [
            (pool[left], right if isinstance(right, float) else pool.get(right)) for pool in pools.values()
        ]
        compared = [value >= bound for value, bound in bounds if bound is not None]
        return f"{sum(compared)} of {len(compared)}"

    def better_sets(baseline: str) -> str:
        gains = defaultdict(list)
        for (data, *_), pool in pools.items():
            if (baseline, "ARI") in pool:
                gains[data].append(pool[OURS, "ARI"] - pool[baseline, "ARI"])
        better = [shown for data, shown in DATA.items() if fmean(gains[data]) > 0]
        return f"{len(better)} of {len(DATA)} data sets: {', '.join(better)}"

    return markdown(
        ["condition", "met on"],
        [
            ["purity of at least .85", f"{met((OURS, 'purity'), 0.85)} pools"],
            ["an own cluster for 70 % of the classes", met((OURS, "own cluster"), 0.7)],
            ["ARI above k-means with the true number of clusters", met((OURS, "ARI"), (K_MEANS, "ARI"))],
            ["ARI above HDBSCAN", met((OURS, "ARI"), (HDBSCAN, "ARI"))],
            ["mean ARI over the pools of a data set above k-means", better_sets(K_MEANS)],
            ["mean ARI over the pools of a data set above HDBSCAN", better_sets(HDBSCAN)],
            [
                f"largest cluster holds at most {100 * largest:.0f} % of the pool",
                f"{len(pools)} of {len(pools)}",
            ],
        ],
    )


def loop_table(rows: list[dict[str, Any]]) -> str:
    """Return means over the class orders after some rounds."""
    values = defaultdict(list)
    for row in rows:
        at = row["data"], row["method"], int(row["round"])
        values[*at, row["measure"]].append(row["value"])
        if row["measure"] == "accuracy":
            for name in ("actions", "labeled"):
                values[*at, name].append(row[name])
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = []
    for data, shown in LOOP_DATA.items():
        for method in methods:
            cells = [
                " / ".join(_number(values.get((data, method, at, name)), name) for at in ROUNDS)
                for name in ("actions", "labeled", *LOOP_COLUMNS)
            ]
            cells[1] = "same" if cells[1] == cells[0] else cells[1]
            cells[3] = "same" if cells[3] == cells[2] else cells[3]
            lines.append([shown if method == methods[0] else "", method, *cells])
    header = ["data, known classes", "", "actions", "samples labeled", *LOOP_COLUMNS]
    return markdown(header, lines)


def _number(values: list[Any] | None, name: str) -> str:
    if not values:
        return "-"
    if name in ("clusters", "actions", "labeled"):
        return f"{fmean(map(float, values)):,.0f}"
    return f"{fmean(map(float, values)):.2f}".removeprefix("0")


def main() -> None:
    PAGE.write_text(discovery_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
