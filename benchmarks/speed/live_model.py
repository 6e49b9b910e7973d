"""From a label to its being recognized, with many classes, against learning in memory alone; then undo."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from openworld import EuclideanMetric, NearestNonOutlier, OpenWorldRecognizer
from openworld.service.events import LearnEvent
from openworld.service.live_model import apply_change, copy
from openworld.service.world import World

SAMPLES = 3
FOLLOWED, ROUNDS = (0, 5, 15, 40), 5


def _centers(n: int, n_features: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, n_features)).astype(np.float32)


def _models(n_classes: int, n_features: int, growth: float) -> dict[str, Callable[[], object]]:
    """Return what makes models of many classes."""
    random = np.random.default_rng(0)
    means = np.repeat(_centers(n_classes, n_features, 0), 2, axis=0)
    X = (means + 0.05 * random.standard_normal(means.shape)).astype(np.float32)
    y = np.repeat([f"class {i}" for i in range(n_classes)], 2)
    tau = 0.5 * float(np.sqrt(n_features))
    return {
        "NearestNonOutlier": lambda: NearestNonOutlier(EuclideanMetric(standardize=False), tau=tau).fit(X, y),
        "OpenWorldRecognizer": lambda: OpenWorldRecognizer(n_lifted=0, refresh_growth=growth).fit(X, y),
    }


def _report(name: str, times: list[float]) -> None:
    p50, p99 = 1e3 * np.percentile(times, [50, 99])
    print(f"  {name:<42} p50 {p50:7.1f} ms   p99 {p99:7.1f} ms", flush=True)


def _measure(model: object, n_features: int, n_events: int) -> None:
    new = _centers(n_events, n_features, 1)
    random = np.random.default_rng(2)
    alone = copy(model)  # type: ignore[arg-type]
    times = []
    for i in range(min(n_events, 20)):
        X = (new[i] + 0.05 * random.standard_normal((SAMPLES, n_features))).astype(np.float32)
        start = perf_counter()
        event = LearnEvent([], [f"new {i}"] * SAMPLES)
        apply_change(alone, event.change_of(X))
        times.append(perf_counter() - start)
    _report("learning in memory alone", times)
    del alone
    labeled, recognized = [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        World.open(f"sqlite:///{Path(folder) / 'world.db'}", model) as world,
    ):
        for i in range(n_events):
            X = (new[i] + 0.05 * random.standard_normal((SAMPLES, n_features))).astype(np.float32)
            ids = [sample for sample in world.recognize(X).sample_ids if sample is not None]
            world.rescorer.wait()  # people take a moment between labels, in which the pool is scored
            start = perf_counter()
            world.labels.label(ids, f"new {i}", "ann")
            labeled.append(perf_counter() - start)
            answer = world.recognize(X[:1], remember=False)
            recognized.append(perf_counter() - start)
            assert answer.labels == [f"new {i}"]
        _report("label: learned, committed and in force", labeled)
        _report("label, and recognized by a request after", recognized)
        _measure_older(world)
        _measure_undo(world, min(n_events, 20))


def _measure_older(world: World) -> None:
    """Time undo and redo of a label that others followed: near ones step back, older ones are replayed."""
    labels = world.history.events(limit=max(FOLLOWED) + ROUNDS + 1)
    for n in FOLLOWED:
        undone, redone = [], []
        for event in labels[n : n + ROUNDS]:
            undone.append(_seconds(partial(world.history.undo, "ann", event.id)))
            _catch_up(world)
            redone.append(_seconds(partial(world.history.redo, "ann", event.id)))
            _catch_up(world)
        _report(f"undo of a label that {n} others followed", undone)
        _report("  and redo", redone)


def _measure_undo(world: World, n_events: int) -> None:
    """Time events and their undo, here and on a server that follows the log."""
    appends: dict[str, Callable[[int], object]] = {
        "label": lambda i: world.labels.learn(
            _centers(SAMPLES, world.model.n_features, 1000 + i), ["undone"] * SAMPLES, "ann"
        ),
        "forget": lambda i: world.classes.forget(f"class {i}", "ann"),
        "merge": lambda i: world.classes.merge([f"class {i}"], f"class {i + 1}", "ann"),
    }
    with World.open(str(world.event_log.database.url), alone=False) as follower:
        for name, append in appends.items():
            done: list[float] = []
            undone: list[float] = []
            followed: list[float] = []
            for i in range(n_events):
                done.append(_seconds(partial(append, i)))
                follower.event_log.follow()
                _catch_up(world, follower)
                undone.append(_seconds(partial(world.history.undo, "ann")))
                followed.append(_seconds(follower.event_log.follow))
                _catch_up(world, follower)
            _report(name, done)
            _report(f"undo of {name}", undone)
            _report(f"undo of {name}, followed by a replica", followed)
            print(f"  undo / {name}: {np.median(undone) / np.median(done):.2f}", flush=True)


def _catch_up(*worlds: World) -> None:
    """Do what the background does while people take a moment between events."""
    for world in worlds:
        world.rescorer.wait()
        world.event_log.catch_up()


def _seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=1_280)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--refresh-growth", type=float, default=1.0, help="1: the metric stays as it is")
    options, _ = parser.parse_known_args()
    for name, make in _models(options.classes, options.features, options.refresh_growth).items():
        print(f"{name}: {options.classes:,} classes, {options.features:,} features, {options.events} labels")
        _measure(make(), options.features, options.events)


if __name__ == "__main__":
    main()
