"""Reading the input of a command: progress while features are made, and what to say about the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from openworld.cli.console import messages, plural, progress_bar

if TYPE_CHECKING:
    from openworld.samples import Loaded

_FAILURES_SHOWN = 10
_NOUNS = {"image": "picture", "text": "text"}


def load(data: Any, *, cache: bool = True, **options: Any) -> Loaded:
    """Load samples with a progress bar; see `openworld.samples.load_samples` for the options.

    When the user interrupts, what was done is in the cache, and the command says so.
    """
    from openworld.samples import load_samples

    so_far = (0, 0)
    with progress_bar(rate=True) as progress:
        task = progress.add_task("Extracting features", total=1, visible=False)

        def show(done: int, total: int) -> None:
            nonlocal so_far
            so_far = (done, total)
            progress.update(task, completed=done, total=total, visible=True)

        try:
            return load_samples(data, cache=cache, progress=show, **options)
        except KeyboardInterrupt:
            pass
    done, total = so_far
    kept = "What was done is kept; the same command goes on from there" if cache else "Nothing was kept"
    messages.print(f"Interrupted after {done:,} of {total:,}. {kept}.")
    raise typer.Exit(130)


def tell_left_out(loaded: Loaded) -> None:
    """Name what could not be read, and say how many had no label."""
    if loaded.n_unlabelled:
        messages.print(f"{plural(loaded.n_unlabelled, noun(loaded))} without a label: left out.")
    if loaded.failures:
        messages.print(f"[yellow]{len(loaded.failures):,} could not be read and were left out:[/]")
        for failure in loaded.failures[:_FAILURES_SHOWN]:
            messages.print(f"  {escape(failure.name)}: {escape(failure.reason)}", soft_wrap=True)
        if len(loaded.failures) > _FAILURES_SHOWN:
            messages.print(f"  ... and {len(loaded.failures) - _FAILURES_SHOWN:,} more.")


def tell_alike(classes: list[Any]) -> None:
    """Point out classes whose names differ in case or spaces only: they may be meant as one."""
    alike: dict[str, list[str]] = {}
    for label in map(str, classes):
        alike.setdefault("".join(label.casefold().split()), []).append(label)
    for names in alike.values():
        if len(names) > 1:
            shown = ", ".join(repr(name) for name in names)
            messages.print(f"[yellow]Classes of nearly the same name:[/] {escape(shown)}. They stay apart.")


def noun(loaded: Loaded) -> str:
    """Say what one of the samples is."""
    return _NOUNS[loaded.source.kind] if loaded.source else "sample"


def count_words(loaded: Loaded) -> str:
    """Say how many samples there are, by what they are: 3 pictures."""
    return plural(len(loaded.samples), noun(loaded))
