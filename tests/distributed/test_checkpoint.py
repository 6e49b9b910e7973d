"""Interrupted work goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openworld import NCMMetric, NearestNonOutlier, OpenWorldRecognizer
from openworld.data.columns import Columns
from openworld.data.stream import Stream
from openworld.distributed import Checkpoint, fit, learn
from openworld.distributed.checkpoint import fingerprint
from openworld.distributed.engine import PARTS_IN_A_SUM
from openworld.samples import Extraction, open_samples

Data = tuple[np.ndarray, np.ndarray]
PIXELS = Extraction("pixels")


class Killed(BaseException):
    """What no code can handle."""


@pytest.mark.parametrize("recognizer", [OpenWorldRecognizer(n_lifted=0), NearestNonOutlier(NCMMetric(3))])
def test_interrupted_fit_continues_to_the_same_model(
    tmp_path: Path, stream: Stream, data: Data, recognizer: Any
) -> None:
    whole = fit(recognizer, stream, held_in_memory=0)
    learned_from: list[int] = []

    def stop_late(n: int) -> None:
        learned_from.append(n)
        if len(learned_from) == PARTS_IN_A_SUM + 2:
            raise Killed

    folder = tmp_path / "progress"
    checkpoint = Checkpoint(folder, stream, recognizer)
    with pytest.raises(Killed):
        fit(recognizer, stream, progress=stop_late, checkpoint=checkpoint, held_in_memory=0)
    again: list[int] = []
    checkpoint = Checkpoint(folder, stream, recognizer)
    resumed = fit(recognizer, stream, progress=again.append, checkpoint=checkpoint, held_in_memory=0)
    assert again[0] == sum(map(len, stream.parts[:PARTS_IN_A_SUM]))
    assert len(again) == 1 + len(stream.parts) - PARTS_IN_A_SUM
    assert np.array_equal(resumed.model.statistics_.sums, whole.model.statistics_.sums)
    assert np.array_equal(resumed.model.predict(data[0]), whole.model.predict(data[0]))
    assert resumed.n_samples == whole.n_samples
    checkpoint.remove()
    assert not folder.exists()


def test_a_state_of_other_data_is_not_used(tmp_path: Path, stream: Stream, data: Data) -> None:
    model = OpenWorldRecognizer(n_lifted=0).fit(*data)
    learned = learn(model, stream, checkpoint=Checkpoint(tmp_path / "progress", stream, model))
    assert Checkpoint(tmp_path / "progress", stream, model).load() is not None
    assert Checkpoint(tmp_path / "progress", stream, learned.model).load() is None  # another model
    assert Checkpoint(tmp_path / "progress", stream, model, find_copies=True).load() is None
    np.save(tmp_path / "x.npy", data[0][::-1].copy())
    assert Checkpoint(tmp_path / "progress", stream, model).load() is None  # another file


def test_a_state_of_other_columns_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("text,label,template,topic\nbuy tea,a,1,x\nhello,b,2,x\n")
    keys = [
        fingerprint(open_samples(tmp_path / "q.csv", columns=columns, extraction=Extraction("ngrams")))
        for columns in (Columns(text="text", group=group) for group in ("template", "template", "topic"))
    ]
    assert keys[0] == keys[1] != keys[2]
