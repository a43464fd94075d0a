"""The sockets the world plugs into: what the service asks for, and what it is told.

Nothing here does anything. `sim` implements every protocol; `leyden.server.system.process` implements those that touch
the real clock and the real network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

# At one instant the world moves in this order: money first, then invoices running out, then what we tell others,
# then whoever is at the keyboard.
SETTLEMENT, EXPIRY, CALLBACK, USER = range(4)


class Clock(Protocol):
    """Time, and a wish to be woken. A timer is plain data, and at most one of each `(kind, key)` stands."""

    def now(self) -> int:
        """The present instant in milliseconds since the epoch; never less than a value returned before."""

    def call_at(self, when_ms: int, priority: int, kind: str, key: str) -> None:
        """Wake `kind` with `key` at `when_ms` (now, if that has passed). Replaces a standing `(kind, key)` timer."""

    def cancel(self, kind: str, key: str) -> None:
        """Forget the `(kind, key)` timer; no error when there is none."""

    def on(self, kind: str, run: Callable[[str], None]) -> None:
        """Say who is woken for `kind`; called once per kind while the world is put together."""


class RandomSource(Protocol):
    """One named, seeded stream of random numbers. Its position is a single integer, so it can be stored and forked."""

    def bytes(self, count: int) -> bytes:
        """`count` random bytes."""

    def uniform(self) -> float:
        """A number in [0, 1)."""

    def below(self, bound: int) -> int:
        """A whole number in [0, bound)."""


class EventJournal(Protocol):
    """The record of everything that happened, in order; its hash proves that a run was reproduced."""

    def note(self, kind: str, subject: str, **facts: Any) -> None:
        """Write down that `kind` happened to `subject`. Facts are JSON values; the clock's time is added."""


class InvoiceParams(NamedTuple):
    """What the service asks a node to put in an invoice.

    `payable_until_ms` is the last instant at which the node may still accept a payment: the service reads it off
    its lifecycle table, so the node and the table cannot disagree about the boundary.
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
    """The node's word that an invoice was paid: `amount_msat` is what arrived (the sum of its parts)."""

    payment_hash: str
    amount_msat: int
    settled_at: int
    preimage: str


class FailedInvoice(NamedTuple):
    """The node's word that it can no longer honour an invoice."""

    payment_hash: str
    reason: str
    failed_at: int


class LightningNode(Protocol):
    """The project's node. It signs invoices and reports what became of them."""

    def issue(self, order: InvoiceParams) -> Invoice:
        """Make and sign an invoice that is open from now."""

    def cancel(self, payment_hash: str) -> None:
        """Close an open or held invoice: held parts go back to the payer. No effect on a settled or closed one."""

    def on_settled(self, listener: Callable[[SettledInvoice], None]) -> None:
        """Say who is told of settlements. A settlement is final; it is reported exactly once."""

    def on_failed(self, listener: Callable[[FailedInvoice], None]) -> None:
        """Say who is told when the node loses an invoice or fails a held payment on it."""


@dataclass(frozen=True, slots=True)
class CallbackRequest:
    """One attempt to deliver one message: exact bytes and headers, ready to be sent.

    `timeout_ms` bounds the whole attempt, `connect_timeout_ms` its beginning. `over_ms` is how long the sender itself
    takes over the body: 0 unless somebody wants to see what a receiver makes of a slow one.
    """

    delivery_id: str
    attempt: int
    url: str
    headers: Mapping[str, str]
    body: bytes
    connect_timeout_ms: int
    timeout_ms: int
    send_duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class CallbackResponse:
    """What became of a `Post`. Exactly one of `status` (an HTTP answer) and `error` is given.

    `error` is one word: `timeout`, `refused`, `reset`, `unresolved`, `tls`, `protocol`, `blocked`; `note` explains
    it to people. `body` is what was kept of the answer's body. `latency_ms` is the attempt's length on the
    courier's own clock.
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    error: str | None = None
    note: str = ""
    latency_ms: int = 0


class CallbackTransport(Protocol):
    """Who carries callbacks out. It never blocks: the answer comes back through `answered`, at once or later."""

    def post(self, post: CallbackRequest, answered: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        """Send, and call `answered(post, answer)` exactly once."""

    def wall_seconds(self, url: str) -> int:
        """The time this URL's receiver compares signatures with: real seconds out there, sandbox seconds in process."""
