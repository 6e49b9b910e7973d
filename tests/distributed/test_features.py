"""Features written part by part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from openworld.data.streams import open_stream
from openworld.distributed import write_features
from openworld.samples import Extraction, open_samples

Data = tuple[np.ndarray, np.ndarray]
PIXELS = Extraction("pixels")


def test_features_are_written_part_by_part(pictures: Path, tmp_path: Path) -> None:
    stream = open_samples(pictures, extraction=PIXELS, need_labels=True, items_in_a_part=9)
    paths = write_features(stream, str(tmp_path / "features"))
    assert len(paths) == len(stream.parts)
    written = open_stream(f"{tmp_path}/features/*.parquet")
    direct = [batch for part in stream.parts for batch in part.batches()]
    assert np.array_equal(
        np.concatenate([b.X for b in written.batches()]), np.concatenate([b.X for b in direct])
    )
    assert np.array_equal(
        np.concatenate([b.y for b in written.batches()]), np.concatenate([b.y for b in direct])
    )
    assert written.extractor == stream.extractor
    first = Path(paths[0].removeprefix("file://"))
    pq.write_table(pa.table({"kept": [1]}), first)
    write_features(stream, str(tmp_path / "features"))
    assert pq.read_table(first).column_names == ["kept"]  # what is there is not made again
