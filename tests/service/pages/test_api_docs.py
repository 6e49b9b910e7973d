"""The documentation of the API."""

from __future__ import annotations

from typing import Any

from openworld.service.pages.api_docs import groups_of


def test_every_operation_is_on_the_page(client: Any) -> None:
    schema = client.get("/v1/openapi.json").json()
    text = client.get("/docs").text
    operations = [o for group in groups_of(schema).values() for o in group]
    assert len(operations) == sum(len(methods) for methods in schema["paths"].values())
    assert all(f'id="{operation.id}"' in text for operation in operations)
    assert "<script src=" in text  # its own scripts alone
    assert "https://" not in text


def test_an_operation_says_what_it_takes_and_gives(client: Any) -> None:
    operations = {
        o.id: o for group in groups_of(client.get("/v1/openapi.json").json()).values() for o in group
    }
    label = operations["label"]
    assert (label.method, label.path, label.body_type) == ("POST", "/v1/label", "application/json")
    assert {field.name: field.required for field in label.body}["label"]
    assert "event_id" in [field.name for field in label.answer_fields]
    assert "409" in [code for code, _ in label.errors]
    pool = {field.name: field.kind for field in operations["pool"].parameters}
    assert pool["limit"] == "whole number"
    assert pool["cluster"] == "whole number or null"
    assert operations["recognize_images"].example.startswith("curl -s -X POST ORIGIN/v1/recognize/images")
