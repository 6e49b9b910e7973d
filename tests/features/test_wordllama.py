"""The extractor wordllama, beside the wheel's own code."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from openworld.features import load_extractor
from openworld.features.wheel_files import wheel_folder

SENTENCES = [
    "how much is left on my card",
    "What's the weather in Zürich?",
    "",
    "a",
    "日本語 and emoji 🙂",
    "a longer sentence, " * 40,
]


@pytest.fixture(scope="module")
def words():
    return load_extractor("wordllama")


def test_features_are_those_of_wordllama_itself(words):
    inference = pytest.importorskip("wordllama.inference")
    folder = wheel_folder("wordllama", requirement="openworld[text]")
    table = load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    expected = inference.WordLlamaInference(table, tokenizer).embed(SENTENCES)
    np.testing.assert_allclose(words.transform(SENTENCES), expected, atol=1e-6)
    assert words.transform(SENTENCES).dtype == np.float32
    assert expected.shape == (6, words.n_features)


def test_wordllama_is_read_without_running_it(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "wordllama"]:
        monkeypatch.delitem(sys.modules, name)
    assert len(load_extractor("wordllama").id.weights) == 64
    assert "wordllama" not in sys.modules


def test_a_feature_does_not_depend_on_its_batch(words):
    extractor = words
    together = extractor.transform(SENTENCES)
    np.testing.assert_array_equal(np.concatenate([extractor.transform([s]) for s in SENTENCES]), together)
    assert together.shape == (6, extractor.n_features)
    assert extractor.transform([]).shape == (0, extractor.n_features)
    assert not together[2].any()


def test_a_missing_wheel_is_named_with_its_extra(monkeypatch):
    with monkeypatch.context() as without:
        without.setattr("openworld.features.wheel_files.find_spec", lambda name: None)
        with pytest.raises(ImportError, match=r"openworld\[text\]"):
            load_extractor("wordllama")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"openworld\[text\]"):
        load_extractor("wordllama")
