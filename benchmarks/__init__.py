"""Benchmarks: `python -m benchmarks.speed`."""
