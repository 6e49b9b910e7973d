"""Doing once what is asked twice: a request that is sent again under its key is answered as before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import TypeAdapter
from sqlalchemy import Connection

from openworld.service.results import Outcome, Refused
from openworld.service.scribe import Scribe
from openworld.store import requests
from openworld.store.requests import Answered

_OUTCOME = TypeAdapter(Outcome)


@dataclass(frozen=True)
class Asked:
    """One act of a request.

    Attributes
    ----------
    who, key : str
        A key is one person's: others may use the same.
    digest : str
        Of all that is asked, by which another request under the same key is told.
    part : int
        Which act of the request it is.
    """

    who: str
    key: str
    digest: str
    part: int = 0

    @property
    def id(self) -> str:
        """What tells this act from all others."""
        return hashlib.sha256(repr((self.who, self.key, self.part)).encode()).hexdigest()


class Once:
    """Keeps answers in the database for a day; that to an act in its transaction, so none is there alone."""

    def __init__(self, scribe: Scribe) -> None:
        self._scribe, self._database = scribe, scribe.database

    def do(self, asked: Asked, act: Callable[[], Outcome]) -> Outcome:
        """Do an act, or return what it did when it was asked for before; what was refused is tried again."""

        def keep(connection: Connection, outcome: Outcome) -> None:
            answer = _OUTCOME.dump_json(outcome).decode()
            requests.keep(connection, asked.id, Answered(asked.digest, answer))

        with self._scribe.acting():
            before = self.answer(asked)
            if before is not None:
                return _OUTCOME.validate_json(before)
            self._scribe.beside = keep
            try:
                outcome = act()
            finally:
                self._scribe.beside = None
            if outcome.event_id is None:  # there was nothing to do, and shall not be when it is asked again
                with self._database.write() as connection:
                    keep(connection, outcome)
            return outcome

    def answer(self, asked: Asked) -> str | None:
        """Return what was answered before, as JSON; refuse what is not the same as before."""
        with self._database.read() as connection:
            found = requests.find(connection, asked.id)
        if found is not None and found.digest != asked.digest:
            raise Refused(
                f"The Idempotency-Key {asked.key!r} came before with another request: give each its own."
            )
        return None if found is None else found.answer

    def keep(self, asked: Asked, answer: str) -> None:
        """Keep the answer to what is not an act, unless it was kept meanwhile."""
        with self._database.write() as connection:
            if requests.find(connection, asked.id) is None:
                requests.keep(connection, asked.id, Answered(asked.digest, answer))
