"""The first model of a world."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from openworld.model_file import digest, dumps
from openworld.service.model_bytes import check_serves, from_bytes
from openworld.service.results import Refused
from openworld.store import Database, log


def begin(database: Database, base_model: str | PathLike[str] | Any | None) -> None:
    """Store the model a world begins with; where it has begun, refuse another one."""
    data = None if base_model is None else _bytes(base_model)
    model = None if data is None else from_bytes(data)
    with database.write() as connection:
        begun = log.snapshot_histories(connection)
        if begun:
            if data is not None and not _same(data, log.snapshot(connection, begun[0])):
                raise Refused(
                    "This database began with another model: start without naming a model to go on with it, "
                    "or give the new model a database of its own."
                )
            return
        if data is None or model is None:
            raise Refused("This database is new: name the model it is to begin with.")
        labels = sorted(str(label) for label in model.statistics_.labels)
        log.add_snapshot(connection, digest(data), data, is_base=True)
        summary = {
            "added": labels,
            "removed": [],
            "samples": 0,
            "classes": len(labels),
            "threshold": model.threshold_,
        }
        log.add_version(connection, 0, None, digest(data), summary)


def _same(one: bytes, other: bytes) -> bool:
    """Tell whether two files are of one model, perhaps written by different versions of this package."""
    return digest(one) == digest(other) or _digest_now(one) == _digest_now(other)


def _digest_now(data: bytes) -> str:
    """Return the digest that the file would have if this version wrote it."""
    return digest(dumps(from_bytes(data)))


def _bytes(base_model: str | PathLike[str] | Any) -> bytes:
    if isinstance(base_model, str | PathLike):
        return Path(base_model).read_bytes()
    check_serves(base_model)
    return dumps(base_model)
