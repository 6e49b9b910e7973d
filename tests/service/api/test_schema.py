"""schemathesis: requests made from the description of the API never make the service fail."""

from __future__ import annotations

import re

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

SKIPPED = {"/v1/events"}  # it never ends; see test_watching.py
# `positive_data_acceptance` expects that whatever fits the schema is accepted, but no schema can say how many
# numbers a sample of the model has, nor which samples and classes there are: most of it is refused by right.
# `ignored_auth` needs a service with a key, and has a test of its own below.
EXCLUDED = [positive_data_acceptance, ignored_auth]

few_examples = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_no_request_makes_the_service_fail(live, things):
    answers = httpx.post(f"{live}/v1/recognize", json={"vectors": things(5, 6).tolist()}, timeout=300).json()[
        "answers"
    ]
    ids = [answer["sample_id"] for answer in answers]
    httpx.post(
        f"{live}/v1/label", json={"sample_ids": ids[:3], "label": "five"}, timeout=300
    ).raise_for_status()
    tried = 0
    for found in schemathesis.openapi.from_url(f"{live}/v1/openapi.json").get_all_operations():
        operation = found.ok()
        if operation.path in SKIPPED:
            continue

        @few_examples
        @given(case=operation.as_strategy())
        def check(case):
            case.call_and_validate(excluded_checks=EXCLUDED, headers={"Host": "localhost"})

        check()
        tried += 1
    assert tried > 40


def test_every_operation_that_names_a_key_asks_for_it(listening, monkeypatch):
    monkeypatch.setattr("openworld.service.auth._WRONG_KEYS_AT_ONCE", 1e6)  # 429 is no answer to a wrong key
    tried = 0
    with listening(key="a secret of the service") as address:
        for found in schemathesis.openapi.from_url(f"{address}/v1/openapi.json").get_all_operations():
            operation = found.ok()
            if operation.path in SKIPPED or "security" not in operation.definition.raw:
                continue

            @settings(few_examples, max_examples=2)
            @given(case=operation.as_strategy())
            def check(case):
                headers = {"Host": "localhost", "Authorization": "Bearer a secret of the service"}
                case.call_and_validate(checks=[ignored_auth], headers=headers)

            check()
            tried += 1
    assert tried > 40


def test_other_methods_are_refused_with_those_that_are_allowed(client):
    """Also where the path of one route fits the pattern of another."""
    paths = client.get("/v1/openapi.json").json()["paths"]
    wrong = []
    for path, operations in paths.items():
        found = client.request("PUT", re.sub(r"{\w+}", "1", path))
        allowed = set(found.headers.get("allow", "").split(", "))
        if found.status_code != 405 or not {method.upper() for method in operations} <= allowed:
            wrong.append((path, found.status_code, allowed))
    assert wrong == []
    assert client.get("/v1/clusters/merge").status_code == 405
    assert client.delete("/v1/clusters/merge").status_code == 405


def test_every_route_says_that_it_may_answer_400(client):
    paths = client.get("/v1/openapi.json").json()["paths"]
    assert [
        path for path in paths for operation in paths[path].values() if "400" not in operation["responses"]
    ] == []
