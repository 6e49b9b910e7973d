from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from openworld.discovery.members import by_distance_to_medoid, diverse


def test_the_medoid_of_a_very_large_cluster_is_as_good_as_the_exact_one():
    members = np.random.default_rng(0).normal(size=(1_500, 8))
    order, distances = by_distance_to_medoid(members)
    sums = cdist(members, members).sum(axis=1)
    assert order[0] == np.argmin(sums)
    np.testing.assert_allclose(distances, np.sort(cdist(members[order[:1]], members)[0]), atol=1e-6)


def test_diverse_members_are_each_the_farthest_from_those_before():
    members = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    members /= np.linalg.norm(members, axis=1, keepdims=True)
    chosen = diverse(members)
    assert chosen[0] == 0
    assert len(chosen) == 12
    typical = members[:32]
    for count in range(1, 12):
        similarity = (typical @ members[chosen[:count]].T).max(axis=1)
        assert similarity[chosen[count]] == similarity.min()
