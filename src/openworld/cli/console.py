"""What the commands share: messages, progress bars and reading their input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

messages = Console(stderr=True, highlight=False)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show progress on the error stream while work goes on; nothing is left of it afterwards."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=messages,
        transient=True,
        disable=not messages.is_terminal,
    ) as progress:
        yield progress


def read_labelled(path: Path, label_column: str | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Read features and labels; a file without labels is an error."""
    from openworld.data.tables import DataError, read_samples

    samples = read_samples(path, label_column=label_column)
    if samples.y is None:
        raise DataError(
            f"{path}: there are no labels in it. A .npz file needs an array y, a table a column named label; "
            "or name the column with --label-column."
        )
    return samples.X, samples.y


def plural(count: int, word: str, many: str | None = None) -> str:
    """Return the count with its noun: 1 class, 2 classes."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def need(*modules: str, extra: str) -> None:
    """Stop with the command that installs what is missing, if something is."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise ImportError(f"This needs {', '.join(missing)}: pip install openworld[{extra}]")
