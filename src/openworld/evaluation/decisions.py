"""The decisions of a recognizer on test samples of known and of unknown classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]

REJECTED = -1


@dataclass(frozen=True, eq=False)
class Decisions:
    """True classes and decisions for N known and N' unknown test samples.

    Make it with :meth:`of`, which checks the labels. Inside, a class is its position among the known
    classes and "unknown" is -1, so that labels of every type cost the same.

    Attributes
    ----------
    known_true : ndarray of shape (N,)
        The class of each test sample of a known class: 0 .. n_classes - 1.
    known_pred : ndarray of shape (N,)
        What was decided for it: a class, or -1 where it was rejected as unknown.
    unknown_pred : ndarray of shape (N',)
        What was decided for each test sample of an unknown class: a class, or -1.
    n_classes : int
        How many classes the recognizer knows.
    """

    known_true: IntArray
    known_pred: IntArray
    unknown_pred: IntArray
    n_classes: int

    @classmethod
    def of(
        cls,
        y_true: npt.ArrayLike,
        y_pred: npt.ArrayLike,
        classes: npt.ArrayLike,
        unknown_label: int | str | np.generic,
    ) -> Decisions:
        """Sort test samples into known and unknown ones and check every label.

        Parameters
        ----------
        y_true : array-like of shape (N + N',)
            True labels. A sample whose label is not in `classes` is a sample of an unknown class,
            whatever that label is.
        y_pred : array-like of shape (N + N',)
            Decisions: one of `classes`, or `unknown_label`. Anything else is refused.
        classes : array-like of shape (n_classes,)
            The classes the recognizer knows, in any order, such as its ``classes_``.
        unknown_label : int or str
            The recognizer's label for unknown; never one of `classes`.

        Raises
        ------
        ValueError
            If the lengths differ, there are no samples or no classes, a class is named twice, labels
            are not all numbers or all text (then nothing would match), a label is NaN,
            `unknown_label` is one of `classes`, or a decision is neither a class nor `unknown_label`.
        """
        known = _labels("classes", classes)
        true, pred = _labels("y_true", y_true), _labels("y_pred", y_pred)
        unknown = _labels("unknown_label", np.array([unknown_label]))
        if len({_is_text(labels) for labels in (known, true, pred, unknown)}) != 1:
            raise ValueError(
                "y_true, y_pred, classes and unknown_label must be all numbers or all text, got dtypes "
                f"{true.dtype}, {pred.dtype}, {known.dtype} and {unknown.dtype}"
            )
        if true.size != pred.size:
            raise ValueError(f"y_true has {true.size} samples, y_pred has {pred.size}")
        known.sort()
        if np.any(known[1:] == known[:-1]):
            raise ValueError("classes must not name a class twice")
        if _positions(unknown, known)[0] != REJECTED:
            raise ValueError(f"unknown_label {unknown_label!r} must not be one of classes")

        true_position, pred_position = _positions(true, known), _positions(pred, known)
        stray = (pred_position == REJECTED) & (pred != unknown[0])
        if np.any(stray):
            raise ValueError(
                f"y_pred holds {pred[stray][0].item()!r}, which is neither a class nor unknown_label"
            )
        is_known = true_position != REJECTED
        return cls(true_position[is_known], pred_position[is_known], pred_position[~is_known], known.size)

    @property
    def known_correct(self) -> BoolArray:
        """Which known samples were given their own class, of shape (N,)."""
        correct: BoolArray = self.known_true == self.known_pred
        return correct

    @property
    def known_rejected(self) -> BoolArray:
        """Which known samples were rejected as unknown, of shape (N,)."""
        rejected: BoolArray = self.known_pred == REJECTED
        return rejected

    @property
    def unknown_rejected(self) -> BoolArray:
        """Which unknown samples were rejected as unknown, of shape (N',)."""
        rejected: BoolArray = self.unknown_pred == REJECTED
        return rejected


def _labels(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return a copy of `values` as a one-dimensional array of numbers or of text."""
    labels = np.array(values)
    if labels.dtype == object:
        labels = np.array(labels.tolist())
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError(f"{name} must be one-dimensional and not empty, got shape {labels.shape}")
    if labels.dtype.kind not in "biufU":
        raise ValueError(f"{name} must be numbers or text, got dtype {labels.dtype}")
    if labels.dtype.kind == "f" and np.any(np.isnan(labels)):
        raise ValueError(f"{name} must not hold NaN")
    return labels


def _is_text(labels: npt.NDArray[Any]) -> bool:
    return labels.dtype.kind == "U"


def _positions(labels: npt.NDArray[Any], sorted_classes: npt.NDArray[Any]) -> IntArray:
    """Return the position of each label in `sorted_classes`, -1 where it is not one of them."""
    position = np.searchsorted(sorted_classes, labels)
    position[position == sorted_classes.size] = 0
    return np.where(sorted_classes[position] == labels, position, REJECTED)
