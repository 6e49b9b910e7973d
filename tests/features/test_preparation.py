from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from openworld.features.preparation import Preparation, as_image


def test_the_middle_is_cut_out_exactly_where_nothing_is_scaled(random):
    picture = random.integers(0, 256, (256, 300, 3), dtype=np.uint8)
    cut = Preparation((224, 224), crop=0.875, filter="bicubic").cut([picture])
    np.testing.assert_array_equal(cut[0], picture[16:240, 38:262])


def test_the_shape_is_the_networks(random):
    picture = random.integers(0, 256, (100, 400, 3), dtype=np.uint8)
    cut = Preparation((50, 100), crop=1.0, filter="bilinear").cut([picture, picture[:, :200]])
    scaled_first = np.asarray(Image.fromarray(picture).resize((200, 50), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(cut[0], scaled_first[:, 50:150])
    assert cut.shape == (2, 50, 100, 3)


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (500, 1)])
def test_the_smallest_pictures(shape):
    cut = Preparation((32, 32)).cut([np.full((*shape, 3), 77, np.uint8)])
    assert (cut == 77).all()


def test_colors_are_shifted_as_configured(random):
    batch = random.integers(0, 256, (2, 3, 4, 3), dtype=np.uint8)
    preparation = Preparation((3, 4), mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    expected = (batch / 255 - [0.1, 0.2, 0.3]) / [0.5, 0.6, 0.7]
    shifted = preparation.shift(batch)
    assert shifted.dtype == np.float32
    np.testing.assert_allclose(shifted, expected, atol=1e-6)


def test_a_picture_may_be_an_array_or_an_image_of_any_mode(color):
    np.testing.assert_array_equal(np.asarray(as_image(color)), color)
    assert as_image(Image.fromarray(color).convert("L")).mode == "RGB"
    for wrong in (color / 255, color[..., 0], color[:0]):
        with pytest.raises(ValueError, match="uint8 array of shape"):
            as_image(wrong)


def test_a_description_in_json():
    settings = {"size": [8, 9], "crop": 1, "filter": "lanczos", "mean": [0, 0, 0], "std": [1, 1, 1]}
    preparation = Preparation.from_dict(settings)
    assert preparation == Preparation((8, 9), 1, "lanczos", (0, 0, 0), (1, 1, 1))
    assert preparation.describe() == "rgb 8x9 lanczos crop 1 mean 0,0,0 std 1,1,1"


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"color": 1}, "no color; it has size, crop"),
        ({"mean": 0.5}, "mean must be 3 numbers"),
        ({"crop": 0}, "crop above 0"),
        ({"crop": 1.1}, "crop above 0"),
        ({"filter": "box"}, "nearest, bilinear"),
        ({"std": [1, 0, 1]}, "deviations above 0"),
        ({"size": [0, 4]}, "at least 1 x 1"),
    ],
)
def test_a_wrong_description_is_refused(wrong, match):
    with pytest.raises(ValueError, match=match):
        Preparation.from_dict({"size": [4, 4]} | wrong)
