"""Validation of samples and labels: a model has one kind of label, and no class has the unknown label."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import (
    _check_sample_weight,
    assert_all_finite,
    column_or_1d,
    validate_data,
)

_KINDS = {"b": "boolean", "i": "integer", "u": "integer", "f": "float", "U": "string", "S": "bytes"}
_DEFAULT_UNKNOWN: dict[str, int | float | str | bytes] = {
    "boolean": -1,
    "integer": -1,
    "float": -1.0,
    "string": "unknown",
    "bytes": b"unknown",
}


def _kind_of_value(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return "integer"  # of any size
    kind = _KINDS.get(np.asarray(value).dtype.kind)
    return kind if kind is not None else type(value).__name__


def label_kind(labels: Any) -> str:
    """Return the kind of the labels: boolean, integer, float, string or bytes.

    Raises
    ------
    TypeError
        If the labels are of several kinds, or of a kind that cannot be a class label.
    """
    # Lists are checked value by value, because as an array ["cat", 3] would silently become two strings.
    array = labels if isinstance(labels, np.ndarray) else np.asarray(labels)
    by_value = array.dtype.kind == "O" or isinstance(labels, list | tuple)
    if by_value:
        values: Sequence[Any] = labels if isinstance(labels, list | tuple) else array.ravel().tolist()
        kinds = sorted({_kind_of_value(value) for value in values})
    else:
        kinds = [_KINDS.get(array.dtype.kind, str(array.dtype))]
    if set(kinds) == {"float", "integer"}:
        kinds = ["float"]
    if len(kinds) > 1:
        raise TypeError(
            f"Unknown label type: mixed kinds ({', '.join(kinds)}). "
            "Give every label the same kind, for example all strings."
        )
    if kinds and kinds[0] not in _DEFAULT_UNKNOWN:
        raise TypeError(
            f"Unknown label type: {kinds[0]}. A class label must be an integer, a string or a boolean."
        )
    return kinds[0] if kinds else "integer"


def check_labels(y: Any) -> NDArray[Any]:
    """Return the labels as a one-dimensional array of a single kind, or raise an error."""
    kind = label_kind(y) if isinstance(y, list | tuple) and np.ndim(y) == 1 else None
    # Convert first: column_or_1d would turn pandas' nullable integers and booleans into floats.
    array = np.asarray(y)
    labels: NDArray[Any] = column_or_1d(array.astype(object) if array.dtype.kind == "T" else array, warn=True)
    kind = kind or label_kind(labels)
    if labels.dtype.kind == "O" and kind != "string":
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
        if not np.all(labels == np.floor(labels)):
            raise ValueError(
                "Unknown label type: continuous. A class label must be a whole number or a string, "
                "not a measured value."
            )
    # numpy may convert larger integers to floats, which cannot tell neighboring values apart.
    if kind == "integer" and labels.size and not _fits_int64(labels):
        raise ValueError("Integer labels must fit into a signed 64-bit integer. Use strings for larger ones.")
    return labels


def _fits_int64(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind in "iu" and bool(labels.max() <= np.iinfo(np.int64).max)


def as_key(label: Any) -> Hashable:
    """Return the label as a plain Python value, the form in which classes are stored."""
    key: Hashable = label.item() if isinstance(label, np.generic) else label
    return key


def as_array(keys: Sequence[Hashable]) -> NDArray[Any]:
    """Return stored labels as an array, strings as fixed-width text."""
    return np.array(list(keys)) if keys else np.empty(0, dtype=np.int64)


def default_unknown_label(labels: ArrayLike) -> int | float | str | bytes:
    """Return -1 for numbers and "unknown" for text."""
    return _DEFAULT_UNKNOWN[label_kind(labels)]


def check_unknown_label(unknown_label: Any, classes: NDArray[Any]) -> None:
    """Raise an error if the unknown label is a class, or is of another kind than the classes."""
    if np.ndim(unknown_label) != 0:
        raise TypeError(f"unknown_label must be a single label; got {unknown_label!r}.")
    kind, class_kind = label_kind([unknown_label]), label_kind(classes)
    if kind == "float" and np.isnan(unknown_label):
        raise ValueError("unknown_label cannot be NaN, because NaN does not equal itself.")
    if kind != class_kind and not {kind, class_kind} <= {"boolean", "integer", "float"}:
        raise TypeError(
            f"unknown_label={unknown_label!r} cannot be combined with {class_kind} class labels: "
            "use a string with string labels and a number with numbers."
        )
    if np.any(classes == unknown_label):
        raise ValueError(
            f"The class label {unknown_label!r} is the label that means unknown. Rename that class, or "
            "choose another unknown_label."
        )


def answers(classes: NDArray[Any], positions: NDArray[np.intp], unknown_label: Any) -> NDArray[Any]:
    """Turn positions in `classes` into labels; position -1 becomes the unknown label.

    The dtype always has room for the unknown label, so it does not depend on the samples.
    """
    if classes.dtype.kind == "b":
        classes = classes.astype(object)
    unknown = np.array([unknown_label], dtype=object if classes.dtype.kind == "O" else None)
    labels = np.concatenate([classes, unknown])
    return np.asarray(labels[positions])


def check_samples(recognizer: Any, X: ArrayLike) -> NDArray[Any]:
    """Validate samples to recognize.

    An array of finite floats needs none of scikit-learn's checks, which take as long as a sample does.
    """
    if (
        type(X) is np.ndarray
        and X.dtype.char in "fd"
        and X.ndim == 2
        and len(X)
        and X.shape[1] == recognizer.n_features_in_
        and not hasattr(recognizer, "feature_names_in_")
        and all_finite(X)
    ):
        return X
    samples: NDArray[Any] = validate_data(recognizer, X, reset=False, dtype="numeric")
    return samples


def all_finite(X: NDArray[Any]) -> bool:
    """Return whether an array has neither NaN nor infinity."""
    with np.errstate(over="ignore", invalid="ignore"):  # the sum of finite values may be infinite
        return bool(np.isfinite(X.sum()) or np.isfinite(X).all())


def start_training(
    recognizer: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Validate the samples of the starting classes and set `unknown_label_`.

    The samples keep their dtype, so that a large array of small integers is not copied. Also sets
    scikit-learn's attributes about the features, such as `n_features_in_`.
    """
    samples, labels = _validate(recognizer, X, y, sample_weight, reset=True)
    classes = np.unique(labels)
    recognizer.unknown_label_ = (
        default_unknown_label(classes) if recognizer.unknown_label is None else recognizer.unknown_label
    )
    _check_classes(recognizer, labels)
    return samples, labels


def _check_classes(recognizer: Any, labels: NDArray[Any]) -> None:
    classes = np.unique(labels)
    if getattr(recognizer, "learn_unknowns", False):
        classes = classes[classes != recognizer.unknown_label_]
    if len(classes):
        check_unknown_label(recognizer.unknown_label_, classes)


def continue_training(
    recognizer: Any,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Validate further samples for a recognizer that is already fitted."""
    samples, labels = _validate(recognizer, X, y, sample_weight, reset=False)
    _check_classes(recognizer, labels)
    return samples, labels


def check_announced(y: ArrayLike, classes: ArrayLike | None) -> None:
    """Raise an error if `classes` (an argument that scikit-learn may pass) lacks a label of y."""
    if classes is not None and not np.isin(np.unique(check_labels(y)), np.asarray(classes)).all():
        raise ValueError("y contains a label that is not in `classes`. `classes` is optional: leave it out.")


def check_range(samples: NDArray[Any]) -> None:
    """Raise an error if values exceed the range of float32."""
    if samples.dtype.kind == "f" and max(samples.max(), -samples.min()) > np.finfo(np.float32).max:
        raise ValueError(
            f"X contains values beyond {np.finfo(np.float32).max:.2g}, too large to learn from. Check X for "
            "wrong values."
        )


def stratified_draw(codes: NDArray[np.intp], fraction: float, order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Draw a share of the samples of each class, leaving at least one of each class.

    Parameters
    ----------
    codes : array of shape (n,)
        The class of each sample, as a number from 0.
    fraction : float
        The share, rounded up.
    order : array of shape (n,)
        A random permutation of the samples.

    Returns
    -------
    drawn : bool array of shape (n,)
    """
    counts = np.bincount(codes)
    wanted = np.minimum(np.ceil(fraction * counts - 1e-9), counts - 1)  # 0.07 * 100 > 7
    return np.asarray(rank_in_class(codes, order) < wanted[codes])


def rank_in_class(codes: NDArray[np.intp], order: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
    """Return, for each sample, how many samples of its class come before it, in the given order if any.

    With a random order, ``rank_in_class(codes, order) < wanted[codes]`` draws `wanted` samples of each class.
    (scikit-learn's stratified splitters draw shares of the whole and reject classes with a single sample.)
    """
    counts = np.bincount(codes)
    ranks = np.empty(len(codes), dtype=np.intp)
    order = np.arange(len(codes)) if order is None else order
    by_class = order[np.argsort(codes[order], kind="stable")]
    ranks[by_class] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks


def as_float(X: NDArray[Any]) -> NDArray[Any]:
    """Convert to float32 if that is exact for the dtype, otherwise to float64."""
    return X.astype(np.float32 if np.can_cast(X.dtype, np.float32) else np.float64, copy=False)


@contextmanager
def unchanged_on_error(recognizer: Any) -> Iterator[None]:
    """Restore all attributes of the recognizer if the block raises an error.

    This undoes assignments only; the block must not modify the attributes' values in place.
    """
    before = dict(vars(recognizer))
    try:
        yield
    except BaseException:
        vars(recognizer).clear()
        vars(recognizer).update(before)
        raise


def _validate(
    recognizer: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, *, reset: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    if issparse(X):
        raise TypeError(
            "Sparse data was passed, but dense data is required. Project it first, with scikit-learn's "
            "make_pipeline(SparseRandomProjection(n_components=1000, dense_output=True), ...)."
        )
    samples, labels = validate_data(recognizer, X, check_labels(y), reset=reset, dtype="numeric")
    return (samples, labels) if sample_weight is None else _repeated(samples, labels, sample_weight)


def _repeated(
    samples: NDArray[Any], labels: NDArray[Any], sample_weight: ArrayLike
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Repeat each sample as often as its weight says, so that means and calibration use the weights alike."""
    weights = _check_sample_weight(sample_weight, samples, ensure_non_negative=True)
    if not np.all(weights == np.floor(weights)):
        raise ValueError(
            "sample_weight must contain whole numbers: how often to count each sample, or 0 to ignore it."
        )
    times = weights.astype(np.intp)
    if not times.any():
        raise ValueError("sample_weight is 0 for every sample, so there is nothing to learn.")
    return np.repeat(samples, times, axis=0), np.repeat(labels, times)
