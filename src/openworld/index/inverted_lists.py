"""Inverted lists in faiss: vectors grouped by their nearest centroid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from openworld.index.growing_rows import GrowingRows
from openworld.index.protocol import Positions

Singles = NDArray[np.float32]
# Returns the vectors at given positions.
Vectors = Callable[[Any], Singles]

# For fewer than 20 samples faiss computes each one separately, so the results do not depend on the others.
_SAMPLES_AT_ONCE = 16


class Training(NamedTuple):
    """Centroids and list assignments of an approximate index, saved with a model.

    Attributes
    ----------
    centroids : array of shape (L, m)
    lists : array of shape (K,)
        The list of each vector.
    """

    centroids: Singles
    lists: NDArray[np.int32]


def load_faiss() -> Any:
    """Import faiss; the error says how to install it."""
    try:
        import faiss
    except ImportError as error:
        raise ImportError("Approximate search needs faiss: pip install openworld[scale]") from error
    return faiss


def flat(centroids: Singles) -> Any:
    """Return faiss's exact index of the centroids."""
    quantizer = load_faiss().IndexFlatL2(centroids.shape[1])
    quantizer.add(centroids)
    return quantizer


def members_of(lists: NDArray[np.int32], n_lists: int) -> list[NDArray[np.int64]]:
    """Return the positions of the vectors in each list."""
    order = np.argsort(lists, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(lists, minlength=n_lists))
    return np.split(order, ends[:-1])


class InvertedLists:
    """A faiss `IndexIVFFlat` whose ids are positions, with a hash table of the ids to support removal.

    Parameters
    ----------
    training : Training
    vectors : callable
        Returns the vectors at given positions.
    """

    def __init__(self, training: Training, vectors: Vectors) -> None:
        self._faiss = load_faiss()
        self.centroids = np.ascontiguousarray(training.centroids, dtype=np.float32)
        self._lists = GrowingRows(np.array(training.lists), np.int32)
        self._radii = np.zeros(len(self.centroids), dtype=np.float32)
        self._quantizer = flat(self.centroids)
        n_dimensions = self.centroids.shape[1]
        self._ivf = self._faiss.IndexIVFFlat(self._quantizer, n_dimensions, len(self.centroids))
        self._fill(vectors)

    def _fill(self, vectors: Vectors) -> None:
        """Fill one list after the other, so that faiss allocates no more than each needs."""
        lists, pointer = self._lists.rows, self._faiss.swig_ptr
        for i, members in enumerate(members_of(lists, len(self.centroids))):
            if len(members):
                seen = vectors(members)
                self._ivf.invlists.add_entries(
                    i, len(members), pointer(members), pointer(seen.view(np.uint8))
                )
                self._radii[i] = np.linalg.norm(seen - self.centroids[i], axis=1).max()
        self._ivf.ntotal = len(lists)
        self._ivf.set_direct_map_type(self._faiss.DirectMap.Hashtable)

    @property
    def training(self) -> Training:
        """The centroids and the current list of each vector."""
        return Training(self.centroids, self._lists.rows)

    def __len__(self) -> int:
        return len(self.centroids)

    def vectors(self, positions: Positions) -> Singles:
        """Return the vectors at the given positions."""
        return np.asarray(self._ivf.reconstruct_batch(positions), dtype=np.float32)

    # Python cannot copy the lists inside faiss, so a copy rebuilds them.
    def __reduce__(self) -> tuple[Any, ...]:
        return _filled, (self.training, self.vectors(np.arange(len(self._lists))))

    # -- changing -----------------------------------------------------------------------------------

    def add(self, vectors: Singles) -> None:
        """Append vectors at the end."""
        first = len(self._lists)
        lists = self._lists_for(vectors)
        self._lists.extend(lists)
        self._put(vectors, np.arange(first, first + len(vectors)), lists)

    def remove(self, position: int, last: Singles) -> None:
        """Remove one vector; the last one, passed as `last`, takes its position."""
        end = len(self._lists) - 1
        self._ivf.remove_ids(np.array([position, end] if position < end else [end]))
        if position < end:
            self._put(last, np.array([position]), self._lists.rows[end:])
        self._lists.remove(position)

    def replace(self, positions: Positions, vectors: Singles) -> None:
        """Replace the vectors at these positions, which must be distinct."""
        self._ivf.remove_ids(np.asarray(positions, dtype=np.int64))
        lists = self._lists_for(vectors)
        self._lists.rows[positions] = lists
        self._put(vectors, positions, lists)

    def restorer(self, positions: Positions) -> Callable[[], None]:
        """Return a function that undoes appended vectors, and replacement or removal of the given ones."""
        n, radii, rows = len(self._lists), self._radii.copy(), self._lists.restorer(positions)
        vectors = self.vectors(positions) if len(positions) else np.empty((0, self.centroids.shape[1]))

        def restore() -> None:
            appended = np.arange(n, len(self._lists))
            self._ivf.remove_ids(np.concatenate([positions, appended]).astype(np.int64))
            rows()
            self._radii = radii
            self._put(vectors.astype(np.float32), positions, self._lists.rows[positions])

        return restore

    def _lists_for(self, vectors: Singles) -> NDArray[np.int64]:
        """Return the lists of new vectors, and enlarge the radii of these lists to include them."""
        squared, lists = self.nearest_lists(vectors, 1)
        np.maximum.at(self._radii, lists[:, 0], np.sqrt(squared[:, 0]))
        return lists[:, 0]

    def _put(self, vectors: Singles, positions: NDArray[Any], lists: NDArray[Any]) -> None:
        ids, lists = positions.astype(np.int64), lists.astype(np.int64)
        vectors, pointer = np.ascontiguousarray(vectors), self._faiss.swig_ptr
        self._ivf.add_core(len(ids), pointer(vectors), pointer(ids), pointer(lists))

    # -- searching ----------------------------------------------------------------------------------

    def nearest_lists(self, vectors: Singles, n: int) -> tuple[Singles, NDArray[np.int64]]:
        """Return the n lists with the nearest centroids, and the squared distances to these."""
        squared = np.empty((len(vectors), n), dtype=np.float32)
        lists = np.empty((len(vectors), n), dtype=np.int64)
        for start in range(0, len(vectors), _SAMPLES_AT_ONCE):
            piece = slice(start, start + _SAMPLES_AT_ONCE)
            self._quantizer.search(vectors[piece], n, D=squared[piece], I=lists[piece])
        return squared, lists

    def beyond(self, squared: Singles, lists: NDArray[np.int64], reach: Singles) -> NDArray[np.bool_]:
        """Return which lists hold no vector within reach, by the triangle inequality."""
        nearest = np.sqrt(squared) - self._radii[lists]
        return np.asarray(nearest > 1.0001 * reach[:, np.newaxis])

    def search(
        self, vectors: Singles, squared: Singles, lists: NDArray[np.int64], k: int
    ) -> tuple[Singles, Positions]:
        """Return squared distances and positions of the k nearest vectors in the given lists.

        If fewer are found, the rest have position -1 and an infinite distance. List number -1 is skipped.
        """
        found = np.empty((len(vectors), k), dtype=np.float32)
        positions = np.empty((len(vectors), k), dtype=np.int64)
        squared, lists = np.ascontiguousarray(squared), np.ascontiguousarray(lists)
        pointers = map(self._faiss.swig_ptr, (vectors, lists, squared, found, positions))
        x, at, coarse, far, ids = pointers
        parameters = self._faiss.SearchParametersIVF(nprobe=lists.shape[1])
        self._ivf.search_preassigned_c(len(vectors), x, k, at, coarse, far, ids, False, parameters)
        found[positions < 0] = np.inf
        return found, positions


def _filled(training: Training, vectors: Singles) -> InvertedLists:
    return InvertedLists(training, vectors.__getitem__)
