"""An assistant that says when a question is none of its business, and learns new ones from a few examples.

    pip install openworld[text]
    OPENWORLD_DATA=folder python examples/clinc150.py [EXTRACTOR]   # it has clinc150.csv: text, label, split

CLINC150 has questions of 150 intents, and real questions that belong to none (label oos). 100 intents, drawn
once, are learned from the training questions; the other 50 are held out. Then a person names the held-out
ones, by 5 questions each, then by more. Everything is tested on the data set's own test questions, which
were used for nothing else; its validation questions are not used at all.
"""

from __future__ import annotations

import csv
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openworld import OpenWorldRecognizer
from openworld.features import Extractor, load_extractor

Array = np.ndarray[Any, np.dtype[Any]]
N_KNOWN = 100
EXAMPLES = (5, 20, 100)  # training questions of each held-out intent, one number after the other
OUT_OF_SCOPE = "oos"


@dataclass(frozen=True)
class Questions:
    """Questions as features, with their intents."""

    X: Array
    y: Array

    def of(self, intents: Array) -> Questions:
        chosen = np.isin(self.y, intents)
        return Questions(self.X[chosen], self.y[chosen])

    def some_of_each(self, start: int, stop: int) -> Questions:
        """Return the questions from place `start` to `stop` of each intent."""
        places = np.concatenate([np.flatnonzero(self.y == y)[start:stop] for y in np.unique(self.y)])
        return Questions(self.X[places], self.y[places])


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "minilm"
    train, test = read(data_file(), load_extractor(name))
    print("Right answers / misnamed, in % of the test questions; the rest are called unknown.")
    print(f"{'':38}{'first 100':>14}{'other 50':>14}{'out of scope':>15}")
    for stage, first, others, out_of_scope in stages(train, test):
        print(f"{stage:38}{first:>14}{others:>14}{out_of_scope:>15}")


def data_file() -> Path:
    folder = os.environ.get("OPENWORLD_DATA")
    if folder is None or not (Path(folder) / "clinc150.csv").is_file():
        raise SystemExit(
            "This example needs clinc150.csv (columns text, label, split): set OPENWORLD_DATA to its folder."
        )
    return Path(folder) / "clinc150.csv"


def read(path: Path, extractor: Extractor) -> tuple[Questions, Questions]:
    """Return the questions for training, which are all in scope, and those for test."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    parts = []
    for splits in (("train",), ("test", "oos_test")):
        chosen = [row for row in rows if row["split"] in splits]
        X = extractor.transform([row["text"] for row in chosen])
        parts.append(Questions(X, np.array([row["label"] for row in chosen])))
    return parts[0], parts[1]


def stages(
    train: Questions, test: Questions, n_known: int = N_KNOWN, examples: tuple[int, ...] = EXAMPLES
) -> list[tuple[str, str, str, str]]:
    """Learn, test, name what was held out, and test again; return the lines of the table."""
    intents = np.random.default_rng(0).permutation(np.unique(train.y))
    known, held_out = intents[:n_known], intents[n_known:]
    outside = np.array([OUT_OF_SCOPE])
    model = OpenWorldRecognizer().fit(train.of(known).X, train.of(known).y)

    def line(stage: str) -> tuple[str, str, str, str]:
        first, others, out = (judged(model, test.of(some)) for some in (known, held_out, outside))
        return stage, first, others, out

    lines = [line(f"{n_known} intents known")]
    before = 0
    for n in examples:
        new = train.of(held_out).some_of_each(before, n)
        model.partial_fit(new.X, new.y)
        lines.append(line(f"the others named, {n} examples each"))
        before = n
    return lines


def judged(model: OpenWorldRecognizer, questions: Questions) -> str:
    """Return right answers and wrong names in %; right is the intent where it is known, or else unknown."""
    expected = np.where(np.isin(questions.y, model.classes_), questions.y, model.unknown_label_)
    answers = model.predict(questions.X)
    right = answers == expected
    misnamed = ~right & (answers != model.unknown_label_)
    return f"{100 * right.mean():.1f} / {100 * misnamed.mean():.1f}"


if __name__ == "__main__":
    main()
