"""Where the time goes when `openworld fit` learns from 10,000 pictures, and whether anything idles.

    OPENWORLD_DATA=... python -m benchmarks.speed.fit_pictures [WORKERS]

The pictures are those of Caltech-101, 128 x 128 JPEG; mirrored ones make up the number, so that no two files
are the same. The calls are those of the command, first with an empty cache and then with a full one.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from PIL import Image, ImageOps

from benchmarks.speed.measure import real_data
from openworld import OpenWorldRecognizer, save
from openworld.features import Extractor, load_extractor
from openworld.samples import Extraction, open_samples

COUNT = 10_000


def write_pictures(folder: Path) -> None:
    """Write the pictures, one sub-folder per class."""
    with np.load(real_data("caltech101-jpeg128.npz"), allow_pickle=False) as file:
        blob, offsets, labels, names = (file[key] for key in ("blob", "offsets", "labels", "class_names"))
    for name in names:
        (folder / name).mkdir(parents=True)
    for i in range(COUNT):
        k = i % len(labels)
        data = blob[offsets[k] : offsets[k + 1]].tobytes()
        (folder / names[labels[k]] / f"{i}.jpg").write_bytes(data if i < len(labels) else mirrored(data))


def mirrored(data: bytes) -> bytes:
    file = io.BytesIO()
    ImageOps.mirror(Image.open(io.BytesIO(data)).convert("RGB")).save(file, "JPEG", quality=90)
    return file.getvalue()


def main() -> None:
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        pictures = Path(folder) / "pictures"
        write_pictures(pictures)
        start = perf_counter()
        extractor = load_extractor()
        print(f"loading the network: {perf_counter() - start:.1f} s")
        os.environ["OPENWORLD_CACHE"] = folder
        for what in ("nothing cached", "all cached"):
            fit(pictures, extractor, workers, what)


def fit(pictures: Path, extractor: Extractor, workers: int, what: str) -> None:
    load = os.getloadavg()[0]
    start, cpu = perf_counter(), process_time()
    stream = open_samples(pictures, extraction=Extraction(extractor, workers=workers), need_labels=True)
    samples = stream.read()
    extracted, extracted_cpu = perf_counter() - start, process_time() - cpu
    assert samples.y is not None
    start = perf_counter()
    model = OpenWorldRecognizer().fit(samples.X, samples.y)
    model.extractor_ = stream.extractor
    save(model, pictures.parent / "model.ow")
    learning = perf_counter() - start
    parts = ", ".join(f"{step} {seconds:.1f}" for step, seconds in samples.seconds.items())
    at_work = sum(samples.seconds.values())
    rate, whole = len(samples) / extracted, extracted * workers
    print(
        f"{what}, {len(samples):,} pictures, {workers} workers (load {load:.1f} before):\n"
        f"  features {extracted:.1f} s ({rate:.0f} pictures/s), learning {learning:.1f} s\n"
        f"  of {workers} x {extracted:.1f} = {whole:.1f} s of workers: {parts};\n"
        f"  in all {at_work / whole:.1%} at work, {extracted_cpu / whole:.1%} on a core",
        flush=True,
    )


if __name__ == "__main__":
    main()
