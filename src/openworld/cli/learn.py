"""`openworld learn`: teach a model more samples or new classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from openworld.cli.options import (
    CacheOption,
    DaskOption,
    ExtractorOption,
    LabelColumnOption,
    OnError,
    OnErrorOption,
    WorkersOption,
)

_NAMES_COMPARED = 20  # new names, with all that are known: it takes a while


def learn(
    model: Annotated[Path, typer.Argument(help="The model file.")],
    data: Annotated[str, typer.Argument(help="What openworld fit takes, of known or new classes.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here instead of over the model file.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="The class of all that is in the data, such as a folder of one class."),
    ] = None,
    extractor: ExtractorOption = None,
    label_column: LabelColumnOption = None,
    on_error: OnErrorOption = OnError.skip,
    workers: WorkersOption = None,
    cache: CacheOption = True,
    dask: DaskOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Add labelled samples to a model; the classes it knows already stay as they are.

    One sub-folder per class: openworld learn animals.ow new-animals/

    A folder of one class: openworld learn animals.ow okapi/ --label okapi
    """
    from openworld import load as load_model
    from openworld import save
    from openworld.cli.loading import load, noun, tell_left_out
    from openworld.cli.streaming import learn_stream, open_streamed
    from openworld.cli.streaming import tell_left_out as tell_stream_left_out

    recognizer = load_model(model)
    before = recognizer.classes_.tolist()
    target = output or model
    options: dict[str, Any] = {
        "model": recognizer,
        "extractor": extractor,
        "label": label,
        "label_column": label_column,
        "need_labels": True,
        "on_error": on_error.value,
        "workers": workers,
        "cache": cache,
    }
    stream = open_streamed(data, dask=dask, **options)
    if stream is not None:
        from openworld.distributed import learn as learn_from

        learnt = learn_stream(learn_from, recognizer, stream, target, dask)
        n_left_out = learnt.n_failures + learnt.n_unlabelled
        _tell(learnt.model, before, target, learnt.n_samples, stream.called, n_left_out, as_json=as_json)
        tell_stream_left_out(stream, learnt)
        return
    loaded = load(data, **options)
    recognizer.partial_fit(loaded.samples.X, loaded.samples.y)
    save(recognizer, target)
    n_left_out = len(loaded.failures) + loaded.n_unlabelled
    _tell(recognizer, before, target, len(loaded.samples), noun(loaded), n_left_out, as_json=as_json)
    tell_left_out(loaded)


def _tell(
    model: Any,
    before: list[Any],
    target: Path,
    n_samples: int,
    called: str,
    n_left_out: int,
    *,
    as_json: bool,
) -> None:
    """Say what was learnt."""
    from rich.markup import escape

    from openworld.cli.console import messages, plural

    known = model.classes_.tolist()
    new = [name for name in known if name not in set(before)]
    if as_json:
        summary = {"model": str(target), "samples": n_samples, "classes": len(known)}
        typer.echo(json.dumps({**summary, "new_classes": len(new), "left_out": n_left_out}))
    else:
        messages.print(
            f"Learnt {plural(n_samples, called)}, {plural(len(new), 'new class', 'new classes')}; "
            f"{plural(len(known), 'class', 'classes')} known now. Wrote {target}."
        )
    for name, alike in _alike(new, before):
        messages.print(f"[yellow]The new class {escape(name)} is spelt much like {escape(alike)}.[/]")


def _alike(new: list[Any], before: list[Any]) -> list[tuple[str, str]]:
    """Return each new class whose name is nearly that of a known one, with that one: perhaps a slip."""
    from openworld.discovery import near_duplicate_names

    known = [name for name in before if isinstance(name, str)]
    named = [name for name in new if isinstance(name, str)][:_NAMES_COMPARED]
    return [(name, found[0]) for name in named if (found := near_duplicate_names(name, known))]
