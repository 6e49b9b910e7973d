"""Where do recognizers say "known"? Draws the two figures of docs/theory.md.

    python examples/accepted_regions.py            # into docs/images
    python examples/accepted_regions.py somewhere  # into another folder

The first figure shows the accepted regions of eight recognizers on four classes in the plane; the second
their open space risk (Eq. 4) and the area they accept as the world around the data, the ball S_o, grows.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from sklearn.svm import LinearSVC

from openworld import EuclideanMetric, NearestClassMean, NearestNonOutlier, SoftmaxThreshold
from openworld.theory.abating import (
    AbatingModel,
    Cone,
    Gaussian,
    LinearlyMapped,
    Product,
    ReversedWeibull,
    Thresholded,
    WeightedSum,
    zero_risk_threshold,
)
from openworld.theory.open_space import OpenSpaceWarning, Sampling, open_space_risk

# Okabe and Ito's colors, which color-blind people can tell apart; each class also has its own marker.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D")
RADIUS = 1.0  # r of Eq. 3
WINDOW = 22.0
RANGE = np.geomspace(8, 800, 9)

Array = np.ndarray[Any, np.dtype[Any]]


class LabeledByLargest:
    """The multi-class function of Eq. 6 and 7 over one abating model per class; -1 is unknown."""

    unknown_label_ = -1

    def __init__(self, models: list[AbatingModel]) -> None:
        self.models = models

    def predict(self, X: Array) -> Array:
        values = np.array([model.value(X) for model in self.models])
        return np.where(values.max(axis=0) > 0, values.argmax(axis=0), -1)


class LinearSVMWithRejectBand:
    """A linear SVM, one against the rest, that answers unknown where no decision exceeds the band."""

    unknown_label_ = -1

    def __init__(self, band: float) -> None:
        self.band = band

    def fit(self, X: Array, y: Array) -> LinearSVMWithRejectBand:
        self.svm = LinearSVC(random_state=0).fit(X, y)
        return self

    def predict(self, X: Array) -> Array:
        decisions = self.svm.decision_function(X)
        return np.where(decisions.max(axis=1) > self.band, decisions.argmax(axis=1), -1)


def four_classes() -> tuple[Array, Array]:
    random = np.random.default_rng(3)
    y = np.repeat(np.arange(4), 30)
    centers = np.array([[-4.5, -3.0], [4.5, -2.5], [2.5, 4.5], [-4.0, 4.0]])
    spread = np.array([[1.1, 0.5], [0.6, 0.9], [1.2, 0.6], [0.6, 0.6]])
    return centers[y] + spread[y] * random.standard_normal((len(y), 2)), y


def per_class(X: Array, y: Array, make: Callable[[Array], AbatingModel]) -> LabeledByLargest:
    """Make one model per class, thresholded so that its open space risk is zero (Theorem 1)."""
    models = [make(X[y == c]) for c in range(4)]
    return LabeledByLargest([Thresholded(model, zero_risk_threshold(model, RADIUS)) for model in models])


def sum_of_models(X: Array) -> AbatingModel:
    return WeightedSum([Cone(X, 3.0), Gaussian(X, 1.0), ReversedWeibull(X, 4.0, 2.0)], [0.5, 0.3, 0.2])


def product_of_models(X: Array) -> AbatingModel:
    """A strip, which alone is unbounded, times a Gaussian."""
    return Product([strip(X), Gaussian(X, 1.5)])


def strip(X: Array) -> AbatingModel:
    """A cone after a projection onto one direction: Theorem 2 without an injective map."""
    T = np.array([[0.8], [0.6]])
    return LinearlyMapped(Cone(X @ T, 1.5), T, X)


def sheared(X: Array) -> AbatingModel:
    """A cone after a linear map of full rank, which makes ellipses of balls."""
    T = np.array([[1.0, 0.5], [-0.3, 1.2]])
    return LinearlyMapped(Cone(X @ T, 2.5), T, X)


def projected(X: Array, y: Array) -> LabeledByLargest:
    """Cones around class means after a projection onto a line: bounded there, strips in the plane."""
    means = [X[y == c].mean(axis=0, keepdims=True) for c in range(4)]
    return LabeledByLargest([Thresholded(strip(mean), 0.2) for mean in means])


def recognizers(X: Array, y: Array) -> dict[str, Any]:
    """Those with a bounded region first."""
    plain = EuclideanMetric(standardize=False)
    return {
        "Nearest non-outlier (Eq. 8)": NearestNonOutlier(plain, tau=2.5).fit(X, y),
        "Sum of three CAP models": per_class(X, y, sum_of_models),
        "Strip × Gaussian (product)": per_class(X, y, product_of_models),
        "Linear map of full rank": per_class(X, y, sheared),
        "Nearest class mean": NearestClassMean(plain).fit(X, y),
        "Softmax > 0.99": SoftmaxThreshold(plain, tau=-np.log(0.99)).fit(X, y),
        "Linear SVM, reject band": LinearSVMWithRejectBand(0.6).fit(X, y),
        "Cone after a projection": projected(X, y),
    }


# -- the first figure -----------------------------------------------------------------------------


def draw_regions(models: dict[str, Any], X: Array, y: Array, path: Path) -> None:
    figure = Figure(figsize=(12, 6.9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 4, sharex=True, sharey=True)
    for panel, (name, model) in zip(axes.flat, models.items(), strict=True):
        draw_panel(panel, model, X, y)
        panel.set_title(name, fontsize=11)
    axes[0, 0].set_ylabel("bounded: unknown far away", fontsize=11)
    axes[1, 0].set_ylabel("unbounded: known far away", fontsize=11)
    handles = axes[0, 0].get_legend_handles_labels()[0]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=10, markerscale=2
    )
    figure.savefig(path, dpi=140)


def draw_panel(panel: Any, model: Any, X: Array, y: Array) -> None:
    ticks = np.linspace(-WINDOW, WINDOW, 441)
    grid = np.column_stack([axis.ravel() for axis in np.meshgrid(ticks, ticks)])
    regions = np.asarray(model.predict(grid)).reshape(len(ticks), -1)
    panel.pcolormesh(
        ticks,
        ticks,
        regions,
        cmap=ListedColormap(["white", *COLORS]),
        vmin=-1.5,
        vmax=3.5,
        alpha=0.45,
        rasterized=True,
    )
    for c, (color, marker) in enumerate(zip(COLORS, MARKERS, strict=True)):
        panel.scatter(
            *X[y == c].T,
            s=7,
            c=color,
            marker=marker,
            linewidths=0.2,
            edgecolors="black",
            label=f"class {c + 1}",
        )
    panel.scatter(
        [], [], s=30, c="white", marker="s", edgecolors="black", linewidths=0.6, label="unknown (white)"
    )
    panel.set_aspect("equal")
    panel.set_xlim(-WINDOW, WINDOW)
    panel.set_ylim(-WINDOW, WINDOW)


# -- the second figure ----------------------------------------------------------------------------


# Color, marker and size; the large ones are drawn first, so that equal lines show through each other.
STYLES = (
    ("#0072B2", "o", 5),
    ("#009E73", "s", 11),
    ("#56B4E9", "o", 7.5),
    ("#000000", "x", 5),
    ("#D55E00", "s", 11),
    ("#E69F00", "o", 7.5),
    ("#CC79A7", "x", 5),
    ("#777777", "^", 6),
)


def draw_risks(models: dict[str, Any], X: Array, path: Path) -> None:
    figure = Figure(figsize=(12, 4.9), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for i, (model, (color, marker, size)) in enumerate(zip(models.values(), STYLES, strict=True)):
        estimates = [open_space_risk(model, X, RADIUS, R, sampling=Sampling(100_000)) for R in RANGE]
        style = {"color": color, "marker": marker, "markersize": size, "linestyle": "-" if i < 4 else "--"}
        low, high = np.transpose([estimate.interval for estimate in estimates])
        left.fill_between(RANGE, low, high, color=color, alpha=0.25, linewidth=0)
        left.plot(RANGE, [estimate.risk for estimate in estimates], fillstyle="none", **style)
        areas = np.exp([estimate.log_measure for estimate in estimates])
        right.plot(RANGE, areas, fillstyle="none", label=list(models)[i], **style)
    left.set_ylabel("open space risk (Eq. 4)")
    right.set_ylabel("accepted area of $S_o$")
    right.set_yscale("log")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlabel("R, the radius of the ball $S_o$ around the data (Eq. 3)")
        axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=10)
    figure.savefig(path, dpi=140)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    X, y = four_classes()
    models = recognizers(X, y)
    draw_regions(models, X, y, folder / "theory-accepted-regions.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error", OpenSpaceWarning)  # every number drawn is meant
        draw_risks(models, X, folder / "theory-open-space-risk.png")


if __name__ == "__main__":
    main()
