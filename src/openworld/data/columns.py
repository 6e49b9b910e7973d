"""Roles of the columns of a table: label, features, text, id, group."""

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
ENCODE = "If it is a category, encode it as numbers first, for example with pandas.get_dummies."

# Written by pandas for the index of a data frame, in .csv and in .parquet files.
_INDEX = re.compile(r"(unnamed: \d+|__index_level_\d+__|)", re.IGNORECASE)
_ID = re.compile(r"(?i:id|index|uuid|guid|row ?id|row[ _-]number|.*[ _-](uu|gu)?id)|.*[a-z]I[dD]")
_COLUMNS_SHOWN = 12


@dataclass(frozen=True)
class Columns:
    """The user's choice of columns; None means that the column names decide.

    Attributes
    ----------
    label : str or None
        By default `label`, which may be missing.
    features : tuple of str or None
        By default every column that has no other role.
    text : str or None
        By default `text` or `sentence`.
    id : str or None
        A column that identifies the samples and is returned with the answers.
    group : str or None
        A column with the same value in samples that are near copies of each other. In a folder of pictures,
        "folder": the pictures of one sub-folder of a class are a group.
    missing : {"error", "drop", "mean"}
        What to do about missing feature values: raise an error, drop the sample, or use the mean of the
        column.
    means : tuple of float or None
        Means to use for missing values; by default those of the file.
    of_model : bool
        Whether `features` are the columns that a model was fitted to.
    text_wins : bool
        Whether to use the texts of a table that has texts and numbers. Otherwise such a table is an error
        unless `text` or `features` says which to use.
    one_class : bool
        Whether all samples are of one class, so that the first sub-folder of a picture is not its class.
    """

    label: str | None = None
    features: tuple[str, ...] | None = None
    text: str | None = None
    id: str | None = None
    group: str | None = None
    missing: Missing = "error"
    means: tuple[float, ...] | None = None
    of_model: bool = False
    text_wins: bool = False
    one_class: bool = False

    def label_of(self, place: object, names: Sequence[str]) -> str | None:
        """Return the label column, or None. A column that the user named must exist."""
        if self.label is not None:
            require(place, names, [self.label], "--label-column")
        return self.label or first_of(("label",), names)

    def id_of(self, place: object, names: Sequence[str]) -> str | None:
        """Return the id column, or None if the user named none."""
        if self.id is not None:
            require(place, names, [self.id], "--id-column")
        return self.id

    def group_of(self, place: object, names: Sequence[str]) -> str | None:
        """Return the group column, or None if the user named none."""
        if self.group is not None:
            require(place, names, [self.group], "--group-column")
        return self.group

    def roles(self, place: object, names: Sequence[str]) -> Roles:
        """Assign a role to each column of a table of numbers."""
        label, id = self.label_of(place, names), self.id_of(place, names)
        group = self.group_of(place, names)
        others = [name for name in names if name not in (label, id, group)]
        if self.features is not None:
            self._check_features(place, names)
            ignored = [name for name in others if name not in set(self.features)]
            return Roles(list(self.features), label, id, group, ignored)
        features = [name for name in others if not looks_like_id(name)]
        if not features and others:
            features, others = others, []  # if all columns look like ids, they are features
        if not features:
            raise DataError(f"{place} has no feature columns. {listed(names)}")
        return Roles(features, label, id, group, [name for name in others if name not in features])

    def _check_features(self, place: object, names: Sequence[str]) -> None:
        """Raise DataError if a named feature does not exist, or is the group."""
        require(place, names, self.features or (), "" if self.of_model else "--feature-columns")
        if self.group is not None and self.group in (self.features or ()):
            whose = "of the model" if self.of_model else "in --feature-columns"
            raise DataError(
                f'{place}: column "{self.group}" is a feature {whose}, so it cannot be the group. '
                "Use another --group-column."
            )


@dataclass(frozen=True)
class Roles:
    """The roles of the columns of a table of numbers."""

    features: list[str]
    label: str | None
    id: str | None
    group: str | None
    ignored: list[str]


def looks_like_id(name: str) -> bool:
    """Return whether a column's name suggests a row number or an id, which are useless as features."""
    return bool(_INDEX.fullmatch(name.strip()) or _ID.fullmatch(name.strip()))


def first_of(wanted: Iterable[str], names: Iterable[str]) -> str | None:
    """Return the first wanted column that exists."""
    there = set(names)
    return next((name for name in wanted if name in there), None)


def require(place: object, names: Sequence[str], wanted: Iterable[str], option: str) -> None:
    """Raise DataError if a column does not exist; the error lists the existing columns.

    Without an option, it is the model that needs the columns.
    """
    wanted = list(wanted)
    missing = [name for name in wanted if name not in set(names)]
    if not missing:
        return
    shown = _shown([f'"{name}"' for name in missing])
    near = difflib.get_close_matches(missing[0], [name for name in names if name not in wanted], 1)
    hint = f" Did you mean {option} {near[0]}?" if near else ""
    if not option:
        renamed = f' Is "{near[0]}" meant? Then rename it.' if near else ""
        hint = f" The model was fitted to columns of these names.{renamed}"
    raise DataError(
        f"{place} has no column{'s' if len(missing) > 1 else ''} named {shown}. {listed(names)}{hint}"
    )


def listed(names: Sequence[str]) -> str:
    """Return a sentence that lists the columns of a table."""
    if not names:
        return "It is empty."
    return f"Its columns are: {_shown(names)}."


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _COLUMNS_SHOWN:,} more" if len(names) > _COLUMNS_SHOWN else ""
    return ", ".join(map(str, names[:_COLUMNS_SHOWN])) + more


def ignored_note(place: object, ignored: Sequence[str]) -> list[str]:
    """Return a note about the columns that are not used."""
    if not ignored:
        return []
    ids = [name for name in ignored if looks_like_id(name)]
    hint = f" Use --id-column {ids[0] or '...'} to have it in the answers." if ids else ""
    more = f" and {len(ignored) - _COLUMNS_SHOWN:,} more" if len(ignored) > _COLUMNS_SHOWN else ""
    shown = ", ".join(f'"{name}"' for name in ignored[:_COLUMNS_SHOWN])
    return [f"{place}: ignored column{'s' if len(ignored) > 1 else ''} {shown}{more}.{hint}"]
