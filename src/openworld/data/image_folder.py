"""Folders of pictures, one sub-folder per class, as plain pixels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.tables import DataError

PICTURE_ENDINGS = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


def read_image_folder(
    folder: Path, *, size: int = 32, progress: Callable[[int, int], None] | None = None
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Read every picture below a folder as grey pixels.

    Parameters
    ----------
    folder : path
        Holds one sub-folder per class.
    size : int, default=32
        Pictures are scaled to size x size.
    progress : callable, optional
        Called with (done, total).

    Returns
    -------
    X : float32 array of shape (n, size * size), 0 to 1
    y : array of shape (n,), the names of the sub-folders

    Raises
    ------
    DataError
        If there is no picture, or one cannot be read; its name is told.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Reading pictures needs pillow: pip install openworld[images]") from error

    files = sorted(
        path for path in folder.glob("*/**/*") if path.suffix.lower() in PICTURE_ENDINGS and path.is_file()
    )
    if not files:
        raise DataError(f"{folder}: no pictures found; put one sub-folder of pictures per class into it.")
    X = np.empty((len(files), size * size), dtype=np.float32)
    for i, path in enumerate(files):
        try:
            with Image.open(path) as picture:
                X[i] = np.asarray(picture.convert("L").resize((size, size)), dtype=np.float32).ravel() / 255
        except Exception as error:  # a damaged picture shows itself in many ways
            raise DataError(f"{path}: not a picture that can be read ({error}).") from error
        if progress is not None:
            progress(i + 1, len(files))
    return X, np.array([path.relative_to(folder).parts[0] for path in files])
