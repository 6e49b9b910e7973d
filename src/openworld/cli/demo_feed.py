"""The letters of the demo: the starting model, and the pictures that stream in."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from openworld import OpenWorldRecognizer
from openworld.cli.console import Progress, messages
from openworld.cli.intake import feeding

if TYPE_CHECKING:
    from openworld.data.letters import Letters
    from openworld.service.dependencies import ServiceState

# Letters that people can type or say, without those that look alike in many typefaces (l and I, o and O).
NAMEABLE = "ABDEFGHJKLMNPQRTYabdefghjkmnqrtyαβγδζθλξπρσφψωΓΔΘΞΠΦΨΩ"
N_KNOWN = 30
# One face of each family streams in; the recognizer learns from the others.
TEST_FACES = ("DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSerif-Bold", "STIXGeneral")
_AT_ONCE = 240
_BATCH = 4
_SECONDS = 2.0
_THUMBNAIL_SIDE = 84


def draw_letters() -> Letters:
    """Return the built-in letters; the first time they are drawn, with a progress bar."""
    from openworld.data.letters import load_letters

    with Progress("Drawing the letters (once)") as progress:
        letters = load_letters(progress=progress.update)
    messages.print(f"{len(letters.classes):,} letters in 16 typefaces, {len(letters.labels):,} pictures.")
    return letters


def starting_model(letters: Letters, seed: int) -> OpenWorldRecognizer:
    """Learn the letters that are known from the start; the model stores a few examples of each."""
    classes = _classes(letters, seed)[0]
    known = np.isin(letters.labels, classes) & ~np.isin(letters.faces, TEST_FACES)
    model = OpenWorldRecognizer().fit(letters.frequencies[known], letters.labels[known])
    model.examples_ = {
        str(label): [
            _thumbnail(image, "JPEG") for image in letters.images[known & (letters.labels == label)][:4]
        ]
        for label in classes
    }
    return model


def _classes(letters: Letters, seed: int) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    order = np.random.default_rng(seed).permutation(np.intersect1d(letters.classes, list(NAMEABLE)))
    return order[:N_KNOWN], order[N_KNOWN:]


class LetterFeed:
    """An endless stream of new letters, and of known letters in typefaces that were not learned.

    A first batch arrives at once, so that there is something to name, the others a few at a time. Each
    picture is slightly moved and turned, so that no two are the same.
    """

    def __init__(self, letters: Letters, seed: int) -> None:
        known, new = _classes(letters, seed)
        unseen = np.isin(letters.labels, known) & np.isin(letters.faces, TEST_FACES)
        chosen = np.flatnonzero(np.isin(letters.labels, new) | unseen)
        self._random = np.random.default_rng()  # not seeded: the database outlives the process
        self._images = letters.images[np.random.default_rng(seed).permutation(chosen)]

    def into(self, service: ServiceState) -> AbstractContextManager[None]:
        """Feed a service from a thread while the context lasts."""
        return feeding(partial(self._feed, service))

    def _feed(self, service: ServiceState, stopped: Event) -> None:
        self._send(service, self._images[:_AT_ONCE])
        while not stopped.wait(_SECONDS):
            rows = self._random.integers(len(self._images), size=_BATCH)
            self._send(service, np.stack([_moved(image, self._random) for image in self._images[rows]]))

    def _send(self, service: ServiceState, images: NDArray[np.uint8]) -> None:
        from openworld.data.letters import Letters
        from openworld.store.records import SampleContent

        names = np.full(len(images), "")
        features = Letters(images, names, names).frequencies
        items = [SampleContent("image", None, "demo", _thumbnail(image)) for image in images]
        service.metrics.answered(service.world.recognize(features, items))


def _moved(image: NDArray[np.uint8], random: np.random.Generator) -> NDArray[np.uint8]:
    """Return a letter turned by up to 4 degrees and moved by less than a pixel."""
    from PIL import Image

    turned = Image.fromarray(image).rotate(
        random.uniform(-4, 4), Image.Resampling.BICUBIC, translate=tuple(random.uniform(-0.9, 0.9, 2))
    )
    return np.asarray(turned)


def _thumbnail(image: NDArray[np.uint8], form: str = "PNG") -> bytes:
    """Return a letter as dark ink on paper, as a file of a format."""
    from PIL import Image

    file = io.BytesIO()
    paper = Image.fromarray(255 - image)
    paper.resize((_THUMBNAIL_SIDE, _THUMBNAIL_SIDE), Image.Resampling.BICUBIC).save(file, form)
    return file.getvalue()
