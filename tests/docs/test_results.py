"""The tables on the results pages are those that the committed results give."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import benchmarks
import pytest
from benchmarks.accuracy import discovery_tables, leaderboard, paper_tables
from benchmarks.accuracy.few_shot_tables import DATA, FewShot

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # the scripts read and write below the current folder


MODULES = [found.name for found in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_every_benchmark_finds_what_it_imports(name):
    assert importlib.import_module(name).__doc__


@pytest.mark.parametrize(
    ("name", "filled"),
    [("results", paper_tables.results_page), ("results-features", paper_tables.features_page)],
)
def test_pages_of_the_paper(name, filled):
    page = Path(f"docs/{name}.md").read_text(encoding="utf-8")
    assert filled(page) == page, "run python -m benchmarks.accuracy.paper_tables"


def test_leaderboard():
    runs = [leaderboard.Run(name) for name in DATA if (leaderboard.RESULTS / f"leaderboard-{name}").is_dir()]
    few = FewShot.read(leaderboard.RESULTS)
    page = leaderboard.TABLES.read_text(encoding="utf-8")
    assert leaderboard.tables_page(runs, few) == page, "run python -m benchmarks.accuracy.leaderboard"


def test_discovery_and_the_loop():
    page = discovery_tables.PAGE.read_text(encoding="utf-8")
    assert discovery_tables.discovery_page(page) == page, "run python -m benchmarks.accuracy.discovery_tables"


def test_a_page_without_the_mark_is_not_passed_over():
    with pytest.raises(AssertionError, match="paper-50"):
        paper_tables.results_page("# no marks here\n")
