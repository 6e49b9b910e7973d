from __future__ import annotations

import numpy as np
import pytest

from openworld.store.records import ClusterDraft, PoolFilter


def test_pages_follow_each_other_without_gap(client, unknown):
    first = client.get("/v1/pool", params={"limit": 4}).json()
    second = client.get("/v1/pool", params={"limit": 4, "after": first["next"]}).json()
    assert [sample["id"] for sample in first["samples"] + second["samples"]] == unknown
    assert second["next"] is None
    assert "feature" not in first["samples"][0]


def test_filters(client, unknown, world):
    client.post("/v1/dismiss", json={"sample_ids": unknown[:2]})
    world.clusters.replace([ClusterDraft(unknown[3:5], unknown[3])])
    cluster = client.get("/v1/clusters").json()["clusters"][0]["id"]
    nearest = client.get(f"/v1/samples/{unknown[2]}").json()["nearest"][0]["label"]

    def ids(**query):
        return [sample["id"] for sample in client.get("/v1/pool", params=query).json()["samples"]]

    assert ids() == unknown[2:]
    assert ids(state="dismissed") == unknown[:2]
    assert ids(all=True) == unknown
    assert ids(cluster=cluster) == unknown[3:5]
    assert ids(clustered=False) == [unknown[2], unknown[5]]
    assert unknown[2] in ids(nearest=nearest)
    assert ids(nearest="nothing") == []
    assert ids(newest_first=True) == unknown[:1:-1]
    assert ids(since="2000-01-01T00:00:00Z", until="2000-01-02T00:00:00Z") == []


@pytest.mark.parametrize(
    "query",
    [{"after": "x"}, {"limit": 0}, {"limit": 1001}, {"state": "lost"}, {"cluster": -1}, {"since": "?"}],
)
def test_wrong_filters_are_refused(client, query):
    found = client.get("/v1/pool", params=query)
    assert found.status_code == 422
    assert set(found.json()) == {"error", "detail", "hint"}


def test_what_is_not_there(client):
    for path in ("", "/similar", "/thumbnail"):
        found = client.get(f"/v1/samples/99{path}")
        assert found.status_code == 404
        assert "99" in found.json()["detail"]
    assert client.get("/v1/nothing").json()["error"] == "not found"
    assert client.put("/v1/pool").json()["error"] == "method not allowed"


def test_similar_samples_come_nearest_first(client, unknown, world):
    found = client.get(f"/v1/samples/{unknown[0]}/similar", params={"n": 3}).json()
    X = world.pool.features(unknown)
    order = np.argsort(np.linalg.norm(X - X[0], axis=1))[1:4]
    assert [near["sample"]["id"] for near in found] == [unknown[i] for i in order]
    assert [near["distance"] for near in found] == sorted(near["distance"] for near in found)


# -- clusters -------------------------------------------------------------------------------------


@pytest.fixture
def clusters(client, unknown, world):
    return world.clusters.replace(
        [ClusterDraft(unknown[:3], unknown[0]), ClusterDraft(unknown[3:], unknown[3])]
    )


def test_clusters_are_listed_and_found(client, clusters, unknown):
    found = client.get("/v1/clusters").json()
    assert [cluster["size"] for cluster in found["clusters"]] == [3, 3]
    assert (found["unclustered"], found["running"]) == (0, False)
    assert client.get(f"/v1/clusters/{clusters[1]}").json()["medoid"] == unknown[3]
    assert client.get("/v1/clusters/99").status_code == 404


def test_merging_and_splitting(client, clusters, unknown):
    merged = client.post("/v1/clusters/merge", json={"cluster_ids": clusters}).json()
    assert merged["kind"] == "merge_clusters"
    assert client.get(f"/v1/clusters/{clusters[0]}").json()["size"] == 6
    split = client.post(f"/v1/clusters/{clusters[0]}/split", json={"sample_ids": unknown[:2]})
    assert (split.json()["samples"], split.json()["new_version"]) == (2, False)
    assert client.get(f"/v1/clusters/{clusters[0]}").json()["size"] == 4
    assert client.post("/v1/clusters/merge", json={"cluster_ids": [clusters[0]]}).status_code == 422
    assert client.post("/v1/clusters/merge", json={"cluster_ids": [clusters[0], 99]}).status_code == 404
    wrong = client.post(f"/v1/clusters/{clusters[0]}/split", json={"sample_ids": [99]})
    assert wrong.status_code == 422


def test_a_cluster_can_be_split_without_saying_where(client, world, things):
    ids = {kind: list(world.recognize(things(kind, 8)).sample_ids) for kind in (5, 6)}
    (cluster,) = world.clusters.replace([ClusterDraft([*ids[5], *ids[6]], ids[5][0], None, 0.4, 0.9, True)])
    assert client.get(f"/v1/clusters/{cluster}").json()["loose"] is True
    assert client.post(f"/v1/clusters/{cluster}/split", json={}).json()["samples"] == 8
    sizes = {
        found["id"]: (found["size"], found["loose"])
        for found in client.get("/v1/clusters").json()["clusters"]
    }
    assert sorted(sizes.values()) == [(8, False), (8, True)]
    (left,) = (number for number in sizes if number != cluster)
    assert sorted(world.pool.ids(PoolFilter(cluster=left))) in (sorted(ids[5]), sorted(ids[6]))
    assert client.post("/v1/clusters/99/split", json={}).status_code == 404


def test_three_orders(client, world, unknown):
    big, pure, new = world.clusters.replace(
        [
            ClusterDraft(unknown[:3], unknown[0], None, 0.3, 0.5, True),
            ClusterDraft(unknown[3:5], unknown[3], None, 0.9, 0.1),
            ClusterDraft(unknown[5:], unknown[5], None, 0.95, 0.8),
        ]
    )

    def order(name):
        return [
            found["id"] for found in client.get("/v1/clusters", params={"order": name}).json()["clusters"]
        ]

    assert order("gain") == [pure, new, big]
    assert order("uncertain") == [big, pure, new]
    assert order("different") == [new, big, pure]
    assert client.get("/v1/clusters", params={"order": "size"}).status_code == 422


def test_granularity_is_kept_and_has_bounds(client):
    assert client.get("/v1/clusters").json()["finer"] == 0
    assert client.post("/v1/clusters/granularity", json={"finer": 2}).status_code == 202
    assert client.get("/v1/clusters").json()["finer"] == 2
    assert client.post("/v1/clusters/granularity", json={"finer": 9}).status_code == 422


def test_a_cluster_is_held_by_one_person(client, clusters, world, unknown):
    path = f"/v1/clusters/{clusters[0]}/lease"
    assert client.post(path).json()["holder"] == "local"
    assert client.delete(path).status_code == 204
    world.clusters.lease(clusters[0], "ann")
    found = client.post(path)
    assert found.status_code == 409
    assert "ann" in found.json()["detail"]
    assert client.post("/v1/label", json={"sample_ids": unknown[:1], "label": "x"}).status_code == 409
    assert client.post("/v1/clusters/99/lease").status_code == 404


def test_map_before_the_first_clustering_is_empty(client, unknown):
    assert client.get("/v1/clusters/map").json() == {"ids": [], "x": [], "y": [], "cluster": []}
    assert client.post("/v1/clusters/refresh").status_code == 202
