"""`openworld card`: a model card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from openworld.cli.options import ModelArgument

_MOST_CLASSES = 200  # listed one by one
# Of the weights that come with an extra; other extractors have licenses of their own.
_LICENSES = {
    "efficientnet-lite0": "Apache-2.0 (weights trained on ImageNet)",
    "efficientnet-lite2": "Apache-2.0 (weights trained on ImageNet)",
    "minilm": "Apache-2.0 (all-MiniLM-L6-v2)",
    "wordllama": "MIT",
    "use-multilingual": "Apache-2.0 (Universal Sentence Encoder Multilingual v3)",
    "pixels": "none needed: computed without weights",
    "ngrams": "none needed: computed without weights",
}


def card(
    model: ModelArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to this file. Default: print it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the same facts as JSON.")] = False,
) -> None:
    """Write a model card: classes, how the model was made, expected quality, intended use and limits.

    Example: openworld card animals.ow -o card.md
    """
    from openworld.cli.inspect import read_facts
    from openworld.cli.pipeline import require_folder

    require_folder(output)
    facts, counts = read_facts(model)
    if as_json:
        per_class = [{"label": label, "samples": count} for label, count in counts.items()]
        text = json.dumps({**facts, "license of the extractor": _license(facts), "per_class": per_class})
    else:
        text = _markdown(model.name, facts, counts)
    if output is None:
        typer.echo(text)
        return
    output.write_text(text + "\n", encoding="utf-8")
    typer.echo(f"Wrote {output}.", err=True)


def _license(facts: dict[str, Any]) -> str | None:
    if facts["extractor"] is None:
        return None
    name = str(facts["extractor"]).split("@")[0].split()[0].rstrip(",:")
    return _LICENSES.get(name, "see the provider of the extractor")


def _markdown(name: str, facts: dict[str, Any], counts: dict[Any, float]) -> str:
    from openworld.cli.inspect import shown

    made = [
        f"| {fact} | {shown(value)} |"
        for fact, value in facts.items()
        if value is not None and fact != "self-check"
    ]
    listed = list(counts.items())[:_MOST_CLASSES]
    classes = [f"| {_cell(label)} | {shown(count)} |" for label, count in listed]
    if len(counts) > _MOST_CLASSES:
        classes.append(f"| and {len(counts) - _MOST_CLASSES:,} more | |")
    return "\n".join(
        [
            f"# Model card: {name}",
            "",
            f"Names {facts['classes']:,} classes, learned from {facts['samples']:,.0f} samples, and answers "
            f"`{facts['unknown is called']}` to samples of no known class.",
            "",
            "## How it was made",
            "",
            "| | |",
            "|---|---|",
            *made,
            "",
            "## How well it should work",
            "",
            *_self_check(facts, counts),
            "",
            "## Intended use and limits",
            "",
            "- For samples like those it was fitted on: the same source and conditions.",
            "- What it recognizes by itself is not learned; a person names new classes.",
            "- Classes that look alike are confused; a class of few samples is rejected more often.",
            "- Memberships are scores from 0 to 1 for each class, not probabilities that sum to one.",
            "- Not for decisions about people without a human who checks them.",
            "",
            "## License of the extractor",
            "",
            _license(facts) or "The features were given as vectors: the license is that of their source.",
            "",
            "## Classes",
            "",
            "| class | samples |",
            "|---|---|",
            *classes,
        ]
    )


def _cell(label: object) -> str:
    """Return a class name that stays in its cell of a Markdown table."""
    return " ".join(str(label).split()).replace("|", "\\|")


def _self_check(facts: dict[str, Any], counts: dict[Any, float]) -> list[str]:
    """Say what `openworld fit` found, what calibration promises, and which classes have few samples."""
    quality = facts["OSCR area when classes are left out"]
    lines = [] if facts["self-check"] is None else [f"When it was fitted: {facts['self-check']}", ""]
    lines += [
        "This recognizer was not calibrated by leaving classes out; measure it with `openworld evaluate`."
        if quality is None
        else f"OSCR {quality:.3f}: how often a held-out sample is named right and scores above a sample of a "
        "class that was left out (calibration on the training samples; 1 is perfect)."
    ]
    few = [str(label) for label, count in counts.items() if count < 5]
    if few:
        lines += ["", f"Classes with fewer than 5 samples: {', '.join(few[:20])}{', …' * (len(few) > 20)}."]
    return lines
