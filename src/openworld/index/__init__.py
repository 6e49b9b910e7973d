"""Nearest-mean search: given projected samples, which class means are nearest, and how far."""

from openworld.index.approximate import ApproximateIndex
from openworld.index.candidates import candidates
from openworld.index.choice import IndexKind, is_approximate, make_index
from openworld.index.exact import ExactIndex, central_point
from openworld.index.inverted_lists import InvertedLists, Training
from openworld.index.protocol import Index
from openworld.index.training import train

__all__ = [
    "ApproximateIndex",
    "ExactIndex",
    "Index",
    "IndexKind",
    "InvertedLists",
    "Training",
    "candidates",
    "central_point",
    "is_approximate",
    "make_index",
    "train",
]
