"""Prints the license of every package that openworld or one of its extras installs, as a Markdown table.

    python scripts/licenses.py > licenses.md

Read from the metadata of the installed packages, so it needs an environment with `openworld[all]`.
"""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

EXTRAS = ("images", "text", "evaluate", "service", "scale")


def installed() -> dict[str, Distribution]:
    """Return all that openworld needs, with what these need in turn."""
    found: dict[str, Distribution] = {}
    pending: list[tuple[str, frozenset[str]]] = [("openworld", frozenset(EXTRAS))]
    seen = set()
    while pending:
        name, extras = key = pending.pop()
        if key in seen:
            continue
        seen.add(key)
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # for another system
            continue
        for text in found[name].requires or []:
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in extras or {""}):
                pending.append((re.sub(r"[-_.]+", "-", needed.name).lower(), frozenset(needed.extras)))
    return found


def license_of(package: Distribution) -> str:
    """Return the license in a few words: SPDX expression, classifiers, or the first line of its text."""
    metadata = package.metadata
    classified = [c.rpartition(" :: ")[2] for c in metadata.get_all("Classifier") or [] if "License ::" in c]
    plain = (metadata.get("License") or "").strip().partition("\n")[0][:60]
    return metadata.get("License-Expression") or ", ".join(classified) or plain or "not stated"


def main() -> None:
    """Print the table."""
    print("| package | version | license |\n|---|---|---|")
    for name, package in sorted(installed().items()):
        print(f"| {name} | {package.version} | {license_of(package)} |")


if __name__ == "__main__":
    main()
