"""What the commands share: messages and progress bars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

messages = Console(stderr=True, highlight=False)


class _Rate(ProgressColumn):
    """How many a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


@contextmanager
def progress_bar(*, rate: bool = False) -> Iterator[Progress]:
    """Show progress on the error stream while work goes on; nothing is left of it afterwards."""
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        *([_Rate()] if rate else []),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as progress:
        yield progress


def plural(count: int, word: str, many: str | None = None) -> str:
    """Return the count with its noun: 1 class, 2 classes."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def need(*modules: str, extra: str) -> None:
    """Stop with the command that installs what is missing, if something is."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise ImportError(f"This needs {', '.join(missing)}: pip install openworld[{extra}]")
