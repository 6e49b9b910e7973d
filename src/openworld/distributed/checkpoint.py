"""Checkpoints of learning from a stream: interrupted work continues from the last one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openworld.data.stream import Stream
from openworld.files import write_atomic
from openworld.model_file import digest as model_digest
from openworld.model_file import dumps, load, save

if TYPE_CHECKING:
    from openworld.distributed.learning import Learned


def fingerprint(stream: Stream, *others: object) -> str:
    """Return a hash of a stream's parts and files, and of other values."""
    digest = hashlib.blake2b(digest_size=16)
    for part in stream.parts:
        digest.update(repr(part).encode())
    digest.update(repr(others).encode())
    for path in sorted({part.path for part in stream.parts}):
        if os.path.exists(path):
            digest.update(f"{os.path.getsize(path)} {os.path.getmtime(path)}".encode())
    return digest.hexdigest()


class Checkpoint:
    """A folder with the model of the first parts of a stream.

    The model is written first, then a small file that names it, atomically: a process killed at any moment
    leaves either the last checkpoint or the one before.

    Parameters
    ----------
    folder : path
    stream : Stream
    model : recognizer
        The recognizer to fit or to extend. A checkpoint of another stream or model is ignored.
    settings : other values, optional
        What else determines the result. A checkpoint with other settings is ignored.
    """

    def __init__(
        self, folder: str | os.PathLike[str], stream: Stream, model: Any, **settings: object
    ) -> None:
        self.folder = Path(folder)
        fitted = hasattr(model, "without_classes") and model.__sklearn_is_fitted__()
        digest = model_digest(dumps(model)) if fitted else repr(_plain(model))
        self.key = fingerprint(stream, digest, settings)

    def load(self) -> tuple[Learned, int] | None:
        """Return what was learned and from how many parts, or None."""
        from openworld.distributed.learning import Learned

        try:
            state = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
            if state.pop("key") != self.key:
                return None
            model = load(self.folder / state.pop("model"))
        except FileNotFoundError:
            return None
        n_parts = state.pop("n_parts")
        state["failures"] = [(name, reason) for name, reason in state["failures"]]
        return Learned(model, **state), n_parts

    def save(self, learned: Learned, n_parts: int) -> None:
        """Store what was learned from the first `n_parts` parts."""
        self.folder.mkdir(exist_ok=True)
        name = f"model-{n_parts}.ow"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a part may have too few classes to calibrate with
            save(learned.model, self.folder / name, exact=True)
        state = {**vars(replace(learned, model=name)), "n_parts": n_parts, "key": self.key}
        write_atomic(self.folder / "state.json", json.dumps(state).encode())
        for old in self.folder.glob("model-*.ow"):
            if old.name != name:
                old.unlink()

    def remove(self) -> None:
        """Delete the checkpoint."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _plain(model: Any) -> dict[str, str]:
    """Return the parameters of an estimator, except callbacks."""
    found = model.get_params()
    return {name: repr(value) for name, value in found.items() if not name.endswith(("callback", "metric"))}
