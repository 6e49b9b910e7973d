from __future__ import annotations

import colorsys

import numpy as np
import pytest

from openworld.features.pictures import as_pixels, to_gray, to_hsv


def test_hsv_is_that_of_colorsys(color, random):
    corners = np.array(np.meshgrid([0, 128, 255], [0, 128, 255], [0, 128, 255])).reshape(3, 1, -1)
    pictures = [color / 255, random.random((33, 2, 3)), np.moveaxis(corners, 0, -1) / 255]
    for picture in pictures:
        expected = [[colorsys.rgb_to_hsv(*pixel) for pixel in row] for row in picture.tolist()]
        np.testing.assert_allclose(to_hsv(picture), expected, atol=1e-14)


def test_hue_and_saturation_do_not_depend_on_the_scale_but_value_does(color):
    large, small = to_hsv(color.astype(float)), to_hsv(color / 256)
    np.testing.assert_allclose(large[..., :2], small[..., :2], atol=1e-14)
    np.testing.assert_array_equal(large[..., 2], small[..., 2] * 256)


def test_hues_of_one_color_are_equal_to_the_last_digits():
    shades = np.arange(1, 81)[:, None, None] * np.array([3, 2, 1])
    hsv = to_hsv(shades.astype(float))
    assert np.ptp(hsv[..., 0]) < 1e-15
    assert np.ptp(hsv[..., 1]) < 1e-15


def test_gray_is_luma(color, gray):
    expected = color @ np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(to_gray(color.astype(float)), expected, rtol=1e-13)
    np.testing.assert_array_equal(to_gray(gray.astype(float)), gray)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
def test_values_are_taken_as_they_are(gray, dtype):
    pixels = as_pixels(gray.astype(dtype))
    assert pixels.dtype == np.float64
    np.testing.assert_array_equal(pixels, gray)


@pytest.mark.parametrize("shape", [(5,), (5, 5, 1), (5, 5, 4), (2, 5, 5, 3), ()])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"\(H, W\) or \(H, W, 3\); got"):
        as_pixels(np.zeros(shape))


def test_other_values_are_refused():
    with pytest.raises(ValueError, match="whole numbers or floats"):
        as_pixels(np.zeros((3, 3), dtype=complex))
    with pytest.raises(ValueError, match="not finite"):
        as_pixels(np.array([[0.0, np.nan]]))
