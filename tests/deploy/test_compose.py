"""The compose file: valid by the schema of the Compose Specification, and true to what openworld takes.

`compose-spec.json` is that schema, unchanged (github.com/compose-spec/compose-spec, Apache-2.0), as
check-jsonschema 0.39.0 ships it.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from openworld.store import Database

GIVEN = {
    "OPENWORLD_NAME": "world.example.org",
    "POSTGRES_PASSWORD": "p" * 32,
    "OPENWORLD_SESSION_SECRET": "s" * 32,
}


def fill_in(node: Any, given: Mapping[str, str]) -> Any:
    """Put values in place of ${NAME}, ${NAME:-default} and ${NAME:?what to do}, as Compose does."""

    def value(found: re.Match[str]) -> str:
        name, operator, rest = found["name"], found["operator"], found["rest"]
        if operator == ":?" and not given.get(name):
            raise KeyError(f"{name}: {rest}")
        return given.get(name) or (rest if operator == ":-" else "")

    if isinstance(node, dict):
        return {name: fill_in(below, given) for name, below in node.items()}
    if isinstance(node, list):
        return [fill_in(below, given) for below in node]
    if not isinstance(node, str):
        return node
    return re.sub(r"\$\{(?P<name>\w+)(?:(?P<operator>:[-?])(?P<rest>[^}]*))?\}", value, node)


def environment(service: dict[str, Any]) -> dict[str, str]:
    """Return the variables of a container; one without a value is not set."""
    return {name: value for name, value in service["environment"].items() if value is not None}


def seconds(duration: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([sm])", duration).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60}[unit]


@pytest.fixture
def text(folder: Path) -> str:
    return (folder / "compose.yaml").read_text(encoding="utf-8")


@pytest.fixture
def compose(text: str) -> Any:
    return fill_in(yaml.safe_load(text), GIVEN)


def test_the_schema_of_compose_accepts_it(compose: Any) -> None:
    schema = json.loads(Path(__file__).with_name("compose-spec.json").read_text(encoding="utf-8"))
    validator = jsonschema_rs.validator_for(schema)
    assert [error.message for error in validator.iter_errors(compose)] == []

    misspelt = copy.deepcopy(compose)
    misspelt["services"]["server"]["enviroment"] = {}
    assert not validator.is_valid(misspelt)


def test_what_services_refer_to_is_there(compose: Any, folder: Path) -> None:
    services = compose["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
        assert set(service["networks"]) <= set(compose["networks"])
        for volume in service.get("volumes", ()):
            source, target = volume.split(":")[:2]
            assert target.startswith("/")
            assert source in compose["volumes"] or source == "./models" or (folder / source).is_file()
        if "build" in service:
            context = folder / service["build"]["context"]
            assert (context / service["build"]["dockerfile"]).samefile(folder / "Dockerfile")


@pytest.mark.parametrize("missing", GIVEN)
def test_nothing_starts_without_a_secret_or_a_name(text: str, missing: str) -> None:
    for given in ({**GIVEN, missing: ""}, {name: GIVEN[name] for name in GIVEN if name != missing}):
        with pytest.raises(KeyError, match=missing):
            fill_in(yaml.safe_load(text), given)


def test_the_example_of_an_environment_has_all_that_can_be_given(
    text: str, compose: Any, folder: Path
) -> None:
    lines = (folder / "example.env").read_text(encoding="utf-8").splitlines()
    example = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert set(example) == set(re.findall(r"\$\{(\w+)", text))
    assert {name for name in GIVEN if example[name]} == set()  # no secret that everyone has
    assert fill_in(yaml.safe_load(text), {**example, **GIVEN}) == compose  # the documented defaults are true


def test_settings_of_the_servers(compose: Any, settings: Any) -> None:
    given = environment(compose["services"]["server"])
    found = settings(given)
    assert found.database == "postgresql+psycopg://openworld@postgres/openworld"
    assert not found.is_loopback  # so it refuses to start while there is no key
    assert found.key is None
    assert found.secure_cookie
    assert found.allowed_hosts == ("world.example.org",)
    assert found.session_secret.get_secret_value() == GIVEN["OPENWORLD_SESSION_SECRET"]
    assert found.model is None
    assert settings({**given, "OPENWORLD_MODEL": "/models/animals.ow"}).model == Path("/models/animals.ow")


def test_all_use_the_same_database(compose: Any) -> None:
    postgres, server, key = (environment(compose["services"][name]) for name in ("postgres", "server", "key"))
    assert server["OPENWORLD_DATABASE"] == key["OPENWORLD_DATABASE"]
    assert (
        f"postgresql+psycopg://{postgres['POSTGRES_USER']}@postgres/{postgres['POSTGRES_DB']}"
        == server["OPENWORLD_DATABASE"]
    )
    assert server["PGPASSWORD"] == key["PGPASSWORD"] == postgres["POSTGRES_PASSWORD"]


def test_commands_are_those_of_openworld(compose: Any, parse: Any) -> None:
    server, key = compose["services"]["server"], compose["services"]["key"]
    assert parse(["openworld", *server["command"]])["source"] is None
    assert parse([*key["entrypoint"], *key["command"]]) == {"as_json": False, "database": None}
    assert parse([*key["entrypoint"], "create", "ann", "--role", "admin"])["name"] == "ann"


def test_only_the_proxy_is_reached_from_outside(compose: Any) -> None:
    services = compose["services"]
    assert {name for name, service in services.items() if "ports" in service} == {"proxy"}
    assert {name for name, service in services.items() if "outside" in service["networks"]} == {"proxy"}
    assert compose["networks"]["inside"]["internal"]


def test_requests_under_way_can_finish(compose: Any, seconds_to_finish: int) -> None:
    assert seconds(compose["services"]["server"]["stop_grace_period"]) > seconds_to_finish


def test_postgres_has_connections_for_all_servers(compose: Any, tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'world.db'}")
    pool: Any = database.engine.pool
    of_a_server = pool.size() + pool._max_overflow + 1  # and the one that listens
    database.close()
    [most] = [
        int(word.removeprefix("max_connections="))
        for word in compose["services"]["postgres"]["command"]
        if word.startswith("max_connections=")
    ]
    assert most >= int(compose["services"]["server"]["deploy"]["replicas"]) * of_a_server + 10
