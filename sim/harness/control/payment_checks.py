"""Checks of payments and payers of a hosted server: each payment has the amount, the course and the times that its
outcome and its payer promise, and each payer takes the Charges that match its conditions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any

from leyden.harness.constants import API_KEY
from leyden.harness.control.host import Host, list_named, violation
from leyden.harness.model.model import Model, amount_of
from leyden.harness.model.records import Charge, Payment
from leyden.harness.model.rules import Interpretation, instant, iso
from leyden.harness.steps import Step, StepImpossible

PAYMENTS, PAYERS = "/sandbox/v1/payments", "/sandbox/v1/payers"
_CHARGES, _STATICS, _ADVANCE = "/v0/charges", "/v0/static-charges", "/sandbox/v1/clock/advance"
_SECOND_WALLET_MS = 1_000  # after the first one, of the outcome `twice`
_SPREAD = 6  # standard deviations that a share may differ from what is expected


class _Expected:
    """The reference model of the Charges, with the payers, the oldest first, and the payments of each Charge."""

    def __init__(self, host: Host) -> None:
        start_ms = instant(host.read("/sandbox/v1/clock")["now"])
        self.model = Model(Interpretation(), start_ms, lambda *_: 0)
        self.rules: list[dict[str, Any]] = [dict(row) for row in host.rows("listPayers")]
        self._host = host
        self.payments: dict[str, list[Payment]] = {}

    def created(self, shown: Mapping[str, Any]) -> None:
        """A new Charge, for which the oldest payer that matches and takes it pays."""
        charge = Charge(
            label=shown["id"], project=API_KEY, amount_msat=int(shown["amount"]), description=shown["description"],
            internal_id=shown["internalId"], callback_url=None, created_at=instant(shown["createdAt"]),
            expires_at=instant(shown["expiresAt"]), parent=None, id=shown["id"],
        )  # fmt: skip
        self.payments[charge.label] = []
        self.model.ledger.open(charge)
        for rule in self.rules:
            if _matches(rule, shown):
                rule["matches"] += 1
                if self._takes(rule):
                    rule["hits"] += 1
                    if rule["outcome"] != "never":
                        self._pays(rule, charge)
                    return

    def _takes(self, rule: Mapping[str, Any]) -> bool:
        """Whether a payer takes a Charge that matches: of its share, as the service has drawn."""
        if rule["share"] == 1:
            return True
        return any(row["id"] == rule["id"] and row["hits"] > rule["hits"] for row in self._host.rows("listPayers"))

    def _pays(self, rule: Mapping[str, Any], charge: Charge) -> None:
        now = self.model.now
        at = now + _ms(rule["delay"] or 0)
        if rule["beforeExpiry"] is not None:
            at = charge.expires_at - _ms(rule["beforeExpiry"])
        elif rule["afterExpiry"] is not None:
            at = charge.expires_at + _ms(rule["afterExpiry"])
        delays, outcome = [max(0, at - now)], rule["outcome"]
        if outcome == "twice":
            delays, outcome = [*delays, delays[0] + _SECOND_WALLET_MS], "settle"
        for delay_ms in delays:
            self.pay(charge, outcome, None, delay_ms)

    def pay(self, charge: Charge, outcome: str, amount: int | None, delay_ms: int) -> None:
        """One payment, which is sent after the delay."""
        label = f"{charge.label} {len(self.payments[charge.label])}"
        self.payments[charge.label].append(self.model.pay(label, charge, outcome, amount, delay_ms))

    def ordered(self, charge: Charge, order: Mapping[str, Any]) -> None:
        """A payment by a request. A wallet does not start to pay an invoice that has expired [scripted-payments]."""
        amount = None if "amount" not in order else int(order["amount"])
        outcome = order.get("outcome", "settle")
        if self.model.now > charge.expires_at and not order.get("late"):
            self.pay(charge, "fail", amount_of(outcome, charge.amount_msat) if amount is None else amount, 0)
        else:
            self.pay(charge, outcome, amount, _ms(order.get("delay", 0)))


def check_payments(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_payments", "options"?, "steps": [step, ...]}: after each step the payments of
    every Charge, its state, and the counts of the payers are those of the reference model."""
    expected = _Expected(host)
    for number, one in enumerate(step["steps"]):
        where = f"after step {number + 1}, {one['target']}"
        for each in _single(one):
            _do(host, each, expected)
        _compare(host, expected, where)


def _single(one: Step) -> Iterator[Any]:
    """A step that is sent several times, each alone."""
    for number in range(one.get("count", 1)):
        yield {**_numbered(one, str(number)), "count": 1}


def _numbered(value: Any, number: str) -> Any:
    if isinstance(value, str):
        return value.replace("{n}", number).replace(".n.", f".{number}.")
    if isinstance(value, Mapping):
        return {name: _numbered(one, number) for name, one in value.items()}
    return value


def _do(host: Host, one: Any, expected: _Expected) -> None:
    body, target = host.filled(one.get("body")), host.filled(one["target"])
    host.send(one)
    answer = host.answers[one.get("as", "")][-1]
    model = expected.model
    match one["method"], target.partition("?")[0]:
        case "POST", str(path) if path == _CHARGES:
            expected.created(answer["data"])
        case "GET", str(path) if path.startswith("/lnurlp/"):
            static = path.split("/")[2]
            rows = host.read(f"{_STATICS}/{static}/charges?limit=1")["data"]
            expected.created(rows[0])
        case "POST", str(path) if path == PAYMENTS:
            requests = {row["invoice"]["request"]: row["id"] for row in _shown(host, expected)}
            if body["request"] not in requests:
                raise StepImpossible(body["request"])
            expected.ordered(model.ledger.charges[requests[body["request"]]], body)
        case "POST", str(path) if path == PAYERS:
            expected.rules.append(dict(answer))
        case "DELETE", str(path) if path.startswith(f"{PAYERS}/"):
            expected.rules = [rule for rule in expected.rules if rule["id"] != path.rpartition("/")[2]]
        case "POST", str(path) if path.endswith("/fail"):
            model.ledger.fail(model.ledger.charges[path.split("/")[-2]])
        case "POST", str(path) if path == _ADVANCE:
            model.advance_to(instant(answer["now"]))
        case "POST", str(path) if path == _STATICS:
            pass
        case other:
            raise StepImpossible(f"{other}")


def _matches(rule: Mapping[str, Any], charge: Mapping[str, Any]) -> bool:
    """Whether a payer still takes Charges, and every condition of it matches."""
    if rule["count"] is not None and rule["hits"] >= rule["count"]:
        return False
    exact = rule["amount"] in (None, charge["amount"]) and rule["staticChargeId"] in (None, charge["staticChargeId"])
    texts = ((rule["description"], charge["description"]), (rule["internalId"], charge["internalId"]))
    return exact and all(pattern is None or (text is not None and _like(text, pattern)) for pattern, text in texts)


def _like(text: str, pattern: str) -> bool:
    """Whether a text matches a pattern in which only `*` has a meaning."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def _ms(seconds: float) -> int:
    return round(seconds * 1_000)


def _shown(host: Host, expected: _Expected) -> list[Mapping[str, Any]]:
    return [host.read(f"{_CHARGES}/{name}")["data"] for name in expected.payments]


def _compare(host: Host, expected: _Expected, where: str) -> None:
    for shown in _shown(host, expected):
        charge = expected.model.ledger.charges[shown["id"]]
        confirmed = None if charge.confirmed_at is None else iso(charge.confirmed_at)
        _same(f"{where}: Charge {charge.label}", (charge.status, confirmed), (shown["status"], shown["confirmedAt"]))
        rows = host.full(list_named("listPayments"), PAYMENTS, chargeId=charge.label)
        wanted = [_row(payment) for payment in expected.payments[charge.label]]
        observed = [{name: row[name] for name in wanted[0]} for row in reversed(rows)] if wanted else [*rows]
        _same(f"{where}: payments of Charge {charge.label}", wanted, observed)
        for payment, row in zip(expected.payments[charge.label], reversed(rows), strict=True):
            _same(f"{where}: {payment.label} has a reason", payment.status == "failed", row["reason"] is not None)
            _same(
                f"{where}: {payment.label} has a preimage", payment.status == "succeeded", row["preimage"] is not None
            )
            _same(f"{where}: {payment.label} request", shown["invoice"]["request"], row["request"])
    counted = [(rule["id"], rule["matches"], rule["hits"]) for rule in expected.rules]
    _same(f"{where}: matches and hits of the payers", counted,
          [(row["id"], row["matches"], row["hits"]) for row in host.rows("listPayers")])  # fmt: skip
    for rule in expected.rules:
        likely, many = rule["matches"] * rule["share"], rule["matches"]
        if abs(rule["hits"] - likely) > _SPREAD * sqrt(many * rule["share"] * (1 - rule["share"])):
            raise violation(f"{where}: hits of a payer with the share {rule['share']}", f"about {likely:g}",
                            rule["hits"])  # fmt: skip


def _row(payment: Payment) -> dict[str, Any]:
    resolved = None if payment.resolved_at is None else iso(payment.resolved_at)
    return {"status": payment.status, "amount": str(payment.amount_msat), "createdAt": iso(payment.created_at),
            "resolvedAt": resolved}  # fmt: skip


def _same(where: str, expected: Any, observed: Any) -> None:
    if expected != observed:
        raise violation(where, expected, observed)
