"""What the unknown pool holds: its clusters, a map of it, and hints for the person who names them.

Pure functions of arrays: samples come as vectors in metric space with their ids, and nothing is stored.
"""

from openworld.discovery.clusters import Cancelled, Cluster, Clustering, find_clusters, look_first
from openworld.discovery.projection import PoolMap, map_2d
from openworld.discovery.suggestions import near_duplicate_names

__all__ = [
    "Cancelled",
    "Cluster",
    "Clustering",
    "PoolMap",
    "find_clusters",
    "look_first",
    "map_2d",
    "near_duplicate_names",
]
