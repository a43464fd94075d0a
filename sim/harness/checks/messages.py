"""Checks of callback messages, also of those that a fault has changed or copied [faults]: the body, every header, and
which body the signature covers. Each function raises `ContractViolation`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from leyden.harness.checks.clauses import header_clause
from leyden.harness.checks.responses import same, signature
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.records import Attempt, Delivery, Fault, ReceivedRequest
from leyden.harness.model.rules import iso

_ID, _STAMP, _SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
# The connection adds these headers, and the name of the sender is its own.
_OF_THE_SENDER = frozenset({"user-agent", "host", "content-length", "accept", "accept-encoding", "connection"})
# The defaults of `value` and `headers` (FaultKind, FaultCreate).
_TYPE, _FIELD, _STATUS = "text/plain", "surprise", "refunded"
_LEFT_OUT = (_ID, _STAMP, _SIGNATURE)


def received_request(request: Mapping[str, Any], wanted: ReceivedRequest, where: str) -> None:
    """A callback as its receiver got it: the message of the attempt, what a fault made of it, or a copy."""
    delivery = wanted.delivery
    attempt = delivery.attempts[wanted.number - 1]
    headers = _named(request["headers"])
    expected = {"at": iso(wanted.at), "url": delivery.url, "attempt": wanted.number, "copy": wanted.is_copy,
                "event": headers.get("leyden-event", "")}  # fmt: skip
    same(expected, {name: request[name] for name in expected}, "callback_contract", "callback-delivery", where)
    body: str = request["body"]
    if wanted.is_copy:
        assert wanted.fault is not None
        _copy(headers, body, wanted, wanted.fault, attempt, where)
    else:
        _message(request["headers"], body, delivery, attempt, wanted.fault, where)


def attempted(row: Mapping[str, Any], delivery: Delivery, attempt: Attempt, where: str) -> None:
    """The headers of an attempt as the control plane shows them [callback-signature], and what a fault sent instead."""
    _compared(_wanted(delivery, attempt), _named(row["headers"]), "callback-signature", f"{where}: headers")
    fault, sent = attempt.changed_by, row["sent"]
    count = None if fault is None else 0 if fault.kind == "drop" else 1
    if (None if sent is None else len(sent)) != count:
        raise ContractViolation("callback_contract", "faults", f"{where}: sent", f"{count} messages", sent)
    for one in sent or ():
        _message(one["headers"], one["body"], delivery, attempt, fault, f"{where}: sent")


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _wanted(delivery: Delivery, attempt: Attempt) -> dict[str, str]:
    """The headers of the message of an attempt, without those of the sender."""
    stamp_s, text = attempt.at // 1_000, delivery.text or ""
    return {
        "content-type": "application/json",
        _ID: delivery.id or "",
        _STAMP: str(stamp_s),
        _SIGNATURE: signature(attempt.secrets, delivery.id or "", stamp_s, text),
        "leyden-event": delivery.event,
        "leyden-attempt": str(attempt.number),
        "leyden-time": iso(attempt.at),
    }


def _compared(wanted: Mapping[str, str], found: Mapping[str, str], rule: str, where: str) -> None:
    observed = {name: value for name, value in found.items() if name not in _OF_THE_SENDER}
    rule = header_clause(wanted, observed) if rule == "callback-signature" else rule
    same(wanted, observed, "callback_contract", rule, where)


def _message(
    headers: Mapping[str, str], body: str, delivery: Delivery, attempt: Attempt, fault: Fault | None, where: str
) -> None:
    """A message is that of the attempt, or what the fault makes of it."""
    wanted, found, text = _wanted(delivery, attempt), _named(headers), delivery.text or ""
    if fault is None:
        same(text, body, "callback_contract", "callback-body", f"{where}: body")
        _compared(wanted, found, "callback-signature", where)
        return
    where = f"{where}, fault {fault.kind}"
    signed = _changed_body(body, text, fault, f"{where}: body")
    stamp_s = attempt.at // 1_000
    if fault.kind in {"stale_timestamp", "future_timestamp"}:
        stamp_s += (fault.delay_ms if fault.kind == "future_timestamp" else -fault.delay_ms) // 1_000
    secrets = attempt.secrets
    if fault.kind == "old_secret":
        assert attempt.earlier_secret is not None
        secrets = [attempt.earlier_secret]
    wanted |= {_STAMP: str(stamp_s), _SIGNATURE: signature(secrets, delivery.id or "", stamp_s, signed)}
    if fault.kind == "wrong_content_type":
        wanted["content-type"] = fault.value or _TYPE
    elif fault.kind == "missing_headers":
        left_out = {name.lower() for name in fault.names or _LEFT_OUT}
        wanted = {name: value for name, value in wanted.items() if name not in left_out}
        same([], sorted(left_out & found.keys()), "callback_contract", "faults", f"{where}: headers that are left out")
    elif fault.kind in {"bad_signature", "two_signatures", "unknown_version"}:
        wanted[_SIGNATURE] = _other_signature(fault.kind, wanted[_SIGNATURE], found.get(_SIGNATURE, ""), where)
    _compared(wanted, found, "faults", where)


def _other_signature(kind: str, valid: str, found: str, where: str) -> str:
    """The signature header that a fault of the signature sends; a random part of it is that of the message."""
    if kind == "unknown_version":
        return valid.replace("v1,", "v2,")
    first = found.partition(" ")[0]
    if not first.startswith("v1,") or first in valid.split(" "):
        raise ContractViolation("callback_contract", "faults", f"{where}: {_SIGNATURE}", "an invalid one first", found)
    return first if kind == "bad_signature" else f"{first} {valid}"


def _changed_body(body: str, text: str, fault: Fault, where: str) -> str:
    """Check the body that a fault sends. Returns the text that the signature covers."""
    match fault.kind:
        case "truncated_body":
            raw = text.encode()
            halves = {raw[:size].decode("utf-8", "replace") for size in (len(raw) // 2, (len(raw) + 1) // 2)}
            if body not in halves:
                raise ContractViolation("callback_contract", "faults", where, f"half of {text}", body)
            return text
        case "unknown_field":
            _other_member(text, body, fault.value or _FIELD, where, is_new=True)
            return body
        case "unknown_status":
            observed = _other_member(text, body, "status", where)
            same(fault.value or _STATUS, observed, "callback_contract", "faults", f"{where}: status")
            return body
        case "changed_body":
            _other_member(text, body, "amount", where)
            return text
    same(text, body, "callback_contract", "callback-body", where)
    return text


def _other_member(text: str, body: str, name: str, where: str, *, is_new: bool = False) -> Any:
    """The body has the members of the text, but another value of this one, or with `is_new` this one in addition.
    Returns its value."""
    try:
        members, other = dict(_members(json.loads(text))), dict(_members(json.loads(body)))
    except (ValueError, AttributeError):
        raise ContractViolation("callback_contract", "faults", where, "a JSON object", body) from None
    changed = [path for path in {**members, **other} if members.get(path, ...) != other.get(path, ...)]
    found = [path for path in changed if path[-1] == name and path in other and (path in members) is not is_new]
    if len(changed) != 1 or changed != found:
        words = f"the members of {text}, and {'a new' if is_new else 'another'} {name}"
        raise ContractViolation("callback_contract", "faults", where, words, body)
    return other[found[0]]


def _members(value: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The members of a message by their paths; those of an envelope's `data` by themselves."""
    for name, one in value.items():
        if name == "data" and isinstance(one, Mapping):
            yield from (((name, *path), each) for path, each in _members(one))
        else:
            yield (name,), one


def _copy(
    headers: Mapping[str, str], body: str, wanted: ReceivedRequest, fault: Fault, attempt: Attempt, where: str
) -> None:
    """A copy that a fault sends: the same bytes, or the same body signed and timed anew, under the id of the delivery
    or under another one."""
    where = f"{where}, copy by {fault.kind}"
    delivery = wanted.delivery
    same(delivery.text, body, "callback_contract", "callback-body", f"{where}: body")
    expected = _wanted(delivery, attempt)
    if fault.kind in {"redeliver", "duplicate_new_id"}:
        message_id, stamp_s = delivery.id or "", wanted.at // 1_000
        if fault.kind == "duplicate_new_id":
            message_id = headers.get(_ID, "")
            if message_id in {"", delivery.id}:
                raise ContractViolation("callback_contract", "faults", f"{where}: {_ID}", "another id", message_id)
        signed = signature(wanted.secrets, message_id, stamp_s, body)
        expected |= {_ID: message_id, _STAMP: str(stamp_s), _SIGNATURE: signed, "leyden-time": iso(wanted.at)}
    _compared(expected, headers, "faults", where)
