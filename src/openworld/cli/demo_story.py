"""The whole loop on the built-in letters, shown in the terminal; the true names play the person."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from openworld.data.letters import Letters
    from openworld.recognition import OpenWorldRecognizer

# One face of each family is kept to test with; the recognizer learns from the others.
TEST_FACES = ("DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSerif-Bold", "STIXGeneral")
N_STARTING = N_NEW = N_NEVER = 50


def tell_in_terminal(output: Path, seed: int, *, as_json: bool = False) -> None:
    """Run the loop and write the model, the table and the figure."""
    from rich.console import Console

    from openworld import save
    from openworld.cli.console import messages
    from openworld.cli.demo_figure import draw

    story = tell(draw_letters(), seed, messages.print)
    if as_json:
        typer.echo(json.dumps({"named": story.n_named, "before": story.before, "after": story.after}))
    else:
        Console().print(_table(story))
    save(story.recognizer, output / "letters.ow")
    (output / "accuracy.csv").write_text(_csv(story), encoding="utf-8")
    draw(story, output / "demo.png")
    messages.print(f"Wrote {output / 'letters.ow'}, {output / 'accuracy.csv'} and {output / 'demo.png'}.")


def draw_letters() -> Letters:
    """Return the built-in letters; the first time they are drawn, with a progress bar."""
    from openworld.cli.console import Progress, messages
    from openworld.data.letters import load_letters

    with Progress("Drawing the letters (once)") as progress:
        letters = load_letters(progress=progress.update)
    messages.print(f"{len(letters.classes):,} letters in 16 typefaces, {len(letters.labels):,} pictures.")
    return letters


@dataclass
class Story:
    """What happened: the recognizer at the end, the accuracies before and after, and some examples."""

    recognizer: OpenWorldRecognizer
    n_named: int = 0
    before: dict[str, float] = field(default_factory=dict)
    after: dict[str, float] = field(default_factory=dict)
    examples: dict[str, list[tuple[Any, str, str, str]]] = field(default_factory=dict)


def tell(letters: Letters, seed: int, say: Any) -> Story:
    """Run the loop: recognize, reject, label, learn."""
    import numpy as np

    from openworld import OpenWorldRecognizer

    order = np.random.default_rng(seed).permutation(letters.classes)
    starting, new, never = np.split(order[: N_STARTING + N_NEW + N_NEVER], [N_STARTING, N_STARTING + N_NEW])
    testing = np.isin(letters.faces, TEST_FACES)

    def pictures(classes: Any, *, test: bool) -> Any:
        return np.isin(letters.labels, classes) & (testing == test)

    recognizer, X = OpenWorldRecognizer(), letters.frequencies
    chosen = pictures(starting, test=False)
    recognizer.fit(X[chosen], letters.labels[chosen])
    story = Story(recognizer)
    say(f"Learned {N_STARTING} letters from {chosen.sum()} pictures.")

    groups = {"known letters": starting, "new letters": new, "letters never named": never}
    tests = {name: pictures(classes, test=True) for name, classes in groups.items()}
    before = {name: recognizer.predict(X[rows]) for name, rows in tests.items()}
    for name, answers in before.items():
        truth = letters.labels[tests[name]] if name == "known letters" else recognizer.unknown_label_
        story.before[name] = float(np.mean(answers == truth))

    met = np.flatnonzero(pictures(new, test=False))
    rejected = met[recognizer.predict(X[met]) == recognizer.unknown_label_]
    say(f"Met {len(met)} pictures of {N_NEW} new letters; {len(rejected)} of them were unknown to it.")
    recognizer.partial_fit(X[rejected], letters.labels[rejected])
    story.n_named = len(rejected)
    say(f"A person named those {len(rejected)}; now it knows {len(recognizer.classes_)} letters.")

    for name, rows in tests.items():
        answers = recognizer.predict(X[rows])
        truth = recognizer.unknown_label_ if name == "letters never named" else letters.labels[rows]
        story.after[name] = float(np.mean(answers == truth))
        some = np.random.default_rng(seed).permutation(len(answers))[:24]
        story.examples[name] = [
            (letters.images[rows][i], str(letters.labels[rows][i]), str(before[name][i]), str(answers[i]))
            for i in some
        ]
    return story


def _table(story: Story) -> Any:
    from rich.table import Table

    table = Table("test pictures of", "right before", "right after", "what is right")
    rights = ("its name", "unknown, then its name", "unknown")
    for name, right in zip(story.before, rights, strict=True):
        table.add_row(name, f"{story.before[name]:.1%}", f"{story.after[name]:.1%}", right)
    return table


def _csv(story: Story) -> str:
    lines = ["test pictures of,right before,right after"]
    lines += [f"{name},{story.before[name]:.4f},{story.after[name]:.4f}" for name in story.before]
    return "\n".join(lines) + "\n"
