"""Reservoir: a few samples of each class, chosen by hash, whatever the order and the batches they came in."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from openworld.recognition.adaptive.groups import ALONE, Grouping
from openworld.recognition.validation import as_key, rank_in_class

Floats = NDArray[np.floating[Any]]
Hashes = NDArray[np.uint64]

_ROWS_AT_ONCE = 16384
_LARGEST_HASH = 2**64 - 1


class Kept(NamedTuple):
    """A sample, the hash of its group, and how often it came with one."""

    sample: Floats
    group: int
    times: int


class Reservoir:
    """At most `size` samples of each class: those whose content has the smallest hash.

    With few classes each may keep more, up to `total` samples in all. With very many classes each keeps
    fewer, at least one, so that there are at most `most` in all.

    The hash stands for a random number that belongs to the sample, so the choice is a uniform sample of
    the distinct samples, the same whatever the order they came in; two reservoirs merge exactly. Samples
    are rounded to `dtype` first. A sample that comes again with a group is of that group, and how often it
    came with one is counted, as copies in a group say nothing new.
    """

    def __init__(
        self, size: int, total: int = 1200, dtype: DTypeLike = np.float32, most: int = 1_000_000
    ) -> None:
        self.size = size
        self.total = total
        self.most = most
        self.dtype = np.dtype(dtype)
        self._kept: dict[Hashable, dict[int, Kept]] = {}
        self._trimmed_to = total
        self._has_groups = False

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def add(
        self,
        samples: NDArray[Any],
        labels: NDArray[Any],
        groups: Hashes | None = None,
        times: NDArray[np.integer[Any]] | None = None,
    ) -> None:
        """Offer samples; each class keeps those with the smallest hashes.

        They may have the hashes of their groups, and how often each came in its group: by default once.
        """
        groups = np.full(len(samples), ALONE, dtype=np.uint64) if groups is None else groups
        times = (groups != ALONE).astype(np.int64) if times is None else times
        self._has_groups |= bool(np.any(groups != ALONE))
        keys, codes = np.unique(labels, return_inverse=True)
        names = keys.tolist()
        for name in names:  # what was kept is copied and not changed, so that it can be restored
            self._kept[name] = dict(self._kept.get(name, {}))
        self._trim(())
        for start in range(0, len(samples), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            some = np.ascontiguousarray(samples[rows], dtype=self.dtype)
            self._offer(some, names, codes[rows], groups[rows], times[rows])

    def _offer(
        self,
        some: Floats,
        names: list[Hashable],
        codes: NDArray[np.intp],
        groups: Hashes,
        times: NDArray[np.integer[Any]],
    ) -> None:
        """Add the samples that are among those with the smallest hashes."""
        hashes = row_hashes(some)
        limits = np.array([self._limit(name) for name in names], dtype=np.uint64)
        offered = np.flatnonzero(hashes <= limits[codes])
        offered = offered[np.lexsort((~groups[offered], hashes[offered], codes[offered]))]
        hashes, codes, groups = hashes[offered], codes[offered], groups[offered]
        new = np.ones(len(offered), dtype=bool)
        new[1:] = (codes[1:] != codes[:-1]) | (hashes[1:] != hashes[:-1])
        times = np.bincount(np.cumsum(new) - 1, times[offered]).astype(np.int64)
        offered, hashes, codes, groups = offered[new], hashes[new], codes[new], groups[new]
        present, starts, counts = np.unique(codes, return_index=True, return_counts=True)
        chosen = np.arange(len(codes)) - np.repeat(starts, counts) < self.per_class
        found = (a[chosen].tolist() for a in (codes, hashes, offered, groups, times))
        for code, digest, row, group, n in zip(*found, strict=True):
            kept = self._kept[names[code]]
            # A copy: the sample alone, not a view that keeps all the others.
            kept[digest] = _one(kept.get(digest), Kept(some[row].copy(), group, n))
        self._trim(names[code] for code in present.tolist())

    def _limit(self, label: Hashable) -> int:
        """Return the largest hash that a class still accepts."""
        kept = self._kept[label]
        return _LARGEST_HASH if len(kept) < self.per_class else next(reversed(kept))

    @property
    def per_class(self) -> int:
        """Number of samples that a class may keep now."""
        return self._per_class(len(self._kept))

    def _per_class(self, n_classes: int) -> int:
        """Return the number of samples that each class may keep if there are `n_classes`."""
        n_classes = max(n_classes, 1)
        return max(1, min(max(self.size, self.total // n_classes), self.most // n_classes))

    def _trim(self, changed: Iterable[Hashable]) -> None:
        """Keep the smallest hashes, in ascending order; of all classes if each may keep fewer than before."""
        fewer = self.per_class < self._trimmed_to
        self._trimmed_to = self.per_class
        for label in list(self._kept) if fewer else changed:
            kept = self._kept[label]
            self._kept[label] = {digest: kept[digest] for digest in sorted(kept)[: self._trimmed_to]}

    def restorer(self, labels: Iterable[Any]) -> Callable[[], None]:
        """Return a function that undoes the next change to these classes, even if it stopped halfway."""
        names = [as_key(label) for label in labels]
        trimmed_to, has_groups = self._trimmed_to, self._has_groups
        # While there are few classes, or very many, one more class may make all others keep fewer samples.
        fewer = self._per_class(len(self._kept) + len(names)) < trimmed_to
        changed = [*names, *self._kept] if fewer else names
        kept = {label: self._kept.get(label) for label in changed}

        def restore() -> None:
            self._trimmed_to, self._has_groups = trimmed_to, has_groups
            for label, samples in kept.items():
                if samples is None:
                    self._kept.pop(label, None)
                else:
                    self._kept[label] = samples

        return restore

    def merge_from(self, other: Reservoir) -> None:
        """Add the samples of another reservoir."""
        self._has_groups |= other._has_groups
        for label, kept in other._kept.items():
            self._kept[label] = _joined(self._kept.get(label, {}), kept)
        self._trim(other._kept)

    def forget(self, label: Any) -> None:
        """Drop the samples of a class."""
        self._kept.pop(as_key(label), None)

    def rename(self, old: Any, new: Any) -> None:
        """Move the samples of a class to another name."""
        self._kept[as_key(new)] = self._kept.pop(as_key(old))

    def merge(self, labels: Iterable[Any], into: Any) -> None:
        """Merge the samples of several classes."""
        pooled: dict[int, Kept] = {}
        for label in {as_key(label) for label in (*labels, into)}:
            pooled = _joined(pooled, self._kept.pop(label, {}))
        self._kept[as_key(into)] = pooled
        self._trim([as_key(into)])

    def samples(self, classes: NDArray[Any], per_class: int) -> tuple[Floats, NDArray[np.intp]]:
        """Return at most `per_class` samples of each class and their positions in `classes`."""
        found, codes = [], []
        for code, label in enumerate(classes):
            some = list(self._kept.get(as_key(label), {}).values())[:per_class]
            found += [kept.sample for kept in some]
            codes += [code] * len(some)
        return np.array(found, dtype=self.dtype), np.array(codes, dtype=np.intp)

    def groups(self, classes: NDArray[Any]) -> Hashes | None:
        """Return the hash of the group of every sample kept of some classes; None if none has a group."""
        if not self._has_groups:
            return None
        kept = (self._kept.get(as_key(label), {}).values() for label in classes)
        return np.array([one.group for of_class in kept for one in of_class], dtype=np.uint64)

    def times(self, classes: NDArray[Any]) -> NDArray[np.int64]:
        """Return how often every sample kept of some classes came with a group."""
        kept = (self._kept.get(as_key(label), {}).values() for label in classes)
        return np.array([one.times for of_class in kept for one in of_class], dtype=np.int64)

    def grouping(self, classes: NDArray[Any], per_class: int) -> Grouping | None:
        """Return which of the samples that `samples` returns are of one group; None if none has a group."""
        hashes = self.groups(classes)
        if hashes is None:
            return None
        sizes = [len(self._kept.get(as_key(label), {})) for label in classes]
        codes = np.repeat(np.arange(len(classes)), sizes)
        grouping = Grouping.of(hashes, codes, len(classes), self.times(classes))
        return grouping.some(rank_in_class(codes) < per_class)

    def empty(self) -> Reservoir:
        """Return a reservoir of the same kind without samples."""
        return Reservoir(self.size, self.total, self.dtype, self.most)

    def copy(self) -> Reservoir:
        """Return an independent copy; the samples themselves are shared, as they never change."""
        other = self.empty()
        other._kept = {label: dict(kept) for label, kept in self._kept.items()}
        other._trimmed_to, other._has_groups = self._trimmed_to, self._has_groups
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Return the content as a few arrays: pickling thousands of small ones is slow."""
        samples = [one.sample for kept in self._kept.values() for one in kept.values()]
        return {
            **vars(self),
            "_kept": {
                label: [(digest, one.group, one.times) for digest, one in kept.items()]
                for label, kept in self._kept.items()
            },
            "samples": np.array(samples, dtype=self.dtype),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        rows = iter(state.pop("samples"))
        self._kept = {
            label: {digest: Kept(next(rows).copy(), group, times) for digest, group, times in kept}
            for label, kept in state.pop("_kept").items()
        }
        vars(self).update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Reservoir:
        return self.copy()


def _one(first: Kept | None, second: Kept) -> Kept:
    """Return two records of the same sample as one, the same whichever comes first."""
    if first is None:
        return second
    return Kept(first.sample, max(first.group, second.group), first.times + second.times)


def _joined(first: dict[int, Kept], second: dict[int, Kept]) -> dict[int, Kept]:
    return first | {digest: _one(first.get(digest), one) for digest, one in second.items()}


def precise_enough(samples: NDArray[Any]) -> type[np.floating[Any]]:
    """Return float32, or float64 if rounding would lose differences between the samples."""
    if np.can_cast(samples.dtype, np.float32):
        return np.float32
    largest, spread = np.abs(samples).max(axis=0).astype(np.float64), samples.std(axis=0, dtype=np.float64)
    constant = spread <= 1e-12 * largest  # up to rounding
    blurred = np.spacing(largest.astype(np.float32)) > 1e-3 * spread
    return np.float64 if np.any(blurred & ~constant) else np.float32


def scrambled(numbers: NDArray[np.integer[Any]]) -> Hashes:
    """Return a 64-bit hash of each integer; different integers have different hashes (SplitMix64)."""
    bits = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def row_hashes(rows: NDArray[np.floating[Any]]) -> Hashes:
    """Return a hash of the bits of each row of a C-contiguous float32 or float64 table.

    Multilinear hashing: each 32-bit word is multiplied by its own 64-bit key, and the products are summed
    modulo 2^64 (Lemire and Kaser, Strongly universal string hashing is fast, 2014).
    """
    words = rows.view(np.uint32)
    keys = scrambled(np.arange(words.shape[1]))
    return scrambled(np.einsum("ij,j->i", words, keys))
