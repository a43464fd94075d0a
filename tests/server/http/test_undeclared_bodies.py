"""Bodies where the document declares none: the control plane refuses their fields, the charge service names them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from leyden import Sandbox
from leyden.server.contract.types import Operation
from leyden.world.config import packaged_contract
from leyden.world.loopback import LoopbackResponse
from tests.support.hosted import Hosted, in_server

FIELDS = {"reason": "test", "a/b": 1}
EMPTY = (b"{}", b" { }\n", b"  ")
QUERIES = {"requestInvoice": "?amount=1000", "search": "?text=tea"}  # what these operations require
IDS = {"name": "ana", "user": "ana", "channel": "1x1x1"}
UNKNOWN_ID = "8f14e45f-ceea-467f-a8b5-91f3d5a1c0de"


def without_body(document: str) -> list[Operation]:
    """The operations of a packaged document that declare no body."""
    found = [one for one in packaged_contract(document).operations.values() if one.body is None]
    assert found
    return found


def path_of(operation: Operation) -> str:
    path = re.sub(r"\{(\w+)\}", lambda match: IDS.get(match[1], UNKNOWN_ID), operation.path)
    return path + QUERIES.get(operation.operation_id, "")


def send(sandbox: Sandbox, operation: Operation, body: Any) -> LoopbackResponse:
    headers = {"apikey": sandbox.api_key, "content-type": "application/json"}
    return sandbox.request(operation.method.upper(), path_of(operation), body, headers)


def ignored(answer: LoopbackResponse) -> str | None:
    value = dict(answer.headers).get(b"leyden-ignored")
    return None if value is None else value.decode("ascii")


def test_every_operation_of_the_control_plane_without_a_body_refuses_a_body_with_fields(sandbox: Sandbox) -> None:
    for operation in without_body("sandbox"):
        before = [one.kind for one in sandbox.world.journal.entries() if one.kind != "request"]
        answer = send(sandbox, operation, b'{"reason": "test", "a/b": 1}')
        assert (answer.status, ignored(answer)) == (400, None), operation.operation_id
        problem = json.loads(answer.body)
        assert [one["pointer"] for one in problem["errors"]] == ["/reason", "/a~1b"], operation.operation_id
        assert problem["errors"][0]["detail"] == (
            "reason is not a field of this operation, which has no body: leave the body out"
        )
        assert [one.kind for one in sandbox.world.journal.entries() if one.kind != "request"] == before


def test_an_empty_body_and_an_empty_object_are_accepted(sandbox: Sandbox) -> None:
    for operation in without_body("sandbox"):
        status = send(sandbox, operation, None).status
        assert status in (200, 404, 409), operation.operation_id
        assert {send(sandbox, operation, body).status for body in EMPTY} == {status}, operation.operation_id


@pytest.mark.parametrize("body", [b"reason=test", b"[]", b"null", b'"text"', b"{", b"\xff", b"[" * 100])
def test_a_body_that_is_no_object_is_refused_with_the_mend(sandbox: Sandbox, body: bytes) -> None:
    secret = sandbox.world.webhook_secret
    answer = sandbox.request("POST", "/sandbox/v1/webhook-secret/rotate", body, {"apikey": sandbox.api_key})
    assert answer.status == 400
    [error] = json.loads(answer.body)["errors"]
    assert error == {"pointer": "", "detail": "this operation has no body: leave it out, or send {}"}
    assert sandbox.world.webhook_secret == secret


def test_a_field_that_is_a_parameter_of_the_query_is_sent_there(sandbox: Sandbox) -> None:
    answer = sandbox.request("GET", "/sandbox/v1/deliveries", b'{"status": "delivered"}', {"apikey": sandbox.api_key})
    [error] = json.loads(answer.body)["errors"]
    assert error["detail"] == "status is not a field of this operation, which has no body: give it in the query"


def test_at_most_twenty_fields_are_named(sandbox: Sandbox) -> None:
    body = {f"field{number}{'x' * 500}": 1 for number in range(50)}
    answer = sandbox.request("DELETE", "/sandbox/v1/faults", body)
    assert (answer.status, len(json.loads(answer.body)["errors"])) == (400, 20)
    assert len(answer.body) < 20_000


def test_every_operation_on_the_sandboxes_of_a_server_does_the_same() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create()
        for operation in without_body("server"):
            method, path = operation.method.upper(), path_of(operation)
            refused = await server.ask(method, path, FIELDS)
            pointers = [one["pointer"] for one in refused.body["errors"]]
            assert (refused.status, pointers) == (400, ["/reason", "/a~1b"]), operation.operation_id
            plain = await server.ask(method, path)
            assert plain.status in (200, 404)
            assert (await server.ask(method, path, {})).status == plain.status
        assert (await server.ask("DELETE", f"/sandbox/v1/sandboxes/{box['id']}", {"force": True})).status == 400
        assert (await server.ask("DELETE", f"/sandbox/v1/sandboxes/{box['id']}", {})).status == 200

    in_server(scenario)


def test_the_charge_service_ignores_such_fields_and_names_them(sandbox: Sandbox) -> None:
    for operation in without_body("charges"):
        plain = send(sandbox, operation, None)
        answer = send(sandbox, operation, b'{"reason": "test", "a/b": 1}')
        assert (answer.status, ignored(plain)) == (plain.status, None), operation.operation_id
        assert ignored(answer) == '"reason", "a/b"', operation.operation_id
        for body in (*EMPTY, b"reason=test", b"[]", b"{"):
            answer = send(sandbox, operation, body)
            assert (answer.status, ignored(answer)) == (plain.status, None), operation.operation_id


def test_they_are_named_beside_ignored_parameters_and_in_the_journal(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")
    answer = sandbox.request("GET", f"/lnurlp/{static.id}?tag=x", b'{"reason": 1}', {})
    assert ignored(answer) == '"tag", "reason"'
    assert b'"status":"ERROR"' not in answer.body
    entry = list(sandbox.world.journal.entries(kind="request"))[-1]
    assert entry.facts["ignored"] == [{"name": "tag"}, {"name": "reason"}]
    assert "reason" in " ".join(sandbox.ask("GET", "/sandbox/v1")["ignoredFields"])


def test_with_the_strict_overlay_the_charge_service_refuses_them_and_a_wallet_is_answered() -> None:
    with Sandbox(overlays=["strict"]) as strict:
        for operation in without_body("charges"):
            answer = send(strict, operation, b'{"reason": "test"}')
            if operation.errors_as == "lnurl":
                assert (answer.status, ignored(answer)) == (200, '"reason"')
            else:
                assert (answer.status, ignored(answer)) == (400, None), operation.operation_id
                assert json.loads(answer.body)["errors"][0]["pointer"] == "/reason"
            assert send(strict, operation, b"{}").status in (200, 404)
