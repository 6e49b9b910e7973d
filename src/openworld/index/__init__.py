"""Nearest-mean search: given projected samples, which class means are nearest, and how far."""

from openworld.index.approximate import ApproximateIndex
from openworld.index.choice import IndexKind, make_index
from openworld.index.exact import ExactIndex, midst
from openworld.index.inverted_lists import Training
from openworld.index.protocol import Index

__all__ = ["ApproximateIndex", "ExactIndex", "Index", "IndexKind", "Training", "make_index", "midst"]
