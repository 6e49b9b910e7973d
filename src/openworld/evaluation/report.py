"""The report of a run: one self-contained page with tables, figures and findings."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from openworld.evaluation.figures import draw_all
from openworld.evaluation.run import read_facts, read_results
from openworld.evaluation.summary import findings
from openworld.evaluation.table import Table

SHOWN = {
    "pooled_accuracy": "accuracy",
    "open_world_error": "open-world error",
    "closed_accuracy": "known named right",
    "unknown_rejection": "unknown rejected",
    "f1_macro": "F1 (macro)",
    "auroc": "AUROC",
    "oscr_area": "OSCR area",
}


def write_report(output: Path) -> Path:
    """Draw the figures and write `report.html` for a finished run; return its path."""
    table, facts = Table.of(read_results(output)), read_facts(output)
    figures = [
        {
            "caption": caption,
            "source": "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode(),
        }
        for path, caption in draw_all(table, output)
    ]
    template = Environment(
        loader=PackageLoader("openworld.evaluation"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).get_template("report.html.jinja")
    page = output / "report.html"
    page.write_text(
        template.render(
            facts=facts,
            scaled=scaled_words(facts),
            findings=findings(table),
            figures=figures,
            measures=SHOWN.values(),
            sections=[(data, _lines(table, data)) for data in table.data],
        ),
        encoding="utf-8",
    )
    return page


FEW_STARTING = 10


def scaled_words(facts: dict[str, Any]) -> list[str]:
    """Return a sentence for each data set for which the numbers of classes were scaled down.

    Where few starting classes are left, it says how to choose the numbers instead.
    """
    asked = facts["experiment"]
    found = []
    for data, used in facts["scaled"].items():
        unknown = ", ".join(map(str, used["unknown"])) or "no"
        words = (
            f"{Path(data).name} has too few classes for {asked['n_known']} known and "
            f"{max(asked['unknown'], default=0)} unknown ones; the numbers were scaled down to "
            f"{used['n_starting']} starting, {used['n_known']} known and {unknown} unknown classes."
        )
        if used["n_starting"] < min(FEW_STARTING, asked["n_starting"]):
            words += " " + _advice(used)
        found.append(words)
    return found


def _advice(used: dict[str, Any]) -> str:
    """Return numbers of classes that make more of the data: two thirds known, half of these first."""
    n_classes = used["n_known"] + max(used["unknown"], default=0)
    n_known = max(2, 2 * n_classes // 3)
    n_starting = max(2, n_known // 2)
    return (
        "Thresholds learned from so few starting classes are rough. To choose the numbers yourself, give a "
        ".toml file instead of the experiment's name; here, for example, "
        f"n_starting = {n_starting}, step = {max(1, (n_known - n_starting) // 2)}, n_known = {n_known}, "
        f"unknown = [{n_classes - n_known}]."
    )


def _lines(table: Table, data: str) -> list[list[str]]:
    """Return a table row per recognizer, K and U: mean and deviation over class orders."""
    lines = []
    for recognizer in table.recognizers:
        for K in table.known(data):
            for U in (0, *table.unknown(data)):
                cells = [
                    _mean_and_deviation(table.cell(data, recognizer, K, U, measure))
                    if table.has(data, recognizer, K, U, measure)
                    else ""
                    for measure in SHOWN
                ]
                lines.append([recognizer, str(K), str(U), *cells])
    return lines


def _mean_and_deviation(values: Any) -> str:
    return f"{values.mean():.3f} ± {values.std():.3f}"
