"""MkDocs hook: writes the reference pages that are made from the code itself."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those in docs/."""
    pages = {
        "command-line.md": command_line,
        "http-api.md": http_api,
        "changelog.md": lambda: copied("CHANGELOG.md"),
        "contributing.md": lambda: copied("CONTRIBUTING.md"),
        "security.md": lambda: copied("SECURITY.md"),
    }
    for name, page in pages.items():
        files.append(File.generated(config, name, content=page()))
    return files


def copied(name: str) -> str:
    """Return a page from the root of the project, with its links to docs/ made local."""
    return (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")


def command_line() -> str:
    """Return the help of every command, as `openworld --help` prints it, with its examples as code."""
    import typer
    from typer.cli import get_docs_for_click

    from openworld.cli.app import app

    command = typer.main.get_command(app)
    for one in command.commands.values():  # the list of commands would cut their first sentences short
        one.short_help = (one.help or "").partition("\n\n")[0]
    context = typer.Context(command, info_name="openworld")
    page = get_docs_for_click(obj=command, ctx=context, name="openworld", title="Command line")
    return re.sub(r"(?m)^([^`\n]+: )(openworld .+)$", r"\1`\2`", page)


def http_api() -> str:
    """Return the endpoints, their parameters and answers, from the OpenAPI description."""
    document = openapi()
    lines = [
        "# HTTP API",
        "",
        "Made from the OpenAPI description that a running service has at `/v1/openapi.json`. "
        "[The service](service.md) explains what the endpoints are for.",
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            lines += list(_operation(method, path, operation, document))
    return "\n".join(lines)


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description of the service with a small model."""
    import numpy as np

    from openworld import EuclideanMetric, NearestNonOutlier
    from openworld.service.app import create_app
    from openworld.service.settings import ServiceSettings
    from openworld.service.world import World

    model = NearestNonOutlier(EuclideanMetric(), tau=1.0).fit(np.eye(4), ["a", "a", "b", "b"])
    with tempfile.TemporaryDirectory() as folder, World.open(f"sqlite:///{folder}/world.db", model) as world:
        return json.loads(json.dumps(create_app(world, ServiceSettings()).openapi()))


def _operation(method: str, path: str, operation: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    yield f"\n## `{method.upper()} {path}`\n"
    yield operation.get("description", operation.get("summary", ""))
    parameters = operation.get("parameters", [])
    if parameters:
        yield "\n| parameter | in | type | required |\n|---|---|---|---|"
        for parameter in parameters:
            required = "yes" if parameter.get("required") else ""
            kind = _type(parameter.get("schema", {}))
            yield f"| `{parameter['name']}` | {parameter['in']} | {kind} | {required} |"
    for content, body in operation.get("requestBody", {}).get("content", {}).items():
        fields = _fields(body.get("schema", {}), document)
        if fields:
            yield f"\nBody (`{content}`):\n\n| field | type | required | default |\n|---|---|---|---|"
            yield from fields
    answers = ", ".join(f"{code} {answer['description']}" for code, answer in operation["responses"].items())
    yield f"\nAnswers: {answers}."


def _fields(schema: dict[str, Any], document: dict[str, Any]) -> list[str]:
    schema = _resolved(schema, document)
    return [
        f"| `{name}` | {_type(field)} | {'yes' if name in schema.get('required', ()) else ''} "
        f"| {'`' + json.dumps(field['default']) + '`' if 'default' in field else ''} |"
        for name, field in schema.get("properties", {}).items()
    ]


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    return document["components"]["schemas"][reference.rsplit("/", 1)[1]] if reference else schema


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "anyOf" in schema:
        return " or ".join(_type(part) for part in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("format", schema.get("type", "any")))
