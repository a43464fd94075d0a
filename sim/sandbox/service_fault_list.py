"""The service faults of a sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields as fields_of
from typing import Any

from leyden.arguments import checked_text, unknown_name
from leyden.lab.actions.action_log import as_json
from leyden.repr_tables import counted, html_resources
from leyden.sandbox.resources import KeptList
from leyden.sandbox.session import Session
from leyden.sandbox.time.spans import Instant, clock_instant_ms
from leyden.server.timestamps import to_iso
from leyden.service_faults.kinds import ServiceFaultSpec, service_fault_resource
from leyden.world.event_journal import Entry

_FIELDS = tuple(field.name for field in fields_of(ServiceFaultSpec) if field.name != "kind")


class ServiceFaultList:
    """The faults of the service itself, oldest first: dicts with the field names of the control API.

    They change the answers to requests, those in process and those to a served sandbox; requests of the sandbox's own
    traffic and wallets are left alone.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, kind: str, *, until: Instant | None = None, **where: Any) -> dict[str, Any]:
        """Inject a fault: `kind` is one of `KINDS`, `where` fields of `ServiceFaultSpec`, both in
        `leyden.service_faults.kinds`.

        service_faults.add("error", status=429, operation="createCharge", count=2, retry_after="2s")
        service_faults.add("connection_reset", after_commit=True)     the answer is lost, the charge exists

        Raises `ValueError` for a fault that could never apply, `TypeError` for a field that the spec does not have.
        """
        if unknown := sorted(where.keys() - _FIELDS):
            raise unknown_name("a service fault", unknown[0], _FIELDS, "field")
        world = self._session.world
        until_ms = None if until is None else clock_instant_ms("until", until)
        named = as_json(where if until_ms is None else {**where, "until": to_iso(until_ms)})
        with self._session.record("service_fault", method="add", args=[kind], named=named), world.exclusive():
            return service_fault_resource(world.service_faults.add(ServiceFaultSpec(kind, until=until_ms, **where)))

    def clear(self, fault_id: str | None = None) -> int:
        """Remove the fault with this id, or all faults; return the number of removed faults."""
        world = self._session.world
        args = [] if fault_id is None else [checked_text("fault_id", fault_id)]
        with self._session.record("service_fault", method="clear", args=args, named={}), world.exclusive():
            return world.service_faults.clear(fault_id)

    @property
    def hits(self) -> list[Entry]:
        """The journal entries of all faults that applied, since this process opened the sandbox: the field `hits` of a
        fault also counts those before, where `data` was opened again. The list then says that it has no earlier."""
        journal = self._session.world.journal
        return KeptList(journal.entries(kind="service_fault_hit"), journal.lost())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([service_fault_resource(row) for row in self._session.world.service_faults.rows])

    def __len__(self) -> int:
        return len(self._session.world.service_faults.rows)

    def __repr__(self) -> str:
        if self._session.is_closed:
            return "sb.service_faults of a closed sandbox"
        lines = [f"  {row['kind']}: {row['hits']} of {row['count'] or 'any number of'} hits" for row in self]
        advice = ', add one: service_faults.add("error")'
        return counted(len(self), "service fault") + (":\n" + "\n".join(lines) if lines else advice)

    def _repr_html_(self) -> str:
        return html_resources([] if self._session.is_closed else self, caption=repr(self).partition("\n")[0])
