"""Numbers that the service cannot keep exactly are refused with their place, wherever a document allows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from leyden import Sandbox
from leyden.server.http.number_range import DOUBLE, GREATEST, LEAST, WHOLE
from tests.server.contract.test_widened_spec import DOCUMENT, edited, opened, parameter

FIELDS: dict[str, Any] = {
    "any": {"description": "Any value."},
    "count": {"type": ["integer", "null"]},
    "weight": {"type": ["number", "null"]},
    "items": {"type": ["array", "null"], "items": {"type": "object", "properties": {"n~/": {"type": "integer"}}}},
    "state": {"type": ["string", "null"]},
    "hinted": {"type": ["string", "null"], "x-expect": "a text"},
}
RESOURCES = {
    "/v0/charges": ("ChargeRequest", "Charge"),
    "/v0/static-charges": ("StaticChargeRequest", "StaticCharge", "StaticChargeChanges"),
}
BODIES = {
    "/v0/charges": '"amount": "1000", "description": "tea"',
    "/v0/static-charges": '"minAmount": "1000", "maxAmount": "9000", "description": "tips"',
}
# What is sent as a field, and the pointers below it with their details
GREAT: list[tuple[str, str, dict[str, str]]] = [
    ("any", "18446744073709551616", {"": WHOLE}),
    ("any", "-9223372036854775809", {"": WHOLE}),
    ("any", "1e400", {"": DOUBLE}),
    ("any", "-1e400", {"": DOUBLE}),
    ("any", '{"a": [{"b/c": 1e400, "d": 1}, -1E999, 9999999999999999999999]}',
     {"/a/0/b~1c": DOUBLE, "/a/1": DOUBLE, "/a/2": WHOLE}),
    ("count", "18446744073709551616", {"": WHOLE}),
    ("count", "1e400", {"": DOUBLE}),
    ("weight", "1e400", {"": DOUBLE}),
    ("weight", "-18446744073709551616", {"": WHOLE}),
    ("items", '[{"n~/": 1}, {"n~/": 18446744073709551616}]', {"/1/n~0~1": WHOLE}),
    ("items", '[{"n~/": 1e400}]', {"/0/n~0~1": DOUBLE}),
    ("state", "1e400", {"": DOUBLE}),
    ("hinted", "1e400", {"": "expected a text; received a number that is out of range"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    document = edited("x-limits", put=DOCUMENT["x-limits"])
    for names in RESOURCES.values():
        for name in names:
            document["components"]["schemas"][name]["properties"].update(FIELDS)
    with opened(document) as one:
        yield one


def sent(sandbox: Sandbox, method: str, target: str, body: str, **headers: str) -> tuple[int, Any]:
    known = {"apikey": sandbox.world.config.api_key, "content-type": "application/json"}
    answer = sandbox.request(method, target, body.encode(), known | headers)
    return answer.status, json.loads(answer.body)


def check_refused(answer: tuple[int, Any], name: str, errors: dict[str, str]) -> None:
    status, problem = answer
    assert (status, {one["pointer"]: one["detail"] for one in problem["errors"]}) == (
        400, {f"/{name}{pointer}": detail for pointer, detail in errors.items()}
    )  # fmt: skip


@pytest.mark.parametrize("path", RESOURCES)
@pytest.mark.parametrize(("name", "value", "errors"), GREAT)
def test_a_number_that_the_service_cannot_keep(
    sandbox: Sandbox, path: str, name: str, value: str, errors: dict[str, str]
) -> None:
    body = f'{{{BODIES[path]}, "{name}": {value}}}'
    rows = len(sandbox.charges) + len(sandbox.static_charges)
    check_refused(sent(sandbox, "POST", path, body), name, errors)
    key = {"idempotency-key": "key"}
    check_refused(sent(sandbox, "POST", path, body, **key), name, errors)
    check_refused(sent(sandbox, "POST", path, body, **key), name, errors)
    assert len(sandbox.charges) + len(sandbox.static_charges) == rows
    if path == "/v0/static-charges":
        created = sent(sandbox, "POST", path, f"{{{BODIES[path]}}}")[1]["data"]
        target = f"{path}/{created['id']}"
        check_refused(sent(sandbox, "PATCH", target, f'{{"{name}": {value}}}'), name, errors)


@pytest.mark.parametrize("number", [GREATEST, LEAST, 1.7976931348623157e308, -5e-324])
def test_the_greatest_numbers_are_kept(sandbox: Sandbox, number: float) -> None:
    body = f'{{{BODIES["/v0/charges"]}, "any": [{number}], "callbackUrl": "http://inbox.localhost/x"}}'
    status, answer = sent(sandbox, "POST", "/v0/charges", body)
    assert (status, answer["data"]["any"]) == (200, [number])
    for one in (sandbox.fork(), Sandbox.from_snapshot(sandbox.snapshot())):
        with one:
            shown = one.ask("GET", f"/v0/charges/{answer['data']['id']}")["data"]
            assert (shown["any"], type(shown["any"][0])) == ([number], type(number))


def test_a_great_number_in_a_field_that_is_ignored_has_no_effect(sandbox: Sandbox) -> None:
    body = f'{{{BODIES["/v0/charges"]}, "unknown": [1e400, 18446744073709551616]}}'
    assert sent(sandbox, "POST", "/v0/charges", body)[0] == 200


def test_a_whole_number_with_an_exponent_is_not_to_be_written_in_more_digits_than_are_kept(sandbox: Sandbox) -> None:
    status, problem = sent(sandbox, "POST", "/v0/charges", f'{{{BODIES["/v0/charges"]}, "count": 1e30}}')
    assert (status, problem["errors"]) == (409, [{"pointer": "/count", "detail": WHOLE}])


def test_a_parameter_has_the_same_bounds() -> None:
    document = parameter("Limit", type="integer", minimum=1, default=3)
    for name in ("ChargeListAnswer", "StaticChargeListAnswer"):
        del document["components"]["schemas"][name]["properties"]["data"]["maxItems"]
    with opened(document) as sandbox:
        for limit in (10**18, 2**63 - 1, GREATEST):
            assert sent(sandbox, "GET", f"/v0/charges?limit={limit}", "")[0] == 200
        for limit in (GREATEST + 1, 10**700, LEAST - 1):
            status, problem = sent(sandbox, "GET", f"/v0/charges?limit={limit}", "")
            assert (status, problem["errors"]) == (400, [{"pointer": "query.limit", "detail": WHOLE}])


def test_the_control_plane_has_the_same_bounds(sandbox: Sandbox) -> None:
    status, problem = sent(sandbox, "POST", "/sandbox/v1/clock/advance", '{"by": 1e400}')
    assert (status, "out of range" in problem["detail"]) == (400, True)


@pytest.mark.parametrize("bound", [GREATEST, GREATEST - 1, LEAST])
def test_a_bound_of_64_bits_in_the_document_is_served(bound: int) -> None:
    field = {"type": ["integer", "null"], "maximum": bound}
    document = edited("components", "schemas", "ChargeRequest", "properties", "count", put=field)
    document["components"]["schemas"]["Charge"]["properties"]["count"] = field
    with opened(document) as sandbox:
        assert sent(sandbox, "POST", "/v0/charges", f'{{{BODIES["/v0/charges"]}, "count": {bound}}}')[0] == 200
