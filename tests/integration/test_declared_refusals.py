"""A disk that refuses: each operation that writes answers 507 and declares it, and each other one answers as usual."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.server.contract.types import Operation
from leyden.world.config import packaged_contract
from leyden.world.loopback import LoopbackResponse
from tests.integration.test_disk_faults import full_disk

OPERATIONS: dict[str, Operation] = {
    **packaged_contract("charges").operations,
    **packaged_contract("sandbox").operations,
}
REFUSED = 507
STREAM = "getEvents"  # its response does not end
# The bodies and the queries of the requests that need one: what they say is possible, so that it is tried.
BODIES: dict[str, Any] = {
    "createCharge": {"amount": "1000", "description": "tea"},
    "createStaticCharge": {"minAmount": "1000", "maxAmount": "9000", "description": "tips"},
    "updateStaticCharge": {"description": "other tips"},
    "createSnapshot": {"name": "x"},
    "restoreSandbox": {"snapshot": "snapshot-1"},
    "diffSandbox": {"snapshot": "snapshot-1"},
    "setClock": {"rate": 0},
    "advanceClock": {"by": "1s"},
    "createPayment": {"request": "{request}"},
    "addPayer": {"amount": "1000"},
    "drainNode": {"inbound": 0.5},
    "rebalanceNode": {"amount": "1000"},
    "openChannel": {"peer": "ana", "capacity": "1000000"},
    "addInterceptor": {"kind": "delay", "delay": "2s"},
    "waitForDeliveries": {"timeout": 0},
    "rotateApiKey": {"replaces": "leyden"},
    "scriptInbox": {"answers": [500]},
    "addFault": {"kind": "drop"},
    "addServiceFault": {"kind": "error", "operation": "createCharge", "nth": 99},
    "checkReceiver": {"url": "http://shop.localhost/x"},
}
QUERIES = {"requestInvoice": "amount=2000", "search": "text=tea", "diffSandbox": ""}
NAMES = {
    "drainNode": "shop", "rebalanceNode": "shop", "openChannel": "shop", "getNetworkNode": "eve", "getInbox": "new",
    "scriptInbox": "new",
}  # fmt: skip


def ask(sandbox: Sandbox, method: str, target: str, body: Any = None) -> LoopbackResponse:
    headers = {"apikey": sandbox.api_key, "content-type": "application/json"}
    return sandbox.request(method, target, None if body is None else json.dumps(body).encode(), headers)


def data(sandbox: Sandbox, method: str, target: str, body: Any = None) -> Any:
    response = ask(sandbox, method, target, body)
    assert response.status < 300, response.body
    answer = json.loads(response.body)
    return answer.get("data", answer)


@pytest.fixture
def used(tmp_path: Path) -> Iterator[tuple[Sandbox, dict[str, str]]]:
    """A sandbox in which each request is possible, and what they name in paths."""
    with Sandbox(seed=3, data=tmp_path, network="scale-free:30") as sandbox:
        charges = [
            sandbox.charges.create(amount="1000", description="x", callbackUrl="http://shop.localhost/")
            for _ in range(5)
        ]
        static = data(
            sandbox,
            "POST",
            "/v0/static-charges",
            {"minAmount": "1000", "maxAmount": "9000", "description": "tips", "identifier": "ana@shop.example"},
        )
        sandbox.wallet("ana").pay(charges[0])
        held = sandbox.wallet("ana").pay(charges[1], outcome="hold")
        other = sandbox.wallet("ana").pay(charges[2], outcome="hold")
        sandbox.advance("30s")
        opened = data(
            sandbox, "POST", "/sandbox/v1/network/nodes/shop/channels", {"peer": "ana", "capacity": "1000000"}
        )
        ids = {
            "static": static["id"],
            "charge": charges[3].id,
            "request": charges[4].request,
            "settlePayment": held.id,
            "cancelPayment": other.id,
            "clearPayer": data(sandbox, "POST", "/sandbox/v1/payers", {"amount": "77000"})["id"],
            "clearFault": data(sandbox, "POST", "/sandbox/v1/faults", {"kind": "drop"})["id"],
            "clearServiceFault": data(sandbox, "POST", "/sandbox/v1/service-faults", BODIES["addServiceFault"])["id"],
            "removeInterceptor": str(
                data(sandbox, "POST", "/sandbox/v1/network/interceptors", {"kind": "delay", "delay": "1s"})["id"]
            ),
            "closeChannel": str(opened["channel"]),
            "delivery": data(sandbox, "GET", "/sandbox/v1/deliveries")[0]["id"],
            "hash": "00" * 32,
        }
        for snapshot in ("snapshot-1", "snapshot-2"):
            assert data(sandbox, "POST", "/sandbox/v1/snapshots", {})["id"] == snapshot
        yield sandbox, ids


def request_of(operation: Operation, ids: dict[str, str]) -> tuple[str, str, Any]:
    """The method, the target and the body of a request that is possible."""
    name, path = operation.operation_id, operation.path
    own = ids.get(name)
    if own is None:
        kinds = (("static", "static"), ("lnurlp", "static"), ("deliveries", "delivery"), ("payments", "settlePayment"))
        own = next((ids[kind] for word, kind in kinds if word in path), ids["charge"])
    places = {
        "id": "1" if name == "getRequest" else own,
        "channel": own,
        "name": NAMES.get(name, "ana"),
        "user": "ana",
        "paymentHash": ids["hash"],
        "snapshot": "snapshot-2",
    }
    for place, value in places.items():
        path = path.replace(f"{{{place}}}", value)
    body = BODIES.get(name, None if operation.body is None else {})
    if name == "createPayment":
        body = {"request": ids["request"]}
    query = QUERIES.get(name)
    return operation.method.upper(), path + (f"?{query}" if query else ""), body


def test_each_operation_that_writes_declares_the_refusal_of_the_disk(used: tuple[Sandbox, dict[str, str]]) -> None:
    """Of the documents: one that is added is tried, too. Nothing is written, so each stays possible."""
    sandbox, ids = used
    for name, operation in OPERATIONS.items():
        if name == STREAM:
            continue
        with full_disk() as refused:
            response = ask(sandbox, *request_of(operation, ids))
        shown = (name, response.status, response.body[:300])
        if refused or REFUSED in operation.responses:
            assert REFUSED in operation.responses, shown
            assert response.status == REFUSED, shown
        else:
            assert response.status in (200, 201, 204, 404, 409), shown


def test_a_refused_hit_of_a_fault_does_not_prevent_reading(used: tuple[Sandbox, dict[str, str]]) -> None:
    sandbox, ids = used
    sandbox.faults.add("rate_limit", count=None)
    for name, operation in packaged_contract("charges").operations.items():
        request = request_of(operation, ids)
        with full_disk():
            assert ask(sandbox, *request).status == (REFUSED if REFUSED in operation.responses else 200), name
        assert ask(sandbox, *request).status == 429 or operation.errors_as == "lnurl"
    hits = {fault["kind"]: fault["hits"] for fault in data(sandbox, "GET", "/sandbox/v1/faults")}
    assert hits["rate_limit"] == len(packaged_contract("charges").operations)
