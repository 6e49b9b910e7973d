from __future__ import annotations

import math

import numpy as np
import pytest

from openworld.features import HOG
from openworld.features import hog as module

# --- Against a slow, literal program ---


def direction_of(dx, dy):
    """The direction with the largest projection; of equal ones the first."""
    sines = [0.0000, 0.3420, 0.6428, 0.8660, 0.9848, 0.9848, 0.8660, 0.6428, 0.3420]
    cosines = [1.0000, 0.9397, 0.7660, 0.5000, 0.1736, -0.1736, -0.5000, -0.7660, -0.9397]
    best, direction = 0.0, 0
    for o in range(9):
        projection = cosines[o] * dx + sines[o] * dy
        if projection > best:
            best, direction = projection, o
        elif -projection > best:
            best, direction = -projection, o + 9
    return direction


def slow_histograms(picture, cell, rows, columns):
    height, width, n_channels = picture.shape
    histograms = np.zeros((rows, columns, 18))
    for y in range(1, rows * cell - 1):
        for x in range(1, columns * cell - 1):
            j, i = min(y, height - 2), min(x, width - 2)
            largest, dx, dy = -1.0, 0.0, 0.0
            for c in range(n_channels):
                across = picture[j, i + 1, c] - picture[j, i - 1, c]
                down = picture[j + 1, i, c] - picture[j - 1, i, c]
                if across**2 + down**2 > largest:
                    largest, dx, dy = across**2 + down**2, across, down
            row, column = (y + 0.5) / cell - 0.5, (x + 0.5) / cell - 0.5
            for r in (math.floor(row), math.floor(row) + 1):
                for c in (math.floor(column), math.floor(column) + 1):
                    if 0 <= r < rows and 0 <= c < columns:
                        share = (1 - abs(row - r)) * (1 - abs(column - c))
                        histograms[r, c, direction_of(dx, dy)] += share * math.sqrt(largest)
    return histograms


def slow_hog(picture, cell):
    picture = picture.reshape(*picture.shape[:2], -1).astype(float)
    rows, columns = (math.floor(side / cell + 0.5) for side in picture.shape[:2])
    histograms = slow_histograms(picture, cell, rows, columns)
    energy = [[sum((cell_[o] + cell_[o + 9]) ** 2 for o in range(9)) for cell_ in row] for row in histograms]
    features = np.zeros((rows - 2, columns - 2, 31))
    for r in range(1, rows - 1):
        for c in range(1, columns - 1):
            values, out = histograms[r, c], features[r - 1, c - 1]
            for n, (dr, dc) in enumerate([(0, 0), (-1, 0), (0, -1), (-1, -1)]):
                block = [energy[r + dr + j][c + dc + i] for j in (0, 1) for i in (0, 1)]
                norm = math.sqrt(sum(block) + 0.0001)
                for o in range(18):
                    out[o] += 0.5 * min(values[o] / norm, 0.2)
                    out[27 + n] += 0.2357 * min(values[o] / norm, 0.2)
                for o in range(9):
                    out[18 + o] += 0.5 * min((values[o] + values[o + 9]) / norm, 0.2)
    return features


@pytest.mark.parametrize(
    ("shape", "cell"),
    [
        ((24, 32), 8),
        ((24, 24, 3), 8),
        ((20, 29), 8),  # the cells reach beyond the picture
        ((27, 35, 3), 8),  # the picture reaches beyond the cells
        ((37, 26, 3), 8),
        ((15, 12), 4),
        ((9, 11, 3), 3),
        ((6, 5), 1),
    ],
)
def test_agrees_with_a_slow_literal_program(shape, cell, random):
    for picture in (random.integers(0, 256, shape), random.integers(0, 4, shape)):
        np.testing.assert_allclose(HOG(cell).grid(picture), slow_hog(picture, cell), atol=1e-5)


def test_blocks_fit_together(color, monkeypatch):
    whole = HOG().descriptors(color)
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(HOG().descriptors(color), whole, atol=1e-6)


# --- Against other programs ---

# fmt: off
# dlib 20.0.1, extract_fhog_features(gray, hog, 8), cell in row 1, column 2.
DLIB = [
    0.112625, 0.045954, 0.12969, 0.138084, 0.178677, 0.119276, 0.165237, 0.160549, 0.142682, 0.167304,
    0.146362, 0.172588, 0.143224, 0.176458, 0.152021, 0.132337, 0.054866, 0.136503, 0.279929, 0.192316,
    0.302278, 0.281308, 0.355135, 0.271297, 0.297574, 0.215415, 0.279185, 0.30826, 0.283541, 0.303118,
    0.271531,
]
# VLFeat 0.9.21 (Debian's libvlfeat1 0.9.21+full-1), vl_hog of VlHogVariantUoctti with 9 orientations on
# `color`, its cell in row 1, column 2 (it keeps the cells at the border), without the texture values,
# which it defines in another way. (Of channels with equally strong gradients VLFeat takes the first, as the
# published program does, and dlib the last: in color, dlib differs.)
VLFEAT = [
    0.252656, 0.23245, 0.207685, 0.262092, 0.163002, 0.037581, 0.171123, 0.221712, 0.195496, 0.216562,
    0.193249, 0.129301, 0.245602, 0.073144, 0.156611, 0.218494, 0.118607, 0.046607, 0.4, 0.4, 0.336985,
    0.4, 0.236147, 0.194193, 0.38854, 0.340319, 0.242103,
]
# fmt: on


def test_agrees_with_dlib_on_gray(gray):
    np.testing.assert_allclose(HOG().grid(gray)[1, 2], DLIB, atol=1e-6)


def test_agrees_with_vlfeat_on_color(color):
    np.testing.assert_allclose(HOG().grid(color)[0, 1, :27], VLFEAT, atol=1e-6)


# --- What must hold for every picture ---


@pytest.mark.parametrize("shape", [(40, 32), (40, 32, 3)])
def test_half_a_turn_permutes_values(shape, random):
    picture = random.integers(0, 256, shape)
    signed, unsigned, texture = np.split(HOG().grid(picture)[::-1, ::-1], [18, 27], axis=-1)
    expected = np.concatenate([np.roll(signed, 9, axis=-1), unsigned, texture[..., ::-1]], axis=-1)
    np.testing.assert_allclose(HOG().grid(picture[::-1, ::-1]), expected, atol=1e-6)


def test_mirror_image_permutes_values(random):
    # Random reals: no gradient is vertical, which is equally near to two directions.
    picture = random.random((40, 32)) * 255
    signed, unsigned, texture = np.split(HOG().grid(picture)[:, ::-1], [18, 27], axis=-1)
    signed = signed[..., (9 - np.arange(18)) % 18]
    unsigned = unsigned[..., (9 - np.arange(9)) % 9]
    expected = np.concatenate([signed, unsigned, texture[..., [2, 3, 0, 1]]], axis=-1)
    np.testing.assert_allclose(HOG().grid(picture[:, ::-1]), expected, atol=1e-6)


def test_brightness_does_not_matter_and_contrast_hardly(gray, color):
    for picture in (gray // 2, color // 2):
        descriptors = HOG().descriptors(picture)
        np.testing.assert_array_equal(HOG().descriptors(picture + 100), descriptors)
        np.testing.assert_allclose(HOG().descriptors(picture / 256), descriptors, atol=1e-4)


def test_constant_pictures_are_zero():
    for picture in (np.full((40, 40), 9), np.full((40, 40, 3), 0.3)):
        descriptors = HOG().descriptors(picture)
        assert descriptors.shape == (9, 31)
        assert not descriptors.any()


@pytest.mark.parametrize("o", range(18))
def test_a_ramp_has_one_direction(o):
    y, x = np.mgrid[:24, :24]
    angle = math.radians(20 * o)
    (descriptor,) = HOG().descriptors(100 * (math.cos(angle) * x + math.sin(angle) * y))
    assert np.flatnonzero(descriptor[:27] > 1e-6).tolist() == [o, 18 + o % 9]
    np.testing.assert_allclose(descriptor[[o, 18 + o % 9]], 0.4, atol=1e-6)


def test_gray_is_color_with_equal_channels(gray):
    expected = HOG().descriptors(gray)
    np.testing.assert_array_equal(HOG().descriptors(np.dstack([gray] * 3)), expected)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
def test_only_values_matter_not_their_type(gray, color, dtype):
    for picture in (gray, color):
        descriptors = HOG().descriptors(picture)
        assert descriptors.dtype == np.float32
        np.testing.assert_array_equal(HOG().descriptors(picture.astype(dtype)), descriptors)


@pytest.mark.parametrize(
    ("shape", "n"), [((1, 1), 0), ((0, 9), 0), ((19, 99), 0), ((20, 20), 1), ((24, 32), 2), ((40, 48), 12)]
)
def test_small_pictures_have_few_descriptors_or_none(shape, n, random):
    assert HOG().descriptors(random.random(shape)).shape == (n, 31)
    assert HOG().descriptors(random.random((*shape, 3))).shape == (n, 31)


def test_descriptors_are_the_grid_row_by_row(gray):
    grid = HOG().grid(gray)
    assert grid.shape == (3, 4, 31)
    np.testing.assert_array_equal(HOG().descriptors(gray)[5], grid[1, 1])


def test_parameters_out_of_range_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        HOG(0)
