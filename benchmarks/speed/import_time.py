"""`import openworld` against `import sklearn.base`, each in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.speed.measure import best_times


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def main() -> None:
    nothing, ours, theirs, recognizer = best_times(
        [
            lambda: _run("pass"),
            lambda: _run("import openworld"),
            lambda: _run("import sklearn.base"),
            lambda: _run("from openworld import NearestNonOutlier"),
        ]
    )
    print(f"a Python that does nothing: {nothing:.3f} s")
    print(f"import sklearn.base: {theirs:.3f} s")
    print(f"import openworld: {ours:.3f} s, {ours / theirs:.2f} times sklearn.base")
    print(f"from openworld import NearestNonOutlier: {recognizer:.3f} s, {recognizer / theirs:.2f} times")


if __name__ == "__main__":
    main()
