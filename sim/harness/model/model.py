"""The reference model: computes the expected result of each step before the service does it.

Each method belongs to a step of `leyden.harness.executors`. It changes the model and returns the expected response.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from leyden.harness.model.callbacks import DueTimeObserver, Outbox
from leyden.harness.model.charges import ModelLedger, row_name
from leyden.harness.model.records import Charge, Payment, StaticCharge
from leyden.harness.model.rules import (
    DEFAULT_EXPIRY_S,
    LINK_EXPIRY_S,
    MAX_COMMENT,
    MAX_SIGNING,
    RETENTION_MS,
    Interpretation,
    body_errors,
    decimal_points,
    is_idempotency_key,
    number_or_none,
)
from leyden.harness.model.timeline import Timeline

Body = Mapping[str, Any]
EITHER, ANYWHERE = "either", frozenset({"anywhere"})
# The places of errors, as the examples of the document have them.
_KEY, _BOUNDS = frozenset({"header.idempotency-key"}), frozenset({"/minAmount", "/maxAmount"})


@dataclass(slots=True)
class ExpectedResponse:
    """The expected response: its status, the `code` of an error, and the `rule`, an entry of DECISIONS.md.

    `pointers` are the places that `errors` of a problem document names, no others. The code `EITHER` and the pointers
    `ANYWHERE` are those of an error that is one of two.
    `record` is what a 200 shows; `replays` is the exact body of an earlier response; `record_body`
    takes the body of this one.
    """

    status: int
    code: str = ""
    rule: str = ""
    pointers: frozenset[str] = frozenset()
    record: Charge | StaticCharge | None = None
    replays: bytes | None = None
    record_body: Callable[[bytes], None] | None = None


def amount_of(outcome: str, invoiced: int) -> int:
    """What a payer sends of an invoice over `invoiced` msat if no amount is given [scripted-payments]."""
    sent = {"underpay": invoiced - 1, "overpay": invoiced + invoiced // 2, "overpay_double": 2 * invoiced + 1}
    return sent.get(outcome, invoiced)


class Model:
    """The expected state of the service. `observe_due_time` returns the times that the service chooses at random;
    `name_elsewhere` whether a user name is in use by what this model does not have."""

    def __init__(
        self,
        interpretation: Interpretation,
        start_ms: int,
        observe_due_time: DueTimeObserver,
        name_elsewhere: Callable[[str], bool] = lambda user: False,
    ) -> None:
        self.interpretation = interpretation
        self.name_elsewhere = name_elsewhere
        self.timeline = Timeline(start_ms)
        self.changed: dict[Charge | StaticCharge, None] = {}
        self.outbox = Outbox(
            self.timeline,
            interpretation,
            observe_due_time,
            self._mark_changed,
            self.signing_secrets,
            self.earlier_secret,
        )
        self.ledger = ModelLedger(self.timeline, interpretation, self.outbox, self._mark_changed)
        self.secrets: dict[str, list[tuple[str, int | None]]] = {}
        self.limits: list[tuple[str | None, int, int]] = []  # operation, requests, seconds
        self.retry_after_s = 0  # of the latest 429
        self._responses: dict[tuple[str, str, str], tuple[str, int, bytes]] = {}

    @property
    def now(self) -> int:
        """The present time, in ms since 1970."""
        return self.timeline.now

    def _mark_changed(self, resource: Charge | StaticCharge) -> None:
        self.changed[resource] = None

    def last_row(self, resource: str) -> str:
        """The last row of a lifecycle table that was applied since `reached()` was called."""
        rows = [item for item in self.ledger.reached if item[:2] == ("row", resource)]
        return row_name(rows[-1]) if rows else f"the lifecycle table of {resource}"

    def reached(self) -> list[tuple[str, ...]]:
        """The coverage items reached since the last call."""
        items = [*self.ledger.reached, *self.outbox.reached]
        self.ledger.reached.clear()
        self.outbox.reached.clear()
        return items

    # Requests

    def limited(self, operation: str) -> ExpectedResponse | None:
        """The 429 if a fault refuses this request; the fault is counted as applied."""
        for index, (limited, left, wait_s) in enumerate(self.limits):
            if limited in (None, operation) and left:
                self.limits[index] = (limited, left - 1, wait_s)
                self.retry_after_s = wait_s
                return ExpectedResponse(429, "too_many_requests", "statuses")
        return None

    def _idempotent(
        self, project: str, kind: str, key: str | None, body: Body, respond: Callable[[], ExpectedResponse]
    ) -> ExpectedResponse:
        """The earlier response to the same Idempotency-Key, or a new one, which is kept [idempotency]."""
        if key is None:
            return respond()
        name, print_ = (project, kind, key), json.dumps(body, sort_keys=True)
        known = self._responses.get(name)
        if known is not None and self.now < known[1] + RETENTION_MS:
            if known[0] != print_:
                return ExpectedResponse(409, "idempotency_key_reused", "idempotency", _KEY)
            return ExpectedResponse(0, rule="idempotency", replays=known[2])
        expected_response, at = respond(), self.now

        def record_body(response: bytes) -> None:
            self._responses[name] = (print_, at, response)

        expected_response.record_body = record_body
        return expected_response

    def rejected(self, kind: str, body: Body) -> ExpectedResponse | None:
        """The response to an invalid body, whatever the state is."""
        errors = body_errors(kind, body, self.interpretation)
        if errors:
            return ExpectedResponse(400, "invalid_request", next(iter(errors.values())), frozenset(errors))
        points = frozenset(decimal_points(kind, body))
        return ExpectedResponse(409, "not_possible", "statuses", points) if points else None

    def create(self, kind: str, label: str, project: str, body: Body, key: str | None) -> ExpectedResponse:
        """POST /v0/charges (`kind` charge) or /v0/static-charges (static) with a valid API key and a JSON body."""
        if key is not None and not is_idempotency_key(key):
            return ExpectedResponse(400, "invalid_request", "idempotency", _KEY)
        create = self._new_charge if kind == "charge" else self._new_static
        return self.rejected(kind, body) or self._idempotent(
            project, kind, key, body, lambda: create(label, project, body)
        )

    # Charges

    def _new_charge(self, label: str, project: str, body: Body) -> ExpectedResponse:
        created_at = self.now // 1_000 * 1_000
        charge = Charge(
            label=label,
            project=project,
            amount_msat=int(body["amount"]),
            description=body["description"],
            internal_id=body.get("internalId"),
            callback_url=body.get("callbackUrl"),
            created_at=created_at,
            expires_at=created_at + 1_000 * (number_or_none(body.get("expiresIn")) or DEFAULT_EXPIRY_S),
        )
        self.ledger.open(charge)
        return ExpectedResponse(200, rule="paths", record=charge)

    # Static Charges

    def _new_static(self, label: str, project: str, body: Body) -> ExpectedResponse:
        identifier = body.get("identifier") or None
        crossed = int(body["minAmount"]) > int(body["maxAmount"])
        user = None if identifier is None else identifier.partition("@")[0]
        if user is not None and (self.named(user) is not None or self.name_elsewhere(user)):
            if crossed:
                return ExpectedResponse(409, EITHER, "identifier", ANYWHERE)
            return ExpectedResponse(409, "conflict", "identifier", frozenset({"/identifier"}))
        if crossed:
            return ExpectedResponse(409, "not_possible", "amounts", _BOUNDS)
        seconds = number_or_none(body.get("expiresIn"))
        static = StaticCharge(
            label=label,
            project=project,
            min_msat=int(body["minAmount"]),
            max_msat=int(body["maxAmount"]),
            description=body["description"],
            success_message=body.get("successMessage"),
            allowed=number_or_none(body.get("allowedSlots")),
            internal_id=body.get("internalId"),
            callback_url=body.get("callbackUrl"),
            identifier=body.get("identifier"),
            created_at=self.now,
            expires_at=None if seconds is None else self.now + 1_000 * seconds,
        )
        self.ledger.open_static(static)
        return ExpectedResponse(200, rule="paths", record=static)

    def named(self, user: str) -> StaticCharge | None:
        """The Static Charge with this Lightning address, of whichever project [identifier]."""
        static_charges = self.ledger.static_charges.values()
        return next(
            (one for one in static_charges if one.identifier and one.identifier.partition("@")[0] == user), None
        )

    def change_static(self, static: StaticCharge, project: str, body: Body) -> ExpectedResponse:
        """PATCH /v0/static-charges/{id} [static-updates]."""
        rejected = self.rejected("changes", body)
        if rejected is not None:
            return rejected
        if static.project != project:
            return ExpectedResponse(404, "not_found", "statuses")
        if self.ledger.rejects_changes(static):
            return ExpectedResponse(409, "conflict", "static-updates")
        low, high = int(body.get("minAmount", static.min_msat)), int(body.get("maxAmount", static.max_msat))
        allowed = number_or_none(body["allowedSlots"]) if "allowedSlots" in body else static.allowed
        too_few = "allowedSlots" in body and allowed is not None and allowed < static.slots
        if low > high or too_few:
            places = ANYWHERE if low > high and too_few else frozenset({"/allowedSlots"}) if too_few else _BOUNDS
            return ExpectedResponse(409, "not_possible", "static-updates", places)
        static.min_msat, static.max_msat, static.allowed = low, high, allowed
        if "description" in body:
            static.description, static.metadata = body["description"], None
        static.success_message = body.get("successMessage", static.success_message)
        if static.internal_id is not None:
            static.former_internal_ids.append(static.internal_id)
        static.internal_id = body.get("internalId", static.internal_id)
        static.callback_url = body.get("callbackUrl", static.callback_url)
        self._mark_changed(static)
        self.ledger.update_status(static, slots_given="allowedSlots" in body)
        return ExpectedResponse(200, rule="static-updates", record=static)

    # LNURL

    def request_invoice(
        self, label: str, static: StaticCharge, amount: str | None, comment: str, twice: bool
    ) -> Charge | None:
        """A wallet requests an invoice, which creates a Charge [lnurl-pay, child-charges]. None is the status ERROR."""
        if not self.ledger.can_issue_invoice(static):
            return None
        digits = amount is not None and amount.isascii() and amount.isdigit() and amount[0] != "0"
        matches = digits and static.min_msat <= int((amount or "0")[:12]) <= static.max_msat
        if twice or not matches or len(comment) > MAX_COMMENT:
            return None
        created_at = self.now // 1_000 * 1_000
        seconds = LINK_EXPIRY_S
        if static.expires_at is not None:
            seconds = min(seconds, (static.expires_at - created_at) // 1_000)
        if seconds < 1:
            return None
        charge = Charge(
            label=label,
            project=static.project,
            amount_msat=int(amount or "0"),
            description=static.description,
            internal_id=static.internal_id,
            callback_url=static.callback_url,
            created_at=created_at,
            expires_at=created_at + 1_000 * seconds,
            parent=static,
            metadata=static.metadata,
        )
        static.children.append(charge)
        self.ledger.invoice_requested(static)
        self.ledger.open(charge)
        return charge

    # Payments, faults, time

    def pay(self, label: str, charge: Charge, outcome: str, amount: int | None, delay_ms: int) -> Payment:
        """A payment of an invoice with this outcome [scripted-payments]."""
        if amount is None:
            amount = amount_of(outcome, charge.amount_msat)
        payment = Payment(label, charge, amount, outcome, self.now)
        self.ledger.send(payment, delay_ms)
        return payment

    def advance_to(self, when_ms: int) -> None:
        """Advance the time; a time in the past changes nothing."""
        self.timeline.run_to(max(when_ms, self.now))

    def signing_secrets(self, project: str) -> list[str]:
        """The secrets that sign the project's callbacks now, newest first [callback-signature]."""
        newest = self.secrets.get(project, [])[:MAX_SIGNING]
        return [secret for secret, until in newest if until is None or self.now < until]

    def earlier_secret(self, project: str) -> str | None:
        """The webhook secret of the project before the last rotation; None if there was none."""
        return next((secret for secret, _ in self.secrets.get(project, [])[1:]), None)

    def retention_ends(self) -> list[int]:
        """The times at which the retention of responses and of rotated secrets ends."""
        ends = [at + RETENTION_MS for _, at, _ in self._responses.values()]
        return ends + [until for known in self.secrets.values() for _, until in known if until is not None]

    def rotate(self, project: str, secret: str) -> None:
        """Rotate the webhook secret; the earlier ones sign for another day."""
        until = self.now + RETENTION_MS
        before = self.secrets[project]
        self.secrets[project] = [(secret, None), *((old, until if end is None else end) for old, end in before)]
