"""`openworld recognize`: name samples or answer unknown."""

from __future__ import annotations

import sys
from collections.abc import Iterator
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
    from openworld.data.stream import Stream
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
    work = _Work(recognizer, stream, nearest, keep_features=sheet is not None, dask=dask, cache=cache)
    if output is not None:
        work.to_file(output)
    else:
        work.to_stdout(as_json=as_json)
    messages.print(work.tally.words(stream))
    if sheet is not None:
        work.to_sheet(sheet, f"{model.name}: {Path(data).name}")
        messages.print(f"Wrote {sheet}.")
    report_skipped(stream, 0, work.tally.failures)


class _Work:
    """Recognition of a stream with progress; `tally` counts the answers, `kept` has those for the sheet."""

    def __init__(
        self,
        recognizer: Any,
        stream: Stream,
        n_nearest: int,
        *,
        keep_features: bool,
        dask: str | None,
        cache: bool,
    ) -> None:
        from openworld.cli.answer_files import Tally

        self.recognizer, self.stream, self.n_nearest = recognizer, stream, n_nearest
        self.keep_features, self.dask, self.cache = keep_features, dask, cache
        self.tally: Tally = Tally()
        self.kept: list[Answers] = []

    def to_file(self, output: Path) -> None:
        """Write the answers to a file, except parts that an interrupted run has written already."""
        from openworld.cli.answer_files import AnswerFile, Tally, rows_of

        file = AnswerFile(output, self._key())
        done: dict[int, Tally] = {} if self.keep_features else file.done()
        self.tally = sum(done.values(), start=Tally())
        missing = [i for i in range(len(self.stream.parts)) if i not in done]
        for i, found in zip(missing, self._answers(missing, file), strict=True):
            tally = Tally.of(found, self.recognizer)
            file.keep(i, rows_of(found, self.stream), tally)
            self.tally += tally
        self._require_answers()
        file.join()

    def to_stdout(self, *, as_json: bool) -> None:
        """Print the answers: as JSON, as CSV, or the first of them as a table in a terminal."""
        from openworld.cli.answer_files import Tally, rows_of, write_rows

        def rows() -> Iterator[list[Row]]:
            for found in self._answers(range(len(self.stream.parts)), None):
                self.tally += Tally.of(found, self.recognizer)
                yield rows_of(found, self.stream)
            self._require_answers()

        if sys.stdout.isatty() and not as_json:
            _show(rows())
        else:
            write_rows(sys.stdout, rows(), as_json=as_json)

    def to_sheet(self, sheet: Path, title: str) -> None:
        """Write the pictures with their answers as a page."""
        from openworld.cli.answer_files import rows_of
        from openworld.cli.contact_sheet import write_sheet
        from openworld.data.stream import Batch

        batch = Batch.joined([found.batch for found in self.kept])
        rows = [row for found in self.kept for row in rows_of(found, self.stream)]
        write_sheet(sheet, title, self.recognizer, self.stream.source, batch, rows)

    def _answers(self, numbers: Any, file: AnswerFile | None) -> Iterator[Answers]:
        from openworld.cli.pipeline import shown
        from openworld.distributed import connect, recognize

        parts = [self.stream.parts[i] for i in numbers]
        folder = None if file is None else file.folder
        with (
            shown(self.stream, "Recognizing", kept_in=folder, cache=self.cache) as progress,
            connect(self.dask) as engine,
        ):
            progress.advance(len(self.stream) - sum(map(len, parts)))
            for found in recognize(
                self.recognizer,
                self.stream,
                engine,
                n_nearest=self.n_nearest,
                keep_features=self.keep_features,
                parts=parts,
                progress=progress.advance,
            ):
                if self.keep_features:
                    self.kept.append(found)
                yield found

    def _require_answers(self) -> None:
        from openworld.data.stream import require_samples

        require_samples(self.stream, self.tally.samples, self.tally.failures)

    def _key(self) -> str:
        from openworld.distributed.checkpoint import fingerprint
        from openworld.model_file import digest, dumps

        return fingerprint(self.stream, digest(dumps(self.recognizer)), self.n_nearest)


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
