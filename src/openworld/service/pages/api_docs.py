"""The documentation of the API, rendered from its OpenAPI schema: it needs no script and no other site."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from openworld.service.pages.page import page

router = APIRouter()

Schema = dict[str, Any]


@dataclass(frozen=True)
class Field:
    """A parameter of a request, or a field of a body."""

    name: str
    kind: str
    required: bool
    description: str


@dataclass(frozen=True)
class Operation:
    """A method of a path, in words and tables."""

    id: str
    method: str
    path: str
    description: str
    parameters: list[Field]
    body_type: str | None
    body: list[Field]
    answer: str
    answer_fields: list[Field]
    errors: list[tuple[str, str]]
    example: str


@router.get("/docs")
def docs(request: Request) -> HTMLResponse:
    """Show the API: every operation with parameters, body, answer and an example."""
    schema = request.app.openapi()
    return page(request, "docs.html", groups=groups_of(schema), description=schema["info"]["description"])


def groups_of(schema: Schema) -> dict[str, list[Operation]]:
    """Return the operations of an OpenAPI schema by their first tag."""
    found: dict[str, list[Operation]] = {}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            group = (operation.get("tags") or ["others"])[0]
            found.setdefault(group, []).append(_operation(method.upper(), path, operation, schema))
    return found


def _operation(method: str, path: str, operation: Schema, root: Schema) -> Operation:
    content = operation.get("requestBody", {}).get("content", {})
    body_type = next(iter(content), None)
    body = content[body_type].get("schema", {}) if body_type else {}
    success = next((code for code in operation["responses"] if code.startswith("2")), "200")
    answers = operation["responses"].get(success, {}).get("content", {})
    answer: Schema = answers[next(iter(answers))].get("schema", {}) if answers else {}
    return Operation(
        operation.get("operationId", f"{method}-{path}"),
        method,
        path,
        str(operation.get("description") or operation.get("summary", "")),
        [
            Field(p["name"], _kind(p.get("schema", {})), p.get("required", False), p.get("description", ""))
            for p in operation.get("parameters", [])
        ],
        body_type,
        _fields(body, root),
        _kind(answer) if answer else next(iter(answers), "nothing"),
        _fields(answer, root),
        [
            (code, r["description"])
            for code, r in operation["responses"].items()
            if code.startswith(("4", "5"))
        ],
        _example(method, path, body_type, _resolved(body, root)),
    )


def _resolved(schema: Schema, root: Schema) -> Schema:
    """Follow a reference; a definition beside the body, as pydantic writes it, is found too."""
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].rpartition("/")[2]
    found: Schema = root.get("components", {}).get("schemas", {}).get(name, {})
    return found


def _fields(schema: Schema, root: Schema) -> list[Field]:
    """Return the fields of an object, or of the objects in a list."""
    schema = _resolved(schema, root)
    if schema.get("type") == "array":
        schema = _resolved(schema.get("items", {}), root)
    required = schema.get("required", ())
    return [
        Field(name, _kind(value), name in required, value.get("description", ""))
        for name, value in schema.get("properties", {}).items()
    ]


def _kind(schema: Schema) -> str:
    """Say what a value is: "number", "list of text", "text or null"."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(part) for part in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("format") == "binary":
        return "file"
    kind = str(schema.get("type", "any value"))
    return {"string": "text", "integer": "whole number"}.get(kind, kind)


def _example(method: str, path: str, body_type: str | None, body: Schema) -> str:
    """Return the request as a command line."""
    lines = [f"curl -s {'' if method == 'GET' else f'-X {method} '}ORIGIN{path}"]
    if body_type == "application/json":
        example = json.dumps((body.get("examples") or [{}])[0])
        lines += ["-H 'Content-Type: application/json'", f"-d '{example}'"]
    elif body_type == "multipart/form-data":
        lines += ["-F files=@one.jpg"]
    elif body_type:
        lines += [f"-H 'Content-Type: {body_type}'", "--data-binary @samples"]
    return " \\\n     ".join(lines)
