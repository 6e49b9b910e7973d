"""Features written part by part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from openworld.data.columns import Columns
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


def test_groups_are_written_too(pictures: Path, tmp_path: Path) -> None:
    (pictures / "dark" / "burst").mkdir()
    (pictures / "dark" / "00.png").rename(pictures / "dark" / "burst" / "00.png")
    columns = Columns(group="folder")
    stream = open_samples(pictures, extraction=PIXELS, columns=columns, need_labels=True, items_in_a_part=9)
    write_features(stream, str(tmp_path / "features"))
    path = f"{tmp_path}/features/*.parquet"
    groups = open_stream(path, columns=Columns(group="group_id")).read().groups
    assert groups is not None
    assert groups.tolist().count("dark/burst") == 1
    assert groups.tolist().count("") == 23
    assert open_stream(path).n_features == stream.n_features  # without groups the column is ignored
