"""Responses that receivers on the network once gave, as a script of a run gives them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.arguments import checked_text, whole_number
from leyden.callbacks.mutations import SIGNATURE, STAMP
from leyden.errors import ArgumentError, UnknownAttempt
from leyden.server.ports import CallbackResponse
from leyden.server.printable import quoted


def recorded_response(
    *, status: Any, headers: Any, body: Any, error: Any, note: Any, latency_ms: Any, signed_s: Any
) -> CallbackResponse:
    """The response with these values; each character of `body` is the byte of that number (Latin-1).

    Raises `ArgumentError` for a value that no response has, and without exactly one of `status` and `error`.
    """
    if (status is None) == (error is None):
        raise ArgumentError("a response has either a status or an error: give one of status and error")
    if not isinstance(body, str) or not all(character <= "\xff" for character in body):
        raise ArgumentError(f"body={quoted(body, 60)} is no body: give a text in which each character is one byte")
    headers = {} if headers is None else headers
    if not isinstance(headers, Mapping):
        raise ArgumentError(f"headers={quoted(headers, 60)} are no headers: give a dict of names and values")
    return CallbackResponse(
        status=None if status is None else whole_number("status", status, 100, 599),
        headers={checked_text("headers", name): checked_text("headers", headers[name]) for name in headers},
        body=body.encode("latin-1"),
        error=None if error is None else checked_text("error", error),
        note=checked_text("note", note),
        latency_ms=whole_number("latency_ms", latency_ms, 0),
        signed_s=None if signed_s is None else whole_number("signed_s", signed_s, 0),
    )


def recorded_headers(signed: Any) -> dict[str, str]:
    """The headers in which the recorded request differs from that of a script's sandbox. Raises `ArgumentError` for
    others, and for values that no header has."""
    if signed is None:
        return {}
    if not isinstance(signed, Mapping) or not {*signed} <= {STAMP, SIGNATURE}:
        raise ArgumentError(f"signed={quoted(signed, 60)} are no such headers: give a dict of {STAMP} and {SIGNATURE}")
    return {name: checked_text("signed", signed[name]) for name in signed}


def recorded_id(delivery_id: Any, attempt: Any, copy: Any) -> str:
    """The `request_id` of an attempt or of its copy, whose `copy` is the id of the fault and the number of its hit.
    Raises `ArgumentError` for values that none has."""
    parts = [checked_text("delivery_id", delivery_id), whole_number("attempt", attempt, 1)]
    if copy is None:
        return "#".join(map(str, parts))
    if not isinstance(copy, list | tuple) or len(copy) != 2:
        raise ArgumentError(f"copy={quoted(copy, 60)} names no fault: give its id and the number of its hit")
    return "#".join(map(str, [*parts, checked_text("copy", copy[0]), whole_number("copy", copy[1], 0)]))


def unknown_attempt(delivery_id: str, attempt: int, *, is_recorded: bool) -> UnknownAttempt:
    """The error for an attempt that waits for no response. `is_recorded`: the sandbox has the egress mode of
    scripts."""
    more = "" if is_recorded else ": only a sandbox with egress='recorded' has attempts that do"
    return UnknownAttempt(
        f"no attempt {attempt} of the delivery {quoted(delivery_id, 60)} waits for a recorded response{more}"
    )
