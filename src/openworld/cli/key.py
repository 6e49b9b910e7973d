"""`openworld key`: keys for people and programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openworld.cli.options import DatabaseOption, JsonOption

if TYPE_CHECKING:
    from openworld.service.auth import ApiKeys

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke the access keys of a database.")

NameArgument = Annotated[str, typer.Argument(help="Owner of the key, as shown in the history.")]


class RoleName(StrEnum):
    """The roles that a key can have."""

    viewer = "viewer"
    labeler = "labeler"
    admin = "admin"


@app.command()
def create(
    name: NameArgument,
    role: Annotated[
        RoleName,
        typer.Option(
            metavar="viewer|labeler|admin",
            help="A viewer can look, a labeler can also name samples, an admin can do everything.",
        ),
    ] = RoleName.labeler,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a key and print its secret. Only a hash is stored, so keep the secret.

    Example: openworld key create ann --role labeler --database sqlite:///animals.db
    """
    from openworld.cli.console import messages

    with _api_keys(database, create=True) as keys:
        secret = keys.create(name, role.value)
    if as_json:
        typer.echo(json.dumps({"name": name, "role": role.value, "secret": secret}))
        return
    messages.print(f"The key of {name} ({role.value}); it is shown only once:", markup=False)
    typer.echo(secret)


@app.command("list")
def list_keys(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the keys, without their secrets.

    Example: openworld key list --database sqlite:///animals.db
    """
    with _api_keys(database) as keys:
        found = list(keys.all())
        if as_json:
            typer.echo(json.dumps([_described(key) for key in found]))
            return
        for key in found:
            revoked = "" if key.revoked_at is None else f"  revoked {key.revoked_at:%Y-%m-%d}"
            typer.echo(f"{key.name}  {key.role}  created {key.created_at:%Y-%m-%d}{revoked}")


@app.command()
def revoke(name: NameArgument, database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Revoke a key. Running servers refuse it within ten seconds.

    Example: openworld key revoke ann --database sqlite:///animals.db
    """
    with _api_keys(database) as keys:
        keys.revoke(name)
    if as_json:
        typer.echo(json.dumps({"name": name, "revoked": True}))


def _described(key: Any) -> dict[str, str | None]:
    revoked = None if key.revoked_at is None else key.revoked_at.isoformat()
    return {"name": key.name, "role": key.role, "made": key.created_at.isoformat(), "revoked": revoked}


@contextmanager
def _api_keys(url: str | None, *, create: bool = False) -> Iterator[ApiKeys]:
    from openworld.cli.console import need, plain_errors

    need("sqlalchemy", "pydantic_settings", extra="service")
    from openworld.service.auth import ApiKeys
    from openworld.service.settings import load_settings
    from openworld.store import Database

    with plain_errors():
        database = Database(load_settings(database=url).database, create=create)
        try:
            yield ApiKeys(database)
        finally:
            database.close()
