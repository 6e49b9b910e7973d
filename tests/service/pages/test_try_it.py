"""Drawings on the page to try the model."""

from __future__ import annotations

import numpy as np

from openworld.data.letters import load_letters
from openworld.service.pages.try_it import _centered


def test_a_drawing_is_moved_to_where_the_letters_are() -> None:
    letters = load_letters()
    images = letters.images[::500]
    assert len(images) > 20
    moved = np.stack([_centered(np.roll(image, shift, axis=1)) for image in images for shift in (-2, 0, 3)])
    offsets = [
        np.abs(np.flatnonzero(image.any(axis=0))[[0, -1]].sum() - 27) for image in moved
    ]  # the middle of 28 columns is at 13.5
    assert max(offsets) <= 1
