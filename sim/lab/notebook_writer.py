"""Notebooks of a sandbox: what happened, the program that creates it again, tables and drawings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from leyden.extras import require
from leyden.lab.actions.action_log import ActionLog
from leyden.lab.actions.script_writer import script_of
from leyden.lab.actions.source_text import literal
from leyden.lab.charge_states import states_entered
from leyden.lab.drawings import timeline
from leyden.repr_tables import counted
from leyden.server.callbacks.deliveries import DELIVERED, PENDING
from leyden.server.contract.lifecycle_rows import EXPIRY_REACHED, INVOICE_FAILED
from leyden.server.timestamps import to_iso
from leyden.world.world import World

MARKDOWN, CODE = "markdown", "code"
_MAX_CHARGES = 3  # charges with a timeline of their own
_MAX_LINES = 60  # of each timeline
# Punctuation that can have a meaning in Markdown, escaped with a backslash (CommonMark 2.4); not that of sentences.
_MARKS = re.compile(r"(?![,:.]( |$))[!-,./:-@\[-`{-~]")

_COLUMNS = {
    "charges": ["status", "amount_sat", "description", "created_at", "expires_at", "confirmed_at"],
    "static_charges": ["status", "slots", "allowed_slots", "description"],
    "payments": ["payer", "amount_sat", "status", "outcome", "reason", "created_at", "resolved_at"],
    "attempts": ["payment_id", "at", "route", "hop", "failure", "retried", "learned"],
    "callbacks": ["event", "attempt", "at", "http_status", "error", "latency_ms"],
}
_AGAIN = "## The sandbox, created again\n\nThis program creates it with the same ids and invoices."
_PROOF = "The journal's hash depends on all events. An equal hash proves that this is the same sandbox."
_WHAT_IF = """## What if?

A fork is an independent copy with the same random numbers. Put a different action between the lines; the table shows \
what it changed."""


class Cell(NamedTuple):
    """One cell: its `kind`, `markdown` or `code`, its text, and its tags."""

    kind: str
    source: str
    tags: tuple[str, ...] = ()


def plain(text: str) -> str:
    """A line of text for a Markdown cell that shows every character as it is: nothing is HTML, a link or a mark."""
    return _MARKS.sub(r"\\\g<0>", text)


def document(cells: Iterable[Cell]) -> Any:
    """Cells as a notebook (an `nbformat` node, format 4.5) without outputs.

    A cell's id is its number and not random: equal cells give an equal file.
    """
    require("a notebook", "nbformat", "lab")
    from nbformat import v4

    untyped: Any = v4
    nodes = []
    for number, cell in enumerate(cells, 1):
        new = untyped.new_markdown_cell if cell.kind == MARKDOWN else untyped.new_code_cell
        node = new(cell.source, id=f"cell-{number:02d}")
        if cell.tags:
            node["metadata"]["tags"] = list(cell.tags)
        nodes.append(node)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return untyped.new_notebook(cells=nodes, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def dumps(node: Any) -> str:
    """The text of a notebook file."""
    from nbformat import writes

    untyped: Any = writes
    return str(untyped(node)).rstrip("\n") + "\n"


def as_notebook(world: World, action_log: ActionLog) -> str:
    """The text of a notebook: a summary, the program that creates the sandbox again, tables, drawings, a what-if.

    Raises `ActionLogError` when the action log is incomplete.
    """
    return dumps(document(_cells(world, script_of(world, action_log))))


def _cells(world: World, script: str) -> Iterator[Cell]:
    charges = list(world.service.charges.charges)
    chosen = sorted(charges, key=lambda row: _interest(world, row), reverse=True)[:_MAX_CHARGES]
    yield Cell(MARKDOWN, _introduction(world, len(charges)))
    if chosen:
        yield Cell(MARKDOWN, _timelines(world, [row["id"] for row in chosen]))
    yield Cell(MARKDOWN, _AGAIN)
    yield Cell(CODE, script.rstrip("\n") + "\n\nsb")
    proof = f'assert sb.journal_hash == {literal(world.journal.hash)}\nprint("the same sandbox, with the same journal")'
    yield Cell(MARKDOWN, _PROOF)
    yield Cell(CODE, proof)
    yield Cell(MARKDOWN, "## Tables")
    shown = {
        "charges": True,
        "static_charges": len(world.service.static_charges.static_charges) > 0,
        "payments": len(world.payments.rows) > 0,
        "attempts": len(world.payments.rows) > 0 and world.engine is not None,
        "callbacks": len(world.service.outbox.deliveries()) > 0,
    }
    for name in filter(shown.get, shown):
        yield Cell(CODE, f"sb.{name}[{literal(_COLUMNS[name])}]")
    yield Cell(MARKDOWN, "## Drawings")
    for row in chosen:
        yield Cell(CODE, f"charge = sb.charges[{literal(row['id'])}]\ncharge.timeline()")
        yield Cell(CODE, "charge.sequence()")
    for resource in ["Charge"] + ["StaticCharge"] * shown["static_charges"]:
        yield Cell(CODE, f'sb.lifecycle("{resource}")')
    if world.engine is not None:
        yield Cell(CODE, "from leyden.lab.drawings import network\n\nnetwork(sb.world)")
    if world.clock.upcoming(1):
        yield Cell(CODE, "sb.schedule()")
    yield Cell(MARKDOWN, _WHAT_IF)
    yield Cell(CODE, 'other = sb.fork("what if")\nother.advance("1h")\nsb.diff(other)')


def _introduction(world: World, count: int) -> str:
    config = world.config
    states = Counter(row["status"] for row in world.service.charges.charges)
    by_status = ", ".join(f"{number} {status}" for status, number in sorted(states.items()))
    failed = sum(row["status"] == "failed" for row in world.payments.rows)
    deliveries = list(world.service.outbox.deliveries())
    undelivered = sum(row["status"] not in (PENDING, DELIVERED) for row in deliveries)
    payments = len(world.payments.rows)
    without = {
        name: f", {text}" if (text := world.removed.without(name)) else ""
        for name in ("charges", "payments", "deliveries")
    }
    lines = [
        f"It started at {to_iso(config.start_ms)} with seed {config.seed}; it is now {to_iso(world.clock.now())}.",
        f"It has {counted(count, 'charge')}{f': {by_status}' if by_status else ''}{without['charges']}.",
    ]
    if payments or without["payments"]:
        made = f"Wallets made {counted(payments, 'payment')}{without['payments']}"
        lines.append(f"{made}, of which {failed or 'none'} failed." if payments else f"{made}.")
    if deliveries or without["deliveries"]:
        sent = f"{counted(len(deliveries), 'callback')}{without['deliveries']}"
        lines.append(f"Of {sent}, {undelivered or 'none'} failed for good." if deliveries else f"There are {sent}.")
    return "# A sandbox\n\n" + "\n".join(lines)


def _timelines(world: World, ids: list[str]) -> str:
    shown = []
    for charge_id in ids:
        lines = timeline(world, charge_id).text.splitlines()
        left = len(lines) - _MAX_LINES
        shown += [*lines[:_MAX_LINES], *([f"... and {left} lines more"] if left > 0 else []), ""]
    # Indented, because text from customers cannot end an indented block.
    text = "\n".join(f"    {line}".rstrip() for line in shown)
    return f"## What happened\n\n{text}"


def _interest(world: World, row: Any) -> tuple[int, int, int]:
    """The sort key of charges to show: failures first, then many payments, then the newest."""
    paid = list(world.payments.rows.find("payment_hash", row["payment_hash"]))
    table, status = world.service.contract.lifecycles["Charge"], row["status"]
    ranks = {INVOICE_FAILED: 3, EXPIRY_REACHED: 2}
    wrong = next((rank for trigger, rank in ranks.items() if status in states_entered(table, trigger)), 0)
    wrong = wrong or int(status == table.initial)
    failed = sum(payment["status"] == "failed" for payment in paid)
    return (3 * failed + wrong if paid else wrong, len(paid), row["created_at"])
