"""Scenarios of the conformance run: lists of steps by their names, and the functions that make the steps."""

from __future__ import annotations

from typing import Any, cast

from leyden.harness.steps import Step

Scenarios = dict[str, list[Step]]

URL = "http://r1.inbox.localhost/hook"
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS


def charge(label: str, **body: Any) -> Step:
    """Create a Charge with a callback and an expiry of 60 s. A field with the value "-" is left out."""
    fields = {"amount": "1000", "description": "tea", "callbackUrl": URL, "expiresIn": 60, **body}
    return {"do": "create_charge", "as": label, "body": _without_omitted(fields)}


def static(label: str, **body: Any) -> Step:
    """Create a Static Charge with a callback. A field with the value "-" is left out."""
    fields = {"minAmount": "1000", "maxAmount": "2000", "description": "tips", "callbackUrl": URL, **body}
    return {"do": "create_static", "as": label, "body": _without_omitted(fields)}


def _without_omitted(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value != "-"}


def pay(charge_label: str, *, label: str = "", **options: Any) -> Step:
    """Pay a Charge. The label of the payment of c1 is p1 unless another is given."""
    return cast("Step", {"do": "pay", "as": label or f"p{charge_label[1:]}", "charge": charge_label, **options})


def advance(by_ms: int) -> Step:
    """Advance the clock."""
    return {"do": "advance", "by": by_ms}


def to(kind: str, label: str, offset_ms: int = 0) -> Step:
    """Advance the clock to the expiry or to the next callback attempt (retry) of a resource, plus an offset."""
    return {"do": "advance", "to": [kind, label], "offset": offset_ms}


def receiver(**script: Any) -> Step:
    """Set the script of the first receiver."""
    return cast("Step", {"do": "receiver", "host": "r1.inbox", **script})


def invoice(label: str, amount: Any = "1000", *, of: str = "s1", **options: Any) -> Step:
    """Request an invoice of a Static Charge."""
    step = {"do": "invoice", "static": of, "as": label, **options}
    return cast("Step", step if amount is None else {**step, "amount": amount})


def change(body: dict[str, Any], of: str = "s1") -> Step:
    """Change a Static Charge."""
    return {"do": "patch", "static": of, "body": body}


def fail(label: str) -> Step:
    """Let the invoice of a Charge fail at the node."""
    return {"do": "fail", "charge": label}
