"""What every recognizer does with training samples before it learns from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from openworld.recognition.labels import check_labels, check_unknown_label, default_unknown_label


def start_training(recognizer: Any, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Check the samples of the starting classes and settle what unknown is called.

    The samples keep their type, so that a large array of small integers is not copied. Sets
    `unknown_label_` and what scikit-learn keeps about the features.
    """
    samples, labels = _validate(recognizer, X, y, reset=True)
    classes = np.unique(labels)
    recognizer.unknown_label_ = (
        default_unknown_label(classes) if recognizer.unknown_label is None else recognizer.unknown_label
    )
    check_unknown_label(recognizer.unknown_label_, classes)
    return samples, labels


def continue_training(recognizer: Any, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Check further samples against what the recognizer was started with."""
    samples, labels = _validate(recognizer, X, y, reset=False)
    check_unknown_label(recognizer.unknown_label_, np.unique(labels))
    return samples, labels


def check_announced(y: ArrayLike, classes: ArrayLike | None) -> None:
    """Refuse labels outside `classes`, where scikit-learn gives such a list."""
    if classes is not None and not np.isin(np.unique(check_labels(y)), np.asarray(classes)).all():
        raise ValueError("y holds a label that is not in `classes`; leave `classes` out.")


def check_range(samples: NDArray[Any]) -> None:
    """Refuse values that float32 cannot hold."""
    if samples.dtype.kind == "f" and max(samples.max(), -samples.min()) > np.finfo(np.float32).max:
        raise ValueError(
            f"X holds values beyond {np.finfo(np.float32).max:.2g}, too large to learn from: look for wrong "
            "values in X."
        )


def as_float(X: NDArray[Any]) -> NDArray[Any]:
    """Return float64, or float32 for what float32 holds exactly."""
    return X.astype(np.float32 if np.can_cast(X.dtype, np.float32) else np.float64, copy=False)


@contextmanager
def unchanged_on_error(recognizer: Any) -> Iterator[None]:
    """Put every attribute back when learning fails: a bad batch leaves the model as it was."""
    before = dict(recognizer.__dict__)
    try:
        yield
    except BaseException:
        recognizer.__dict__.clear()
        recognizer.__dict__.update(before)
        raise


def _validate(
    recognizer: Any, X: ArrayLike, y: ArrayLike, *, reset: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    samples, labels = validate_data(recognizer, X, check_labels(y), reset=reset, dtype="numeric")
    return samples, labels
