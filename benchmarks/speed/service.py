"""The service: against a bare endpoint and predicting in process, while it clusters and while it learns."""

from __future__ import annotations

import argparse
import asyncio
import gc
import io
import multiprocessing
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import httpx
import numpy as np
import uvicorn
from fastapi import FastAPI, Request

from benchmarks.speed.http_load import load, post
from openworld import EuclideanMetric, NearestNonOutlier, OpenWorldRecognizer, save
from openworld.recognition.adaptive.metric import Whitening
from openworld.recognition.blas import limit_blas_threads

N_FEATURES = 1_280
CONNECTIONS = 64
ROUNDS = 10
PARTS = ("one", "batches", "clustering", "learning", "labels")


def _samples(centers: np.ndarray, per_class: int, seed: int, noise: float) -> np.ndarray:
    """Draw non-negative features around class centers, as of a deep network."""
    random = np.random.default_rng(seed)
    X = np.repeat(centers, per_class, axis=0)
    X = X + noise * random.standard_normal(X.shape, dtype=np.float32)
    return np.maximum(X, 0).astype(np.float32)


def _centers(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, N_FEATURES), dtype=np.float32)


def _npy(X: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


# -- the two servers, each in a process of its own ------------------------------------------------


def _run_bare(pipe: Connection, n_classes: int = 0) -> None:
    """Serve a bare endpoint; with classes, it multiplies vectors that arrive together as recognition does."""
    limit_blas_threads()
    gc.freeze()  # as the service does
    app, waiting = FastAPI(), list[tuple[bytes, asyncio.Future[None]]]()
    random = np.random.default_rng(0)
    means = random.standard_normal((n_classes, N_FEATURES), dtype=np.float32)
    triangle = np.triu(random.standard_normal((N_FEATURES, N_FEATURES), dtype=np.float32))
    whitening = Whitening(np.zeros(N_FEATURES, dtype=np.float32), triangle, 0.0)

    def multiply(n_before: int) -> None:
        if n_before < len(waiting):
            asyncio.get_running_loop().call_soon(multiply, len(waiting))
            return
        X = np.frombuffer(b"".join([body for body, _ in waiting]), np.float32).reshape(-1, N_FEATURES)
        _ = whitening(X) @ means.T
        for _, done in waiting:
            done.set_result(None)
        waiting.clear()

    @app.post("/v1/recognize.npy")
    async def bare(request: Request) -> dict[str, str]:
        body = await request.body()
        if n_classes:
            loop = asyncio.get_running_loop()
            if not waiting:
                loop.call_soon(multiply, 0)
            waiting.append((body[-4 * N_FEATURES :], loop.create_future()))
            await waiting[-1][1]
        return {"label": "constant"}

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            pipe.send(self.servers[0].sockets[0].getsockname()[1])

    Server(uvicorn.Config(app, port=0, access_log=False, log_level="warning")).run()


def _run_service(pipe: Connection, model: str, folder: str, growth: float = 0.1) -> None:
    from openworld.service.server import serve
    from openworld.service.settings import load_settings

    settings = load_settings(
        model=model,
        database=f"sqlite:///{folder}/world.db",
        port=0,
        rate_limit=0,
        log_level="warning",
        refresh_growth=growth,
    )
    serve(settings, lambda address: pipe.send(int(address.rpartition(":")[2])))


@contextmanager
def _server(target: Any, *arguments: Any) -> Iterator[int]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(there, *arguments))
    process.start()
    try:
        yield here.recv()
    finally:
        process.terminate()
        process.join()


# -- what is measured -----------------------------------------------------------------------------


def _one_vector(bare: int, products: int, service: int, X: np.ndarray, seconds: float) -> None:
    requests, not_stored = (
        [post(f"/v1/recognize.npy{options}", _npy(x)) for x in X[:500]] for options in ("", "?remember=false")
    )
    asked = {
        "bare FastAPI endpoint": (bare, requests),
        "the same, with products": (products, requests),
        "service, .npy": (service, requests),
        "the same, none stored": (service, not_stored),
    }
    rates: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(ROUNDS):  # in turn, so that a slow moment of the machine hits all
        for name, (port, sent) in asked.items():
            latencies, failed, took = load(port, sent, CONNECTIONS, seconds / ROUNDS)
            assert not failed, f"{failed} requests failed"
            rates[name].append(len(latencies) / took)
    print(f"one vector, {CONNECTIONS} connections, median of {ROUNDS} rounds:")
    for name, found in rates.items():
        print(f"  {name:24s} {np.median(found):8,.0f} requests/s")
        if name != "bare FastAPI endpoint":
            _print_ratios(found, rates["bare FastAPI endpoint"])


def _print_ratios(ours: list[float], theirs: list[float]) -> None:
    """Print the ratios of pairs that were measured one after the other."""
    low, middle, high = np.percentile(np.divide(ours, theirs), [0, 50, 100])
    print(f"  ratio                    {middle:8.2f} at the median, {low:.2f} to {high:.2f}", flush=True)


def _batches(service: int, model: Any, X: np.ndarray, seconds: float) -> None:
    batches = [X[start : start + 256] for start in range(0, 1024, 256)]
    requests = [post("/v1/recognize.npy", _npy(batch)) for batch in batches]
    inside, outside = [], []
    for _ in range(ROUNDS):
        started, n = perf_counter(), 0
        while perf_counter() - started < seconds / ROUNDS:
            model.predict(batches[n % len(batches)])
            n += 1
        inside.append(256 * n / (perf_counter() - started))
        latencies, failed, took = load(service, requests, 4, seconds / ROUNDS)
        assert not failed, f"{failed} requests failed"
        outside.append(256 * len(latencies) / took)
    print(f"batches of 256, median of {ROUNDS} rounds:")
    print(f"  predict, in process      {np.median(inside):8,.0f} samples/s")
    print(f"  service, .npy            {np.median(outside):8,.0f} samples/s")
    _print_ratios(outside, inside)


def _while_learning(service: int, X: np.ndarray, seconds: float) -> None:
    requests = [post("/v1/recognize.npy", _npy(x)) for x in X[:500]]
    ends, learned = threading.Event(), []
    new = _samples(_centers(10_000, 5), 3, 6, 0.7)

    def teach() -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{service}", timeout=60) as client:
            while not ends.wait(1):
                rows = new[3 * len(learned) : 3 * len(learned) + 3]
                body = {"vectors": rows.tolist(), "labels": [f"taught {len(learned)}"] * 3}
                learned.append(client.post("/v1/learn", json=body).raise_for_status())

    def percentile(seconds: float) -> tuple[float, int, int]:
        latencies, failed, _ = load(service, requests, 8, seconds)
        return 1e3 * float(np.percentile(latencies, 99)), failed, len(latencies)

    before, failed_before, _ = percentile(min(seconds, 30))
    teacher = threading.Thread(target=teach)
    teacher.start()
    busy, failed, n_requests = percentile(seconds)
    ends.set()
    teacher.join()
    after, failed_after, _ = percentile(min(seconds, 30))
    quiet = min(before, after)
    print(f"  p99 quiet                {before:8.1f} ms before, {after:.1f} ms after")
    print(f"  p99 while learning       {busy:8.1f} ms, {len(learned)} classes in {seconds:g} s")
    print(f"  ratio to the better one  {busy / quiet:8.2f}")
    print(
        f"  failed requests          {failed + failed_before + failed_after:8d} "
        f"({n_requests:,} were sent while it learned)",
        flush=True,
    )


def _while_clustering(service: int, X: np.ndarray, n_unknown: int) -> None:
    """Cluster unknowns in the background while requests go on."""
    requests = [post("/v1/recognize.npy?remember=false", _npy(x)) for x in X[:500]]
    unknown = _samples(_centers(n_unknown // 50, 11), 50, 12, 0.7)
    with httpx.Client(base_url=f"http://127.0.0.1:{service}", timeout=600) as client:
        for start in range(0, len(unknown), 500):
            body = _npy(unknown[start : start + 500])
            client.post("/v1/recognize.npy", content=body).raise_for_status()

        def state() -> dict[str, Any]:
            answer: dict[str, Any] = client.get("/v1/clusters").raise_for_status().json()
            return answer

        while state()["running"] or not state()["total"]:
            sleep(0.5)
        quiet = 1e3 * float(np.percentile(load(service, requests, 8, 10)[0], 99))
        client.post("/v1/clusters/refresh").raise_for_status()
        while not state()["running"]:
            sleep(0.05)
        started = perf_counter()
        latencies: list[float] = []
        failed = 0
        while state()["running"]:
            some, n_failed, _ = load(service, requests, 8, 1.0)
            latencies += list(some)
            failed += n_failed
        took, told = perf_counter() - started, state()
    busy = 1e3 * float(np.percentile(latencies, 99))
    print(
        f"clustering {told['total']:,} unknowns through the service, {N_FEATURES:,} features, 8 connections:"
    )
    print(f"  took                     {took:8.1f} s, {len(told['clusters'])} clusters")
    print(f"  p99 quiet                {quiet:8.1f} ms")
    print(
        f"  p99 while clustering     {busy:8.1f} ms, {failed} of {len(latencies):,} requests failed",
        flush=True,
    )


def _label_to_recognized(n_classes: int, events: int) -> None:
    """With many classes and a frozen metric: from the label's POST to an answer with the new name."""
    centers = _centers(n_classes, 0)
    X, y = _samples(centers, 2, 1, 0.05), np.repeat([f"class {i}" for i in range(n_classes)], 2)
    frozen = {
        "NearestNonOutlier": NearestNonOutlier(EuclideanMetric(standardize=False), tau=10.0),
        "OpenWorldRecognizer": OpenWorldRecognizer(n_lifted=0),
    }
    new = _samples(_centers(events, 9), 3, 2, 0.05)
    for name, model in frozen.items():
        with tempfile.TemporaryDirectory() as folder:
            save(model.fit(X, y), Path(folder) / "model.ow")
            with (
                _server(_run_service, f"{folder}/model.ow", folder, 1.0) as port,
                httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
            ):
                times = [_label_one(client, new[3 * i : 3 * i + 3], f"new {i}") for i in range(events)]
        p50, p99 = 1e3 * np.percentile(times, [50, 99])
        print(f"label's POST to being recognized, {n_classes:,} classes, {name}, frozen metric:")
        print(f"  p50 {p50:.1f} ms, p99 {p99:.1f} ms", flush=True)


def _label_one(client: httpx.Client, X: np.ndarray, label: str) -> float:
    found = client.post("/v1/recognize.npy", content=_npy(X)).raise_for_status().json()
    ids = [answer["sample_id"] for answer in found["answers"] if answer["unknown"]]
    sleep(0.2)  # people take longer
    started = perf_counter()
    client.post("/v1/label", json={"sample_ids": ids, "label": label}).raise_for_status()
    body = _npy(X[:1])
    while True:
        answer = client.post("/v1/recognize.npy?remember=false", content=body).raise_for_status().json()
        if answer["answers"][0]["label"] == label:
            return perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement of throughput")
    parser.add_argument("--learning-seconds", type=float, default=30.0)
    parser.add_argument("--unknown", type=int, default=10_000, help="samples to cluster")
    parser.add_argument("--many-classes", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=50)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="what to measure")
    options, _ = parser.parse_known_args()
    X = _samples(_centers(options.classes, 0), 12, 1, 0.7)
    y = np.repeat([f"class {i}" for i in range(options.classes)], 12)
    model = OpenWorldRecognizer().fit(X, y)
    some = X[np.random.default_rng(3).permutation(len(X))]
    some = some[model.predict(some) != model.unknown_label_][:1024]  # the unknown are written to the disk
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "model.ow")
        with _server(_run_service, f"{folder}/model.ow", folder) as service:
            if "one" in options.only:
                with _server(_run_bare) as bare, _server(_run_bare, options.classes) as products:
                    _one_vector(bare, products, service, some, options.seconds)
            if "batches" in options.only:
                _batches(service, model, some, options.seconds)
            if "clustering" in options.only:
                _while_clustering(service, some, options.unknown)
    for name, growth, seconds in (
        (
            "metric refreshed when the samples have grown by 10 %, as by default",
            0.1,
            options.learning_seconds,
        ),
        ("metric refreshed after every event", 0.0, min(options.learning_seconds, 30.0)),
    ):
        if "learning" not in options.only:
            break
        with tempfile.TemporaryDirectory() as folder:
            save(model, Path(folder) / "model.ow")
            with _server(_run_service, f"{folder}/model.ow", folder, growth) as service:
                print(f"recognition while classes are learned, {name}, 8 connections:")
                _while_learning(service, some, seconds)
    if "labels" in options.only:
        _label_to_recognized(options.many_classes, options.events)


if __name__ == "__main__":
    main()
