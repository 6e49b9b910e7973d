from __future__ import annotations

import io
import subprocess
import sys
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image

from openworld.features import ExtractorId, extraction, load_extractor
from openworld.features.cache import FeatureCache, content_hash
from openworld.features.extraction import ExtractionError, Failure, extract_batches, joined


def extract(items, extractor, **options):
    return joined(list(extract_batches(items, extractor, **options)), extractor.n_features)


@dataclass
class File:
    name: str
    data: bytes
    label: str | None = None

    def read(self):
        if isinstance(self.data, Exception):
            raise self.data
        return self.data


def png(level, size=(20, 10)):
    file = io.BytesIO()
    Image.new("RGB", size, (level % 256, level // 256, 0)).save(file, "PNG")
    return file.getvalue()


class Counted:
    """The mean color, and how many pictures were looked at."""

    kind = "image"
    id = ExtractorId("counted", "1", "", "")
    n_features = 3

    def __init__(self):
        self.seen, self.lock, self.batches = 0, threading.Lock(), []

    def transform(self, pictures):
        with self.lock:
            self.seen += len(pictures)
            self.batches.append(len(pictures))
        return np.stack([np.asarray(picture).mean(axis=(0, 1)) for picture in pictures]).astype(np.float32)


def files(count):
    return [File(f"{i}.png", png(i), label=f"class {i % 3}") for i in range(count)]


@pytest.mark.parametrize("workers", [None, 1, 5])
@pytest.mark.parametrize("batch_size", [1, 7, 32])
def test_the_order_is_kept(workers, batch_size):
    extracted = extract(files(100), Counted(), workers=workers, batch_size=batch_size)
    np.testing.assert_array_equal(extracted.X[:, 0], np.arange(100))
    assert extracted.X.dtype == np.float32
    assert extracted.names == [f"{i}.png" for i in range(100)]
    assert extracted.labels == [f"class {i % 3}" for i in range(100)]
    assert extracted.failures == []
    assert set(extracted.seconds) == {"reading", "cache", "decoding", "inference"}
    assert min(extracted.seconds[step] for step in ("reading", "decoding", "inference")) > 0


def test_nothing_is_nothing():
    extracted = extract([], Counted())
    assert extracted.X.shape == (0, 3)
    assert extracted.names == []
    only_bad = extract([File("bad", b"")], Counted())
    assert only_bad.X.shape == (0, 3)
    assert only_bad.failures == [Failure("bad", "the file is empty")]


def with_failures():
    items = files(40)
    items[3] = File("text.png", b"hello")
    items[17] = File("gone.png", FileNotFoundError("it is gone"))
    items[39] = File("cut.png", png(1)[:50])
    return items


def test_failures_are_listed_by_name_and_skipped():
    extracted = extract(with_failures(), Counted(), batch_size=8)
    assert [failure.name for failure in extracted.failures] == ["text.png", "gone.png", "cut.png"]
    assert extracted.failures[0].reason == "not a picture of a known format"
    assert "it is gone" in extracted.failures[1].reason
    assert extracted.X[:, 0].tolist() == [i for i in range(40) if i not in (3, 17, 39)]
    assert len(extracted.names) == len(extracted.labels) == 37


def test_or_stop_at_the_first():
    with pytest.raises(ExtractionError, match=r"^text\.png: not a picture"):
        extract(with_failures(), Counted(), on_error="stop")
    with pytest.raises(ValueError, match='"skip" or "stop"'):
        extract([], Counted(), on_error="ignore")


def test_copies_are_computed_once_in_a_batch():
    counted = Counted()
    extracted = extract([File(str(i), png(i % 2)) for i in range(10)], counted)
    assert counted.seen == 2
    assert extracted.X[:, 0].tolist() == [0, 1] * 5
    bad = extract([File("a", b"x"), File("b", b"x")], counted)
    assert [failure.name for failure in bad.failures] == ["a", "b"]


def test_what_is_in_the_cache_is_not_computed_again(tmp_path):
    counted = Counted()
    with FeatureCache(tmp_path) as cache:
        first = extract(with_failures(), counted, cache=cache)
        assert counted.seen == 37
        again = extract(with_failures(), counted, cache=cache)
        assert counted.seen == 37
        extract(files(50), counted, cache=cache)
        assert counted.seen == 50
    np.testing.assert_array_equal(first.X, again.X)
    assert (first.names, first.labels, first.failures) == (again.names, again.labels, again.failures)


def test_features_of_another_length_are_not_taken(tmp_path):
    counted = Counted()
    with FeatureCache(tmp_path) as cache:
        cache.put([content_hash(png(5))], counted.id, np.zeros((1, 99), np.float32))
        assert extract([File("5", png(5))], counted, cache=cache).X[0, 0] == 5


def test_memory_is_bounded():
    """No more items are taken than two batches for each worker, whatever the rest."""
    taken = []

    def endless():
        for i in range(10**9):
            taken.append(i)
            yield File(str(i), png(i))

    batches = extract_batches(endless(), Counted(), workers=2, batch_size=5)
    for i in range(4):
        assert next(batches).X[:, 0].tolist() == list(range(5 * i, 5 * i + 5))
        assert len(taken) <= 5 * (i + 2 * 2 + 1)
    batches.close()
    assert len(taken) < 50


def test_big_pictures_are_not_held_all_at_once(monkeypatch):
    monkeypatch.setattr(extraction, "_PIXELS_AT_ONCE", 20 * 10 * 4 - 1)
    counted = Counted()
    extracted = extract(files(10), counted, workers=1)
    assert counted.batches == [4, 4, 2]
    assert extracted.X[:, 0].tolist() == list(range(10))


def test_what_was_done_before_an_interruption_is_kept(tmp_path):
    def interrupted():
        yield from files(20)
        raise KeyboardInterrupt

    with FeatureCache(tmp_path) as cache:
        with pytest.raises(KeyboardInterrupt):
            extract(interrupted(), Counted(), cache=cache, workers=1, batch_size=4)
        assert 1 <= len(cache) <= 20


def test_a_fault_of_the_extractor_is_no_failure_of_an_item():
    class Broken(Counted):
        def transform(self, pictures):
            raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        extract(files(3), Broken())


def test_blas_keeps_to_one_thread_while_it_works():
    """In a process of its own: what other tests left running may set the number of threads too."""
    code = """
import numpy as np, scipy.linalg
from threadpoolctl import threadpool_info
from openworld.features.extraction import extract_batches
from openworld.features.extractor import load_extractor

class Text:
    name, label = "1", None
    def read(self):
        return b"two words"

class Looking:
    kind, id, n_features = "text", load_extractor("ngrams").id, 1
    def transform(self, batch):
        print("inside", {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
        return np.zeros((len(batch), 1), dtype=np.float32)

before = [pool["num_threads"] for pool in threadpool_info()]
list(extract_batches([Text()], Looking()))
print("restored", [pool["num_threads"] for pool in threadpool_info()] == before)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split("\n")[:2] == ["inside {1}", "restored True"]


def test_text():
    items = [File("1", "größe".encode()), File("2", b" "), File("3", b"\xff"), File("4", b"two words")]
    ngrams = load_extractor("ngrams")
    extracted = extract(items, ngrams)
    np.testing.assert_array_equal(extracted.X, ngrams.transform(["größe", "two words"]))
    assert [failure.name for failure in extracted.failures] == ["2", "3"]
    assert extracted.failures[0].reason == "the text is empty"
    assert "utf-8" in extracted.failures[1].reason
