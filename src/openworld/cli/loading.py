"""What fit, learn, recognize and extract share: opening the data, working through them, what was left out."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from openworld.cli.console import Progress, messages, plural

if TYPE_CHECKING:
    from openworld.data.stream import Stream

_FAILURES_SHOWN = 10


def open_data(data: Any, **options: Any) -> Stream:
    """Open the data, "-" for standard input, and say what a user should know; see `open_samples`."""
    from openworld.samples import open_samples

    stream = _from_stdin(**options) if data == "-" else open_samples(data, **options)
    for note in stream.notes:
        messages.print(f"[yellow]Note:[/] {escape(note)}", soft_wrap=True)
    return stream


def _from_stdin(**options: Any) -> Stream:
    """Read a table, JSON lines or sentences from standard input."""
    from openworld.data.errors import DataError
    from openworld.samples import open_samples

    content = sys.stdin.buffer.read()
    ending = _ending(content, options.get("model"))
    with tempfile.NamedTemporaryFile(suffix=ending) as file:
        file.write(content)
        file.flush()
        try:
            stream = open_samples(file.name, **options)  # which reads such files at once
        except DataError as error:
            raise DataError(str(error).replace(file.name, "standard input")) from error
    notes = [note.replace(file.name, "standard input") for note in stream.notes]
    return replace(stream, name="standard input", notes=notes)


def _ending(content: bytes, model: Any) -> str:
    """Tell by its first line what a text is: JSON lines, a table or sentences."""
    from openworld.data.columns import TEXT_COLUMNS

    first = content.lstrip().splitlines()[0].decode("utf-8", "replace") if content.strip() else ""
    if first.startswith("{"):
        return ".jsonl"
    of_texts = getattr(model, "extractor_", None) is not None
    named = any(name.strip().strip('"') in TEXT_COLUMNS for name in re.split(r"[,;\t|]", first))
    return ".txt" if of_texts and not named else ".csv"


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
            raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist. Create it first.")
