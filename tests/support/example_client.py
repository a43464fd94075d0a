"""A client of the charge service, as a program: it creates a Charge and waits until it is paid. The argument is a
mistake, or `good`.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
import uuid
from typing import Any
from urllib.parse import urlsplit

MISTAKES = (
    "no key", "new key", "repeats refusals", "ignores Retry-After", "reads HTML as JSON", "logs the key", "no timeout",
    "timeout of a read only", "strict fields", "always succeeds", "never gives up", "believes the first read",
    "ends at 409",
)  # fmt: skip
ATTEMPTS, TIMEOUT_S, PAUSE_S = 4, 1.0, 0.1
URL, KEY = os.environ.get("LEYDEN_URL", ""), os.environ.get("LEYDEN_API_KEY", "")
MISTAKE = sys.argv[1] if len(sys.argv) > 1 else "good"
FIELDS = {
    "id", "status", "amount", "description", "internalId", "callbackUrl", "createdAt", "expiresAt", "confirmedAt",
    "invoice", "staticChargeId",
}  # fmt: skip


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
    timeout = None if MISTAKE == "no timeout" else TIMEOUT_S
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    headers = {"apikey": KEY, "content-type": "application/json"}
    if key and MISTAKE != "no key":
        headers["Idempotency-Key"] = str(uuid.uuid4()) if MISTAKE == "new key" else key
    end_s = time.monotonic() + TIMEOUT_S
    try:
        connection.request(method, target, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = b""
        while part := response.read1(1_000):
            text += part
            if time.monotonic() > end_s and MISTAKE not in ("no timeout", "timeout of a read only"):
                raise Failed("the response is too slow")
        if response.length:
            raise Failed("the response is incomplete")
    except (OSError, http.client.HTTPException) as error:
        raise Failed(repr(error)) from None
    finally:
        connection.close()
    if MISTAKE == "logs the key" and response.status != 200:
        print(f"{response.status} for {headers}")
    if MISTAKE == "reads HTML as JSON":
        json.loads(text)
    refusals = (400, 401, 403, 404) if MISTAKE != "ends at 409" else (400, 401, 403, 404, 409)
    if response.status in refusals and MISTAKE != "repeats refusals":
        raise Refused(f"HTTP {response.status}")
    if response.status != 200:
        wait = response.getheader("retry-after") if MISTAKE != "ignores Retry-After" else None
        raise Failed(f"HTTP {response.status}", float(wait or 0))
    try:
        found = json.loads(text)
    except ValueError:
        raise Failed("the response is no JSON") from None
    unknown = found["data"].keys() - FIELDS
    if MISTAKE == "strict fields" and any(name.startswith("x_") for name in unknown):
        raise TypeError(f"unexpected field {sorted(unknown)}")
    return found["data"]


def ask(method: str, target: str, body: dict[str, Any] | None = None, key: str = "") -> Any:
    """The same, repeated with growing pauses."""
    attempt = 0
    while True:
        try:
            return once(method, target, body, key)
        except Failed as failed:
            attempt += 1
            if MISTAKE == "never gives up":
                continue
            if attempt == ATTEMPTS:
                raise
            time.sleep(max(failed.pause_s, PAUSE_S * 2**attempt))


def main() -> int:
    try:
        charge = ask("POST", "/v0/charges", {"amount": "21000", "description": "tea"}, str(uuid.uuid4()))
        for _ in range(20):
            time.sleep(1 if MISTAKE == "believes the first read" else 0.2)
            if ask("GET", f"/v0/charges/{charge['id']}")["status"] == "completed":
                return 0
            if MISTAKE == "believes the first read":
                return 1
    except (Refused, Failed) as error:
        print(f"the charge was not created: {error}", file=sys.stderr)
    return 0 if MISTAKE == "always succeeds" else 1


if __name__ == "__main__":
    sys.exit(main())
