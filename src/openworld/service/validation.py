"""Checks of names and texts that come from outside."""

from __future__ import annotations

from openworld.service.results import Refused

LONGEST_NAME = 200


def check_name(value: str, what: str = "A label") -> str:
    """Return a name without spaces around it, or say why it cannot be one."""
    if not value.strip():
        raise Refused(f"{what} cannot be empty.")
    name = value.strip()
    if len(name) > LONGEST_NAME:
        raise Refused(f"{what} can have {LONGEST_NAME} characters at most; this one has {len(name)}.")
    if not name.isprintable():
        raise Refused(f"{what} cannot have line breaks or control characters in it.")
    return name


def check_text(value: str, what: str) -> None:
    """Refuse text that cannot be stored."""
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Refused(f"{what} holds characters that are no text.")
