from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save_model

from openworld.features import load_extractor
from openworld.features.onnx_model import METADATA_KEY

PICTURES = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
PLAIN = {"crop": 1, "mean": [0, 0, 0], "std": [1, 1, 1]}
SHIFTED = (PICTURES / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]


@pytest.fixture
def network(tmp_path):
    """Write a network of one operation and return its path."""

    def write(
        shape,
        operation="GlobalAveragePool",
        kind=TensorProto.FLOAT,
        preprocessing=None,
        inputs=1,
        **attributes,
    ):
        values = [helper.make_tensor_value_info(f"x{i}", kind, shape) for i in range(inputs)]
        node = helper.make_node(operation, [value.name for value in values], ["y"], **attributes)
        output = helper.make_tensor_value_info("y", attributes.get("to", kind), None)
        graph = helper.make_graph([node], "test", values, [output])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        if preprocessing is not None:
            helper.set_model_props(model, {METADATA_KEY: json.dumps(preprocessing)})
        save_model(model, tmp_path / "small.onnx")
        return tmp_path / "small.onnx"

    return write


def test_channels_first_with_the_defaults(network):
    path = network(["n", 3, 8, 8], preprocessing={"crop": 1})
    extractor = load_extractor(str(path))
    np.testing.assert_allclose(extractor.transform(PICTURES), SHIFTED.mean(axis=(1, 2)), atol=1e-6)
    assert extractor.n_features == 3
    assert extractor.id.name == "onnx:small"
    assert extractor.id.weights == hashlib.sha256(path.read_bytes()).hexdigest()
    assert extractor.id.preprocessing == (
        "rgb 8x8 bilinear crop 1 mean 0.485,0.456,0.406 std 0.229,0.224,0.225"
    )
    assert extractor.transform([]).shape == (0, 3)


def test_channels_last_and_whole_numbers(network):
    extractor = load_extractor(
        f"onnx:{network(['n', 8, 8, 3], 'Cast', TensorProto.UINT8, {'crop': 1}, to=1)}"
    )
    np.testing.assert_allclose(extractor.transform(PICTURES), PICTURES.mean(axis=(1, 2)), rtol=1e-6)


def test_half_precision(network):
    extractor = load_extractor(str(network(["n", 3, 8, 8], kind=TensorProto.FLOAT16, preprocessing=PLAIN)))
    features = extractor.transform(PICTURES)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, PICTURES.mean(axis=(1, 2)) / 255, atol=2e-3)


def test_other_outputs_are_all_values_in_a_row(network):
    extractor = load_extractor(str(network(["n", 3, 8, 8], "Flatten", preprocessing=PLAIN)))
    expected = (PICTURES / 255).transpose(0, 3, 1, 2).reshape(5, -1)
    np.testing.assert_allclose(extractor.transform(PICTURES), expected, atol=1e-6)


def test_of_a_vision_transformer_the_pooled_output_counts(tmp_path):
    """A transformer as `optimum-cli export onnx` writes it, very small: patches of 4 x 4 and one layer."""
    random = np.random.default_rng(0)
    kernel, head = random.normal(size=(6, 3, 4, 4)).astype("f4"), random.normal(size=(6, 5)).astype("f4")
    nodes = [
        helper.make_node("Conv", ["pixel_values", "kernel"], ["patches"], strides=[4, 4]),
        helper.make_node("Reshape", ["patches", "flat"], ["rows"]),
        helper.make_node("Transpose", ["rows"], ["last_hidden_state"], perm=[0, 2, 1]),
        helper.make_node("ReduceMean", ["last_hidden_state"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("MatMul", ["mean", "head"], ["pooler_output"]),
    ]
    floats = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "vit",
        [helper.make_tensor_value_info("pixel_values", floats, ["batch", 3, 8, 8])],
        [
            helper.make_tensor_value_info("last_hidden_state", floats, ["batch", 4, 6]),
            helper.make_tensor_value_info("pooler_output", floats, ["batch", 5]),
        ],
        [
            numpy_helper.from_array(kernel, "kernel"),
            numpy_helper.from_array(head, "head"),
            numpy_helper.from_array(np.array([0, 6, -1]), "flat"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save_model(model, tmp_path / "vit.onnx")
    (tmp_path / "vit.json").write_text(json.dumps(PLAIN))
    extractor = load_extractor(str(tmp_path / "vit.onnx"))
    assert extractor.n_features == 5
    assert extractor.id.preprocessing.endswith("output pooler_output")
    patches = (PICTURES / 255).reshape(5, 2, 4, 2, 4, 3)
    expected = np.einsum("nahbwc,ochw->no", patches, kernel) / 4 @ head
    np.testing.assert_allclose(extractor.transform(PICTURES), expected, rtol=1e-4)


def test_a_network_with_a_fixed_number_of_pictures(network):
    extractor = load_extractor(str(network([2, 3, 8, 8], preprocessing=PLAIN)))
    np.testing.assert_allclose(extractor.transform(PICTURES), PICTURES.mean(axis=(1, 2)) / 255, atol=1e-6)


def test_an_open_size_is_224_or_as_configured(network):
    path = network(["n", 3, "height", "width"])
    assert "rgb 224x224" in load_extractor(str(path)).id.preprocessing
    path.with_suffix(".json").write_text('{"size": [16, 24]}', encoding="utf-8")
    assert "rgb 16x24" in load_extractor(str(path)).id.preprocessing


def test_a_file_beside_comes_before_the_metadata(network):
    path = network(["n", 3, 8, 8], preprocessing={"crop": 0.5})
    assert "crop 0.5" in load_extractor(str(path)).id.preprocessing
    path.with_suffix(".json").write_text('{"crop": 0.75}', encoding="utf-8")
    assert "crop 0.75" in load_extractor(str(path)).id.preprocessing


def test_weights_in_a_file_of_their_own_count_for_the_id(network):
    path = network(["n", 3, 8, 8])
    alone = load_extractor(str(path)).id
    path.with_name("small.onnx.data").write_bytes(b"weights")
    assert load_extractor(str(path)).id.weights != alone.weights


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"size": [9, 9]}', '{"sise": [8, 8]}', '{"crop": "all"}'])
def test_a_wrong_preparation_is_reported_with_its_file(network, text):
    path = network(["n", 3, 8, 8])
    path.with_suffix(".json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"small.json: "):
        load_extractor(str(path))


@pytest.mark.parametrize("content", [b"", b"not a network", bytes(100)])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "no.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"no.onnx: not a readable ONNX network"):
        load_extractor(str(path))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"shape": ["n", 4], "operation": "Flatten"}, "four dimensions"),
        ({"shape": ["n", 1, 8, 8]}, "must be 3"),
        ({"shape": ["n", 3, 8, 3]}, "must be 3"),
        ({"shape": ["n", "c", 8, 8]}, "must be 3"),
        ({"shape": ["n", 3, 8, 8], "operation": "Add", "inputs": 2}, "one input"),
        ({"shape": ["n", 3, 8, 8], "operation": "Abs", "kind": TensorProto.INT64}, "uint8"),
    ],
)
def test_networks_for_something_else_are_refused(network, arguments, match):
    with pytest.raises(ValueError, match=match):
        load_extractor(str(network(**arguments)))
