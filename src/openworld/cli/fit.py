"""`openworld fit`: learn a model from labeled samples."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openworld.cli.options import (
    RECOGNIZER,
    CacheOption,
    DaskOption,
    ExtractorOption,
    FeatureColumnsOption,
    FindCopiesOption,
    GroupColumnOption,
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

if TYPE_CHECKING:
    from openworld.cli.fit_report import FitReport
    from openworld.data.stream import Stream
    from openworld.distributed import Learned


class RecognizerName(StrEnum):
    """The recognizers that can be fitted."""

    openworld = "openworld"
    nno = "nno"
    ncm = "ncm"
    softmax_threshold = "softmax-threshold"


DataArgument = Annotated[
    str,
    typer.Argument(
        help="A folder of pictures with one sub-folder per class, or a .zip of it; texts or paths with "
        "labels (.csv, .tsv, .jsonl, .parquet); or vectors: .npz (arrays X, y), .csv, .parquet or .arrow "
        "(column label), .npy (labels of x.npy in x.labels.npy). Also a URL (s3://...) or a pattern (*.csv)."
    ),
]
OutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The model file to write, for example my.ow.")
]
RecognizerOption = Annotated[
    RecognizerName,
    typer.Option(
        metavar="NAME",
        help="openworld (recommended), nno (the paper's), ncm (the paper's; never answers unknown) or "
        "softmax-threshold (the paper's baseline).",
        rich_help_panel=RECOGNIZER,
    ),
]
TauOption = Annotated[
    float | None,
    typer.Option(
        help="Threshold of nno and softmax-threshold. Default: found by cross-class validation.",
        rich_help_panel=RECOGNIZER,
    ),
]
ComponentsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Dimensions of the learned metric of nno, ncm and softmax-threshold. Default: at most 512.",
        rich_help_panel=RECOGNIZER,
    ),
]
CheckOption = Annotated[
    bool,
    typer.Option(
        "--check/--no-check",
        help="Test the recognizer on held-out samples and classes. This fits it six more times, to at most "
        "2,000 samples.",
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write the result of the check as an HTML page."),
]


def fit(
    data: DataArgument,
    output: OutputOption,
    recognizer: RecognizerOption = RecognizerName.openworld,
    tau: TauOption = None,
    components: ComponentsOption = None,
    objective: ObjectiveOption = None,
    extractor: ExtractorOption = None,
    label_column: LabelColumnOption = None,
    feature_columns: FeatureColumnsOption = None,
    text_column: TextColumnOption = None,
    id_column: IdColumnOption = None,
    group_column: GroupColumnOption = None,
    missing: MissingOption = Missing.error,
    on_error: OnErrorOption = OnError.skip,
    workers: WorkersOption = None,
    cache: CacheOption = True,
    find_copies: FindCopiesOption = True,
    dask: DaskOption = None,
    check: CheckOption = True,
    report: ReportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn a model from labeled pictures, texts or vectors.

    From pictures: openworld fit photos/ -o animals.ow

    From texts (columns text and label): openworld fit questions.csv -o intents.ow

    From vectors (columns of numbers, and label): openworld fit animals.csv -o animals.ow
    """
    from openworld.cli.console import need
    from openworld.cli.fit_report import FitReport
    from openworld.cli.pipeline import learn_to_file, open_data, require_folder
    from openworld.distributed import fit as fit_to
    from openworld.distributed import takes_groups
    from openworld.model_file import save

    unfitted = _unfitted(recognizer, tau, components, objective)
    if group_column is not None and not takes_groups(unfitted):
        raise ValueError(f"--group-column has no meaning for {recognizer}; it is for openworld.")
    require_folder(output, report)
    if report is not None:
        need("jinja2", extra="evaluate")
    stream = open_data(
        data,
        extraction=as_extraction(extractor, on_error, workers, cache),
        columns=as_columns(label_column, feature_columns, text_column, id_column, missing, group_column),
        need_labels=True,
    )
    learned = learn_to_file(fit_to, unfitted, stream, output, dask=dask, cache=cache, find_copies=find_copies)
    checked = FitReport(unfitted, stream, learned) if check or report is not None else None
    if checked is not None:
        learned.model.self_check_ = " ".join(checked.figures())
        save(learned.model, output)  # again, with the result of the check
    _say_fitted(stream, learned, checked, output, as_json=as_json)
    if checked is not None and report is not None:
        checked.write(report, f"openworld fit {stream.name}")
    _warn_alike(learned.model.classes_.tolist())


def _unfitted(name: RecognizerName, tau: float | None, components: int | None, objective: str | None) -> Any:
    """Return the recognizer that the options describe; an option that it does not have is an error."""
    from openworld import (
        NCMMetric,
        NearestClassMean,
        NearestNonOutlier,
        OpenWorldRecognizer,
        SoftmaxThreshold,
    )
    from openworld.recognition.threshold import parse_objective

    if tau is not None and name in (RecognizerName.ncm, RecognizerName.openworld):
        raise ValueError(f"--tau has no meaning for {name}; it is for nno and softmax-threshold.")
    if components is not None and name is RecognizerName.openworld:
        raise ValueError(
            "--components has no meaning for openworld; it is for nno, ncm and softmax-threshold."
        )
    if objective is not None and name is not RecognizerName.openworld:
        raise ValueError(f"--objective has no meaning for {name}; it is for openworld.")
    if name is RecognizerName.openworld:
        model = OpenWorldRecognizer()
        return model if objective is None else model.set_params(objective=parse_objective(objective))
    metric = NCMMetric(components)
    if name is RecognizerName.ncm:
        return NearestClassMean(metric)
    kind = NearestNonOutlier if name is RecognizerName.nno else SoftmaxThreshold
    return kind(metric, tau)


def _say_fitted(
    stream: Stream, learned: Learned, checked: FitReport | None, output: Path, *, as_json: bool
) -> None:
    """Print how many classes were learned, and what the check found."""
    from openworld.cli.console import plural
    from openworld.cli.pipeline import report_learned

    n_classes, tau = len(learned.model.classes_), getattr(learned.model, "tau_", None)
    found = {} if checked is None else checked.as_dict()
    threshold = "" if tau is None else f", tau = {tau:.4g}"
    report_learned(
        stream,
        learned,
        {"model": str(output), "classes": n_classes, "tau": tau, **found},
        f"Learned {plural(n_classes, 'class', 'classes')} from "
        f"{plural(learned.n_samples, stream.noun)}{threshold}. Wrote {output}.",
        as_json=as_json,
    )
    if checked is not None and not as_json:
        checked.print()


def _warn_alike(classes: list[Any]) -> None:
    """Warn about classes whose names differ only in case or spaces, which may be one class."""
    from rich.markup import escape

    from openworld.cli.console import messages

    alike: dict[str, list[str]] = {}
    for label in map(str, classes):
        alike.setdefault("".join(label.casefold().split()), []).append(label)
    for names in alike.values():
        if len(names) > 1:
            shown = ", ".join(repr(name) for name in names)
            messages.print(f"[yellow]Classes with similar names:[/] {escape(shown)}. They stay separate.")
