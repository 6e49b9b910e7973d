"""Count the files and functions of openworld that common operations pass through, and the size of the code.

    python -m benchmarks.design.code_paths

Counted with `sys.setprofile` on all threads: calls of functions in the package, generators and comprehensions
excluded. Runs on older versions too, with PYTHONPATH set to their `src`.
"""

from __future__ import annotations

import ast
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import openworld
from openworld import NearestNonOutlier, OpenWorldRecognizer

PACKAGE = Path(openworld.__file__).parent
LOCAL = "http://127.0.0.1:8000"
Function = tuple[str, str]


class Visits:
    """The functions of the package that were called while it was `current`."""

    current: Visits | None = None

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()

    @property
    def functions(self) -> set[Function]:
        """File and name of each."""
        found = set()
        for code in self.codes:
            path = Path(code.co_filename)
            if path.is_relative_to(PACKAGE) and not code.co_name.startswith("<"):
                found.add((str(path.relative_to(PACKAGE)), code.co_qualname))
        return found


def record(frame: FrameType, event: str, argument: Any) -> None:
    """Profile function of all threads."""
    if event == "call" and Visits.current is not None:
        Visits.current.codes.add(frame.f_code)


@contextmanager
def counted() -> Iterator[Visits]:
    """Count the calls inside the block."""
    Visits.current = visits = Visits()
    try:
        yield visits
    finally:
        Visits.current = None


def show(name: str, visits: Visits, folder: str = "") -> None:
    functions = visits.functions
    files = {file for file, _ in functions}
    line = f"{name:42s} {len(files):3d} files, {len(functions):3d} functions"
    if folder:
        line += f"; {sum(file.startswith(folder) for file in files)} files in {folder}"
    print(line, flush=True)


def recognizers() -> None:
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    for make in (NearestNonOutlier, OpenWorldRecognizer):
        model = make()
        steps: dict[str, Callable[[], Any]] = {
            "fit": lambda model=model: model.fit(X[:500][y[:500] < 8], y[:500][y[:500] < 8]),
            "predict": lambda model=model: model.predict(X[500:510]),
            "partial_fit": lambda model=model: model.partial_fit(X[y == 8][:20], y[y == 8][:20]),
        }
        for step, run in steps.items():
            with counted() as visits:
                run()
            show(f"{make.__name__}.{step}", visits)


def service(folder: Path) -> None:
    from fastapi.testclient import TestClient

    from openworld.service.app import create_app
    from openworld.service.world import World

    try:
        from openworld.service.settings import load_settings
    except ImportError:  # version 0.1
        from openworld.service.configuration import load_settings  # type: ignore[import-not-found,no-redef]
    random = np.random.default_rng(0)
    X, y = random.normal(size=(90, 4)) + np.repeat(np.eye(3, 4) * 20, 30, axis=0), np.repeat(list("abc"), 30)
    database = f"sqlite:///{folder / 'world.db'}"
    settings = load_settings(database=database, clustering=False)
    model = OpenWorldRecognizer(n_lifted=0).fit(X.astype(np.float32), y)
    with World.open(database, model) as world, TestClient(create_app(world, settings), LOCAL) as client:
        unknown = [[90.0, 90.0, 90.0, 90.0]]
        found = client.post("/v1/recognize", json={"vectors": unknown}).raise_for_status().json()
        with counted() as visits:
            client.post("/v1/recognize", json={"vectors": [[91.0, 90.0, 90.0, 90.0]]}).raise_for_status()
        show("POST /v1/recognize of an unknown vector", visits, "service")
        sample = found["answers"][0]["sample_id"]
        with counted() as visits:
            client.post("/v1/label", json={"sample_ids": [sample], "label": "new"}).raise_for_status()
        show("POST /v1/label", visits, "service")


def command(folder: Path) -> None:
    from typer.testing import CliRunner

    from openworld.cli.app import app

    random = np.random.default_rng(0)
    for name in ("dark", "light", "red"):
        (folder / "photos" / name).mkdir(parents=True)
        level = {"dark": (30, 30, 30), "light": (220, 220, 220), "red": (220, 30, 30)}[name]
        for i in range(6):
            pixels = np.clip(random.normal(level, 15, size=(32, 32, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{i}.png")
    arguments = ["fit", str(folder / "photos"), "-o", str(folder / "model.ow"), "--extractor", "pixels"]
    for options in ([], ["--no-check"]):  # version 0.1 has no check
        with counted() as visits:
            result = CliRunner().invoke(app, [*arguments, *options])
        if result.exit_code == 0:
            show(" ".join(["openworld fit FOLDER", *options]), visits)


def sizes() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    lines = {file: len(file.read_text().splitlines()) for file in files}
    print(f"\nsrc: {len(files)} Python files, {sum(lines.values()):,} lines")
    for package in sorted(path for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()):
        inside = [file for file in files if file.is_relative_to(package)]
        print(f"  {package.name:14s} {len(inside):3d} files, {sum(lines[file] for file in inside):6,} lines")
    longest = max(files, key=lines.__getitem__)
    print(f"longest file: {longest.relative_to(PACKAGE)}, {lines[longest]} lines")
    functions = [
        (node.end_lineno - node.lineno + 1, f"{file.relative_to(PACKAGE)}:{node.name}")
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    ]
    n_lines, name = max(functions)
    over = sum(n > 60 for n, _ in functions)
    print(f"{len(functions):,} functions, {over} over 60 lines; longest: {name}, {n_lines} lines")


def main() -> None:
    threading.setprofile(record)
    sys.setprofile(record)
    recognizers()
    with tempfile.TemporaryDirectory() as folder:
        service(Path(folder))
        command(Path(folder))
    sys.setprofile(None)
    sizes()


if __name__ == "__main__":
    main()
