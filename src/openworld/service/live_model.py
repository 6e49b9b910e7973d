"""Live model: one copy answers while the other learns (left-right concurrency).

Readers use the front copy and never wait for learning. The writer changes the back copy, swaps the two, and
repeats the change on the other copy once its last reader has left. The model itself is not copied. (Ramalhete
and Correia, Left-Right, 2015.) Learning has a thread of its own, of lower priority, so that it takes little
processor time from recognition.

Each copy keeps the undo steps of its last changes, as many as memory allows, so undo costs no more than the
change did.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from openworld import model_file
from openworld.index.growing_rows import Restorer
from openworld.recognition import EditableRecognizer
from openworld.recognition.blas import one_blas_thread
from openworld.service.validation import Refused

Model = EditableRecognizer
UNDO_BYTES = 1 << 28
_FEWEST_STEPS, _MOST_STEPS = 2, 50
_NICENESS = 10  # gets a tenth of the processor time of other threads that are ready


@dataclass(frozen=True)
class ModelChange:
    """The change that an event makes to a model, and the classes that it touches."""

    apply: Callable[[Model], None]
    classes: frozenset[str]


NO_CHANGE = ModelChange(lambda model: None, frozenset())

_Move = tuple[int, Sequence[ModelChange]]  # the number of changes to undo, and the changes to apply then
_NO_MOVE: _Move = (0, ())


class _Copy:
    """A copy of the model with the undo steps of its last changes, latest last."""

    def __init__(self, model: Model, version: int, undo_bytes: int) -> None:
        self.model, self.version, self.readers = model, version, 0
        self.steps: deque[Restorer] = deque()
        self._undo_bytes = undo_bytes // 2  # there are two copies

    def step_back(self) -> None:
        """Undo the last change."""
        self.steps.pop()()

    def apply(self, change: ModelChange, like: Model | None = None, *, is_last: bool = True) -> None:
        """Change the model, or leave it as it was and raise `Refused`."""
        self.steps.append(self.model.restorer(change.classes))
        try:
            apply_change(self.model, change, like, is_last=is_last)
        except BaseException:
            self.step_back()
            raise
        while len(self.steps) > _FEWEST_STEPS and self._keeps_too_much():
            self.steps.popleft()

    def _keeps_too_much(self) -> bool:
        """Return whether there are too many undo steps, or they take too much memory.

        A step shares most arrays with the next step; only the other arrays count as its memory.
        """
        n_bytes = 0
        for step, following in pairwise(self.steps):
            shared = {id(array) for array in following.arrays}
            n_bytes += sum(array.nbytes for array in step.arrays if id(array) not in shared)
        return len(self.steps) > _MOST_STEPS or n_bytes > self._undo_bytes

    def move(self, back: int, changes: Sequence[ModelChange], like: Model | None = None) -> None:
        """Undo `back` changes, then apply `changes`; `like` is the other copy if it made the same move."""
        for _ in range(back):
            self.step_back()
        for change in changes[:-1]:
            self.apply(change, is_last=False)
        if changes:
            self.apply(changes[-1], like)
        else:
            apply_change(self.model, NO_CHANGE, like)  # an earlier state may not have been refreshed


class LiveModel:
    """A model that many threads read while one thread changes it.

    The writer calls `prepare` or `replace`, then `publish` or `discard`, and `catch_up`; callers make sure
    that there is one writer at a time.

    Parameters
    ----------
    model : EditableRecognizer
        A refreshed model. The live model takes ownership of it.
    version : int
    changes : sequence of ModelChange, default=()
        Changes to apply to `model` first. They can be undone.
    undo_bytes : int
        Approximate memory limit of the undo steps.
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
        self._learning = ThreadPoolExecutor(1, "openworld-learning", lower_priority)
        self._front, self._back = (_Copy(part, version, undo_bytes) for part in (model, copy(model)))
        for side in (self._front, self._back):
            side.move(0, changes)
        self._missing = _NO_MOVE  # published, but not yet made on the back copy
        self._prepared = _NO_MOVE
        self._base: bytes | None = None  # model file to load into the back copy before its next use
        self._back_is_stale = False  # copy the front to the back before the next use of the back

    @property
    def version(self) -> int:
        """The version of the current model."""
        return self._front.version

    @property
    def n_features(self) -> int:
        """The number of features of a sample."""
        return int(self._front.model.n_features_in_)

    @property
    def extractor(self) -> dict[str, str] | None:
        """The id of the extractor that the model was fitted with, if known."""
        return getattr(self._front.model, "extractor_", None)

    def to_bytes(self) -> bytes:
        """Return the current model as the bytes of a model file."""
        with self.reading() as (model, _):
            return model_file.dumps(model)

    @contextmanager
    def reading(self) -> Iterator[tuple[Model, int]]:
        """Yield the current model and its version; the model does not change inside the `with` block."""
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
        if self._missing == _NO_MOVE and self._base is None and not self._back_is_stale:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._back.readers)
        if self._back_is_stale:
            self._renew_back(copy(self._front.model))
        else:
            if self._base is not None:
                self._renew_back(from_bytes(self._base))
            self._back_is_stale = True  # in case of an error halfway
            self._move_back(*self._missing, like=self._front.model)
        self._missing, self._base, self._back_is_stale = _NO_MOVE, None, False

    def can_step_back(self, n: int) -> bool:
        """Return whether `prepare` can undo the last n changes."""
        self.catch_up()
        return n <= len(self._back.steps)

    def prepare(self, changes: Sequence[ModelChange], back: int = 0) -> Model:
        """Undo the last `back` changes, apply `changes`, and return the model, which has no readers yet.

        Raises
        ------
        Refused
            If a change cannot be applied; the live model stays as it was.
        """
        self.catch_up()
        self._back_is_stale = back > 0 or len(changes) > 1  # the copy itself undoes a single refused change
        self._move_back(back, changes)
        self._back_is_stale, self._prepared = False, (back, changes)
        return self._back.model

    def replace(self, model: Model, changes: Sequence[ModelChange] = ()) -> Model:
        """Replace the back copy by another model, apply changes to it and return it; it has no readers yet.

        Afterwards, `prepare` can undo only these changes.
        """
        self._base = model_file.dumps(model)
        self._renew_back(model)
        self._back_is_stale = True
        self._move_back(0, changes)
        self._back_is_stale, self._missing, self._prepared = False, _NO_MOVE, (0, changes)
        return model

    def _move_back(self, back: int, changes: Sequence[ModelChange], like: Model | None = None) -> None:
        self._learning.submit(self._back.move, back, changes, like).result()

    def _renew_back(self, model: Model) -> None:
        self._back = _Copy(model, self._front.version, self._undo_bytes)

    def publish(self, version: int) -> None:
        """Swap the copies, so that the prepared one becomes the current model."""
        self._back.version = version
        with self._changed:
            self._front, self._back = self._back, self._front
        self._missing, self._prepared = self._prepared, _NO_MOVE

    def renumber(self, version: int) -> None:
        """Change the version number of the current model."""
        with self._changed:
            self._front.version = version

    def discard(self) -> None:
        """Discard the prepared model; the back copy becomes equal to the front copy before its next use."""
        back, changes = self._prepared
        if self._base is None and not back and len(changes) == 1:
            self._back.step_back()
        else:
            self._back_is_stale = True
        self._base, self._prepared = None, _NO_MOVE


def lower_priority() -> None:
    """Lower the priority of this thread below recognition; only Linux has priorities for each thread."""
    if sys.platform != "linux":
        return
    with suppress(OSError):  # if not allowed, the thread keeps its priority
        niceness = os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(niceness, 19))


def apply_change(
    model: Model, change: ModelChange, like: Model | None = None, *, is_last: bool = True
) -> None:
    """Apply a change to a model and refresh it; `like` is a model after the same change, if there is one.

    Serving, replay, undo and rollback all use this function and agree to the last bit. So a model is
    refreshed immediately, not at its first use: where the metric is refreshed only now and then, the result
    depends on when. With `refresh_growth=0` it depends only on what was learned, so of several changes in a
    row only the last one refreshes.

    Raises
    ------
    Refused
        If the model rejects the change. The model may be partly changed: discard it.
    """
    try:
        with one_blas_thread():  # the last bit of a product depends on the number of threads
            change.apply(model)
            if is_last or getattr(model, "refresh_growth", None) != 0:
                model.refresh(like)
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
