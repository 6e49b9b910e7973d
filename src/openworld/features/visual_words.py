"""Visual words: histograms of typical descriptors in a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from openworld.features.dense_sift import DenseSIFT
from openworld.features.pictures import Descriptor, Descriptors

Normalization = Literal["none", "l1", "l2", "hellinger"]

_AT_ONCE = 2048  # descriptors compared with all words at once; bounds memory


class VisualWords(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Histograms of visual words.

    `fit` finds the words by k-means among the descriptors of the pictures it is given; in an open world
    these are the pictures of the starting classes only. Classes that come later use the same words.

    Parameters
    ----------
    descriptor : object with a method `descriptors`, optional
        By default `DenseSIFT()`.
    n_words : int, default=1000
        The paper has 1000 words of dense SIFT; in its supplement 300 of dense SIFT and of HOG.
    normalization : {"none", "l1", "l2", "hellinger"}, default="l1"
        "none": counts; "l1": shares, which sum to 1; "l2": counts scaled to length 1; "hellinger": the
        square roots of the shares, also of length 1.
    max_descriptors : int, default=100_000
        Size of the random sample of descriptors in which the words are found, about equally many of each
        picture.
    max_iter : int, default=100
        Maximum number of passes of k-means over the sample.
    random_state : int, RandomState or None, default=None
        Determines the sample and the initialization of k-means.

    Attributes
    ----------
    words_ : float32 array of shape (n_words, d)

    Notes
    -----
    A picture too small for a single descriptor has a histogram of zeros, in every normalization. The
    histogram of a picture does not depend on the other pictures in the call.

    Examples
    --------
    >>> import numpy as np
    >>> from openworld.features import HOG, VisualWords
    >>> pictures = np.random.default_rng(0).integers(0, 256, (6, 40, 40))
    >>> words = VisualWords(HOG(), n_words=5, random_state=0).fit(pictures)
    >>> words.transform(pictures).shape
    (6, 5)
    """

    words_: Descriptors
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "descriptor": [HasMethods("descriptors"), None],
        "n_words": [Interval(Integral, 1, None, closed="left")],
        "normalization": [StrOptions({"none", "l1", "l2", "hellinger"})],
        "max_descriptors": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        descriptor: Descriptor | None = None,
        n_words: int = 1000,
        *,
        normalization: Normalization = "l1",
        max_descriptors: int = 100_000,
        max_iter: int = 100,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.descriptor = descriptor
        self.n_words = n_words
        self.normalization = normalization
        self.max_descriptors = max_descriptors
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, pictures: Sequence[ArrayLike] | NDArray[Any], y: Any = None) -> VisualWords:
        """Find the words.

        Parameters
        ----------
        pictures : sequence of arrays of shape (H, W) or (H, W, 3)
            Of any sizes, but all gray or all RGB.
        y : ignored

        Raises
        ------
        ValueError
            If a parameter is out of its range, or the pictures have fewer descriptors than words.
        """
        self._validate_params()
        random = check_random_state(self.random_state)
        sample = self._sample(pictures, random)
        if len(sample) < self.n_words:
            raise ValueError(f"The pictures have {len(sample)} descriptors, fewer than {self.n_words} words.")
        means = MiniBatchKMeans(
            self.n_words,
            batch_size=max(1024, 2 * self.n_words),
            max_iter=self.max_iter,
            n_init=1,
            compute_labels=False,
            random_state=random,
        )
        self.words_ = means.fit(sample).cluster_centers_.astype(np.float32, copy=False)
        return self

    def transform(self, pictures: Sequence[ArrayLike] | NDArray[Any]) -> NDArray[np.float32]:
        """Return the histogram of each picture, float32 of shape (n_pictures, n_words)."""
        check_is_fitted(self)
        self._validate_params()
        histograms = np.zeros((len(pictures), len(self.words_)), dtype=np.float32)
        half_squares = np.einsum("ij,ij->i", self.words_, self.words_) / 2
        for i, descriptors in self._described(pictures, range(len(pictures)), self.words_.shape[1]):
            for start in range(0, len(descriptors), _AT_ONCE):
                words = _nearest(descriptors[start : start + _AT_ONCE], self.words_, half_squares)
                histograms[i] += np.bincount(words, minlength=len(self.words_))
        if self.normalization == "none" or not len(histograms):
            return histograms
        shares = np.asarray(normalize(histograms, norm="l2" if self.normalization == "l2" else "l1"))
        return np.sqrt(shares) if self.normalization == "hellinger" else shares

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return word0, word1, ..."""
        check_is_fitted(self)
        return np.array([f"word{i}" for i in range(len(self.words_))], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "words_")

    def _sample(self, pictures: Sequence[ArrayLike] | NDArray[Any], random: Any) -> Descriptors:
        """Draw descriptors, about equally many of each picture."""
        chosen = random.permutation(len(pictures))[: self.max_descriptors]
        parts: list[Descriptors] = []
        for _, descriptors in self._described(pictures, chosen.tolist()):
            quota = self.max_descriptors // len(chosen)
            if len(descriptors) > quota:
                descriptors = descriptors[random.permutation(len(descriptors))[:quota]]
            parts.append(descriptors)
        return np.concatenate(parts) if parts else np.empty((0, 0), dtype=np.float32)

    def _described(
        self,
        pictures: Sequence[ArrayLike] | NDArray[Any],
        order: Iterable[int],
        length: int | None = None,
    ) -> Iterator[tuple[int, Descriptors]]:
        """Yield the pictures that have descriptors, in the given order, and check their length."""
        descriptor = DenseSIFT() if self.descriptor is None else self.descriptor
        for i in order:
            descriptors = descriptor.descriptors(pictures[i])
            if not len(descriptors):
                continue
            length = length or descriptors.shape[1]
            if descriptors.shape[1] != length:
                raise ValueError(
                    f"The descriptors of picture {i} have {descriptors.shape[1]} values, those of the others "
                    f"{length}: give all pictures in gray, or all in color."
                )
            yield i, descriptors


def _nearest(descriptors: Descriptors, words: Descriptors, half_squares: Descriptors) -> NDArray[np.intp]:
    """Return the nearest word: ``|x - w|^2`` is least where ``x.w - |w|^2 / 2`` is most."""
    nearness: Descriptors = descriptors @ words.T
    nearness -= half_squares
    return np.asarray(nearness.argmax(axis=1))
