"""The live model: one copy answers while the other learns (left-right concurrency).

Readers use the front copy and never wait for learning. The writer changes the back copy, swaps the two, and
repeats the change on the other copy once its last reader has left. Nothing is copied, so an event costs what
learning it costs. (Ramalhete and Correia, Left-Right, 2015.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from openworld import model_file
from openworld.recognition import EditableRecognizer
from openworld.service.results import Refused

Model = EditableRecognizer
ModelChange = Callable[[Model], None]


@dataclass
class _Copy:
    model: Model
    version: int
    readers: int = 0


class LiveModel:
    """A model that many threads read while one thread changes it.

    The writer calls `prepare` or `replace`, then `publish` or `discard`, and `catch_up`; callers make sure
    that there is one writer at a time.

    Parameters
    ----------
    model : EditableRecognizer
        Refreshed. The live model owns it from now on.
    version : int
    """

    def __init__(self, model: Model, version: int) -> None:
        self._front = _Copy(model, version)
        self._back = _Copy(copy(model), version)
        self._changed = threading.Condition()
        self._missing: list[ModelChange] = []  # published, but not yet applied to the back copy
        self._prepared: list[ModelChange] = []
        self._back_is_stale = False  # the back copy must be copied from the front before it is used

    @property
    def version(self) -> int:
        """The version that answers now."""
        return self._front.version

    @property
    def n_features(self) -> int:
        """The number of features of a sample."""
        return int(self._front.model.n_features_in_)

    @property
    def extractor(self) -> dict[str, str] | None:
        """The id of the extractor that the model was fitted with, if the model file names one."""
        return getattr(self._front.model, "extractor_", None)

    def to_bytes(self) -> bytes:
        """Return the model in use as the bytes of a model file."""
        with self.reading() as (model, _):
            return model_file.dumps(model)

    @contextmanager
    def reading(self) -> Iterator[tuple[Model, int]]:
        """Give the model in use and its version; that model does not change inside the block."""
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
        """Make the back copy equal to the front copy, once its last reader has left."""
        if not (self._missing or self._back_is_stale):
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._back.readers)
        if self._back_is_stale:
            self._back.model = copy(self._front.model)
        else:
            self._back_is_stale = True  # in case of an error half way
            for change in self._missing:
                apply_change(self._back.model, change)
        self._missing, self._back_is_stale = [], False

    def prepare(self, changes: Sequence[ModelChange]) -> Model:
        """Change the back copy, which nobody reads, and return it; raise `Refused` if it cannot be done."""
        self.catch_up()
        self._back_is_stale = True
        for change in changes:
            apply_change(self._back.model, change)
        self._back_is_stale = False
        self._prepared = list(changes)
        return self._back.model

    def replace(self, model: Model) -> Model:
        """Make another model the back copy, as undo does; nobody reads it yet."""
        self._missing, self._prepared = [], []
        self._back = _Copy(model, self._front.version)
        self._back_is_stale = True  # once published, the other copy is to be copied from it
        return model

    def publish(self, version: int) -> None:
        """Swap the copies: the prepared one answers from now on."""
        self._back.version = version
        with self._changed:
            self._front, self._back = self._back, self._front
        self._missing, self._prepared = self._prepared, []

    def renumber(self, version: int) -> None:
        """Let the copy in use answer under another version of the same model."""
        with self._changed:
            self._front.version = version

    def discard(self) -> None:
        """Discard what was prepared: the back copy is copied from the front before its next use."""
        self._back_is_stale, self._prepared = True, []


def apply_change(model: Model, change: ModelChange) -> None:
    """Change a model and refresh it.

    Serving, replay, undo and rollback all come through here and agree to the last bit, so a model is
    refreshed at once and never when it is first asked: with a metric that is refreshed now and then, the
    moment would make a difference.

    Raises
    ------
    Refused
        If the model cannot be changed so. It may then be half changed: discard it.
    """
    try:
        change(model)
        model.refresh()
    except (ValueError, TypeError, LookupError) as error:
        raise Refused(error.args[0] if error.args else str(error)) from error


def from_bytes(data: bytes) -> Model:
    """Return the model in the bytes of a model file, refreshed."""
    model: Model = model_file.loads(data)
    check_serves(model)
    return model.refresh()


def copy(model: Model) -> Model:
    """Return an independent model that is equal to the last bit."""
    return from_bytes(model_file.dumps(model))


def check_serves(model: Any) -> None:
    """Refuse a model that cannot be served."""
    if not (hasattr(model, "merge_classes") and model.accepts_bounded_region):
        raise Refused(
            f"A {type(model).__name__} cannot be served: use OpenWorldRecognizer or NearestNonOutlier, which "
            "answer unknown by distance."
        )
