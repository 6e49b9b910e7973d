from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from openworld import EuclideanMetric, NearestNonOutlier
from openworld.service.inputs import Inputs
from openworld.service.validation import Refused
from openworld.service.world import World


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'world.db'}"


@pytest.fixture
def inputs_of(url, settings_of):
    """Return the inputs of a model that names an extractor."""
    worlds = []

    def make(name):
        model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=1.0)
        model.fit(np.eye(4, dtype=np.float32), list("aabb"))
        model.extractor_ = {"name": name, "version": "1", "weights": "none", "preprocessing": "none"}
        worlds.append(World.open(url, model))
        return Inputs(worlds[-1], settings_of())

    yield make
    for world in worlds:
        world.close()


def test_a_model_whose_extractor_is_not_installed_is_not_served(inputs_of, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(Refused, match=r"takes pictures or texts.*pip install openworld\[images\]"):
        inputs_of("efficientnet-lite0").prepare()


def test_a_model_whose_extractor_is_a_file_that_was_not_given_takes_vectors(inputs_of, monkeypatch):
    warned = []
    log = SimpleNamespace(warning=lambda event, **_: warned.append(event))
    monkeypatch.setattr("openworld.service.inputs._log", log)
    inputs_of("onnx:own").prepare()
    assert warned == ["extractor not available"]


def test_a_model_of_vectors_needs_no_extractor(world, settings_of):
    inputs = Inputs(world, settings_of())
    inputs.prepare()
    assert inputs.kind is None


def test_a_preview_is_as_large_as_the_settings_say(inputs_of, settings_of):
    picture = Image.effect_noise((1600, 1200), 60).convert("RGB")
    inputs = inputs_of("pixels")
    inputs._settings = settings_of(preview_side=800)
    item = inputs._item(picture, "a.png")
    assert Image.open(io.BytesIO(item.thumbnail)).size == (256, 192)
    assert Image.open(io.BytesIO(item.preview)).size == (800, 600)
    assert inputs._item(picture.resize((200, 100)), "b.png").preview is None
    inputs._settings = settings_of(preview_side=0)
    assert inputs._item(picture, "c.png").preview is None


def _files(*sizes):
    files = []
    for n, size in enumerate(sizes):
        file = io.BytesIO()
        Image.new("1", size).save(file, "PNG")
        files.append((f"{n}.png", file.getvalue()))
    return files


def test_the_pixels_of_all_pictures_are_counted_before_one_is_decoded(inputs_of, settings_of, monkeypatch):
    inputs = inputs_of("pixels")
    inputs._settings, inputs._extractor = (
        settings_of(max_request_pixels=25_000),
        SimpleNamespace(kind="image"),
    )
    monkeypatch.setattr("openworld.service.inputs.decode", lambda *_, **__: pytest.fail("was decoded"))
    with pytest.raises(Refused, match="have 30,000 pixels; the limit is 25,000"):
        inputs.pictures(_files(*[(100, 100)] * 3))
    with pytest.raises(Refused, match=r"Picture 1 \(broken.png\): not a picture"):
        inputs.pictures([*_files((10, 10)), ("broken.png", b"nothing")])


def test_large_pictures_are_decoded_one_at_a_time_by_all_requests(inputs_of, monkeypatch):
    inputs, at_once, most = inputs_of("pixels"), [], []
    monkeypatch.setattr("openworld.service.inputs._LARGE", 5000)

    class Slow:
        kind = "image"

        def transform(self, pictures):
            at_once.append(1)
            most.append(len(at_once))
            sleep(0.01)
            at_once.pop()
            return np.zeros((1, 4), np.float32)

    monkeypatch.setattr(inputs, "_extractor", Slow())
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(inputs.pictures, [_files((100, 100))] * 8))
    assert max(most) == 1
