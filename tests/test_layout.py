"""A test file stands where its source stands: src/openworld/a/b.py is tested by tests/a/test_b.py."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "openworld"

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
