"""Handles: what a notebook holds in place of ids. Each asks the world anew, so it always shows the present."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from server.errors import LeydenError
from sim.bolt11 import Bolt11, decode
from sim.faults import fault_resource
from sim.journal import Entry

if TYPE_CHECKING:
    from sim.sandbox import Sandbox


class ApiError(LeydenError):
    """The service refused a request. `status` is the HTTP status, `problem` the RFC 9457 document."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('title')}: {problem.get('detail')}")
        self.status = status
        self.problem = problem


class Invoice:
    """A Charge's BOLT11 invoice."""

    def __init__(self, request: str) -> None:
        self.request = request

    def decode(self) -> Bolt11:
        """Its fields, read back from the payment request alone."""
        return decode(self.request)

    def __repr__(self) -> str:
        return f"Invoice({self.request[:24]}...)"


class _Resource:
    """A resource of the service, read through the service's own door."""

    _details = ""

    def __init__(self, sandbox: Sandbox, resource_id: str) -> None:
        self._sandbox = sandbox
        self.id = resource_id

    def _path(self, operation_id: str) -> str:
        """Where the spec puts an operation on this resource."""
        return self._sandbox.path(operation_id).replace("{id}", self.id)

    @property
    def data(self) -> dict[str, Any]:
        """The resource as GET answers it, in the wire's names."""
        answer: dict[str, Any] = self._sandbox.ask("GET", self._path(self._details))
        data: dict[str, Any] = answer["data"]
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

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left;padding-right:1em'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(str(value))[:120]}</td></tr>"
            for name, value in self.data.items()
        )
        return f"<table>{rows}</table>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Resource) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class Charge(_Resource):
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

    def __repr__(self) -> str:
        data = self.data
        return f"Charge({data['amount']} msat, {data['status']}, {data['description']!r}, {self.id})"


class StaticCharge(_Resource):
    """A Static Charge: one code that many may pay."""

    _details = "getStaticChargeDetails"

    @property
    def slots(self) -> int:
        """Payments taken so far."""
        return int(self.data["slots"])

    def update(self, **fields: Any) -> StaticCharge:
        """PATCH the named fields (the wire's names). Raises `ApiError` when the service refuses."""
        self._sandbox.ask("PATCH", self._path("updateStaticCharge"), fields)
        return self

    @property
    def charges(self) -> list[Charge]:
        """The Charges that payers asked for, the oldest first; at most the newest thousand."""
        answer = self._sandbox.ask("GET", self._path("listStaticChargeCharges") + "?limit=1000")
        return [Charge(self._sandbox, item["id"]) for item in reversed(answer["data"])]

    def __repr__(self) -> str:
        data = self.data
        allowed = "" if data["allowedSlots"] is None else f" of {data['allowedSlots']}"
        return f"StaticCharge({data['slots']}{allowed} paid, {data['status']}, {data['description']!r}, {self.id})"


class Payment:
    """One payment of a wallet. Until time moves it is only scheduled."""

    def __init__(self, sandbox: Sandbox, payment_id: str) -> None:
        self._sandbox = sandbox
        self.id = payment_id

    @property
    def row(self) -> Mapping[str, Any]:
        """The payment as the simulation keeps it."""
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
        why = f", {self.reason}" if self.reason else ""
        return f"Payment({self.row['amount_msat']} msat, {self.status}{why})"


class Collection:
    """The resources of one kind: `create(...)` with the wire's names, `[id]`, iteration in order of creation."""

    def __init__(self, sandbox: Sandbox, kind: type[Any], create: str, listing: str) -> None:
        self._sandbox = sandbox
        self._kind = kind
        self._create = sandbox.path(create)
        self._list = sandbox.path(listing)

    def create(self, **fields: Any) -> Any:
        """POST a new one. Raises `ApiError` with the problem document when the service refuses."""
        answer = self._sandbox.ask("POST", self._create, fields)
        return self._kind(self._sandbox, answer["data"]["id"])

    def __getitem__(self, resource_id: str) -> Any:
        handle = self._kind(self._sandbox, resource_id)
        handle.data  # noqa: B018  an unknown id is refused here, by the service
        return handle

    def __iter__(self) -> Iterator[Any]:
        found: list[Any] = []
        after = ""
        while True:
            answer = self._sandbox.ask("GET", f"{self._list}?limit=1000{after}")
            found.extend(self._kind(self._sandbox, item["id"]) for item in answer["data"])
            if answer["next"] is None:
                return iter(found[::-1])
            after = f"&after={answer['next']}"

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        items = list(self)
        shown = "\n".join(f"  {item!r}" for item in items[-5:])
        return f"{len(items)} in {self._list}" + (f", the newest:\n{shown}" if items else "")


class FaultList:
    """What goes wrong on purpose, the oldest first: dicts in the control plane's names."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def add(self, kind: str, *, charge: _Resource | str | None = None, **where: Any) -> dict[str, Any]:
        """Let something go wrong: `kind` is one of `sim.faults.KINDS`, `where` is as in `sim.faults.Faults.add`.

        faults.add("drop", charge=charge, attempt=2)      the second attempt of this Charge's callback
        faults.add("duplicate", event="charge.expired", count=3)

        Raises `ValueError` for what could never strike.
        """
        world = self._sandbox.world
        with world.turn():
            charge_id = charge.id if isinstance(charge, _Resource) else charge
            return fault_resource(world.faults.add(kind, charge=charge_id, **where))

    def clear(self, fault_id: str | None = None) -> int:
        """Let this one (by its id), or every one, strike no more; the number taken away."""
        world = self._sandbox.world
        with world.turn():
            return world.faults.clear(fault_id)

    @property
    def hits(self) -> list[Entry]:
        """The journal's entries of every time that one struck."""
        return self._sandbox.world.journal.entries(kind="fault_hit")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([fault_resource(row) for row in self._sandbox.world.faults.rows])

    def __len__(self) -> int:
        return len(self._sandbox.world.faults.rows)

    def __repr__(self) -> str:
        lines = [f"  {row['kind']}: {row['hits']} of {row['count'] or 'any number of'} hits" for row in self]
        return f"{len(self)} faults" + (":\n" + "\n".join(lines) if lines else ', add one: faults.add("drop")')


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
