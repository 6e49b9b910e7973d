"""The whole loop on scikit-learn's digits in the terminal, with the true names in place of a person.

Needs the core dependencies only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from openworld import OpenWorldRecognizer, save
from openworld.cli.console import messages
from openworld.discovery import Cluster, PoolSpace, find_clusters

N_KNOWN, N_NEW = 6, 2  # of the ten digits; the others are never named
_N_SHOWN = 3  # clusters, which fit 80 columns
_INK = " .:+#@"


@dataclass
class Story:
    """The recognizer at the end, and the share of right answers before and after naming."""

    recognizer: OpenWorldRecognizer
    n_named: int = 0
    before: dict[str, float] = field(default_factory=dict)
    after: dict[str, float] = field(default_factory=dict)


def tell_in_terminal(output: Path, seed: int, *, as_json: bool = False) -> None:
    """Run the loop, print what happens and write the model."""
    from rich.console import Console

    def say(line: str) -> None:
        messages.print(line, markup=False, soft_wrap=True)

    story = tell(seed, say)
    if as_json:
        typer.echo(json.dumps({"named": story.n_named, "before": story.before, "after": story.after}))
    else:
        Console().print(_table(story))
    path = output / "digits.ow"
    save(story.recognizer, path)
    say(f"Wrote {path}. To look at it: openworld inspect {path} --classes")


def tell(seed: int, say: Callable[[str], None]) -> Story:
    """Run the loop: learn, recognize, cluster what is unknown, name the clusters, learn again."""
    X, y = load_digits(return_X_y=True)
    images, labels = load_digits().images, y.astype(str)
    testing = np.arange(len(y)) % 2 == 1
    order = np.random.default_rng(seed).permutation(np.unique(labels))
    known, new, never = np.split(order, [N_KNOWN, N_KNOWN + N_NEW])

    chosen = np.isin(labels, known) & ~testing
    recognizer = OpenWorldRecognizer().fit(X[chosen], labels[chosen])
    story = Story(recognizer)
    say(f"Learned the digits {', '.join(sorted(known))} from {chosen.sum()} pictures.")

    tests = {
        name: np.isin(labels, digits) & testing
        for name, digits in {"known digits": known, "new digits": new, "never named": never}.items()
    }

    def shares_right() -> dict[str, float]:
        truth = np.where(np.isin(labels, recognizer.classes_), labels, recognizer.unknown_label_)
        return {
            name: float(np.mean(recognizer.predict(X[rows]) == truth[rows])) for name, rows in tests.items()
        }

    story.before = shares_right()
    met = np.flatnonzero(np.isin(labels, new) & ~testing)
    unknown = met[recognizer.predict(X[met]) == recognizer.unknown_label_]
    say(f"Showed it {len(met)} pictures of two new digits: it called {len(unknown)} of them unknown.")

    space = PoolSpace.of(recognizer)
    clusters = find_clusters(space.transform(X[unknown]), unknown, known=space.known).clusters
    names = [_name(cluster, labels) for cluster in clusters]
    story.n_named = sum(map(len, clusters))
    say(f"Grouped {story.n_named} of these into {len(clusters)} clusters. The first {_N_SHOWN}:\n")
    say(_side_by_side([images[cluster.medoid] for cluster in clusters[:_N_SHOWN]]))
    say(f"\nA person names each cluster: {', '.join(names)}.")
    for cluster, name in zip(clusters, names, strict=True):
        recognizer.partial_fit(X[cluster.members], [name] * len(cluster))
    story.after = shares_right()
    say(f"Learned them without retraining. It now knows {len(recognizer.classes_)} digits.")
    return story


def _name(cluster: Cluster, labels: NDArray[np.str_]) -> str:
    """Return what a person would call a cluster: the true name of most of its samples."""
    names, counts = np.unique(labels[cluster.members], return_counts=True)
    return str(names[counts.argmax()])


def _side_by_side(images: list[NDArray[np.float64]]) -> str:
    """Return pictures of digits as lines of text."""
    levels = np.hstack([np.pad(image, ((0, 0), (1, 2))) for image in images]) * (len(_INK) - 1) / 16
    return "\n".join("".join(_INK[round(level)] * 2 for level in row).rstrip() for row in levels)


def _table(story: Story) -> Any:
    from rich.table import Table

    table = Table("test pictures of", "right before", "right after", "what is right")
    rights = ("its name", "unknown, then its name", "unknown")
    for name, right in zip(story.before, rights, strict=True):
        table.add_row(name, f"{story.before[name]:.1%}", f"{story.after[name]:.1%}", right)
    return table
