"""Events of payments, and the event type that all drawings of a Charge use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from leyden.lab.drawings.svg import BAD, GOOD, OPEN, WAIT, sat
from leyden.lab.drawings.text_metrics import PLAIN, clean
from leyden.server.docs.tables import span_in_words

# The lanes. The client is the merchant's own program; it has no lane in a timeline.
CLIENT, PAYER, HOPS, NODE, SERVICE, CALLBACK = "client", "payer", "hops", "node", "service", "callback"

_LONGEST_NAME = 24

Row = Mapping[str, Any]
Key = tuple[str, str]


class Event(NamedTuple):
    """One event at `at` (ms), from lane `source` to lane `target`, which may be the same.

    `rank` orders the events of one instant. `actor` is the payer or the receiver that takes part, if any. `response` is
    what came back in the same instant. `opens` and `closes` name a duration that starts or ends here, as a lane and an
    id; `within` names other durations that the event belongs to. `short_text` is the text without the actor.
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

    @property
    def text_without_actor(self) -> str:
        """The text for a drawing that shows the actor separately."""
        return self.short_text or self.text


def payment_events(row: Row, place: int, invoice: Row) -> Iterator[Event]:
    """The events of one payment. `place` orders payments with events in the same instant."""
    payer, key = short_name(row["payer"]), (PAYER, row["id"])
    script = row["script"] or {"outcome": "settle", "sent_parts": 1}
    planned = "" if script["outcome"] == "settle" else f"scripted to {script['outcome']}"
    first = min([attempt["at"] for attempt in row["attempts"]] or [row["created_at"]])
    waits = f"starts {span_in_words(first - row['created_at'])} later" if first > row["created_at"] else ""
    whole = f"the whole name is {row['payer']}" if len(payer) < len(row["payer"]) else ""
    detail = ", ".join(part for part in (planned, waits, whole) if part)
    brief, rank = f"pays {sat(row['amount_msat'] or 0)}", (1, place)
    words = f"{payer} {brief}"
    yield Event(row["created_at"], rank, PAYER, PAYER, words, detail, OPEN, payer, opens=key, short_text=brief)
    arrivals = {part["id"]: part["arrived_at"] for part in invoice.get("parts", ())}
    for attempt in row["attempts"]:
        yield from _attempt_events(row, attempt, payer, place, arrivals)
    if row["gave_up_at"] is not None:
        words, more = f"{payer} gives up", "sends no more parts; those in flight still count"
        gives_up = Event(row["gave_up_at"], (9.5, place), PAYER, PAYER, words, more, WAIT, payer, within=(key,))
        yield gives_up._replace(short_text="gives up")
    if row["outcome"] is not None:
        good = row["status"] == "succeeded"
        reasons = {attempt["reason"] for attempt in row["attempts"]}  # an event above already shows these
        more = f"paid {sat(row['received_msat'])}" if good else "" if row["reason"] in reasons else row["reason"] or ""
        tone = GOOD if good else BAD
        at, rank, brief = row["resolved_at"], (9, place), row["outcome"]
        yield Event(at, rank, PAYER, PAYER, f"{payer}: {brief}", more, tone, payer, closes=key, short_text=brief)


def _attempt_events(row: Row, attempt: Row, payer: str, place: int, arrivals: Mapping[str, int]) -> Iterator[Event]:
    at, back, number = attempt["at"], attempt["resolved_at"], attempt["part"]
    # In a network every attempt is a shard of its own; direct payments come in parts.
    part = "HTLC" if len(row["attempts"]) == 1 else f"{'attempt' if 'route' in attempt else 'part'} {number + 1}"
    name = f"{payer}'s {part}"
    htlc, mine = f"{row['id']}:{number}", (PAYER, row["id"])
    way = HOPS if "route" in attempt else NODE
    key = (HOPS, htlc) if way == HOPS else None
    amount = sat(attempt["amount_msat"])
    arrives = amount + ("; waits for the other parts" if attempt["status"] == "waiting" else "")
    if key is not None:
        more = f"{amount} via {' → '.join(attempt['route'])}, fee {sat(attempt['fee_msat'])}"
        rank = (2, place, number)
        out = Event(at, rank, PAYER, HOPS, f"{name} sent", more, OPEN, payer, opens=key, within=(mine,))
        yield out._replace(short_text=part)
        if htlc in arrivals:
            rank = (3, place, number)
            yield Event(arrivals[htlc], rank, HOPS, NODE, f"{name} arrives", arrives, OPEN, within=(key,))
    else:
        rank = (2, place, number)
        yield Event(at, rank, PAYER, NODE, f"{name} arrives", arrives, OPEN, payer, within=(mine,), short_text=part)
    if back is None:
        return
    if attempt["status"] == "settled":
        rank = (8, place, number)
        paid = Event(back, rank, way, PAYER, f"{name}: preimage", "returned", GOOD, payer, closes=key, within=(mine,))
        yield paid._replace(short_text=f"{part}: preimage")
        return
    on_the_way = attempt["source"] not in (None, "final")
    # A failure from a hop comes before the next attempt; a refusal by the shop comes before what follows from it.
    late_rank = (1.5 if on_the_way else 3.5 if back == at else 8.0, place, number)
    reasons = [text for text in (attempt["reason"], attempt["learned"] if on_the_way else None) if text]
    by, code = attempt["source"] if on_the_way else "the node", attempt["name"] or attempt["code"]
    words, more = f"{name}: {by} says {code}", "; ".join(reasons)
    failed = Event(back, late_rank, way, PAYER, words, more, BAD, payer, closes=key, within=(mine,))
    yield failed._replace(short_text=f"{part}: {by} says {code}" if on_the_way else f"{part}: {code}")


def short_name(name: str) -> str:
    """A payer's name, cut to a length that leaves space for the event."""
    plain = clean(name)
    return plain if len(plain) <= _LONGEST_NAME else plain[: _LONGEST_NAME - 1] + "…"
