"""Every kind of service fault with every operation and method: it is refused, or it changes what the client gets, or
the request log says that it did not."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from itertools import product
from typing import Any

import httpx2
import pytest

from leyden import Sandbox
from leyden.service_faults.kinds import KINDS
from tests.support.deep import sampled

Json = dict[str, Any]
TEA = {"amount": "1000", "description": "tea"}
TIPS = {"minAmount": "1000", "maxAmount": "9000", "description": "tips", "identifier": "ana@localhost"}


def operations(sandbox: Sandbox) -> list[tuple[str, str]]:
    """Each operation with each method by which it is asked."""
    found = []
    for operation in sandbox.world.config.contract.operations.values():
        method = operation.method.upper()
        found += [(operation.operation_id, one) for one in ((method, "HEAD") if method == "GET" else (method,))]
    return found


def send(sandbox: Sandbox, operation_id: str, method: str, ids: Mapping[str, str]) -> tuple[Any, ...]:
    """A request that the operation accepts; what the client gets of it, without the mark of a fault."""
    operation = sandbox.world.config.contract.operation(operation_id)
    path = operation.path
    for name, value in ids.items():
        path = path.replace(f"{{{name}}}", value)
    if "static" in path or "lnurlp" in path:
        path = path.replace("{id}", ids["static"])
    path = path.replace("{id}", ids["charge"])
    body: Json | None = None
    if method == "POST":
        body = TIPS if "static" in path else TEA
    elif method == "PATCH":
        body = {"description": "more tips"}
    headers = {"Idempotency-Key": "order-1"} if method == "POST" else {}
    query = {"amount": "2000"} if operation_id == "requestInvoice" else {}
    try:
        response = sandbox.http.request(method, path, json=body, headers=headers, params=query, timeout=0.4)
    except httpx2.TransportError as lost:
        return (type(lost),)
    shown = {name: value for name, value in response.headers.items() if name != "leyden-fault"}
    return response.status_code, shown, response.content


def prepared(seed: int = 7) -> tuple[Sandbox, dict[str, str]]:
    sandbox = Sandbox(seed=seed)
    charge = sandbox.charges.create(**TEA)
    static = sandbox.ask("POST", "/v0/static-charges", TIPS)["data"]
    ids = {"charge": charge.id, "static": static["id"], "user": "ana", "paymentHash": "0" * 64}
    invoice = send(sandbox, "requestInvoice", "GET", ids)[2]
    ids["paymentHash"] = json.loads(invoice)["verify"].rpartition("/")[2]
    for path in ("/v0/charges", "/v0/static-charges"):
        body = {**TIPS, "identifier": "ben@localhost"} if "static" in path else TEA
        sandbox.http.post(path, json=body, headers={"Idempotency-Key": "order-1"})  # for `key_in_use`
    return sandbox, ids


def change(sandbox: Sandbox, ids: Mapping[str, str]) -> None:
    """Change every resource and every list."""
    for charge in [*sandbox.charges]:
        sandbox.wallet("ana").pay(charge)
    sandbox.run("5s")
    sandbox.charges.create(**TEA)
    sandbox.http.post("/v0/static-charges", json={**TIPS, "identifier": "eva@localhost"})
    sandbox.http.patch(f"/v0/static-charges/{ids['static']}", json={"description": "more tips"})


def possible(sandbox: Sandbox, kind: str) -> set[tuple[str, str]]:
    """The method and the path of each request whose response the kind can change."""
    creates = {("POST", "/v0/charges"), ("POST", "/v0/static-charges")}
    every = {
        (method, sandbox.world.config.contract.operation(operation_id).path)
        for operation_id, method in operations(sandbox)
    }
    if kind == "key_in_use":
        return creates
    if kind == "stale_read":
        return {one for one in every if one[0] == "GET"}
    of_body = kind in ("slow_body", "truncated_body", "unknown_fields")
    return {one for one in every if not (of_body and one[0] == "HEAD")}


with Sandbox(seed=1) as _first:
    EVERY = [(kind, *one) for kind, one in product(KINDS, operations(_first))]


@pytest.mark.parametrize(("kind", "operation_id", "method"), sampled(EVERY, 4))
def test_a_fault_is_refused_or_has_an_effect(kind: str, operation_id: str, method: str) -> None:
    plain, ids = prepared()
    faulty, _ = prepared()
    with plain, faulty:
        operation = faulty.world.config.contract.operation(operation_id)
        delay = {"delay": "30s"} if kind.startswith("slow") else {}
        if (method, operation.path) not in possible(faulty, kind):
            with pytest.raises(ValueError, match="it applies to"):
                faulty.service_faults.add(kind, operation=operation_id, method=method, **delay)
            return
        faulty.service_faults.add(kind, operation=operation_id, method=method, **delay)
        for sandbox in (plain, faulty) if kind == "stale_read" else ():
            send(sandbox, operation_id, method, ids)
            change(sandbox, ids)
            if operation_id != "requestInvoice":
                send(sandbox, "requestInvoice", "GET", ids)
        expected = send(plain, operation_id, method, ids)
        assert send(faulty, operation_id, method, ids) != expected
        assert [row["hits"] for row in faulty.service_faults] == [1]


@pytest.mark.parametrize("kind", ["slow_first_byte", "slow_body", "past_date", "future_date"])
@pytest.mark.parametrize("delay", [0, "0s", 0.0001])
def test_a_delay_that_changes_nothing_is_refused(sandbox: Sandbox, kind: str, delay: Any) -> None:
    with pytest.raises(ValueError, match=r"is too short for .*: give 1 m?s to 366 days|shorter than a millisecond"):
        sandbox.service_faults.add(kind, delay=delay)


def test_a_date_is_moved_by_a_second_at_least(sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match="is too short for past_date: give 1 s to 366 days"):
        sandbox.service_faults.add("past_date", delay="999ms")
    sandbox.service_faults.add("past_date", delay="1s")


def test_a_path_with_a_query_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match="a path has no query"):
        sandbox.service_faults.add("error", path="/v0/charges?limit=10")


@pytest.mark.parametrize(
    ("kind", "body", "applied"),
    [
        ("truncated_body", b"", False),
        ("truncated_body", b"a", True),
        ("slow_body", b"", False),
        ("slow_body", b"a", True),
        ("unknown_fields", b"", False),
        ("unknown_fields", b"[1]", False),
        ("unknown_fields", b"text", False),
        ("unknown_fields", b"{}", True),
        ("wrong_content_type", b"{}", False),
        ("slow_first_byte", b"", True),
        ("past_date", b"", True),
    ],
)
def test_the_log_says_when_a_response_had_nothing_to_change(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, kind: str, body: bytes, applied: bool
) -> None:
    async def other(scope: Any, receive: Any, send: Any) -> None:
        head = [(b"content-type", b"text/html"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})

    delay = {"delay": "1s"} if kind.startswith("slow") else {}
    fault = sandbox.service_faults.add(kind, **delay)
    with monkeypatch.context() as patch, contextlib.suppress(httpx2.TransportError):
        patch.setattr(sandbox.world.service_faults, "app", other)
        response = sandbox.http.get("/v0/charges")
        assert (response.status_code, response.content == body) == (200, kind != "unknown_fields" or not applied)
    [row, *_] = sandbox.ask("GET", "/sandbox/v1/requests?operation=listCharges")["data"]
    assert row["serviceFault"] == {"id": fault["id"], "kind": kind, "applied": applied}
