"""What fit and learn share: work through a stream, keep what was learned so far, write the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from openworld.cli.console import Progress
from openworld.cli.loading import report_left_out, shown

if TYPE_CHECKING:
    from openworld.data.stream import Stream
    from openworld.distributed import Learned


def learn_to_file(
    work: Callable[..., Learned],
    recognizer: Any,
    stream: Stream,
    target: Path,
    *,
    dask: str | None,
    cache: bool,
) -> Learned:
    """Fit or teach a recognizer and write it; beside the target is kept what was learned so far.

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
        Whether features are cached, so that an interrupted command goes on from there.
    """
    from openworld.distributed import Checkpoint, connect
    from openworld.model_file import save

    checkpoint = Checkpoint(Path(f"{target}.progress"), stream, recognizer)
    with (
        shown(stream, "Learning", kept_in=checkpoint.folder, cache=cache) as progress,
        connect(dask) as engine,
    ):
        shown_recognizer = _showing_steps(recognizer, progress)
        learned = work(shown_recognizer, stream, engine, progress=progress.advance, checkpoint=checkpoint)
    save(learned.model, target)
    checkpoint.remove()
    return learned


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


def say_learned(
    stream: Stream, learned: Learned, summary: dict[str, Any], words: str, *, as_json: bool
) -> None:
    """Say what was learned, as JSON or in words, and what was left out."""
    from openworld.cli.console import messages

    if as_json:
        n_left_out = learned.n_failures + learned.n_unlabeled
        typer.echo(json.dumps({**summary, "samples": learned.n_samples, "left_out": n_left_out}))
    else:
        messages.print(words)
    report_left_out(stream, learned.n_unlabeled, learned.failures, learned.n_failures)


def with_objective(recognizer: Any, objective: str | None) -> Any:
    """Return the recognizer with its threshold moved to where an objective asks for, if one is given."""
    if objective is None:
        return recognizer
    if not hasattr(recognizer, "set_objective"):
        raise ValueError(
            f"--objective has no meaning for a {type(recognizer).__name__}; it is for models of openworld."
        )
    from openworld.recognition.threshold import parse_objective

    return recognizer.set_objective(parse_objective(objective))
