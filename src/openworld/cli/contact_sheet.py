"""The contact sheet: one page of recognized samples by class and unknown samples by cluster."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment

if TYPE_CHECKING:
    from openworld.cli.answer_files import Row
    from openworld.data.sources import Source
    from openworld.data.stream import Batch

SHOWN_PER_GROUP = 60
SHOWN_IN_ALL = 3000  # approximately; bounds the size of the page
FEWEST_SHOWN = 6
SIDE = 96  # pixels of a thumbnail; stored at twice the size for dense screens


@dataclass(frozen=True)
class Group:
    """Samples that are shown together: their positions, in viewing order, and the number of their cluster."""

    title: str
    members: list[int]
    cluster: int | None = None


def write_sheet(
    path: Path, title: str, source: Source | None, batch: Batch, rows: list[Row], unknown: list[Group]
) -> None:
    """Write the page: one self-contained file.

    Parameters
    ----------
    path : path
    title : str
    source : Source or None
        The pictures or texts to show.
    batch : Batch
        The samples with their features.
    rows : list of dict
        The answers, one for each sample.
    unknown : list of Group
        The unknown samples, see `unknown_groups`.
    """
    known = known_groups(rows)
    n_groups = len(known) + len(unknown)
    n_shown = max(FEWEST_SHOWN, min(SHOWN_PER_GROUP, SHOWN_IN_ALL // n_groups))
    shown = {i for group in (*known, *unknown) for i in group.members[:n_shown]}
    pictures = _thumbnails(source, batch, shown)
    names = batch.names or [f"sample {row['sample']}" for row in rows]
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        files("openworld.cli").joinpath("templates/contact_sheet.html.jinja").read_text(encoding="utf-8")
    )

    def view(group: Group) -> dict[str, Any]:
        cells = [
            {
                "name": names[i],
                "picture": pictures.get(i),
                "nearest": rows[i]["nearest_class"],
                "distance": rows[i]["distance"],
            }
            for i in group.members[:n_shown]
        ]
        return {"title": group.title, "size": len(group.members), "cells": cells}

    page = template.render(
        title=title,
        side=SIDE,
        n_samples=len(rows),
        n_unknown=sum(row["unknown"] for row in rows),
        known=[view(group) for group in known],
        unknown=[view(group) for group in unknown],
        failures=batch.failures,
        text=source is None or source.kind == "text",
    )
    path.write_text(page, encoding="utf-8")


def known_groups(rows: list[Row]) -> list[Group]:
    """Return the recognized samples by class, farthest from its mean first, where errors are likely."""
    members: dict[Any, list[int]] = {}
    for i, row in enumerate(rows):
        if not row["unknown"]:
            members.setdefault(row["answer"], []).append(i)
    return [
        Group(str(answer), sorted(found, key=lambda i: -float(rows[i]["distance"])))
        for answer, found in sorted(members.items(), key=lambda pair: str(pair[0]))
    ]


def unknown_groups(recognizer: Any, X: Any, rows: list[Row]) -> list[Group]:
    """Return the unknown samples by cluster, in the order to look at them, and then those in no cluster.

    They are clustered in the metric of the recognizer.
    """
    from openworld.discovery import PoolSpace, find_clusters

    unknown = np.flatnonzero([row["unknown"] for row in rows])
    if not len(unknown):
        return []
    space = PoolSpace.of(recognizer)
    found = find_clusters(space.transform(X[unknown]), unknown, known=space.known)
    groups = [
        Group(f"Cluster {number}", cluster.members.tolist(), number)
        for number, cluster in enumerate(found.clusters, 1)
    ]
    if len(found.singles):
        groups.append(Group("In no cluster" if groups else "Unknown", found.singles.tolist()))
    return groups


def _thumbnails(source: Source | None, batch: Batch, wanted: set[int]) -> dict[int, str]:
    """Return thumbnails of the pictures at the wanted positions as data URLs, read from the source."""
    from openworld.data.label_studio import data_url
    from openworld.features.decode import thumbnail

    if source is None or source.kind == "text":
        return {}
    names = batch.names or []
    positions: dict[str, list[int]] = {}
    for i in sorted(wanted):
        positions.setdefault(names[i], []).append(i)
    found = {}
    for item in source:
        if item.name in positions:
            with suppress(OSError, ValueError):  # the file may have been deleted since it was recognized
                picture = data_url(thumbnail(item.read(), 2 * SIDE, quality=60), "image/jpeg")
                found.update(dict.fromkeys(positions.pop(item.name), picture))
    return found
