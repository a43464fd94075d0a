"""An oracle for invoices, written from the rules of BOLT 4 and BOLT 11, independent of the code under test.

Its only state is the list of events so far, which it reads from the start for every question: slow and simple.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

UNKNOWN_DETAILS = 0x4000 | 15  # BOLT 4: incorrect_or_unknown_payment_details
MPP_TIMEOUT = 23  # BOLT 4: mpp_timeout
# BOLT 2: a node gives back what it received 18 blocks before it expires. A block takes ten minutes.
DEADLINE_BLOCKS, BLOCK_MS = 18, 600_000


@dataclass(frozen=True)
class Issued:
    """An invoice, payable until an instant, that one included. BOLT 11: `c` is `final_delta`."""

    at: int
    hash: str
    secret: str
    amount: int
    until: int


@dataclass(frozen=True)
class Arrived:
    """A part of a payment at the final node, while the chain has `height` blocks."""

    at: int
    part: str
    hash: str
    secret: str | None
    amount: int
    total: int
    expiry: int
    hold: bool
    height: int


@dataclass(frozen=True)
class Word:
    """A decision of the receiver on an invoice: `release`, `close` or `give_back`."""

    at: int
    hash: str
    word: str


Event = Issued | Arrived | Word


@dataclass(frozen=True)
class Rules:
    """The receiver's options."""

    final_delta: int
    mpp_ms: int
    takes_any_overpayment: bool


@dataclass(frozen=True)
class Account:
    """One invoice's present: its state, what it brought, and each part's answer (None: none yet; 0: the preimage)."""

    state: str
    received: int
    answers: dict[str, int | None]


def account(events: list[Event], hash: str, now: int, rules: Rules) -> Account:
    """Where an invoice stands at an instant, everything due then included."""
    answers: dict[str, int | None] = {}
    invoice: Issued | None = None
    state, received = "NONE", 0
    pending: list[Arrived] = []

    def answer_all(code: int) -> None:
        for part in pending:
            answers[part.part] = code
        pending.clear()

    for event in _until(events, hash, now):
        if state == "OPEN" and pending and pending[0].at + rules.mpp_ms <= event_time(event, now):
            # "MUST fail all HTLCs in the HTLC set after some reasonable timeout", counted from the first part.
            answer_all(MPP_TIMEOUT)
        if state == "ACCEPTED" and _hold_ends(pending) <= event_time(event, now):
            state = "OPEN"
            answer_all(UNKNOWN_DETAILS)
        if event is None:
            break
        if isinstance(event, Issued):
            invoice, state = event, "OPEN"
        elif isinstance(event, Arrived):
            verdict = _verdict(event, invoice, state, pending, rules)
            if verdict == "set":
                answer_all(UNKNOWN_DETAILS)
            if verdict:
                answers[event.part] = UNKNOWN_DETAILS
                continue
            pending.append(event)
            answers[event.part] = None
            if sum(part.amount for part in pending) >= event.total:
                if any(part.hold for part in pending):
                    state = "ACCEPTED"
                else:
                    state, received = "SETTLED", sum(part.amount for part in pending)
                    answer_all(0)
        elif event.word == "release" and state == "ACCEPTED" and invoice is not None and event.at <= invoice.until:
            state, received = "SETTLED", sum(part.amount for part in pending)
            answer_all(0)
        elif event.word == "close" and state in ("OPEN", "ACCEPTED"):
            state = "CANCELED"
            answer_all(UNKNOWN_DETAILS)
        elif event.word == "give_back" and state == "OPEN":
            answer_all(UNKNOWN_DETAILS)
    return Account(state, received, answers)


def _verdict(part: Arrived, invoice: Issued | None, state: str, pending: list[Arrived], rules: Rules) -> str:
    """Whether a part is refused ("part"), takes all others with it ("set"), or stays ("")."""
    # One code for an unknown, a closed and another payer's invoice: a payer cannot distinguish them.
    if invoice is None or part.secret is None or state != "OPEN" or part.at > invoice.until:
        return "part"
    if part.secret != invoice.secret or part.total <= 0:
        return "part"
    if part.total < invoice.amount:
        return "set"
    if not rules.takes_any_overpayment and part.total > 2 * invoice.amount:
        return "part"
    if any(other.total != part.total for other in pending):
        return "set"
    if part.expiry < part.height + max(19, rules.final_delta):
        return "part"
    return ""


def _hold_ends(pending: list[Arrived]) -> int:
    """When a held payment is given back."""
    return min(part.at + (part.expiry - part.height - DEADLINE_BLOCKS) * BLOCK_MS for part in pending)


def event_time(event: Event | None, now: int) -> int:
    """When an event happened; None stands for now."""
    return now if event is None else event.at


def _until(events: list[Event], hash: str, now: int) -> Iterator[Event | None]:
    """What concerns one invoice, in order, and then None."""
    for event in events:
        if event.at <= now and event.hash == hash:
            yield event
    yield None
