"""`openworld fit`: learn a model from labeled samples."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from openworld.cli.options import (
    CacheOption,
    DaskOption,
    ExtractorOption,
    FeatureColumnsOption,
    IdColumnOption,
    JsonOption,
    LabelColumnOption,
    Missing,
    MissingOption,
    ObjectiveOption,
    OnError,
    OnErrorOption,
    TextColumnOption,
    WorkersOption,
    as_columns,
    as_extraction,
)


class RecognizerName(StrEnum):
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
        RecognizerName,
        typer.Option(
            help="openworld is the recommended one; nno is the paper's; ncm never answers unknown; "
            "softmax-threshold is the paper's baseline."
        ),
    ] = RecognizerName.openworld,
    tau: Annotated[
        float | None,
        typer.Option(
            help="For nno and softmax-threshold: from where a sample is unknown. By default it is found."
        ),
    ] = None,
    components: Annotated[
        int | None,
        typer.Option(help="For all but openworld: dimensions of the learned metric. By default at most 512."),
    ] = None,
    objective: ObjectiveOption = None,
    extractor: ExtractorOption = None,
    label_column: LabelColumnOption = None,
    feature_columns: FeatureColumnsOption = None,
    text_column: TextColumnOption = None,
    id_column: IdColumnOption = None,
    missing: MissingOption = Missing.error,
    on_error: OnErrorOption = OnError.skip,
    workers: WorkersOption = None,
    cache: CacheOption = True,
    dask: DaskOption = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="Check the recognizer on samples and classes held out: it is fitted six more times, to at "
            "most 2,000 samples.",
        ),
    ] = True,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write what the check found as a page (.html).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Learn the starting classes: the metric, the class means and the threshold tau.

    From pictures: openworld fit photos/ -o animals.ow

    From sentences: openworld fit questions.csv -o intents.ow    (columns text and label)

    From vectors: openworld fit animals.csv -o animals.ow    (numbers, and a column label)
    """
    from openworld.cli.console import need, plural
    from openworld.cli.fit_report import FitReport
    from openworld.cli.learning import learn_to_file, say_learned
    from openworld.cli.loading import open_data, require_folder
    from openworld.distributed import fit as fit_to
    from openworld.recognition.threshold import parse_objective

    if tau is not None and recognizer in (RecognizerName.ncm, RecognizerName.openworld):
        raise ValueError(f"--tau has no meaning for {recognizer}; it is for nno and softmax-threshold.")
    if components is not None and recognizer is RecognizerName.openworld:
        raise ValueError(
            "--components has no meaning for openworld; it is for nno, ncm and softmax-threshold."
        )
    if objective is not None and recognizer is not RecognizerName.openworld:
        raise ValueError(f"--objective has no meaning for {recognizer}; it is for openworld.")
    require_folder(output, report)
    if report is not None:
        need("jinja2", extra="evaluate")
    stream = open_data(
        data,
        extraction=as_extraction(extractor, on_error, workers, cache),
        columns=as_columns(label_column, feature_columns, text_column, id_column, missing),
        need_labels=True,
    )
    unfitted = _unfitted(recognizer, tau, components)
    if objective is not None:
        unfitted.set_params(objective=parse_objective(objective))
    learned = learn_to_file(fit_to, unfitted, stream, output, dask=dask, cache=cache)
    classes = learned.model.classes_.tolist()
    found = getattr(learned.model, "tau_", None)
    threshold = "" if found is None else f", tau = {found:.4g}"
    checked = FitReport(unfitted, stream, learned) if check or report is not None else None
    say_learned(
        stream,
        learned,
        {
            "model": str(output),
            "classes": len(classes),
            "tau": found,
            **({} if checked is None else checked.as_dict()),
        },
        f"Learned {plural(len(classes), 'class', 'classes')} from "
        f"{plural(learned.n_samples, stream.noun)}{threshold}. Wrote {output}.",
        as_json=as_json,
    )
    if checked is not None and not as_json:
        checked.print()
    if checked is not None and report is not None:
        checked.write(report, f"openworld fit {stream.name}")
    _warn_alike(classes)


def _warn_alike(classes: list[Any]) -> None:
    """Point out classes whose names differ in case or spaces only: they may be meant as one."""
    from rich.markup import escape

    from openworld.cli.console import messages

    alike: dict[str, list[str]] = {}
    for label in map(str, classes):
        alike.setdefault("".join(label.casefold().split()), []).append(label)
    for names in alike.values():
        if len(names) > 1:
            shown = ", ".join(repr(name) for name in names)
            messages.print(f"[yellow]Classes of nearly the same name:[/] {escape(shown)}. They stay apart.")


def _unfitted(recognizer: RecognizerName, tau: float | None, components: int | None) -> Any:
    from openworld import (
        NCMMetric,
        NearestClassMean,
        NearestNonOutlier,
        OpenWorldRecognizer,
        SoftmaxThreshold,
    )

    if recognizer is RecognizerName.openworld:
        return OpenWorldRecognizer()
    metric = NCMMetric(components)
    if recognizer is RecognizerName.ncm:
        return NearestClassMean(metric)
    kind = NearestNonOutlier if recognizer is RecognizerName.nno else SoftmaxThreshold
    return kind(metric, tau)
