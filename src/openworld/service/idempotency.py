"""Idempotency keys: a request that is sent again under its key has its effect once, and the same answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import TypeAdapter
from sqlalchemy import Connection

from openworld.service.event_log import EventLog, EventOutcome
from openworld.service.validation import Refused
from openworld.store import idempotency
from openworld.store.idempotency import StoredAnswer

_OUTCOME = TypeAdapter(EventOutcome)


@dataclass(frozen=True)
class IdempotencyKey:
    """The key of one event of a request.

    Attributes
    ----------
    who, key : str
        Keys are per person: others may use the same.
    digest : str
        Of the request: another request under the same key is refused.
    part : int
        The position of the event in a request that appends several.
    """

    who: str
    key: str
    digest: str
    part: int = 0

    @property
    def id(self) -> str:
        """The id in the database."""
        return hashlib.sha256(repr((self.who, self.key, self.part)).encode()).hexdigest()


class IdempotencyStore:
    """Stores answers for a day; the answer to an event in the event's own transaction."""

    def __init__(self, log: EventLog) -> None:
        self._log, self._database = log, log.database

    def run(self, key: IdempotencyKey, append: Callable[[], EventOutcome]) -> EventOutcome:
        """Append an event, or return the outcome of the first time. A refused request may be run again."""

        def store(connection: Connection, outcome: EventOutcome) -> None:
            answer = _OUTCOME.dump_json(outcome).decode()
            idempotency.put(connection, key.id, StoredAnswer(key.digest, answer))

        with self._log.exclusive(in_transaction=store):
            before = self.find(key)
            if before is not None:
                return _OUTCOME.validate_json(before)
            outcome = append()
            if outcome.event_id is None:  # nothing was appended, so the answer has no transaction yet
                with self._database.write() as connection:
                    store(connection, outcome)
            return outcome

    def find(self, key: IdempotencyKey) -> str | None:
        """Return the stored answer as JSON; raise `Refused` where it answers another request."""
        with self._database.read() as connection:
            found = idempotency.find(connection, key.id)
        if found is not None and found.digest != key.digest:
            raise Refused(
                f"The Idempotency-Key {key.key!r} came before with another request: use a new key for each."
            )
        return None if found is None else found.answer

    def store(self, key: IdempotencyKey, answer: str) -> None:
        """Store the answer to a request that appends no event, unless there is one already."""
        with self._database.write() as connection:
            if idempotency.find(connection, key.id) is None:
                idempotency.put(connection, key.id, StoredAnswer(key.digest, answer))
