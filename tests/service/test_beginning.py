"""The model a world begins with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import openworld.model_file.documents as documents
from openworld.service.results import Refused
from openworld.service.world import World


def test_the_same_model_may_be_named_again_after_an_upgrade(
    url: str, models: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    World.open(url, models("nno")).close()
    World.open(url, models("nno")).close()
    monkeypatch.setattr(documents, "__version__", "99.0")
    World.open(url, models("nno")).close()
    with pytest.raises(Refused, match="another model"):
        World.open(url, models("0.1"))
