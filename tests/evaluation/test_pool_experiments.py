from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from openworld.cli.app import app


@pytest.fixture
def data(tmp_path):
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(20), 20)
    X = (3 * random.normal(size=(20, 12))[y] + random.normal(size=(400, 12))).astype(np.float32)
    np.savez(tmp_path / "toy.npz", X=X, y=y)
    return tmp_path / "toy.npz"


@pytest.mark.parametrize("name", ["discovery", "loop"])
def test_a_run_writes_tables_and_report_and_resumes(name, data, tmp_path):
    output = tmp_path / "report"
    command = ["evaluate", name, "--data", str(data), "--orders", "1", "-o", str(output), "--json"]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout)["report"] == str(output / "report.html")
    with (output / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["data"] for row in rows} == {"toy"}
    page = (output / "report.html").read_text(encoding="utf-8")
    assert "data:image/png;base64," in page
    assert all(method in page for method in {row["method"] for row in rows})
    (part,) = (output / "parts").iterdir()
    kept = json.loads(part.read_text(encoding="utf-8"))
    kept[0]["value"] = 0.12345
    part.write_text(json.dumps(kept), encoding="utf-8")
    assert CliRunner().invoke(app, command).exit_code == 0
    assert "0.12345" in (output / "results.csv").read_text(encoding="utf-8")
