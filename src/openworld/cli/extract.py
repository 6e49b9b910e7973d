"""`openworld extract`: pictures or texts to a file of features."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from openworld.cli.options import (
    CacheOption,
    ExtractorOption,
    LabelColumnOption,
    OnError,
    OnErrorOption,
    WorkersOption,
)


def extract(
    data: Annotated[
        Path,
        typer.Argument(
            help="Pictures (folder, .zip, list of files) or texts (.csv, .txt, .jsonl, .parquet)."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The .npz file to write: X, y, names, extractor.")
    ],
    extractor: ExtractorOption = None,
    label_column: LabelColumnOption = None,
    on_error: OnErrorOption = OnError.skip,
    workers: WorkersOption = None,
    cache: CacheOption = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Make features once and keep them; fit, recognize, learn and evaluate take the file.

    Example: openworld extract photos/ -o photos.npz

    Another extractor: openworld extract photos/ -o small.npz --extractor pixels
    """
    import numpy as np

    from openworld.cli.console import messages
    from openworld.cli.loading import count_words, load, tell_left_out
    from openworld.data.sources import as_source
    from openworld.data.tables import DataError

    if output.suffix.lower() != ".npz":
        raise DataError(f"{output}: features are written as .npz.")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"{output}: the folder {output.parent} does not exist.")
    source = as_source(data, label_column=label_column)
    if source is None:
        raise DataError(f"{data} holds vectors already: there is nothing to extract.")
    loaded = load(
        source,
        extractor=extractor,
        need_labels=source.labelled,
        on_error=on_error.value,
        workers=workers,
        cache=cache,
    )
    samples = loaded.samples
    parts: dict[str, Any] = {
        "X": samples.X,
        "y": samples.y,
        "names": samples.names,
        "is_test": loaded.is_test,
    }
    parts["extractor"] = json.dumps(samples.extractor)
    np.savez(output, **{name: np.asarray(part) for name, part in parts.items() if part is not None})  # type: ignore[arg-type]
    if as_json:
        summary = {
            "features": str(output), "samples": len(samples), "dimensions": samples.X.shape[1],
            "extractor": samples.extractor, "left_out": len(loaded.failures) + loaded.n_unlabelled,
            "seconds": loaded.seconds,
        }  # fmt: skip
        typer.echo(json.dumps(summary))
    else:
        name = (samples.extractor or {})["name"]
        messages.print(
            f"{count_words(loaded)}, {samples.X.shape[1]:,} features each by {name}. Wrote {output}."
        )
    tell_left_out(loaded)
