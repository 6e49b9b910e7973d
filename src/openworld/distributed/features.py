"""Write the features of a stream to Parquet files, one per part."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from openworld.data.stream import Stream
from openworld.data.stream_formats import fsspec
from openworld.distributed.engine import LOCAL, Done, Engine


def write_features(
    stream: Stream, folder: str, engine: Engine = LOCAL, *, progress: Done | None = None
) -> list[str]:
    """Write the features of each part to a Parquet file of its own, on the worker that reads the part.

    Parameters
    ----------
    stream : Stream
    folder : str
        A folder or URL that every worker can write to. Existing files are not written again. The files can
        be opened as a stream: ``folder/*.parquet``. They have columns `features`, `label` if there are
        labels, and `group_id` if there are groups.
    engine : Engine
        By default this process.
    progress : callable, optional
        Called with the number of samples done since the last call.

    Returns
    -------
    paths : list of str
    """
    return list(engine.map(_write_part, stream.parts, folder, stream.extractor, done=progress))


def _write_part(part: Any, folder: str, extractor: dict[str, str] | None) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    filesystem, root = fsspec().core.url_to_fs(folder)
    path = f"{root}/part-{part.rows[0]:012d}.parquet"  # in the order of the stream
    if filesystem.exists(path):
        return str(filesystem.unstrip_protocol(path))
    filesystem.makedirs(root, exist_ok=True)
    metadata = {"openworld.extractor": json.dumps(extractor)}
    with filesystem.open(f"{path}.new", "wb") as file:
        writer = None
        for batch in part.batches():
            values = pa.array(np.ascontiguousarray(batch.X, dtype=np.float32).ravel())
            columns = {"features": pa.FixedSizeListArray.from_arrays(values, batch.X.shape[1])}
            if batch.y is not None:
                columns["label"] = pa.array(batch.y)
            if batch.groups is not None:
                columns["group_id"] = pa.array(batch.groups)
            table = pa.table(columns).replace_schema_metadata(metadata)
            writer = writer or pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
    filesystem.mv(f"{path}.new", path)
    return str(filesystem.unstrip_protocol(path))
