"""A few examples of each class, stored in the model to show what it knows."""

from __future__ import annotations

from contextlib import suppress

from openworld.data.sources import Source

PER_CLASS = 4
MOST = 2000
SIDE = 96
_TEXT_BYTES = 400


def examples_of(source: Source) -> dict[str, list[bytes]]:
    """Return the first samples of each class: pictures as small JPEG files, texts in UTF-8."""
    found: dict[str, list[bytes]] = {}
    n_found = 0
    for item in source.items():
        if n_found >= MOST:
            break
        if item.label is None:
            continue
        some = found.setdefault(str(item.label), [])
        if len(some) < PER_CLASS:
            with suppress(OSError, ValueError):  # unreadable items were reported before
                some.append(_small(item.read(), source.kind))
                n_found += 1
    return {label: some for label, some in found.items() if some}


def _small(content: bytes, kind: str) -> bytes:
    if kind == "text":
        return content[:_TEXT_BYTES].decode(errors="ignore").encode()
    from openworld.features.decode import thumbnail

    return thumbnail(content, SIDE, quality=80)
