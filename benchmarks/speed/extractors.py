"""Pictures per second of each extractor, from JPEG in memory to features, with one and two workers.

The baselines run in one thread and start from decoded pictures, which favors them: torch eager with the same
weights as EfficientNet-Lite0, OpenCV's SIFT at the same places (without the words). They are no dependencies;
to measure against them as well, in an environment of its own:
`pip install .[images] torch opencv-python-headless`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.speed.descriptors import SIDES, Picture, baseline, opencv_sift, picture
from benchmarks.speed.measure import best_times
from openworld.features import HOG, LBP, DenseSIFT, Descriptor, Extractor, VisualWords, load_extractor
from openworld.features.efficientnet import NETWORKS, read_weights
from openworld.features.extraction import extract_batches
from openworld.features.preparation import Preparation
from openworld.features.torch_weights import read_tensors
from openworld.features.word_file import WordHistograms

COUNT = 48  # pictures, in batches of 8
REPEATS = 3


@dataclass(frozen=True)
class InMemory:
    """A file without a disk."""

    name: str
    data: bytes
    label: str | None = None

    def read(self) -> bytes:
        """Return the file."""
        return self.data


def jpegs(side: int) -> list[InMemory]:
    """Return different pictures of one side."""
    from PIL import Image

    items = []
    for i in range(COUNT):
        file = io.BytesIO()
        Image.fromarray(np.roll(picture(side), i, axis=1)).save(file, "JPEG", quality=90)
        items.append(InMemory(f"{i}.jpg", file.getvalue()))
    return items


def words(descriptor: Descriptor, n_words: int, name: str) -> Extractor:
    """Return visual words that stand anywhere: where they stand does not matter for speed."""
    length = descriptor.descriptors(picture(64)).shape[1]
    visual_words = VisualWords(descriptor, n_words)
    visual_words.words_ = np.random.default_rng(0).random((n_words, length), dtype=np.float32)
    return WordHistograms(visual_words, name)


def torch_network(torch: Any, pictures: list[Picture]) -> Callable[[], object]:
    """Run EfficientNet-Lite0 in torch eager, layer by layer."""
    weights = {
        name: torch.from_numpy(value.copy())
        for name, value in read_tensors(read_weights(NETWORKS["efficientnet-lite0"])).items()
    }
    functional = torch.nn.functional
    preparation = Preparation((224, 224), filter="bicubic")
    torch.set_num_threads(1)

    def normed(x: Any, norm: str) -> Any:
        mean, variance, scale, shift = (
            weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return functional.batch_norm(x, mean, variance, scale, shift, eps=1e-3)

    def convolved(x: Any, conv: str, norm: str, stride: int = 1) -> Any:
        kernel = weights[f"{conv}.weight"]
        padding = kernel.shape[2] - stride
        x = functional.pad(x, (padding // 2, padding - padding // 2) * 2)
        return normed(functional.conv2d(x, kernel, stride=stride, groups=x.shape[1] // kernel.shape[1]), norm)

    def features(x: Any) -> Any:
        x = functional.relu6(convolved(x, "_conv_stem", "_bn0", 2))
        for i in range(16):
            start, block, stride = x, f"_blocks.{i}", 2 if i in (1, 3, 5, 11) else 1
            if i:
                x = functional.relu6(convolved(x, f"{block}._expand_conv", f"{block}._bn0"))
            x = functional.relu6(convolved(x, f"{block}._depthwise_conv", f"{block}._bn1", stride))
            x = convolved(x, f"{block}._project_conv", f"{block}._bn2")
            x = x + start if x.shape == start.shape else x
        return functional.relu6(convolved(x, "_conv_head", "_bn1")).mean((2, 3))

    def run() -> None:
        with torch.inference_mode():
            for start in range(0, len(pictures), 8):
                cut = preparation.cut(pictures[start : start + 8])
                features((torch.from_numpy(cut).permute(0, 3, 1, 2).float() - 127) / 128)

    return run


def opencv_pictures(cv2: Any, pictures: list[Picture]) -> Callable[[], object]:
    actions = [opencv_sift(cv2, one) for one in pictures]
    return lambda: [action() for action in actions]


def measure(
    extractor: Extractor, side: int, other: str, baseline_action: Callable[[], object] | None
) -> None:
    items = jpegs(side)
    actions: list[Callable[[], object]] = [
        lambda: list(extract_batches(items, extractor, workers=1, batch_size=8)),
        lambda: list(extract_batches(items, extractor, workers=2, batch_size=8)),
    ]
    times = best_times(actions + ([] if baseline_action is None else [baseline_action]), repeats=REPEATS)
    one, two = (COUNT / time for time in times[:2])
    line = f"{side:4} px  {extractor.id.name:18} {one:8.1f} pictures/s, two workers {two:8.1f}"
    if baseline_action is not None:
        line += f";  {other}: {COUNT / times[2]:.1f}/s, one worker is {times[2] / times[0]:.2f} times as fast"
    elif other:
        line += f";  {other}: not installed"
    print(line, flush=True)


def measure_text() -> None:
    """Print how many questions a second the text extractors embed, in one thread, one after the other."""
    questions = [
        f"{verb} {thing} {when}, please?"
        for verb in ("can you tell me about", "how do i change", "what is", "cancel", "i would like to see")
        for thing in ("my card", "the weather", "the flight to london", "my savings account balance")
        for when in ("today", "next week", "for the whole of last year", "")
    ]
    encoder, vectors = load_extractor("minilm"), load_extractor("wordllama")
    times = best_times(
        [lambda: encoder.transform(questions), lambda: vectors.transform(questions)], repeats=REPEATS
    )
    slow, fast = (len(questions) / time for time in times)
    print(f"minilm {slow:.0f} questions/s; wordllama {fast:.0f}/s, {fast / slow:.0f} times as fast")


def main() -> None:
    measure_text()
    torch, cv2 = baseline("torch"), baseline("cv2")
    deep = load_extractor("efficientnet-lite0")
    sift, hog, lbp = (
        words(DenseSIFT(), 1000, "sift"),
        words(HOG(), 300, "hog"),
        words(LBP(), 300, "lbp"),
    )
    with threadpool_limits(1):
        for side in SIDES:
            pictures = [np.roll(picture(side), i, axis=1) for i in range(COUNT)]
            measure(deep, side, "torch eager", torch_network(torch, pictures) if torch else None)
            measure(sift, side, "OpenCV SIFT", opencv_pictures(cv2, pictures) if cv2 else None)
            for extractor in (hog, lbp, load_extractor("pixels")):
                measure(extractor, side, "", None)


if __name__ == "__main__":
    main()
