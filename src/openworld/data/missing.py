"""Missing feature values: raise an error, drop the sample, or use the mean of the column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.columns import Columns
from openworld.data.errors import DataError

_ROWS_AT_ONCE = 4096
_SHOWN = 5


def filled(
    place: object,
    X: NDArray[Any],
    columns: Columns,
    names: Sequence[str] | None,
    where: Sequence[str] | None,
) -> tuple[NDArray[np.bool_], NDArray[Any], list[str]]:
    """Handle missing values as `columns.missing` says.

    Parameters
    ----------
    place : path or part
        For errors.
    X : array of shape (n, D)
    columns : Columns
    names : sequence of str, optional
        Of the features.
    where : sequence of str, optional
        The location of each sample, for errors; by default its number.

    Returns
    -------
    kept : bool array of shape (n,)
    X : array of shape (n_kept, D)
    notes : list of str

    Raises
    ------
    DataError
        If a value is infinite, or if it is missing and `columns.missing` is "error".
    """
    bad = rows_not_finite(X)
    kept = np.ones(len(X), dtype=bool)
    if not len(bad):
        return kept, X, []
    for row in bad:
        column = int(np.argmax(~np.isfinite(X[row])))
        if columns.missing == "error" or np.isinf(X[row]).any():
            raise DataError(
                _missing_or_infinite(
                    place, X[row], column, names, where[row] if where else f"sample {row + 1:,}"
                )
            )
    if columns.missing == "drop":
        kept[bad] = False
        if not kept.any():
            raise DataError(f"{place}: every sample has a missing value, so --missing drop leaves none.")
        shown = ", ".join(where[row] if where else f"sample {row + 1}" for row in bad[:_SHOWN])
        more = ", ..." if len(bad) > _SHOWN else ""
        return kept, X[kept], [f"{place}: dropped {len(bad):,} samples with missing values ({shown}{more})."]
    return (
        kept,
        _with_means(place, X, columns, names),
        [f"{place}: replaced missing values by column means in {len(bad):,} samples."],
    )


def rows_not_finite(X: NDArray[Any]) -> NDArray[np.intp]:
    """Return the rows with a missing or infinite value. If there is none, one product shows it quickly."""
    if X.dtype.kind in "iub":
        return np.empty(0, dtype=np.intp)
    with np.errstate(over="ignore", invalid="ignore"):
        if X.flags.c_contiguous and np.isfinite(np.vdot(X, X)):
            return np.empty(0, dtype=np.intp)
    starts = range(0, len(X), _ROWS_AT_ONCE)
    blocks = [
        start + np.flatnonzero(~np.isfinite(X[start : start + _ROWS_AT_ONCE]).all(axis=1)) for start in starts
    ]
    return np.concatenate([np.empty(0, dtype=np.intp), *blocks])


def _missing_or_infinite(
    place: object, x: NDArray[Any], column: int, names: Sequence[str] | None, where: str
) -> str:
    feature = f'column "{names[column]}"' if names else f"feature number {column + 1}"
    if np.isnan(x[column]):
        return (
            f"{place}: {where}, {feature}: the value is missing. Use --missing drop to skip such samples, or "
            "--missing mean to use the mean of the column (options of openworld fit, learn and recognize)."
        )
    return f"{place}: {where}, {feature}: {x[column]} is not a finite number. Correct or remove it."


def _with_means(
    place: object, X: NDArray[Any], columns: Columns, names: Sequence[str] | None
) -> NDArray[np.float64]:
    if columns.means is not None:
        means = np.asarray(columns.means)
    else:
        with np.errstate(invalid="ignore"):
            counts = np.isfinite(X).sum(axis=0)
        if not counts.all():
            column = int(np.argmin(counts))
            feature = f'column "{names[column]}"' if names else f"feature number {column + 1}"
            raise DataError(f"{place}: {feature} has no values at all. Leave it out with --feature-columns.")
        means = np.nanmean(X, axis=0)
    return np.where(np.isnan(X), means, X)
