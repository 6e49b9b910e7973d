"""`openworld fit`: learn a model from labelled samples."""

from __future__ import annotations

import json
from enum import StrEnum
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


class Recognizer(StrEnum):
    """The recognizers that can be fitted."""

    openworld = "openworld"
    nno = "nno"
    ncm = "ncm"
    softmax_threshold = "softmax-threshold"


def fit(
    data: Annotated[
        str,
        typer.Argument(
            help="A folder of pictures with one sub-folder per class, or a .zip of it; texts or paths with "
            "labels (.csv, .tsv, .jsonl, .parquet); or vectors: .npz (arrays X, y), .csv, .parquet or .arrow "
            "(column label), .npy (with x.labels.npy beside x.npy). Also an address (s3://...) or a pattern."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The model file to write, for example my.ow.")
    ],
    recognizer: Annotated[
        Recognizer,
        typer.Option(
            help="openworld is the recommended one; nno is the paper's; ncm never answers unknown; "
            "softmax-threshold is the paper's baseline."
        ),
    ] = Recognizer.openworld,
    tau: Annotated[
        float | None,
        typer.Option(help="For nno and softmax-threshold: from where a sample is unknown. Left out: found."),
    ] = None,
    components: Annotated[
        int | None,
        typer.Option(help="For all but openworld: dimensions of the learnt metric. Left out: at most 512."),
    ] = None,
    extractor: ExtractorOption = None,
    label_column: LabelColumnOption = None,
    on_error: OnErrorOption = OnError.skip,
    workers: WorkersOption = None,
    cache: CacheOption = True,
    dask: DaskOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Learn the starting classes: the metric, the class means and the threshold tau.

    From pictures: openworld fit photos/ -o animals.ow

    From sentences: openworld fit questions.csv -o intents.ow    (columns text and label)

    From vectors: openworld fit animals.csv -o animals.ow    (numbers, and a column label)
    """
    from openworld import save
    from openworld.cli.console import progress_bar
    from openworld.cli.loading import load, noun, tell_left_out
    from openworld.cli.streaming import learn_stream, open_streamed, tell_pass
    from openworld.cli.streaming import tell_left_out as tell_stream_left_out

    if tau is not None and recognizer in (Recognizer.ncm, Recognizer.openworld):
        raise ValueError(f"--tau has no meaning for {recognizer}; it is for nno and softmax-threshold.")
    if components is not None and recognizer is Recognizer.openworld:
        raise ValueError(
            "--components has no meaning for openworld; it is for nno, ncm and softmax-threshold."
        )
    if not output.parent.is_dir():
        raise FileNotFoundError(f"{output}: the folder {output.parent} does not exist.")
    options: dict[str, Any] = {
        "extractor": extractor,
        "label_column": label_column,
        "need_labels": True,
        "on_error": on_error.value,
        "workers": workers,
        "cache": cache,
    }
    stream = open_streamed(data, dask=dask, **options)
    if stream is not None:
        from openworld.distributed import fit as fit_to

        learnt = learn_stream(fit_to, _unfitted(recognizer, tau, components, tell_pass), stream, output, dask)
        n_left_out = learnt.n_failures + learnt.n_unlabelled
        _tell(learnt.model, output, learnt.n_samples, stream.called, n_left_out, as_json=as_json)
        tell_stream_left_out(stream, learnt)
        return
    loaded = load(data, **options)
    samples = loaded.samples
    with progress_bar() as progress:
        task = progress.add_task("Learning", total=100)

        def show(step: int, total: int, loss: float) -> None:
            progress.update(task, completed=step, total=total, description=f"Learning (loss {loss:.3f})")

        model = _unfitted(recognizer, tau, components, show)
        model.fit(samples.X, samples.y)
    if hasattr(model, "metric"):
        model.metric.callback = None  # it shows progress here and has no place in a file
    model.extractor_ = samples.extractor
    save(model, output)
    n_left_out = len(loaded.failures) + loaded.n_unlabelled
    _tell(model, output, len(samples), noun(loaded), n_left_out, as_json=as_json)
    tell_left_out(loaded)


def _tell(model: Any, output: Path, n_samples: int, called: str, n_left_out: int, *, as_json: bool) -> None:
    """Say what was learnt."""
    from openworld.cli.console import messages, plural
    from openworld.cli.loading import tell_alike

    found = getattr(model, "tau_", None)
    if as_json:
        summary = {"model": str(output), "samples": n_samples, "classes": len(model.classes_), "tau": found}
        typer.echo(json.dumps({**summary, "left_out": n_left_out}))
    else:
        known = plural(len(model.classes_), "class", "classes")
        threshold = "" if found is None else f", tau = {found:.4g}"
        messages.print(f"Learnt {known} from {plural(n_samples, called)}{threshold}. Wrote {output}.")
    tell_alike(model.classes_.tolist())


def _unfitted(recognizer: Recognizer, tau: float | None, components: int | None, show: Any) -> Any:
    from openworld import (
        NCMMetric,
        NearestClassMean,
        NearestNonOutlier,
        OpenWorldRecognizer,
        SoftmaxThreshold,
    )

    if recognizer is Recognizer.openworld:
        return OpenWorldRecognizer()
    metric = NCMMetric(components, callback=show)
    if recognizer is Recognizer.ncm:
        return NearestClassMean(metric)
    kind = NearestNonOutlier if recognizer is Recognizer.nno else SoftmaxThreshold
    return kind(metric, tau)
