"""The id of the extractor in the model file: kept, optional, and never nonsense."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

import openworld
from openworld.model_file import FORMAT_VERSION, ModelFileError, read_description

ID = {"name": "pixels", "version": "1", "weights": "", "preprocessing": "gray 32x32"}
X = np.random.default_rng(0).standard_normal((60, 5)) + np.repeat(np.eye(5)[:3] * 9, 20, axis=0)
y = np.repeat(["ant", "bee", "cat"], 20)


@pytest.fixture(params=[openworld.OpenWorldRecognizer, openworld.NearestNonOutlier])
def model(request: pytest.FixtureRequest) -> Any:
    return request.param().fit(X, y)


def test_it_is_kept(model: Any, tmp_path: Path) -> None:
    model.extractor_ = ID
    openworld.save(model, tmp_path / "m.ow")
    loaded = openworld.load(tmp_path / "m.ow")
    assert loaded.extractor_ == ID
    assert read_description(tmp_path / "m.ow")["extractor"] == ID
    assert read_description(tmp_path / "m.ow")["format_version"] == FORMAT_VERSION == 3
    assert copy.deepcopy(loaded).extractor_ == ID
    loaded.partial_fit(X[:20] + 30, ["dog"] * 20)
    assert loaded.extractor_ == ID
    assert loaded.predict(X[:20] + 30).tolist().count("dog") > 10


def test_models_of_vectors_have_none(model: Any, tmp_path: Path) -> None:
    """Their files are as before extractors were known, and such files are still read."""
    openworld.save(model, tmp_path / "m.ow")
    before = read_description(tmp_path / "m.ow")
    assert "extractor" not in before
    loaded = openworld.load(tmp_path / "m.ow")
    assert not hasattr(loaded, "extractor_")
    model.extractor_ = None
    openworld.save(model, tmp_path / "m.ow")
    assert read_description(tmp_path / "m.ow") == before


@pytest.mark.parametrize("nonsense", [{}, "pixels", ["pixels"], {"name": 3}, {"name": None}])
def test_nonsense_is_refused(
    model: Any, tmp_path: Path, nonsense: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.extractor_ = nonsense
    with pytest.raises(ValueError, match="extractor of the model"):
        openworld.save(model, tmp_path / "m.ow")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("openworld.model_file.documents._sound_extractor", lambda extractor: extractor)
    openworld.save(model, tmp_path / "m.ow")
    monkeypatch.undo()
    with safe_open(tmp_path / "m.ow", framework="numpy") as file:
        assert json.loads(file.metadata()["openworld"])["extractor"] == nonsense
    with pytest.raises(ModelFileError, match="does not describe a sound model"):
        openworld.load(tmp_path / "m.ow")
