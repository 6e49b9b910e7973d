"""`openworld fit`: learn a model from labelled samples."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Recognizer(StrEnum):
    """The recognizers that can be fitted."""

    nno = "nno"
    ncm = "ncm"
    softmax_threshold = "softmax-threshold"


def fit(
    data: Annotated[
        Path, typer.Argument(help="Labelled samples: .npz (arrays X, y), .csv or .parquet (column label).")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The model file to write, for example my.ow.")
    ],
    recognizer: Annotated[
        Recognizer,
        typer.Option(
            help="nno answers unknown beyond tau; ncm never does; softmax-threshold is the paper's rival."
        ),
    ] = Recognizer.nno,
    tau: Annotated[
        float | None,
        typer.Option(help="The distance beyond which a sample is unknown. Left out: found from the data."),
    ] = None,
    components: Annotated[
        int | None, typer.Option(help="Dimensions of the learnt metric. Left out: at most 512.")
    ] = None,
    label_column: Annotated[str | None, typer.Option(help="The array or column with the labels.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Learn the starting classes: the metric, the class means and the threshold tau.

    Example: openworld fit animals.csv -o animals.ow
    """
    from openworld import NCMMetric, NearestClassMean, NearestNonOutlier, SoftmaxThreshold, save
    from openworld.cli.console import messages, plural, progress_bar, read_labelled

    if tau is not None and recognizer is Recognizer.ncm:
        raise ValueError("--tau has no meaning for ncm, which never answers unknown.")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"{output}: the folder {output.parent} does not exist.")
    X, y = read_labelled(data, label_column)
    with progress_bar() as progress:
        task = progress.add_task("Learning the metric", total=100)
        metric = NCMMetric(
            components,
            callback=lambda step, total, loss: progress.update(
                task, completed=step, total=total, description=f"Learning the metric (loss {loss:.3f})"
            ),
        )
        model: NearestClassMean | NearestNonOutlier
        if recognizer is Recognizer.ncm:
            model = NearestClassMean(metric)
        elif recognizer is Recognizer.nno:
            model = NearestNonOutlier(metric, tau)
        else:
            model = SoftmaxThreshold(metric, tau)
        model.fit(X, y)
        model.metric.callback = None
    save(model, output)
    found = getattr(model, "tau_", None)
    if as_json:
        summary = {
            "model": str(output),
            "samples": len(X),
            "classes": len(model.classes_),
            "tau": found,
        }
        typer.echo(json.dumps(summary))
        return
    known = plural(len(model.classes_), "class", "classes")
    threshold = "" if found is None else f", tau = {found:.4g}"
    messages.print(f"Learnt {known} from {plural(len(X), 'sample')}{threshold}. Wrote {output}.")
