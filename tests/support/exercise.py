"""A sandbox with rows in every table, and a use of it by every operation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from leyden.errors import ApiError, GraphError, InterceptError, PayerError, PaymentError, ResponseLost

TABLES = ("payments", "attempts", "htlcs", "deliveries", "callbacks", "balances", "outages", "journal")


def rich_sandbox(network: str = "line:4", data: Path | None = None) -> Sandbox:
    """A sandbox in the middle of payments, callbacks, faults and traffic."""
    sandbox = Sandbox(seed=3, network=network, data=data)
    hook = "http://shop.localhost/a"
    shop = sandbox.receiver("shop")
    sandbox.payers.add(amount="7000", outcome="hold", count=3, payer="auto")
    sandbox.payers.add(description="Late*", outcome="twice", delay="2h", share=0.5)
    charges = [
        sandbox.charges.create(amount="250000", description=f"Order {number}", callbackUrl=hook, internalId=f"{number}")
        for number in range(4)
    ]
    sandbox.charges.create(amount="7000", description="Held", callbackUrl=hook)
    sandbox.request(
        "POST",
        "/v0/charges",
        {"amount": "9000", "description": "x"},
        {"apikey": sandbox.api_key, "content-type": "application/json", "idempotency-key": "key-1"},
    )
    tips = sandbox.static_charges.create(
        minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=9, callbackUrl=hook
    )
    sandbox.wallet("ana").scan(tips, amount=2000)
    sandbox.wallet("ana").pay(charges[0])
    sandbox.advance("5s")
    shop.answers([500, Reply(202, delay="4s"), "timeout", 200]).when(503, charge=charges[1].id)
    sandbox.faults.add("drop", charge=charges[2].id)
    sandbox.faults.add("delay", charge=charges[1].id, delay="1h")
    sandbox.faults.add("unknown_field", attempt=1)
    sandbox.faults.add("duplicate_new_id", attempt=2, count=None, delay="1h")
    sandbox.faults.add("duplicate", count=None, delay="20m")
    sandbox.faults.add("rate_limit", operation="getLightningAddress", count=2)
    if network != "direct":
        sandbox.network.wallet("cid")
        sandbox.network.intercept("delay", delay="2s", times=3)
    sandbox.wallet("bob").pay(charges[1])
    sandbox.wallet("cid").pay(charges[2], outcome="hold")
    sandbox.wallet("dan").pay(charges[3], delay="30m")
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": "lnbc1nothing"})
    sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate", {})
    sandbox.advance("20s")
    sandbox.service_faults.add("stale_read", operation="getChargeDetails", count=None)
    sandbox.service_faults.add("error", status=429, operation="getWallet", nth=2)
    sandbox.ask("GET", f"/v0/charges/{charges[3].id}")
    sandbox.traffic("6/min", duration="10m")
    sandbox.advance("3s")
    shop.answers([Reply(202, delay="4s"), Reply(500, delay="3s"), "timeout", 500, 200])
    for number in range(3):
        last = sandbox.charges.create(amount="1000", description=f"Last {number}", callbackUrl=hook)
        sandbox.wallet("fay").pay(last)
    sandbox.advance("1s" if network == "direct" else "2500ms")
    sandbox.charges.create(amount="250000", description="Late order", callbackUrl=hook, expiresIn=7200)
    return sandbox


def rich_snapshot(network: str = "line:4") -> dict[str, Any]:
    """The rich sandbox as `save` writes it."""
    return json.loads(json.dumps(rich_sandbox(network).snapshot()))  # type: ignore[no-any-return]


def check_response(sandbox: Sandbox, method: str, target: str, body: object = None) -> Any:
    """The JSON of a response; no response may be of status 5xx, unless a service fault made it."""
    given = None if body is None else json.dumps(body).encode()
    headers = {"apikey": sandbox.api_key, "content-type": "application/json"}
    try:
        response = sandbox.request(method, target, given, headers)
    except ResponseLost:
        return None
    injected = any(name.lower() == b"leyden-fault" for name, _ in response.headers)
    if response.status >= 500 and not injected:
        raise AssertionError(f"{method} {target}: {response.status} {response.body[:300]!r}")
    if method == "GET" and response.status == 400 and not injected:
        raise AssertionError(f"{target} is no valid request: {response.body[:300]!r}")
    try:
        return json.loads(response.body)
    except ValueError:
        return None


def _ids(answer: Any) -> list[str]:
    rows = answer.get("data", answer) if isinstance(answer, dict) else answer
    return [str(row["id"]) for row in rows if "id" in row] if isinstance(rows, list) else []


def read_everything(sandbox: Sandbox) -> None:
    """Read what there is. Raises what is no answer of a sandbox."""
    for action in _reads(sandbox, quick=True):
        with suppress(ApiError, ResponseLost):
            action()


def use_by_every_operation(sandbox: Sandbox, *, quick: bool = False) -> None:
    """Read, pay, settle, replay, update, move time, copy and save. Raises what is no answer of a sandbox."""
    for action in _actions(sandbox, quick):
        with suppress(PaymentError, PayerError, InterceptError, GraphError, ApiError, ResponseLost):
            action()


def _reads(sandbox: Sandbox, quick: bool) -> Iterator[Callable[[], object]]:
    def ask(method: str, target: str) -> Callable[[], object]:
        return lambda: check_response(sandbox, method, target)

    for path in (
        "/v0/charges", "/v0/static-charges", "/v0/wallet", "/sandbox/v1", "/sandbox/v1/clock",
        "/sandbox/v1/payments", "/sandbox/v1/payers", "/sandbox/v1/deliveries?bodies=true", "/sandbox/v1/inboxes",
        "/sandbox/v1/faults", "/sandbox/v1/service-faults", "/sandbox/v1/journal", "/sandbox/v1/webhook-secret",
        "/sandbox/v1/inboxes/shop", "/sandbox/v1/requests", "/sandbox/v1/clock/due", "/sandbox/v1/search?text=e",
        "/sandbox/v1/charges", "/sandbox/v1/static-charges", "/sandbox/v1/snapshots", "/sandbox/v1/network/nodes",
        "/sandbox/v1/network/interceptors", "/sandbox/v1/network/nodes/shop",
        "/sandbox/v1/network/nodes/ana", "/v0/charges?status=completed&limit=2&internalId=1",
    ):  # fmt: skip
        yield ask("GET", path)
    for charge in _ids(check_response(sandbox, "GET", "/v0/charges?limit=4")):
        yield ask("GET", f"/v0/charges/{charge}")
        yield ask("GET", f"/sandbox/v1/charges/{charge}")
        yield lambda charge=charge: sandbox.charges[charge].timeline()  # type: ignore[misc]
        yield ask("GET", f"/sandbox/v1/payments?chargeId={charge}")
        yield ask("GET", f"/sandbox/v1/deliveries?chargeId={charge}")
    for static in _ids(check_response(sandbox, "GET", "/v0/static-charges")):
        yield ask("GET", f"/v0/static-charges/{static}")
        yield ask("GET", f"/v0/static-charges/{static}/charges")
        yield ask("GET", f"/lnurlp/{static}")
        yield ask("GET", f"/lnurlp/{static}/invoice?amount=2000")
    for payment in _ids(check_response(sandbox, "GET", "/sandbox/v1/payments"))[:8]:
        yield ask("GET", f"/sandbox/v1/payments/{payment}")
        yield ask("GET", f"/sandbox/v1/payments/{payment}/attempts")
    for delivery in _ids(check_response(sandbox, "GET", "/sandbox/v1/deliveries"))[:8]:
        yield ask("GET", f"/sandbox/v1/deliveries/{delivery}")
    yield ask("GET", "/sandbox/v1/export")
    if not quick:
        for name in TABLES:
            yield lambda name=name: sandbox.table(name)  # type: ignore[misc]


def _actions(sandbox: Sandbox, quick: bool) -> Iterator[Callable[[], object]]:
    def ask(method: str, target: str, body: object = None) -> Callable[[], object]:
        return lambda: check_response(sandbox, method, target, body)

    yield from _reads(sandbox, quick)
    yield ask("POST", "/v0/charges", {"amount": "7000", "description": "Late", "callbackUrl": "http://shop.localhost/"})
    answer = check_response(sandbox, "GET", "/v0/charges?limit=100")
    for charge in answer["data"] if isinstance(answer, dict) and "data" in answer else []:
        request = charge["invoice"]["request"]
        yield ask("POST", "/sandbox/v1/payments", {"request": request})
    for payment in _ids(check_response(sandbox, "GET", "/sandbox/v1/payments?limit=100")):
        yield ask("POST", f"/sandbox/v1/payments/{payment}/settle", {})
        yield ask("POST", f"/sandbox/v1/payments/{payment}/cancel", {})
    for delivery in _ids(check_response(sandbox, "GET", "/sandbox/v1/deliveries?limit=100")):
        yield ask("POST", f"/sandbox/v1/deliveries/{delivery}/replay", {})
    for static in _ids(check_response(sandbox, "GET", "/v0/static-charges")):
        yield ask("PATCH", f"/v0/static-charges/{static}", {"description": "Other"})
        yield ask("PATCH", f"/v0/static-charges/{static}", {"allowedSlots": 3})
        yield lambda static=static: sandbox.wallet("ana").scan(sandbox.static_charges[static], amount=2000)  # type: ignore[misc]
    yield lambda: sandbox.fork()
    yield lambda: sandbox.fork(reseed=4).run("1h")
    yield lambda: sandbox.step()
    yield lambda: sandbox.advance("90s")
    yield ask("POST", "/sandbox/v1/clock/advance", {"by": "40m"})
    for charge in _ids(check_response(sandbox, "GET", "/v0/charges?limit=3&status=pending")):
        yield ask("POST", f"/sandbox/v1/charges/{charge}/fail", {})
    yield ask("POST", "/sandbox/v1/webhook-secret/rotate", {})
    yield ask("POST", "/sandbox/v1/api-keys", {})
    yield ask("PUT", "/sandbox/v1/inboxes/shop/script", {"answers": [500], "always": 200})
    yield ask("POST", "/sandbox/v1/faults", {"kind": "drop"})
    yield ask("POST", "/sandbox/v1/service-faults", {"kind": "slow_body"})
    yield ask("POST", "/sandbox/v1/payers", {"amount": "1000"})
    yield ask("POST", "/sandbox/v1/network/nodes/ana/drain", {"outbound": 0.5})
    yield ask("POST", "/sandbox/v1/network/nodes/shop/channels", {"peer": "ana", "capacity": "1000000"})
    yield lambda: sandbox.run("3h")
    yield lambda: sandbox.run("2d")
    yield from _reads(sandbox, quick)
    if not sandbox.world.store.is_durable:  # the actions before the start of a directory are not recorded
        yield lambda: sandbox.script()
    yield lambda: Sandbox.from_snapshot(json.loads(json.dumps(sandbox.snapshot()))).run("1h")
    yield ask("DELETE", "/sandbox/v1/faults")
    yield ask("DELETE", "/sandbox/v1/service-faults")
    yield ask("DELETE", "/sandbox/v1/payers")
    yield ask("POST", "/sandbox/v1/reset", {})
