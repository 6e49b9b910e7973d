"""Samples that are learned twice, or as two classes, as the reservoir of a model shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Repeats:
    """Counts of learned samples; there may be more of them, as a reservoir keeps only some of each class.

    Attributes
    ----------
    learned_before : int
        Samples that the model had learned before as the same class.
    of_two_classes : int
        Samples that were learned as another class too, before or now.
    """

    learned_before: int = 0
    of_two_classes: int = 0

    @classmethod
    def of(cls, before: Any, added: Any) -> Repeats:
        """Compare a model with one that has learned the new samples alone."""
        known = _classes_of_samples(before)
        learned_before = of_two_classes = 0
        for sample, labels in _classes_of_samples(added).items():
            earlier = known.get(sample, set())
            learned_before += len(labels & earlier)
            of_two_classes += len(labels) if len(labels | earlier) > 1 else 0
        return cls(learned_before, of_two_classes)


def _classes_of_samples(model: Any) -> dict[bytes, set[Any]]:
    """Return the classes of each sample that the reservoir keeps; none where a model has no reservoir."""
    memory = getattr(model, "memory_", None)
    if memory is None or not len(model.classes_):
        return {}
    samples, codes = memory.reservoir.samples(model.classes_, len(memory.reservoir))
    found: dict[bytes, set[Any]] = {}
    for sample, label in zip(samples, model.classes_[codes].tolist(), strict=True):
        found.setdefault(sample.tobytes(), set()).add(label)
    return found
