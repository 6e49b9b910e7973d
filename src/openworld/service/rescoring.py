"""Rescoring: after each new version the pool is judged again; what has become known leaves it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from time import perf_counter

from openworld.service.event_log import EventLog
from openworld.service.live_model import lower_priority
from openworld.service.notifications import Notification, Notifications
from openworld.service.settings import WorldSettings
from openworld.store import events, shared_values
from openworld.store.records import Sample
from openworld.store.samples import (
    Features,
    Verdict,
    features_of,
    find,
    judged_before,
    pool_after,
    update_verdicts,
)

_POLL_SECONDS = 0.2
_LATE_SECONDS = 10  # well above what following another server takes
_logger = logging.getLogger("openworld.service")


@dataclass(frozen=True)
class Rescored:
    """Counts of samples that left the pool and that returned to it when a version judged the whole pool.

    They include the versions since the whole pool was judged before.
    """

    model_version: int
    recognized: int
    returned: int


class Rescorer:
    """A thread that keeps the pool judged by the newest version, and writes snapshots when they are due.

    It judges a batch at a time and pauses as long as that took, at a lower priority, so that recognition is
    hardly slowed. When a new version appears it continues with that version, around to the same place, so
    that every sample is judged. On a shared database one server does this for all; if it crashes, another
    takes over.
    """

    def __init__(self, log: EventLog, settings: WorldSettings, notifications: Notifications) -> None:
        self._database, self._log, self._settings = log.database, log, settings
        self._notifications = notifications
        self._changed = threading.Condition()
        self._closing = False
        self._outdated: list[int] = []
        self._judged_by_others = False
        self._wanted = self._first = log.model.version
        # Samples that were stored just before a crash may never have been judged: begin with a full pass.
        self._last = Rescored(-1, 0, 0)
        notifications.add_listener("event", self._on_event)
        notifications.add_listener("rescored", self._on_rescored)
        self._thread = threading.Thread(target=self._run, name="openworld-rescoring", daemon=True)
        self._thread.start()

    def _on_event(self, _: Notification) -> None:
        with self._changed:
            self._wanted = self._log.model.version
            self._changed.notify_all()

    def _on_rescored(self, notification: Notification) -> None:
        if not notification.here:
            data = notification.data
            self._judged_by_other(Rescored(data["version"], data["recognized"], data["returned"]))

    def rescore(self, sample_ids: Sequence[int]) -> None:
        """Judge samples again that were judged by a version which is no longer in use."""
        with self._changed:
            self._outdated.extend(sample_ids)
            self._changed.notify_all()

    def wait(self, version: int | None = None, timeout: float | None = None) -> Rescored | None:
        """Wait until the pool is judged by a version (by default the current one) or a later one.

        Returns None after `timeout` seconds; with ``timeout=0`` it does not wait.
        """
        wanted = self._log.model.version if version is None else version
        with self._changed:
            done = self._changed.wait_for(lambda: self._last.model_version >= wanted, timeout)
            return self._last if done else None

    def close(self) -> None:
        """Stop after the current batch."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _judged_by_other(self, done: Rescored) -> None:
        """Take over the result of another server.

        It may have judged before the last samples came, which this server judged by an older version.
        """
        with self._changed:
            if done.model_version >= self._last.model_version:
                self._last = done
            self._judged_by_others = True
            self._changed.notify_all()

    def _run(self) -> None:
        lower_priority()
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: (
                        self._closing
                        or self._outdated
                        or self._judged_by_others
                        or self._wanted > self._last.model_version
                    )
                )
                if self._closing:
                    return
                behind = self._wanted > self._last.model_version
            try:
                self._log.catch_up()
                if not behind:  # otherwise the pass over the whole pool judges these too
                    self._judge_outdated()
                else:
                    with self._database.advisory_lock(
                        "rescore", wait=False, idle_milliseconds=0
                    ) as is_leader:
                        if is_leader and not self._judged_meanwhile():
                            self._judge_all()
                    if not is_leader:
                        self._pause(_POLL_SECONDS)
                if self._log.snapshots.due() and not self._closing:
                    self._log.snapshot()
            except Exception:  # the database may be unreachable for a while
                _logger.exception("The pool could not be rescored; trying again.")
                self._pause(1.0)

    def _judged_meanwhile(self) -> bool:
        """Return whether another server has already judged the pool by the wanted version."""
        if not self._database.is_shared or self._last.model_version < 0:
            return False
        with self._database.read() as connection:
            data = shared_values.get(connection, "rescored")
        done = self._last if data is None else Rescored(*json.loads(data))
        if done.model_version < self._wanted:
            return False
        self._judged_by_other(done)
        return True

    def _judge_outdated(self) -> None:
        with self._changed:
            outdated, by_others = list(self._outdated), self._judged_by_others
            self._judged_by_others = False
        try:
            with self._database.read() as connection:
                late: list[int] = []
                if by_others:
                    since = datetime.now(UTC) - timedelta(seconds=_LATE_SECONDS)
                    late = judged_before(connection, self._log.model.version, since)
                found = list(find(connection, outdated + late).values())
                features = features_of(connection, [sample.id for sample in found])
            if found:
                self._judge(found, features)
        except BaseException:  # the next attempt judges them
            self._judged_by_others |= by_others
            raise
        with self._changed:
            del self._outdated[: len(outdated)]

    def _judge_all(self) -> None:
        version, cursor, until, wrapped = self._log.model.version, 0, 0, False
        while not self._closing:
            started = perf_counter()
            with self._database.read() as connection:
                found, features = pool_after(connection, cursor, self._settings.rescore_batch)
            if not found and until and not wrapped:
                cursor, wrapped = 0, True
                continue
            if not found or (wrapped and found[0].id > until):
                self._finish(version)
                return
            judged_by = self._judge(found, features)
            if judged_by != version:
                version, until, wrapped = judged_by, cursor, False
            cursor = found[-1].id
            if self._log.snapshots.due(times=5):
                self._log.snapshot()
            self._pause(perf_counter() - started)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing, seconds)

    def _judge(self, found: Sequence[Sample], features: Features) -> int:
        """Judge samples, and return the version that judged them.

        The counts are committed with the verdicts, so that a crash or another server that judges the same
        samples makes no difference to them.
        """
        with self._log.model.reading() as (model, version):
            judgement = model.judge(features, self._settings.n_nearest)
        changed: dict[int, Verdict] = {}
        for row, sample in enumerate(found):
            verdict = Verdict.of(judgement, row, version)
            if _shown(sample) != (verdict.answer is None, verdict.answer, [n.label for n in verdict.nearest]):
                changed[sample.id] = verdict
        if changed:
            with self._database.write() as connection:
                recognized, returned = update_verdicts(connection, changed)
                if recognized or returned:
                    events.count_rescored(connection, version, recognized, returned)
        return version

    def _finish(self, version: int) -> None:
        """Announce that the whole pool is judged by a version."""
        before = max(self._last.model_version, self._first)
        with self._database.write() as connection:
            done = Rescored(version, *events.rescored_by(connection, before, version))
            if self._database.is_shared:
                shared_values.put(connection, "rescored", json.dumps(astuple(done)).encode())
        with self._changed:
            self._last = done
            self._changed.notify_all()
        self._notifications.publish(
            "rescored",
            {"version": done.model_version, "recognized": done.recognized, "returned": done.returned},
        )


def _shown(sample: Sample) -> tuple[bool, str | None, list[str]]:
    """Return what is worth an update when it changes; distances alone are not."""
    return sample.state == "pending", sample.answer, [near.label for near in sample.nearest]
