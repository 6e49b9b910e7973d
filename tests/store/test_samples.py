"""Samples: stored once each, found page by page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import numpy as np
import pytest
from sqlalchemy import update

from openworld.store import Database, labels, pool, samples, tables
from openworld.store.labels import GivenState
from openworld.store.records import ClassDistance, PoolFilter, Sample, SampleContent, SampleState
from openworld.store.samples import NewSample, Verdict

NEAREST = (ClassDistance("cat", 0.1 + 0.2, 1 / 3), ClassDistance("dog", 1e300, 0.0))


def _new(
    value: float,
    *,
    item: SampleContent | None = None,
    nearest: tuple[ClassDistance, ...] = NEAREST,
    state: SampleState = "pending",
    seen: int = 1,
) -> NewSample:
    verdict = Verdict(None, -0.5, 0.25, nearest, 3)
    return NewSample(np.array([value, 1.5], dtype=np.float32), item or SampleContent(), verdict, state, seen)


def _store(database: Database, *new: NewSample) -> list[int]:
    with database.write() as connection:
        return samples.store(database, connection, new)


def _find(database: Database, sample_id: int) -> Sample:
    with database.read() as connection:
        return samples.find(connection, [sample_id])[sample_id]


def _pages(database: Database, where: PoolFilter, limit: int = 3) -> list[int]:
    ids, cursor = [], None
    with database.read() as connection:
        while True:
            found, cursor = pool.page(connection, where, cursor, limit)
            assert len(found) <= limit
            ids += [sample.id for sample in found]
            if cursor is None:
                return ids


def test_what_is_stored_comes_back_exactly(database: Database) -> None:
    item = SampleContent("text", "a <script> of ü", "mail", b"\x89PNG\x00")
    (sample_id,) = _store(database, _new(0.1, item=item))
    found = _find(database, sample_id)
    assert (found.kind, found.text, found.source) == ("text", item.text, "mail")
    assert (found.nearest, found.decision, found.membership, found.model_version) == (NEAREST, -0.5, 0.25, 3)
    assert (found.state, found.seen, found.label, found.has_thumbnail) == ("pending", 1, None, True)
    assert abs(datetime.now(UTC) - found.created_at) < timedelta(minutes=1)
    with database.read() as connection:
        assert samples.picture_of(connection, sample_id) == item.thumbnail
        feature = samples.features_of(connection, [sample_id])
    assert feature.dtype == np.float32
    assert feature.tolist() == [[np.float32(0.1), 1.5]]


def test_samples_stored_before_there_were_memberships_are_read(database: Database) -> None:
    (sample_id,) = _store(database, _new(0.1))
    with database.write() as connection:
        connection.execute(update(tables.samples).values(nearest=[["cat", 0.5], ["dog", 2.0]]))
    assert _find(database, sample_id).nearest == (
        ClassDistance("cat", 0.5, None),
        ClassDistance("dog", 2.0, None),
    )


def test_the_same_content_is_one_sample_in_one_batch_and_later(database: Database) -> None:
    first, other, again = _store(database, _new(1), _new(2), _new(1))
    assert first == again != other
    assert _store(database, _new(2), _new(3))[0] == other
    assert [_find(database, i).seen for i in (first, other)] == [2, 2]
    assert _store(database, _new(1, item=SampleContent("text", "words")))[0] != first


def test_the_first_group_of_a_content_stays(database: Database) -> None:
    a, b = (SampleContent(group=group) for group in "ab")
    assert _find(database, _store(database, _new(1), _new(1, item=a), _new(1, item=b))[0]).group == "a"
    assert _find(database, _store(database, _new(1, item=b))[0]).group == "a"
    assert _find(database, _store(database, _new(2))[0]).group is None
    (sample_id,) = _store(database, _new(2, item=b))
    assert _find(database, sample_id).group == "b"
    with database.read() as connection:
        hashes = [samples.content_hash(np.array([x, 1.5], dtype=np.float32), a) for x in (1, 2, 3)]
        found = samples.find_content(connection, hashes)
    assert found == {hashes[0]: (None, "a"), hashes[1]: (None, "b")}


def test_what_was_only_learned_comes_to_the_pool_when_it_is_seen(database: Database) -> None:
    (sample_id,) = _store(database, _new(1, state="labeled", seen=0))
    with database.write() as connection:
        labels.release(connection, [sample_id])
    assert _find(database, sample_id).state == "dismissed"
    _store(database, _new(1))
    assert (_find(database, sample_id).state, _find(database, sample_id).seen) == ("pending", 1)


def test_features_keep_type_and_order(database: Database) -> None:
    ids = _store(database, *(_new(value) for value in range(5)))
    with database.read() as connection:
        assert samples.features_of(connection, ids[::-1])[:, 0].tolist() == [4, 3, 2, 1, 0]
        assert samples.features_of(connection, [ids[1], ids[0], ids[1]])[:, 0].tolist() == [1, 0, 1]
        for wanted in ([ids[0], 99], [99]):
            with pytest.raises(KeyError, match="99"):
                samples.features_of(connection, wanted)
        assert samples.features_of(connection, ids).dtype == np.float32


def test_features_of_two_types_are_read_as_the_wider(database: Database) -> None:
    narrow = _new(0.1)
    wide = replace(narrow, feature=np.array([0.1, 0.2]))
    ids = _store(database, narrow, wide, _new(7))
    with database.read() as connection:
        found = samples.features_of(connection, ids)
        ((pending, chunk), (last, _)) = pool.pending_features(connection, 2)
    assert found.dtype == chunk.dtype == np.float64
    assert found.tolist() == [[np.float32(0.1), 1.5], [0.1, 0.2], [7, 1.5]]
    assert (pending.tolist(), last.tolist()) == (ids[:2], ids[2:])
    np.testing.assert_array_equal(chunk, found[:2])


FILTERS: list[tuple[PoolFilter, Callable[[Sample], bool]]] = [
    (PoolFilter(), lambda s: s.state == "pending"),
    (PoolFilter(state=None), lambda s: True),
    (PoolFilter(nearest="dog"), lambda s: s.state == "pending" and s.nearest[0].label == "dog"),
    (PoolFilter(source="b"), lambda s: s.state == "pending" and s.source == "b"),
    (PoolFilter(text="ROW_1%"), lambda s: s.state == "pending" and "row_1%" in (s.text or "")),
    (PoolFilter(state=None, label="cat"), lambda s: s.label == "cat"),
    (PoolFilter(clustered=False), lambda s: s.state == "pending"),
    (PoolFilter(clustered=True), lambda s: False),
]


def test_pages_together_are_the_list_that_brute_force_finds(database: Database) -> None:
    ids = _store(
        database,
        *(
            _new(i, item=SampleContent("text", f"row_{i % 3}% of it", "ab"[i % 2]), nearest=NEAREST[i % 2 :])
            for i in range(20)
        ),
    )
    with database.write() as connection:
        labels.set_states(
            connection, {i: GivenState("labeled", "cat", "me", datetime.now(UTC), 1) for i in ids[5:9]}
        )
        everything = samples.find(connection, ids)
    for (where, wanted), newest_first in product(FILTERS, (False, True)):
        expected = sorted((s.id for s in everything.values() if wanted(s)), reverse=newest_first)
        where = replace(where, newest_first=newest_first)
        assert _pages(database, where) == expected
        with database.read() as connection:
            assert pool.count(connection, where) == len(expected)
            assert pool.ids(connection, where) == expected
            assert pool.ids(connection, where, 3) == expected[:3]


def test_time_filters_have_a_beginning_and_an_end(database: Database) -> None:
    (sample_id,) = _store(database, _new(1))
    at = _find(database, sample_id).created_at
    moment = timedelta(microseconds=10)
    assert _pages(database, PoolFilter(since=at, until=at + moment)) == [sample_id]
    assert _pages(database, PoolFilter(since=at + moment)) == []
    assert _pages(database, PoolFilter(until=at)) == []


def test_a_made_up_cursor_is_refused(database: Database) -> None:
    for cursor in ("x", "", "1.2", "-1", "1;DROP"):
        with database.read() as connection, pytest.raises(pool.BadCursor):
            pool.page(connection, PoolFilter(), cursor, 10)


def test_rescoring_leaves_alone_what_a_later_version_judged(database: Database) -> None:
    (sample,) = _store(database, _new(1))
    dog, cat = (Verdict(label, 0.5, 0.9, NEAREST[1:], version) for label, version in (("dog", 8), ("cat", 7)))
    with database.write() as connection:
        assert samples.update_verdicts(connection, {sample: dog}) == (1, 0)
        assert samples.update_verdicts(connection, {sample: dog}) == (0, 0)  # counted once
        assert samples.update_verdicts(connection, {sample: cat}) == (0, 0)
    assert _find(database, sample).answer == "dog"


def test_rescoring_leaves_alone_what_a_person_labeled(database: Database) -> None:
    mine, other = _store(database, _new(1), _new(2))
    with database.write() as connection:
        labels.set_states(connection, {mine: GivenState("labeled", "cat", "me", datetime.now(UTC), 7)})
        verdict = Verdict("dog", 0.5, 0.9, NEAREST[1:], 4)
        samples.update_verdicts(connection, {mine: verdict, other: verdict})
    assert (_find(database, mine).state, _find(database, mine).label) == ("labeled", "cat")
    assert (_find(database, other).state, _find(database, other).answer) == ("recognized", "dog")
    with database.read() as connection:
        assert [s.id for s in samples.pool_after(connection, 0, 10)[0]] == [other]
        assert labels.count_states(connection) == {"labeled": 1, "recognized": 1}
        assert labels.count_states(connection, "me") == {"labeled": 1}
