"""The examples of errors in the served documents are the errors that are sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx2
import pytest

from leyden import Sandbox
from tests.support.served import served_leyden

CONTROL, SANDBOXES, NOBODY = "/sandbox/v1", "/sandbox/v1/sandboxes", "00000000-0000-4000-8000-000000000000"
DOCUMENTS = {
    "service": "/openapi.json",
    "sandbox": f"{CONTROL}/openapi.json",
    "server": f"{CONTROL}/server/openapi.json",
}
JSON = {"content-type": "application/json"}
# They need a full disk, a defect, a hundred open streams, or two requests at the same moment.
NOT_PROVOKED = frozenset({"ProblemInternal", "ProblemStorage", "ProblemTooManyStreams", "ProblemMoving",
                          "ProblemTimeWaits"})  # fmt: skip

Send = Callable[..., httpx2.Response]
Provoked = Iterator[tuple[str, httpx2.Response]]


def is_error(value: Any) -> bool:
    return isinstance(value, Mapping) and ("detail" in value or value.get("status") == "ERROR")


def comparable(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in value.items() if name != "request_id"}


def common(send: Send, listed: str, post: str, large: bytes) -> Provoked:
    """The errors that each document has."""
    yield "ProblemQuery", send("GET", f"{listed}?limit=5000")
    yield "ProblemNotAcceptable", send("GET", listed, headers={"accept": "application/xml"})
    yield "ProblemTooLarge", send("POST", post, content=large, headers=JSON)
    yield "ProblemMediaType", send("POST", post, data={"a": "b"})


def charge_of(send: Send, **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = send("POST", "/v0/charges", json={"amount": "1000", "description": "tea", **fields}).json()
    return made["data"]  # type: ignore[no-any-return]


def link_of(send: Send, **fields: Any) -> dict[str, Any]:
    order = {"minAmount": "1000", "maxAmount": "5000000", "description": "tips", **fields}
    made: dict[str, Any] = send("POST", "/v0/static-charges", json=order).json()
    return made["data"]  # type: ignore[no-any-return]


def pay(send: Send, resource: Mapping[str, Any]) -> dict[str, Any]:
    paid: dict[str, Any] = send(
        "POST", f"{CONTROL}/payments", json={"request": resource["invoice"]["request"], "amount": "1000"}
    ).json()
    return paid


def of_the_service(send: Send, bare: Send) -> Provoked:
    yield from common(send, "/v0/charges", "/v0/charges", b"x" * 70_000)
    order = {"amount": "1000", "description": "tea"}
    yield "ProblemAmount", send("POST", "/v0/charges", json={**order, "amount": "2500.5"})
    yield "ProblemMissing", send("POST", "/v0/charges", json={"amount": "2500"})
    yield "ProblemNotJson", send("POST", "/v0/charges", content=b'{"amount": "1000",}', headers=JSON)
    yield "ProblemUnauthorized", bare("GET", "/v0/wallet")
    yield "ProblemNotFound", send("GET", f"/v0/charges/{NOBODY}")
    crossed = {"minAmount": "5000000", "maxAmount": "1000", "description": "tips"}
    yield "ProblemCrossed", send("POST", "/v0/static-charges", json=crossed)
    point = b'{"amount": "1000", "description": "x", "expiresIn": 600.0}'
    yield "ProblemPoint", send("POST", "/v0/charges", content=point, headers=JSON)
    key = {"idempotency-key": "order-17"}
    send("POST", "/v0/charges", json=order, headers=key)
    yield "ProblemReused", send("POST", "/v0/charges", json={**order, "amount": "1001"}, headers=key)
    band = {"identifier": "band@x.example"}
    brief = link_of(send, expiresIn=60, **band)
    yield "ProblemNull", send("PATCH", f"/v0/static-charges/{brief['id']}", json={"description": None})
    yield "ProblemTaken", send("POST", "/v0/static-charges", json={"minAmount": "1000", "maxAmount": "2000",
                                                                   "description": "x", **band})  # fmt: skip
    yield "LnurlErrorOutOfBounds", send("GET", f"/lnurlp/{brief['id']}/invoice?amount=999")
    yield "LnurlErrorUnknown", send("GET", f"/lnurlp/{NOBODY}")
    send("POST", f"{CONTROL}/clock/advance", json={"by": "2m"})
    yield "ProblemExpired", send("PATCH", f"/v0/static-charges/{brief['id']}", json={"description": "x"})
    few = link_of(send, allowedSlots=50)
    for _ in range(50):
        pay(send, few)
    yield "ProblemSlots", send("PATCH", f"/v0/static-charges/{few['id']}", json={"allowedSlots": 49})
    yield "LnurlErrorSoldOut", send("GET", f"/lnurlp/{few['id']}/invoice?amount=1000")
    send("POST", f"{CONTROL}/faults", json={"kind": "rate_limit"})
    yield "ProblemTooMany", send("GET", "/v0/wallet")


def of_the_sandbox(send: Send, bare: Send) -> Provoked:
    yield from common(send, f"{CONTROL}/payments", f"{CONTROL}/faults", b"x" * 70_000)
    yield "ProblemUnauthorized", bare("GET", CONTROL)
    yield "ProblemNoSuchOperation", send("GET", f"{CONTROL}/requests?operation=createCharges")
    yield "ProblemUnknownField", send("POST", f"{CONTROL}/faults", json={"kind": "drop", "speed": 5})
    yield "ProblemAdvance", send("POST", f"{CONTROL}/clock/advance", json={"by": 0, "until": "idle"})
    yield "ProblemOutcome", send("POST", f"{CONTROL}/payments", json={"request": "x", "outcome": "setle"})
    yield "ProblemNotFound", send("GET", f"{CONTROL}/payments/{NOBODY}")
    yield "ProblemPoint", send("POST", f"{CONTROL}/reset", content=b'{"seed": 8.0}', headers=JSON)
    yield "ProblemNoSnapshot", send("POST", f"{CONTROL}/restore", json={"snapshot": "snapshot-9"})
    send("POST", f"{CONTROL}/api-keys", json={"key": "second-team"})
    yield "ProblemKeyTaken", send("POST", f"{CONTROL}/api-keys", json={"key": "second-team"})
    charge = charge_of(send, callbackUrl="http://slow.localhost/")
    send("PUT", f"{CONTROL}/inboxes/slow/script", json={"always": {"status": 200, "delay": "5s"}})
    paid = pay(send, charge)
    yield "ProblemNotHeld", send("POST", f"{CONTROL}/payments/{paid['id']}/settle")
    yield "ProblemNotPending", send("POST", f"{CONTROL}/charges/{charge['id']}/fail")
    [delivery] = send("GET", f"{CONTROL}/deliveries").json()["data"]
    yield "ProblemUnderWay", send("POST", f"{CONTROL}/deliveries/{delivery['id']}/replay")
    send("POST", f"{CONTROL}/clock/advance", json={"by": "10s"})
    ids = [delivery["id"], "0b7de0c4-1f6d-4e35-a9b2-c8d107f3e6a4"]
    yield "ProblemUnknownDelivery", send("POST", f"{CONTROL}/deliveries/replay", json={"ids": ids})
    yield "ProblemNoSuchEvent", send("POST", f"{CONTROL}/deliveries/wait", json={"event": "charge.complete"})
    yield "ProblemNothingToWaitFor", send("POST", f"{CONTROL}/deliveries/wait", json={"chargeId": NOBODY})
    script = f"{CONTROL}/inboxes/shop/script"
    yield "ProblemInvalidScript", send("PUT", script, content=b'{"always": 503.0}', headers=JSON)
    yield "ProblemNoSuchFault", send("POST", f"{CONTROL}/faults", json={"kind": "bad_signature", "delay": 5})
    yield "ProblemNoSuchPayer", send("POST", f"{CONTROL}/payers", json={"delay": 1, "beforeExpiry": 1})
    stale = {"kind": "stale_read", "status": 400, "body": "html", "retryAfter": 5}
    yield "ProblemNoSuchServiceFault", send("POST", f"{CONTROL}/service-faults", json=stale)
    yield "ProblemNoNetwork", send("GET", f"{CONTROL}/network/nodes")


def of_a_sandbox_in_process() -> Provoked:
    sandbox = Sandbox()
    yield "ProblemNoLiveClock", sandbox.http.patch(f"{CONTROL}/clock", json={"rate": 1})
    yield "ProblemNotCheckable", sandbox.http.post(f"{CONTROL}/receiver-check", json={"url": "http://localhost:9/"})
    with_payers = Sandbox(overlays=["magic-amounts"])
    payer = with_payers.ask("GET", f"{CONTROL}/payers")["data"][0]["id"]
    yield "ProblemPayerOfDocument", with_payers.http.delete(f"{CONTROL}/payers/{payer}")


def of_the_server(send: Send, bare: Send) -> Provoked:
    yield from common(send, SANDBOXES, SANDBOXES, b"")
    yield "ProblemTooLarge", send("POST", f"{SANDBOXES}/import", content=b"x" * 17_000_000, headers=JSON)
    yield "ProblemUnauthorized", bare("GET", SANDBOXES)
    yield "ProblemUnknownField", send("POST", SANDBOXES, json={"speed": 5})
    yield "ProblemNotFound", send("GET", f"{SANDBOXES}/sbx_0000000000000000")
    yield "ProblemOverlay", send("POST", SANDBOXES, json={"overlays": ["stirct"]})
    yield "ProblemPoint", send("POST", SANDBOXES, content=b'{"seed": 8.0}', headers=JSON)
    created = send("POST", SANDBOXES, json={}).json()["id"]
    yield "ProblemNoSnapshot", send("POST", f"{SANDBOXES}/{created}/restore", json={"snapshot": "snapshot-9"})
    saved = {**send("GET", f"{CONTROL}/export").json(), "format": 7}
    yield "ProblemFormat", send("POST", f"{SANDBOXES}/import", json=saved)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_example_of_an_error_is_what_is_sent(name: str) -> None:
    with (
        served_leyden("--rate", "0", "--seed", "5", "--admin-token", "token-17") as served,
        httpx2.Client(base_url=served.url, headers={"apikey": "leyden", "authorization": "Bearer token-17"}) as client,
        httpx2.Client(base_url=served.url) as bare,
    ):
        examples = client.get(DOCUMENTS[name]).json()["components"]["examples"]
        errors = {key: example["value"] for key, example in examples.items() if is_error(example["value"])}
        provoked = {
            "service": lambda: of_the_service(client.request, bare.request),
            "sandbox": lambda: (*of_the_sandbox(client.request, bare.request), *of_a_sandbox_in_process()),
            "server": lambda: of_the_server(client.request, bare.request),
        }[name]()
        sent = {key: comparable(response.json()) for key, response in provoked}
    assert errors.keys() - NOT_PROVOKED == sent.keys()
    for key, value in sent.items():
        assert comparable(errors[key]) == value, key
