"""Descriptors of pictures per second, one thread, against OpenCV and scikit-image where they are installed.

The baselines are no dependencies. To measure against them as well, in an environment of its own:
`pip install . threadpoolctl opencv-python-headless scikit-image`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.speed.measure import best_times
from openworld.features import HOG, LBP, DenseSIFT, VisualWords
from openworld.features.pictures import as_pixels, to_hsv

SIDES = (64, 128, 256)
Picture = NDArray[np.uint8]


def picture(side: int) -> Picture:
    """Return a color picture with detail at every scale."""
    random = np.random.default_rng(0)
    layers = (
        np.kron(random.normal(size=(side // size, side // size, 3)) * size, np.ones((size, size, 1)))
        for size in (1, 2, 4, 8, 16, 32)
    )
    return np.clip(128 + 2 * sum(layers), 0, 255).astype(np.uint8)


def baseline(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


def opencv_sift(cv2: Any, color: Picture) -> Callable[[], object]:
    """Describe the same places of the same three channels at the same size."""
    cv2.setNumThreads(1)
    sift = cv2.SIFT_create()
    # OpenCV's bins are 3/2 of a keypoint's size apart.
    places = [
        cv2.KeyPoint(float(x), float(y), 2 * float(radius) / 3, 0)
        for x, y, radius in DenseSIFT().positions(color)
    ]

    def describe() -> None:
        hsv = cv2.cvtColor(color, cv2.COLOR_RGB2HSV_FULL)
        for channel in cv2.split(hsv):
            sift.compute(channel, places)

    return describe


def benchmarks(side: int) -> list[tuple[str, Callable[[], object], str, Callable[[], object] | None]]:
    """Return what is measured: name, action, name of the baseline, its action."""
    color = picture(side)
    gray = color[..., 1].copy()
    cv2, skimage = baseline("cv2"), baseline("skimage.feature")
    return [
        (
            "dense SIFT, RGB",
            lambda: DenseSIFT().descriptors(color),
            "OpenCV SIFT, same places",
            opencv_sift(cv2, color) if cv2 else None,
        ),
        ("dense SIFT, gray", lambda: DenseSIFT().descriptors(gray), "", None),
        (
            "HSV",
            lambda: to_hsv(as_pixels(color)),
            "scikit-image rgb2hsv",
            (lambda: baseline("skimage.color").rgb2hsv(color)) if skimage else None,
        ),
        (
            "HOG (31), RGB",
            lambda: HOG().descriptors(color),
            "scikit-image hog (9)",
            (lambda: skimage.hog(color, channel_axis=-1, cells_per_block=(2, 2))) if skimage else None,
        ),
        (
            "HOG (31), gray",
            lambda: HOG().descriptors(gray),
            "scikit-image hog (9)",
            (lambda: skimage.hog(gray, cells_per_block=(2, 2))) if skimage else None,
        ),
        (
            "LBP, gray",
            lambda: LBP().histogram(gray),
            "scikit-image nri_uniform",
            (lambda: skimage.local_binary_pattern(gray, 8, 1, "nri_uniform")) if skimage else None,
        ),
    ]


def visual_words(side: int) -> None:
    """Print how long it takes to count the words of a picture that is described already."""
    descriptors = DenseSIFT().descriptors(picture(side))

    class Described:
        def descriptors(self, picture: object) -> NDArray[np.float32]:
            return descriptors

    words = VisualWords(Described(), 1000)
    words.words_ = np.random.default_rng(0).random((1000, descriptors.shape[1]), dtype=np.float32)
    counting, product = best_times(
        [lambda: words.transform(np.zeros((1, 1, 1))), lambda: descriptors @ words.words_.T], repeats=5
    )
    print(
        f"{side:4} px  1000 words, RGB    {1 / counting:8.1f} pictures/s;  "
        f"bare matrix product: ours takes {counting / product:.2f} times as long"
    )


def main() -> None:
    missing = [
        name for name, module in (("OpenCV", "cv2"), ("scikit-image", "skimage")) if not baseline(module)
    ]
    if missing:
        print(f"Without {' and '.join(missing)}: pip install opencv-python-headless scikit-image")
    with threadpool_limits(1):
        for side in SIDES:
            for name, action, baseline_name, baseline_action in benchmarks(side):
                times = best_times(
                    [action] if baseline_action is None else [action, baseline_action], repeats=15
                )
                line = f"{side:4} px  {name:18} {1 / times[0]:8.1f} pictures/s"
                if baseline_action is not None:
                    ratio = times[1] / times[0]
                    line += f";  {baseline_name}: {1 / times[1]:.1f}/s, ours is {ratio:.2f} times as fast"
                print(line, flush=True)
            visual_words(side)


if __name__ == "__main__":
    main()
