"""Gray levels as features: the simplest extractor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.features.extractor import ExtractorId, Kind
from openworld.features.preparation import as_image

_SIDE = 32


class Pixels:
    """Gray levels from 0 to 1 of a picture scaled to 32 x 32."""

    kind: Kind = "image"
    id = ExtractorId("pixels", "1", "", f"grey {_SIDE}x{_SIDE} bicubic 0..1")
    n_features = _SIDE * _SIDE

    def transform(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return the gray levels of pictures, of shape (n, 1024)."""
        gray = np.empty((len(batch), self.n_features), np.float32)
        for i, picture in enumerate(batch):
            gray[i] = np.asarray(as_image(picture).convert("L").resize((_SIDE, _SIDE))).ravel()
        return gray / np.float32(255)
