"""Events of payments, and the event type that all drawings of a Charge use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from leyden.lab.charge_states import text_of
from leyden.lab.drawings.svg import BAD, GOOD, OPEN, WAIT, sat
from leyden.lab.drawings.text_metrics import PLAIN, clean
from leyden.lightning.network.network_tables import htlcs_of
from leyden.lightning.payer.payment_rows import AttemptRow, PaymentRow
from leyden.lightning.payer.payment_scripts import AMOUNTS, amount_to_send, part_amount
from leyden.lightning.receiver.invoice_row import InvoiceRow
from leyden.server.timestamps import span_in_words
from leyden.world.event_journal import Entry
from leyden.world.world import World

# The lanes. The client is the merchant's own program; it has no lane in a timeline.
CLIENT, PAYER, HOPS, NODE, SERVICE, CALLBACK = "client", "payer", "hops", "node", "service", "callback"

_LONGEST_NAME = 24

Key = tuple[str, str]
Noted = tuple[str, str, object]
ARRIVAL = "arrival"  # in place of the kind of an entry: that of an HTLC that arrives, which may have one of several
# Why a node refuses an HTLC when another payment has closed the invoice.
_TAKEN = {"settled": "settled_at", "accepted": "accepted_at", "canceled": "closed_at"}


class Event(NamedTuple):
    """One event at `at` (ms), from lane `source` to lane `target`, which may be the same.

    `rank` orders the events of one act. `noted` names the journal's entry of the event: its kind, its subject, and the
    HTLC, the number of the attempt or the place among the entries like it in this instant. `actor` is the payer or the
    receiver that takes part, if any. `response` is what came back in the same instant. `opens` and `closes` name a
    duration that starts or ends here, as a lane and an id; `within` names other durations that the event belongs to.
    `short_text` is the text without the actor.
    """

    at: int
    rank: tuple[float, ...]
    source: str
    target: str
    text: str
    detail: str = ""
    tone: str = PLAIN
    actor: str = ""
    response: str = ""
    opens: Key | None = None
    closes: Key | None = None
    within: tuple[Key, ...] = ()
    short_text: str = ""
    noted: Noted | None = None


def _scripted(row: PaymentRow, invoice: InvoiceRow | None) -> str:
    """The outcome that the script of a payment asks for; `settle` for one that an amount of its own replaced."""
    outcome = "settle" if row["script"] is None else row["script"]["outcome"]
    if outcome in AMOUNTS and invoice is not None and row["amount_msat"] is not None:
        asked = amount_to_send(outcome, invoice["amount_msat"], None) if invoice["amount_msat"] > 1 else None
        return outcome if asked in (None, row["amount_msat"]) else "settle"
    return outcome


def arrivals_of(invoice: InvoiceRow | None) -> dict[str, int]:
    """When (ms) each HTLC of an invoice arrived that was not refused at once, by its id."""
    return {} if invoice is None else {part["id"]: part["arrived_at"] for part in invoice.get("parts", [])}


def payment_events(
    row: PaymentRow, place: int, invoice: InvoiceRow | None, arrivals: Mapping[str, int]
) -> Iterator[Event]:
    """The events of one payment. `place` orders payments with events in the same instant; `arrivals` are those of the
    invoice."""
    payer, key = short_name(row["payer"]), (PAYER, row["id"])

    def event(at: int, phase: float, text: str, detail: str, tone: str, short_text: str, **durations: Any) -> Event:
        rank = (phase, place)
        durations.setdefault("noted", ("payment_started", row["id"], 0))
        return Event(at, rank, PAYER, PAYER, text, detail, tone, payer, short_text=short_text, **durations)

    outcome = _scripted(row, invoice)
    starts_at = row.get("starts_at", row["created_at"])
    # One that was cancelled in the instant of its start had not started.
    is_cancelled = row["resolved_at"] is not None and row["outcome"] == "CANCELED" and not row["attempts"]
    is_started = row["next_part_at"] != starts_at and not is_cancelled
    details = (
        "" if outcome == "settle" else f"scripted to {outcome}",
        _unsent(row),
        f"the whole name is {row['payer']}" if len(payer) < len(row["payer"]) else "",
    )
    detail = ", ".join(filter(None, details))
    # A wallet does not start to pay an invoice that has expired.
    is_refused = row["outcome"] == "ERROR" and outcome != "fail" and not row["attempts"]
    pays = f"{'would pay' if is_refused else 'pays'} {sat(row['amount_msat'] or 0)}"
    if starts_at > row["created_at"]:
        intention = f"will pay {sat(row['amount_msat'] or 0)}"
        more = ", ".join(filter(None, [f"in {span_in_words(starts_at - row['created_at'])}", detail]))
        yield event(
            row["created_at"],
            1,
            f"{payer} {intention}",
            more,
            OPEN,
            intention,
            opens=key,
            noted=("payment_scheduled", row["id"], 0),
        )
        if is_started:
            yield event(starts_at, 1, f"{payer} {pays}", "", OPEN, pays, within=(key,))
    else:
        yield event(row["created_at"], 1, f"{payer} {pays}", detail, OPEN, pays, opens=key)
    for attempt in row["attempts"]:
        yield from _attempt_events(row, attempt, payer, place, arrivals, invoice)
    if row["gave_up_at"] is not None:
        more = "sends no more parts; those in flight still count"
        noted = ("payment_given_up", row["id"], 0)
        yield event(row["gave_up_at"], 9.5, f"{payer} gives up", more, WAIT, "gives up", within=(key,), noted=noted)
    if row["outcome"] is not None and row["resolved_at"] is not None:
        good = row["status"] == "succeeded"
        reasons = {attempt["reason"] for attempt in row["attempts"]}  # an event above already shows these
        more = f"paid {sat(row['received_msat'])}" if good else "" if row["reason"] in reasons else row["reason"] or ""
        ended = f"{payer}: {row['outcome']}"
        noted, tone = (f"payment_{row['status']}", row["id"], 0), GOOD if good else BAD
        phase: float = 19 if any(_is_late(row, one, invoice, arrivals) for one in row["attempts"]) else 9
        if not good and any(
            _returns_at_once(one) for one in row["attempts"] if f"{row['id']}:{one['part']}" in arrivals
        ):
            phase = 4.7
        yield event(row["resolved_at"], phase, ended, more, tone, row["outcome"], closes=key, noted=noted)


def _unsent(row: PaymentRow) -> str:
    """The part of an incomplete payment that never comes."""
    script = row["script"]
    if script is None or script["sent_parts"] == script["parts"] or row["amount_msat"] is None:
        return ""
    parts = script["parts"]
    msat = sum(part_amount(row["amount_msat"], parts, number) for number in range(script["sent_parts"], parts))
    return f"of which {sat(msat)} are never sent"


def _attempt_events(
    row: PaymentRow,
    attempt: AttemptRow,
    payer: str,
    place: int,
    arrivals: Mapping[str, int],
    invoice: InvoiceRow | None,
) -> Iterator[Event]:
    at, back, number, routed = attempt["at"], attempt["resolved_at"], attempt["part"], "route" in attempt
    # In a network every attempt is a shard of its own; direct payments come in parts.
    part = "HTLC" if len(row["attempts"]) == 1 else f"{'attempt' if routed else 'part'} {number + 1}"
    name, htlc, way = f"{payer}'s {part}", f"{row['id']}:{number}", HOPS if routed else NODE
    key = (HOPS, htlc) if routed else None
    payment_hash, later = row["payment_hash"] or "", 10 if _is_late(row, attempt, invoice, arrivals) else 0
    noted: Noted
    arrival: Noted = (ARRIVAL, payment_hash, f"{row['id']} {htlc}")

    def event(at: int, phase: float, source: str, target: str, text: str, detail: str, tone: str, **more: Any) -> Event:
        rank, within = (phase, place, number), ((PAYER, row["id"]),)
        return Event(at, rank, source, target, text, detail, tone, payer, within=within, **more)

    amount = sat(attempt["amount_msat"])
    arrives = amount + ("; waits for the other parts" if attempt["status"] == "waiting" else "")
    if key is None:
        yield event(at, 2 + later, PAYER, NODE, f"{name} arrives", arrives, OPEN, short_text=part, noted=arrival)
    else:
        more = f"{amount} via {' → '.join(attempt['route'])}, fee {sat(attempt['fee_msat'])}"
        noted = ("payment_started", row["id"], 0)
        yield event(at, 2, PAYER, HOPS, f"{name} sent", more, OPEN, opens=key, short_text=part, noted=noted)
        if htlc in arrivals:
            rank = (3, place, number)
            yield Event(
                arrivals[htlc], rank, HOPS, NODE, f"{name} arrives", arrives, OPEN, within=(key,), noted=arrival
            )
    if back is None:
        return
    if attempt["status"] == "settled":
        short = f"{part}: preimage"
        noted = ("payment_succeeded", row["id"], 0)
        yield event(
            back, 8, way, PAYER, f"{name}: preimage", "returned", GOOD, closes=key, short_text=short, noted=noted
        )
        return
    on_the_way = attempt["source"] not in (None, "final")
    # A failure from a hop comes before the next attempt; a refusal by the shop comes before what follows from it,
    # and the return of a part that the shop had accepted after the end of the invoice, which causes it.
    accepted = 4.5 if _returns_at_once(attempt) else 8
    phase = 1.5 if on_the_way else 3.5 + later if back == at and htlc not in arrivals else accepted
    noted = ("htlc_failed_back" if htlc in arrivals else "htlc_refused", payment_hash, htlc)
    code, reasons = attempt["name"] or attempt["code"], [attempt["reason"]]
    if on_the_way:
        reasons.append(attempt["learned"])
    refusal = f"{attempt['source'] if on_the_way else 'the node'} says {code}"
    short, more = f"{part}: {refusal if on_the_way else code}", "; ".join(filter(None, reasons))
    yield event(back, phase, way, PAYER, f"{name}: {refusal}", more, BAD, closes=key, short_text=short, noted=noted)


def _returns_at_once(attempt: AttemptRow) -> bool:
    """Whether the payer learns at once that the shop fails a part that it had accepted: before the Charge ends."""
    return "route" not in attempt


def _is_late(row: PaymentRow, attempt: AttemptRow, invoice: InvoiceRow | None, arrivals: Mapping[str, int]) -> bool:
    """Whether another payment, or the end of the Charge, came before this attempt in the same instant."""
    field = _TAKEN.get(attempt["why"] or "")
    if field is None or invoice is None or invoice[field] != attempt["at"]:  # type: ignore[literal-required]
        return False
    return f"{row['id']}:{attempt['part']}" not in arrivals


def force_closes(world: World) -> dict[object, Entry]:
    """The journal's entries of the channels that were force closed, by channel, as far as the journal goes."""
    return {entry.facts.get("channel"): entry for entry in world.journal.entries(kind="channel_force_closed")}


def force_close_events(world: World, row: PaymentRow, closed: dict[object, Entry]) -> Iterator[Event]:
    """The channels that were force closed while HTLCs of a payment were in them. They are removed from `closed`, so
    that the next payment does not have them again."""
    for htlc in htlcs_of(world.payments, [row]) if closed else ():
        entry = closed.get(htlc["channel"])
        if entry is not None and htlc["at"] <= entry.at_ms <= (htlc["resolved_at"] or entry.at_ms):
            del closed[htlc["channel"]]
            words = f"{entry.subject} force closes its channel with {text_of(entry.facts, 'peer')}"
            yield Event(entry.at_ms, (1.4,), HOPS, HOPS, words, text_of(entry.facts, "because"), BAD)


def short_name(name: str) -> str:
    """A payer's name, cut to a length that leaves space for the event."""
    plain = clean(name)
    return plain if len(plain) <= _LONGEST_NAME else plain[: _LONGEST_NAME - 1] + "…"
