from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from openworld.cli.app import app
from openworld.evaluation.few_shot import FewShotExperiment
from openworld.evaluation.pool_experiments import FEW_SHOT_PANELS, POOL_EXPERIMENTS, means, run
from openworld.evaluation.recognizers import RECOGNIZERS


@pytest.fixture
def data(tmp_path):
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(20), 20)
    X = (3 * random.normal(size=(20, 12))[y] + random.normal(size=(400, 12))).astype(np.float32)
    np.savez(tmp_path / "toy.npz", X=X, y=y)
    return tmp_path / "toy.npz"


@pytest.mark.parametrize(
    ("name", "more"), [("discovery", []), ("loop", []), ("few-shot", ["--recognizer", "NNO"])]
)
def test_a_run_writes_tables_and_report_and_resumes(name, more, data, tmp_path):
    output = tmp_path / "report"
    command = ["evaluate", name, "--data", str(data), "--orders", "1", "-o", str(output), "--json", *more]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    summary = json.loads(first.stdout)
    assert summary["report"] == str(output / "report.html")
    assert len(summary["means"]) > 0
    for line in summary["means"]:
        measured = [value for key, value in line.items() if key in POOL_EXPERIMENTS[name].main]
        assert len(measured) == len(POOL_EXPERIMENTS[name].main)
        assert all(value is None or isinstance(value, float) for value in measured)
    with (output / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["data"] for row in rows} == {"toy"}
    for line in summary["means"]:
        some = [row for row in rows if all(row[key] == str(line[key]) for key in POOL_EXPERIMENTS[name].keys)]
        measure = POOL_EXPERIMENTS[name].main[0]
        values = [float(row["value"]) for row in some if row["measure"] == measure]
        assert line[measure] == (pytest.approx(values[-1]) if values[-1] == values[-1] else None)
    page = (output / "report.html").read_text(encoding="utf-8")
    assert "data:image/png;base64," in page
    assert all(row.get("method", row.get("recognizer")) in page for row in rows)
    (part,) = (output / "parts").iterdir()
    kept = json.loads(part.read_text(encoding="utf-8"))
    kept[0]["value"] = 0.12345
    part.write_text(json.dumps(kept), encoding="utf-8")
    assert CliRunner().invoke(app, command).exit_code == 0
    assert "0.12345" in (output / "results.csv").read_text(encoding="utf-8")


def test_few_shot_keeps_a_job_for_each_recognizer_until_the_data_change(data, tmp_path):
    output = tmp_path / "report"
    experiment = FewShotExperiment(data=(str(data),), recognizers=("NNO",), orders=1, samples=(1,))
    run("few-shot", experiment, output)
    (done,) = (output / "parts").iterdir()
    written = done.stat().st_mtime_ns
    run("few-shot", replace(experiment, recognizers=("NCM", "NNO")), output)
    assert len(list((output / "parts").iterdir())) == 2
    assert done.stat().st_mtime_ns == written
    with (output / "results.csv").open(encoding="utf-8") as file:
        assert {row["recognizer"] for row in csv.DictReader(file)} == {"NCM", "NNO"}
    with np.load(data) as file:
        np.savez(data, X=2 * file["X"], y=file["y"])
    run("few-shot", experiment, output)
    assert len(list((output / "parts").iterdir())) == 3


def test_means_are_over_class_orders_of_the_last_round_or_of_about_five_samples():
    row = {"data": "toy", "method": "NamesClusters", "measure": "accuracy", "stream": 50}
    rows = [
        {**row, "order": order, "round": step, "actions": 10 * step, "labeled": labeled, "value": value}
        for order, step, labeled, value in ((0, 1, 9, 0.1), (1, 1, 9, 0.1), (0, 2, 20, 0.5), (1, 2, 40, 0.7))
    ]
    (line,) = means("loop", rows)
    assert line["accuracy"] == pytest.approx(0.6)
    assert (line["actions"], line["labeled"], line["wrong accepts"]) == (20, 30, None)
    row = {"data": "toy", "recognizer": "NNO", "measure": "new right", "value": 0.5}
    for numbers, chosen in (
        ((0, 1, 2, 5, 10, "all"), 5),
        ((0, 1, "all"), 1),
        ((10, 20), 10),
        ((0, "all"), "all"),
    ):
        (line,) = means("few-shot", [{**row, "n": n} for n in numbers])
        assert line["n"] == chosen


def test_a_note_names_those_who_labeled_the_whole_stream():
    row = {"data": "toy", "round": 6, "measure": "accuracy", "value": 0.5, "stream": 1200}
    rows = [
        {**row, "order": order, "method": method, "actions": 1, "labeled": labeled}
        for order in (0, 1)
        for method, labeled in (("all", 1200), ("most", 1200 - order), ("few", 90))
    ]
    (note,) = POOL_EXPERIMENTS["loop"].notes(rows)
    assert note.startswith("On toy, every sample of the stream (1,200) was labeled at the end by: all. ")
    assert POOL_EXPERIMENTS["loop"].notes([one for one in rows if one["method"] != "all"]) == []
    without = [{key: value for key, value in one.items() if key != "stream"} for one in rows]
    assert POOL_EXPERIMENTS["loop"].notes(without) == []


def test_the_note_is_in_the_report_and_in_the_terminal(data, tmp_path):
    command = ["evaluate", "loop", "--data", str(data), "--orders", "1", "-o", str(tmp_path / "out")]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    words = "every sample of the stream"
    assert words in " ".join(shown.stderr.split())
    assert words in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "toy, means over class orders" in shown.stderr


def test_every_line_of_the_few_shot_figure_is_told_from_the_others():
    value = {"data": "toy", "n": 1, "measure": FEW_SHOT_PANELS[0], "value": 0.5}
    figure = POOL_EXPERIMENTS["few-shot"].draw([{**value, "recognizer": name} for name in RECOGNIZERS])
    lines = figure.axes[0].get_lines()
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == len(RECOGNIZERS)
    assert max(lines, key=lambda line: line.get_zorder()).get_label() == "openworld"


def test_discovery_and_loop_refuse_recognizers(data):
    refused = CliRunner().invoke(app, ["evaluate", "loop", "--data", str(data), "--recognizer", "NNO"])
    assert refused.exit_code == 1
    assert "takes no --recognizer" in str(refused.exception)
