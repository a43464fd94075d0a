"""The operations, and the odd requests: invalid or unusual ones whose result does not depend on the state.

Written from the routes of the specification and the entries [statuses], [errors] and [lnurl-pay].
"""

from __future__ import annotations

from dataclasses import dataclass

from leyden.harness.model.rules import BODY_LIMIT, DEPTH_LIMIT

Headers = tuple[tuple[str, str], ...]
UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its route, whether it needs an API key, and a valid body. `wallet`: it belongs to LNURL."""

    name: str
    method: str
    path: str
    secured: bool = True
    body: str | None = None
    wallet: bool = False

    @property
    def plain_path(self) -> str:
        """The path with ids that do not exist."""
        path = self.path.replace("{id}", UNKNOWN_ID).replace("{user}", "nobody")
        return path.replace("{paymentHash}", "0" * 64)


_CHARGE = '{"amount":"1000","description":"odd"}'
_STATIC = '{"minAmount":"1000","maxAmount":"1000","description":"odd"}'
OPERATIONS = {
    one.name: one
    for one in (
        Operation("createCharge", "POST", "/v0/charges", body=_CHARGE),
        Operation("listCharges", "GET", "/v0/charges"),
        Operation("getChargeDetails", "GET", "/v0/charges/{id}"),
        Operation("createStaticCharge", "POST", "/v0/static-charges", body=_STATIC),
        Operation("listStaticCharges", "GET", "/v0/static-charges"),
        Operation("getStaticChargeDetails", "GET", "/v0/static-charges/{id}"),
        Operation("updateStaticCharge", "PATCH", "/v0/static-charges/{id}", body="{}"),
        Operation("listStaticChargeCharges", "GET", "/v0/static-charges/{id}/charges"),
        Operation("getWallet", "GET", "/v0/wallet"),
        Operation("getPayRequest", "GET", "/lnurlp/{id}", secured=False, wallet=True),
        Operation("requestInvoice", "GET", "/lnurlp/{id}/invoice", secured=False, wallet=True),
        Operation("verifyPayment", "GET", "/lnurlp/{id}/verify/{paymentHash}", secured=False, wallet=True),
        Operation("getLightningAddress", "GET", "/.well-known/lnurlp/{user}", secured=False, wallet=True),
    )
}


@dataclass(frozen=True, slots=True)
class OddRequest:
    """An invalid or unusual request and its expected response. `key` is own, no, wrong, empty or capitals."""

    method: str
    path: str
    status: int
    code: str = ""
    key: str = "own"
    headers: Headers = ()
    body: bytes = b""
    response_headers: Headers = ()
    wallet_error: bool = False


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
ELSEWHERE = {
    "version-1": ("GET", "/v1/charges"),
    "no-version": ("GET", "/charges"),
    "no-such-path": ("GET", "/v0/payments"),
    "slash-behind": ("GET", "/v0/charges/"),
}
_ALLOWED = {
    "/v0/charges": "GET, HEAD, OPTIONS, POST",
    "/v0/static-charges/{id}": "GET, HEAD, OPTIONS, PATCH",
    "/v0/wallet": "GET, HEAD, OPTIONS",
    "/lnurlp/{id}": "GET, HEAD, OPTIONS",
}


def _allow(one: Operation) -> Headers:
    return (("allow", _ALLOWED[one.path]),)


def _odd_requests(one: Operation) -> dict[str, OddRequest]:
    """The odd requests of an operation by their kinds."""
    name, method, path = one.name, one.method, one.plain_path
    body = b"" if one.body is None else one.body.encode()
    typed: Headers = () if one.body is None else (("Content-Type", JSON_TYPE),)
    challenge: Headers = (("www-authenticate", ""),)
    found: dict[str, OddRequest] = {}
    if one.secured:
        for key in ("no", "wrong", "empty"):
            found[f"{key}-key"] = OddRequest(method, path, 401, "unauthorized", key, typed, body, challenge)
        # A valid request that the fault `rate_limit` refuses.
        found["too-many"] = OddRequest(method, path, 429, "too_many_requests", headers=typed, body=body)
        if one.body is not None:
            # A missing key is reported before anything else about the request.
            found["no-key-and-no-json"] = OddRequest(method, path, 401, "unauthorized", "no", typed, b"{", challenge)
    if name in {"listCharges", "getWallet"}:
        for kind, headers in _VALID.items():
            key = "capitals" if kind == "key-in-capitals" else "own"
            found[kind] = OddRequest(method, path, 200, headers=headers, key=key)
        found["head"] = OddRequest("HEAD", path, 200)
    if one.path in _ALLOWED and method == "GET":
        found["options"] = OddRequest("OPTIONS", path, 204, key="no", response_headers=_allow(one))
    for kind, accepted in _ACCEPTS.items():
        found[kind] = OddRequest(method, path, 406, "not_acceptable", headers=(*typed, ("Accept", accepted)), body=body)
    found["too-large"] = OddRequest(method, path, 413, "payload_too_large", headers=typed, body=b" " * (BODY_LIMIT + 1))
    if one.body is not None:
        for kind, wrong in _BODIES.items():
            found[kind] = OddRequest(method, path, 400, "invalid_request", headers=typed, body=wrong)
        for kind, headers in _TYPES.items():
            found[kind] = OddRequest(method, path, 415, "unsupported_media_type", headers=headers, body=body)
    if one.wallet:
        found["unknown-id"] = OddRequest(method, path, 200, wallet_error=True)
    elif "{" in one.path:
        for kind, where in (("unknown-id", path), ("no-id", path.replace(UNKNOWN_ID, "17"))):
            found[kind] = OddRequest(method, where, 404, "not_found", headers=typed, body=body)
    if one.secured and method == "GET":
        for kind in _QUERIES if name.startswith("list") else ("query-unknown",):
            found[kind] = OddRequest(method, f"{path}?{_QUERIES[kind]}", 400, "invalid_request")
    return found


# The odd requests by operation and kind.
ODD_REQUESTS = {
    **{(name, kind): odd for name, one in OPERATIONS.items() for kind, odd in _odd_requests(one).items()},
    **{("listCharges", kind): OddRequest(*elsewhere, 404, "not_found") for kind, elsewhere in ELSEWHERE.items()},
    **{
        (name, "method"): OddRequest("DELETE", one.plain_path, 405, "method_not_allowed", response_headers=_allow(one))
        for name, one in OPERATIONS.items()
        if name in {"listCharges", "updateStaticCharge", "getWallet", "getPayRequest"}
    },
}
