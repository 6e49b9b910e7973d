"""What the unknown pool holds: its clusters, a map of it, and hints for the person who names them.

Pure functions of arrays: samples come as vectors in the space of a recognizer with their ids, and nothing is
stored.
"""

from openworld.discovery.clusters import (
    ORDERS,
    Canceled,
    Cluster,
    Clustering,
    find_clusters,
    look_first,
    split,
)
from openworld.discovery.granularity import Granularity
from openworld.discovery.projection import PoolMap, map_2d
from openworld.discovery.space import KnownSamples, PoolSpace
from openworld.discovery.suggestions import near_duplicate_names

__all__ = [
    "ORDERS",
    "Canceled",
    "Cluster",
    "Clustering",
    "Granularity",
    "KnownSamples",
    "PoolMap",
    "PoolSpace",
    "find_clusters",
    "look_first",
    "map_2d",
    "near_duplicate_names",
    "split",
]
