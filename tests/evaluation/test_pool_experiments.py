from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from openworld.cli.app import app
from openworld.evaluation.few_shot import FewShotExperiment
from openworld.evaluation.pool_experiments import FEW_SHOT_PANELS, POOL_EXPERIMENTS, run
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
    assert json.loads(first.stdout)["report"] == str(output / "report.html")
    with (output / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["data"] for row in rows} == {"toy"}
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
