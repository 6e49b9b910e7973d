"""What fit, learn and recognize do with more samples than memory, or on a cluster."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from openworld.cli.console import messages, plural, progress_bar

if TYPE_CHECKING:
    from openworld.data.streams import Stream
    from openworld.distributed import Learnt

HELD_IN_MEMORY = 256 << 20  # bytes of features; what has more is streamed
ITEMS_HELD = 50_000  # pictures or texts: about as many bytes, with 1,280 features
_FAILURES_SHOWN = 10


def open_streamed(
    data: str,
    *,
    dask: str | None,
    model: Any = None,
    extractor: str | None = None,
    label: str | None = None,
    label_column: str | None = None,
    need_labels: bool = False,
    on_error: Any = "skip",
    workers: int | None = None,
    cache: bool = True,
) -> Stream | None:
    """Return the data as a stream; None where they are small enough to be held in memory as they are.

    Streamed are: files of vectors above 256 MiB, more than 50,000 pictures or texts, addresses, patterns,
    Arrow files, `.npy` files with labels beside them, and all that is to be worked on by a cluster.
    """
    from openworld.data.sources import open_source
    from openworld.data.streams import ENDINGS, open_stream
    from openworld.data.tables import DataError

    vectors = "://" in data or (glob.has_magic(data) and not Path(data).exists())
    source = None
    if not vectors:
        if Path(data).suffix.lower() in ENDINGS[1:]:
            vectors = Path(data).exists()
        else:
            source = open_source(data, label_column=label_column)
            vectors = source is None and data.lower().endswith(ENDINGS)
    if source is not None:
        if not dask and len(source) <= ITEMS_HELD:
            return None
        from openworld.distributed.pictures import open_items

        return open_items(
            data,
            model=model,
            extractor=extractor,
            label=label,
            label_column=label_column,
            need_labels=need_labels,
            on_error=on_error,
            workers=workers,
            cache=cache,
        )
    if not vectors:
        if dask:
            raise DataError(f"{data}: a cluster reads pictures, texts, .parquet, .arrow and .npy files.")
        return None
    stream = open_stream(data, label_column=label_column, label=label)
    beside = data.lower().endswith(".npy") and stream.labelled
    is_small = Path(data).exists() and os.path.getsize(data) <= HELD_IN_MEMORY
    if is_small and not dask and not beside and not data.lower().endswith(ENDINGS[1:4]):
        return None
    _check_extractor(data, stream, model, extractor)
    if need_labels and not stream.labelled:
        raise DataError(
            f"{data}: there are no labels in it. A table needs a column named label, or name it with "
            "--label-column; x.npy needs x.labels.npy beside it."
        )
    return stream


def _check_extractor(data: str, stream: Stream, model: Any, extractor: str | None) -> None:
    """Refuse vectors that are not of the kind the model was learnt on."""
    from openworld.data.tables import DataError
    from openworld.features.extractor import ExtractorId, require_same

    if extractor is not None:
        raise DataError(f"{data} holds vectors, which need no extractor.")
    needed = getattr(model, "extractor_", None)
    if needed is not None:
        if stream.extractor is None:
            raise DataError(
                f"{data} holds plain vectors, but the model was learnt on features of "
                f"{ExtractorId.from_dict(needed)}. Give it the pictures or texts themselves."
            )
        require_same(ExtractorId.from_dict(needed), ExtractorId.from_dict(stream.extractor))


@contextmanager
def shown(stream: Stream, doing: str, kept_in: Path | None) -> Iterator[Callable[[int], None]]:
    """Show how far the work is; where it is interrupted, say what is kept."""
    done = 0
    try:
        with progress_bar(rate=True) as progress:
            task = progress.add_task(doing, total=len(stream))

            def advance(n: int) -> None:
                nonlocal done
                done += n
                progress.update(task, completed=done)

            yield advance
    except KeyboardInterrupt:
        kept = "Nothing was kept"
        if kept_in is not None and kept_in.exists():
            kept = f"What was done is kept in {escape(str(kept_in))}; the same command goes on from there"
        messages.print(f"Interrupted after {done:,} of {len(stream):,}. {kept}.")
        raise typer.Exit(130) from None


def learn_stream(
    work: Callable[..., Learnt], model: Any, stream: Stream, target: Path, dask: str | None
) -> Learnt:
    """Fit or teach a model, keeping beside the target what was learnt so far; write it to the target."""
    from openworld.distributed import Checkpoint, connect
    from openworld.model_file import save

    checkpoint = Checkpoint(Path(f"{target}.progress"), stream, model)
    with shown(stream, "Learning", checkpoint.folder) as advance, connect(dask) as engine:
        learnt = work(model, stream, engine, progress=advance, checkpoint=checkpoint)
    if getattr(learnt.model, "metric", None) is not None:
        learnt.model.metric.callback = None  # it shows progress here and has no place in a file
    learnt.model.extractor_ = stream.extractor
    save(learnt.model, target)
    checkpoint.remove()
    return learnt


def tell_pass(step: int, n_steps: int, loss: float) -> None:
    """Say how far the metric is."""
    if messages.is_terminal:
        messages.print(f"Metric: step {step} of at most {n_steps}, loss {loss:.3f}")


def tell_left_out(stream: Stream, learnt: Learnt) -> None:
    """Name what could not be read, and say how many had no label."""
    if learnt.n_unlabelled:
        messages.print(f"{plural(learnt.n_unlabelled, stream.called)} without a label: left out.")
    tell_failures(learnt.failures, learnt.n_failures)


def tell_failures(failures: list[tuple[str, str]], n_failures: int) -> None:
    """Name the first of what could not be read."""
    if not n_failures:
        return
    messages.print(f"[yellow]{n_failures:,} could not be read and were left out:[/]")
    for name, reason in failures[:_FAILURES_SHOWN]:
        messages.print(f"  {escape(name)}: {escape(reason)}", soft_wrap=True)
    if n_failures > _FAILURES_SHOWN:
        messages.print(f"  ... and {n_failures - _FAILURES_SHOWN:,} more.")
