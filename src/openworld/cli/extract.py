"""`openworld extract`: pictures or texts to a file of features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openworld.cli.options import (
    CacheOption,
    ExtractorOption,
    GroupColumnOption,
    IdColumnOption,
    JsonOption,
    LabelColumnOption,
    Missing,
    OnError,
    OnErrorOption,
    TextColumnOption,
    WorkersOption,
    as_columns,
    as_extraction,
)

if TYPE_CHECKING:
    from openworld.data.stream import Batch, Stream


def extract(
    data: Annotated[
        Path,
        typer.Argument(
            help="Pictures (folder, .zip, list of files) or texts (.csv, .txt, .jsonl, .parquet)."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The .npz file to write: arrays X, y, names and extractor, and groups if there are any.",
        ),
    ],
    extractor: ExtractorOption = None,
    label_column: LabelColumnOption = None,
    text_column: TextColumnOption = None,
    id_column: IdColumnOption = None,
    group_column: GroupColumnOption = None,
    on_error: OnErrorOption = OnError.skip,
    workers: WorkersOption = None,
    cache: CacheOption = True,
    as_json: JsonOption = False,
) -> None:
    """Extract features to a file, which fit, recognize, learn and evaluate can read.

    From pictures: openworld extract photos/ -o photos.npz

    With another extractor: openworld extract photos/ -o small.npz --extractor pixels
    """
    from openworld.cli.console import plural, print_summary
    from openworld.cli.pipeline import open_data, report_skipped, require_folder
    from openworld.data.errors import DataError

    if output.suffix.lower() != ".npz":
        raise DataError(f"{output}: features can only be written as .npz.")
    require_folder(output)
    stream = open_data(
        data,
        extraction=as_extraction(extractor, on_error, workers, cache),
        columns=as_columns(label_column, None, text_column, id_column, Missing.error, group_column),
    )
    if stream.source is None:
        raise DataError(f"{data} already holds vectors: there is nothing to extract.")
    batch = _with_labels(read_all(stream, cache=cache))
    _write(output, stream, batch)
    name = (stream.extractor or {})["name"]
    summary = {
        "features": str(output),
        "samples": len(batch),
        "dimensions": stream.n_features,
        "extractor": stream.extractor,
        "left_out": len(batch.failures) + batch.n_unlabeled,
        "seconds": batch.seconds,
    }
    words = (
        f"{plural(len(batch), stream.noun)}, {stream.n_features:,} features each by {name}. Wrote {output}."
    )
    print_summary(summary, words, as_json=as_json)
    report_skipped(stream, batch.n_unlabeled, batch.failures)


def read_all(stream: Stream, *, cache: bool) -> Batch:
    """Extract all features, with a progress bar."""
    from openworld.cli.pipeline import shown
    from openworld.data.stream import Batch, require_samples

    batches = []
    with shown(stream, "Extracting features", cache=cache) as progress:
        for batch in stream.batches():
            batches.append(batch)
            progress.advance(batch.n_read)
    whole = Batch.joined(batches)
    require_samples(stream, len(whole), whole.failures)
    return whole


def _with_labels(batch: Batch) -> Batch:
    """Return the samples that have a label, if any has one."""
    from dataclasses import replace

    if batch.y is None:
        return batch
    kept = batch.take(batch.y != "")
    return replace(kept, n_unlabeled=len(batch) - len(kept))


def _write(output: Path, stream: Stream, batch: Batch) -> None:
    import numpy as np

    is_test = stream.source.is_test if stream.source is not None else None
    parts: dict[str, Any] = {
        "X": batch.X,
        "y": batch.y,
        "names": batch.names,
        "ids": batch.ids,
        "groups": batch.groups,
        "is_test": None if is_test is None else [is_test(name) for name in batch.names or []],
        "extractor": json.dumps(stream.extractor),
    }
    np.savez(output, **{name: np.asarray(part) for name, part in parts.items() if part is not None})  # type: ignore[arg-type]
