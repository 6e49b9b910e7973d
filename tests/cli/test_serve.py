"""`openworld serve` as a process, and the commands on its database."""

from __future__ import annotations

import json
import logging
import os
import runpy
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import httpx
import numpy as np
import pytest
import structlog

from openworld import EuclideanMetric, NearestNonOutlier, load, save
from openworld.service.world import World

X = np.array([[0.0, 0.0], [0.2, 0.0], [9.0, 0.0], [9.2, 0.0]], dtype=np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, in which commands run."""
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=2.0).fit(X, ["a", "a", "b", "b"])
    save(model, tmp_path / "model.ow")
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("OPENWORLD_")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Put logging back: in this process it would go on to a stream that is closed."""
    root, config = logging.getLogger(), structlog.get_config()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    structlog.configure(**config)


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start `openworld serve` and give the process and the address it prints."""
    start = "from openworld.cli import main; main()"
    command = [sys.executable, "-c", start, "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://" in line, process.stderr.read() if process.stderr else ""
        yield process, line.split()[3]
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_in_good_order(folder, sign):
    with serving("model.ow") as (process, address):
        learned = httpx.post(
            f"{address}/v1/learn", json={"vectors": [[0, 50], [0, 51]], "labels": ["c", "c"]}, timeout=300
        )
        assert learned.json()["added"] == ["c"]
        with httpx.stream("GET", f"{address}/v1/events", timeout=300) as events:
            lines = events.iter_lines()
            assert next(lines).startswith("retry")
            process.send_signal(sign)
            assert [line for line in lines if line.startswith("event")] == []  # ended, not cut off
        assert process.wait(300) == 0
        errors = process.stderr.read()
        assert "Traceback" not in errors
        assert all(json.loads(line) for line in errors.splitlines())
    with serving() as (_, address):  # without a model: it goes on with what it learned
        answer = httpx.post(f"{address}/v1/recognize", json={"vectors": [[0, 50.5]]}, timeout=300).json()
        assert answer["answers"][0]["label"] == "c"


def test_requests_under_way_are_finished(folder):
    with serving("model.ow") as (process, address):
        begun, results = threading.Event(), []

        def body() -> Iterator[bytes]:
            yield b'{"vectors": [[0, 0]], '
            begun.set()
            stopped.wait(300)
            yield b'"remember": false}'

        def ask() -> None:
            headers = {"Content-Type": "application/json"}
            results.append(
                httpx.post(f"{address}/v1/recognize", content=body(), headers=headers, timeout=300)
            )

        stopped = threading.Event()
        thread = threading.Thread(target=ask)
        thread.start()
        assert begun.wait(300)
        httpx.get(f"{address}/health", timeout=300)
        process.send_signal(signal.SIGTERM)
        stopped.set()
        thread.join()
        assert results[0].json()["answers"][0]["label"] == "a"


def test_listening_to_others_without_a_key_is_refused(run, folder):
    run("serve", "model.ow", "--host", "0.0.0.0", "--port", "0", code=1)
    assert "openworld key create" in run.message


def test_workers_need_postgresql(run, folder):
    run("serve", "model.ow", "--workers", "2", code=1)
    assert "need PostgreSQL" in run.message


def test_workers_on_postgresql(folder):
    postgres = runpy.run_path(str(Path(__file__).parents[1] / "store" / "postgres_server.py"))
    with postgres["running"]() as server:
        url = str(postgres["new_database"](server))
        with serving("model.ow", "--database", url, "--workers", "2") as (process, address):
            body = {"vectors": [[0, 0]], "remember": False}
            with httpx.Client(base_url=address, timeout=600) as client:
                assert client.post("/v1/recognize", json=body).json()["answers"][0]["label"] == "a"
                learned = client.post("/v1/learn", json={"vectors": [[0, 50], [0, 51]], "labels": ["c", "c"]})
                assert learned.json()["model_version"] == 1
            process.send_signal(signal.SIGTERM)
            assert process.wait(300) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve"], "openworld serve DATA"),
        (["serve", "none.ow"], "none.ow"),
        (["serve", "model.ow", "--database", "nonsense"], "write sqlite:///nonsense for a file"),
        (["serve", "model.ow", "--database", "mysql://x/y"], "mysql is not supported"),
        (["serve", "model.ow", "--port", "70000"], "port"),
        (["serve", "model.ow", "--config", "none.toml"], "none.toml"),
        (["serve", "model.ow", "--key", "short"], "key"),
        (["export", "model", "out.txt"], "Cannot export model to out.txt"),
        (["export", "model", "out.ow", "--database", "sqlite:///new.db"], "no database new.db"),
        (["key", "list"], "no database openworld.db"),
        (["key", "revoke", "nobody"], "no database openworld.db"),
    ],
)
def test_mistakes_are_reported_in_a_line(run, folder, arguments, words):
    run(*arguments, code=1)
    assert words in run.message
    assert "Traceback" not in run.err
    assert list(folder.glob("*.db*")) == []


def test_a_port_in_use_is_reported_in_a_line(run, folder):
    with socket.create_server(("127.0.0.1", 0)) as other:
        run("serve", "model.ow", "--port", str(other.getsockname()[1]), code=1)
    assert "is in use" in run.message
    assert "Traceback" not in run.err


def test_keys_are_made_listed_and_revoked(run, folder):
    secret = run("key", "create", "ann", "--role", "viewer").strip()
    assert secret.startswith("ow_")
    assert "ann" in run.message
    run("key", "create", "ann", code=1)
    assert "choose another name" in run.message
    assert "ann  viewer  created" in run("key", "list")
    with serving("model.ow", "--host", "127.0.0.1") as (_, address):
        assert httpx.get(f"{address}/v1/pool", timeout=300).status_code == 401
        headers = {"Authorization": f"Bearer {secret}"}
        assert httpx.get(f"{address}/v1/pool", headers=headers, timeout=300).status_code == 200
    run("key", "revoke", "nobody", code=1)
    assert "no key 'nobody'" in run.message
    run("key", "revoke", "ann")
    assert "revoked" in run("key", "list")


def test_exports(run, folder):
    with serving("model.ow", "--database", "sqlite:///world.db") as (_, address):
        httpx.post(
            f"{address}/v1/learn", json={"vectors": [[0, 50], [0, 51]], "labels": ["c", "c"]}, timeout=300
        )
    database = ("--database", "sqlite:///world.db")
    run("export", "model", "out.ow", *database)
    assert load(folder / "out.ow").classes_.tolist() == ["a", "b", "c"]
    run("export", "labeled", "out.npz", *database)
    assert np.load(folder / "out.npz")["y"].tolist() == ["c", "c"]
    run("export", "labeled", "out.ndjson", *database)
    assert len((folder / "out.ndjson").read_text().splitlines()) == 2
    run("export", "log", "log.ndjson", *database)
    assert json.loads((folder / "log.ndjson").read_text())["kind"] == "learn"


QUESTIONS = [
    *((f"where is my parcel {i}", "delivery") for i in range(8)),
    *((f"i want my money back {i}", "refund") for i in range(8)),
    *((f"please call me {i}", "") for i in range(6)),
]


@pytest.fixture
def questions(folder: Path) -> Path:
    lines = ["text,label", *(f"{text},{label}" for text, label in QUESTIONS)]
    (folder / "questions.csv").write_text("\n".join(lines))
    return folder / "questions.csv"


def test_data_are_served_labeled_samples_learned_first(questions):
    arguments = ("questions.csv", "--extractor", "ngrams", "--database", "sqlite:///q.db")
    with serving(*arguments) as (process, address), httpx.Client(base_url=address, timeout=60) as client:
        assert [one["label"] for one in client.get("/v1/classes").json()] == ["delivery", "refund"]
        deadline = monotonic() + 300
        while len(client.get("/v1/pool").json()["samples"]) < 6 and monotonic() < deadline:
            sleep(0.05)
        texts = {sample["text"] for sample in client.get("/v1/pool").json()["samples"]}
        assert texts == {text for text, label in QUESTIONS if not label}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with serving(*arguments) as (_, address):  # the database goes on; the same data add nothing
        assert httpx.get(f"{address}/v1/versions", timeout=300).json()[0]["id"] == 1


def test_it_starts_from_nothing(folder):
    with serving("--features", "2", "--database", "sqlite:///n.db") as (_, address):
        vectors = [[0, i / 10] for i in range(5)] + [[90, i / 10] for i in range(5)]
        answers = httpx.post(f"{address}/v1/recognize", json={"vectors": vectors}, timeout=300).json()[
            "answers"
        ]
        assert all(answer["unknown"] for answer in answers)
        for ids, label in (([1, 2, 3, 4, 5], "low"), ([6, 7, 8, 9, 10], "high")):
            httpx.post(
                f"{address}/v1/label", json={"sample_ids": ids, "label": label}, timeout=300
            ).raise_for_status()
        body = {"vectors": [[0, 0.25], [90, 0.25], [0, 9000]], "remember": False}
        answers = httpx.post(f"{address}/v1/recognize", json=body, timeout=300).json()["answers"]
        assert [answer["label"] for answer in answers] == ["low", "high", None]


def test_samples_are_imported_and_what_is_refused_is_named(run, questions):
    with questions.open("a") as file:
        file.write("\nreserved,unknown")
    database = ("--database", "sqlite:///i.db")
    summary = json.loads(run("import", "questions.csv", "--extractor", "ngrams", *database, "--json"))
    assert (summary["learned"], summary["unknown"] + summary["recognized"], summary["refused"]) == (16, 6, 1)
    assert summary["refusals"][0][0] == "reserved"
    run("import", "questions.csv", *database)
    assert "16 learned before" in run.message
    assert "reserved: 'unknown'" in run.message
    none = run(
        "import",
        "questions.csv",
        "--no-labels",
        "--extractor",
        "ngrams",
        "--database",
        "sqlite:///o.db",
        "--json",
    )
    assert json.loads(none)["unknown"] == 23


@pytest.mark.filterwarnings("ignore:Too little to calibrate with")
def test_groups_are_imported_and_exported(run, folder):
    rows = [f"{x + i / 10},{x},{label},{label}{i % 2}" for x, label in ((0, "a"), (9, "b")) for i in range(6)]
    (folder / "points.csv").write_text("\n".join(["p,q,label,video", *rows]))
    database = ("--database", "sqlite:///g.db")
    run("import", "points.csv", "--group-column", "video", *database)
    run("export", "labeled", "out.csv", *database)
    run("import", "out.csv", "--group-column", "group", "--database", "sqlite:///h.db")
    for name in ("g.db", "h.db"):
        with World.open(f"sqlite:///{name}") as world:
            found = {(sample.label, sample.group) for sample, _ in world.pool.labeled()}
        assert found == {("a", "a0"), ("a", "a1"), ("b", "b0"), ("b", "b1")}
    run("import", "points.csv", "--group-column", "vido", *database, code=1)
    assert 'no column named "vido"' in run.message


def test_an_import_while_a_server_runs_is_sent_to_the_server(run, folder):
    np.save("new.npy", X)
    with World.open("sqlite:///openworld.db", "model.ow"):
        run("import", "new.npy", "--database", "sqlite:///openworld.db", code=1)
    assert "in use by another openworld process" in run.message
    assert "send it the files: POST /v1/import." in run.message


def test_data_that_cannot_be_served(run, folder):
    (folder / "photos").mkdir()
    run("serve", "photos", code=1)
    assert "no pictures found" in run.message
    run("serve", "gone.csv", code=1)
    assert "gone.csv: there is no such file" in run.message
    (folder / "lines.txt").write_text("a\nb\n")
    run("serve", "lines.txt", "--workers", "2", code=1)
    assert "Run openworld import lines.txt first" in run.message
    run("serve", "--features", "3", "--extractor", "ngrams", "--database", "sqlite:///both.db", code=1)
    assert "not both" in run.message
    assert list(folder.glob("*.db*")) == []


def test_a_refused_start_leaves_no_new_database(run, folder, monkeypatch):
    """It was left with a first model, and the next start with another model was refused."""
    run("serve", "--extractor", "none-such", code=1)
    assert "none-such" in run.message
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=2.0).fit(X, ["a", "a", "b", "b"])
    model.extractor_ = {"name": "efficientnet-lite0", "version": "1", "weights": "w", "preprocessing": "p"}
    save(model, "pictures.ow")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    run("serve", "pictures.ow", code=1)
    assert "takes pictures or texts" in run.message
    assert list(folder.glob("*.db*")) == []


def test_a_refused_start_leaves_an_old_database(run, folder):
    with World.open("sqlite:///openworld.db", "model.ow"):
        pass
    before = (folder / "openworld.db").read_bytes()
    other = NearestNonOutlier(EuclideanMetric(standardize=False), tau=9.0).fit(X, ["a", "a", "b", "b"])
    save(other, "other.ow")
    run("serve", "other.ow", code=1)
    assert "created with another model" in run.message
    assert (folder / "openworld.db").read_bytes() == before


def test_exports_of_a_damaged_file_have_what_can_be_read(run, folder):
    with World.open(f"sqlite:///{folder / 'world.db'}", folder / "model.ow") as world:
        for i in range(100):
            world.labels.learn([[i, 50]], ["c"], "ann")
    with sqlite3.connect(folder / "world.db") as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'features'").fetchone()
    connection.close()
    with (folder / "world.db").open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xaa" * 4096)
    run("serve", "--database", "sqlite:///world.db", "--port", "0", code=1)
    assert "is damaged" in run.message
    assert "openworld export log" in run.message
    run("export", "log", "log.ndjson", "--database", "sqlite:///world.db")
    n_found = len((folder / "log.ndjson").read_text().splitlines())
    assert f"Exported what could be read: {n_found} events" in run.message
    assert n_found == 100
