"""Networks of other libraries, which are not installed here: small fakes replace them."""

from __future__ import annotations

import os
import sys
import types

import numpy as np
import pytest

from openworld.features import extractor_for, load_extractor

pytestmark = pytest.mark.usefixtures("hub_settings")


class Tensor:
    """As much of a tensor as the extractors use."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def detach(self):
        return self

    cpu = float = detach

    def numpy(self):
        return self.values


class Model:
    """The mean of a picture's rows, times a weight."""

    max_seq_length = 128

    def __init__(self, weight=2.0):
        self.weight = np.array([weight], np.float32)
        self.evaluating = False

    def state_dict(self):
        return {"weight": Tensor(self.weight)}

    def eval(self):
        self.evaluating = True

    def __call__(self, pictures):
        assert self.evaluating
        return Tensor(pictures.values.mean(axis=(1, 2)) * self.weight)

    encode_image = __call__

    def encode(self, texts, convert_to_numpy, show_progress_bar):
        assert convert_to_numpy
        assert not show_progress_bar
        return np.array([[len(text), 1.0] for text in texts])


@pytest.fixture
def torch(monkeypatch):
    class Inference:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    threads = []
    module = types.SimpleNamespace(
        set_num_threads=threads.append,
        inference_mode=Inference,
        stack=lambda tensors: Tensor(np.stack([tensor.values for tensor in tensors])),
        threads=threads,
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def prepare(image):
    return Tensor(np.asarray(image.resize((8, 8)), dtype=np.float32) / 255)


@pytest.fixture
def libraries(monkeypatch, torch, nobody):
    monkeypatch.setenv("HF_ENDPOINT", nobody)
    asked = []

    def create_model(name, pretrained, num_classes):
        asked.append((name, pretrained, num_classes))
        if name == "missing":
            raise OSError("not in the local copy of the hub")
        return Model()

    def create_model_and_transforms(name, pretrained):
        asked.append((name, pretrained))
        return Model(3.0), None, prepare

    def sentence_transformer(name, device):
        asked.append((name, device))
        return Model(4.0)

    settings = {"mean": (0, 0, 0), "crop_pct": 0.9}
    data = types.SimpleNamespace(
        resolve_model_data_config=lambda model: settings,
        create_transform=lambda is_training, **given: prepare if given == settings else None,
    )
    stand_ins = {
        "timm": types.SimpleNamespace(create_model=create_model, data=data),
        "open_clip": types.SimpleNamespace(create_model_and_transforms=create_model_and_transforms),
        "sentence_transformers": types.SimpleNamespace(SentenceTransformer=sentence_transformer),
    }
    for name, module in stand_ins.items():
        monkeypatch.setitem(sys.modules, name, module)
    return asked


PICTURES = [np.full((8, 8, 3), level, np.uint8) for level in range(0, 200, 10)]
EXPECTED = np.repeat(np.arange(0, 200, 10)[:, None] / 255, 3, axis=1)


def test_timm(libraries, torch):
    extractor = load_extractor("timm:resnet18.a1_in1k")
    assert libraries == [("resnet18.a1_in1k", True, 0)]
    np.testing.assert_allclose(extractor.transform(PICTURES), 2 * EXPECTED, rtol=1e-6)
    assert extractor.transform([]).shape == (0, 3)
    assert extractor.id.name == "timm:resnet18.a1_in1k"
    assert extractor.id.preprocessing == "crop_pct 0.9 mean (0, 0, 0)"
    assert extractor_for(extractor.id).id == extractor.id
    assert torch.threads == [1, 1]
    assert os.environ["HF_HUB_OFFLINE"] == "1"


def test_timm_from_a_folder(libraries, tmp_path):
    (tmp_path / "mine").mkdir()
    assert load_extractor(f"timm:{tmp_path / 'mine'}").id.name == "timm:mine"
    assert libraries == [(f"local-dir:{tmp_path / 'mine'}", True, 0)]


def test_open_clip(libraries):
    extractor = load_extractor("open_clip:ViT-B-32/openai")
    assert libraries == [("ViT-B-32", "openai")]
    np.testing.assert_allclose(extractor.transform(PICTURES), 3 * EXPECTED, rtol=1e-6)
    assert extractor.id.name == "open_clip:ViT-B-32/openai"
    with pytest.raises(ValueError, match="NAME/PRETRAINED"):
        load_extractor("open_clip:ViT-B-32")


def test_sentence_transformers(libraries):
    extractor = load_extractor("sentence-transformers:all-MiniLM-L6-v2")
    assert libraries == [("all-MiniLM-L6-v2", "cpu")]
    np.testing.assert_array_equal(extractor.transform(["ab", "abc"]), [[2, 1], [3, 1]])
    assert extractor.transform(["a"]).dtype == np.float32
    assert extractor.kind == "text"
    assert extractor.id.preprocessing == "at most 128 tokens"


def test_other_weights_have_another_id(libraries):
    names = ("timm:a", "open_clip:a/b", "sentence-transformers:a")
    assert len({load_extractor(name).id.weights for name in names}) == 3


def test_a_model_that_cannot_be_loaded_is_reported(libraries):
    with pytest.raises(
        ValueError, match=r"timm:missing cannot be loaded \(not in the local.*cannot be reached"
    ):
        load_extractor("timm:missing")


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("timm:a", "timm"),
        ("open_clip:a/b", "open_clip_torch"),
        ("sentence-transformers:a", "sentence-transf"),
    ],
)
def test_a_library_that_is_not_installed_is_named(monkeypatch, nobody, name, package):
    monkeypatch.setenv("HF_ENDPOINT", nobody)
    for module in ("timm", "open_clip", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        load_extractor(name)
