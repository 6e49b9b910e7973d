"""Hatch metadata hook: the README, without links that only work in a checkout, describes the package."""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


class PackageReadme(MetadataHookInterface):
    """Sets the field `readme`, which pyproject.toml lists as dynamic."""

    def update(self, metadata: dict[str, object]) -> None:
        """Replace relative links by their text, and drop relative pictures."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = re.sub(r"!\[[^\]]*\]\((?!https://)[^)]*\)\n*", "", text)
        text = re.sub(r"\[([^\]]+)\]\((?!https://)[^)]*\)", r"\1", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
