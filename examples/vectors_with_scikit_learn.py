"""Use OpenWorldRecognizer in a scikit-learn pipeline, at two operating points.

    python examples/vectors_with_scikit_learn.py

The model is fitted to the digits 0 to 7. In the test data 8 and 9 are unknown: the right answer is -1.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openworld import KnownRecall, OpenWorldRecognizer


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    known = y_train < 8  # the digits 8 and 9 are not in the training data
    for name, recognizer in {
        "least open-world error": OpenWorldRecognizer(),
        "95 % of the known accepted": OpenWorldRecognizer(KnownRecall(0.95)),
    }.items():
        model = make_pipeline(StandardScaler(), recognizer).fit(X_train[known], y_train[known])
        answers = model.predict(X_test)
        of_known = y_test < 8
        print(
            f"{name:28} known right {np.mean((answers == y_test)[of_known]):.3f}   "
            f"unknown rejected {np.mean(answers[~of_known] == -1):.3f}"
        )


if __name__ == "__main__":
    main()
