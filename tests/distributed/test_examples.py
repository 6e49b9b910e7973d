"""Examples of classes that a model keeps."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image

from openworld import EuclideanMetric, NearestNonOutlier
from openworld.data.sources import as_source
from openworld.distributed import fit
from openworld.distributed.examples import PER_CLASS, SIDE, examples_of
from openworld.samples import Extraction, open_samples


def test_the_first_pictures_of_each_class_are_kept_small(tmp_path: Path) -> None:
    for shade, name in ((40, "dark"), (200, "light")):
        (tmp_path / name).mkdir()
        for i in range(6):
            Image.new("RGB", (300, 200), (shade, shade, 10 * i)).save(tmp_path / name / f"{i}.png")
    (tmp_path / "dark" / "0.png").write_bytes(b"no picture")
    source = as_source(str(tmp_path))
    assert source is not None
    found = examples_of(source)
    assert {label: len(some) for label, some in found.items()} == {"dark": PER_CLASS, "light": PER_CLASS}
    pictures = [Image.open(io.BytesIO(one)) for one in found["light"]]
    assert [picture.size for picture in pictures] == [(SIDE, SIDE * 2 // 3)] * PER_CLASS
    assert abs(np.asarray(pictures[0])[..., 0].mean() - 200) < 5


def test_a_fitted_model_keeps_texts(tmp_path: Path) -> None:
    table = tmp_path / "texts.csv"
    table.write_text(
        "text,label\nred apple,fruit\ngreen pear,fruit\nslow train,railway\nfast train,railway\n"
    )
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=1.0)
    stream = open_samples(str(table), extraction=Extraction("ngrams"), need_labels=True)
    assert fit(model, stream).model.examples_ == {
        "fruit": [b"red apple", b"green pear"],
        "railway": [b"slow train", b"fast train"],
    }
