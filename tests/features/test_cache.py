from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

from openworld.features import ExtractorId
from openworld.features import cache as module
from openworld.features.cache import FeatureCache, content_hash

ID = ExtractorId("test", "1", "", "none")
OTHER = ExtractorId("test", "2", "", "none")

# A process with nothing but a cache, which forks writers: faster than to start each of them from nothing.
WRITERS = """
import os, random, signal, sys, time
import numpy as np
from openworld.features import ExtractorId
from openworld.features.cache import FeatureCache, content_hash

def write(start, count):
    cache, id = FeatureCache(sys.argv[1]), ExtractorId("test", "1", "", "none")
    for i in range(start, start + count):
        numbers = range(50 * i, 50 * i + 50)
        rows = np.stack([np.full(300, number, np.float32) for number in numbers])
        cache.put([content_hash(str(number).encode()) for number in numbers], id, rows)

def fork(start, count):
    child = os.fork()
    if child == 0:
        write(start, count)
        os._exit(0)
    return child

"""
KILLED = (
    WRITERS
    + """
random.seed(0)
for attempt in range(15):
    child = fork(10_000 * attempt, 10_000)
    time.sleep(random.uniform(0.01, 0.1))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
"""
)
AT_ONCE = (
    WRITERS
    + """
children = [fork(start, 30) for start in (0, 20, 40)]
print([os.waitpid(child, 0)[1] for child in children])
"""
)


def hashes(numbers):
    return [content_hash(str(number).encode()) for number in numbers]


def rows(numbers, length=300):
    return np.stack([np.full(length, number, np.float32) for number in numbers])


def run(script, folder):
    command = [sys.executable, "-W", "ignore", "-c", script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def assert_right(cache, numbers):
    """What is found is what was put; return how many were found."""
    wanted = dict(zip(hashes(numbers), numbers, strict=True))
    found = cache.get(list(wanted), ID)
    for content, row in found.items():
        np.testing.assert_array_equal(row, np.full(300, wanted[content], np.float32))
    return len(found)


def put_and_get_twice(cache, numbers):
    for _ in range(2):
        assert_right(cache, numbers)
        cache.put(hashes(numbers), ID, rows(numbers))


@pytest.fixture
def cache(tmp_path):
    with FeatureCache(tmp_path) as one:
        yield one


def test_hashes_are_blake2b():
    assert content_hash(b"abc") == hashlib.blake2b(b"abc", digest_size=16).hexdigest()


def test_what_is_put_is_found_again(cache, tmp_path):
    X = np.random.default_rng(0).normal(size=(1234, 7)).astype(np.float32)
    names = hashes(range(1234))
    cache.put(names, ID, X)
    for one in (cache, FeatureCache(tmp_path)):
        found = one.get([*names, *hashes(["missing"])], ID)
        np.testing.assert_array_equal(np.stack([found[name] for name in names]), X)
        assert len(found) == len(one) == 1234
        assert one.get(names, OTHER) == {}
        one.close()


def test_a_row_can_be_replaced(cache):
    cache.put(hashes([1, 2]), ID, rows([1, 2]))
    cache.put(hashes([2, 3]), ID, rows([20, 30]))
    found = cache.get(hashes([1, 2, 3]), ID)
    assert [found[content][0] for content in hashes([1, 2, 3])] == [1, 20, 30]
    assert len(cache) == 3


def test_one_row_for_each_hash(cache):
    with pytest.raises(ValueError, match="one row for each of 2 hashes"):
        cache.put(hashes([1, 2]), ID, rows([1]))


def test_the_folder_is_that_of_the_user_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path / "own"))
    assert FeatureCache().file.parent == tmp_path / "own"
    monkeypatch.delenv("OPENWORLD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert FeatureCache().file.parent == tmp_path / "shared" / "openworld"


def test_the_least_recently_used_go_first(tmp_path, monkeypatch):
    now = 1_000_000
    monkeypatch.setattr(module.time, "time", lambda: now)
    cache = FeatureCache(tmp_path, max_bytes=2_000_000)
    for start in range(0, 1500, 100):
        now += 4000
        cache.put(hashes(range(start, start + 100)), ID, rows(range(start, start + 100)))
        now += 4000
        assert assert_right(cache, range(10)) == 10
    assert assert_right(cache, range(1400, 1500)) == 100
    assert assert_right(cache, range(10, 100)) == 0
    kept = assert_right(cache, range(1500))
    assert len(cache) == kept
    assert 1_000_000 < kept * 1200 < 2_000_000
    cache.close()
    assert cache.file.stat().st_size < 2_300_000


def test_a_flipped_bit_is_a_miss(cache):
    cache.put(hashes(range(20)), ID, rows(range(20)))
    cache.close()
    data = cache.file.read_bytes()
    place = data.index(np.full(300, 7, "<f4").tobytes()) + 600
    cache.file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    assert assert_right(cache, range(20)) == 19


@pytest.mark.parametrize("damage", ["other", "cut", "zeros"])
def test_a_damaged_file_is_moved_aside(cache, damage):
    cache.put(hashes(range(500)), ID, rows(range(500)))
    cache.close()
    data = cache.file.read_bytes()
    damaged = {
        "other": b"something else entirely" * 1000,
        "cut": data[: len(data) // 2],
        "zeros": data[:16384] + bytes(len(data) - 16384),
    }
    cache.file.write_bytes(damaged[damage])
    with pytest.warns(UserWarning, match="damaged and is replaced"):
        put_and_get_twice(cache, range(500))
    assert assert_right(cache, range(500)) == 500
    assert len(list(cache.file.parent.glob("*.damaged-*"))) == 1


def test_where_nothing_can_be_written_nothing_is_found(tmp_path):
    (tmp_path / "file").touch()
    cache = FeatureCache(tmp_path / "file" / "folder")
    with pytest.warns(UserWarning, match="Features are not cached") as warned:
        put_and_get_twice(cache, [1])
    assert len(warned) == 1
    assert cache.get(hashes([1]), ID) == {}


def test_many_threads(cache):
    def work(start):
        numbers = range(start, start + 200)
        cache.put(hashes(numbers), ID, rows(numbers))
        return assert_right(cache, numbers)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(0, 1600, 100))) == [200] * 16
    assert len(cache) == 1700


def test_many_processes(tmp_path):
    assert run(AT_ONCE, tmp_path) == "[0, 0, 0]\n"
    with FeatureCache(tmp_path) as cache:
        assert assert_right(cache, range(50 * 70)) == 50 * 70


def test_killed_writers_leave_the_file_whole(tmp_path):
    run(KILLED, tmp_path)
    with FeatureCache(tmp_path) as cache:
        found = [assert_right(cache, range(n, n + 10_000)) for n in range(0, 500_000 * 15, 500_000)]
        assert sum(found) == len(cache) > 0
        assert all(count % 50 == 0 for count in found)  # all of a batch or nothing
    with closing(sqlite3.connect(cache.file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert list(tmp_path.glob("*damaged*")) == []
