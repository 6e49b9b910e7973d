"""A model as bytes and back, exactly."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from openworld import model_file
from openworld.recognition import NearestNonOutlier, OpenWorldRecognizer
from openworld.service.acts import Model, bring_up_to_date
from openworld.service.results import Refused


def to_bytes(model: Model) -> bytes:
    """Return the bytes of a model file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.ow")
        model_file.save(model, path)
        return path.read_bytes()


def from_bytes(data: bytes) -> Model:
    """Return the model in the bytes of a model file, brought up to date."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.ow")
        path.write_bytes(data)
        model = model_file.load(path)
    check_serves(model)
    bring_up_to_date(model)
    return model  # type: ignore[no-any-return]


def digest_of(data: bytes) -> str:
    """Return the checksum that a model file carries: of the model, whatever the order in the file."""
    length = int.from_bytes(data[:8], "little")
    return str(json.loads(data[8 : 8 + length])["__metadata__"]["sha256"])


def copy(model: Model) -> Model:
    """Return an independent model that is the same to the last bit."""
    return from_bytes(to_bytes(model))


def check_serves(model: Any) -> None:
    """Refuse a model that a world cannot live on."""
    if not isinstance(model, OpenWorldRecognizer | NearestNonOutlier):
        raise Refused(
            f"A {type(model).__name__} cannot be served: use OpenWorldRecognizer or NearestNonOutlier, which "
            "answer unknown by distance."
        )
    if model.classes_.dtype.kind != "U":
        raise Refused("This model's labels are numbers; a service needs names: fit it with text labels.")
