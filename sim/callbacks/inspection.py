"""Verification of callbacks as a careful receiver does it: signature, timestamp and body."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from leyden.server.callbacks.signing import sign_once
from leyden.server.contract.json_schema.ecma_patterns import with_written_patterns
from leyden.server.contract.schema_errors import several_errors
from leyden.server.contract.types import CallbackRule

TOLERANCE_S = 300  # Standard Webhooks: five minutes either way
NO_MATCH = "no signature matches a valid secret"


def signature_faults(secrets: Sequence[str], headers: Mapping[str, str], body: str, now_s: int) -> list[str]:
    """The reasons for which a Standard Webhooks receiver, with its clock at `now_s`, rejects a callback."""
    missing = [name for name in ("webhook-id", "webhook-timestamp", "webhook-signature") if not headers.get(name)]
    if missing:
        return [f"header missing: {name}" for name in missing]
    text = headers["webhook-timestamp"]
    if not (text.isascii() and text.isdigit() and len(text) <= 11):
        return [f"webhook-timestamp {text!r} is not a number of seconds"]
    stamp_s = int(text)
    faults = []
    if abs(stamp_s - now_s) > TOLERANCE_S:
        faults.append(f"webhook-timestamp is {abs(stamp_s - now_s)} s {'old' if stamp_s < now_s else 'in the future'}")
    # The package's verify() uses the system clock; this function uses the sandbox's clock.
    expected = [sign_once(secret, headers["webhook-id"], stamp_s, body) for secret in secrets]
    given = headers["webhook-signature"].split(" ")
    if not any(hmac.compare_digest(one.encode(), other.encode()) for one in expected for other in given):
        faults.append(NO_MATCH)
    return faults


def is_json_type(content_type: str) -> bool:
    """Whether the header names JSON, with or without parameters."""
    return content_type.partition(";")[0].strip().lower() == "application/json"


def body_faults(rules: Mapping[str, CallbackRule], headers: Mapping[str, str], body: bytes) -> list[str]:
    """The violations of the contract in a body: not JSON, an unknown event, or a shape that the spec does not allow."""
    faults = []
    kind = headers.get("content-type", "")
    if not is_json_type(kind):
        faults.append(f"content-type is {kind!r}, not application/json")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return [*faults, f"the body is not JSON: {error}"]
    event = headers.get("leyden-event", "")
    fitting = [rule for rule in rules.values() if event in rule.delivery.events.values()]
    if not fitting:
        return [*faults, f"leyden-event {event!r} is not in the spec"]
    # Two callbacks may share an event: the body must be one of theirs.
    if any(rule.rule.validator.is_valid(value) for rule in fitting):
        return faults
    objections = [list(_objections(rule, value)) for rule in fitting]
    return [*faults, *min(objections, key=len)]


def _objections(rule: CallbackRule, value: Any) -> Iterator[str]:
    for error in several_errors(rule.rule.validator, value):
        place = "".join(f"/{step}" for step in error.instance_path)
        yield f"{place or 'the body'}: {with_written_patterns(error.message)}"
