"""The live model: one copy answers while the other learns (left-right concurrency).

Readers use the front copy and never wait for learning. The writer changes the back copy, swaps the two, and
repeats the change on the other copy once its last reader has left. Nothing is copied. (Ramalhete and Correia,
Left-Right, 2015.)

Each copy keeps what is needed to step back over its last changes, as many as memory allows, so undo costs no
more than the change did.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from openworld import model_file
from openworld.recognition import EditableRecognizer
from openworld.service.validation import Refused

Model = EditableRecognizer
UNDO_BYTES = 1 << 28
_FEWEST_STEPS, _MOST_STEPS = 2, 50


@dataclass(frozen=True)
class ModelChange:
    """What an event does to a model, and the classes that it touches."""

    apply: Callable[[Model], None]
    classes: frozenset[str]


_Move = tuple[int, Sequence[ModelChange]]  # how many changes to take back, and which to apply then
_NOWHERE: _Move = (0, ())


class _Copy:
    """A copy of the model, with functions that step back over its last changes, the latest last."""

    def __init__(self, model: Model, version: int, undo_bytes: int) -> None:
        self.model, self.version, self.readers = model, version, 0
        self.steps: deque[Callable[[], None]] = deque()
        self._undo_bytes = undo_bytes

    def step_back(self) -> None:
        """Undo the last change."""
        self.steps.pop()()

    def apply(self, change: ModelChange) -> None:
        """Change the model, or leave it as it was and raise `Refused`."""
        self.steps.append(self.model.restorer(change.classes))
        try:
            apply_change(self.model, change)
        except BaseException:
            self.step_back()
            raise
        while len(self.steps) > _steps_kept(self.model, self._undo_bytes):
            self.steps.popleft()

    def move(self, back: int, changes: Sequence[ModelChange]) -> None:
        """Step back, then apply changes."""
        for _ in range(back):
            self.step_back()
        for change in changes:
            self.apply(change)


class LiveModel:
    """A model that many threads read while one thread changes it.

    The writer calls `prepare` or `replace`, then `publish` or `discard`, and `catch_up`; callers make sure
    that there is one writer at a time.

    Parameters
    ----------
    model : EditableRecognizer
        Refreshed. The live model owns it from now on.
    version : int
    changes : sequence of ModelChange, default=()
        The last changes, which `model` does not have yet, so that they can be undone.
    undo_bytes : int
        About how much memory what is kept to step back may take.
    """

    def __init__(
        self,
        model: Model,
        version: int,
        changes: Sequence[ModelChange] = (),
        undo_bytes: int = UNDO_BYTES,
    ) -> None:
        self._undo_bytes = undo_bytes
        self._changed = threading.Condition()
        self._front, self._back = (_Copy(part, version, undo_bytes) for part in (model, copy(model)))
        for side in (self._front, self._back):
            side.move(0, changes)
        self._missing = _NOWHERE  # published, but not yet done on the back copy
        self._prepared = _NOWHERE
        self._base: bytes | None = None  # what the back copy must be made from before it is used
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
        if self._missing == _NOWHERE and self._base is None and not self._back_is_stale:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._back.readers)
        if self._back_is_stale:
            self._renew_back(copy(self._front.model))
        else:
            if self._base is not None:
                self._renew_back(from_bytes(self._base))
            self._back_is_stale = True  # in case of an error halfway
            self._back.move(*self._missing)
        self._missing, self._base, self._back_is_stale = _NOWHERE, None, False

    def can_step_back(self, n: int) -> bool:
        """Return whether `prepare` can take back the last n changes."""
        self.catch_up()
        return n <= len(self._back.steps)

    def prepare(self, changes: Sequence[ModelChange], back: int = 0) -> Model:
        """Take back the last changes, apply others, and return the model, which nobody reads yet.

        Raises
        ------
        Refused
            If a change cannot be applied; the live model stays as it was.
        """
        self.catch_up()
        self._back_is_stale = back > 0 or len(changes) > 1  # a copy leaves one refused change by itself
        self._back.move(back, changes)
        self._back_is_stale, self._prepared = False, (back, changes)
        return self._back.model

    def replace(self, model: Model, changes: Sequence[ModelChange] = ()) -> Model:
        """Make another model with some changes the back copy; nobody reads it yet.

        Only these changes can be undone by stepping back then.
        """
        self._base = model_file.dumps(model)
        self._renew_back(model)
        self._back_is_stale = True
        self._back.move(0, changes)
        self._back_is_stale, self._missing, self._prepared = False, _NOWHERE, (0, changes)
        return model

    def _renew_back(self, model: Model) -> None:
        self._back = _Copy(model, self._front.version, self._undo_bytes)

    def publish(self, version: int) -> None:
        """Swap the copies: the prepared one answers from now on."""
        self._back.version = version
        with self._changed:
            self._front, self._back = self._back, self._front
        self._missing, self._prepared = self._prepared, _NOWHERE

    def renumber(self, version: int) -> None:
        """Let the copy in use answer under another version of the same model."""
        with self._changed:
            self._front.version = version

    def discard(self) -> None:
        """Discard what was prepared: the back copy is made equal to the front before its next use."""
        back, changes = self._prepared
        if self._base is None and not back and len(changes) == 1:
            self._back.step_back()
        else:
            self._back_is_stale = True
        self._base, self._prepared = None, _NOWHERE


def _steps_kept(model: Model, undo_bytes: int) -> int:
    """Return over how many changes each of the two copies can step back.

    What is kept of a change are the classes it touched and, where there is one, the scatter before it.
    """
    n_features = 0 if model.statistics_.scatter_kind == "none" else model.statistics_.n_features or 0
    affordable = undo_bytes // max(2 * 12 * n_features**2, 1)
    return min(max(affordable, _FEWEST_STEPS), _MOST_STEPS)


def apply_change(model: Model, change: ModelChange) -> None:
    """Change a model and refresh it.

    Serving, replay, undo and rollback all come through here and agree to the last bit, so a model is
    refreshed at once and never at its first use: with a metric that is refreshed now and then, the moment
    makes a difference.

    Raises
    ------
    Refused
        If the model rejects the change. It may be partly changed: discard it.
    """
    try:
        change.apply(model)
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
    """Raise `Refused` if a model cannot be served."""
    if not (hasattr(model, "merge_classes") and model.accepts_bounded_region):
        raise Refused(
            f"A {type(model).__name__} cannot be served: use OpenWorldRecognizer or NearestNonOutlier, which "
            "answer unknown by distance."
        )
