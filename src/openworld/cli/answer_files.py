"""Answers as rows of a table, written to CSV, JSON, JSON lines or Parquet files."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from openworld.files import write_atomic

if TYPE_CHECKING:
    from openworld.data.stream import Stream
    from openworld.distributed import Answers

ENDINGS = (".csv", ".json", ".jsonl", ".parquet")
Row = dict[str, Any]


def rows_of(found: Answers, stream: Stream) -> list[Row]:
    """Return the answers to a part as rows: the sample, the answer, and the nearest classes."""
    columns: dict[str, list[Any]] = {"sample": (found.batch.rows + 1).tolist()}
    if found.batch.ids is not None:
        columns["id"] = found.batch.ids
    if found.batch.names is not None:
        columns["text" if stream.noun == "text" else "name"] = found.batch.names
    judgement = found.judgement
    columns["answer"] = judgement.labels.tolist()
    columns["unknown"] = (~judgement.accepted).tolist()
    columns["membership"] = judgement.membership.tolist()
    for i in range(judgement.nearest.shape[1]):
        number = f"_{i + 1}" if i else ""
        columns[f"nearest_class{number}"] = judgement.nearest[:, i].tolist()
        columns[f"distance{number}"] = judgement.distances[:, i].tolist()
        if i:
            columns[f"membership{number}"] = judgement.memberships[:, i].tolist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@dataclass
class Tally:
    """Counts of answers, of one part or of all.

    Attributes
    ----------
    samples, unknown : int
        Number of samples, and of those called unknown.
    right, missed, misnamed : int
        Of samples with a true label: right answers, known classes called unknown, and wrong classes.
    of_known_classes : int
        Samples whose true label is a class of the model.
    failures : list of (name, reason)
    """

    samples: int = 0
    unknown: int = 0
    right: int = 0
    missed: int = 0
    misnamed: int = 0
    of_known_classes: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in vars(self)))

    @classmethod
    def of(cls, found: Answers, model: Any) -> Tally:
        """Count the answers to a part."""
        import numpy as np

        answers, unknown = found.judgement.labels, ~found.judgement.accepted
        tally = cls(len(found), int(unknown.sum()), failures=list(found.batch.failures))
        y = found.batch.y
        if y is not None and len(found):
            labeled = y != "" if y.dtype.kind == "U" else np.ones(len(y), dtype=bool)
            known = np.isin(y, model.classes_)
            right = np.where(known, answers == y, unknown) & labeled
            tally.right = int(right.sum())
            tally.missed = int(np.sum(known & unknown & labeled))
            tally.misnamed = int(np.sum(labeled & ~right & ~unknown))
            tally.of_known_classes = int(known.sum())
        return tally

    def words(self, stream: Stream) -> str:
        """Return the counts as a sentence."""
        from openworld.cli.console import plural

        text = (
            f"{plural(self.samples, stream.noun)}: {self.samples - self.unknown:,} recognized, "
            f"{self.unknown:,} unknown."
        )
        judged = self.right + self.missed + self.misnamed
        folders = stream.source is not None and stream.source.labels_are_folders
        if not judged or (folders and not self.of_known_classes):
            return text  # no labels, or folders that are not classes, such as years
        return (
            f"{text} By their labels {self.right:,} of {judged:,} answers are right "
            f"({self.right / judged:.1%}), {self.missed:,} of known classes were called unknown and "
            f"{self.misnamed:,} were misnamed."
        )


def write_rows(file: TextIO, rows: Iterator[list[Row]], *, as_json: bool) -> None:
    """Write answers to a stream of text, part by part, as one JSON list or as CSV."""
    first = True
    for some in rows:
        if as_json:
            for row in some:
                file.write(("[\n" if first else ",\n") + json.dumps(row, ensure_ascii=False))
                first = False
        else:
            _write_csv(file, some, header=first)
            first = first and not some
    if as_json:
        file.write("[]\n" if first else "\n]\n")


def _write_csv(file: TextIO, rows: list[Row], *, header: bool) -> None:
    if rows:
        table = csv.DictWriter(file, fieldnames=list(rows[0]))
        if header:
            table.writeheader()
        table.writerows(rows)


class AnswerFile:
    """A file of answers, written as parts that are joined at the end.

    The parts are in a folder beside the file until all are done, so an interrupted command can continue. A
    part is complete when its `.tally` file, which is written last, exists.

    Parameters
    ----------
    output : path
        Its extension is the format.
    key : str
        A hash of model and data; parts with another key are deleted.
    """

    def __init__(self, output: Path, key: str) -> None:
        self.output = output
        self.folder = Path(f"{output}.progress")
        mark = self.folder / "key"
        if self.folder.exists() and (not mark.exists() or mark.read_text() != key):
            shutil.rmtree(self.folder)
        self.folder.mkdir(exist_ok=True)
        mark.write_text(key)

    def done(self) -> dict[int, Tally]:
        """Return the counts of the complete parts, by number."""
        found = {}
        for path in self.folder.glob("[0-9]*.tally"):
            kept = json.loads(path.read_text(encoding="utf-8"))
            found[int(path.stem)] = Tally(**{**kept, "failures": [tuple(one) for one in kept["failures"]]})
        return found

    def keep(self, number: int, rows: list[Row], tally: Tally) -> None:
        """Write the answers to one part."""
        path = self.folder / f"{number:08d}.part"
        if self.output.suffix == ".parquet":
            _write_parquet(path, rows)
        else:
            with path.open("w", newline="", encoding="utf-8") as file:
                if self.output.suffix == ".csv":
                    _write_csv(file, rows, header=True)
                else:
                    file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_atomic(self.folder / f"{number:08d}.tally", json.dumps(asdict(tally)).encode())

    def join(self) -> None:
        """Join the parts to one file, atomically."""
        new = self.folder / "answers.new"
        parts = [path for path in sorted(self.folder.glob("[0-9]*.part")) if path.stat().st_size]
        if self.output.suffix == ".parquet":
            _join_parquet(new, parts)
        elif self.output.suffix == ".json":
            with new.open("w", encoding="utf-8") as whole:
                write_rows(whole, map(_read_lines, parts), as_json=True)
        else:
            _join_text(new, parts, header=self.output.suffix == ".csv")
        os.replace(new, self.output)
        shutil.rmtree(self.folder)


def _read_lines(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _join_text(target: Path, parts: list[Path], *, header: bool) -> None:
    """Concatenate the parts, with the first header only."""
    with target.open("wb") as whole:
        for i, path in enumerate(parts):
            with path.open("rb") as file:
                if header and i:
                    file.readline()
                shutil.copyfileobj(file, whole)


def _write_parquet(path: Path, rows: list[Row]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Writing .parquet needs pyarrow: pip install openworld[evaluate]") from error
    if rows:
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.touch()


def _join_parquet(target: Path, parts: list[Path]) -> None:
    """Join tables; a column that is empty in one part has the type that it has in the others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not parts:
        return
    schema = pa.unify_schemas([pq.read_schema(path) for path in parts])
    with pq.ParquetWriter(target, schema) as writer:
        for path in parts:
            writer.write_table(pq.read_table(path).cast(schema))
