"""The operations, and the odd requests: invalid or unusual ones whose result does not depend on the state.

Written from the routes of the specification and the entries [statuses], [errors] and [lnurl-pay].
"""

from __future__ import annotations

from dataclasses import dataclass

from leyden.harness.model.rules import BODY_LIMIT, DEPTH_LIMIT

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
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    response_headers: tuple[tuple[str, str], ...] = ()
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
_TYPES = {
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
_VALID = {
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
    "query-moment": "createdAfter=yesterday",
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


def odd_request_names() -> list[tuple[str, str]]:
    """All odd requests as (operation, kind)."""
    found = []
    for name, one in OPERATIONS.items():
        if one.secured:
            found += [(name, "no-key"), (name, "wrong-key"), (name, "empty-key"), (name, "too-many")]
            found += [(name, "no-key-and-no-json")] if one.body is not None else []
        if name in {"listCharges", "getWallet"}:
            found += [(name, kind) for kind in (*_VALID, "head")]
        if one.path in _ALLOWED and one.method == "GET":
            found.append((name, "options"))
        found += [(name, kind) for kind in (*_ACCEPTS, "too-large")]
        if one.body is not None:
            found += [(name, kind) for kind in (*_BODIES, *_TYPES)]
        if "{" in one.path:
            found += [(name, "unknown-id")] if one.wallet else [(name, "unknown-id"), (name, "no-id")]
        if name.startswith("list"):
            found += [(name, kind) for kind in _QUERIES]
        elif one.secured and one.method == "GET":
            found.append((name, "query-unknown"))
    found += [("listCharges", kind) for kind in ELSEWHERE]
    found += [(name, "method") for name in ("listCharges", "updateStaticCharge", "getWallet", "getPayRequest")]
    return found


def odd_request(operation: str, kind: str) -> OddRequest:
    """The odd request of this kind. Raises `KeyError` for a kind that the operation does not have."""
    one = OPERATIONS[operation]
    method, path = one.method, one.plain_path
    body = b"" if one.body is None else one.body.encode()
    typed: tuple[tuple[str, str], ...] = () if one.body is None else (("Content-Type", JSON_TYPE),)
    if kind in {"no-key", "wrong-key", "empty-key"}:
        challenge = (("www-authenticate", ""),)
        return OddRequest(method, path, 401, "unauthorized", kind[:-4], typed, body, challenge)
    if kind == "no-key-and-no-json":
        # A missing key is reported before anything else about the request.
        return OddRequest(method, path, 401, "unauthorized", "no", typed, b"{", (("www-authenticate", ""),))
    if kind in _VALID:
        return OddRequest(
            method, path, 200, headers=_VALID[kind], key="own" if kind != "key-in-capitals" else "capitals"
        )
    if kind == "head":
        return OddRequest("HEAD", path, 200)
    if kind == "options":
        return OddRequest("OPTIONS", path, 204, key="no", response_headers=(("allow", _ALLOWED[one.path]),))
    if kind == "too-many":  # a valid request that the fault `rate_limit` refuses
        return OddRequest(method, path, 429, "too_many_requests", headers=typed, body=body)
    if kind in _ACCEPTS:
        return OddRequest(method, path, 406, "not_acceptable", headers=(*typed, ("Accept", _ACCEPTS[kind])), body=body)
    if kind == "too-large":
        return OddRequest(method, path, 413, "payload_too_large", headers=typed, body=b" " * (BODY_LIMIT + 1))
    if kind in _BODIES and one.body is not None:
        return OddRequest(method, path, 400, "invalid_request", headers=typed, body=_BODIES[kind])
    if kind in _TYPES and one.body is not None:
        return OddRequest(method, path, 415, "unsupported_media_type", headers=_TYPES[kind], body=body)
    if kind in _QUERIES:
        return OddRequest(method, f"{path}?{_QUERIES[kind]}", 400, "invalid_request")
    if kind == "unknown-id" and one.wallet:
        return OddRequest(method, path, 200, wallet_error=True)
    if kind == "unknown-id":
        return OddRequest(method, path, 404, "not_found", headers=typed, body=body)
    if kind == "no-id":
        return OddRequest(method, path.replace(UNKNOWN_ID, "17"), 404, "not_found", headers=typed, body=body)
    if kind in ELSEWHERE:
        return OddRequest(*ELSEWHERE[kind], 404, "not_found")
    if kind == "method":
        return OddRequest("DELETE", path, 405, "method_not_allowed", response_headers=(("allow", _ALLOWED[one.path]),))
    raise KeyError(kind)
