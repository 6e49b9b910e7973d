"""What fit, learn, recognize and extract share: opening the data, working through them, what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from openworld.cli.console import Progress, messages, plural

if TYPE_CHECKING:
    from openworld.data.stream import Stream

_FAILURES_SHOWN = 10


def open_data(data: Any, **options: Any) -> Stream:
    """Open the data and say what a user should know; the options are those of `open_samples`."""
    from openworld.samples import open_samples

    stream = open_samples(data, **options)
    for note in stream.notes:
        messages.print(f"[yellow]Note:[/] {escape(note)}", soft_wrap=True)
    return stream


@contextmanager
def shown(
    stream: Stream, doing: str, *, kept_in: Path | None = None, cache: bool = False
) -> Iterator[Progress]:
    """Show how far the work is; when the user interrupts it, say what is kept.

    Parameters
    ----------
    stream : Stream
    doing : str
    kept_in : path, optional
        Where the work done so far is kept, if that folder exists.
    cache : bool, default=False
        Whether features are kept in the cache.
    """
    with Progress(doing, len(stream)) as progress:
        try:
            yield progress
            return
        except KeyboardInterrupt:
            pass
    kept = "Nothing was kept"
    if kept_in is not None and kept_in.exists():
        kept = f"What was done is kept in {escape(str(kept_in))}; the same command goes on from there"
    elif stream.source is not None and cache:
        kept = "The features made so far are kept; the same command goes on from there"
    messages.print(f"Interrupted after {progress.done:,} of {len(stream):,}. {kept}.")
    raise typer.Exit(130)


def report_left_out(
    stream: Stream, n_unlabeled: int, failures: list[tuple[str, str]], n_failures: int | None = None
) -> None:
    """Name what could not be read, and say how many had no label."""
    n_failures = len(failures) if n_failures is None else n_failures
    if n_unlabeled:
        messages.print(f"{plural(n_unlabeled, stream.noun)} without a label: left out.")
    if not n_failures:
        return
    messages.print(f"[yellow]{n_failures:,} could not be read and were left out:[/]")
    for name, reason in failures[:_FAILURES_SHOWN]:
        messages.print(f"  {escape(name)}: {escape(reason)}", soft_wrap=True)
    if n_failures > _FAILURES_SHOWN:
        messages.print(f"  ... and {n_failures - _FAILURES_SHOWN:,} more.")


def require_folder(*outputs: Path | None) -> None:
    """Refuse outputs in folders that do not exist, before any work is done."""
    for path in outputs:
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist.")
