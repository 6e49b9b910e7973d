"""`openworld recognize`: name samples or answer unknown."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openworld.cli.options import (
    CacheOption,
    DaskOption,
    ExtractorOption,
    IdColumnOption,
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
    from openworld.cli.answer_files import AnswerFile, Row, Tally
    from openworld.cli.contact_sheet import Group
    from openworld.data.stream import Batch, Stream
    from openworld.distributed import Answers

_ROWS_IN_TERMINAL = 20


DataArgument = Annotated[
    str,
    typer.Argument(
        help="Samples of the kind the model was fitted on: a picture, a folder of pictures or a .zip; texts "
        "(.txt, .csv, .jsonl); or vectors (.npz, .npy, .csv, .parquet, .arrow). Labels are optional. Also a "
        "URL (s3://...), a pattern (*.csv), or - for standard input (a table, JSON lines or sentences)."
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the answers to a .csv, .json, .jsonl or .parquet file."
    ),
]
SheetOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write an HTML page with the pictures by class, and the unknown ones by cluster."
    ),
]
NearestOption = Annotated[
    int, typer.Option(min=1, metavar="N", help="Number of nearest classes to list, with their memberships.")
]


def recognize(
    model: ModelArgument,
    data: DataArgument,
    output: OutputOption = None,
    sheet: SheetOption = None,
    nearest: NearestOption = 3,
    objective: ObjectiveOption = None,
    extractor: ExtractorOption = None,
    label_column: LabelColumnOption = None,
    text_column: TextColumnOption = None,
    id_column: IdColumnOption = None,
    missing: MissingOption = Missing.error,
    on_error: OnErrorOption = OnError.skip,
    workers: WorkersOption = None,
    cache: CacheOption = True,
    dask: DaskOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")] = False,
) -> None:
    """Name each sample, or answer unknown. If the data has labels, also report how many answers are right.

    As a page: openworld recognize animals.ow new-photos/ --sheet sheet.html

    As a table: openworld recognize animals.ow new-photos/ -o answers.csv
    """
    from openworld import load as load_model
    from openworld.cli.answer_files import ENDINGS
    from openworld.cli.console import messages, need
    from openworld.cli.pipeline import open_data, report_skipped, require_folder, with_objective
    from openworld.data.errors import DataError

    if output is not None and output.suffix not in ENDINGS:
        raise DataError(f"{output}: answers can be written as {', '.join(ENDINGS)}.")
    require_folder(output, sheet)
    if sheet is not None:
        need("jinja2", extra="images")
    recognizer = with_objective(load_model(model), objective)
    stream = open_data(
        data,
        model=recognizer,
        extraction=as_extraction(extractor, on_error, workers, cache),
        columns=as_columns(label_column, None, text_column, id_column, missing),
    )
    work = _Work(recognizer, stream, nearest, dask=dask, cache=cache)
    if sheet is not None:
        work.cluster()
    if output is not None:
        work.to_file(output)
    else:
        work.to_stdout(as_json=as_json)
    messages.print(work.tally.words(stream))
    if sheet is not None:
        work.to_sheet(sheet, f"{model.name}: {Path(data).name}")
        messages.print(f"Wrote {sheet}.")
    report_skipped(stream, 0, work.tally.failures)


@dataclass(frozen=True)
class _Clustered:
    """All samples with their features, counts and rows of each part, and the groups of unknown samples."""

    batch: Batch
    answered: list[tuple[Tally, list[Row]]]
    groups: list[Group]


class _Work:
    """Recognition of a stream with progress; `tally` counts the answers, `clustered` has them for a sheet."""

    def __init__(
        self, recognizer: Any, stream: Stream, n_nearest: int, *, dask: str | None, cache: bool
    ) -> None:
        from openworld.cli.answer_files import Tally

        self.recognizer, self.stream, self.n_nearest = recognizer, stream, n_nearest
        self.dask, self.cache = dask, cache
        self.tally: Tally = Tally()
        self.clustered: _Clustered | None = None

    def cluster(self) -> None:
        """Recognize all samples, and cluster the unknown ones; their rows get the number of the cluster."""
        from openworld.cli.answer_files import Tally, rows_of
        from openworld.cli.contact_sheet import unknown_groups
        from openworld.data.stream import Batch

        found = list(self._answers(range(len(self.stream.parts)), keep_features=True))
        batch = Batch.joined([one.batch for one in found])
        answered = [(Tally.of(one, self.recognizer), rows_of(one, self.stream)) for one in found]
        rows = [row for _, some in answered for row in some]
        groups = unknown_groups(self.recognizer, batch.X, rows)
        numbers = {i: group.cluster for group in groups for i in group.members}
        for i, row in enumerate(rows):
            row["cluster"] = numbers.get(i)
        self.clustered = _Clustered(batch, answered, groups)

    def to_file(self, output: Path) -> None:
        """Write the answers to a file, except parts that an interrupted run has written already."""
        from openworld.cli.answer_files import AnswerFile, Tally

        file = AnswerFile(output, self._key())
        done: dict[int, Tally] = file.done()
        self.tally = sum(done.values(), start=Tally())
        missing = [i for i in range(len(self.stream.parts)) if i not in done]
        for i, (tally, rows) in zip(missing, self._answered(missing, file), strict=True):
            file.keep(i, rows, tally)
            self.tally += tally
        self._require_answers()
        file.join()

    def to_stdout(self, *, as_json: bool) -> None:
        """Print the answers: as JSON, as CSV, or the first of them as a table in a terminal."""
        from openworld.cli.answer_files import write_rows

        def rows() -> Iterator[list[Row]]:
            for tally, some in self._answered(range(len(self.stream.parts)), None):
                self.tally += tally
                yield some
            self._require_answers()

        if sys.stdout.isatty() and not as_json:
            _show(rows())
        else:
            write_rows(sys.stdout, rows(), as_json=as_json)

    def to_sheet(self, sheet: Path, title: str) -> None:
        """Write the pictures with their answers as a page."""
        from openworld.cli.contact_sheet import write_sheet

        assert self.clustered is not None
        rows = [row for _, some in self.clustered.answered for row in some]
        source, batch = self.stream.source, self.clustered.batch
        write_sheet(sheet, title, source, batch, rows, self.clustered.groups)

    def _answered(self, numbers: Sequence[int], file: AnswerFile | None) -> Iterator[tuple[Tally, list[Row]]]:
        """Yield the counts and the rows of the parts with these numbers."""
        from openworld.cli.answer_files import Tally, rows_of

        if self.clustered is not None:
            yield from (self.clustered.answered[i] for i in numbers)
            return
        for found in self._answers(numbers, file):
            yield Tally.of(found, self.recognizer), rows_of(found, self.stream)

    def _answers(
        self, numbers: Sequence[int], file: AnswerFile | None = None, *, keep_features: bool = False
    ) -> Iterator[Answers]:
        from openworld.cli.pipeline import shown
        from openworld.distributed import connect, recognize

        parts = [self.stream.parts[i] for i in numbers]
        folder = None if file is None else file.folder
        with (
            shown(self.stream, "Recognizing", kept_in=folder, cache=self.cache) as progress,
            connect(self.dask) as engine,
        ):
            progress.advance(len(self.stream) - sum(map(len, parts)))
            yield from recognize(
                self.recognizer,
                self.stream,
                engine,
                n_nearest=self.n_nearest,
                keep_features=keep_features,
                parts=parts,
                progress=progress.advance,
            )

    def _require_answers(self) -> None:
        from openworld.data.stream import require_samples

        require_samples(self.stream, self.tally.samples, self.tally.failures)

    def _key(self) -> str:
        from openworld.distributed.checkpoint import fingerprint
        from openworld.model_file import digest, dumps

        return fingerprint(
            self.stream, digest(dumps(self.recognizer)), self.n_nearest, self.clustered is None
        )


def _show(rows: Iterator[list[Row]]) -> None:
    """Print the first answers as a table."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("sample", "answer", "membership", "nearest class", "distance")
    n_rows = 0
    for row in (row for some in rows for row in some):
        n_rows += 1
        if n_rows > _ROWS_IN_TERMINAL:
            continue
        answer = "[yellow]unknown[/]" if row["unknown"] else escape(str(row["answer"]))
        shown = escape(str(row.get("id", row.get("name", row.get("text", row["sample"])))))
        numbers = f"{row['membership']:.2f}", f"{row['distance']:.4g}"
        table.add_row(shown, answer, numbers[0], escape(str(row["nearest_class"])), numbers[1])
    Console().print(table)
    if n_rows > _ROWS_IN_TERMINAL:
        Console().print(f"... and {n_rows - _ROWS_IN_TERMINAL:,} more; write them all with --output.")
