"""Functions that the probes share: requests, resources, payments, callbacks and restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from leyden import Sandbox
from leyden.callbacks.inboxes import Inbox
from leyden.server.charges.lnurl import decode_lnurl
from leyden.server.errors import StoreError
from leyden.world.loopback import send_request
from tests.seeded_defects.defect import Make

HOOK = "http://shop.localhost/hook"
CHARGE: Mapping[str, Any] = {"amount": "25000", "description": "tea"}
TIPS: Mapping[str, Any] = {"minAmount": "2000", "maxAmount": "9000", "description": "Tips"}
CHARGES, STATICS, WALLET = "/v0/charges", "/v0/static-charges", "/v0/wallet"

Kept = TypeVar("Kept")


class Response(NamedTuple):
    """A response: header names in lower case; `json` is None if the body is not JSON."""

    status: int
    headers: Mapping[str, str]
    json: Any
    raw: bytes


def send(
    sandbox: Sandbox, method: str, target: str, body: Any = None, *, key: str | None = "leyden", **headers: str
) -> Response:
    """Send a request; `body` is a JSON value, or bytes. Underscores in header names become hyphens."""
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    if key is not None:
        pairs.append((b"apikey", key.encode()))
    raw = b""
    if body is not None:
        pairs.append((b"content-type", b"application/json"))
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = send_request(sandbox.app, method, target, tuple(pairs), raw)
    try:
        value = json.loads(response.body)
    except ValueError:
        value = None
    return Response(response.status, {n.decode(): v.decode() for n, v in response.headers}, value, response.body)


def get(sandbox: Sandbox, path: str, resource: Any) -> dict[str, Any]:
    """A resource as HTTP returns it; its handle reads the service directly."""
    data: dict[str, Any] = send(sandbox, "GET", f"{path}/{resource.id}").json["data"]
    return data


def charge_status(make: Make, **fields: Any) -> int:
    """The status of the response to the creation of a Charge with these fields."""
    with make() as sandbox:
        return send(sandbox, "POST", CHARGES, {**CHARGE, **fields}).status


def static_status(make: Make, **fields: Any) -> int:
    """The status of the response to the creation of a Static Charge with these fields."""
    with make() as sandbox:
        return send(sandbox, "POST", STATICS, {**TIPS, **fields}).status


def charge_shown(make: Make, **fields: Any) -> dict[str, Any]:
    """A new Charge as GET returns it."""
    with make() as sandbox:
        return get(sandbox, CHARGES, new_charge(sandbox, **fields))


def static_shown(make: Make, **fields: Any) -> dict[str, Any]:
    """A new Static Charge as GET returns it."""
    with make() as sandbox:
        return get(sandbox, STATICS, new_static(sandbox, **fields))


def new_charge(sandbox: Sandbox, **fields: Any) -> Any:
    """Create a Charge."""
    return sandbox.charges.create(**{**CHARGE, **fields})


def new_static(sandbox: Sandbox, **fields: Any) -> Any:
    """Create a Static Charge for 2000 to 9000 msat."""
    return sandbox.static_charges.create(**{**TIPS, **fields})


def paid(sandbox: Sandbox, what: Any, amount: int | None = None, **how: Any) -> Any:
    """Pay a Charge or a Static Charge; the payment has arrived when this returns."""
    wallet = sandbox.wallet("ana")
    payment = wallet.pay(what, **how) if amount is None else wallet.scan(what, amount=amount, **how)
    sandbox.advance("1s")
    return payment


def inbox(sandbox: Sandbox) -> Inbox:
    """The inbox of the receiver `shop`."""
    return sandbox.receiver("shop").inbox


def payment_callback(make: Make, **fields: Any) -> Any:
    """The callback about a paid Charge, as the receiver got it."""
    with make() as sandbox:
        paid(sandbox, new_charge(sandbox, callbackUrl=HOOK, **fields))
        return inbox(sandbox)[0]


def wallet_of(sandbox: Sandbox, key: str = "leyden") -> Any:
    """The balance."""
    return send(sandbox, "GET", WALLET, key=key).json["data"]["balance"]


def other_project(sandbox: Sandbox) -> str:
    """Create another project and return its API key."""
    with sandbox.world.exclusive():
        sandbox.world.service.projects.add("other", "other-key")
    return "other-key"


def fetch(sandbox: Sandbox, url: str) -> Any:
    """The JSON that a payer's wallet gets from a URL of the service."""
    parts = urlsplit(url)
    return send(sandbox, "GET", parts.path + (f"?{parts.query}" if parts.query else ""), key=None).json


def pay_request(sandbox: Sandbox, static: Any) -> Any:
    """The payRequest of a Static Charge's LNURL."""
    return fetch(sandbox, decode_lnurl(static.request))


def after_restart(make: Make, before: Callable[[Sandbox], Kept], after: Callable[[Sandbox, Kept], bool]) -> bool:
    """Run `before` in a sandbox on disk, close and reopen it, and return the result of `after`; true, too, if the next
    process finds what the directory has in contradiction."""
    with TemporaryDirectory() as data:
        with make(data=data) as sandbox:
            kept = before(sandbox)
        try:
            reopened = make(data=data)
        except StoreError:
            return True
        with reopened as sandbox:
            return after(sandbox, kept)
