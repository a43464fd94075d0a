"""A charge's story: everything that happened to it, step by step, read from the rows that the world keeps.

The timeline and the sequence diagram both draw this. It is told from the stored rows, so that a world opened again from
its data tells it too; the journal adds what leaves no row (faults that struck, refusals, replays) as far back as it
goes. Steps of one instant stand in the order of cause and effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from leyden.errors import DrawingError
from leyden.lab.drawings.payment_events import (
    CALLBACK,
    CLIENT,
    NODE,
    PAYER,
    SERVICE,
    Row,
    Step,
    payment_steps,
    short_name,
)
from leyden.lab.drawings.svg import BAD, GOOD, OPEN, OTHER, WAIT, clock_time, sat, state_tone
from leyden.server.callbacks.attempts import attempts_of, made
from leyden.server.callbacks.deliveries import EXHAUSTED, PENDING
from leyden.server.charges.lifecycle import CREATION
from leyden.server.docs.tables import span_in_words
from leyden.world.world import World

_MOST, _FIRST = 64, 40


@dataclass(frozen=True, slots=True)
class Story:
    """A charge's steps so far, those that are set for later, and the instant in between.

    `left_out` says how many steps in the middle are not told, after the first `told` of them.
    """

    charge: Row
    steps: tuple[Step, ...]
    ahead: tuple[Step, ...]
    now: int
    told: int
    left_out: int


class Move(NamedTuple):
    """A trigger that moved a resource, or was refused (`to` is None then)."""

    at: int
    trigger: str
    source: str
    to: str | None
    because: str = ""


def story_of(world: World, charge_id: str) -> Story:
    """The story of one Charge. Raises `DrawingError` for an id that is no Charge's."""
    charge = world.service.charges.charges.row(charge_id)
    if charge is None:
        raise _unknown(world, charge_id)
    invoice = world.node.invoices.row(charge["payment_hash"])
    payments = list(world.payments.rows.find("payment_hash", charge["payment_hash"]))
    deliveries = world.service.outbox.deliveries(charge_id)
    steps = [
        *_charge_steps(world, charge, invoice),
        *(_invoice_steps(invoice) if invoice is not None else ()),
        *(step for place, row in enumerate(payments) for step in _payment(world, row, place, invoice)),
        *(step for row in deliveries for step in _delivery_steps(world, row)),
        *_journal_steps(world, deliveries),
    ]
    steps.sort(key=lambda step: (step.at, step.rank))
    ahead = sorted(_ahead(world, charge, invoice, payments, deliveries), key=lambda step: (step.at, step.rank))
    left_out = max(0, len(steps) - _MOST)
    told = steps[:_FIRST] + steps[_FIRST + left_out :] if left_out else steps
    return Story(charge, tuple(told), tuple(ahead), world.clock.now(), _FIRST if left_out else len(told), left_out)


def moves_of(world: World, resource: str, resource_id: str, row: Row) -> list[Move]:
    """What moved a resource of this lifecycle, oldest first, the refusals in between.

    Told from the journal. When that does not go back to the beginning, the last state is known and the way to it is
    not: the list is then empty, but for a Charge, whose table has one way to each state.
    """
    table = world.service.contract.lifecycles[resource]
    moves: list[Move] = []
    state = CREATION
    for entry in world.journal.entries(subject=resource_id):
        if entry.kind == "refused":
            rules = [r for r in table.rows if (r.source, r.trigger) == (state, entry.facts["trigger"])]
            because = next((r.because for r in rules if r.refuse == entry.facts["refuse"]), None)
            moves.append(Move(entry.at_ms, entry.facts["trigger"], state, None, because or entry.facts["refuse"]))
        elif entry.facts.get("resource") == resource and "status" in entry.facts:
            moves.append(Move(entry.at_ms, entry.kind, state, entry.facts["status"]))
            state = entry.facts["status"]
    if moves and moves[0].source == CREATION and moves[0].to is not None and state == row["status"]:
        return moves
    rules = [r for r in table.rows if (r.source, r.to) == (table.initial, row["status"])]
    if resource != "Charge" or (row["status"] != table.initial and len(rules) != 1):
        return []
    begun = Move(row["created_at"], "created", CREATION, table.initial)
    if row["status"] == table.initial:
        return [begun]
    invoice = world.node.invoices.row(row["payment_hash"]) or {}
    ended = row["confirmed_at"] or invoice.get("closed_at") or row["expires_at"]
    return [begun, Move(ended, rules[0].trigger, table.initial, row["status"])]


def _payment(world: World, row: Row, place: int, invoice: Row | None) -> Iterator[Step]:
    """A payment's steps. One that was begun when the invoice had just been closed comes after that, in the same instant
    too: of two causes the journal knows the first."""
    steps = payment_steps(row, place, invoice or {})
    if invoice is None or invoice["closed_at"] is None or invoice["closed_at"] != row["created_at"]:
        return steps
    begun = [entry.sequence for entry in world.journal.entries(kind="payment_started", subject=row["id"])]
    closed = [entry.sequence for entry in world.journal.entries(kind="invoice_canceled", subject=row["payment_hash"])]
    if not begun or not closed or begun[0] < closed[0]:
        return steps
    return (step._replace(rank=(10 + step.rank[0], *step.rank[1:])) for step in steps)


def _charge_steps(world: World, charge: Row, invoice: Row | None) -> Iterator[Step]:
    begun = charge["created_at"] if invoice is None else invoice["opened_at"]
    terminal = world.service.contract.lifecycles["Charge"].terminal
    key = (SERVICE, charge["id"])
    child = charge["static_charge_id"]
    asked = f"{sat(charge['amount_msat'])}, payable until {clock_time(charge['expires_at'])}"
    yield Step(
        begun,
        (0,),
        PAYER if child else CLIENT,
        SERVICE,
        "asks for an invoice" if child else "creates the Charge",
        asked + (f" · “{charge['description']}”" if charge["description"] else ""),
        OPEN,
        opens=key,
        answer="pending",
    )
    for move in moves_of(world, "Charge", charge["id"], charge):
        if move.source == CREATION:
            continue
        if move.to is None:
            yield Step(move.at, (5,), SERVICE, SERVICE, f"refuses {move.trigger}", move.because, WAIT)
            continue
        tone = state_tone(move.to)
        closes = key if move.to in terminal else None
        yield Step(move.at, (5,), SERVICE, SERVICE, move.to, f"by {move.trigger}", tone, closes=closes)


def _invoice_steps(invoice: Row) -> Iterator[Step]:
    key = (NODE, invoice["payment_hash"])
    request = f"{invoice['request'][:17]}…"
    yield Step(invoice["opened_at"], (0.5,), SERVICE, NODE, "issues the invoice", request, OPEN, opens=key)
    if invoice["accepted_at"] is not None:
        yield Step(invoice["accepted_at"], (4,), NODE, NODE, "holds the payment", "all its parts are here", WAIT)
    if invoice["settled_at"] is not None:
        got = f"received {sat(invoice['received_msat'])}"
        yield Step(invoice["settled_at"], (4,), NODE, SERVICE, "invoice settled", got, GOOD, closes=key)
    if invoice["closed_at"] is not None:
        yield Step(
            invoice["closed_at"], (4,), NODE, NODE, "invoice closed", invoice["closed_because"], WAIT, closes=key
        )


def _delivery_steps(world: World, row: Row) -> Iterator[Step]:
    host, key = host_of(row["url"]), (CALLBACK, row["id"])
    attempts = attempts_of(row)
    for number, attempt in enumerate(attempts, 1):
        rank = (6.0, row["sequence"], number)
        last = number == len(attempts) and row["status"] != PENDING
        ended = attempt.ended_at is not None
        said, tone = _said(attempt.status, attempt.error)
        more = f"{row['event']} to {row['url']}" if number == 1 else ""
        opens, closes = (key if number == 1 else None), (key if last else None)
        verdict = _verdict(row, len(attempts)) if last else ""
        if attempt.ended_at == attempt.at:
            answer = said + (f" · {verdict}" if verdict else "")
            sent = Step(attempt.at, rank, SERVICE, CALLBACK, f"callback {number}", more, tone, host, answer)
            yield sent._replace(opens=opens, closes=closes)
            continue
        sent = Step(attempt.at, (*rank, 0), SERVICE, CALLBACK, f"callback {number} sent", more, OPEN, host, opens=opens)
        yield sent
        if ended and attempt.ended_at is not None:
            took = f"after {span_in_words(attempt.ended_at - attempt.at)}" + (f" · {verdict}" if verdict else "")
            back = (*rank, 1)
            words = f"callback {number}: {said}"
            yield Step(attempt.ended_at, back, CALLBACK, SERVICE, words, took, tone, host, closes=closes)
    if not attempts and row["status"] != PENDING:
        more = "the receiver had answered 410 before"
        yield Step(row["created_at"], (6, row["sequence"]), SERVICE, SERVICE, "no callback", more, WAIT)


def _said(status: int | None, error: str | None) -> tuple[str, str]:
    """A receiver's answer, and whether it was a good one."""
    if status is None:
        return error or "no answer yet", BAD if error else WAIT
    return str(status), GOOD if 200 <= status <= 299 else BAD


def _verdict(row: Row, attempts: int) -> str:
    if row["status"] == EXHAUSTED:
        return f"exhausted after {attempts} attempts"
    return str(row["status"])


def _journal_steps(world: World, deliveries: list[dict[str, Any]]) -> Iterator[Step]:
    """What leaves no row of its own."""
    mine = {row["id"]: row for row in deliveries}
    if not mine:
        return
    for entry in world.journal.entries():
        row = mine.get(entry.facts.get("delivery", "")) or mine.get(entry.subject)
        if row is None:
            continue
        rank, host = (5.5, entry.sequence), host_of(row["url"])
        if entry.kind == "fault_hit":
            number = entry.facts.get("attempt")
            more = f"strikes callback {number}"
            yield Step(entry.at_ms, rank, CALLBACK, CALLBACK, f"fault: {entry.facts['fault']}", more, OTHER, host)
        elif entry.kind == "callback_replayed":
            yield Step(entry.at_ms, rank, SERVICE, SERVICE, "replay", "the message is sent once more", OTHER)


def _ahead(
    world: World, charge: Row, invoice: Row | None, payments: list[dict[str, Any]], deliveries: list[dict[str, Any]]
) -> Iterator[Step]:
    """What is set for later, whether or not something else comes first."""
    if charge["status"] not in world.service.contract.lifecycles["Charge"].terminal:
        more = "if it is not paid before"
        yield Step(charge["expires_at"], (5,), SERVICE, SERVICE, "expires", more, WAIT)
    if invoice is not None and invoice["mpp_due_at"] is not None:
        more = "the parts that wait go back"
        yield Step(invoice["mpp_due_at"], (4,), NODE, NODE, "stops waiting for the missing parts", more, WAIT)
    for place, row in enumerate(payments):
        if row["outcome"] is not None:
            continue
        payer = short_name(row["payer"])
        if row["next_part_at"] is not None:
            more = f"{len(row['attempts'])} of {row['script']['sent_parts']} parts were sent"
            words = f"{payer}'s payment sets out" if not row["attempts"] else f"{payer} sends the next part"
            more = more if row["attempts"] else ""
            yield Step(row["next_part_at"], (2, place), PAYER, PAYER, words, more, OPEN, payer)
        if row["gives_up_at"] is not None and row["gave_up_at"] is None:
            yield Step(
                row["gives_up_at"], (9, place), PAYER, PAYER, f"{payer} gives up", "if not paid by then", WAIT, payer
            )
    for row in deliveries:
        if row["status"] == PENDING and row["due_at"] is not None:
            number = made(row) + 1
            words, host = f"callback {number} is due", host_of(row["url"])
            yield Step(row["due_at"], (6, row["sequence"]), SERVICE, CALLBACK, words, row["event"], OPEN, host)


def host_of(url: str) -> str:
    """Who a URL belongs to, as a reader calls him: `shop` for `http://shop.localhost/paid`."""
    return (urlsplit(url).hostname or url).removesuffix(".localhost")


def _unknown(world: World, charge_id: object) -> DrawingError:
    static = world.service.static_charges.static_charges.row(str(charge_id))
    if static is None:
        return DrawingError(f"there is no Charge {charge_id!r} in this world: give the id of one of its Charges")
    children = [row["id"] for row in world.service.charges.charges.find("static_charge_id", static["id"])]
    told = (
        f"one of its {len(children)} Charges, the newest is {children[-1]}" if children else "wait for its first payer"
    )
    return DrawingError(f"{charge_id} is a Static Charge, whose payments each have a story of their own: draw {told}")
