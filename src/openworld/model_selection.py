"""Cross-validation for open-world recognition: folds that leave whole classes out of training."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import column_or_1d

from openworld.recognition.validation import rank_in_class

Indices = NDArray[np.intp]


class LeaveClassesOut(BaseEstimator):  # type: ignore[misc]
    """Cross-validator that leaves whole classes out of training, so that they are unknown in the test part.

    With scikit-learn's splitters every class is known in every fold, so a parameter search always prefers
    to reject less. Here each fold treats some random classes as unknown. The test part has a share of the
    samples of every class, known or unknown; the training part has the other samples of the known classes.

    Use it as `cv` with a scorer of `openworld.scorers`.

    Parameters
    ----------
    n_splits : int, default=5
    unknown_fraction : float, default=0.34
        Share of the classes that are unknown in each fold.
    test_fraction : float, default=0.25
        Share of each class's samples in the test part. At least one sample of a class stays in training, so a
        known class with a single sample is not tested.
    random_state : int, RandomState or None, default=0

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> from openworld import NearestNonOutlier, scorers
    >>> from openworld.model_selection import LeaveClassesOut
    >>> X, y = load_digits(return_X_y=True)
    >>> cv = LeaveClassesOut(n_splits=2)
    >>> cross_val_score(NearestNonOutlier(), X, y, cv=cv, scoring=scorers.neg_open_world_error).shape
    (2,)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_splits": [Interval(Integral, 1, None, closed="left")],
        "unknown_fraction": [Interval(Real, 0, 1, closed="neither")],
        "test_fraction": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_splits: int = 5,
        *,
        unknown_fraction: float = 0.34,
        test_fraction: float = 0.25,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_splits = n_splits
        self.unknown_fraction = unknown_fraction
        self.test_fraction = test_fraction
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def split(self, X: Any, y: ArrayLike, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the indices of training and test samples of each fold.

        Raises
        ------
        ValueError
            If there are fewer than three classes; at least two must be known and one unknown.
        """
        self._validate_params()
        classes, codes = np.unique(column_or_1d(y), return_inverse=True)
        if len(classes) < 3:
            raise ValueError(f"LeaveClassesOut needs at least 3 classes; got {len(classes)}.")
        random = check_random_state(self.random_state)
        n_unknown = int(np.clip(round(self.unknown_fraction * len(classes)), 1, len(classes) - 2))
        counts = np.bincount(codes)
        for _ in range(self.n_splits):
            is_unknown = np.zeros(len(classes), dtype=bool)
            is_unknown[random.permutation(len(classes))[:n_unknown]] = True
            most = np.where(is_unknown, counts, counts - 1)
            wanted = np.minimum(np.ceil(self.test_fraction * counts - 1e-9), most)
            tested = rank_in_class(codes, random.permutation(len(codes))) < wanted[codes]
            yield np.flatnonzero(~tested & ~is_unknown[codes]), np.flatnonzero(tested)
