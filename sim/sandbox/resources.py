"""Resources of the service and payments, by id. Each attribute is read anew, so it shows the present state."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from leyden.arguments import methods_with_hints
from leyden.errors import ApiError
from leyden.lab.charge_states import states_entered
from leyden.lightning.bolt11.codec import Bolt11, decode
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.repr_tables import html_table, plain
from leyden.sandbox.payment_waits import wait_text
from leyden.sandbox.session import Session
from leyden.server.callbacks.deliveries import BLOCKED
from leyden.server.callbacks.egress import THEN_REPLAY, before_attempt
from leyden.server.contract.lifecycle_rows import EXPIRY_REACHED
from leyden.server.http.field_names import meant_field
from leyden.server.printable import printable

if TYPE_CHECKING:
    from leyden.lab.drawings import Drawing

_Item = TypeVar("_Item")


def warn_about_ignored(session: Session, operation_id: str, names: Iterable[str]) -> None:
    """Warn about fields that the service ignores: its specification allows them, but in Python they are mistakes."""
    body = session.world.config.contract.operation(operation_id).body
    if body is None or body.rule.schema.get("additionalProperties") is False:  # then the service refuses them
        return
    given, schemas = set(names), body.rule.schema.get("properties", {})
    unused = {name: schemas.get(name, {}) for name in body.properties if name not in given}
    for name in given.difference(body.properties):
        meant = meant_field(name, unused)
        advice = f"its fields are {', '.join(body.properties)}"
        if meant is not None:
            advice = f"write {meant.name}" + (f", {meant.in_unit}" if meant.unit else "")
        warnings.warn(f"{operation_id} has no field {printable(name[:60])} and ignores it: {advice}", stacklevel=3)


class Invoice:
    """A Charge's BOLT11 invoice."""

    def __init__(self, request: str) -> None:
        self.request = request

    def decode(self) -> Bolt11:
        """Its fields, decoded from the payment request alone. Raises `ValueError` for a text that is no invoice."""
        return decode(self.request)

    def __repr__(self) -> str:
        return f"Invoice({self.request[:24]}...)"

    def _repr_html_(self) -> str:
        return self.decode()._repr_html_()


class Shown(ABC):
    """What a sandbox shows of one of its rows. It may be closed, or may not have the row any more."""

    _session: Session
    id: str

    _table = ""  # the one with its row

    def __repr__(self) -> str:
        return self._shown(self._text, str)

    def _repr_html_(self) -> str:
        return self._shown(self._html, escape)

    def _shown(self, show: Callable[[], str], encode: Callable[[str], str]) -> str:
        """What `show` returns, or else why there is nothing to show."""
        why = "of a closed sandbox"
        if not self._session.is_closed:
            try:
                return show()
            except ApiError as error:
                if error.status != 404:
                    raise
            why = f"which the sandbox does not have{self._session.world.removed.unknown(self._table)}"
        return encode(f"{type(self).__name__}({self.id}, {why})")

    @abstractmethod
    def _text(self) -> str:
        """The repr."""

    @abstractmethod
    def _html(self) -> str:
        """The table in a notebook."""


class Resource(Shown):
    """A resource of the service. Reading it changes and records nothing."""

    _details = ""

    def __init__(self, session: Session, resource_id: str) -> None:
        self._session = session
        self.id = resource_id

    def _path(self, operation_id: str) -> str:
        """The path of an operation on this resource."""
        return self._session.path(operation_id).replace("{id}", self.id)

    @property
    def data(self) -> dict[str, Any]:
        """The resource as GET shows it, with the API's field names. Raises `ApiError` 404 for an unknown id."""
        data: dict[str, Any] = self._session.read(self._details, id=self.id)["data"]
        return data

    @property
    def status(self) -> str:
        """The present state."""
        return str(self.data["status"])

    @property
    def created_at(self) -> datetime:
        """The instant of its creation, in UTC. A Charge has that of its invoice, which is in whole seconds."""
        return _instant(self.data["createdAt"])

    @property
    def request(self) -> str:
        """The payment request for a payer: a BOLT11 invoice or an LNURL."""
        return str(self.data["invoice"]["request"])

    def qr(self) -> Drawing:
        """The payment request as a QR code."""
        from leyden.lab.drawings import qr

        return qr(self.request)

    def lifecycle(self) -> Drawing:
        """The state diagram, with the transitions of this resource marked."""
        from leyden.lab.drawings import lifecycle

        with self._session.world.exclusive():
            return lifecycle(self._session.world, type(self).__name__, self.id)

    def _html(self) -> str:
        data = self.data
        rows = [(name, value) for name, value in data.items() if name != "invoice"]
        note = self._block(data)
        rows += [("invoice", data["invoice"]["request"])] + [("callbacks", f"blocked: {note}")] * bool(note)
        rows += [("charges", without)] if (without := self._without()) else []
        return html_table(rows, caption=type(self).__name__)

    def _without(self) -> str:
        """What the sandbox no longer has of those that this one lists."""
        return ""

    def _blocked(self, data: Mapping[str, Any]) -> str:
        """The part of a repr about callbacks that cannot leave the sandbox."""
        note = self._block(data)
        return note and f", callbacks blocked: {note}"

    def _block(self, data: Mapping[str, Any]) -> str:
        """Why callbacks cannot leave the sandbox, and what to change; empty when they may."""
        note, rows = self._session.callback_note(data["callbackUrl"]), self._session.world.service.outbox.rows
        fields = ("resource_id", "endpoint_id")
        was_blocked = note and any(rows.count_with({field: self.id, "status": BLOCKED}) for field in fields)
        return note.replace(THEN_REPLAY, " and replay its blocked deliveries") if was_blocked else before_attempt(note)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resource) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class KeptList(list[_Item]):
    """A list of what a sandbox still has. Shown, it also says what is missing, such as how many others were removed
    from the sandbox and where they are."""

    def __init__(self, found: Iterable[_Item], without: str) -> None:
        super().__init__(found)
        self._without = without

    def __repr__(self) -> str:
        return ", ".join(filter(None, [super().__repr__(), self._without]))


@methods_with_hints
class Charge(Resource):
    """A Charge: one amount, one invoice, one outcome."""

    _details = "getChargeDetails"
    _table = "charges"

    @property
    def amount_msat(self) -> int:
        """The amount in millisatoshis."""
        return int(self.data["amount"])

    @property
    def expires_at(self) -> datetime:
        """The instant of its expiry, in UTC: from then on it cannot be paid."""
        return _instant(self.data["expiresAt"])

    @property
    def invoice(self) -> Invoice:
        """Its invoice."""
        return Invoice(self.request)

    def fail(self, reason: str = "failed on request") -> Charge:
        """Let the node fail the invoice: a pending Charge goes to `error`. Raises `ApiError` 409 in any other state."""
        self._session.ask("POST", f"/sandbox/v1/charges/{self.id}/fail", {"reason": reason})
        return self

    def timeline(self) -> Drawing:
        """A drawing of what happened and when, in lanes: payer, hops, node, service, callback."""
        from leyden.lab.drawings import timeline

        with self._session.world.exclusive():
            return timeline(self._session.world, self.id)

    def sequence(self) -> Drawing:
        """A sequence diagram of the messages between payer, network, node, service and receiver."""
        from leyden.lab.drawings import sequence

        with self._session.world.exclusive():
            return sequence(self._session.world, self.id)

    def _text(self) -> str:
        data = self.data
        table, status, time = self._session.world.config.contract.lifecycle("Charge"), data["status"], ""
        if status == table.initial:
            time = f", expires {data['expiresAt']}"
        elif data["confirmedAt"] is not None:
            time = f", {status} {data['confirmedAt']}"
        elif status in states_entered(table, EXPIRY_REACHED):
            time = f", {status} {data['expiresAt']}"
        words = plain(data["description"])
        return f"Charge({data['amount']} msat, {status}, {words!r}, {self.id}{time}{self._blocked(data)})"


class StaticCharge(Resource):
    """A Static Charge: one LNURL code that many payers can use."""

    _details = "getStaticChargeDetails"
    _table = "static_charges"

    @property
    def slots(self) -> int:
        """The number of slots used by payments so far."""
        return int(self.data["slots"])

    def update(self, /, **fields: Any) -> StaticCharge:
        """PATCH the given fields, by the API's names. Raises `ApiError` when the service refuses."""
        warn_about_ignored(self._session, "updateStaticCharge", fields)
        self._session.ask("PATCH", self._path("updateStaticCharge"), fields)
        return self

    @property
    def charges(self) -> list[Charge]:
        """The Charges that payers requested from it, oldest first. Those that `run(spill=)` wrote to files, or that a
        bound removed, are missing, and the list says so."""
        self.data  # noqa: B018  raises for an unknown id
        world = self._session.world
        with world.exclusive():
            rows = list(world.service.charges.charges.find("static_charge_id", self.id))
            return KeptList([Charge(self._session, row["id"]) for row in rows], self._without())

    def _without(self) -> str:
        return self._session.world.removed.without("charges", " Charges of all kinds")

    def _text(self) -> str:
        data = self.data
        allowed = "" if data["allowedSlots"] is None else f" of {data['allowedSlots']}"
        words = plain(data["description"])
        paid = f"{data['slots']}{allowed} paid"
        without = self._without()
        more = f"{self._blocked(data)}{without and f', {without}'}"
        return f"StaticCharge({paid}, {data['status']}, {words!r}, {self.id}{more})"


class Payment(Shown):
    """One payment of a wallet. It is only scheduled until time moves."""

    _table = "payments"

    def __init__(self, session: Session, payment_id: str) -> None:
        self._session = session
        self.id = payment_id

    @property
    def row(self) -> PaymentRow:
        """The row of the payment in the simulation's store. Raises `ApiError` 404 when it has none any more."""
        with self._session.world.exclusive():
            row = self._session.world.payments.rows.row(self.id)
        if row is None:  # removed, or after a reset or a restore
            removed = self._session.world.removed.unknown("payments")
            detail = f"this sandbox has no payment with this id: list the payments{removed}"
            raise ApiError(404, {"title": "Not found", "status": 404, "detail": detail})
        return row

    @property
    def status(self) -> str:
        """`in_flight`, `held`, `succeeded` or `failed`."""
        return self.row["status"]

    @property
    def outcome(self) -> str | None:
        """`SUCCEEDED`, or the failure that the payer sees (`INCORRECT_PAYMENT_DETAILS`, ...); None before the end."""
        return self.row["outcome"]

    @property
    def reason(self) -> str | None:
        """The cause of the failure, which only the simulation knows and the payer does not; None without a failure."""
        return self.row["reason"]

    def settle(self) -> Payment:
        """Let the node settle a held payment. On a network `status` stays `held` until the payer knows.

        Raises `ApiError` 409 when it is not held.
        """
        self._session.ask("POST", f"/sandbox/v1/payments/{self.id}/settle")
        return self

    def cancel(self) -> Payment:
        """Let the node fail a held payment; its Charge goes to `error`. On a network `status` stays `held` until the
        payer knows. Raises `ApiError` 409 when it is not held."""
        self._session.ask("POST", f"/sandbox/v1/payments/{self.id}/cancel")
        return self

    def _text(self) -> str:
        row, waits = self.row, self._waits()
        why = f", {row['outcome']}: {row['reason']}" if row["reason"] else waits and f": {waits}"
        amount = "amount unknown," if row["amount_msat"] is None else f"{row['amount_msat']} msat"
        return f"Payment({amount} from {plain(row['payer'])}, {row['status']}{why})"

    def _html(self) -> str:
        row: Mapping[str, Any] = self.row
        shown = ("id", "payer", "amount_msat", "received_msat", "status", "outcome", "reason", "request")
        waits = self._waits()
        rows = [(name, row[name]) for name in shown] + [("waits", waits)] * bool(waits)
        return html_table(rows, caption="Payment")

    def _waits(self) -> str:
        with self._session.world.exclusive():
            return wait_text(self._session.world, self.row)


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
