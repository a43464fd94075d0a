"""Steps: the smallest parts of a charge's story, and those of them that a payment takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from leyden.lab.drawings.svg import BAD, GOOD, OPEN, WAIT, sat
from leyden.lab.drawings.text_metrics import PLAIN, clean
from leyden.server.docs.tables import span_in_words

# The lanes. The client is the merchant's own program, which has none in a timeline.
CLIENT, PAYER, HOPS, NODE, SERVICE, CALLBACK = "client", "payer", "hops", "node", "service", "callback"

_LONGEST_NAME = 24

Row = Mapping[str, Any]
Key = tuple[str, str]


class Step(NamedTuple):
    """One thing that happened: from `source` to `target` (two of the lanes, or twice the same) at `at`.

    `rank` orders the steps of one instant. `actor` is the payer or the receiver, where one takes part. `answer` is what
    came back in the same instant. `opens` and `closes` name what lasts from one step to another: a lane and an id;
    `within` names those that the step belongs to otherwise. `brief` are the words without who does it.
    """

    at: int
    rank: tuple[float, ...]
    source: str
    target: str
    words: str
    more: str = ""
    tone: str = PLAIN
    actor: str = ""
    answer: str = ""
    opens: Key | None = None
    closes: Key | None = None
    within: tuple[Key, ...] = ()
    brief: str = ""

    @property
    def deed(self) -> str:
        """The words for a picture that shows who does it."""
        return self.brief or self.words


def payment_steps(row: Row, place: int, invoice: Row) -> Iterator[Step]:
    """A payer's steps. `place` keeps payments apart that did the same thing in the same instant."""
    payer, key = short_name(row["payer"]), (PAYER, row["id"])
    script = row["script"] or {"outcome": "settle", "sent_parts": 1}
    planned = "" if script["outcome"] == "settle" else f"scripted to {script['outcome']}"
    first = min([attempt["at"] for attempt in row["attempts"]] or [row["created_at"]])
    waits = f"sets out {span_in_words(first - row['created_at'])} later" if first > row["created_at"] else ""
    whole = f"the whole name is {row['payer']}" if len(payer) < len(row["payer"]) else ""
    detail = ", ".join(part for part in (planned, waits, whole) if part)
    brief, rank = f"pays {sat(row['amount_msat'] or 0)}", (1, place)
    words = f"{payer} {brief}"
    yield Step(row["created_at"], rank, PAYER, PAYER, words, detail, OPEN, payer, opens=key, brief=brief)
    arrivals = {part["id"]: part["arrived_at"] for part in invoice.get("parts", ())}
    for attempt in row["attempts"]:
        yield from _attempt_steps(row, attempt, payer, place, arrivals)
    if row["gave_up_at"] is not None:
        words, more = f"{payer} gives up", "sends nothing more; what is on its way decides"
        gives_up = Step(row["gave_up_at"], (9.5, place), PAYER, PAYER, words, more, WAIT, payer, within=(key,))
        yield gives_up._replace(brief="gives up")
    if row["outcome"] is not None:
        good = row["status"] == "succeeded"
        reasons = {attempt["reason"] for attempt in row["attempts"]}  # what a step above says is not said again
        more = f"paid {sat(row['received_msat'])}" if good else "" if row["reason"] in reasons else row["reason"] or ""
        tone = GOOD if good else BAD
        at, rank, brief = row["resolved_at"], (9, place), row["outcome"]
        yield Step(at, rank, PAYER, PAYER, f"{payer}: {brief}", more, tone, payer, closes=key, brief=brief)


def _attempt_steps(row: Row, attempt: Row, payer: str, place: int, arrivals: Mapping[str, int]) -> Iterator[Step]:
    at, back, number = attempt["at"], attempt["resolved_at"], attempt["part"]
    # Over a network every try is a shard of its own; direct payments come in parts.
    part = "HTLC" if len(row["attempts"]) == 1 else f"{'try' if 'route' in attempt else 'part'} {number + 1}"
    name = f"{payer}'s {part}"
    htlc, mine = f"{row['id']}:{number}", (PAYER, row["id"])
    way = HOPS if "route" in attempt else NODE
    key = (HOPS, htlc) if way == HOPS else None
    carried = sat(attempt["amount_msat"])
    arrives = carried + ("; waits for the other parts" if attempt["status"] == "waiting" else "")
    if key is not None:
        more = f"{carried} via {' → '.join(attempt['route'])}, fee {sat(attempt['fee_msat'])}"
        rank = (2, place, number)
        out = Step(at, rank, PAYER, HOPS, f"{name} sets out", more, OPEN, payer, opens=key, within=(mine,))
        yield out._replace(brief=part)
        if htlc in arrivals:
            rank = (3, place, number)
            yield Step(arrivals[htlc], rank, HOPS, NODE, f"{name} arrives", arrives, OPEN, within=(key,))
    else:
        rank = (2, place, number)
        yield Step(at, rank, PAYER, NODE, f"{name} arrives", arrives, OPEN, payer, within=(mine,), brief=part)
    if back is None:
        return
    if attempt["status"] == "settled":
        rank = (8, place, number)
        paid = Step(back, rank, way, PAYER, f"{name}: preimage", "comes back", GOOD, payer, closes=key, within=(mine,))
        yield paid._replace(brief=f"{part}: preimage")
        return
    on_the_way = attempt["source"] not in (None, "final")
    # What a hop sent back comes before the next try; what the shop refused on arrival, before what follows from it.
    late_rank = (1.5 if on_the_way else 3.5 if back == at else 8.0, place, number)
    told = [text for text in (attempt["reason"], attempt["learned"] if on_the_way else None) if text]
    by, code = attempt["source"] if on_the_way else "the node", attempt["name"] or attempt["code"]
    words, more = f"{name}: {by} says {code}", "; ".join(told)
    failed = Step(back, late_rank, way, PAYER, words, more, BAD, payer, closes=key, within=(mine,))
    yield failed._replace(brief=f"{part}: {by} says {code}" if on_the_way else f"{part}: {code}")


def short_name(name: str) -> str:
    """A payer's name, short enough to leave room for what he does."""
    plain = clean(name)
    return plain if len(plain) <= _LONGEST_NAME else plain[: _LONGEST_NAME - 1] + "…"
