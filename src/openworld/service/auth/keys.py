"""API keys: create, check, list, revoke."""

from __future__ import annotations

from typing import get_args

from sqlalchemy.exc import IntegrityError

from openworld.service.validation import Conflict, NotFound, Refused, check_name
from openworld.store import Database, keys
from openworld.store.records import Key, Role


class ApiKeys:
    """The API keys of a database; no open world is needed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, role: Role) -> str:
        """Make a key and return its secret."""
        name = check_name(name, "The name of a key")
        if role not in get_args(Role):
            raise Refused(f"A role is one of {', '.join(get_args(Role))}; got {role!r}.")
        try:
            with self._database.write() as connection:
                return keys.create_key(connection, name, role)
        except IntegrityError as error:
            raise Conflict(f"There is a key named {name!r} already, or was: choose another name.") from error

    def check(self, secret: str) -> Key | None:
        """Return the key of a secret, unless there is none or it was revoked."""
        with self._database.read() as connection:
            return keys.find_key(connection, secret)

    def all(self) -> list[Key]:
        """List keys by name."""
        with self._database.read() as connection:
            return keys.key_list(connection)

    def revoke(self, name: str) -> None:
        """Make a key useless."""
        with self._database.write() as connection:
            revoked = keys.revoke_key(connection, name)
        if not revoked:
            raise NotFound(f"There is no key {name!r} to revoke.")
