"""Nearest-mean search: given projected samples, which class means are nearest, and how far."""

from openworld.index.exact import ExactIndex

__all__ = ["ExactIndex"]
