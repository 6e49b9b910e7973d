"""Which samples have which label, and what classes are said to be: the acts in force, folded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from openworld.store.log import Entry
from openworld.store.samples import Mark


@dataclass
class Labelling:
    """The labels and descriptions that acts have given.

    Attributes
    ----------
    marks : dict
        Sample id -> state, label, and who gave it when. Samples that are not in it are as they came.
    descriptions : dict
        Class label -> what it is said to be.
    """

    marks: dict[int, Mark] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    _members: dict[str, set[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Labelling:
        """Fold acts in force, oldest first."""
        labelling = cls()
        for entry in entries:
            labelling.add(entry)
        return labelling

    def add(self, entry: Entry) -> None:
        """Fold in one act."""
        payload = entry.payload
        match entry.kind:
            case "learn":
                for sample, label in zip(payload["samples"], payload["labels"], strict=True):
                    self._label(sample, label, entry)
            case "label" | "accept":
                for sample in payload["samples"]:
                    self._label(sample, payload["label"], entry)
            case "dismiss":
                for sample in payload["samples"]:
                    self._unlabel(sample)
                    self.marks[sample] = Mark("dismissed", None, entry.who, entry.at, entry.id)
            case "describe":
                self.descriptions[payload["label"]] = payload["text"]
            case "rename":
                self._move([payload["old"]], payload["new"])
            case "merge":
                self._move(payload["labels"], payload["into"])
            case "forget":
                for sample in self._members.pop(payload["label"], set()):
                    del self.marks[sample]
                self.descriptions.pop(payload["label"], None)

    def _label(self, sample: int, label: str, entry: Entry) -> None:
        self._unlabel(sample)
        self.marks[sample] = Mark("labelled", label, entry.who, entry.at, entry.id)
        self._members.setdefault(label, set()).add(sample)

    def _unlabel(self, sample: int) -> None:
        before = self.marks.get(sample)
        if before is not None and before.label is not None:
            self._members[before.label].discard(sample)

    def _move(self, labels: Iterable[str], into: str) -> None:
        for label in dict.fromkeys(labels):
            if label == into:
                continue
            text = self.descriptions.pop(label, None)
            if text is not None:
                self.descriptions.setdefault(into, text)
            for sample in self._members.pop(label, set()):
                self.marks[sample] = replace(self.marks[sample], label=into)
                self._members.setdefault(into, set()).add(sample)


def class_counts(base: Mapping[str, float], entries: Iterable[Entry]) -> dict[str, float]:
    """Return how many samples each class was learnt from, from those of the first model and learning acts."""
    counts = dict(base)
    for entry in entries:
        payload = entry.payload
        match entry.kind:
            case "learn":
                for label in payload["labels"]:
                    counts[label] = counts.get(label, 0) + 1
            case "label" | "accept":
                counts[payload["label"]] = counts.get(payload["label"], 0) + len(payload["samples"])
            case "rename":
                counts[payload["new"]] = counts.pop(payload["old"])
            case "merge":
                parts = dict.fromkeys([*payload["labels"], payload["into"]])
                counts[payload["into"]] = sum(counts.pop(label, 0) for label in parts)
            case "forget":
                counts.pop(payload["label"])
    return counts
