"""Fit a model to questions with known intents, and ask it about new questions.

    pip install "openworld[text]"
    python examples/text_intents.py questions.csv "how do I reset my password"     # columns text and label

Prints the intent of each question, or unknown, with the three nearest intents and their memberships.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from openworld import OpenWorldRecognizer
from openworld.features import load_extractor


def main(table: Path, questions: list[str]) -> None:
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    extractor = load_extractor(kind="text")
    model = OpenWorldRecognizer().fit(
        extractor.transform([row["text"] for row in rows]), [row["label"] for row in rows]
    )
    judgement = model.judge(extractor.transform(questions), 3)  # with the 3 nearest classes
    for i, question in enumerate(questions):
        nearest = ", ".join(
            f"{label} {membership:.2f}"
            for label, membership in zip(judgement.nearest[i], judgement.memberships[i], strict=True)
        )
        print(f"{judgement.labels[i]:20} {question}   (nearest: {nearest})")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
