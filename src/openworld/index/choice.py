"""Choice of the index by the number of means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openworld.index.approximate import ApproximateIndex
from openworld.index.exact import ExactIndex
from openworld.index.inverted_lists import Training, load_faiss
from openworld.index.protocol import Index

IndexKind = Literal["auto", "exact", "approximate"]

# From about this many means, approximate search is worth its training; see docs/scale.md.
APPROXIMATE_FROM = 50_000


def make_index(
    kind: IndexKind,
    means: NDArray[np.float64],
    origin: NDArray[np.float64] | None = None,
    names: Sequence[Any] | None = None,
    training: Training | None = None,
) -> Index:
    """Create an index of the given kind.

    Parameters
    ----------
    kind : {"auto", "exact", "approximate"}
        "auto" is approximate for 50,000 means or more, if faiss is installed.
    means, origin, names
        As for `ExactIndex`.
    training : Training, optional
        The saved training of an approximate index.

    Raises
    ------
    ImportError
        If the kind is "approximate" and faiss is not installed.
    """
    if is_approximate(kind, len(means)):
        return ApproximateIndex(means, origin, names, training)
    return ExactIndex(means, origin, names)


def is_approximate(kind: IndexKind, n_means: int) -> bool:
    """Return whether an index of this kind with `n_means` means is approximate."""
    if kind not in ("auto", "exact", "approximate"):
        raise ValueError(f'index must be "auto", "exact" or "approximate"; got {kind!r}.')
    return kind == "approximate" or (kind == "auto" and n_means >= APPROXIMATE_FROM and _has_faiss())


def _has_faiss() -> bool:
    try:
        load_faiss()
    except ImportError:
        return False
    return True
