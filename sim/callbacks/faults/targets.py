"""Whether a Charge or a Static Charge sends a callback to which a fault could apply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from leyden.callbacks.faults.kinds import FaultFieldRefused, FaultSpec
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.callbacks.outbox import Outbox
from leyden.server.charges.charges import ChargeService
from leyden.server.charges.rows import ChargeRow
from leyden.server.charges.static_charges import StaticChargeService
from leyden.server.contract.types import Contract

_READ_AT_ONCE = 100


def check_sends(
    contract: Contract, spec: FaultSpec, outbox: Outbox, charges: ChargeService, static_charges: StaticChargeService
) -> None:
    """Raise `FaultFieldRefused` for a fault that no callback of its Charge or Static Charge could meet."""
    _check_kind(contract, spec, charges.charges.row(str(spec.charge)))
    _check_still_sends(spec, outbox, charges, static_charges)


def _check_kind(contract: Contract, spec: FaultSpec, charge: ChargeRow | None) -> None:
    """Raise `FaultFieldRefused` for a fault of a Charge, or of a Static Charge (None), that sends no such callback."""
    if charge is not None and charge["callback_url"] is None:
        raise FaultFieldRefused(
            "this Charge has no callbackUrl, so no callback of it is sent: create it with a callbackUrl, or"
            " leave out {}",
            "charge",
        )
    is_plain = charge is not None and charge["static_charge_id"] is None
    operation = contract.operations.get("createCharge" if is_plain else "createStaticCharge")
    rules = () if operation is None else operation.callbacks
    events = {event for rule in rules for event in rule.delivery.events.values()}
    what = "this Charge" if is_plain else "a Static Charge and its payments"
    names = {rule.name for rule in rules}
    for name, given, sent in (("operation", spec.operation, names), ("event", spec.event, events)):
        if given is not None and given not in sent:
            mend = f"give {' or '.join(sorted(sent))}, or leave out {{}}" if sent else "leave out {}"
            verb = "sends" if is_plain else "send"
            raise FaultFieldRefused(f"{what} {verb} no callback with the {name} {given}: {mend}", name)


def _check_still_sends(
    spec: FaultSpec, outbox: Outbox, charges: ChargeService, static_charges: StaticChargeService
) -> None:
    """Raise `FaultFieldRefused` for a fault of a Charge or a Static Charge that has ended and of which no delivery that
    is there could meet it: those are all that is sent, and sent again."""
    charge = charges.charges.row(str(spec.charge))
    resource = static_charges.static_charges.existing(str(spec.charge)) if charge is None else charge
    if not _has_ended(spec, charge, charges, static_charges):
        return
    about = {"endpoint_id" if charge is None else "resource_id": spec.charge}
    event = {} if spec.event is None else {"event": spec.event}
    least = None
    for row in _deliveries(outbox, {**about, **event}):
        if spec.operation in (None, row["rule"]):
            number = AttemptLog(row).attempt_count + 1
            least = number if least is None else min(least, number)
            if spec.attempt is None or spec.attempt >= number:
                return
    start = f"this {'Static Charge' if charge is None else 'Charge'} is {resource['status']} and sends"
    if least is not None:
        text = f"{start} only replays and the attempts that are left, of which none has a number below {least}"
        raise FaultFieldRefused(f"{text}: give an {{}} of {least} or more, or leave it out", "attempt")
    others = sorted({row["event"] for row in _deliveries(outbox, about)})
    if others and event:
        text = f"{start} no callback with the event {spec.event} any more"
        raise FaultFieldRefused(f"{text}: give {' or '.join(others)}, or leave out {{}}", "event")
    if others:
        raise FaultFieldRefused(f"{start} no callback of the {{}} {spec.operation} any more: leave it out", "operation")
    raise FaultFieldRefused(f"{start} no more callbacks: give another {{}}, or leave it out", "charge")


def _has_ended(
    spec: FaultSpec, charge: ChargeRow | None, charges: ChargeService, static_charges: StaticChargeService
) -> bool:
    """Whether nothing new is sent about the Charge, or about the Static Charge (None) and its payments."""
    table = charges.lifecycle.table
    if charge is not None:
        return charge["status"] in table.terminal
    static = static_charges.static_charges.existing(str(spec.charge))
    if static["status"] not in static_charges.lifecycle.table.terminal:
        return False
    open_states = [state for state in table.states if state not in table.terminal]
    of_it = {"static_charge_id": spec.charge}
    return not any(charges.charges.count_with({**of_it, "status": state}) for state in open_states)


def _deliveries(outbox: Outbox, filters: dict[str, str | None]) -> Iterator[DeliveryRow]:
    """The deliveries with these values, the oldest first."""
    after = None
    while rows := outbox.rows.page_up(filters, after, _READ_AT_ONCE):
        yield from cast("list[DeliveryRow]", rows)
        after = rows[-1].doc_id
