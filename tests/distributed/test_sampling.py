"""Uniform samples of a stream."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from openworld.data.columns import Columns
from openworld.data.streams import open_stream
from openworld.distributed import LOCAL, sampling
from openworld.samples import Extraction

Data = tuple[np.ndarray, np.ndarray]
PIXELS = Extraction("pixels")


def test_samples_are_uniform_bounded_and_independent_of_the_cut(tmp_path: Path) -> None:
    rows = np.arange(200_000)
    chosen = sampling.is_chosen(rows, 0.05)
    assert abs(chosen.mean() - 0.05) < 0.003
    halves = np.concatenate([sampling.is_chosen(part, 0.05) for part in np.split(rows, 2)])
    assert np.array_equal(chosen, halves)
    counts = np.bincount(rows[chosen] // 20_000, minlength=10)  # alike in every tenth
    assert counts.min() > 850
    assert counts.max() < 1150


def test_of_very_many_classes_a_thousand_are_drawn(tmp_path: Path) -> None:
    y = np.arange(6_000) // 2
    np.save(tmp_path / "x.npy", np.arange(6_000.0)[:, None])
    np.save(tmp_path / "x.labels.npy", y)
    stream = open_stream(tmp_path / "x.npy", part_bytes=1000 * 8)
    counts = sampling.class_counts(stream, LOCAL)
    assert counts == Counter(y.tolist())
    drawn = sampling.draw(stream, LOCAL, counts).y
    assert drawn is not None
    assert len(np.unique(drawn)) == sampling.CLASSES
    assert set(Counter(drawn.tolist()).values()) == {2}  # all of each


def test_samples_are_drawn_with_their_groups(tmp_path: Path) -> None:
    values = np.arange(2_000.0)
    table = pa.table({"x": values, "label": np.arange(2_000) % 4, "burst": (values // 10).astype(int)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=500)
    stream = open_stream(tmp_path / "t.parquet", columns=Columns(group="burst"), part_bytes=500 * 8)
    drawn = sampling.draw(stream, LOCAL, sampling.class_counts(stream, LOCAL), 300)
    assert 200 < len(drawn) < 400
    assert drawn.groups is not None
    assert drawn.groups.tolist() == [str(int(x // 10)) for x in drawn.X[:, 0]]
    assert drawn.rows.tolist() == drawn.X[:, 0].astype(int).tolist()
    assert sampling.sample_of(stream, 300).groups is not None
    nothing = sampling.gather(stream, LOCAL, 0.0)
    assert (nothing.X.shape, len(nothing)) == ((0, 1), 0)
