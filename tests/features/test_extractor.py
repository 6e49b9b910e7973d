from __future__ import annotations

import subprocess
import sys

import pytest

from openworld.features import ExtractorId, WrongExtractor, extractor_for, load_extractor, require_same

SOME = ExtractorId("pixels", "1", "", "grey 32x32 bicubic 0..1")


def test_an_id_survives_being_written():
    assert ExtractorId.from_dict(SOME.as_dict()) == SOME
    assert ExtractorId.from_dict(SOME.as_dict()).digest() == SOME.digest()


@pytest.mark.parametrize(
    "d", [{}, {"name": "a"}, SOME.as_dict() | {"more": ""}, SOME.as_dict() | {"version": 1}]
)
def test_a_damaged_id_is_refused(d):
    with pytest.raises(ValueError, match="name, version, weights, preprocessing"):
        ExtractorId.from_dict(d)


@pytest.mark.parametrize("field", ["name", "version", "weights", "preprocessing"])
def test_every_field_counts(field):
    other = ExtractorId.from_dict(SOME.as_dict() | {field: "another"})
    assert other.digest() != SOME.digest()
    with pytest.raises(WrongExtractor, match=f"differ in {field}.*Use the extractor 'pixels'"):
        require_same(SOME, other)


def test_the_digest_is_the_same_in_every_version_of_this_package():
    """Worked out by hand: printf '{"name": ...}' | b2sum -l 64."""
    assert SOME.digest() == "9b934a154ee7be62"


def test_the_same_extractor_passes():
    again = load_extractor("pixels").id
    require_same(SOME, again)  # raises where it is another one
    assert again == SOME


def test_an_unknown_name_lists_the_known():
    with pytest.raises(
        ValueError,
        match=r"no extractor 'resnet'.*efficientnet-lite0, efficientnet-lite2.*words:PATH",
    ):
        load_extractor("resnet")
    with pytest.raises(ValueError, match="no extractor 'onnx:'"):
        load_extractor("onnx:")


@pytest.mark.parametrize("name", ["missing.onnx", "onnx:missing.onnx"])
def test_a_path_may_stand_for_its_network(name):
    with pytest.raises(ValueError, match=r"missing.onnx: there is no such file"):
        load_extractor(name)


@pytest.mark.parametrize(
    ("side", "match"), [("x", "whole number"), ("31", "at least 32"), ("0", "at least 32")]
)
def test_a_side_must_fit_the_network(side, match):
    with pytest.raises(ValueError, match=match):
        load_extractor(f"efficientnet-lite0@{side}")


@pytest.mark.parametrize("name", ["pixels", "ngrams", "wordllama"])
def test_a_model_finds_its_extractor_again(name):
    extractor = load_extractor(name)
    assert extractor.id.name == name
    assert extractor_for(extractor.id).id == extractor.id


def test_there_is_a_default_for_each_kind():
    assert load_extractor(kind="text").id.name == "minilm"


def test_what_cannot_be_had_is_said():
    with pytest.raises(WrongExtractor, match="no extractor 'gone'"):
        extractor_for(ExtractorId("gone", "1", "", ""))
    with pytest.raises(WrongExtractor, match=r"onnx:PATH/net.onnx \(SHA-256 abc\)"):
        extractor_for(ExtractorId("onnx:net", "1", "abc", ""))
    with pytest.raises(WrongExtractor, match="differ in weights"):
        extractor_for(ExtractorId.from_dict(load_extractor("wordllama").id.as_dict() | {"weights": "abc"}))


def test_importing_features_needs_no_library_for_pictures_or_networks():
    code = "import sys; from openworld.features import DenseSIFT, load_extractor; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "openworld.features.extractor" in loaded.split()
    assert not {"PIL", "onnx", "onnxruntime", "tokenizers", "safetensors", "torch"} & set(loaded.split())
