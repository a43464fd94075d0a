"""The ports of the service: what it needs from its environment, as protocols and plain values.

This module has no behaviour. `leyden` implements every protocol for the simulation; `leyden.server.system` implements
those that use the system clock and the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

# The order of events at one instant: settlements first, then expiries, then callbacks, then user actions.
SETTLEMENT, EXPIRY, CALLBACK, USER = range(4)

# The extension of an ASGI scope that has the connection of the request (`server/system/http_server`).
CONNECTION = "leyden.connection"
# A key of the message `http.response.start` after it was sent: the headers that the server has added to it.
ADDED_HEADERS = "leyden.added_headers"

_NO_HEADERS: Mapping[str, str] = {}


class Clock(Protocol):
    """Time and timers. A timer is plain data; there is at most one for each `(kind, key)`."""

    def now(self) -> int:
        """The present instant in milliseconds since the epoch; never less than an earlier value."""

    def call_at(self, when_ms: int, priority: int, kind: str, key: str) -> None:
        """Call the handler of `kind` with `key` at `when_ms`, or now if that has passed.

        It replaces an existing `(kind, key)` timer.
        """

    def cancel(self, kind: str, key: str) -> None:
        """Remove the `(kind, key)` timer; no error when there is none."""

    def on(self, kind: str, run: Callable[[str], None], repeated: str | None = None) -> None:
        """Register the handler of `kind`; called once per kind, before the first timer fires. The timer with the key
        `repeated` is always set again: a run until nothing is scheduled ends without it."""


class RandomSource(Protocol):
    """One named, seeded random stream. Its position is a single integer, so it can be stored and forked."""

    def bytes(self, count: int) -> bytes:
        """`count` random bytes."""

    def uniform(self) -> float:
        """A number in [0, 1)."""

    def below(self, bound: int) -> int:
        """A whole number in [0, bound)."""


class EventJournal(Protocol):
    """The log of all events, in order; its hash proves that a run was reproduced."""

    def note(self, kind: str, subject: str, **facts: Any) -> None:
        """Append an event. Facts are JSON values; the journal adds the clock's time."""


class InvoiceParams(NamedTuple):
    """The parameters of a new invoice.

    `payable_until_ms` is the last instant at which the node may accept a payment. The service computes it from its
    lifecycle table, so that the node and the table agree about the boundary.
    """

    amount_msat: int
    description: str
    timestamp_s: int
    expiry_s: int
    payable_until_ms: int
    description_hash: bytes | None = None


class Invoice(NamedTuple):
    """An issued invoice: the payment hash as 64 hex digits, and the BOLT11 payment request."""

    payment_hash: str
    request: str


class SettledInvoice(NamedTuple):
    """The node reports a paid invoice: `amount_msat` is the amount received, the sum of all parts."""

    payment_hash: str
    amount_msat: int
    settled_at: int
    preimage: str


class FailedInvoice(NamedTuple):
    """The node reports an invoice that it can no longer settle."""

    payment_hash: str
    reason: str
    failed_at: int


class LightningNode(Protocol):
    """The project's Lightning node. It signs invoices and reports what becomes of them."""

    def issue(self, params: InvoiceParams, /) -> Invoice:
        """Make and sign an invoice that is open from now."""

    def cancel(self, payment_hash: str, because: str = "") -> None:
        """Cancel an open or accepted invoice and fail its held HTLCs; no effect on a settled or canceled one.

        `because` completes the sentence "the invoice was closed: ...", which its payers read.
        """

    def on_settled(self, listener: Callable[[SettledInvoice], None]) -> None:
        """Register the listener for settlements. A settlement is final and is reported exactly once."""

    def on_failed(self, listener: Callable[[FailedInvoice], None]) -> None:
        """Register the listener for invoices that the node loses, or whose held payment it fails."""


class CallbackRequest(NamedTuple):
    """One attempt to deliver a callback: the exact headers and body.

    `timeout_ms` bounds the whole attempt, `connect_timeout_ms` the connection set-up. `send_duration_ms` is the time
    that the sender takes to send the body; it is 0 except in tests of a receiver's timeouts.

    `copied_by` is set on a copy that an injected fault sends in addition to the original: the fault's id and the number
    of its hit.
    """

    delivery_id: str
    attempt: int
    url: str
    headers: Mapping[str, str]
    body: bytes
    connect_timeout_ms: int
    timeout_ms: int
    send_duration_ms: int = 0
    copied_by: tuple[str, int] | None = None


class CallbackResponse(NamedTuple):
    """The result of a `CallbackRequest`. Exactly one of `status` (an HTTP response) and `error` is given.

    `error` is one of `timeout`, `refused`, `reset`, `unresolved`, `tls`, `protocol`, `blocked`, `lost`; `note` explains
    it. `body` is the beginning of the response's body. `latency_ms` is the length of the attempt on the transport's own
    clock. `sent` is false for a request that was never to leave; one that is `blocked` did not leave either.
    `signed_s` is given with a response that is a recorded one: the signed timestamp of the request that it answered.
    """

    status: int | None = None
    headers: Mapping[str, str] = _NO_HEADERS
    body: bytes = b""
    error: str | None = None
    note: str = ""
    latency_ms: int = 0
    sent: bool = True
    signed_s: int | None = None


OnResponse = Callable[[CallbackRequest, CallbackResponse], None]


class CallbackTransport(Protocol):
    """Sends callbacks. It never blocks: the response is reported through `on_response`, at once or later."""

    def post(self, request: CallbackRequest, on_response: OnResponse, /) -> None:
        """Send, and call `on_response(request, response)` exactly once."""

    def receiver_time_s(self, url: str) -> int:
        """The time with which the receiver at this URL compares signatures, in seconds since the epoch: real time for a
        receiver on the network, sandbox time for one in this process."""
