"""How the values of different rows are related: a Charge to its invoice, a payment to its attempts and to the parts of
it that the node received, a wallet to what was received.

Each relation of the tables (`service_relations`, `payment_relations`) holds in every state of a sandbox: rows that
contradict it were changed by somebody. A payer over a network learns later than the node what became of a part, and
rows that ended may have been removed. Instants of different rows are not compared in order: a clock can be set back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import orjson

from leyden.lightning.engine.htlc import HELD
from leyden.server.contract.types import Contract, LifecycleRow, LifecycleTable
from leyden.server.printable import cut
from leyden.server.store.store import Store
from leyden.world.persistence.payment_relations import PAYMENT_RELATIONS, Relation
from leyden.world.persistence.service_relations import SERVICE_RELATIONS
from leyden.world.persistence.table_rows import RowError
from leyden.world.removal.removed_rows import TABLE as LAST_IDS

Row = Mapping[str, Any]

_RELATIONS: Mapping[str, tuple[Relation, ...]] = {**SERVICE_RELATIONS, **PAYMENT_RELATIONS}


class States(NamedTuple):
    """The states of a resource that it reaches with a kind of transition on the way, and those without."""

    after: frozenset[str]
    without: frozenset[str]

    def allow(self, state: str, *, happened: bool) -> bool:
        """Whether a resource can be in this state, if such a transition has happened, or if none has."""
        return state in (self.after if happened else self.without)


class Related:
    """The rows of a store by what they are related by."""

    def __init__(self, store: Store, contract: Contract | None) -> None:
        self._store = store
        self._rows: dict[str, Sequence[Any]] = {}
        lifecycles: Mapping[str, LifecycleTable] = {} if contract is None else contract.lifecycles
        self.charge_lifecycle, self.static_lifecycle = lifecycles.get("Charge"), lifecycles.get("StaticCharge")
        self.paid = _states(self.charge_lifecycle, lambda row: row.trigger == "payment_settled")
        self.failed = _states(self.charge_lifecycle, lambda row: row.trigger == "invoice_failed")
        self.canceled = _states(self.charge_lifecycle, lambda row: "cancel_invoice" in row.effects)
        self.closable = _target(self.charge_lifecycle, "invoice_failed") is not None
        self.full = _full(self.static_lifecycle)
        self.is_left_full = _is_left_full(self.static_lifecycle, self.full)
        self.is_entered_full = _is_entered_full(self.static_lifecycle, self.full)
        self.counts_payments = self.static_lifecycle is not None and all(
            "take_slot" not in row.effects or row.trigger == "payment_settled" for row in self.static_lifecycle.rows
        )
        operations = () if contract is None else contract.operations.values()
        self._events = {rule.name: rule.delivery.events for one in operations for rule in one.callbacks}
        self.charges = {row["id"]: row for row in self.rows("charges")}
        self.invoices = {row["payment_hash"]: row for row in self.rows("invoices")}
        self.payments = {row["id"]: row for row in self.rows("payments")}
        self.parts = {part["id"]: part for row in self.rows("invoices") for part in row.get("parts", ())}
        self.received: Counter[str] = Counter()  # by project
        self.children: Counter[str] = Counter()  # payments, by Static Charge
        self.deliveries = Counter(row["resource_id"] for row in self.rows("deliveries"))
        for row in self.rows("charges"):
            if row["confirmed_at"] is not None:
                self.received[row["project"]] += row["received_msat"]
                self.children[row["static_charge_id"] or ""] += 1
        self.has_removed_charges = self._has_removed("charges")
        self.has_removed_payments = self._has_removed("payments")
        self.has_removed_deliveries = self._has_removed("deliveries")

    def rows(self, table: str) -> Sequence[Any]:
        """The rows of a table. One that the store does not have is not made."""
        if table not in self._rows:
            data = self._store.tables.get(table)
            self._rows[table] = [] if data is None else [*data.rows.values()]
        return self._rows[table]

    def reports(self, rule: str, state: str) -> bool:
        """Whether each Charge that comes to a state has a callback of this rule about it."""
        table = self.charge_lifecycle
        if table is None:
            return True
        entering = [row for row in table.rows if row.to == state]
        return state in self._events.get(rule, ()) and all("notify" in row.effects for row in entering)

    def _has_removed(self, table: str) -> bool:
        """Whether the table may have had rows that it has no more."""
        data = self._store.tables.get(table)
        if data is None:
            return False
        last = (row["last_id"] for row in self.rows(LAST_IDS) if row["id"] == table)
        highest: int = max(data.max_id, (data.next_id or 1) - 1, *last)
        return highest > len(data.rows)


def check_relations(store: Store, contract: Contract | None) -> None:
    """Raise `RowError` for the first row that contradicts another one. Each row fits its schema, and each Charge has
    an invoice. Without a contract nothing is asked of the states of Charges and Static Charges."""
    related = Related(store, contract)
    for kind, (table, subjects) in _SUBJECTS.items():
        relations = _RELATIONS[kind]
        for row, *subject in subjects(related):
            for relation in relations:
                if not relation.holds(*subject, related):
                    _refuse(store, table, row, relation.sentence, subject[0])


def _refuse(store: Store, table: str, row: Row, sentence: str, subject: Row) -> NoReturn:
    doc_id = next((doc_id for doc_id, one in store.table_data(table).rows.items() if one is row or one == row), 0)
    shown = {name: cut(str(value), 60) for name, value in subject.items()}
    raise RowError(table, doc_id, row, sentence.format_map(shown))


def _states(lifecycle: LifecycleTable | None, is_meant: Callable[[LifecycleRow], bool]) -> States | None:
    """The states by whether a transition that is meant is on the way to them; None without a lifecycle."""
    if lifecycle is None:
        return None
    found = {(lifecycle.initial, False)}
    waiting = [*found]
    while waiting:
        state, happened = waiting.pop()
        for row in lifecycle.rows:
            if row.source == state and row.to is not None:
                reached = (row.to, happened or is_meant(row))
                if reached not in found:
                    found.add(reached)
                    waiting.append(reached)
    return States(
        frozenset(state for state, happened in found if happened),
        frozenset(state for state, happened in found if not happened),
    )


def _target(lifecycle: LifecycleTable | None, trigger: str) -> str | None:
    """The state to which a trigger always leads from the first state; None if there is none, or not always."""
    rows = [] if lifecycle is None else [
        row for row in lifecycle.rows if (row.source, row.trigger) == (lifecycle.initial, trigger)
    ]  # fmt: skip
    return rows[0].to if rows and rows[0].when is None else None


def _full(lifecycle: LifecycleTable | None) -> str | None:
    """The state in which a Static Charge always is once its slots are filled; None if there is none."""
    target = _target(lifecycle, "slots_filled")
    return None if lifecycle is None or target == lifecycle.initial else target


def _entering(lifecycle: LifecycleTable, state: str) -> list[LifecycleRow]:
    return [row for row in lifecycle.rows if row.to == state and row.source not in (state, "(creation)")]


def _is_left_full(lifecycle: LifecycleTable | None, full: str | None) -> bool:
    """Whether no Static Charge with filled slots is in the first state."""
    if lifecycle is None or full is None:
        return False
    rows = _entering(lifecycle, lifecycle.initial)
    return all(row.trigger == "slots_reopened" and "take_slot" not in row.effects for row in rows)


def _is_entered_full(lifecycle: LifecycleTable | None, full: str | None) -> bool:
    """Whether each Static Charge in the state `full` has filled slots."""
    if lifecycle is None or full is None:
        return False
    again = next(row for row in lifecycle.rows if (row.source, row.trigger) == (full, "slots_reopened"))
    is_left = again.to not in (None, full) and again.when in (None, "slot_free")
    return is_left and all(row.trigger == "slots_filled" for row in _entering(lifecycle, full))


# What the relations of each kind are about: a row of the table, and the arguments of `holds`.


def _charges(related: Related) -> Iterator[tuple[Any, ...]]:
    for row in related.rows("charges"):
        yield row, row, related.invoices[row["payment_hash"]]


def _static_charges(related: Related) -> Iterator[tuple[Any, ...]]:
    for row in related.rows("static_charges"):
        yield row, row, related.children[row["id"]]


def _invoices(related: Related) -> Iterator[tuple[Any, ...]]:
    for row in related.rows("invoices"):
        parts = row.get("parts", ())
        yield row, row, parts, [part for part in parts if part["state"] == HELD]


def _parts(related: Related) -> Iterator[tuple[Any, ...]]:
    for row in related.rows("invoices"):
        for part in row.get("parts", ()):
            payment_id, _, number = part["id"].rpartition(":")
            payment = related.payments.get(payment_id)
            yield row, part, row, payment, None if payment is None else payment["attempts"][int(number)]


def _payments(related: Related) -> Iterator[tuple[Any, ...]]:
    for row in related.rows("payments"):
        kinds = {attempt["status"] for attempt in row["attempts"]}
        yield row, row, related.invoices.get(row["payment_hash"]), kinds


def _attempts(related: Related) -> Iterator[tuple[Any, ...]]:
    for row in related.rows("payments"):
        for number, attempt in enumerate(row["attempts"]):
            yield row, attempt, row, number, related.parts.get(f"{row['id']}:{number}")


def _deliveries(related: Related) -> Iterator[tuple[Any, ...]]:
    for row in related.rows("deliveries"):
        charge = related.charges.get(row["resource_id"])
        try:
            body = orjson.loads(row["body"])
        except ValueError:
            body = None
        data = body.get("data", body) if isinstance(body, dict) else None
        yield row, row, charge, data if isinstance(data, dict) else None


def _held(related: Related) -> Iterator[tuple[Any, ...]]:
    ids = {row["id"] for row in related.rows("deliveries")}
    for row in related.rows("held_back"):
        yield row, row, row["id"] in ids


def _wallets(related: Related) -> Iterator[tuple[Any, ...]]:
    wallets = {row["id"]: row for row in related.rows("wallets")}
    for project in related.received:
        wallets.setdefault(project, {"id": project, "balance_msat": 0})
    for project, row in wallets.items():
        yield row, row, related.received[project]


def _funds(related: Related) -> Iterator[tuple[Any, ...]]:
    row = next(iter(related.rows("node")), {"id": "funds", "received_msat": 0})
    yield row, row, sum(wallet["balance_msat"] for wallet in related.rows("wallets"))


_SUBJECTS: Mapping[str, tuple[str, Callable[[Related], Iterator[tuple[Any, ...]]]]] = {
    "charge": ("charges", _charges),
    "static charge": ("static_charges", _static_charges),
    "invoice": ("invoices", _invoices),
    "part": ("invoices", _parts),
    "payment": ("payments", _payments),
    "attempt": ("payments", _attempts),
    "delivery": ("deliveries", _deliveries),
    "attempt that is held": ("held_back", _held),
    "wallet": ("wallets", _wallets),
    "node": ("node", _funds),
}
