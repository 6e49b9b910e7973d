"""Storage that grows, which the statistics of the classes share with the index of their means."""

from openworld.index.growing_rows import GrowingRows

__all__ = ["GrowingRows"]
