"""The letters of the demonstration: the model that begins, and what streams in afterwards."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from openworld import OpenWorldRecognizer
from openworld.cli.demo_story import N_STARTING, TEST_FACES

if TYPE_CHECKING:
    from openworld.data.letters import Letters
    from openworld.service.state import State

N_NEW = 30
_AT_ONCE = 240
_BATCH = 4
_SECONDS = 2.0
_THUMBNAIL_SIDE = 84


def starting_model(letters: Letters, seed: int) -> OpenWorldRecognizer:
    """Learn the letters that are known from the start."""
    known = np.isin(letters.labels, _classes(letters, seed)[0]) & ~np.isin(letters.faces, TEST_FACES)
    return OpenWorldRecognizer().fit(letters.frequencies[known], letters.labels[known])


def _classes(letters: Letters, seed: int) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    order = np.random.default_rng(seed).permutation(letters.classes)
    return order[:N_STARTING], order[N_STARTING : N_STARTING + N_NEW]


class Feed:
    """Pictures of new letters, and of known ones in typefaces not seen yet, one batch after the other.

    A first part comes at once, so that there is something to name; the rest a few at a time.
    """

    def __init__(self, letters: Letters, seed: int) -> None:
        known, new = _classes(letters, seed)
        unseen = np.isin(letters.labels, known) & np.isin(letters.faces, TEST_FACES)
        chosen = np.flatnonzero(np.isin(letters.labels, new) | unseen)
        order = np.random.default_rng(seed).permutation(chosen)
        self._images, self._features = letters.images[order], letters.frequencies[order]

    @contextmanager
    def into(self, service: State) -> Iterator[None]:
        """Feed a service from a thread of its own while the context lasts."""
        stopped = Event()
        feeder = Thread(target=self._feed, args=(service, stopped), name="letters", daemon=True)
        feeder.start()
        try:
            yield
        finally:
            stopped.set()
            feeder.join()

    def _feed(self, service: State, stopped: Event) -> None:
        self._send(service, slice(0, _AT_ONCE))
        for start in range(_AT_ONCE, len(self._images), _BATCH):
            if stopped.wait(_SECONDS):
                return
            self._send(service, slice(start, start + _BATCH))

    def _send(self, service: State, rows: slice) -> None:
        from openworld.service.results import Item

        items = [Item("image", None, "demo", _thumbnail(image)) for image in self._images[rows]]
        service.metrics.answered(service.world.recognize(self._features[rows], items))


def _thumbnail(image: NDArray[np.uint8]) -> bytes:
    """Return a letter as dark ink on paper, in PNG."""
    from PIL import Image

    file = io.BytesIO()
    paper = Image.fromarray(255 - image)
    paper.resize((_THUMBNAIL_SIDE, _THUMBNAIL_SIDE), Image.Resampling.BICUBIC).save(file, "PNG")
    return file.getvalue()
