"""The layout of the code: where tests stand, and what no module of the package does."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import openworld

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "openworld"
MODULES = {path.relative_to(PACKAGE): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
MOST_LINES = 400

# Folders that test the whole: the page, the contract of all recognizers, files beside the package.
WHOLE = {"browser", "contract", "deploy", "docs", "examples", "packaging", "upgrade"}
# Files that test several modules together.
TOGETHER = {
    "recognition/test_all_or_nothing.py",
    "recognition/test_bad_input.py",
    "service/api/test_database_away.py",
    "service/api/test_schema.py",
    "service/test_kill.py",
    "service/test_killed_replicas.py",
    "service/test_reliability.py",
    "service/test_undo_machine.py",
    "test_layout.py",
    "test_public_names.py",
    "test_readme.py",
}


def has_source(test: Path) -> bool:
    """Whether the module or package of a test file exists; a package's own test may stand inside it."""
    folder, name = PACKAGE / test.parent, test.stem.removeprefix("test_")
    return (
        (folder / f"{name}.py").is_file()
        or (folder / name / "__init__.py").is_file()
        or (name == test.parent.name and (folder / "__init__.py").is_file())
    )


def test_every_test_file_stands_where_its_source_stands() -> None:
    files = {path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    inside = {file for file in files if file.parts[0] not in WHOLE}
    assert {file.as_posix() for file in inside if not has_source(file)} == TOGETHER


def test_every_class_name_is_used_once() -> None:
    names = Counter(
        node.name for tree in MODULES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_no_module_imports_a_private_name_of_another() -> None:
    private = [
        f"{module}: {alias.name} of {node.module}"
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("openworld")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert private == []


def test_recognizers_are_used_by_their_protocol_only() -> None:
    """No `isinstance` on recognizers in the packages that work with any of them."""
    recognizers = {name for name in openworld.__all__ if hasattr(getattr(openworld, name), "judge")}
    assert "NearestNonOutlier" in recognizers
    checks = [
        f"{module}:{node.lineno}"
        for module, tree in MODULES.items()
        if module.parts[0] in ("cli", "discovery", "distributed", "evaluation", "service")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        if recognizers & {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
    ]
    assert checks == []


def test_no_file_is_too_long_to_read() -> None:
    lengths = {path: len((PACKAGE / path).read_text("utf-8").splitlines()) for path in MODULES}
    assert [path for path, lines in lengths.items() if lines > MOST_LINES] == []
