# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # Photos to a growing model
#
# A folder of pictures becomes a model that names what it knows, answers *unknown* to the rest, and learns
# a new class from five pictures. Needs `openworld[images]`. The pictures here are drawn, so that the page runs
# anywhere; with your own, start at "Fit".
#
# ## Pictures: one sub-folder per class

# %%
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

folder = Path(tempfile.mkdtemp())
random = np.random.default_rng(0)


def draw(shape: str) -> Image.Image:
    """Draw a shape somewhere, in some color, on noisy paper."""
    picture = Image.fromarray(random.integers(200, 256, (128, 128, 3), dtype=np.uint8))
    pen, (x, y), r = ImageDraw.Draw(picture), random.integers(48, 80, 2), int(random.integers(24, 40))
    color = tuple(int(c) for c in random.integers(0, 160, 3))
    if shape == "disk":
        pen.ellipse([x - r, y - r, x + r, y + r], fill=color)
    elif shape == "ring":
        pen.ellipse([x - r, y - r, x + r, y + r], outline=color, width=6)
    elif shape == "bars":
        for i in range(-r, r, 12):
            pen.rectangle([x + i, y - r, x + i + 5, y + r], fill=color)
    else:
        pen.regular_polygon((int(x), int(y), r), {"triangle": 3, "square": 4}[shape], fill=color)
    return picture


for shape, n in {"disk": 30, "ring": 30, "triangle": 30, "square": 30, "bars": 20}.items():
    place = folder / ("new" if shape == "bars" else "photos") / shape
    place.mkdir(parents=True)
    for i in range(n):
        draw(shape).save(place / f"{i:02}.png")
sorted(path.name for path in (folder / "photos").iterdir())

# %% [markdown]
# ## Fit
#
# On the command line this is `openworld fit photos/ -o shapes.ow`. In Python: an extractor turns pictures into
# features, a recognizer learns them.

# %%
from openworld import OpenWorldRecognizer
from openworld.features import load_extractor

extractor = load_extractor("efficientnet-lite0")


def features(paths: list[Path]) -> np.ndarray:
    """Return one row of features for each picture."""
    return extractor.transform([Image.open(path).convert("RGB") for path in paths])


known = sorted((folder / "photos").glob("*/*.png"))
labels = np.array([path.parent.name for path in known])
test = np.arange(len(known)) % 5 == 0
X = features(known)
model = OpenWorldRecognizer().fit(X[~test], labels[~test])
print(f"right on pictures it has not seen: {np.mean(model.predict(X[test]) == labels[test]):.0%}")

# %% [markdown]
# ## Something new
#
# No class fits the bars, and the model says so.

# %%
bars = features(sorted((folder / "new" / "bars").glob("*.png")))
print(f"bars called unknown: {np.mean(model.predict(bars) == 'unknown'):.0%}")

# %% [markdown]
# ## Learn it from five pictures
#
# `partial_fit` adds the class. Nothing is retrained: the statistics of the other classes stay as they are.

# %%
model.partial_fit(bars[:5], ["bars"] * 5)
print(f"the other bars are now named right: {np.mean(model.predict(bars[5:]) == 'bars'):.0%}")
print(f"the other shapes: {np.mean(model.predict(X[test]) == labels[test]):.0%}")

# %% [markdown]
# ## Keep it

# %%
from openworld import load, save

save(model, folder / "shapes.ow")
load(folder / "shapes.ow").classes_
