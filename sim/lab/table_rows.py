"""The columns and rows of each table, as plain values, before pandas makes a frame of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from json import JSONEncoder
from typing import Any, NamedTuple

from leyden.lightning.network import network_tables as records
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import BLOCKED, DELIVERED, EXHAUSTED, LOST, PENDING, STOPPED
from leyden.world.attempt_notes import attempt_note
from leyden.world.world import World

Row = dict[str, Any]

TEXT, MSAT, TIME, COUNT, FLAG, SHARE = "text", "msat", "time", "count", "flag", "share"

json_text = JSONEncoder(sort_keys=True, ensure_ascii=False).encode

# States that the contract does not have, in the order in which they may follow each other.
_STATES = {
    "payment": ("in_flight", "held", "succeeded", "failed"),
    "outcome": (
        "SUCCEEDED", "TIMEOUT", "NO_ROUTE", "INCORRECT_PAYMENT_DETAILS", "INSUFFICIENT_BALANCE", "CANCELED", "ERROR",
    ),
    "attempt": ("in_flight", "waiting", "held", "settled", "failed"),
    "htlc": ("in_flight", "settled", "failed"),
    "delivery": (PENDING, DELIVERED, EXHAUSTED, STOPPED, BLOCKED),
    "account": ("project", "node", "channel"),
    "channel": ("open", "disabled", "closing", "closed"),
}  # fmt: skip


class Table(NamedTuple):
    """A table: its columns as (name, kind), the columns of its key, and a function that finds its rows.

    A kind is one of those above, or the name of a set of states (`states_of`). The name of a column of kind `msat` ends
    with `_msat`; a frame has a `_sat` column beside it.
    """

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    find: Callable[[World], Iterable[Mapping[str, Any]]]

    def rows(self, world: World) -> list[Row]:
        """The rows of the table, with its columns only; None for what a row does not have."""
        return [{name: row.get(name) for name, _ in self.columns} for row in self.find(world)]


def column_names(name: str) -> list[str]:
    """The columns of a table's frame, in order."""
    names = ["world"]
    for column, kind in TABLES[name].columns:
        names += [column, f"{column.removesuffix('_msat')}_sat"] if kind == MSAT else [column]
    return names


def states_of(world: World, kind: str) -> tuple[str, ...] | None:
    """All states of a column of this kind, in order; None for a kind without states."""
    lifecycle = world.config.contract.lifecycles.get(kind)
    return _STATES.get(kind) if lifecycle is None else lifecycle.states


def _static_charges(world: World) -> Iterator[Row]:
    statics = world.service.static_charges
    return ({**row, "request": statics.show(row)["invoice"]["request"]} for row in statics.static_charges)


def _charges_by_hash(world: World) -> dict[str, str]:
    return {row["payment_hash"]: row["id"] for row in world.service.charges.charges}


def _payments(world: World) -> Iterator[Row]:
    charges = _charges_by_hash(world)
    for row in world.payments.rows:
        settled = [attempt for attempt in row["attempts"] if attempt["status"] == "settled"]
        yield {
            "starts_at": row["created_at"],
            **row,
            "charge_id": charges.get(row["payment_hash"] or ""),
            "script": None if row["script"] is None else row["script"]["outcome"],
            "attempts": len(row["attempts"]),
            "fees_msat": sum(attempt.get("fee_msat", 0) for attempt in settled),
        }


def _attempts(world: World) -> Iterator[Row]:
    charges = _charges_by_hash(world)
    for row in records.attempts_of(world.payments):
        yield {
            **row,
            "payment_id": row["payment"],
            "charge_id": charges.get(row["payment_hash"] or ""),
            "failure": row["name"],
            "route": " > ".join(row["route"]),
        }


def _htlcs(world: World) -> Iterator[Row]:
    charges = _charges_by_hash(world)
    paid = {row["id"]: charges.get(row["payment_hash"] or "") for row in world.payments.rows}
    for row in records.htlcs_of(world.payments):
        yield {**row, "payment_id": row["payment"], "charge_id": paid[row["payment"]]}


def _deliveries(world: World) -> Iterator[Row]:
    for row in world.service.outbox.deliveries():
        attempts = AttemptLog(row).attempts()
        finished_at = attempts[-1].ended_at if attempts and row["status"] != PENDING else None
        yield {**row, "charge_id": row["resource_id"], "attempts": len(attempts), "finished_at": finished_at}


def _callbacks(world: World) -> Iterator[Row]:
    for row in world.service.outbox.deliveries():
        attempts = AttemptLog(row).attempts()
        for number, attempt in enumerate(attempts, 1):
            yield {
                "delivery_id": row["id"],
                "charge_id": row["resource_id"],
                "event": row["event"],
                "url": row["url"],
                "attempt": number,
                "due_at": attempt.due_at,
                "at": attempt.at,
                "answered_at": attempt.ended_at,
                "http_status": attempt.status,
                "error": attempt.error,
                "latency_ms": None if attempt.ended_at is None or attempt.error == LOST else attempt.latency_ms,
                "note": attempt_note(world, row, number, attempts),
                "answer": attempt.response_body,
            }


def _balances(world: World) -> Iterator[Row]:
    now, charges = world.clock.now(), world.service.charges
    for project in world.service.projects.projects:
        balance_msat = charges.balance_msat(project["id"])
        yield {"at": now, "kind": "project", "account": project["id"], "balance_msat": balance_msat}
    yield {"at": now, "kind": "node", "account": "shop", "balance_msat": world.node.balance_msat}
    rows = records.balances_of(world.payments)[::-1]
    while rows:  # each is freed at once: all together would hold the threads of a server
        row = rows.pop()
        yield {**row, "kind": "channel", "account": row["node"], "balance_msat": row["local_msat"]}


def _outages(world: World) -> Iterable[Mapping[str, Any]]:
    return records.outages_of(world.payments, world.config.start_ms)


def _journal(world: World) -> Iterator[Row]:
    for sequence, at_ms, kind, subject, facts in world.journal.entries():
        yield {"sequence": sequence, "at": at_ms, "kind": kind, "subject": subject, "facts": json_text(facts)}


CHARGES = (
    ("id", TEXT), ("status", "Charge"), ("amount_msat", MSAT), ("description", TEXT), ("internal_id", TEXT),
    ("created_at", TIME), ("expires_at", TIME), ("confirmed_at", TIME), ("received_msat", MSAT), ("failure", TEXT),
    ("static_charge_id", TEXT), ("callback_url", TEXT), ("payment_hash", TEXT), ("request", TEXT),
)  # fmt: skip
STATIC_CHARGES = (
    ("id", TEXT), ("status", "StaticCharge"), ("min_msat", MSAT), ("max_msat", MSAT), ("description", TEXT),
    ("slots", COUNT), ("allowed_slots", COUNT), ("internal_id", TEXT), ("created_at", TIME), ("expires_at", TIME),
    ("identifier", TEXT), ("success_message", TEXT), ("callback_url", TEXT), ("request", TEXT),
)  # fmt: skip
PAYMENTS = (
    ("id", TEXT), ("payer", TEXT), ("status", "payment"), ("outcome", "outcome"), ("reason", TEXT),
    ("amount_msat", MSAT), ("received_msat", MSAT), ("fees_msat", MSAT), ("attempts", COUNT), ("created_at", TIME),
    ("starts_at", TIME), ("resolved_at", TIME), ("gives_up_at", TIME), ("charge_id", TEXT), ("script", TEXT),
    ("payment_hash", TEXT), ("preimage", TEXT), ("request", TEXT),
)  # fmt: skip
ATTEMPTS = (
    ("payment_id", TEXT), ("attempt", COUNT), ("charge_id", TEXT), ("payer", TEXT), ("at", TIME), ("resolved_at", TIME),
    ("status", "attempt"), ("amount_msat", MSAT), ("fee_msat", MSAT), ("hops", COUNT), ("route", TEXT), ("hop", COUNT),
    ("source", TEXT), ("code", COUNT), ("failure", TEXT), ("retried", FLAG), ("learned", TEXT), ("why", TEXT),
    ("reason", TEXT), ("payment_hash", TEXT),
)  # fmt: skip
HTLCS = (
    ("payment_id", TEXT), ("attempt", COUNT), ("hop", COUNT), ("charge_id", TEXT), ("at", TIME), ("resolved_at", TIME),
    ("status", "htlc"), ("source", TEXT), ("target", TEXT), ("channel", COUNT), ("amount_msat", MSAT),
    ("fee_msat", MSAT), ("cltv_expiry", COUNT),
)  # fmt: skip
DELIVERIES = (
    ("id", TEXT), ("charge_id", TEXT), ("event", TEXT), ("status", "delivery"), ("sequence", COUNT),
    ("attempts", COUNT), ("created_at", TIME), ("due_at", TIME), ("finished_at", TIME), ("url", TEXT), ("body", TEXT),
)  # fmt: skip
CALLBACKS = (
    ("delivery_id", TEXT), ("charge_id", TEXT), ("event", TEXT), ("attempt", COUNT), ("due_at", TIME), ("at", TIME),
    ("answered_at", TIME), ("http_status", COUNT), ("error", TEXT), ("latency_ms", COUNT), ("note", TEXT),
    ("answer", TEXT), ("url", TEXT),
)  # fmt: skip
BALANCES = (
    ("at", TIME), ("kind", "account"), ("account", TEXT), ("balance_msat", MSAT), ("peer", TEXT), ("channel", COUNT),
    ("capacity_msat", MSAT), ("remote_msat", MSAT), ("in_flight_msat", MSAT), ("on_chain_msat", MSAT),
    ("before_msat", MSAT), ("change_msat", MSAT), ("share", SHARE), ("status", "channel"), ("shop", FLAG),
)  # fmt: skip
OUTAGES = (("node", TEXT), ("at", TIME), ("until", TIME), ("cause", TEXT), ("shop", FLAG))
JOURNAL = (("sequence", COUNT), ("at", TIME), ("kind", TEXT), ("subject", TEXT), ("facts", TEXT))

TABLES: Mapping[str, Table] = {
    "charges": Table(CHARGES, ("id",), lambda world: world.service.charges.charges),
    "static_charges": Table(STATIC_CHARGES, ("id",), _static_charges),
    "payments": Table(PAYMENTS, ("id",), _payments),
    "attempts": Table(ATTEMPTS, ("payment_id", "attempt"), _attempts),
    "htlcs": Table(HTLCS, ("payment_id", "attempt", "hop"), _htlcs),
    "deliveries": Table(DELIVERIES, ("id",), _deliveries),
    "callbacks": Table(CALLBACKS, ("delivery_id", "attempt"), _callbacks),
    "balances": Table(BALANCES, ("kind", "account", "channel"), _balances),
    "outages": Table(OUTAGES, ("node", "at", "cause"), _outages),
    "journal": Table(JOURNAL, ("sequence",), _journal),
}
