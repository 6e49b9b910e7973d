"""The built-in data set: over 1,300 letters, each drawn in 12 to 16 typefaces; nothing to download.

The typefaces come with matplotlib: the DejaVu and STIX text faces. A class is a letter (a code point whose
Unicode category is L), a sample is that letter in one typeface, and the typeface is the group for splits:
train on some faces, test on others.

How a letter is drawn
    Unhinted, at one font size (17 pixels per em) on one baseline, centered horizontally, at 8 times the
    resolution and then averaged to 28 x 28 gray levels. Letters are not scaled to fit, because size and
    height distinguish ``o`` from ``O`` and ``ˈ`` from ``ˌ``. 17 pixels is the largest whole size at which
    the tallest (``Ǘ``), the deepest (``Ģ``) and the widest (``Ж``) letter fit with a margin of one pixel.

Which letters are kept
    Those that exist in at least 12 of the 16 faces. A blank glyph, a copy of the face's "missing character"
    box and a glyph too big for the image count as missing.

Which letters are one class
    Latin ``A``, Greek ``Α`` and Cyrillic ``А`` have the same shape. Two letters look alike in a face if no
    pixel differs by more than a fifth of the gray scale. They are duplicates if they look alike in at least
    half of the faces that have both; this relation is extended transitively. Of a group of duplicates only
    the letter with the smallest code point is kept. Using the largest difference instead of the mean
    ignores an accent that moved by a fraction of a pixel, but not a caron in place of a breve.

The images are identical wherever the same wheel of matplotlib is installed, because it contains the fonts
and FreeType.
"""

from __future__ import annotations

import functools
import io
import math
import os
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn
from scipy.sparse.csgraph import connected_components

from openworld.files import cache_folder, write_atomic

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

__all__ = ["Letters", "load_letters"]

FACES = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-BoldOblique",
    "DejaVuSans-Oblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
    "DejaVuSansMono-BoldOblique",
    "DejaVuSansMono-Oblique",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-BoldItalic",
    "DejaVuSerif-Italic",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralBolIta",
    "STIXGeneralItalic",
)
SIDE = 28  # pixels, of an image
RECIPE = 1  # increase it whenever the images or the choice of letters change

_FEWEST_FACES = 12
_OVERSAMPLING = 8
_CANVAS = SIDE * _OVERSAMPLING  # this and the following in subpixels, 8 per pixel
_EM = 17 * _OVERSAMPLING
_BASELINE = 162  # rows below the top; the margins above the tallest and below the deepest letter are equal
_ALIKE = 51  # the largest difference of a gray level (of 255) between letters that look alike
_PAIRS_AT_ONCE = 16384  # bounds memory


@dataclass(frozen=True, eq=False)
class Letters:
    """Letters drawn in typefaces, one row per letter and face, sorted by letter, then by face.

    Parameters
    ----------
    images : array of uint8, shape (n_samples, 28, 28)
        0 is paper, 255 is ink.
    labels : array of str, shape (n_samples,)
        The letter itself, such as ``"A"``.
    faces : array of str, shape (n_samples,)
        The typeface, such as ``"DejaVuSans-Bold"``: the group for splits.

    Notes
    -----
    The three arrays are read-only.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.str_]
    faces: NDArray[np.str_]

    def __post_init__(self) -> None:
        for name in ("images", "labels", "faces"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @property
    def classes(self) -> NDArray[np.str_]:
        """The distinct letters, sorted by code point; shape (n_classes,)."""
        return np.unique(self.labels)

    @property
    def X(self) -> NDArray[np.float32]:
        """The images as vectors of numbers from 0 to 1, computed at each access; shape (n_samples, 784)."""
        return self.images.reshape(-1, SIDE * SIDE).astype(np.float32) / np.float32(255)

    @property
    def frequencies(self) -> NDArray[np.float32]:
        """The 16 x 16 lowest cosine frequencies of each image; shape (n_samples, 256).

        They describe a letter almost completely. Unlike pixels at the border, each of them varies between
        letters, so they can be standardized.
        """
        spectrum = dctn(self.images / np.float32(255), axes=(1, 2), norm="ortho")
        return np.ascontiguousarray(spectrum[:, :16, :16].reshape(-1, 256), dtype=np.float32)


def load_letters(*, cache: bool = True, progress: Callable[[int, int], None] | None = None) -> Letters:
    """Load the built-in letters. The first call draws them (some seconds); later calls read them from disk.

    Parameters
    ----------
    cache : bool, default True
        Whether to use the cache folder: ``$OPENWORLD_CACHE``, else ``$XDG_CACHE_HOME/openworld``, else
        ``~/.cache/openworld``. A damaged file is replaced. If the folder cannot be written to, a warning is
        shown once.
    progress : callable, optional
        Called as ``progress(faces_drawn, n_faces)`` after each typeface; not called if the letters are read
        from the cache.

    Returns
    -------
    Letters
        The images with their letters and typefaces.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    _require_matplotlib()
    letters = _read_cache() if cache else None
    if letters is None:
        letters = _draw_letters(progress)
        if cache:
            _write_cache(letters)
    return letters


def _require_matplotlib() -> None:
    try:
        import matplotlib.ft2font  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "The built-in letters need matplotlib's typefaces: pip install openworld[evaluate]"
        ) from error


# --- Drawing ---


def _draw_letters(progress: Callable[[int, int], None] | None) -> Letters:
    fonts = [_open_font(face) for face in FACES]
    letters = _common_letters(fonts)
    images = np.zeros((len(fonts), len(letters), SIDE, SIDE), np.uint8)
    for done, font in enumerate(fonts, start=1):
        _draw_face(font, letters, out=images[done - 1])
        if progress is not None:
            progress(done, len(fonts))
    return _select(images, np.array(letters))


def _open_font(face: str) -> FT2Font:
    import matplotlib
    from matplotlib.ft2font import FT2Font

    font = FT2Font(os.path.join(matplotlib.get_data_path(), "fonts", "ttf", f"{face}.ttf"))
    font.set_size(_EM, 72)  # at 72 dots per inch a point is a pixel
    return font


def _common_letters(fonts: list[FT2Font]) -> list[str]:
    """Return the letters that enough faces have in their character maps, sorted by code point."""
    claims = Counter(chr(point) for font in fonts for point, glyph in font.get_charmap().items() if glyph)
    return sorted(
        char
        for char, faces in claims.items()
        if faces >= _FEWEST_FACES and unicodedata.category(char).startswith("L")
    )


def _draw_face(font: FT2Font, letters: list[str], out: NDArray[np.uint8]) -> None:
    """Draw into `out` the letters that the face has a real glyph for; the others stay blank."""
    from matplotlib.ft2font import LoadFlags

    font.load_glyph(font.get_char_index(0x10FFFF), LoadFlags.NO_HINTING)  # no character: the missing glyph
    no_letter = (b"", _outline(font))
    for index, letter in enumerate(letters):
        if font.get_char_index(ord(letter)):
            glyph = font.load_char(ord(letter), LoadFlags.NO_HINTING)
            if _outline(font) not in no_letter:
                out[index] = _draw(font, letter, top=math.ceil(glyph.bbox[3] / 64))


def _outline(font: FT2Font) -> bytes:
    """Return the outline of the last loaded glyph; empty if it has none."""
    return font.get_path()[0].tobytes()


def _draw(font: FT2Font, letter: str, top: int) -> NDArray[np.uint8]:
    """Draw a letter that rises `top` subpixels above the baseline; blank if it does not fit."""
    from matplotlib.ft2font import LoadFlags

    font.set_text(letter, flags=LoadFlags.NO_HINTING)
    font.draw_glyphs_to_bitmap()
    ink = _trim(font.get_image())
    height, width = ink.shape
    row, column = _BASELINE - top, (_CANVAS - width) // 2
    canvas = np.zeros((_CANVAS, _CANVAS), np.uint8)
    if 0 <= row <= _CANVAS - height and column >= 0:
        canvas[row : row + height, column : column + width] = ink
    return _average_down(canvas)


def _trim(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Remove empty margins."""
    rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
    if not len(rows):
        return image[:0, :0]
    return image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _average_down(canvas: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the rounded mean of each block of subpixels; in integers, so equal on every machine."""
    strips = canvas.reshape(SIDE, _OVERSAMPLING, _CANVAS).sum(axis=1, dtype=np.uint16)
    blocks = strips.reshape(SIDE, SIDE, _OVERSAMPLING).sum(axis=2, dtype=np.uint16)
    area = np.uint16(_OVERSAMPLING**2)
    means: NDArray[np.uint16] = (blocks + area // 2) // area
    return means.astype(np.uint8)


# --- Choosing ---


def _select(images: NDArray[np.uint8], letters: NDArray[np.str_]) -> Letters:
    """Keep letters of images (n_faces, n_letters, 28, 28) that are in enough faces and are no duplicates."""
    frequent = _present(images).sum(axis=0) >= _FEWEST_FACES
    images, letters = images[:, frequent], letters[frequent]
    kept = _first_of_twins(images)
    images, letters = images[:, kept], letters[kept]
    of_letter, of_face = np.nonzero(_present(images).T)
    return Letters(images[of_face, of_letter], letters[of_letter], np.array(FACES)[of_face])


def _present(images: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which face (row) has which letter (column): the images that are not blank."""
    present: NDArray[np.bool_] = images.max(axis=(2, 3)) > 0
    return present


def _first_of_twins(images: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return the indices of the letters to keep: the first of each group of duplicates."""
    present = _present(images)
    n_letters = present.shape[1]
    alike = np.zeros((n_letters, n_letters), np.int16)
    for face_images, here in zip(images, present, strict=True):
        where = np.flatnonzero(here)
        for first, second in _alike_pairs(face_images[where].reshape(len(where), -1)):
            alike[where[first], where[second]] += 1
    shared = present.T.astype(np.int16) @ present.astype(np.int16)
    _, twins = connected_components((alike > 0) & (2 * alike >= shared), directed=False)
    return np.unique(twins, return_index=True)[1]


def _alike_pairs(rows: NDArray[np.uint8]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield, in batches, the pairs (i < j) of rows that differ by at most `_ALIKE` everywhere."""
    firsts, seconds = _near_pairs(rows)
    for start in range(0, len(firsts), _PAIRS_AT_ONCE):
        first, second = firsts[start : start + _PAIRS_AT_ONCE], seconds[start : start + _PAIRS_AT_ONCE]
        a, b = rows[first], rows[second]
        alike = (np.maximum(a, b) - np.minimum(a, b)).max(axis=1) <= _ALIKE
        yield first[alike], second[alike]


def _near_pairs(rows: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the pairs (i < j) that may be alike by their Euclidean distance, which is fast to compute."""
    values = rows.astype(np.float32)
    squares = np.einsum("ij,ij->i", values, values)
    squared_distances = squares[:, None] + squares - 2 * (values @ values.T)
    bound = rows.shape[1] * _ALIKE**2
    first, second = np.nonzero(np.triu(squared_distances <= 1.01 * bound, k=1))  # 1 % for rounding
    return first, second


# --- Keeping on disk ---


def _cache_file() -> Path:
    import matplotlib

    return cache_folder() / f"letters-recipe{RECIPE}-matplotlib{matplotlib.__version__}.npz"


def _read_cache() -> Letters | None:
    """Return the letters on disk; None if there is no file or it is damaged."""
    try:
        with open(_cache_file(), "rb") as file, np.load(file, allow_pickle=False) as stored:
            letters = Letters(stored["images"], stored["labels"], stored["faces"])
    except Exception:  # a damaged file can raise any error
        return None
    return letters if _is_whole(letters) else None


def _is_whole(letters: Letters) -> bool:
    n_samples = len(letters.images)
    return (
        letters.images.dtype == np.uint8
        and letters.images.shape == (n_samples, SIDE, SIDE)
        and letters.labels.dtype.kind == letters.faces.dtype.kind == "U"
        and letters.labels.shape == letters.faces.shape == (n_samples,)
    )


def _write_cache(letters: Letters) -> None:
    """Write the letters to the cache folder, or warn if that fails."""
    file = io.BytesIO()
    np.savez_compressed(file, images=letters.images, labels=letters.labels, faces=letters.faces)
    try:
        write_atomic(_cache_file(), file.getvalue())
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home folder
        _warn_not_kept(str(error))


@functools.cache
def _warn_not_kept(reason: str) -> None:
    """Show a warning once per reason."""
    warnings.warn(f"the letters will be drawn again each time: {reason}", stacklevel=4)
