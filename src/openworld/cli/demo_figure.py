"""The demonstration's figure: accuracy before and after, and some letters with their answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from openworld.cli.demo_story import Story

# Okabe and Ito's colors, which color-blind people can tell apart.
_BEFORE, _AFTER, _RIGHT, _WRONG = "#999999", "#0072B2", "#009E73", "#D55E00"


def draw(story: Story, path: Path) -> None:
    """Draw the figure into a PNG file."""
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    parts: Any = figure.subfigures(1, 2, width_ratios=[1, 1.9])
    bars, examples = parts
    _draw_bars(bars.add_subplot(), story)
    examples.suptitle("Test pictures with the answer before and after", fontsize=11)
    rows: Any = examples.subfigures(len(story.examples), 1)
    for part, (name, shown) in zip(rows, story.examples.items(), strict=True):
        part.supylabel(name, fontsize=9)
        for axes, example in zip(part.subplots(2, len(shown) // 2).flat, shown, strict=True):
            _draw_letter(axes, example, never_named=name == "letters never named")
    figure.savefig(path, dpi=150)


def _draw_bars(axes: Any, story: Story) -> None:
    names = list(story.before)
    for shift, values, color_of, label in (
        (-0.2, story.before, _BEFORE, "before naming"),
        (0.2, story.after, _AFTER, "after naming"),
    ):
        heights = [100 * values[name] for name in names]
        bars = axes.bar([i + shift for i in range(len(names))], heights, 0.38, color=color_of, label=label)
        axes.bar_label(bars, fmt="%.0f", fontsize=9)
    axes.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names])
    axes.set_ylabel("answers that are right (%)")
    axes.set_ylim(0, 105)
    axes.set_title(f"{story.n_named} pictures named by a person", fontsize=11)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_letter(axes: Any, example: tuple[Any, str, str, str], *, never_named: bool) -> None:
    image, truth, before, after = example
    right = after == ("unknown" if never_named else truth)
    axes.imshow(image, cmap="gray_r", vmin=0, vmax=255)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color(_RIGHT if right else _WRONG)
    axes.spines[:].set_linewidth(2)
    short = {"unknown": "?"}
    axes.set_xlabel(f"{short.get(before, before)} → {short.get(after, after)}", fontsize=9)
