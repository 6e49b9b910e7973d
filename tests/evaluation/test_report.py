"""The report: one page that stands alone, escapes what it shows, and says what was measured."""

from __future__ import annotations

import base64
import re
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from openworld import EuclideanMetric, NearestClassMean, NearestNonOutlier
from openworld.evaluation.experiment import Experiment
from openworld.evaluation.recognizers import RECOGNIZERS
from openworld.evaluation.report import SHOWN, scaled_words, write_report
from openworld.evaluation.run import read_facts, read_results, run_experiment

ODD = "<b>odd</b> & 'name'"


class Page(HTMLParser):
    """Tags with their attributes, text, and the cells of all tables."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "tags do not match"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


@pytest.fixture(autouse=True)
def _quick_recognizers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECOGNIZERS, "NCM", lambda: NearestClassMean(EuclideanMetric()))
    monkeypatch.setitem(RECOGNIZERS, "NNO", lambda: NearestNonOutlier(EuclideanMetric()))
    monkeypatch.setitem(RECOGNIZERS, ODD, lambda: NearestClassMean(EuclideanMetric()))


@pytest.fixture(autouse=True)
def _coarse_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save time: coarse pictures, and only those that the page shows."""
    savefig = Figure.savefig

    def save(figure: Figure, path: Path, **_: Any) -> None:
        if path.suffix == ".png":
            savefig(figure, path, dpi=40)

    monkeypatch.setattr(Figure, "savefig", save)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(14), 12)
    centers = np.repeat(1.5 * random.standard_normal((14, 6)), 12, axis=0)
    np.savez(tmp_path / "blobs.npz", X=centers + random.standard_normal(centers.shape), y=y)
    return Experiment(
        "toy", (str(tmp_path / "blobs.npz"),), ("NCM", "NNO"), 4, 4, 8, unknown=(3, 6), orders=2
    )


def page_of(experiment: Experiment, output: Path) -> Page:
    run_experiment(experiment, output, workers=0)
    path = write_report(output)
    assert path == output / "report.html"
    return Page(path)


def test_the_page_stands_alone(experiment: Experiment, tmp_path: Path) -> None:
    page = page_of(replace(experiment, tau_factors=(0.5, 1.0, 2.0)), tmp_path / "out")
    assert page.open == []
    assert not {"script", "link", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    assert "://" not in page.source
    assert "@import" not in page.source
    assert "url(" not in page.source
    for _, attributes in page.tags:
        assert "href" not in attributes
        if "src" in attributes:
            source = attributes["src"] or ""
            assert source.startswith("data:image/png;base64,")
            assert base64.b64decode(source.split(",")[1], validate=True).startswith(b"\x89PNG")
    pictures = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(pictures) == 6
    assert len({picture["src"] for picture in pictures}) == 6
    for picture in pictures:
        assert len(picture["alt"] or "") > 20


def test_the_table_is_that_of_the_results(experiment: Experiment, tmp_path: Path) -> None:
    page = page_of(experiment, tmp_path / "out")
    assert {"tabindex": "0", "role": "region"}.items() <= dict(page.tags)["div"].items()
    header, *lines = page.rows
    assert header == ["recognizer", "K", "U", *SHOWN.values()]
    assert [line[:3] for line in lines] == [
        [name, str(K), str(U)] for name in ("NCM", "NNO") for K in (4, 8) for U in (0, 3, 6)
    ]
    results = read_results(tmp_path / "out")
    for name, K, U, *shown in lines:
        for measure, text in zip(SHOWN, shown, strict=True):
            values = [
                row["value"]
                for row in results
                if (row["recognizer"], row["K"], row["U"], row["measure"]) == (name, int(K), int(U), measure)
            ]
            assert text == (f"{np.mean(values):.3f} ± {np.std(values):.3f}" if values else "")
            assert values or U == "0"


def test_findings_and_facts_are_reported(experiment: Experiment, tmp_path: Path) -> None:
    page = page_of(experiment, tmp_path / "out")
    text = " ".join(page.text.split())
    assert "NCM, which never answers unknown, collapses when unknown classes are tested: holds here." in text
    assert "2 class orders, seed 0" in text
    assert f"numpy {np.__version__}" in text
    assert "Scaled down" not in text
    assert "{{" not in page.source
    assert "{%" not in page.source


def test_a_run_without_findings_has_no_section_for_them(experiment: Experiment, tmp_path: Path) -> None:
    page = page_of(replace(experiment, recognizers=("NNO",)), tmp_path / "out")
    assert "What was found" not in page.text
    assert "paper's claims" not in page.text


@pytest.mark.parametrize(
    "change",
    [
        {"orders": 1},
        {"n_starting": 8},
        {"n_starting": 8, "orders": 1, "unknown": (2,), "tau_factors": (1.0, 2.0), "recognizers": ("NNO",)},
        {"unknown": (0,)},
        {"unknown": (), "n_known": 100, "n_starting": 50, "step": 50},
    ],
)
def test_small_runs_have_a_report_too(experiment: Experiment, tmp_path: Path, change: dict[str, Any]) -> None:
    page = page_of(replace(experiment, **change), tmp_path / "out")
    assert len(page.rows) > 1
    assert not re.search(r"\b(nan|inf)\b", page.text)


def test_what_is_shown_is_escaped(experiment: Experiment, tmp_path: Path) -> None:
    folder = tmp_path / "<i>&amp;"
    folder.mkdir()
    data = Path(experiment.data[0]).rename(folder / "<b>&\"'x.npz")
    odd = replace(experiment, name="<script>alert(1)</script>", data=(str(data),), recognizers=(ODD, "NNO"))
    page = page_of(odd, tmp_path / "out")
    tags = {tag for tag, _ in page.tags}
    assert not {"b", "i", "script"} & tags
    assert str(data) in page.text
    assert "<script>alert(1)</script>" in page.text
    assert ODD in {row[0] for row in page.rows}
    assert all("<b>&\"'x" in (attributes["alt"] or "") for tag, attributes in page.tags if tag == "img")


def test_scaling_down_is_reported(experiment: Experiment, tmp_path: Path) -> None:
    asked = replace(experiment, n_starting=50, step=50, n_known=200, unknown=(100, 500), recognizers=("NCM",))
    page = page_of(asked, tmp_path / "out")
    words = (
        "blobs.npz has too few classes for 200 known and 500 unknown ones; the numbers were scaled down to "
        "2 starting, 4 known and 2, 10 unknown classes. Thresholds learned from so few starting classes are "
        "rough. To choose the numbers yourself, give a .toml file instead of the experiment's name; here, "
        "for example, n_starting = 4, step = 2, n_known = 9, unknown = [5]."
    )
    assert scaled_words(read_facts(tmp_path / "out")) == [words]
    assert words in page.text
    facts = {"experiment": asdict(asked), "scaled": {"blobs.npz": asdict(replace(asked, n_starting=12))}}
    assert "toml" not in scaled_words(facts)[0], "enough starting classes are left"


def test_several_data_sets(experiment: Experiment, tmp_path: Path) -> None:
    other = tmp_path / "other.npz"
    with np.load(experiment.data[0]) as file:
        np.savez(other, X=2 * file["X"][:, :3], y=file["y"])
    both = replace(experiment, data=(*experiment.data, str(other)), unknown=(3,), recognizers=("NCM",))
    page = page_of(both, tmp_path / "out")
    assert page.source.count("<table>") == 2
    sources = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert len(set(sources)) == len(sources) == 10
