"""The meaning of a Charge's states, by the lifecycle tables of the contract, and the transitions that were taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from leyden.server.contract.lifecycle_rows import CREATION, EXPIRY_REACHED
from leyden.server.contract.types import LifecycleTable
from leyden.world.world import World


class Transition(NamedTuple):
    """A trigger that changed the state of a resource, or was refused (`to` is then None)."""

    at: int
    trigger: str
    source: str
    to: str | None
    because: str = ""


def states_entered(table: LifecycleTable, trigger: str) -> frozenset[str]:
    """The states that a resource enters from another state by this trigger."""
    return frozenset(
        row.to for row in table.rows if row.trigger == trigger and row.to is not None and row.to != row.source
    )


def journal_transitions(
    world: World, resource: str, resource_id: str | None = None
) -> Iterator[tuple[str, Transition]]:
    """The transitions in the journal, of one resource or of all, each with the id of its resource, oldest first.

    Of a resource whose creation is no longer in the journal there are only the refused ones.
    """
    table = world.service.contract.lifecycles[resource]
    moves = {(rule.source, rule.trigger, rule.to) for rule in table.rows}
    states: dict[str, str] = {}
    for entry in world.journal.entries(subject=resource_id):
        facts, source = entry.facts, states.get(entry.subject, CREATION)
        if entry.kind == "refused":
            trigger, refuse = text_of(facts, "trigger"), text_of(facts, "refuse")
            rules = [rule for rule in table.rows if (rule.source, rule.trigger) == (source, trigger)]
            because = next((rule.because for rule in rules if rule.refuse == refuse), None) or refuse
            yield entry.subject, Transition(entry.at_ms, trigger, source, None, because)
        elif facts.get("resource") == resource and (source, entry.kind, text_of(facts, "status")) in moves:
            yield entry.subject, Transition(entry.at_ms, entry.kind, source, text_of(facts, "status"))
            states[entry.subject] = text_of(facts, "status")


def text_of(facts: Mapping[str, Any], name: str) -> str:
    """A fact that is a text. The journal of a saved sandbox may have any facts."""
    value = facts.get(name)
    return value if isinstance(value, str) else ""


def transitions_of(world: World, resource: str, resource_id: str, row: Mapping[str, Any]) -> list[Transition]:
    """The transitions of a resource, oldest first, with the refused ones in between.

    They are read from the journal. When the journal does not reach back to the creation, the list is empty; only for a
    Charge can the transition be inferred from its state, because its table has one way to each state.
    """
    table = world.service.contract.lifecycles[resource]
    transitions = [transition for _, transition in journal_transitions(world, resource, resource_id)]
    states = [transition.to for transition in transitions if transition.to is not None]
    if states and states[-1] == row["status"]:
        return transitions
    rules = [r for r in table.rows if (r.source, r.to) == (table.initial, row["status"])]
    if resource != "Charge" or (row["status"] != table.initial and len(rules) != 1):
        return []
    created = Transition(row["created_at"], "created", CREATION, table.initial)
    if row["status"] == table.initial:
        return [created]
    invoice = world.node.invoices.row(row["payment_hash"])
    closed_at = None if invoice is None else invoice["closed_at"]
    ended = row["confirmed_at"] or closed_at or row["expires_at"]
    if rules[0].trigger == EXPIRY_REACHED:  # its invoice may have been closed before
        ended = row["expires_at"]
    return [created, Transition(ended, rules[0].trigger, table.initial, row["status"])]


def lost_history(world: World, resource_id: str, kinds: str) -> str:
    """That events of these kinds, which leave no row, may be missing of a resource: the journal no longer has its
    creation. Empty if it has."""
    lost = world.journal.lost()
    if not lost or world.journal.entries(kind="created", subject=resource_id, limit=1):
        return ""
    return f"{lost}: earlier {kinds} are not shown"
