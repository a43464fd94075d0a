"""Two callback receivers as integrators write them: a careful one, and one that trusts every message.

Both say in the header `leyden-effect` what they did, so that the receiver check can see it. That is all they do for it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.support.http_servers import handling

PAID, CLOSED = "completed", ("expired", "error")


class ShopRecords:
    """A shop's records: the messages that it has processed, and the state of each Charge."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.messages: set[str] = set()
        self.charges: dict[str, str] = {}
        self.credited_msat = 0


class Handler(BaseHTTPRequestHandler):
    secret: str
    books: ShopRecords

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            status, effect = self.receive(body)
        except (ValueError, LookupError, TypeError, AttributeError):  # what an unchecked body can cause
            status, effect = 500, "ignored"
        self.send_response(status)
        self.send_header("leyden-effect", effect)
        self.send_header("content-length", "0")
        self.end_headers()

    @abstractmethod
    def receive(self, body: bytes) -> tuple[int, str]:
        """The status to answer with, and what became of the message: `applied` or `ignored`."""

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class CarefulReceiver(Handler):
    """Verifies first, parses with suspicion, acts once, and answers 200 to whatever is sound."""

    def receive(self, body: bytes) -> tuple[int, str]:
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            Webhook(self.secret).verify(body, headers)
        except (WebhookVerificationError, ValueError):
            return 401, "ignored"
        try:
            update = json.loads(body)
        except ValueError:
            return 400, "ignored"
        if not isinstance(update, dict):
            return 400, "ignored"
        charge, status, amount = update.get("id"), update.get("status"), update.get("amount")
        if headers.get("leyden-event") not in {"charge.completed", "charge.expired", "charge.error"}:
            return 200, "ignored"
        if not (isinstance(charge, str) and isinstance(status, str) and isinstance(amount, str) and amount.isdigit()):
            return 400, "ignored"
        if status != PAID and status not in CLOSED:
            return 200, "ignored"
        books = self.books
        with books.lock:  # where a shop has a transaction and two unique keys
            if headers["webhook-id"] in books.messages or charge in books.charges:
                return 200, "ignored"
            books.messages.add(headers["webhook-id"])
            books.charges[charge] = status
            if status == PAID:
                books.credited_msat += int(amount)
        return 200, "applied"


class CarelessReceiver(Handler):
    """Passed every test its author thought of: it prints the JSON again to verify it, looks at one signature, trusts
    whoever sends none, never at the time, and credits whatever says completed."""

    def receive(self, body: bytes) -> tuple[int, str]:
        update = json.loads(body)
        given = self.headers.get("webhook-signature")
        if given is not None:
            printed = json.dumps(update, separators=(",", ":"), ensure_ascii=False)
            signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.{printed}"
            key = base64.b64decode(self.secret.removeprefix("whsec_"))
            expected = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
            if not f"v1,{expected}".startswith(given):
                return 401, "ignored"
        if update["status"] == "completed":
            self.books.credited_msat += int(update["amount"])
            return 200, "applied"
        if update["status"] in CLOSED:
            return 200, "applied"
        return 400, "ignored"


@contextmanager
def serving_receiver(kind: type[Handler], secret: str) -> Iterator[tuple[str, ShopRecords]]:
    """The receiver on a free port of this machine: its URL and its records."""
    books = ShopRecords()

    class Bound(kind):  # type: ignore[misc, valid-type]
        pass

    Bound.secret, Bound.books = secret, books
    with handling(Bound) as url:
        yield url, books
