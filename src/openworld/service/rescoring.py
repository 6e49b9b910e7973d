"""Judging the pool again after each version: what has become known leaves it, and may come back."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from time import perf_counter

from openworld.service.changes import Changes
from openworld.service.judging import judge
from openworld.service.results import Rescored
from openworld.service.scribe import Scribe
from openworld.service.settings import WorldSettings
from openworld.store import Database, kept, log
from openworld.store.records import Sample
from openworld.store.samples import (
    Features,
    Verdict,
    features_of,
    find,
    judge_again,
    judged_before,
    pool_after,
)

_SECONDS_BETWEEN_LOOKS = 0.2
_LATE_SECONDS = 10  # well above what following another server takes
_logger = logging.getLogger("openworld.service")


class Rescorer:
    """A thread that keeps the pool judged by the newest version, and does what else can wait.

    It works on a batch at a time and rests as long as it worked, so that recognition hardly notices. When a
    version comes meanwhile it goes on from where it is, round to that place again: no sample waits forever.

    Of several servers one does this for all; if it dies, another takes over.
    """

    def __init__(self, database: Database, scribe: Scribe, settings: WorldSettings, changes: Changes) -> None:
        self._database, self._scribe, self._settings = database, scribe, settings
        self._changes = changes
        self._news = threading.Condition()
        self._closing = False
        self._again: list[int] = []
        self._judged_elsewhere = False
        self._wanted = scribe.living.version
        # What came to the pool just before a crash may never have been judged.
        self._last = Rescored(-1, 0, 0)
        self._thread = threading.Thread(target=self._run, name="openworld-rescoring", daemon=True)
        self._thread.start()

    def want(self) -> None:
        """Say that there is a new version."""
        with self._news:
            self._wanted = self._scribe.living.version
            self._news.notify_all()

    def want_again(self, sample_ids: Sequence[int]) -> None:
        """Say that samples were judged by a version that is no longer in force."""
        with self._news:
            self._again.extend(sample_ids)
            self._news.notify_all()

    def hear(self, done: Rescored) -> None:
        """Say that another server has judged the pool.

        It may have done so before the last samples came, judged here by a version before: see to those.
        """
        with self._news:
            if done.model_version >= self._last.model_version:
                self._last = done
            self._judged_elsewhere = True
            self._news.notify_all()

    def wait(self, version: int, timeout: float | None) -> Rescored | None:
        """Wait until the pool was judged by a version, or a later one."""
        with self._news:
            done = self._news.wait_for(lambda: self._last.model_version >= version, timeout)
            return self._last if done else None

    def close(self) -> None:
        """Stop after the batch under way."""
        with self._news:
            self._closing = True
            self._news.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(
                    lambda: (
                        self._closing
                        or self._again
                        or self._judged_elsewhere
                        or self._wanted > self._last.model_version
                    )
                )
                if self._closing:
                    return
                behind = self._wanted > self._last.model_version
            try:
                self._scribe.catch_up()
                self._judge_late_ones()
                if behind:
                    with self._database.turn("rescore", wait=False) as mine:
                        if mine and not self._judged_meanwhile():
                            self._judge_all()
                    if not mine:
                        self._rest(_SECONDS_BETWEEN_LOOKS)
                if self._scribe.snapshot_due() and not self._closing:
                    self._scribe.snapshot()
            except Exception:  # a database that is away for a while must not end this for good
                _logger.exception("The pool could not be scored; trying again.")
                self._rest(1.0)

    def _judged_meanwhile(self) -> bool:
        """Tell whether another server has judged the pool by the version that is wanted here."""
        if not self._database.is_shared or self._last.model_version < 0:
            return False
        with self._database.read() as connection:
            data = kept.get(connection, "rescored")
        done = self._last if data is None else Rescored(*json.loads(data))
        if done.model_version < self._wanted:
            return False
        self.hear(done)
        return True

    def _judge_late_ones(self) -> None:
        with self._news:
            ids, self._again = self._again, []
            elsewhere, self._judged_elsewhere = self._judged_elsewhere, False
        with self._database.read() as connection:
            if elsewhere:
                since = datetime.now(UTC) - timedelta(seconds=_LATE_SECONDS)
                ids += judged_before(connection, self._scribe.living.version, since)
            found = list(find(connection, ids).values())
            features = features_of(connection, [sample.id for sample in found])
        if found:
            self._judge(found, features)

    def _judge_all(self) -> None:
        version, cursor, until, wrapped = self._scribe.living.version, 0, 0, False
        recognized = returned = 0
        while not self._closing:
            started = perf_counter()
            with self._database.read() as connection:
                found, features = pool_after(connection, cursor, self._settings.rescore_batch)
            if not found and until and not wrapped:
                cursor, wrapped = 0, True
                continue
            if not found or (wrapped and found[0].id > until):
                self._finish(Rescored(version, recognized, returned))
                return
            judged_by, left, came = self._judge(found, features)
            recognized, returned = recognized + left, returned + came
            if judged_by != version:
                version, until, wrapped = judged_by, cursor, False
            cursor = found[-1].id
            if self._scribe.snapshot_due(times=5):
                self._scribe.snapshot()
            self._rest(perf_counter() - started)

    def _rest(self, seconds: float) -> None:
        with self._news:
            self._news.wait_for(lambda: self._closing, seconds)

    def _judge(self, found: Sequence[Sample], features: Features) -> tuple[int, int, int]:
        """Judge some samples; return the version, and how many left the pool and came back to it."""
        with self._scribe.living.reading() as (model, version):
            judgement = judge(model, features, self._settings.n_nearest)
        changed: dict[int, Verdict] = {}
        recognized = returned = 0
        for sample, verdict in zip(found, judgement.verdicts(list(range(len(found))), version), strict=True):
            recognized += sample.state == "pending" and verdict.answer is not None
            returned += sample.state == "recognized" and verdict.answer is None
            if _shown(sample) != (verdict.answer is None, verdict.answer, [n.label for n in verdict.nearest]):
                changed[sample.id] = verdict
        if changed:
            with self._database.write() as connection:
                judge_again(connection, changed)
        return version, recognized, returned

    def _finish(self, done: Rescored) -> None:
        if self._database.is_shared:
            with self._database.write() as connection:
                kept.put(connection, "rescored", json.dumps(astuple(done)).encode())
        if done.recognized or done.returned:
            with self._database.write() as connection:
                log.amend_version(
                    connection,
                    done.model_version,
                    {"recognized": done.recognized, "returned": done.returned},
                )
        with self._news:
            self._last = done
            self._news.notify_all()
        self._changes.tell(
            "rescored",
            {"version": done.model_version, "recognized": done.recognized, "returned": done.returned},
        )


def _shown(sample: Sample) -> tuple[bool, str | None, list[str]]:
    """Return what is worth writing anew when it changes; distances alone are not."""
    return sample.state == "pending", sample.answer, [near.label for near in sample.nearest]
