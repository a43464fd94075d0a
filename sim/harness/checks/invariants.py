"""Invariants: what must hold for each response, whatever the requests before it were.

The other engines know every step and compare with the reference model. Schemathesis makes its own requests; for it each
response is checked by itself, and then the known Charges and their callbacks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from leyden.harness.checks import responses as checks
from leyden.harness.checks.clauses import same_resource
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.charges import CoverageItem
from leyden.harness.model.model import EITHER, Model
from leyden.harness.model.records import Charge, StaticCharge
from leyden.harness.model.rules import (
    ATTEMPT_TIMEOUT_MS,
    BACKOFF_MS,
    JITTER,
    RETRY_AFTER_FACTOR,
    Interpretation,
    instant,
)
from leyden.harness.targets.target import Response

Read = Callable[[str, str], Response]

_NEXT: Mapping[str, frozenset[str]] = {
    "pending": frozenset({"pending", "completed", "expired", "error"}),
    "completed": frozenset({"completed"}),
    "error": frozenset({"error"}),
    "active": frozenset({"active", "disabled", "expired"}),
    "disabled": frozenset({"active", "disabled", "expired"}),
    "expired": frozenset({"expired"}),
}
_TRIGGERS = {"completed": "payment_settled", "expired": "expiry_reached", "error": "invoice_failed"}


class Invariants:
    """The states of the resources seen so far. `read(path, key)` sends a GET; `reached` has the coverage items.

    Without `controlled` there is no control plane, so callbacks are not checked. Of the known Charges the `followed`
    latest ones are read again after each response, or all.
    """

    def __init__(
        self,
        read: Read,
        interpretation: Interpretation,
        key: str,
        second_api_key: str,
        *,
        controlled: bool = True,
        followed: int | None = None,
    ) -> None:
        self._read = read
        self._interpretation = interpretation
        self._key, self._second_api_key = key, second_api_key
        self._controlled = controlled
        self._followed = followed
        self._states: dict[str, str] = {}
        self._charges: dict[str, None] = {}
        self.reached: dict[CoverageItem, None] = {}

    def check(self, operation: str, sent: bytes, response: Response) -> None:
        """Check a response, and then all known Charges. Raises `ContractViolation`."""
        try:
            self._check(operation, sent, response)
        except ContractViolation:
            raise
        except (AttributeError, LookupError, TypeError, ValueError) as error:  # by a value of the service
            expected = "members of the types that the document declares"
            raise ContractViolation("echo", "envelope", operation, expected, response.json) from error

    def _check(self, operation: str, sent: bytes, response: Response) -> None:
        self.reached["response", operation, str(response.status)] = None
        if response.status >= 400:
            checks.problem(response, response.status, EITHER, "errors", operation)
            return
        body = response.json
        if response.status != 200 or not isinstance(body, dict):
            return
        data = body.get("data")
        if operation in {"createCharge", "createStaticCharge"} and "idempotent-replayed" not in response.headers:
            self._creation(operation, sent, data)
        for resource in data if isinstance(data, list) else [data if isinstance(data, dict) else body]:
            if isinstance(resource, dict) and {"id", "status", "invoice"} <= set(resource):
                self._resource(resource, operation)
        self._known_charges()

    def _creation(self, operation: str, sent: bytes, data: Any) -> None:
        """A created resource has the submitted values, and its request was valid."""
        body = json.loads(sent)
        model = Model(self._interpretation, instant(data["createdAt"]), lambda delivery, number, low, high: low)
        kind = "charge" if operation == "createCharge" else "static"
        expected_one = model.create(kind, "c1", "default", body, None)
        record = expected_one.record
        if not isinstance(record, Charge | StaticCharge):
            expected = f"{expected_one.status} {expected_one.code}"
            raise ContractViolation("echo", expected_one.rule, operation, expected, f"200 for {body}")
        record.id = data["id"]
        if isinstance(record, Charge):
            record.request = data["invoice"]["request"]
        else:
            record.link = data["invoice"]["request"]
        same_resource(record.resource(), data, "echo", operation)
        resource = "Charge" if operation == "createCharge" else "StaticCharge"
        self.reached["row", resource, "(creation)", "created", "", record.status] = None

    def _resource(self, resource: dict[str, Any], where: str) -> None:
        """A resource: its state can follow the earlier one, and its invoice agrees with it."""
        name, status = resource["id"], resource["status"]
        before = self._states.get(name)
        if before is not None and status not in _NEXT[before]:
            expected = f"one of {sorted(_NEXT[before])}"
            raise ContractViolation("lifecycle", "the lifecycle tables", f"{where}: {name}", expected, status)
        self._states[name] = status
        if "confirmedAt" in resource:
            self._charges[name] = None
            if before == "pending" and status != "pending":
                when = "before_expiry" if status == "completed" else ""
                self.reached["row", "Charge", "pending", _TRIGGERS[status], when, status] = None
            if (status == "completed") != (resource["confirmedAt"] is not None):
                expected = f"a value that agrees with {status}"
                raise ContractViolation("lifecycle", "client-fields", f"{where}: confirmedAt", expected, resource)
            self._invoice(resource, where)
        elif resource["allowedSlots"] is not None and not self._interpretation.count_on_settle:
            free = resource["slots"] < resource["allowedSlots"]
            if resource["slots"] > resource["allowedSlots"] or (status == "active" and not free):
                raise ContractViolation("lifecycle", "last-slot", f"{where}: slots", "no more than allowed", resource)
            if status == "disabled":
                self.reached["row", "StaticCharge", "active", "slots_filled", "", "disabled"] = None

    def _invoice(self, resource: dict[str, Any], where: str) -> None:
        if resource["staticChargeId"] is not None:
            return
        charge = Charge(
            "c", "", int(resource["amount"]), resource["description"], None, None, instant(resource["createdAt"]),
            instant(resource["expiresAt"]),
        )  # fmt: skip
        checks.invoice(charge, resource["invoice"]["request"], None, {}, where)

    def _known_charges(self) -> None:
        """Each known Charge: its state, its callbacks, and that the second project does not see it."""
        latest = list(self._charges) if self._followed is None else list(self._charges)[-self._followed :]
        for name in latest:
            now = checks.success(self._read(f"/v0/charges/{name}", self._key), "paths", name)
            self._resource(now, name)
            if self._controlled:
                self._callbacks(now)
            other = self._read(f"/v0/charges/{name}", self._second_api_key)
            if other.status not in {401, 404}:
                raise ContractViolation("isolation", "statuses", f"{name} with the second API key", 404, other.status)

    def _callbacks(self, charge: dict[str, Any]) -> None:
        """The callbacks about a Charge: one in a final state, none before, and each attempt at a valid time."""
        rows = self._read(f"/sandbox/v1/deliveries?bodies=true&chargeId={charge['id']}", self._key).json["data"]
        rows = sorted(rows, key=lambda row: row["sequence"])
        own = charge["staticChargeId"] is None
        notified = charge["status"] in (("completed", "expired", "error") if own else ("completed",))
        where, rule = f"callbacks of {charge['id']}", "callback-delivery"
        wanted = [f"charge.{charge['status']}"] if notified and charge["callbackUrl"] else []
        checks.same(wanted, [row["event"] for row in rows], "callback_contract", rule, where)
        for row in rows:
            body = json.loads(row["body"])
            body = body.get("data", body)
            echoed = {name: charge[name] for name in ("id", "unit", "amount", "status", "description", "internalId",
                      "callbackUrl", "createdAt", "expiresAt")}  # fmt: skip
            checks.same(echoed, {name: body.get(name) for name in echoed}, "callback_contract", rule, where)
            self._attempts(row, where)
            if row["status"] != "pending":
                self.reached["delivery", row["event"], row["status"]] = None

    def _attempts(self, row: dict[str, Any], where: str) -> None:
        backoff = BACKOFF_MS[:1] if self._interpretation.no_retries else BACKOFF_MS
        check, rule, attempts = "callback_contract", "callback-delivery", row["attempts"]
        if row["replayedFrom"] is not None or any(one["fault"] for one in attempts):
            return
        numbers = list(range(1, min(len(attempts), len(backoff)) + 1))
        checks.same(numbers, [one["number"] for one in attempts], check, rule, f"{where}: numbers of the attempts")
        for (before, one), delay_ms in zip(pairwise(attempts), backoff[1:], strict=False):
            waited = instant(one["dueAt"]) - instant(before["answeredAt"])
            ended = before["status"] == 410 or 200 <= (before["status"] or 0) <= 299
            if ended or not round((1 - JITTER) * delay_ms) <= waited <= RETRY_AFTER_FACTOR * delay_ms:
                raise ContractViolation(check, rule, where, f"a delay of {delay_ms} ms", f"{waited} ms")
        slowest_ms = max((one["latencyMs"] or 0 for one in attempts), default=0)
        if slowest_ms > ATTEMPT_TIMEOUT_MS:
            raise ContractViolation(check, rule, where, "a latency of at most 15 s", f"{slowest_ms} ms")
