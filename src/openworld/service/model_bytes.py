"""A model as bytes and back, exactly."""

from __future__ import annotations

from typing import Any

from openworld import model_file
from openworld.recognition import NearestNonOutlier, OpenWorldRecognizer
from openworld.service.acts import Model, bring_up_to_date
from openworld.service.results import Refused


def from_bytes(data: bytes) -> Model:
    """Return the model in the bytes of a model file, brought up to date."""
    model = model_file.loads(data)
    check_serves(model)
    bring_up_to_date(model)
    return model  # type: ignore[no-any-return]


def copy(model: Model) -> Model:
    """Return an independent model that is the same to the last bit."""
    return from_bytes(model_file.dumps(model))


def check_serves(model: Any) -> None:
    """Refuse a model that a world cannot live on."""
    if not isinstance(model, OpenWorldRecognizer | NearestNonOutlier):
        raise Refused(
            f"A {type(model).__name__} cannot be served: use OpenWorldRecognizer or NearestNonOutlier, which "
            "answer unknown by distance."
        )
    if model.classes_.dtype.kind != "U":
        raise Refused("This model's labels are numbers; a service needs names: fit it with text labels.")
