from __future__ import annotations

import math

import numpy as np
import pytest

from openworld.features import LBP
from openworld.features.lbp import UNIFORM, local_binary_codes

# --- Against a slow, literal program ---


def slow_value(picture, y, x):
    """Interpolate between the four pixels around a place."""
    top, left = math.floor(y + 1e-9), math.floor(x + 1e-9)
    down, across = y - top, x - left
    value = 0.0
    for j, weight_y in ((top, 1 - down), (top + 1, down)):
        for i, weight_x in ((left, 1 - across), (left + 1, across)):
            if abs(weight_y * weight_x) > 1e-9:
                value += weight_y * weight_x * picture[j, i]
    return value


def slow_code(picture, y, x):
    code = 0
    for p in range(8):
        angle = 2 * math.pi * p / 8
        # Equal but for rounding counts as equal.
        if slow_value(picture, y - math.sin(angle), x + math.cos(angle)) >= picture[y, x] - 1e-7:
            code += 2**p
    return code


def slow_pattern(code):
    def is_uniform(code):
        bits = [code >> p & 1 for p in range(8)]
        return sum(bits[p] != bits[p - 1] for p in range(8)) <= 2

    return sum(is_uniform(other) for other in range(code)) if is_uniform(code) else 58


@pytest.mark.parametrize("levels", [2, 5, 256])
def test_agrees_with_a_slow_literal_program(levels, random):
    picture = random.integers(0, levels, (19, 23))
    codes = np.array([[slow_code(picture, y, x) for x in range(1, 22)] for y in range(1, 18)])
    np.testing.assert_array_equal(local_binary_codes(picture.astype(float)), codes)
    patterns = np.array([[slow_pattern(code) for code in row] for row in codes.tolist()])
    np.testing.assert_array_equal(LBP().patterns(picture), patterns)
    expected = [np.mean(patterns == pattern) for pattern in range(59)]
    np.testing.assert_allclose(LBP().histogram(picture), expected, atol=1e-7)


# --- Against scikit-image ---

# scikit-image 0.26.0, counts of local_binary_pattern(gray, 8, 1, "nri_uniform")[1:-1, 1:-1].
# fmt: off
SCIKIT_IMAGE = [
    138, 33, 2, 42, 2, 43, 2, 35, 3, 22, 14, 17, 15, 25, 20, 15, 12, 21, 22, 25, 22, 27, 15, 32, 22, 14, 14,
    28, 20, 22, 11, 23, 31, 22, 24, 23, 28, 26, 23, 25, 35, 23, 22, 26, 18, 16, 16, 23, 20, 3, 27, 8, 33, 6,
    42, 10, 40, 140, 280,
]
# fmt: on


def place_in_scikit_image(code):
    """It sorts uniform patterns by the number of ones, then by how far they are turned."""
    ones = code.bit_count()
    if ones in (0, 8):
        return 57 if ones else 0
    first = next(p for p in range(8) if code >> p & 1 and not code >> (p - 1) % 8 & 1)
    return 1 + (ones - 1) * 8 + -first % 8


def test_agrees_with_scikit_image(gray):
    order = [place_in_scikit_image(code) for code in UNIFORM]
    assert sorted(order) == list(range(58))
    expected = np.array([SCIKIT_IMAGE[place] for place in [*order, 58]])
    np.testing.assert_array_equal(np.round(LBP().histogram(gray) * 38 * 46), expected)


# --- What must hold for every picture ---


def test_there_are_58_uniform_patterns():
    assert len(UNIFORM) == 58
    assert UNIFORM[:6] == (0, 1, 2, 3, 4, 6)


def turned_codes(codes, steps):
    return [(code << steps | code >> (8 - steps)) & 255 for code in codes]


def mirrored_codes(codes):
    return [sum((code >> p & 1) << (4 - p) % 8 for p in range(8)) for code in codes]


@pytest.mark.parametrize(
    ("move", "permute"),
    [
        (lambda picture: picture[::-1, ::-1], lambda codes: turned_codes(codes, 4)),
        (np.rot90, lambda codes: turned_codes(codes, 2)),
        (np.fliplr, mirrored_codes),
    ],
    ids=["half a turn", "quarter turn", "mirror image"],
)
def test_turning_permutes_patterns(gray, move, permute):
    before, after = LBP().histogram(gray), LBP().histogram(move(gray))
    moved = [UNIFORM.index(code) for code in permute(UNIFORM)]
    np.testing.assert_array_equal(after[[*moved, 58]], before)


def test_brightness_and_contrast_do_not_matter(gray, color):
    for picture in (gray // 2, color // 2):
        histogram = LBP().histogram(picture)
        np.testing.assert_array_equal(LBP().histogram(picture / 256), histogram)
    np.testing.assert_array_equal(LBP().histogram(gray // 2 + 100), LBP().histogram(gray // 2))


def test_constant_pictures_have_one_pattern():
    for picture in (np.full((9, 9), 7), np.full((9, 9), 0.1), np.full((9, 9, 3), [0.1, 0.7, 0.2])):
        assert np.flatnonzero(LBP().histogram(picture)).tolist() == [UNIFORM.index(255)]


def test_a_bright_pixel_is_a_spot_and_its_neighbors_see_it():
    picture = np.zeros((5, 5))
    picture[2, 2] = 1
    codes = local_binary_codes(picture)
    assert codes[1, 1] == 0
    assert np.delete(codes.ravel(), 4).tolist() == [255] * 8


def test_bits_go_from_the_right_over_the_top():
    for p, (dy, dx) in enumerate([(0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1)]):
        picture = np.zeros((3, 3))
        picture[1, 1] = 1
        picture[1 + dy, 1 + dx] = 5
        assert local_binary_codes(picture)[0, 0] >> p & 1


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
def test_only_values_matter_not_their_type(gray, color, dtype):
    for picture in (gray, color):
        histogram = LBP().histogram(picture)
        assert histogram.dtype == np.float32
        np.testing.assert_array_equal(LBP().histogram(picture.astype(dtype)), histogram)


def test_color_is_turned_to_gray(gray):
    np.testing.assert_array_equal(LBP().histogram(np.dstack([gray] * 3)), LBP().histogram(gray))


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 50)])
def test_tiny_pictures_have_zero_histograms(shape):
    histogram = LBP().histogram(np.ones(shape))
    assert histogram.shape == (59,)
    assert not histogram.any()
    assert LBP().descriptors(np.ones(shape)).shape == (0, 59)


def test_cells_hold_the_shares_of_their_pixels(gray):
    descriptors = LBP(cell=10).descriptors(gray)
    patterns = LBP().patterns(gray)
    assert descriptors.shape == (3 * 4, 59)
    assert descriptors.dtype == np.float32
    counts = np.bincount(patterns[10:20, 20:30].ravel(), minlength=59)
    np.testing.assert_allclose(descriptors[1 * 4 + 2], counts / 100, atol=1e-7)


def test_parameters_out_of_range_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        LBP(0)
