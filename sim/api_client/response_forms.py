"""The forms of the responses of a served Leyden, by which its clients tell it from another program.

A form has the members that a client needs, and a response may have more of them: those of a later version, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

# A type, None, a test of a value, several forms of which one is enough, the form of each item of a list, or those of
# the members of an object.
Form = type | None | Callable[[Any], bool] | tuple[Any, ...] | list[Any] | dict[str, Any]


def instant(value: Any) -> bool:
    """Whether this is an instant in ISO 8601."""
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


def digits(value: Any) -> bool:
    """Whether this is a text of 1 to 20 digits: an amount in millisatoshis."""
    return isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20


def _operations(value: Any) -> bool:
    """Whether these are the paths of a specification."""
    return isinstance(value, dict) and all(isinstance(item, dict) for item in value.values())


def _page(row: Form) -> Form:
    return {"data": [row], "next": (str, None)}


_CHARGE = {"id": str, "status": str, "amount": digits, "createdAt": instant, "expiresAt": instant,
           "invoice": {"request": str}}  # fmt: skip
_STATIC_CHARGE = {"id": str, "status": str, "slots": int, "createdAt": instant, "invoice": {"request": str}}
_STATE = {"seed": int, "start": instant, "now": instant, "rate": (int, float), "overlays": [str], "journalHash": str}
_SANDBOX = {"id": str, "name": (str, None), "url": str, "seed": int, "start": instant, "now": instant,
            "rate": (int, float), "overlays": [str]}  # fmt: skip
_NEW_SANDBOX = {**_SANDBOX, "serverUrl": str, "apiKey": str, "webhookSecret": str}
_SNAPSHOT = {"id": str, "name": (str, None), "now": instant, "journalHash": str}
_CLOCK = {"now": instant, "rate": (int, float)}
_PAYMENT = {"id": str, "status": str, "reason": (str, None), "amount": (digits, None), "createdAt": instant}
_DELIVERY = {"id": str, "event": str, "status": str, "url": str, "createdAt": instant, "attempts": [{"number": int}]}
_KEYS = {"key": str, "keys": [str]}
_SECRETS = {"current": str, "secrets": [dict]}
_INBOX = {"name": str, "received": int, "objections": int}
_FULL_INBOX = {**_INBOX, "posts": [{"number": int}],
               "script": {"rules": [{"count": (int, None)}], "answers": list, "always": dict}}  # fmt: skip
_RULE = {"id": str, "hits": int, "createdAt": instant}
_CLEARED = {"cleared": int}
_NODE = {"name": str, "channels": [dict]}
_REQUEST = {"id": int, "at": instant, "method": str, "path": str, "status": (int, None)}
_EXPORT = {"format": int}
_DIFF = {"count": int, "differences": [dict]}

FORMS: Mapping[str, Form] = {
    "GET /openapi.json": {"paths": _operations},
    "POST /v0/charges": {"data": _CHARGE},
    "GET /v0/charges": _page(_CHARGE),
    "GET /v0/charges/{}": {"data": _CHARGE},
    "POST /v0/static-charges": {"data": _STATIC_CHARGE},
    "GET /v0/static-charges": _page(_STATIC_CHARGE),
    "GET /v0/static-charges/{}": {"data": _STATIC_CHARGE},
    "PATCH /v0/static-charges/{}": {"data": _STATIC_CHARGE},
    "GET /v0/static-charges/{}/charges": _page(_CHARGE),
    "GET /v0/wallet": {"data": dict},
    "GET /sandbox/v1": _STATE,
    "POST /sandbox/v1/reset": _STATE,
    "POST /sandbox/v1/restore": _STATE,
    "POST /sandbox/v1/fork": _NEW_SANDBOX,
    "POST /sandbox/v1/snapshots": _SNAPSHOT,
    "GET /sandbox/v1/snapshots": _page(_SNAPSHOT),
    "DELETE /sandbox/v1/snapshots/{}": _SNAPSHOT,
    "POST /sandbox/v1/diff": _DIFF,
    "GET /sandbox/v1/export": _EXPORT,
    "GET /sandbox/v1/clock": _CLOCK,
    "PATCH /sandbox/v1/clock": _CLOCK,
    "POST /sandbox/v1/clock/advance": {"now": instant, "count": int, "fired": [{"at": instant, "kind": str}]},
    "GET /sandbox/v1/clock/due": _page({"at": instant, "kind": str}),
    "POST /sandbox/v1/payments": _PAYMENT,
    "GET /sandbox/v1/payments": _page(_PAYMENT),
    "GET /sandbox/v1/payments/{}": _PAYMENT,
    "POST /sandbox/v1/payments/{}/settle": _PAYMENT,
    "POST /sandbox/v1/payments/{}/cancel": _PAYMENT,
    "GET /sandbox/v1/payments/{}/attempts": _page(dict),
    "GET /sandbox/v1/payers": _page(_RULE),
    "POST /sandbox/v1/payers": _RULE,
    "DELETE /sandbox/v1/payers": _CLEARED,
    "DELETE /sandbox/v1/payers/{}": _CLEARED,
    "GET /sandbox/v1/charges": _page(_CHARGE),
    "GET /sandbox/v1/charges/{}": {
        "charge": _CHARGE,
        "timeline": [dict],
        "scheduled": [dict],
        "omitted": int,
        "moreScheduled": int,
    },
    "POST /sandbox/v1/charges/{}/fail": _CHARGE,
    "GET /sandbox/v1/static-charges": _page(_STATIC_CHARGE),
    "GET /sandbox/v1/static-charges/{}": {"staticCharge": _STATIC_CHARGE, "payUrl": str},
    "GET /sandbox/v1/network/nodes": _page({"name": str}),
    "GET /sandbox/v1/network/nodes/{}": _NODE,
    "POST /sandbox/v1/network/nodes/{}/drain": _NODE,
    "POST /sandbox/v1/network/nodes/{}/rebalance": {"fee": digits},
    "POST /sandbox/v1/network/nodes/{}/channels": {"channel": int, "peer": str},
    "DELETE /sandbox/v1/network/channels/{}": _CLEARED,
    "GET /sandbox/v1/network/interceptors": _page({"id": str, "kind": str}),
    "POST /sandbox/v1/network/interceptors": {"id": str, "kind": str},
    "DELETE /sandbox/v1/network/interceptors/{}": _CLEARED,
    "GET /sandbox/v1/deliveries": _page(_DELIVERY),
    "GET /sandbox/v1/deliveries/{}": _DELIVERY,
    "POST /sandbox/v1/deliveries/{}/replay": _DELIVERY,
    "POST /sandbox/v1/deliveries/replay": {"replayed": int, "ids": [str]},
    "POST /sandbox/v1/deliveries/wait": {"reached": bool, "count": int},
    "POST /sandbox/v1/api-keys": _KEYS,
    "POST /sandbox/v1/api-keys/rotate": _KEYS,
    "GET /sandbox/v1/webhook-secret": _SECRETS,
    "POST /sandbox/v1/webhook-secret/rotate": _SECRETS,
    "GET /sandbox/v1/inboxes": _page(_INBOX),
    "GET /sandbox/v1/inboxes/{}": _FULL_INBOX,
    "PUT /sandbox/v1/inboxes/{}/script": _FULL_INBOX,
    "GET /sandbox/v1/faults": _page(_RULE),
    "POST /sandbox/v1/faults": _RULE,
    "DELETE /sandbox/v1/faults": _CLEARED,
    "DELETE /sandbox/v1/faults/{}": _CLEARED,
    "GET /sandbox/v1/service-faults": _page(_RULE),
    "POST /sandbox/v1/service-faults": _RULE,
    "DELETE /sandbox/v1/service-faults": _CLEARED,
    "DELETE /sandbox/v1/service-faults/{}": _CLEARED,
    "POST /sandbox/v1/receiver-check": {"url": str, "grade": (str, None), "checks": [dict]},
    "GET /sandbox/v1/journal": [{"sequence": int, "at": instant, "kind": str, "facts": dict}],
    "GET /sandbox/v1/requests": _page(_REQUEST),
    "GET /sandbox/v1/requests/{}": _REQUEST,
    "GET /sandbox/v1/search": {"data": [dict], "complete": bool},
    "POST /sandbox/v1/sandboxes": _NEW_SANDBOX,
    "POST /sandbox/v1/sandboxes/import": _NEW_SANDBOX,
    "GET /sandbox/v1/sandboxes": _page(_SANDBOX),
    "GET /sandbox/v1/sandboxes/{}": _SANDBOX,
    "DELETE /sandbox/v1/sandboxes/{}": _SANDBOX,
    "POST /sandbox/v1/sandboxes/{}/reset": _SANDBOX,
    "POST /sandbox/v1/sandboxes/{}/restore": _SANDBOX,
    "POST /sandbox/v1/sandboxes/{}/fork": _NEW_SANDBOX,
    "POST /sandbox/v1/sandboxes/{}/snapshots": _SNAPSHOT,
    "GET /sandbox/v1/sandboxes/{}/snapshots": _page(_SNAPSHOT),
    "DELETE /sandbox/v1/sandboxes/{}/snapshots/{}": _SNAPSHOT,
    "POST /sandbox/v1/sandboxes/{}/diff": _DIFF,
    "GET /sandbox/v1/sandboxes/{}/export": _EXPORT,
}

_KINDS: Mapping[Any, str] = {
    str: "no text", int: "no whole number", float: "no number", bool: "no boolean", dict: "no object", list: "no list",
    None: "not null",
}  # fmt: skip


def has_form(method: str, target: str) -> bool:
    """Whether the responses to this request have a form here."""
    return _form_of(method, target) is not None


def wrong_response(method: str, target: str, value: Any) -> str | None:
    """What is wrong with the JSON of a success, in one sentence; None if it has the form of Leyden's, and for a request
    that has no form here. `target` is the path below the base URL, and may have a query."""
    form = _form_of(method, target)
    return None if form is None else _wrong(value, form, "")


def _form_of(method: str, target: str) -> Form:
    parts = target.partition("?")[0].split("/")
    found = [known for known in FORMS if _matches(known, method.upper(), parts)]
    return FORMS[min(found, key=lambda known: known.count("{"))] if found else None


def _matches(known: str, method: str, parts: list[str]) -> bool:
    own, _, path = known.partition(" ")
    names = path.split("/")
    if own != method or len(names) != len(parts):
        return False
    return all(name == part or (name == "{}" and part != "") for name, part in zip(names, parts, strict=True))


def _wrong(value: Any, form: Form, place: str) -> str | None:
    """What is wrong with the value at this place."""
    name = place.removeprefix(".") or "its body"
    match form:
        case dict():
            if not isinstance(value, dict):
                return f"{name} is {_KINDS[dict]}"
            for key, inner in form.items():
                if key not in value:
                    return f"it has no field {place.removeprefix('.')}{'.' if place else ''}{key}"
                wrong = _wrong(value[key], inner, f"{place}.{key}")
                if wrong is not None:
                    return wrong
            return None
        case [inner] if isinstance(form, list):
            if not isinstance(value, list):
                return f"{name} is {_KINDS[list]}"
            return next((wrong for item in value if (wrong := _wrong(item, inner, place)) is not None), None)
        case tuple():
            faults = [_wrong(value, one, place) for one in form]
            return None if None in faults else faults[0]
        case type():
            is_right = isinstance(value, form) and (form is bool or not isinstance(value, bool))
            return None if is_right else f"{name} is {_KINDS[form]}"
        case None:
            return None if value is None else f"{name} is {_KINDS[None]}"
    test: Any = form
    return None if test(value) else f"{name} has another form"
