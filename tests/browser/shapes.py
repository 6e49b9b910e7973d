"""A small world of drawn shapes: three are known, others come in as unknown, with pictures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from openworld import EuclideanMetric, NearestNonOutlier
from openworld.data.letters import Letters
from openworld.service.settings import WorldSettings
from openworld.service.world import World
from openworld.store.records import SampleContent

KNOWN = ("circle", "square", "cross")
UNKNOWN = {"triangle": 14, "ell": 11, "bars": 9, "wave": 8}
TAU = 5.0


def draw(shape: str, n: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return n drawings of a shape, white on black, each a little different."""
    random = np.random.default_rng([seed, *shape.encode()])
    return np.stack([_one(shape, random) for _ in range(n)])


def _one(shape: str, random: np.random.Generator) -> NDArray[np.uint8]:
    image = Image.new("L", (224, 224))
    pen = ImageDraw.Draw(image)
    left, top = 50 + random.integers(-3, 4, 2)
    size = int(122 + random.integers(-3, 4))
    right, bottom, middle = left + size, top + size, left + size // 2
    match shape:
        case "circle":
            pen.ellipse((left, top, right, bottom), outline=255, width=20)
        case "square":
            pen.rectangle((left, top, right, bottom), fill=255)
        case "cross":
            pen.line((left, top, right, bottom), fill=255, width=20)
            pen.line((left, bottom, right, top), fill=255, width=20)
        case "triangle":
            pen.polygon([(middle, top), (right, bottom), (left, bottom)], fill=255)
        case "ell":
            pen.line([(left, top), (left, bottom), (right, bottom)], fill=255, width=24)
        case "bars":
            for x in (left, middle, right):
                pen.line((x, top, x, bottom), fill=255, width=20)
        case "wave":
            for y in (top, top + size // 2, bottom):
                pen.line((left, y, right, y), fill=255, width=20)
    return np.asarray(image.resize((28, 28), Image.Resampling.BOX))


def features(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return what the model sees of drawings."""
    names = np.full(len(images), "")
    return Letters(images, names, names).frequencies


def items(images: NDArray[np.uint8], source: str) -> list[SampleContent]:
    """Return the drawings as small PNG pictures."""
    found = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(255 - image).resize((84, 84), Image.Resampling.NEAREST).save(file, "PNG")
        found.append(SampleContent("image", None, source, file.getvalue()))
    return found


def model() -> Any:
    """Return a model of the known shapes."""
    X = np.vstack([features(draw(shape, 20)) for shape in KNOWN])
    return NearestNonOutlier(EuclideanMetric(standardize=False), tau=TAU).fit(X, np.repeat(KNOWN, 20))


def stream(world: World, seed: int = 0) -> dict[str, list[int]]:
    """Send unknown shapes, and return their sample ids."""
    ids: dict[str, list[int]] = {}
    for shape, n in UNKNOWN.items():
        images = draw(shape, n, seed + 1)
        answers = world.recognize(features(images), items(images, f"camera {shape}"))
        ids[shape] = [i for i in answers.sample_ids if i is not None]
    return ids


def open_world(folder: Path, settings: WorldSettings = WorldSettings()) -> World:  # noqa: B008 -- frozen
    """Return a new world that knows some shapes."""
    return World.open(f"sqlite:///{folder / 'shapes.db'}", model(), settings)
