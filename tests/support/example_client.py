"""A client of the charge service, as a program: it creates a Charge and waits until it is paid. The arguments are
mistakes, or `good`.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import sys
import time
import uuid
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

MISTAKES = (
    "no key", "new key", "repeats refusals", "ignores Retry-After", "reads HTML as JSON", "logs the key", "no timeout",
    "timeout of a read only", "strict fields", "always succeeds", "never gives up", "believes the first read",
    "ends at 409", "takes a lost answer for success", "honours Retry-After of 429 only", "reads any content type",
    "takes Date for the time", "polls without a pause", "logs the key in base64", "logs the key first of much output",
    "repeats 404", "ends at the first failure", "retries without a pause", "reads nothing as JSON",
    "crashes at a reset", "writes the time into the body", "hangs at a reset",
)  # fmt: skip
ATTEMPTS, TIMEOUT_S, PAUSE_S = 4, 1.0, 0.1
URL, KEY = os.environ.get("LEYDEN_URL", ""), os.environ.get("LEYDEN_API_KEY", "")
MADE = frozenset(sys.argv[1:])
FIELDS = {
    "id", "status", "amount", "description", "internalId", "callbackUrl", "createdAt", "expiresAt", "confirmedAt",
    "invoice", "staticChargeId",
}  # fmt: skip


def makes(*mistakes: str) -> bool:
    """Whether this client makes one of these mistakes."""
    return not MADE.isdisjoint(mistakes)


class Refused(Exception):
    """The service refuses the request for good."""


class Failed(Exception):
    """The request may be repeated after `pause_s`."""

    def __init__(self, why: str, pause_s: float = 0) -> None:
        super().__init__(why)
        self.pause_s = pause_s


def once(method: str, target: str, body: dict[str, Any] | None, key: str) -> Any:
    """Send a request and return the JSON of its response."""
    parts = urlsplit(URL)
    timeout = None if makes("no timeout") else TIMEOUT_S
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    headers = {"apikey": KEY, "content-type": "application/json"}
    if key and not makes("no key"):
        headers["Idempotency-Key"] = str(uuid.uuid4()) if makes("new key") else key
    if body is not None and makes("writes the time into the body"):
        body = {**body, "description": f"tea at {time.time()}"}
    end_s = time.monotonic() + TIMEOUT_S
    try:
        connection.request(method, target, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = b""
        while part := response.read1(1_000):
            text += part
            if time.monotonic() > end_s and not makes("no timeout", "timeout of a read only"):
                raise Failed("the response is too slow")
        if response.length:
            raise Failed("the response is incomplete")
    except (OSError, http.client.HTTPException) as error:
        if makes("crashes at a reset"):
            raise
        if makes("hangs at a reset"):
            time.sleep(60)
        raise Failed(repr(error)) from None
    finally:
        connection.close()
    if makes("logs the key") and response.status != 200:
        print(f"{response.status} for {headers}")
    if makes("logs the key in base64") and response.status != 200:
        print(f"{response.status} for {base64.b64encode(repr(headers).encode()).decode()}")
    if makes("logs the key first of much output") and response.status != 200:
        print(f"{response.status} for {headers}", "much output " * 50_000)
    if makes("reads HTML as JSON" if text else "reads nothing as JSON"):
        json.loads(text)
    refusals = {400, 401, 403, 404}
    if makes("ends at 409"):
        refusals.add(409)
    if makes("repeats 404"):
        refusals.remove(404)
    if response.status in refusals and not makes("repeats refusals"):
        raise Refused(f"HTTP {response.status}")
    if response.status != 200:
        wait = response.getheader("retry-after")
        if makes("ignores Retry-After") or (makes("honours Retry-After of 429 only") and response.status != 429):
            wait = None
        raise Failed(f"HTTP {response.status}", float(wait or 0))
    if response.getheader("content-type") != "application/json" and not makes("reads any content type"):
        raise Failed("the response has another content type")
    try:
        found = json.loads(text)
    except ValueError:
        raise Failed("the response is no JSON") from None
    if makes("takes Date for the time") and (written := response.getheader("date")):
        date = parsedate_to_datetime(written)
        if not -300 < (datetime.now(UTC) - date).total_seconds() < 300:
            raise Refused("the answer is not from this time")
    unknown = found["data"].keys() - FIELDS
    if makes("strict fields") and any(name.startswith("x_") for name in unknown):
        raise TypeError(f"unexpected field {sorted(unknown)}")
    return found["data"]


def ask(method: str, target: str, body: dict[str, Any] | None = None, key: str = "") -> Any:
    """The same, repeated with growing pauses."""
    attempts = 1 if makes("ends at the first failure", "takes a lost answer for success") else ATTEMPTS
    attempts = 10 if makes("retries without a pause") else attempts
    attempt = 0
    while True:
        try:
            return once(method, target, body, key)
        except Failed as failed:
            attempt += 1
            if attempt == attempts and not makes("never gives up"):
                raise
            if not makes("retries without a pause", "never gives up"):
                time.sleep(max(failed.pause_s, PAUSE_S * 2**attempt))


def main() -> int:
    try:
        charge = ask("POST", "/v0/charges", {"amount": "21000", "description": "tea"}, str(uuid.uuid4()))
        pause_s = 2.0 if makes("believes the first read") else 0.0 if makes("polls without a pause") else 0.2
        end_s = time.monotonic() + 4
        while time.monotonic() < end_s:
            time.sleep(pause_s)
            if ask("GET", f"/v0/charges/{charge['id']}")["status"] == "completed":
                return 0
            if makes("believes the first read"):
                return 1
    except (Refused, Failed) as error:
        print(f"the charge was not created: {error}", file=sys.stderr)
        if makes("takes a lost answer for success") and isinstance(error, Failed):
            return 0
    return 0 if makes("always succeeds") else 1


if __name__ == "__main__":
    sys.exit(main())
