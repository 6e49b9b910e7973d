"""What the commands share: messages, progress, counts with their nouns."""

from __future__ import annotations

import time
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from rich.console import Console
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
    """How many a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


class Progress:
    """Progress of some work on the error stream: a bar in a terminal, otherwise a line now and then.

    Parameters
    ----------
    doing : str
        What is done, such as "Recognizing".
    total : int, default=0
        How many samples or steps there are; 0 while that is not known.
    """

    def __init__(self, doing: str, total: int = 0) -> None:
        self.doing, self.total, self.done = doing, total, 0
        self._started = self._told = time.monotonic()
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
        """Count samples or steps that are done."""
        self.update(self.done + n, self.total)

    def update(self, done: int, total: int, doing: str | None = None) -> None:
        """Say how far the work is."""
        self.done, self.total, self.doing = done, total, doing or self.doing
        self._bar.update(self._task, completed=done, total=total, description=self.doing, visible=total > 0)
        now = time.monotonic()
        if not messages.is_terminal and now - self._told >= _SECONDS_BETWEEN_LINES:
            self._told = now
            rate = done / (now - self._started)
            messages.print(f"{self.doing}: {done:,} of {total:,}, {rate:,.3g} a second.", markup=False)


def plural(count: int, word: str, many: str | None = None) -> str:
    """Return the count with its noun: 1 class, 2 classes."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def missing(*modules: str) -> list[str]:
    """Return the modules that are not installed."""
    return [name for name in modules if find_spec(name) is None]


def need(*modules: str, extra: str) -> None:
    """Stop with the command that installs what is missing, if something is."""
    if absent := missing(*modules):
        raise ImportError(f'This command needs {", ".join(absent)}: pip install "openworld[{extra}]"')
