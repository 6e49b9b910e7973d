"""The columns of a table: which holds the label, the features, the text, the ids."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from openworld.data.errors import DataError

TEXT_COLUMNS = ("text", "sentence")
PATH_COLUMNS = ("path", "file", "filename")
Missing = Literal["error", "drop", "mean"]

# Written by pandas for the index of a data frame, in .csv and in .parquet files.
_INDEX = re.compile(r"(unnamed: \d+|__index_level_\d+__|)", re.IGNORECASE)
_ID = re.compile(r"(?i:id|index|uuid|guid|row ?id|row[ _-]number|.*[ _-](uu|gu)?id)|.*[a-z]I[dD]")
_COLUMNS_SHOWN = 12


@dataclass(frozen=True)
class Columns:
    """What a user says about the columns of a table; None leaves it to the names of the columns.

    Attributes
    ----------
    label : str or None
        By default `label`, which may be missing.
    features : tuple of str or None
        By default every column that has no other role.
    text : str or None
        By default `text` or `sentence`.
    id : str or None
        A column that identifies the samples and comes back with the answers.
    missing : {"error", "drop", "mean"}
        What to do about a feature without a value: refuse the file, leave out the sample, or take the mean
        of the column.
    means : tuple of float or None
        The means to take for missing values; by default those of the file.
    of_model : bool
        Whether `features` are those that a model was fitted to.
    text_wins : bool
        Whether a table with texts and numbers holds texts. Without it such a table is refused unless `text`
        or `features` says which to use.
    """

    label: str | None = None
    features: tuple[str, ...] | None = None
    text: str | None = None
    id: str | None = None
    missing: Missing = "error"
    means: tuple[float, ...] | None = None
    of_model: bool = False
    text_wins: bool = False

    def label_of(self, place: object, names: Sequence[str]) -> str | None:
        """Return the column with the labels, if there is one; one that was asked for must be there."""
        if self.label is not None:
            require(place, names, [self.label], "--label-column")
        return self.label or first_of(("label",), names)

    def id_of(self, place: object, names: Sequence[str]) -> str | None:
        """Return the column with the ids, if one was asked for."""
        if self.id is not None:
            require(place, names, [self.id], "--id-column")
        return self.id

    def roles(self, place: object, names: Sequence[str]) -> Roles:
        """Decide what each column of a table of numbers is for."""
        label, id = self.label_of(place, names), self.id_of(place, names)
        others = [name for name in names if name not in (label, id)]
        if self.features is not None:
            option = "" if self.of_model else "--feature-columns"
            require(place, names, self.features, option)
            wanted = set(self.features)
            return Roles(list(self.features), label, id, [name for name in others if name not in wanted])
        features = [name for name in others if not looks_like_id(name)]
        if not features and others:
            features, others = others, []  # a table of nothing but such columns means what it says
        if not features:
            raise DataError(f"{place}: there are no feature columns in it. {listed(names)}")
        return Roles(features, label, id, [name for name in others if name not in features])


@dataclass(frozen=True)
class Roles:
    """What the columns of a table of numbers are for."""

    features: list[str]
    label: str | None
    id: str | None
    ignored: list[str]


def looks_like_id(name: str) -> bool:
    """Tell by its name whether a column is a row number or an id, from which nothing can be learned."""
    return bool(_INDEX.fullmatch(name.strip()) or _ID.fullmatch(name.strip()))


def first_of(wanted: Iterable[str], names: Iterable[str]) -> str | None:
    """Return the first wanted column that is there."""
    there = set(names)
    return next((name for name in wanted if name in there), None)


def require(place: object, names: Sequence[str], wanted: Iterable[str], option: str) -> None:
    """Raise DataError if a column is not there, with the columns that are.

    Without an option it is a model that wants the columns.
    """
    missing = [name for name in wanted if name not in set(names)]
    if not missing:
        return
    shown = ", ".join(f'"{name}"' for name in missing[:_COLUMNS_SHOWN])
    near = difflib.get_close_matches(missing[0], names, 1)
    hint = f" Did you mean {option} {near[0]}?" if near else ""
    if not option:
        renamed = f' Is "{near[0]}" meant? Then rename it.' if near else ""
        hint = f" The model was fitted to columns of these names.{renamed}"
    raise DataError(
        f"{place} has no column{'s' if len(missing) > 1 else ''} named {shown}. {listed(names)}{hint}"
    )


def listed(names: Sequence[str]) -> str:
    """Say which columns a table has."""
    if not names:
        return "It has no columns."
    more = f" and {len(names) - _COLUMNS_SHOWN:,} more" if len(names) > _COLUMNS_SHOWN else ""
    return f"Its columns are: {', '.join(map(str, names[:_COLUMNS_SHOWN]))}{more}."


def ignored_note(place: object, ignored: Sequence[str]) -> list[str]:
    """Say which columns are not used, and how to use them."""
    if not ignored:
        return []
    ids = [name for name in ignored if looks_like_id(name)]
    hint = f" Use --id-column {ids[0] or '...'} to have it in the answers." if ids else ""
    more = f" and {len(ignored) - _COLUMNS_SHOWN:,} more" if len(ignored) > _COLUMNS_SHOWN else ""
    shown = ", ".join(f'"{name}"' for name in ignored[:_COLUMNS_SHOWN])
    return [f"{place}: ignored column{'s' if len(ignored) > 1 else ''} {shown}{more}.{hint}"]
