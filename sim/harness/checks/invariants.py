"""The witness: what can be told about any answer without knowing what came before, and what must hold at all times.

The other engines know every step and so every outcome. Schemathesis makes requests of its own; beside its own checks
the witness looks at each answer, and at the world behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from leyden.harness.checks import responses as checks
from leyden.harness.checks.violations import Broken
from leyden.harness.model.charges import Cell
from leyden.harness.model.model import Model
from leyden.harness.model.records import Charge, Static
from leyden.harness.model.rules import ATTEMPT_MS, JITTER, PAUSES_MS, RETRY_AFTER_TIMES, Reading, instant
from leyden.harness.runs.adapters import Answer

Ask = Callable[[str, str], Answer]

_NEXT: Mapping[str, frozenset[str]] = {
    "pending": frozenset({"pending", "completed", "expired", "error"}),
    "completed": frozenset({"completed"}),
    "error": frozenset({"error"}),
    "active": frozenset({"active", "disabled", "expired"}),
    "disabled": frozenset({"active", "disabled", "expired"}),
    "expired": frozenset({"expired"}),
}
_TRIGGERS = {"completed": "payment_settled", "expired": "expiry_reached", "error": "invoice_failed"}


class Witness:
    """What was seen of one world. `ask(path, key)` reads from it; `seen` are the cells that were reached. Without
    `controlled` there is no control plane to ask for the callbacks."""

    def __init__(self, ask: Ask, reading: Reading, key: str, rival_key: str, *, controlled: bool = True) -> None:
        self._ask = ask
        self._reading = reading
        self._key, self._rival_key = key, rival_key
        self._controlled = controlled
        self._states: dict[str, str] = {}
        self._shown: dict[str, dict[str, Any]] = {}
        self.seen: dict[Cell, None] = {}

    def look(self, operation: str, sent: bytes, answer: Answer) -> None:
        """Judge one answer, and the world after it. Raises `Broken`."""
        self.seen["answer", operation, str(answer.status)] = None
        if answer.status >= 400:
            checks.problem(answer, answer.status, "", "DECISIONS errors", operation)
            return
        body = answer.json
        if answer.status != 200 or not isinstance(body, dict):
            return
        data = body.get("data")
        if operation in {"createCharge", "createStaticCharge"} and "idempotent-replayed" not in answer.headers:
            self._echo(operation, sent, data)
        for thing in data if isinstance(data, list) else [data if isinstance(data, dict) else body]:
            if isinstance(thing, dict) and {"id", "status", "invoice"} <= set(thing):
                self._one(thing, operation)
        self._world()

    def _echo(self, operation: str, sent: bytes, data: Any) -> None:
        """What was sent comes back, by the rules; what should have been refused was not accepted."""
        body = json.loads(sent)
        model = Model(self._reading, instant(data["createdAt"]), lambda delivery, number, low, high: low)
        if operation == "createCharge":
            promise = model.create_charge("c1", "default", body, None)
        else:
            promise = model.create_static("s1", "default", body, None)
        made = promise.made
        if not isinstance(made, Charge | Static):
            promised = f"{promise.status} {promise.code}"
            raise Broken("echo", f"DECISIONS {promise.because}", operation, promised, f"200 for {body}")
        made.id = data["id"]
        if isinstance(made, Charge):
            made.request = data["invoice"]["request"]
        else:
            made.link = data["invoice"]["request"]
        checks.same(made.resource(), data, "echo", "DECISIONS client-fields", operation)
        resource = "Charge" if operation == "createCharge" else "StaticCharge"
        self.seen["row", resource, "(creation)", "created", "", made.status] = None

    def _one(self, thing: dict[str, Any], where: str) -> None:
        """A resource by itself: its state follows from the one before, and its invoice says what it says."""
        name, status = thing["id"], thing["status"]
        before = self._states.get(name)
        if before is not None and status not in _NEXT[before]:
            raise Broken(
                "lifecycle", "the lifecycle table", f"{where}: {name}", f"one of {sorted(_NEXT[before])}", status
            )
        self._states[name], self._shown[name] = status, thing
        if "confirmedAt" in thing:
            if before == "pending" and status != "pending":
                when = "before_expiry" if status == "completed" else ""
                self.seen["row", "Charge", "pending", _TRIGGERS[status], when, status] = None
            if (status == "completed") != (thing["confirmedAt"] is not None):
                raise Broken(
                    "lifecycle", "DECISIONS client-fields", f"{where}: confirmedAt", f"that of {status}", thing
                )
            self._invoice(thing, where)
        elif thing["allowedSlots"] is not None and not self._reading.count_on_settle:
            free = thing["slots"] < thing["allowedSlots"]
            if thing["slots"] > thing["allowedSlots"] or (status == "active" and not free):
                raise Broken("lifecycle", "DECISIONS last-slot", f"{where}: slots", "no more than allowed", thing)
            if status == "disabled":
                self.seen["row", "StaticCharge", "active", "slots_filled", "", "disabled"] = None

    def _invoice(self, thing: dict[str, Any], where: str) -> None:
        if thing["staticChargeId"] is not None:
            return
        charge = Charge(
            "c", "", int(thing["amount"]), thing["description"], None, None, instant(thing["createdAt"]),
            instant(thing["expiresAt"]),
        )  # fmt: skip
        checks.invoice(charge, thing["invoice"]["request"], None, {}, where)

    def _world(self) -> None:
        """Every Charge that is known, as it is now: its state, its messages, and that it is nobody else's."""
        for name, shown in list(self._shown.items()):
            if "confirmedAt" not in shown:
                continue
            answer = self._ask(f"/v0/charges/{name}", self._key)
            now = checks.success(answer, "DECISIONS paths", name)
            self._one(now, name)
            if self._controlled:
                self._messages(now)
            other = self._ask(f"/v0/charges/{name}", self._rival_key)
            if other.status not in {401, 404}:
                raise Broken("isolation", "DECISIONS statuses", f"{name} with another key", 404, other.status)

    def _messages(self, charge: dict[str, Any]) -> None:
        """The callbacks of a Charge: one when it has ended, none before; each attempt when it was promised."""
        rows = self._ask(f"/sandbox/v1/deliveries?chargeId={charge['id']}", self._key).json
        own = charge["staticChargeId"] is None
        told = charge["status"] in (("completed", "expired", "error") if own else ("completed",))
        where, clause = f"callbacks of {charge['id']}", "DECISIONS callback-delivery"
        wanted = [f"charge.{charge['status']}"] if told and charge["callbackUrl"] else []
        if [row["event"] for row in rows] != wanted:
            raise Broken("callback_contract", clause, where, wanted, [row["event"] for row in rows])
        for row in rows:
            body = json.loads(row["body"])
            body = body.get("data", body)
            echoed = {name: charge[name] for name in ("id", "unit", "amount", "status", "description", "internalId",
                      "callbackUrl", "createdAt", "expiresAt")}  # fmt: skip
            checks.same(echoed, {name: body.get(name) for name in echoed}, "callback_contract", clause, where)
            self._attempts(row, where)
            if row["status"] != "pending":
                self.seen["delivery", row["event"], row["status"]] = None

    def _attempts(self, row: dict[str, Any], where: str) -> None:
        pauses = PAUSES_MS[:1] if self._reading.no_retries else PAUSES_MS
        clause = "DECISIONS callback-delivery"
        tries = row["attempts"]
        if row["replayedFrom"] is not None or any(one["fault"] for one in tries):
            return
        for place, one in enumerate(tries):
            if one["number"] != place + 1 or place >= len(pauses):
                raise Broken("callback_contract", clause, where, f"at most {len(pauses)} attempts, counted", one)
            if place:
                before = tries[place - 1]
                waited = instant(one["dueAt"]) - instant(before["answeredAt"])
                least, most = (1 - JITTER) * pauses[place], RETRY_AFTER_TIMES * pauses[place]
                ended = before["status"] is not None and 200 <= before["status"] <= 299
                if not round(least) <= waited <= most or ended or before["status"] == 410:
                    raise Broken("callback_contract", clause, where, f"a pause of {pauses[place]} ms", f"{waited} ms")
            if one["latencyMs"] > ATTEMPT_MS:
                raise Broken("callback_contract", clause, where, "at most 15 s for an answer", one)
