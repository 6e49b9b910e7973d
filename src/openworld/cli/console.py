"""Shared by all commands: messages, notes, summaries, progress, missing packages, database errors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bar,
)
from rich.text import Text

messages = Console(stderr=True, highlight=False)
_SECONDS_BETWEEN_LINES = 10.0


class _Rate(ProgressColumn):
    """Items per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


class Progress:
    """Progress on the error stream: a bar in a terminal, otherwise a line every ten seconds.

    Parameters
    ----------
    doing : str
        A description of the work, such as "Recognizing".
    total : int, default=0
        Number of samples or steps; 0 if unknown.
    """

    def __init__(self, doing: str, total: int = 0) -> None:
        self.doing, self.total, self.done = doing, total, 0
        self._started = self._last_line = time.monotonic()
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            _Rate(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=messages,
            transient=True,
            disable=not messages.is_terminal,
        )
        self._task = self._bar.add_task(doing, total=total, visible=total > 0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self, n: int) -> None:
        """Add to the number of samples or steps done."""
        self.update(self.done + n, self.total)

    def update(self, done: int, total: int, doing: str | None = None) -> None:
        """Set the number of samples or steps done."""
        self.done, self.total, self.doing = done, total, doing or self.doing
        self._bar.update(self._task, completed=done, total=total, description=self.doing, visible=total > 0)
        now = time.monotonic()
        if not messages.is_terminal and now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            rate = done / (now - self._started)
            messages.print(f"{self.doing}: {done:,} of {total:,}, {rate:,.3g} per second.", markup=False)


def plural(count: int, word: str, many: str | None = None) -> str:
    """Return the count with its noun: 1 class, 2 classes."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def missing(*modules: str) -> list[str]:
    """Return the modules that are not installed."""
    return [name for name in modules if find_spec(name) is None]


def need(*modules: str, extra: str) -> None:
    """Raise an error with the command that installs the missing modules, if any."""
    if absent := missing(*modules):
        raise ImportError(f'This command needs {", ".join(absent)}: pip install "openworld[{extra}]"')


def show_notes(notes: Iterable[str]) -> None:
    """Print notes about how the data is read."""
    for note in notes:
        messages.print(f"[yellow]Note:[/] {escape(note)}", soft_wrap=True)


def print_summary(summary: dict[str, Any], words: str, *, as_json: bool) -> None:
    """Print the result of a command: as JSON on standard output, or in words on the error stream."""
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        messages.print(words)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors of the database or of an event into a ValueError of one line."""
    from sqlalchemy.exc import SQLAlchemyError

    from openworld.service.validation import Conflict, NotFound
    from openworld.store import StorageError

    try:
        yield
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise ValueError(f"The database cannot be used: {reason}") from error
    except (Conflict, NotFound, StorageError) as error:
        raise ValueError(error.args[0]) from error
