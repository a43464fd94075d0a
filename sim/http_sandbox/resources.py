"""Resources, rules, wallets and payments of a sandbox on a running server (`leyden.http_sandbox`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, Self

from leyden.arguments import (
    FIRST_MS,
    LAST_MS,
    NOW,
    checked_flag,
    checked_start,
    checked_text,
    payer_name,
    shortened,
    span_from,
)
from leyden.errors import ArgumentError
from leyden.http_sandbox.requests import OverHttp, segment
from leyden.server.printable import quoted
from leyden.server.timestamps import MAX_INSTANT_MS, parse_iso, to_iso

Span = str | float | timedelta
Instant = str | int | datetime


class Served(Protocol):
    """The sandbox: a client of its server."""

    def ask(self, method: str, target: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request and return the JSON of its response."""

    def send_fields(self, method: str, target: str, fields: Mapping[str, Any]) -> Any:
        """As `ask`, with a warning about fields that the service ignores."""

    def pages(self, target: str, **filters: Any) -> Iterator[Any]:
        """The rows of a list."""


class HttpResource(OverHttp):
    """A Charge or a Static Charge, by its id. Each attribute is read anew, so it shows the present state."""

    def __init__(self, sandbox: Served, path: str, resource_id: str) -> None:
        self._sandbox = sandbox
        self._path = f"{path}/{segment('id', resource_id)}"
        self.id = resource_id

    @property
    def data(self) -> dict[str, Any]:
        """The resource as GET shows it, with the API's field names. Raises `ApiError` 404 for an unknown id."""
        data: dict[str, Any] = self._sandbox.ask("GET", self._path)["data"]
        return data

    @property
    def status(self) -> str:
        """The present state."""
        return str(self.data["status"])

    @property
    def created_at(self) -> datetime:
        """The instant of its creation, in UTC."""
        return datetime.fromisoformat(self.data["createdAt"]).astimezone(UTC)

    @property
    def request(self) -> str:
        """The payment request for a payer: a BOLT11 invoice or an LNURL."""
        return str(self.data["invoice"]["request"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HttpResource) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class HttpCharge(HttpResource):
    """A Charge: one amount, one invoice, one outcome."""

    @property
    def amount_msat(self) -> int:
        """The amount in millisatoshis."""
        return int(self.data["amount"])

    @property
    def expires_at(self) -> datetime:
        """The instant of its expiry, in UTC: from then on it cannot be paid."""
        return datetime.fromisoformat(self.data["expiresAt"]).astimezone(UTC)

    def fail(self, reason: str = "failed on request") -> Self:
        """Let the node fail the invoice: a pending Charge goes to `error`. Raises `ApiError` 409 in any other state."""
        self._sandbox.ask("POST", f"/sandbox/v1/charges/{self.id}/fail", {"reason": reason})
        return self


class HttpStaticCharge(HttpResource):
    """A Static Charge: one LNURL code that many payers can use."""

    @property
    def slots(self) -> int:
        """The number of slots used by payments so far."""
        return int(self.data["slots"])

    @property
    def charges(self) -> list[HttpCharge]:
        """The Charges that payers requested from it, oldest first."""
        self.data  # noqa: B018  raises for an unknown id
        rows = [*self._sandbox.pages("/sandbox/v1/charges", staticChargeId=self.id)]
        return [HttpCharge(self._sandbox, "/v0/charges", row["id"]) for row in reversed(rows)]

    def update(self, /, **fields: Any) -> Self:
        """PATCH the given fields, by the API's names. Raises `ApiError` when the service refuses."""
        self._sandbox.send_fields("PATCH", self._path, fields)
        return self


class HttpCollection(OverHttp):
    """All resources of one kind: `create(...)` with the API's field names, `[id]`, iteration in order of creation."""

    def __init__(self, sandbox: Served, path: str, kind: type[Any]) -> None:
        self._sandbox = sandbox
        self._path = path
        self._kind = kind

    def create(self, /, **fields: Any) -> Any:
        """POST a new resource. Raises `ApiError` with the problem document when the service refuses, and warns about
        fields that it ignores."""
        created = self._sandbox.send_fields("POST", self._path, fields)
        return self._kind(self._sandbox, self._path, created["data"]["id"])

    def __getitem__(self, resource_id: str) -> Any:
        """The resource with this id. Raises `ApiError` 404 for an unknown id."""
        resource = self._kind(self._sandbox, self._path, resource_id)
        resource.data  # noqa: B018  raises for an unknown id
        return resource

    def __iter__(self) -> Iterator[Any]:
        newest_first = [row["id"] for row in self._sandbox.pages(self._path)]
        return iter([self._kind(self._sandbox, self._path, each) for each in reversed(newest_first)])

    def __len__(self) -> int:
        return sum(1 for _ in self._sandbox.pages(self._path))


class HttpRules(OverHttp):
    """Injected faults, service faults or payers, oldest first, as the control plane shows them."""

    def __init__(self, sandbox: Served, path: str) -> None:
        self._sandbox = sandbox
        self._path = path

    def _add(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        # None is what a field has that was left out, except for `count`: there it is "until it is cleared".
        body = {_wire_name(name): wire_value(name, value) for name, value in fields.items() if _is_given(name, value)}
        added: dict[str, Any] = self._sandbox.ask("POST", self._path, body)
        return added

    def _clear(self, rule_id: str | None) -> int:
        path = self._path if rule_id is None else f"{self._path}/{segment('id', rule_id)}"
        return int(self._sandbox.ask("DELETE", path)["cleared"])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self._sandbox.pages(self._path)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class HttpFaults(HttpRules):
    """Injected faults of callbacks."""

    def add(self, kind: str, *, charge: HttpResource | str | None = None, **where: Any) -> dict[str, Any]:
        """Inject a fault, with the arguments of `Sandbox.faults.add` or the control plane's field names. Raises
        `ApiError` for one that could never apply."""
        return self._add({"kind": kind, "charge": charge, **where})

    def clear(self, fault_id: str | None = None) -> int:
        """Remove the fault with this id, or all; return how many were removed."""
        return self._clear(fault_id)


class HttpServiceFaults(HttpRules):
    """Faults of the service itself."""

    def add(self, kind: str, *, until: Instant | None = None, **where: Any) -> dict[str, Any]:
        """Inject a fault, with the arguments of `Sandbox.service_faults.add` or the control plane's field names. Raises
        `ApiError` for one that could never apply."""
        return self._add({"kind": kind, "until": until, **where})

    def clear(self, fault_id: str | None = None) -> int:
        """Remove the fault with this id, or all; return how many were removed."""
        return self._clear(fault_id)


class HttpPayers(HttpRules):
    """Payers that pay by themselves."""

    def add(self, *, static_charge: HttpResource | str | None = None, **where: Any) -> dict[str, Any]:
        """Add a payer, with the arguments of `Sandbox.payers.add` or the control plane's field names. Raises `ApiError`
        for a rule that is not possible."""
        return self._add({"static_charge": static_charge, **where})

    def clear(self, payer_id: str | None = None) -> int:
        """Remove the payer with this id, or all; return how many were removed."""
        return self._clear(payer_id)


_WIRE_NAMES = {"charge": "chargeId", "static_charge": "staticChargeId"}


def _wire_name(name: str) -> str:
    """The control plane's name of an argument."""
    first, *rest = name.split("_")
    return _WIRE_NAMES.get(name) or first + "".join(word.capitalize() for word in rest)


def wire_value(name: str, value: Any) -> Any:
    """A value in JSON: resources by their ids, spans in seconds, instants and amounts as texts."""
    match value:
        case HttpResource():
            return value.id
        case timedelta():
            return value.total_seconds()
        case datetime():
            return value.isoformat()
        case int() if name == "amount":
            return shortened(value)
    if name != "until" or value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise not_an_instant(value)
    return iso_of(value, FIRST_MS, LAST_MS)


def iso_of(instant_ms: int, first_ms: int = 0, last_ms: int = MAX_INSTANT_MS) -> str:
    """The text of an instant that is given in milliseconds. Raises `ArgumentError` for one before the first and after
    the last, which are named by their years."""
    if not first_ms <= instant_ms <= last_ms:
        years = f"{to_iso(first_ms)[:4]} to {to_iso(last_ms)[:4]}"
        raise ArgumentError(f"{shortened(instant_ms)} ms lies outside the years {years}: give an instant in them")
    return to_iso(instant_ms)


def with_start(order: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a new sandbox or of a reset, with `start` as the server takes it. Raises `ValueError` for a start
    that `leyden.Sandbox` does not take either, and is not `now`."""
    start = order.get("start")
    if start is None or start == NOW:
        return dict(order)
    if isinstance(start, bool) or not isinstance(start, str | int | datetime):
        raise not_an_instant(start)
    start_ms = start if isinstance(start, int) else parse_iso(wire_value("start", start), clamp=True)
    return {**order, "start": to_iso(checked_start(start_ms, start))}


def not_an_instant(value: object) -> ArgumentError:
    """The error for a value that is no instant."""
    forms = "an ISO 8601 text, a datetime with a zone, or epoch milliseconds"
    return ArgumentError(f"{quoted(value, 60)} is not an instant: give {forms}")


def query_text(name: str, value: Any) -> Any:
    """A value of a query. Raises `ArgumentError` for what is neither a text nor a number nor a resource."""
    value = wire_value(name, value)
    if isinstance(value, str):
        return checked_text(name, value)
    if not isinstance(value, int | float):
        raise ArgumentError(f"{name}={quoted(value, 60)} is no text and no number: give one")
    return str(value).lower() if isinstance(value, bool) else shortened(value) if isinstance(value, int) else value


def _is_given(name: str, value: Any) -> bool:
    return value is not None or name == "count"


class HttpWallet(OverHttp):
    """A wallet that pays over the control plane."""

    def __init__(self, sandbox: Served, name: str) -> None:
        self._sandbox = sandbox
        self.name = payer_name(name)

    def pay(
        self,
        what: HttpResource | str,
        *,
        amount: int | str | None = None,
        outcome: str = "settle",
        delay: Span = 0,
        comment: str | None = None,
        late: bool = False,
    ) -> HttpPayment:
        """Pay a Charge, a Static Charge, or the text of a payment request, `delay` from now. `amount` (msat) replaces
        that of the invoice. An expired invoice is paid with `late` only. A payment that fails is a `failed` payment,
        and raises nothing."""
        order: dict[str, Any] = {
            "request": _request(what),
            "payer": self.name,
            "outcome": outcome,
            "delay": span_from("delay", delay) / 1_000,
        }
        if amount is not None:
            order["amount"] = wire_value("amount", amount)
        if comment is not None:
            order["comment"] = comment
        if checked_flag("late", late):
            order["late"] = True
        return HttpPayment(self._sandbox, self._sandbox.ask("POST", "/sandbox/v1/payments", order)["id"])

    def scan(
        self,
        what: HttpResource | str,
        *,
        amount: int | str | None = None,
        comment: str = "",
        outcome: str = "settle",
        delay: Span = 0,
    ) -> HttpPayment:
        """Pay a Static Charge, an LNURL or a Lightning address, as `pay` does: without an `amount` the least one."""
        given = None if isinstance(comment, str) and not comment else comment
        return self.pay(what, amount=amount, outcome=outcome, delay=delay, comment=given)


def _request(what: Any) -> Any:
    """The payment request of a resource, or the text of one."""
    if isinstance(what, str):
        return what
    request = getattr(what, "request", None)
    if not isinstance(request, str):
        raise ArgumentError(
            f"{quoted(what, 60)} cannot be paid: give a Charge, a Static Charge or the text of a payment request"
        )
    return request


class HttpPayment(OverHttp):
    """One payment. Each attribute is read anew."""

    def __init__(self, sandbox: Served, payment_id: str) -> None:
        self._sandbox = sandbox
        self._path = f"/sandbox/v1/payments/{payment_id}"
        self.id = payment_id

    @property
    def data(self) -> dict[str, Any]:
        """The payment as the control plane shows it."""
        data: dict[str, Any] = self._sandbox.ask("GET", self._path)
        return data

    @property
    def status(self) -> str:
        """`in_flight`, `held`, `succeeded` or `failed`."""
        return str(self.data["status"])

    @property
    def reason(self) -> str | None:
        """The cause of the failure, which the payer does not learn; None without a failure."""
        reason: str | None = self.data["reason"]
        return reason

    def settle(self) -> Self:
        """Let the node settle a held payment. Raises `ApiError` 409 when it is not held."""
        self._sandbox.ask("POST", f"{self._path}/settle")
        return self

    def cancel(self) -> Self:
        """Let the node fail a held payment; its Charge goes to `error`. Raises `ApiError` 409 when it is not held."""
        self._sandbox.ask("POST", f"{self._path}/cancel")
        return self
