"""The pages of the classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from openworld.service.app import create_app
from openworld.service.settings import ServiceSettings
from openworld.service.world import World


def test_the_starting_classes_show_the_examples_that_the_model_keeps(models: Any, tmp_path: Path) -> None:
    model = models("nno")
    first, second, *_ = model.classes_.tolist()
    model.examples_ = {first: [b"\xff\xd8picture"], second: [b"<a text>"]}
    with World.open(f"sqlite:///{tmp_path / 'w.db'}", model) as world:
        app = create_app(world, ServiceSettings(clustering=False, log_level="error"))
        with TestClient(app, base_url="http://127.0.0.1") as client:
            page = client.get("/classes").text
            address = f"/classes/example?label={first}&amp;n=0"
            assert address in page
            assert "&lt;a text&gt;" in page
            picture = client.get(address.replace("&amp;", "&"))
            assert (picture.content, picture.headers["content-type"]) == (b"\xff\xd8picture", "image/jpeg")
            assert client.get(f"/classes/example?label={second}&n=0").status_code == 404
            assert address in client.get(f"/classes/one?label={first}").text
