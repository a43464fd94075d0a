"""The payers of a sandbox that pay by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields as fields_of
from typing import Any

from leyden.arguments import checked_text, unknown_name
from leyden.errors import ArgumentError
from leyden.lab.actions.action_log import as_json
from leyden.lightning.payer.payer_rules import SHORT_NAMES, PayerRow, PayerSpec, payer_resource
from leyden.repr_tables import counted, html_resources
from leyden.sandbox.resources import StaticCharge
from leyden.sandbox.session import Session
from leyden.server.printable import quoted

_FIELDS = tuple(field.name for field in fields_of(PayerSpec))


class PayerList:
    """The payers that pay by themselves, oldest first: dicts with the field names of the control API.

    Each pays the Charges that are created while it is there and match its rule; the oldest that matches pays. Those
    that the document gives (`x-payers`) come first, have the `source` `document`, and are not removed.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, *, static_charge: StaticCharge | str | None = None, **where: Any) -> dict[str, Any]:
        """Add a payer: `where` are fields of `PayerSpec` in `leyden.lightning.payer.payer_rules`.

        payers.add(delay="2s")                                     every Charge is paid two seconds after its creation
        payers.add(internal_id="late-*", after_expiry="1s")

        Raises `ValueError` for a rule that is not possible, `TypeError` for a field that the spec does not have.
        """
        if unknown := sorted(where.keys() - _FIELDS):
            meant = SHORT_NAMES.get(unknown[0])
            if meant is not None:
                raise ArgumentError(f"a payer has no field {unknown[0]}: did you mean {meant}?")
            raise unknown_name("a payer", unknown[0], _FIELDS, "field")
        static_id = static_charge.id if isinstance(static_charge, StaticCharge) else static_charge
        world = self._session.world
        rows = world.service.static_charges.static_charges
        if static_id is not None and (not isinstance(static_id, str) or rows.row(static_id) is None):
            raise ArgumentError(
                f"static_charge={quoted(static_charge)} is not a Static Charge of this sandbox: give one, or its id"
            )
        named = as_json({**where, **({} if static_id is None else {"static_charge": static_id})})
        with self._session.record("payer", method="add", args=[], named=named), world.exclusive():
            return payer_resource(world.payers.add(PayerSpec(static_charge=static_id, **where)))

    def clear(self, payer_id: str | None = None) -> int:
        """Remove the payer with this id, or all; return the number of removed payers. Payments that are scheduled stay
        so."""
        world = self._session.world
        args = [] if payer_id is None else [checked_text("payer_id", payer_id)]
        with self._session.record("payer", method="clear", args=args, named={}), world.exclusive():
            return world.payers.clear(payer_id)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([payer_resource(row) for row in self._rows])

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def _rows(self) -> list[PayerRow]:
        payers = self._session.world.payers
        return [*payers.document_rows, *payers.rows]

    def __repr__(self) -> str:
        if self._session.is_closed:
            return "sb.payers of a closed sandbox"
        lines = [f"  {row['outcome']}: {counted(row['hits'], 'Charge')}" for row in self]
        return counted(len(self), "payer") + (
            ":\n" + "\n".join(lines) if lines else ', add one: payers.add(delay="2s")'
        )

    def _repr_html_(self) -> str:
        return html_resources([] if self._session.is_closed else self, caption=repr(self).partition("\n")[0])
