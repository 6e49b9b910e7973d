"""`openworld fit`: learn a model from labelled samples."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class Recognizer(StrEnum):
    """The recognizers that can be fitted."""

    openworld = "openworld"
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
            help="openworld is the recommended one; nno is the paper's; ncm never answers unknown; "
            "softmax-threshold is the paper's rival."
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
    label_column: Annotated[str | None, typer.Option(help="The array or column with the labels.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Learn the starting classes: the metric, the class means and the threshold tau.

    Example: openworld fit animals.csv -o animals.ow
    """
    from openworld import save
    from openworld.cli.console import messages, plural, progress_bar, read_labelled

    if tau is not None and recognizer in (Recognizer.ncm, Recognizer.openworld):
        raise ValueError(f"--tau has no meaning for {recognizer}; it is for nno and softmax-threshold.")
    if components is not None and recognizer is Recognizer.openworld:
        raise ValueError(
            "--components has no meaning for openworld; it is for nno, ncm and softmax-threshold."
        )
    if not output.parent.is_dir():
        raise FileNotFoundError(f"{output}: the folder {output.parent} does not exist.")
    X, y = read_labelled(data, label_column)
    with progress_bar() as progress:
        task = progress.add_task("Learning", total=100)

        def show(step: int, total: int, loss: float) -> None:
            progress.update(task, completed=step, total=total, description=f"Learning (loss {loss:.3f})")

        model = _unfitted(recognizer, tau, components, show)
        model.fit(X, y)
    if hasattr(model, "metric"):
        model.metric.callback = None  # it shows progress here and has no place in a file
    save(model, output)
    found = getattr(model, "tau_", None)
    if as_json:
        summary = {"model": str(output), "samples": len(X), "classes": len(model.classes_), "tau": found}
        typer.echo(json.dumps(summary))
        return
    known = plural(len(model.classes_), "class", "classes")
    threshold = "" if found is None else f", tau = {found:.4g}"
    messages.print(f"Learnt {known} from {plural(len(X), 'sample')}{threshold}. Wrote {output}.")


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
