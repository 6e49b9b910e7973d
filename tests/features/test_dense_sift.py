from __future__ import annotations

import math

import numpy as np
import pytest

from openworld.features import DenseSIFT
from openworld.features import dense_sift as module
from openworld.features.pictures import to_hsv

# --- Against a slow, literal program ---


def slow_gradient(picture, y, x):
    height, width = picture.shape
    above, below = max(y - 1, 0), min(y + 1, height - 1)
    left, right = max(x - 1, 0), min(x + 1, width - 1)
    dy = (picture[below, x] - picture[above, x]) / (below - above)
    dx = (picture[y, right] - picture[y, left]) / (right - left)
    return math.hypot(dx, dy), math.atan2(dy, dx) % (2 * math.pi)


def slow_descriptor(picture, top, left, radius):
    """Visit every pixel of every bin; `top` and `left` are the center of the first bin."""
    values = []
    for row in range(4):
        for column in range(4):
            bin_values = [0.0] * 8
            window = 0.0
            for j in range(-radius + 1, radius):
                for i in range(-radius + 1, radius):
                    # The window's deviation is two bins; its center is the descriptor's.
                    dy, dx = j - (row - 1.5) * radius, i - (column - 1.5) * radius
                    window += math.exp(-(dy * dy + dx * dx) / (2 * (2 * radius) ** 2))
                    y = min(max(top + row * radius + j, 0), picture.shape[0] - 1)
                    x = min(max(left + column * radius + i, 0), picture.shape[1] - 1)
                    length, angle = slow_gradient(picture, y, x)
                    triangle = (1 - abs(j) / radius) * (1 - abs(i) / radius)
                    for t in range(8):
                        apart = abs(angle - t * math.pi / 4)
                        apart = min(apart, 2 * math.pi - apart) / (math.pi / 4)
                        bin_values[t] += triangle * length * max(0.0, 1 - apart)
            values += [value * window / (2 * radius - 1) ** 2 for value in bin_values]
    for clamp in (0.2, math.inf):
        norm = math.sqrt(sum(value * value for value in values))
        values = [min(value / norm, clamp) for value in values]
    return values


def slow_descriptors(picture, step, radius):
    height, width = picture.shape
    return [
        slow_descriptor(picture, top, left, radius)
        for top in range(0, height - 3 * radius, step)
        for left in range(0, width - 3 * radius, step)
    ]


@pytest.mark.parametrize(
    ("height", "width", "step", "radius"),
    [(13, 13, 5, 4), (19, 23, 5, 4), (28, 27, 5, 8), (9, 40, 7, 2), (8, 6, 1, 1), (45, 12, 3, 3)],
)
def test_agrees_with_a_slow_literal_program(height, width, step, radius, random):
    picture = random.integers(0, 256, (height, width)).astype(float)
    descriptors = DenseSIFT(step, (radius,)).descriptors(picture)
    np.testing.assert_allclose(descriptors, slow_descriptors(picture, step, radius), atol=1e-5)


def test_blocks_fit_together(gray, monkeypatch):
    whole = DenseSIFT().descriptors(gray)
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 7)
    monkeypatch.setattr(module, "_FRAMES_AT_ONCE", 2)
    module._row_blocks.cache_clear()
    np.testing.assert_array_equal(DenseSIFT().descriptors(gray), whole)
    module._row_blocks.cache_clear()


# --- Against VLFeat ---

# Thousandths, from VLFeat 0.9.21 (Debian's libvlfeat1 0.9.21+full-1) on the picture `gray`:
# vl_dsift_new_basic(48, 40, 5, radius), vl_dsift_set_flat_window(1). Its arc tangent is a rough
# approximation and accounts for the difference that is left.
# fmt: off
VLFEAT = {
    (11, 21, 4): [
        60, 12, 37, 94, 19, 58, 105, 41, 92, 76, 47, 190, 58, 47, 32, 82, 89, 52, 17, 163, 147, 5, 49, 156,
        53, 51, 28, 93, 68, 10, 90, 185, 113, 50, 68, 65, 42, 71, 84, 35, 120, 22, 57, 206, 68, 25, 40, 146,
        108, 55, 33, 204, 157, 48, 40, 206, 150, 164, 100, 108, 84, 29, 50, 78, 59, 63, 122, 76, 24, 44, 62,
        88, 86, 99, 206, 90, 38, 58, 81, 89, 44, 116, 206, 87, 70, 39, 91, 52, 49, 80, 97, 114, 47, 46, 88,
        39, 72, 56, 38, 21, 12, 52, 54, 55, 68, 83, 26, 53, 42, 85, 111, 59, 54, 163, 92, 34, 27, 56, 109,
        98, 24, 30, 63, 87, 77, 86, 69, 31,
    ],
    (17, 22, 8): [
        55, 73, 45, 65, 77, 90, 69, 50, 69, 84, 57, 84, 73, 132, 102, 91, 117, 123, 61, 114, 96, 98, 123, 88,
        60, 66, 77, 92, 70, 62, 53, 69, 74, 35, 62, 110, 60, 76, 81, 57, 112, 85, 79, 180, 118, 38, 62, 167,
        153, 147, 101, 92, 77, 94, 76, 83, 52, 65, 81, 90, 76, 70, 71, 71, 69, 68, 83, 80, 67, 81, 70, 64,
        72, 136, 122, 85, 65, 93, 115, 84, 128, 85, 89, 95, 69, 163, 95, 103, 91, 67, 71, 60, 65, 83, 83, 58,
        81, 78, 99, 89, 51, 99, 74, 48, 109, 133, 112, 92, 72, 119, 60, 77, 70, 95, 87, 104, 97, 140, 54, 72,
        73, 88, 87, 43, 44, 65, 64, 70,
    ],
}
# fmt: on


@pytest.mark.parametrize("place", VLFEAT)
def test_agrees_with_vlfeat(gray, place):
    sift = DenseSIFT()
    (row,) = np.flatnonzero((sift.positions(gray) == place).all(axis=1))
    ours, theirs = sift.descriptors(gray)[row], np.array(VLFEAT[place]) / 1000
    assert ours @ theirs / np.linalg.norm(ours) / np.linalg.norm(theirs) > 0.9999
    np.testing.assert_allclose(ours, theirs, atol=0.005)


# --- What must hold for every picture ---


def bins(descriptors):
    """Return the descriptors as (n, row, column, direction)."""
    return descriptors.reshape(-1, 4, 4, 8)


def fitting(random, radius, shape=()):
    """A picture in which the grid starts and ends at the border, so that it can be turned around."""
    return random.integers(0, 256, (3 * radius + 1 + 5 * 2, 3 * radius + 1 + 5 * 3, *shape)).astype(np.uint8)


@pytest.mark.parametrize("radius", [4, 8])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_half_a_turn_permutes_bins(random, radius, shape):
    picture, sift = fitting(random, radius, shape), DenseSIFT(radii=(radius,))
    expected = bins(sift.descriptors(picture)).reshape(12, -1, 4, 4, 8)[::-1, :, ::-1, ::-1]
    expected = expected[..., (np.arange(8) + 4) % 8].reshape(12, -1)
    np.testing.assert_allclose(sift.descriptors(picture[::-1, ::-1]), expected, atol=1e-5)


@pytest.mark.parametrize("radius", [4, 8])
def test_mirror_image_permutes_bins(random, radius):
    picture, sift = fitting(random, radius), DenseSIFT(radii=(radius,))
    grid = bins(sift.descriptors(picture)).reshape(3, 4, 4, 4, 8)
    expected = grid[:, ::-1, :, ::-1][..., (4 - np.arange(8)) % 8].reshape(12, 128)
    np.testing.assert_allclose(sift.descriptors(picture[:, ::-1]), expected, atol=1e-5)


def test_transposing_permutes_bins(random):
    picture, sift = random.random((22, 22)), DenseSIFT(radii=(4,))
    grid = bins(sift.descriptors(picture)).reshape(2, 2, 4, 4, 8)
    expected = grid.transpose(1, 0, 3, 2, 4)[..., (2 - np.arange(8)) % 8].reshape(4, 128)
    np.testing.assert_allclose(sift.descriptors(picture.T), expected, atol=1e-5)


def test_brightness_and_contrast_do_not_matter(gray):
    descriptors = DenseSIFT().descriptors(gray // 2)
    np.testing.assert_array_equal(DenseSIFT().descriptors(gray // 2 + 100), descriptors)
    np.testing.assert_allclose(DenseSIFT().descriptors(gray // 2 / 255), descriptors, atol=1e-5)


def test_a_ramp_has_one_direction(random):
    y, x = np.mgrid[:30, :30]
    for t, ramp in enumerate((x, x + y, y, y - x, -x, -x - y, -y, x - y)):
        descriptors = bins(DenseSIFT().descriptors(ramp))
        assert (descriptors[..., t] > 0.1).all()
        np.testing.assert_allclose(np.delete(descriptors, t, axis=-1), 0, atol=1e-6)


def test_constant_pictures_have_zero_descriptors():
    for picture in (np.full((30, 30), 7), np.full((30, 30, 3), [10, 200, 30]), np.full((30, 30), 0.1)):
        descriptors = DenseSIFT().descriptors(picture)
        assert len(descriptors)
        assert not descriptors.any()


def test_equal_hues_make_no_edge():
    shades = np.arange(30 * 30).reshape(30, 30, 1) % 80 * np.array([3, 2, 1]) + np.array([3, 2, 1])
    hue, saturation, value = np.split(DenseSIFT().descriptors(shades), 3, axis=1)
    assert np.abs(hue).max() < 1e-5
    assert np.abs(saturation).max() < 1e-5
    np.testing.assert_allclose(np.linalg.norm(value, axis=1), 1, atol=1e-5)


def test_lengths_are_one_and_values_clamped_before_the_second_scaling(gray):
    descriptors = DenseSIFT().descriptors(gray)
    np.testing.assert_allclose(np.linalg.norm(descriptors, axis=1), 1, atol=1e-5)
    assert (descriptors >= 0).all()
    assert descriptors.max() < 0.3


def test_channels_of_hsv_stand_side_by_side(color):
    hsv = to_hsv(color.astype(float))
    expected = np.hstack([DenseSIFT().descriptors(hsv[..., c]) for c in range(3)])
    np.testing.assert_array_equal(DenseSIFT().descriptors(color), expected)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
def test_only_values_matter_not_their_type(gray, color, dtype):
    for picture in (gray, color):
        descriptors = DenseSIFT().descriptors(picture)
        assert descriptors.dtype == np.float32
        np.testing.assert_array_equal(DenseSIFT().descriptors(picture.astype(dtype)), descriptors)
        np.testing.assert_array_equal(DenseSIFT().descriptors(np.asfortranarray(picture)), descriptors)


def test_the_picture_is_left_alone(color):
    before = color.astype(float)
    after = before.copy()
    DenseSIFT().descriptors(after)
    np.testing.assert_array_equal(after, before)


# --- The grid ---


def test_positions_are_the_centers(gray):
    positions = DenseSIFT().positions(gray)
    assert positions.shape == (len(DenseSIFT().descriptors(gray)), 3)
    small, large = positions[positions[:, 2] == 4], positions[positions[:, 2] == 8]
    assert small[:2].tolist() == [[6, 6, 4], [11, 6, 4]]
    assert large[[0, -1]].tolist() == [[12, 12, 8], [32, 27, 8]]
    assert len(small) == 6 * 8
    assert len(large) == 4 * 5


@pytest.mark.parametrize(
    ("shape", "n"), [((1, 1), 0), ((0, 9), 0), ((12, 99), 0), ((13, 13), 1), ((24, 24), 9), ((25, 25), 10)]
)
def test_small_pictures_have_few_descriptors_or_none(shape, n, random):
    gray, color = random.random(shape), random.random((*shape, 3))
    assert DenseSIFT().descriptors(gray).shape == (n, 128)
    assert DenseSIFT().descriptors(color).shape == (n, 384)
    assert DenseSIFT().positions(gray).shape == (n, 3)


def test_parameters_out_of_range_are_refused():
    for parameters in ({"step": 0}, {"radii": ()}, {"radii": (4, 0)}):
        with pytest.raises(ValueError, match="at least 1"):
            DenseSIFT(**parameters)
