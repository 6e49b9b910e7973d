"""`openworld card` tells what a model file holds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from openworld import OpenWorldRecognizer, save
from openworld.cli.app import app


@pytest.fixture
def model(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(5 * np.eye(8)[c], 1, (n, 8)) for c, n in enumerate((20, 20, 3))])
    recognizer = OpenWorldRecognizer(n_lifted=0).fit(X, np.repeat(["ant", "bee", "cat | dog"], (20, 20, 3)))
    recognizer.extractor_ = {
        "name": "wordllama",
        "version": "1",
        "weights": "0" * 64,
        "preprocessing": "none",
    }
    save(recognizer, tmp_path / "insects.ow")
    return tmp_path / "insects.ow"


def test_card(model: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["card", str(model), "-o", str(tmp_path / "card.md")])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert "Names 3 classes, learned from 43 samples" in text
    assert "| bee | 20 |" in text
    assert "| samples | 43 |" in text
    assert "| cat \\| dog | 3 |" in text
    assert not re.search(r"\d\.\d{7}", text)  # no more digits than say something
    assert "Classes with fewer than 5 samples: cat | dog." in text
    assert "OSCR 0." in text or "OSCR 1.0" in text
    assert "MIT" in text


def test_json(model: Path) -> None:
    result = CliRunner().invoke(app, ["card", str(model), "--json"])
    found = json.loads(result.stdout)
    assert found["classes"] == 3
    assert {"label": "cat | dog", "samples": 3.0} in found["per_class"]
    assert found["license of the extractor"] == "MIT"


def test_what_fit_checked_is_in_the_card_also_after_more_was_learned(tmp_path: Path, run: Any) -> None:
    random = np.random.default_rng(0)
    rows = [(*random.normal(5 * np.eye(3)[c], 1), "abc"[c]) for c in (0, 1, 2) for _ in range(12)]
    lines = [",".join(map(str, row)) for row in rows]
    (tmp_path / "first.csv").write_text("x,y,z,label\n" + "\n".join(lines[:24]))
    (tmp_path / "more.csv").write_text("x,y,z,label\n" + "\n".join(lines[24:]))
    model = tmp_path / "m.ow"
    run("fit", tmp_path / "first.csv", "-o", model)
    run("learn", model, tmp_path / "more.csv")
    text = run("card", model)
    assert "When it was fitted: Self-check on 24 held-out samples of 2 classes:" in text
    assert "| samples | 36 |" in text
