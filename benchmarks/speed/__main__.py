"""Run the short speed benchmarks, one after the other; the others have commands of their own."""

from __future__ import annotations

from benchmarks.speed import import_time, metric_learning, partial_fit, predict

for benchmark in (import_time, predict, partial_fit, metric_learning):
    print(f"\n== {benchmark.__name__}", flush=True)
    benchmark.main()
