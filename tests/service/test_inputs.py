"""Pictures of requests: one after the other, so that a request takes the memory of one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from openworld.features.decode import decode
from openworld.service.inputs import THUMBNAIL_SIDE, Inputs, thumbnail
from openworld.service.results import Refused
from openworld.service.settings import load_settings

MOST_KILOBYTES = 500_000
_PROGRAM = """
import sys
from openworld_test_inputs import inputs_of
from pathlib import Path

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

data = Path(sys.argv[1]).read_bytes()
inputs = inputs_of()
inputs.pictures([("small", Path(sys.argv[2]).read_bytes())])
before = peak()
features, _ = inputs.pictures([("black", data)] * 12)
assert len(features) == 12
print(peak() - before)
"""


class Means:
    """An extractor: the mean of each color."""

    kind = "image"

    def transform(self, pictures: Any) -> Any:
        return np.array([np.asarray(picture.resize((8, 8))).mean(axis=(0, 1)) for picture in pictures])


def inputs_of(**settings: Any) -> Inputs:
    found = Inputs(SimpleNamespace(model=SimpleNamespace(extractor={})), load_settings(**settings))  # type: ignore[arg-type]
    found._extractor = Means()  # type: ignore[assignment]
    return found


def png(width: int, height: int, color: Any = 0, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (width, height), color).save(file, "PNG", compress_level=1)
    return file.getvalue()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "I;16"])
def test_a_request_of_large_pictures_takes_the_memory_of_one(tmp_path: Path, mode: str) -> None:
    (tmp_path / "black.png").write_bytes(png(5656, 5656, mode=mode))
    (tmp_path / "small.png").write_bytes(png(8, 8, mode=mode))
    (tmp_path / "openworld_test_inputs.py").write_text(Path(__file__).read_text())
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM, tmp_path / "black.png", tmp_path / "small.png"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(found.stdout) < MOST_KILOBYTES


def test_features_and_thumbnails_in_order() -> None:
    files = [("red", png(300, 100, "red")), (None, png(20, 20, "blue"))]
    features, items = inputs_of().pictures(files)
    np.testing.assert_array_equal(features, [[255, 0, 0], [0, 0, 255]])
    assert [item.source for item in items] == ["red", None]
    sizes = [decode(item.thumbnail or b"").size for item in items]
    assert sizes == [(THUMBNAIL_SIDE, 43), (20, 20)]


def test_pixels_of_a_request_are_bounded() -> None:
    inputs = inputs_of(max_request_pixels=1000)
    assert len(inputs.pictures([("a", png(20, 20)), ("b", png(20, 20))])[0]) == 2
    with pytest.raises(Refused, match="Up to picture 2 there are more than 1,000 pixels"):
        inputs.pictures([("a", png(20, 20))] * 3)


def test_a_thumbnail_of_a_very_long_picture() -> None:
    assert decode(thumbnail(Image.new("RGB", (5000, 3)))).size == (THUMBNAIL_SIDE, 1)
