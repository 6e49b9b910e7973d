"""`openworld recognize` on a stream: answers written part by part; those written are not made again."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from openworld.cli.console import messages, plural
from openworld.cli.streaming import shown, tell_failures

if TYPE_CHECKING:
    from openworld.data.streams import Stream
    from openworld.distributed import Answers

_COLUMNS = ("answer", "unknown", "nearest_class", "distance")


@dataclass
class Tally:
    """What is told at the end, of one part or of all."""

    samples: int = 0
    unknown: int = 0
    judged: int = 0
    right: int = 0
    of_known_classes: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in vars(self)))

    @classmethod
    def of(cls, found: Answers, model: Any) -> Tally:
        """Count the answers to a part."""
        import numpy as np

        unknown = found.answers == model.unknown_label_
        tally = cls(len(found.answers), int(unknown.sum()), failures=list(found.failures))
        if found.y is not None:
            labelled = found.y != "" if found.y.dtype.kind == "U" else np.ones(len(found.y), dtype=bool)
            known = np.isin(found.y, model.classes_)
            right = np.where(known, found.answers == found.y, unknown)[labelled]
            tally.judged, tally.right = len(right), int(right.sum())
            tally.of_known_classes = int(known.sum())
        return tally


def recognize_stream(model: Any, stream: Stream, output: Path | None, dask: str | None) -> None:
    """Write the answers to a .csv file, or to the screen.

    Beside the file lies a folder with the parts done so far, until all are done. A part counts as done
    when its small `.json` file is there, which is written last.
    """
    from openworld.distributed import connect, recognize

    if output is None:
        folder, done = None, {}
    else:
        folder = _folder(output, model, stream)
        done = {int(path.stem): path for path in folder.glob("[0-9]*.json")}
    total = Tally()
    for path in done.values():
        kept = json.loads(path.read_text(encoding="utf-8"))
        total += Tally(**{**kept, "failures": [tuple(one) for one in kept["failures"]]})
    missing = [i for i in range(len(stream.parts)) if i not in done]
    if output is None:
        _header(sys.stdout, stream)
    with shown(stream, "Recognizing", folder) as advance, connect(dask) as engine:
        advance(sum(len(stream.parts[i]) for i in done))
        parts = [stream.parts[i] for i in missing]
        for i, found in zip(
            missing, recognize(model, stream, engine, parts=parts, progress=advance), strict=True
        ):
            tally = Tally.of(found, model)
            if folder is None:
                _rows(sys.stdout, found, model)
            else:
                _keep(folder, i, found, model, tally)
            total += tally
    if output is not None and folder is not None:
        _join(output, folder, stream)
    messages.print(_summary(stream, total))
    tell_failures(total.failures, len(total.failures))


def _folder(output: Path, model: Any, stream: Stream) -> Path:
    """Return the folder of the parts done so far; of another model or other data, nothing is kept."""
    from openworld.distributed.checkpoint import fingerprint
    from openworld.model_file import digest, dumps

    folder = Path(f"{output}.progress")
    key = fingerprint(stream, digest(dumps(model)))
    mark = folder / "key"
    if folder.exists() and (not mark.exists() or mark.read_text() != key):
        shutil.rmtree(folder)
    folder.mkdir(exist_ok=True)
    mark.write_text(key)
    return folder


def _keep(folder: Path, number: int, found: Answers, model: Any, tally: Tally) -> None:
    with (folder / f"{number:08d}.csv").open("w", newline="", encoding="utf-8") as file:
        _rows(file, found, model)
    new = folder / "tally.new"
    new.write_text(json.dumps(asdict(tally)), encoding="utf-8")
    os.replace(new, folder / f"{number:08d}.json")


def _join(output: Path, folder: Path, stream: Stream) -> None:
    """Make one file of the parts, all or nothing."""
    new = folder / "answers.new"
    with new.open("wb") as whole:
        whole.write((",".join(_columns(stream)) + "\r\n").encode())
        for part in sorted(folder.glob("[0-9]*.csv")):
            with part.open("rb") as file:
                shutil.copyfileobj(file, whole)
    os.replace(new, output)
    shutil.rmtree(folder)


def _columns(stream: Stream) -> tuple[str, ...]:
    if stream.called == "sample":
        return ("sample", *_COLUMNS)
    return ("sample", "text" if stream.called == "text" else "name", *_COLUMNS)


def _header(file: TextIO, stream: Stream) -> None:
    csv.writer(file).writerow(_columns(stream))


def _rows(file: TextIO, found: Answers, model: Any) -> None:
    columns = [(found.rows + 1).tolist(), *([] if found.names is None else [found.names])]
    unknown = (found.answers == model.unknown_label_).tolist()
    columns += [found.answers.tolist(), unknown, found.nearest.tolist(), found.distances.tolist()]
    csv.writer(file).writerows(zip(*columns, strict=True))


def _summary(stream: Stream, total: Tally) -> str:
    text = (
        f"{plural(total.samples, stream.called)}: {total.samples - total.unknown:,} recognized, "
        f"{total.unknown:,} unknown."
    )
    if not total.judged or (stream.called != "sample" and not total.of_known_classes):
        return text  # no labels, or folders that are no classes
    share = total.right / total.judged
    return f"{text} {total.right:,} of {total.judged:,} answers are right ({share:.1%})."
