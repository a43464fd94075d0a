"""Automatic payments: payers that pay each new Charge that matches their rule, by events of the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypedDict, cast

from leyden.lightning.payer.payer_rules import (
    NEVER,
    TWICE,
    PayerRow,
    PayerSpec,
    due_at,
    in_wire_names,
    matches,
    payer_spec,
)
from leyden.lightning.payer.payments import Payments
from leyden.lightning.receiver.node import DirectNode
from leyden.rng import uuid4_from
from leyden.server.charges.rows import ChargeRow
from leyden.server.contract.json_pointer import contract_error
from leyden.server.ports import USER, Clock, EventJournal, RandomSource
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable

TIMER = "payer"

_SECOND_PAYMENT_MS = 1_000
_COUNTED = ("id", "matches", "hits", "created_at", "from_option")  # what two rows of one rule may differ in


class NewInvoiceRow(TypedDict):
    """Table `payer_invoices`: an invoice whose payer is chosen when its event runs; `id` is its payment hash."""

    id: str


class DocumentCountRow(TypedDict):
    """Table `document_payers`: how many Charges matched a rule of the document, and how many it took."""

    id: str
    matches: int
    hits: int


class ListedPayer(NamedTuple):
    """A rule with its position in the list of all."""

    doc_id: int
    row: PayerRow


class AutomaticPayments:
    """The rules in the store, and those of the document (`x-payers`), which come first and are never cleared.

    An invoice that is issued while there is a rule gets an event at once; in it the oldest rule that matches its Charge
    schedules the payment. Everything is rows and timers. `rng` is a stream of the rules' own.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        node: DirectNode,
        payments: Payments,
        journal: EventJournal,
        rng: RandomSource,
        fixed: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        self._clock = clock
        self._invoices = node.invoices
        self._payments = payments
        self._journal = journal
        self._rng = rng
        self._fixed: list[PayerRow] = [
            {**_document_row(fields, number, clock.now()), "from_document": True}
            for number, fields in enumerate(fixed, 1)
        ]
        # A table costs some memory and time: it is made for the first rule of a document.
        self._fixed_counts = cast(TypedTable[DocumentCountRow], store.table("document_payers")) if self._fixed else None
        self._rules = cast(TypedTable[PayerRow], store.table("payers"))
        self._new = cast(TypedTable[NewInvoiceRow], store.table("payer_invoices"))
        self._charges = cast(TypedTable[ChargeRow], store.table("charges", key="id", indexes=("payment_hash",)))
        clock.on(TIMER, self._choose)
        node.on_issued(self._issued)

    def add(self, spec: PayerSpec) -> PayerRow:
        """Store a rule and return its row. Raises `ValueError` for one that is not possible."""
        return self._add(spec.row(uuid4_from(self._rng), self._clock.now()))

    def set_option(self, specs: Iterable[PayerSpec]) -> None:
        """Make these the rules of the option `--autopay`: those of an earlier start are deleted, and added rules stay.
        The same rules as at the earlier start keep their counts."""
        given, former = list(specs), [row for row in self._rules if row.get("from_option")]
        if [_rule(spec.row("", 0)) for spec in given] == [_rule(row) for row in former]:
            return
        for row in former:
            self.clear(row["id"])
        for spec in given:
            self._add({**spec.row(uuid4_from(self._rng), self._clock.now()), "from_option": True})

    def _add(self, row: PayerRow) -> PayerRow:
        self._rules.put(row)
        self._journal.note("payer_added", row["id"], outcome=row["outcome"])
        return row

    @property
    def rows(self) -> list[PayerRow]:
        """Every rule that was added and not cleared, the oldest first."""
        return list(self._rules)

    @property
    def count(self) -> int:
        """The number of rules, those of the document included."""
        return len(self._rules) + len(self._fixed)

    @property
    def active(self) -> list[PayerRow]:
        """The rules among them that have not ended by their `count`."""
        return [row for row in self._rules if _is_active(row)]

    @property
    def active_of_document(self) -> list[PayerRow]:
        """The rules of the document that have not ended by their `count`."""
        return [row for row in self.document_rows if _is_active(row)]

    @property
    def document_rows(self) -> list[PayerRow]:
        """The rules of the document, in its order, with their present counts."""
        return [self._counted(rule) for rule in self._fixed]

    def page(self, after: int | None, limit: int) -> list[ListedPayer]:
        """At most `limit` rules behind the position `after`: those of the document, then the others, oldest first."""
        fixed, start = len(self._fixed), after or 0
        found = [ListedPayer(number, self._counted(rule)) for number, rule in enumerate(self._fixed[start:], start + 1)]
        rows: list[Any] = self._rules.page_up(after=max(0, start - fixed), limit=limit)
        return [*found, *(ListedPayer(fixed + row.doc_id, row) for row in rows)][:limit]

    def row(self, rule_id: str) -> PayerRow | None:
        """One rule, or None."""
        return self._rules.row(rule_id) or next((row for row in self.document_rows if row["id"] == rule_id), None)

    def clear(self, rule_id: str | None = None) -> int:
        """Delete this rule, or all; returns how many. Payments that are scheduled stay so."""
        ids = [row["id"] for row in self._rules] if rule_id is None else [rule_id]
        cleared = sum(self._rules.delete(one) for one in ids)
        if cleared:
            self._journal.note("payers_cleared", rule_id or "", count=cleared)
        return cleared

    def resume(self) -> None:
        """Set the timers again after a store was opened."""
        for row in self._new:
            self._clock.call_at(self._clock.now(), USER, TIMER, row["id"])

    # Events

    def _issued(self, payment_hash: str) -> None:
        if self._fixed or len(self._rules):
            self._new.put({"id": payment_hash})
            self._clock.call_at(self._clock.now(), USER, TIMER, payment_hash)

    def _choose(self, payment_hash: str) -> None:
        self._new.delete(payment_hash)
        charge = self._charges.first("payment_hash", payment_hash)
        if charge is None:
            return
        for rule in [*self.document_rows, *self._rules]:
            if matches(rule, charge) and self._takes(rule):
                self._start(rule, charge)
                return

    def _takes(self, rule: PayerRow) -> bool:
        taken = rule["share"] >= 1 or self._rng.uniform() < rule["share"]
        matched, hits = rule["matches"] + 1, rule["hits"] + taken
        if self._fixed_counts is not None and rule.get("from_document"):
            self._fixed_counts.put({"id": rule["id"], "matches": matched, "hits": hits})
        else:
            self._rules.put({**rule, "matches": matched, "hits": hits})
        return taken

    def _counted(self, rule: PayerRow) -> PayerRow:
        """A rule of the document with its counts."""
        counts = None if self._fixed_counts is None else self._fixed_counts.row(rule["id"])
        return rule if counts is None else {**rule, "matches": counts["matches"], "hits": counts["hits"]}

    def _start(self, rule: PayerRow, charge: ChargeRow) -> None:
        self._journal.note("payer_matched", rule["id"], charge=charge["id"], outcome=rule["outcome"])
        if rule["outcome"] == NEVER:
            return
        now, invoice = self._clock.now(), self._invoices.row(charge["payment_hash"])
        created_at = charge["created_at"] if invoice is None else invoice["opened_at"]
        delay_ms = due_at(rule, charge, created_at, now) - now
        outcome = "settle" if rule["outcome"] == TWICE else rule["outcome"]
        self._pay(rule, charge, rule["payer"], outcome, delay_ms)
        if rule["outcome"] == TWICE:
            self._pay(rule, charge, f"{rule['payer']} 2", outcome, delay_ms + _SECOND_PAYMENT_MS)

    def _pay(self, rule: PayerRow, charge: ChargeRow, payer: str, outcome: str, delay_ms: int) -> None:
        self._payments.pay(
            charge["request"],
            payer=payer,
            outcome=outcome,
            failure=rule["failure"],
            delay_ms=delay_ms,
            scheduled=True,
        )


def _is_active(row: PayerRow) -> bool:
    return row["count"] is None or row["hits"] < row["count"]


def _rule(row: PayerRow) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _COUNTED}


def _document_row(fields: Mapping[str, Any], number: int, now: int) -> PayerRow:
    """The row of the `number`-th rule of the document. Raises `ContractError` for one that is not possible."""
    try:
        return payer_spec(fields).row(f"spec-{number}", now)
    except ValueError as error:
        raise contract_error(f"#/x-payers/{number - 1}", in_wire_names(str(error))) from None
