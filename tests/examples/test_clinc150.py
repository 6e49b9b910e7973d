"""The text example, on questions made here."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pytest

PATH = Path(__file__).parents[2] / "examples" / "clinc150.py"
WORDS = {
    "weather": ("rain", "sun", "snow", "wind"),
    "money": ("bank", "loan", "cash", "rent"),
    "food": ("pizza", "soup", "bread", "salad"),
    "music": ("song", "album", "singer", "band"),
    "travel": ("flight", "hotel", "train", "visa"),
    "health": ("doctor", "fever", "pill", "cough"),
}


class Letters:
    """How often each letter occurs: few features, so that the test is fast."""

    def transform(self, batch: list[str]) -> Any:
        return np.array([[text.count(letter) for letter in ascii_lowercase] for text in batch], np.float32)


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(PATH))


def write_questions(folder: Path) -> Path:
    path = folder / "clinc150.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["text", "label", "split"])
        for label, words in WORDS.items():
            for i, word in enumerate(words * 3):
                table.writerow([f"{word} {words[i % 3]} {words[(i + 1) % 4]}", label, "train"])
            table.writerow([f"the {words[0]} or the {words[1]}", label, "test"])
            table.writerow(["not used", label, "val"])
        table.writerow(["purple elephants", "oos", "oos_test"])
        table.writerow(["not used either", "oos", "oos_train"])
    return path


def test_training_and_test_questions_are_those_of_the_file(example: dict[str, Any], tmp_path: Path) -> None:
    train, test = example["read"](write_questions(tmp_path), Letters())
    assert train.X.shape == (72, 26)
    assert sorted(set(train.y)) == sorted(WORDS)
    assert sorted(test.y) == sorted([*WORDS, "oos"])


def test_some_of_each_takes_places_within_each_intent(example: dict[str, Any]) -> None:
    y = np.array(["a", "b", "a", "b", "a", "c"])
    some = example["Questions"](np.arange(6)[:, None], y).some_of_each(1, 3)
    assert some.X.ravel().tolist() == [2, 4, 3]
    assert some.y.tolist() == ["a", "a", "b"]


def test_a_line_for_each_stage_with_shares_that_fit(example: dict[str, Any], tmp_path: Path) -> None:
    train, test = example["read"](write_questions(tmp_path), Letters())
    lines = example["stages"](train, test, n_known=4, examples=(4, 12))
    assert [line[0] for line in lines] == [
        "4 intents known",
        "the others named, 4 examples each",
        "the others named, 12 examples each",
    ]
    for _, *cells in lines:
        shares = [tuple(map(float, cell.split(" / "))) for cell in cells]
        assert all(0 <= right <= right + misnamed <= 100 for right, misnamed in shares)
    for cell in (lines[0][2], lines[0][3]):  # of the unknown, what is not rejected is misnamed
        assert sum(map(float, cell.split(" / "))) == 100


def test_a_question_of_a_new_intent_must_be_called_unknown(example: dict[str, Any]) -> None:
    class Known:
        classes_ = np.array(["a", "b"])
        unknown_label_ = "unknown"

        def predict(self, X: Any) -> Any:
            return np.array(["a", "b", "unknown", "unknown", "a"])

    questions = example["Questions"](np.zeros((5, 1)), np.array(["a", "a", "b", "c", "c"]))
    assert example["judged"](Known(), questions) == "40.0 / 40.0"


def test_without_the_data_it_says_what_is_needed(
    example: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENWORLD_DATA", raising=False)
    with pytest.raises(SystemExit, match=r"clinc150\.csv .* OPENWORLD_DATA"):
        example["main"]()
