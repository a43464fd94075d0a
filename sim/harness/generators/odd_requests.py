"""Odd requests: invalid or unusual requests whose answer does not depend on the state. The model gives the answer."""

from __future__ import annotations

from dataclasses import dataclass

from leyden.harness.model.requests import JSON_TYPE, OPERATIONS, Operation
from leyden.harness.model.rules import BODY_LIMIT, DEPTH_LIMIT

Headers = tuple[tuple[str, str], ...]
_UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class OddRequest:
    """An invalid or unusual request. `key` is own, no, wrong, empty or capitals."""

    method: str
    path: str
    headers: Headers = ()
    body: bytes = b""
    key: str = "own"


_VALID_BODIES = {
    "createCharge": b'{"amount":"1000","description":"odd"}',
    "createStaticCharge": b'{"minAmount":"1000","maxAmount":"1000","description":"odd"}',
    "updateStaticCharge": b"{}",
}
_BODIES = {
    "body-empty": b"",
    "body-not-json": b"{'amount': 1000}",
    "body-cut": b'{"amount":"1000","description":"od',
    "body-array": b"[]",
    "body-text": b'"amount"',
    "body-null": b"null",
    "body-nan": b'{"amount":"1000","description":"odd","expiresIn":NaN}',
    "body-infinite": b'{"amount":"1000","description":"odd","expiresIn":-Infinity}',
    "body-twice": b'{"amount":"1000","amount":"2000","description":"odd"}',
    "body-not-utf8": b'{"amount":"1000","description":"\xff"}',
    "body-byte-order-mark": b'\xef\xbb\xbf{"amount":"1000","description":"odd"}',
    "body-half-character": b'{"amount":"1000","description":"\\ud800"}',
    "body-too-deep": b'{"amount":"1000","description":"odd","x":' + b"[" * DEPTH_LIMIT + b"]" * DEPTH_LIMIT + b"}",
    "body-trailing": b'{"amount":"1000","description":"odd"} x',
}
_TYPES: dict[str, Headers] = {
    "type-missing": (),
    "type-text": (("Content-Type", "text/plain"),),
    "type-form": (("Content-Type", "application/x-www-form-urlencoded"),),
    "type-charset": (("Content-Type", "application/json; charset=iso-8859-1"),),
}
_ACCEPTS = {
    "accept-html": "text/html",
    "accept-nothing": "application/json;q=0",
    "accept-images": "image/*, text/plain;q=0.5",
}
_VALID: dict[str, Headers] = {
    "accept-anything": (("Accept", "*/*"),),
    "accept-application": (("Accept", "text/html;q=0.9, application/*;q=0.1"),),
    "accept-json-only": (("Accept", "*/*;q=0, Application/JSON"),),
    "key-in-capitals": (),
}
_QUERIES = {
    "query-unknown": "colour=blue",
    "query-twice": "limit=1&limit=1",
    "query-limit-0": "limit=0",
    "query-limit-1001": "limit=1001",
    "query-limit-text": "limit=ten",
    "query-limit-point": "limit=1.0",
    "query-status": "status=lost",
    "query-cursor": "after=first",
    "query-timestamp": "createdAfter=yesterday",
    "query-internal-id-256": f"internalId={'x' * 256}",
}
_ELSEWHERE = {
    "version-1": ("GET", "/v1/charges"),
    "no-version": ("GET", "/charges"),
    "no-such-path": ("GET", "/v0/payments"),
    "slash-behind": ("GET", "/v0/charges/"),
}
# One operation of each of these paths is asked with other methods.
_OPTIONS = ("listCharges", "getStaticChargeDetails", "getWallet", "getPayRequest")
_DELETE = ("listCharges", "updateStaticCharge", "getWallet", "getPayRequest")


def _plain_path(one: Operation) -> str:
    """The path of an operation with ids that do not exist."""
    path = one.path.replace("{id}", _UNKNOWN_ID).replace("{user}", "nobody")
    return path.replace("{paymentHash}", "0" * 64)


def _odd_requests(one: Operation) -> dict[str, OddRequest]:
    """The odd requests of an operation by their kinds."""
    name, method, path, body = one.name, one.method, _plain_path(one), _VALID_BODIES.get(one.name, b"")
    typed: Headers = (("Content-Type", JSON_TYPE),) if body else ()
    found: dict[str, OddRequest] = {}
    if one.secured:
        for key in ("no", "wrong", "empty"):
            found[f"{key}-key"] = OddRequest(method, path, typed, body, key)
        # A valid request that the fault `rate_limit` refuses.
        found["too-many"] = OddRequest(method, path, typed, body)
        if body:
            # A missing key is reported before anything else about the request.
            found["no-key-and-no-json"] = OddRequest(method, path, typed, b"{", "no")
    if name in {"listCharges", "getWallet"}:
        for kind, headers in _VALID.items():
            found[kind] = OddRequest(method, path, headers, key="capitals" if kind == "key-in-capitals" else "own")
        found["head"] = OddRequest("HEAD", path)
    if name in _OPTIONS:
        found["options"] = OddRequest("OPTIONS", path, key="no")
    for kind, accepted in _ACCEPTS.items():
        found[kind] = OddRequest(method, path, (*typed, ("Accept", accepted)), body)
    found["too-large"] = OddRequest(method, path, typed, b" " * (BODY_LIMIT + 1))
    if body:
        for kind, wrong in _BODIES.items():
            found[kind] = OddRequest(method, path, typed, wrong)
        for kind, headers in _TYPES.items():
            found[kind] = OddRequest(method, path, headers, body)
    if "{" in one.path:
        found["unknown-id"] = OddRequest(method, path, typed, body)
        if one.secured:
            found["no-id"] = OddRequest(method, path.replace(_UNKNOWN_ID, "17"), typed, body)
    if one.secured and method == "GET":
        for kind in _QUERIES if name.startswith("list") else ("query-unknown",):
            found[kind] = OddRequest(method, f"{path}?{_QUERIES[kind]}")
    return found


# The odd requests by operation and kind.
ODD_REQUESTS = {
    **{(name, kind): odd for name, one in OPERATIONS.items() for kind, odd in _odd_requests(one).items()},
    **{("listCharges", kind): OddRequest(*elsewhere) for kind, elsewhere in _ELSEWHERE.items()},
    **{(name, "method"): OddRequest("DELETE", _plain_path(OPERATIONS[name])) for name in _DELETE},
}
