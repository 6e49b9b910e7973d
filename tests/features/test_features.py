from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest

from openworld import features


def test_public_names_exist():
    assert all(hasattr(features, name) for name in features.__all__)


@pytest.mark.parametrize("name", ["dense_sift", "hog", "lbp", "visual_words"])
def test_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(f"openworld.features.{name}"))
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize("describe", [features.DenseSIFT(), features.HOG(), features.LBP()])
def test_descriptors_are_a_pure_function_of_the_picture(describe, color):
    first = describe.descriptors(color)
    describe.descriptors(color[::-1, :40])
    np.testing.assert_array_equal(describe.descriptors(color), first)
    assert type(describe)() == describe
