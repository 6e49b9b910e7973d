"""Replay an event log: plain SQL and the public recognizer, none of the service's own code.

    python -m benchmarks.reliability.replay sqlite:///world.db

prints the checksum of the model that the log describes: the same as that of `openworld export model`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from sqlalchemy import create_engine, text

from openworld.model_file import digest, dumps, loads
from openworld.recognition import parse_objective
from openworld.recognition.blas import one_blas_thread


def replay(url: str) -> tuple[str, dict[int, str], set[int]]:
    """Return the checksum of the model that a log describes, the kinds of its events, and the stored samples.

    Rollbacks to a version are not replayed: the campaigns make none.
    """
    engine = create_engine(url)
    with engine.connect() as connection:
        base = connection.execute(text("SELECT data FROM snapshots WHERE is_base")).scalar_one()
        events = connection.execute(text("SELECT id, kind, payload, undoes FROM events ORDER BY id")).all()
        rows = connection.execute(text("SELECT sample_id, dtype, data FROM features")).all()
    engine.dispose()
    features = {sample: np.frombuffer(data, dtype) for sample, dtype, data in rows}
    model = loads(bytes(base))
    undone: set[int] = set()
    for event in reversed(events):  # an undo that was itself undone, by a redo, undoes nothing
        if event.undoes is not None and event.id not in undone:
            undone.add(event.undoes)
    for event in events:
        if event.id not in undone:
            payload = json.loads(event.payload) if isinstance(event.payload, str) else event.payload
            with one_blas_thread():  # as the service does: the last bit of a product depends on the number
                _apply(model, event.kind, payload, features)
    return digest(dumps(model)), {event.id: event.kind for event in events}, set(features)


def _apply(model: Any, kind: str, payload: dict[str, Any], features: dict[int, Any]) -> None:
    match kind:
        case "learn":
            model.partial_fit(
                np.array([features[i] for i in payload["samples"]]), np.array(payload["labels"])
            )
        case "label":
            X = np.array([features[i] for i in payload["samples"]])
            model.partial_fit(X, np.array([payload["label"]] * len(X)))
        case "dismiss_unknown":
            model.learn_unknown(np.array([features[i] for i in payload["samples"]]))
        case "objective":
            model.set_objective(parse_objective(payload["objective"]))
        case "rename":
            model.rename_class(payload["old"], payload["new"])
        case "merge":
            model.merge_classes(payload["labels"], payload["into"])
        case "forget":
            model.forget_class(payload["label"])
        case _:
            return
    model.predict(np.zeros((1, model.n_features_in_), dtype=np.float32))  # the metric is refreshed now


if __name__ == "__main__":
    print(replay(sys.argv[1])[0])
