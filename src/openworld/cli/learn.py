"""`openworld learn`: add samples of known or new classes to a model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openworld.cli.options import (
    CacheOption,
    DaskOption,
    ExtractorOption,
    FindCopiesOption,
    GroupColumnOption,
    IdColumnOption,
    JsonOption,
    LabelColumnOption,
    Missing,
    MissingOption,
    ModelArgument,
    ObjectiveOption,
    OnError,
    OnErrorOption,
    TextColumnOption,
    WorkersOption,
    as_columns,
    as_extraction,
)

if TYPE_CHECKING:
    from openworld.distributed.repeats import Repeats

_NAMES_COMPARED = 20  # new names to compare with all known ones, which is slow


def learn(
    model: ModelArgument,
    data: Annotated[
        str, typer.Argument(help="Labeled samples of known or new classes, as for openworld fit.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to this file. Default: replace the model file."
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The class of all samples in the data, such as a folder of one class."
        ),
    ] = None,
    objective: ObjectiveOption = None,
    extractor: ExtractorOption = None,
    label_column: LabelColumnOption = None,
    text_column: TextColumnOption = None,
    id_column: IdColumnOption = None,
    group_column: GroupColumnOption = None,
    missing: MissingOption = Missing.error,
    on_error: OnErrorOption = OnError.skip,
    workers: WorkersOption = None,
    cache: CacheOption = True,
    find_copies: FindCopiesOption = True,
    dask: DaskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add labeled samples of new or known classes to a model.

    One sub-folder per class: openworld learn animals.ow new-animals/

    A folder of one class: openworld learn animals.ow okapi/ --label okapi
    """
    from rich.markup import escape

    from openworld import load as load_model
    from openworld.cli.console import messages, plural, show_notes
    from openworld.cli.pipeline import (
        learn_to_file,
        open_data,
        report_learned,
        require_folder,
        with_objective,
    )
    from openworld.distributed import learn as learn_from
    from openworld.distributed import takes_groups
    from openworld.distributed.repeats import Repeats

    target = output or model
    require_folder(target)
    recognizer = with_objective(load_model(model), objective)
    if group_column is not None and not takes_groups(recognizer):
        raise ValueError(
            f"--group-column has no meaning for a {type(recognizer).__name__}; it is for models of openworld."
        )
    stream = open_data(
        data,
        model=recognizer,
        extraction=as_extraction(extractor, on_error, workers, cache),
        columns=as_columns(label_column, None, text_column, id_column, missing, group_column),
        label=label,
        need_labels=True,
    )
    learned = learn_to_file(
        learn_from, recognizer, stream, target, dask=dask, cache=cache, find_copies=find_copies
    )
    repeats = learned.repeats or Repeats()
    before, known = recognizer.classes_.tolist(), learned.model.classes_.tolist()
    new = [name for name in known if name not in set(before)]
    report_learned(
        stream,
        learned,
        {"model": str(target), "classes": len(known), "new_classes": len(new), **asdict(repeats)},
        f"Learned {plural(learned.n_samples, stream.noun)}, {plural(len(new), 'new class', 'new classes')}; "
        f"{plural(len(known), 'class', 'classes')} known now. Wrote {target}.",
        as_json=as_json,
    )
    show_notes(_repeated(repeats))
    for name, alike in _alike(new, before):
        messages.print(f"[yellow]The new class {escape(name)} is spelled much like {escape(alike)}.[/]")


def _repeated(repeats: Repeats) -> list[str]:
    """Return notes about samples that are learned twice."""
    from openworld.cli.console import plural

    notes = []
    if n := repeats.learned_before:
        were = plural(n, "sample was", "samples were")
        notes.append(f"at least {were} learned before as the same class; learned again, they count twice.")
    if n := repeats.of_two_classes:
        are = plural(n, "sample is", "samples are")
        notes.append(f"at least {are} learned as another class too: is one of the labels wrong?")
    return notes


def _alike(new: list[Any], before: list[Any]) -> list[tuple[str, str]]:
    """Return each new class with a name much like that of a known class, perhaps a typo, and that class."""
    from openworld.discovery import near_duplicate_names

    known = [name for name in before if isinstance(name, str)]
    named = [name for name in new if isinstance(name, str)][:_NAMES_COMPARED]
    return [(name, found[0]) for name in named if (found := near_duplicate_names(name, known))]
