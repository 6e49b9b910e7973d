"""The description of the API."""

from __future__ import annotations

import pytest


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'world.db'}"


@pytest.fixture
def schema(client):
    return client.get("/v1/openapi.json").json()


def _operations(schema):
    return [(path, operation) for path, methods in schema["paths"].items() for operation in methods.values()]


def test_pictures_are_binary(schema):
    found = [
        schema["components"]["schemas"][name]["properties"]["files"]["items"]
        for name in ("Body_recognize_images", "Body_learn_images")
    ]
    assert found == [{"type": "string", "format": "binary"}] * 2


def test_operation_ids_are_plain_and_unique(schema):
    ids = [operation["operationId"] for _, operation in _operations(schema)]
    assert len(set(ids)) == len(ids)
    assert {"recognize", "recognize_array", "learn_images", "merge_classes", "undo"} <= set(ids)
    assert not [name for name in ids if "v1" in name]


def test_operations_that_need_a_role_say_how_to_authenticate(schema):
    schemes = schema["components"]["securitySchemes"]
    assert schemes["bearer"]["scheme"] == "bearer"
    open_to_all = {path for path, operation in _operations(schema) if "security" not in operation}
    assert open_to_all == {"/health", "/ready", "/v1/session"}
    for path, operation in _operations(schema):
        if path not in open_to_all:
            assert [name for way in operation["security"] for name in way] == list(schemes), path
