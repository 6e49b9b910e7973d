"""The living model: two copies, one that answers while the other learns.

Readers use the front copy and never wait for learning. The one writer changes the back copy, swaps the two,
and makes the same change to the other copy once its last reader has left. Nothing is copied for an act, so
an act costs what learning it costs. (The left-right technique of Ramalhete and Correia.)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from openworld.service.acts import Model, Step, apply
from openworld.service.model_bytes import copy


@dataclass
class _Side:
    model: Model
    version: int
    readers: int = 0


class LivingModel:
    """A model that many threads read while one changes it.

    `prepare` or `replace`, then `publish` or `give_up`, and `catch_up`, are for the writer alone: callers see
    to it that there is one at a time.

    Parameters
    ----------
    model : OpenWorldRecognizer or NearestNonOutlier
        Up to date. It belongs to the living model from now on.
    version : int
    """

    def __init__(self, model: Model, version: int) -> None:
        self._front = _Side(model, version)
        self._back = _Side(copy(model), version)
        self._changed = threading.Condition()
        self._behind: list[Step] = []  # what the back has yet to learn
        self._prepared: list[Step] = []
        self._spoiled = False

    @property
    def version(self) -> int:
        """The version that answers now."""
        return self._front.version

    @contextmanager
    def reading(self) -> Iterator[tuple[Model, int]]:
        """Give the model in force and its version; the model stays as it is inside the block."""
        with self._changed:
            side = self._front
            side.readers += 1
        try:
            yield side.model, side.version
        finally:
            with self._changed:
                side.readers -= 1
                if not side.readers:
                    self._changed.notify_all()

    def catch_up(self) -> None:
        """Make the back copy the same as the front, once the last reader has left it."""
        if not (self._behind or self._spoiled):
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._back.readers)
        if self._spoiled:
            self._back.model = copy(self._front.model)
        else:
            self._spoiled = True  # in case of an error half way
            for step in self._behind:
                apply(self._back.model, step)
        self._behind, self._spoiled = [], False

    def prepare(self, steps: Sequence[Step]) -> Model:
        """Change the back copy and return it; nobody sees it yet. Raise where a step is refused."""
        self.catch_up()
        self._spoiled = True
        for step in steps:
            apply(self._back.model, step)
        self._spoiled = False
        self._prepared = list(steps)
        return self._back.model

    def replace(self, model: Model) -> Model:
        """Make another model the back copy, as undoing does; nobody sees it yet."""
        self._behind, self._prepared = [], []
        self._back = _Side(model, self._front.version)
        self._spoiled = True  # until it is published: then the other side is behind by a whole model
        return model

    def publish(self, version: int) -> None:
        """Let the prepared copy answer from now on."""
        self._back.version = version
        with self._changed:
            self._front, self._back = self._back, self._front
        self._behind, self._prepared = self._prepared, []

    def renumber(self, version: int) -> None:
        """Let the copy in force answer under another version, of the same model."""
        with self._changed:
            self._front.version = version

    def give_up(self) -> None:
        """Throw away what was prepared: the back copy becomes the same as the front again."""
        self._spoiled, self._prepared = True, []
