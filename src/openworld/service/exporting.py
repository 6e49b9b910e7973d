"""What was learnt, as files: labelled samples, the log of acts, the model."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from openworld.service.world import World


def labelled_lines(world: World) -> Iterator[bytes]:
    """Yield every labelled sample with its feature as a line of JSON."""
    for sample, feature in world.pool.labelled():
        yield _line({**dataclasses.asdict(sample), "feature": feature.tolist()})


def labelled_npz(world: World) -> Iterator[bytes]:
    """Yield the labelled samples as a .npz file with X, y and ids."""
    found = list(world.pool.labelled())
    file = io.BytesIO()
    np.savez(
        file,
        X=np.array([feature for _, feature in found]).reshape(len(found), world.model.n_features),
        y=np.array([sample.label for sample, _ in found], dtype=str),
        ids=np.array([sample.id for sample, _ in found], dtype=np.int64),
    )
    yield file.getvalue()


def log_lines(world: World) -> Iterator[bytes]:
    """Yield every act as a line of JSON, oldest first."""
    for event in world.history.export():
        yield _line(dataclasses.asdict(event))


def model_file(world: World) -> Iterator[bytes]:
    """Yield the model in force as a file that `openworld.load` reads."""
    yield world.model.to_bytes()


FORMS: dict[tuple[str, str], Callable[[World], Iterator[bytes]]] = {
    ("model", ".ow"): model_file,
    ("labelled", ".ndjson"): labelled_lines,
    ("labelled", ".npz"): labelled_npz,
    ("log", ".ndjson"): log_lines,
}


def write(world: World, what: str, path: Path) -> None:
    """Write one of `FORMS` to a file."""
    with path.open("wb") as file:
        file.writelines(FORMS[what, path.suffix](world))


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, default=_plain, ensure_ascii=False).encode() + b"\n"


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no place in an export.")
