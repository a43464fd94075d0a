"""Handles: what a notebook holds in place of ids. Each asks the world anew, so it always shows the present."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from leyden.lightning.bolt11.codec import Bolt11, decode
from leyden.repr_tables import html_table, plain
from leyden.sandbox.requests import ApiError

if TYPE_CHECKING:
    from leyden.lab.drawings import Drawing
    from leyden.sandbox import Sandbox

__all__ = ["ApiError", "Charge", "Invoice", "Payment", "Resource", "StaticCharge", "warn_of_unknown"]


def warn_of_unknown(sandbox: Sandbox, operation_id: str, names: Iterable[str]) -> None:
    """Warn of names that the service will ignore, as its specification has it: in Python they are slips of the pen."""
    contract = sandbox.world.config.contract
    body = contract.operations[operation_id].body
    if body is None or body.rule.schema.get("additionalProperties") is False:  # then the service refuses them itself
        return
    known = body.properties
    for name in set(names).difference(known):
        near = difflib.get_close_matches(name, known, n=1)
        mend = f"write {near[0]}" if near else f"there are {', '.join(known)}"
        warnings.warn(f"{operation_id} has no field {name} and ignores it: {mend}", stacklevel=3)


class Invoice:
    """A Charge's BOLT11 invoice."""

    def __init__(self, request: str) -> None:
        self.request = request

    def decode(self) -> Bolt11:
        """Its fields, read back from the payment request alone; shown, they are a table."""
        return decode(self.request)

    def __repr__(self) -> str:
        return f"Invoice({self.request[:24]}...)"

    def _repr_html_(self) -> str:
        return self.decode()._repr_html_()


class Resource:
    """A resource of the service, as the service itself shows it. Looking at it leaves no trace."""

    _details = ""

    def __init__(self, sandbox: Sandbox, resource_id: str) -> None:
        self._sandbox = sandbox
        self.id = resource_id

    def _path(self, operation_id: str) -> str:
        """Where the spec puts an operation on this resource."""
        return self._sandbox.path(operation_id).replace("{id}", self.id)

    @property
    def data(self) -> dict[str, Any]:
        """The resource as GET answers it, in the wire's names. Raises `ApiError` when this sandbox has none such."""
        data: dict[str, Any] = self._sandbox.look(self._details, id=self.id)["data"]
        return data

    @property
    def status(self) -> str:
        """The resource's state now."""
        return str(self.data["status"])

    @property
    def created_at(self) -> datetime:
        """When it was created, in UTC."""
        return _moment(self.data["createdAt"])

    @property
    def request(self) -> str:
        """The payment request to show a payer."""
        return str(self.data["invoice"]["request"])

    def qr(self) -> Drawing:
        """The payment request as a QR code."""
        from leyden.lab.drawings import qr

        return qr(self.request)

    def lifecycle(self) -> Drawing:
        """The states that there are, with the path that this one took."""
        from leyden.lab.drawings import lifecycle

        with self._sandbox.world.exclusive():
            return lifecycle(self._sandbox.world, type(self).__name__, self.id)

    def _repr_html_(self) -> str:
        data = self.data
        rows = [(name, value) for name, value in data.items() if name != "invoice"]
        return html_table([*rows, ("invoice", data["invoice"]["request"])], caption=type(self).__name__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resource) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class Charge(Resource):
    """A Charge: one amount, one invoice, one outcome."""

    _details = "getChargeDetails"

    @property
    def amount_msat(self) -> int:
        """The amount in millisatoshis."""
        return int(self.data["amount"])

    @property
    def expires_at(self) -> datetime:
        """The instant from which it is no longer payable, in UTC."""
        return _moment(self.data["expiresAt"])

    @property
    def invoice(self) -> Invoice:
        """The invoice to pay."""
        return Invoice(self.request)

    def fail(self, reason: str = "failed on request") -> Charge:
        """Let the node lose the invoice: a pending Charge goes to `error`. Raises `ApiError` 409 otherwise."""
        self._sandbox.ask("POST", f"/sandbox/v1/charges/{self.id}/fail", {"reason": reason})
        return self

    def timeline(self) -> Drawing:
        """What happened to it and when, in lanes: payer, hops, node, service, callback."""
        from leyden.lab.drawings import timeline

        with self._sandbox.world.exclusive():
            return timeline(self._sandbox.world, self.id)

    def sequence(self) -> Drawing:
        """Who told whom what, as a sequence diagram."""
        from leyden.lab.drawings import sequence

        with self._sandbox.world.exclusive():
            return sequence(self._sandbox.world, self.id)

    def __repr__(self) -> str:
        data = self.data
        when = {"pending": "expiresAt", "completed": "confirmedAt", "expired": "expiresAt"}.get(data["status"])
        told = "" if when is None else f", {data['status'].replace('pending', 'expires')} {data[when]}"
        return f"Charge({data['amount']} msat, {data['status']}, {plain(data['description'])!r}, {self.id}{told})"


class StaticCharge(Resource):
    """A Static Charge: one code that many may pay."""

    _details = "getStaticChargeDetails"

    @property
    def slots(self) -> int:
        """Payments taken so far."""
        return int(self.data["slots"])

    def update(self, /, **fields: Any) -> StaticCharge:
        """PATCH the named fields (the wire's names). Raises `ApiError` when the service refuses."""
        warn_of_unknown(self._sandbox, "updateStaticCharge", fields)
        self._sandbox.ask("PATCH", self._path("updateStaticCharge"), fields)
        return self

    @property
    def charges(self) -> list[Charge]:
        """The Charges that payers asked for, the oldest first."""
        self.data  # noqa: B018  an id unknown here is refused, by the service
        found = self._sandbox.world.service.charges.charges.find("static_charge_id", self.id)
        return [Charge(self._sandbox, row["id"]) for row in found]

    def __repr__(self) -> str:
        data = self.data
        allowed = "" if data["allowedSlots"] is None else f" of {data['allowedSlots']}"
        words = plain(data["description"])
        return f"StaticCharge({data['slots']}{allowed} paid, {data['status']}, {words!r}, {self.id})"


class Payment:
    """One payment of a wallet. Until time moves it is only scheduled."""

    def __init__(self, sandbox: Sandbox, payment_id: str) -> None:
        self._sandbox = sandbox
        self.id = payment_id

    @property
    def row(self) -> Mapping[str, Any]:
        """The payment as the simulation keeps it."""
        with self._sandbox.world.exclusive():
            return self._sandbox.world.payments.rows.existing(self.id)

    @property
    def status(self) -> str:
        """`in_flight`, `held`, `succeeded` or `failed`."""
        return str(self.row["status"])

    @property
    def outcome(self) -> str | None:
        """`SUCCEEDED`, or why it failed in the payer's words (`INCORRECT_PAYMENT_DETAILS`, ...); None while open."""
        outcome: str | None = self.row["outcome"]
        return outcome

    @property
    def reason(self) -> str | None:
        """Why it failed as only the simulation knows; the payer is not told this."""
        reason: str | None = self.row["reason"]
        return reason

    def settle(self) -> Payment:
        """Let the node take a held payment."""
        self._sandbox.ask("POST", f"/sandbox/v1/payments/{self.id}/settle")
        return self

    def cancel(self) -> Payment:
        """Let the node fail a held payment; its Charge goes to `error`."""
        self._sandbox.ask("POST", f"/sandbox/v1/payments/{self.id}/cancel")
        return self

    def __repr__(self) -> str:
        row = self.row
        why = f", {row['outcome']}: {row['reason']}" if row["reason"] else ""
        return f"Payment({row['amount_msat']} msat from {plain(row['payer'])}, {row['status']}{why})"

    def _repr_html_(self) -> str:
        row = self.row
        shown = ("id", "payer", "amount_msat", "received_msat", "status", "outcome", "reason", "request")
        return html_table([(name, row[name]) for name in shown], caption="Payment")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
