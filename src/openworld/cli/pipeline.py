"""Shared by fit, learn, recognize and extract: opening data, learning with progress, summaries."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from openworld.cli.console import Progress, messages, plural, print_summary, show_notes

if TYPE_CHECKING:
    from openworld.data.stream import Stream
    from openworld.distributed import Learned

_FAILURES_SHOWN = 10


def open_data(data: Any, **options: Any) -> Stream:
    """Open the data, "-" for standard input, and print its notes; `options` are those of `open_samples`."""
    from openworld.samples import open_samples

    stream = _from_stdin(**options) if data == "-" else open_samples(data, **options)
    show_notes(stream.notes)
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
            stream = open_samples(file.name, **options)  # reads such files at once
        except DataError as error:
            raise DataError(str(error).replace(file.name, "standard input")) from error
    notes = [note.replace(file.name, "standard input") for note in stream.notes]
    return replace(stream, name="standard input", notes=notes)


def _ending(content: bytes, model: Any) -> str:
    """Return the file extension for text of this kind, by its first line: JSON lines, table or sentences."""
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
    """Show progress; if the user interrupts, say which results were saved and exit.

    Parameters
    ----------
    stream : Stream
    doing : str
    kept_in : path, optional
        The folder of partial results, if there are any.
    cache : bool, default=False
        Whether features are cached.
    """
    with Progress(doing, len(stream)) as progress:
        try:
            yield progress
            return
        except KeyboardInterrupt:
            pass
    kept = "Nothing was saved"
    if kept_in is not None and kept_in.exists():
        kept = f"Partial results are in {escape(str(kept_in))}; the same command continues from there"
    elif stream.source is not None and cache:
        kept = "The features extracted so far are cached; the same command continues from there"
    messages.print(f"Interrupted after {progress.done:,} of {len(stream):,}. {kept}.")
    raise typer.Exit(130)


def report_skipped(
    stream: Stream, n_unlabeled: int, failures: list[tuple[str, str]], n_failures: int | None = None
) -> None:
    """List the items that could not be read, and count those without a label."""
    n_failures = len(failures) if n_failures is None else n_failures
    if n_unlabeled:
        messages.print(f"Skipped {plural(n_unlabeled, stream.noun)} without a label.")
    if not n_failures:
        return
    were = "was" if n_failures == 1 else "were"
    messages.print(f"[yellow]{n_failures:,} could not be read and {were} skipped:[/]")
    for name, reason in failures[:_FAILURES_SHOWN]:
        messages.print(f"  {escape(name)}: {escape(reason)}", soft_wrap=True)
    if n_failures > _FAILURES_SHOWN:
        messages.print(f"  ... and {n_failures - _FAILURES_SHOWN:,} more.")


def require_folder(*outputs: Path | None) -> None:
    """Raise an error if an output is in a folder that does not exist, before any work is done."""
    for path in outputs:
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist. Create it first.")


def learn_to_file(
    work: Callable[..., Learned],
    recognizer: Any,
    stream: Stream,
    target: Path,
    *,
    dask: str | None,
    cache: bool,
    find_copies: bool,
) -> Learned:
    """Fit or extend a recognizer and write it; partial results are saved beside the target.

    Parameters
    ----------
    work : callable
        `openworld.distributed.fit` or `learn`.
    recognizer : recognizer
    stream : Stream
    target : path
        The model file.
    dask : str or None
        The address of a cluster.
    cache : bool
        Whether features are cached, so that an interrupted command can continue.
    find_copies : bool
        Whether to look for near copies among pictures.
    """
    from openworld.distributed import Checkpoint, connect
    from openworld.model_file import save

    checkpoint = Checkpoint(Path(f"{target}.progress"), stream, recognizer, find_copies=find_copies)
    with (
        shown(stream, "Learning", kept_in=checkpoint.folder, cache=cache) as progress,
        connect(dask) as engine,
    ):
        shown_recognizer = _showing_steps(recognizer, progress)
        with _advice_for_the_command_line():
            learned = work(
                shown_recognizer,
                stream,
                engine,
                progress=progress.advance,
                checkpoint=checkpoint,
                find_copies=find_copies,
            )
    save(learned.model, target)
    checkpoint.remove()
    return learned


@contextmanager
def _advice_for_the_command_line() -> Iterator[None]:
    """Replace advice to change a parameter that has no option."""
    try:
        yield
    except ValueError as error:
        advice = "Rename that class, or choose another unknown_label."
        if advice not in str(error):
            raise
        renamed = "Rename that class: its folder, or its value in the label column."
        raise ValueError(str(error).replace(advice, renamed)) from error


def _showing_steps(recognizer: Any, progress: Progress) -> Any:
    """Return a copy of an unfitted recognizer whose metric shows the steps of its optimization.

    Fitted recognizers, and those whose metric has no steps, are returned as they are.
    """
    from sklearn.base import clone

    def show(step: int, n_steps: int, loss: float) -> None:
        progress.update(step, n_steps, f"Learning the metric (loss {loss:.3f})")

    if recognizer.__sklearn_is_fitted__() or "metric__callback" not in recognizer.get_params():
        return recognizer
    return clone(recognizer).set_params(metric__callback=show)


def report_learned(
    stream: Stream, learned: Learned, summary: dict[str, Any], words: str, *, as_json: bool
) -> None:
    """Print what was learned, as JSON or in words, and what was skipped."""
    n_skipped = learned.n_failures + learned.n_unlabeled
    counts = {"samples": learned.n_samples, "left_out": n_skipped, "near_copies": learned.n_copies}
    print_summary({**summary, **counts}, words, as_json=as_json)
    if learned.n_copies:
        copies = plural(learned.n_copies, "picture has", "pictures have")
        counted = "a group of them counts as one. Use --no-find-copies to count each"
        show_notes([f"{copies} near copies in the class, as in a burst: {counted}."])
    report_skipped(stream, learned.n_unlabeled, learned.failures, learned.n_failures)


def with_objective(recognizer: Any, objective: str | None) -> Any:
    """Return the recognizer at the operating point of an objective, if one is given."""
    from openworld.recognition import is_adjustable, parse_objective

    if objective is None:
        return recognizer
    if not is_adjustable(recognizer):
        raise ValueError(
            f"--objective has no meaning for a {type(recognizer).__name__}; it is for models of openworld."
        )
    return recognizer.set_objective(parse_objective(objective))
