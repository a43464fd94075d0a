"""Obligations of payments and payers: each outcome, with each amount, time and end, and each condition of a payer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leyden.harness.control.documents import control_document, resolved
from leyden.harness.obligations.control.setups import PAUSED, advance, charge, pay, send, static
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step

_SCHEMAS = "sandbox.openapi.yaml#/components/schemas"
_MAGIC = ("--overlay", "magic-amounts")
_FAIL = send("POST", "/sandbox/v1/charges/{c.0.data.id}/fail", {})
_ENDS: Mapping[str, tuple[Step, ...]] = {
    "alone": (advance("59s"), advance("1ms"), advance("61s"), advance("2m"), advance("11h"), advance("24h")),
    "paid after it": (advance("121s"), pay("c", 1), advance("1m")),
    "failed": (advance("5s"), _FAIL, advance("3m")),
}
_PAID = ("settle", "overpay")
_AMOUNTS = (1, 1_999, 2_000, 2_001, 3_999, 4_000, 4_001, 10**17)
_DELAYS = (0, 0.001, 1, 59.999, 60, 60.001, 120)
_TEXTS = ("tea", "Tea", "tea ", "tea for two", "te", "t?a", "t[e]a", "a*b", "", "tea*")
_PATTERNS = ("tea", "*", "tea*", "*two", "t*a", "t?a", "t[e]a", "*e*", "a*b", "", "**", "TEA")


def _schema(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = resolved(control_document(), {"$ref": f"#/components/schemas/{name}"})["properties"]
    return found


def payment_obligations() -> Iterator[Obligation]:
    """Payments by requests: each outcome to each end, with amounts around the bounds of the invoice, and with delays
    around the instant of its expiry."""
    order = _schema("PaymentOrder")
    outcomes = order["outcome"]["enum"]
    for outcome in outcomes:
        for end, steps in _ENDS.items():
            if (end, outcome) == ("paid after it", "hold") or (end == "failed" and outcome in _PAID):
                continue  # what is held waits, and what is paid does not fail
            steps = (charge(1, "c"), pay("c", 1, outcome=outcome), *steps)
            yield _obligation("createPayment body.outcome", f"outcome:{outcome}", end, steps)
        for amount in _AMOUNTS:
            if outcome == "incomplete" and amount == 1:
                continue  # it has no two parts
            steps = (charge(1, "c"), pay("c", 1, outcome=outcome, amount=str(amount)), advance("1h"))
            yield _obligation("createPayment body.amount", f"outcome:{outcome}", str(amount), steps)
        for odd in ("1000", "1001", "499999999", "500000000"):
            steps = (charge(1, "c", amount=odd), pay("c", 1, outcome=outcome), advance("1h"))
            yield _obligation("createPayment body.outcome", f"outcome-of:{outcome}", odd, steps)
        for delay in _DELAYS:
            late = (charge(1, "c", expiresIn=60), pay("c", 1, outcome=outcome, delay=delay), advance("3m"))
            yield _obligation("createPayment body.delay", f"outcome:{outcome}", f"{delay:g} of 60", late)
        for after, given in ((59_999, {}), (60_000, {}), (60_001, {}), (60_000, {"late": True}),
                             (60_001, {"late": True}), (60_001, {"late": False})):  # fmt: skip
            steps = (charge(1, "c", expiresIn=60), advance(f"{after}ms"), pay("c", 1, outcome=outcome, **given),
                     advance("3m"))  # fmt: skip
            case = f"{outcome} after {after} of 60000 ms{''.join(f', {value}' for value in given.values())}"
            yield _obligation("createPayment body.late", "late", case, steps)


def payer_obligations() -> Iterator[Obligation]:
    """Payers: each outcome and failure, time, condition, pair of conditions, number and share, their order, and those
    of a document."""
    new = _schema("PayerCreate")
    for outcome in new["outcome"]["enum"]:
        for label, times in _times(outcome):
            steps = (_payer(outcome=outcome, **times), charge(1, "c", expiresIn=60), *_minute())
            yield _obligation("addPayer body.outcome", f"payer:{outcome}", label, steps)
    for failure in new["failure"]["enum"]:
        steps = (_payer(outcome="fail", failure=failure), charge(1, "c"), advance("1m"))
        yield _obligation("addPayer body.failure", "payer-failure", failure, steps)
    yield from _conditions()
    yield from _numbers()
    yield from _of_document()


def _times(outcome: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "at once", {}
    if outcome == "never":
        return
    for name in ("delay", "beforeExpiry", "afterExpiry"):
        for value in (0, 0.001, 1, 30, 59.999, 60, 61):
            yield f"{name} {value:g}", {name: value}
    yield "delay text", {"delay": "1m30s"}


def _minute() -> Sequence[Step]:
    spans = ("1ms", "999ms", "1s", "28s", "29s", "999ms", "1ms", "1s", "1s", "58s", "2h")
    return [advance(span) for span in spans]


def _payer(**fields: Any) -> Step:
    return send("POST", "/sandbox/v1/payers", fields, **{"as": "payer"})


def _conditions() -> Iterator[Obligation]:
    """Each pattern of each text, the amount, the Static Charge, and pairs of conditions of which one or both match."""
    for name in ("description", "internalId"):
        rows = [charge(1, "c", **{"description": "plain", name: text}) for text in _TEXTS]
        rows += [charge(1, "c", description="plain")]
        for pattern in _PATTERNS:
            steps = (_payer(**{name: pattern}), *rows, advance("1s"))
            yield _obligation(f"addPayer body.{name}", "payer-pattern", pattern, steps)
    amounts = [charge(1, "c", amount=text) for text in ("1000", "1001", "2000", "20000", "500000000")]
    for wanted in ("1000", "2000", "500000000"):
        steps = (_payer(amount=wanted), *amounts, advance("1s"))
        yield _obligation("addPayer body.amount", "payer-amount", wanted, steps)
    asked = [send("GET", f"/lnurlp/{{s.{number}.data.id}}/invoice?amount=2000", **{"as": "i"}) for number in (0, 1, 0)]
    links = (static(2, "s"), charge(1, "c"))
    one = {"staticChargeId": "{s.0.data.id}"}
    yield _obligation("addPayer body.staticChargeId", "payer-static", "first", (*links, _payer(**one), *asked,
                      charge(1, "c"), advance("1s")))  # fmt: skip
    yield _obligation("addPayer body.staticChargeId", "payer-static", "any", (*links, _payer(), *asked,
                      charge(1, "c"), advance("1s")))  # fmt: skip
    matching: Mapping[str, Any] = {"amount": "2000", "description": "both*", "internalId": "both*"}
    other: Mapping[str, Any] = {"amount": "2001", "description": "other", "internalId": "other"}
    made = {"amount": "2000", "description": "both of them", "internalId": "both"}
    for first in matching:
        for second in matching:
            if first < second:
                for name, given in (("both", {}), (first, {second: other[second]}), (second, {first: other[first]})):
                    conditions = {first: matching[first], second: matching[second], **given}
                    steps = (_payer(**conditions), charge(1, "c", **made), advance("1s"))
                    yield _obligation(f"addPayer body.{first}+{second}", "payer-conditions", name, steps)


def _numbers() -> Iterator[Obligation]:
    for count in (1, 2, 3, None):
        steps = (_payer(count=count), _payer(outcome="fail", count=1), charge(5, "c"), advance("1s"))
        yield _obligation("addPayer body.count", "payer-count", str(count), steps)
    for share in (0.01, 0.25, 0.5, 0.9, 1):
        steps = (_payer(share=share), _payer(outcome="fail", share=0.5), charge(160, "c", expiresIn=600), advance("1s"))
        yield _obligation("addPayer body.share", "payer-share", f"{share:g}", steps)
    steps = (_payer(share=0.5, count=9), _payer(outcome="fail", count=20), charge(60, "c"), advance("1s"))
    yield _obligation("addPayer body.share", "payer-share", "0.5 of 9", steps)
    first, second = _payer(outcome="fail", delay=1), _payer(delay=2)
    clear = send("DELETE", "/sandbox/v1/payers/{payer.0.id}")
    orders: Mapping[str, Sequence[Step]] = {
        "oldest first": (first, second, charge(1, "c"), advance("3s")),
        "the first is cleared before": (first, second, clear, charge(1, "c"), advance("3s")),
        "the first is cleared after": (first, second, charge(1, "c"), clear, charge(1, "d"), advance("3s")),
        "never blocks later ones": (_payer(outcome="never"), second, charge(2, "c"), advance("3s")),
        "none of an earlier Charge": (charge(1, "c"), first, second, advance("3s"), charge(1, "d"), advance("3s")),
        "paid before it": (_payer(delay=30), charge(1, "c"), pay("c", 1), advance("1m")),
        "held before it": (_payer(delay=30), charge(1, "c"), pay("c", 1, outcome="hold"), advance("1m")),
        "failed before it": (_payer(delay=30), charge(1, "c"), _FAIL, advance("1m")),
    }  # fmt: skip
    for case, ordered in orders.items():
        yield _obligation("addPayer", "payer-order", case, ordered)


def _of_document() -> Iterator[Obligation]:
    """The payers of the overlay `magic-amounts`, alone, beside an added one, and one millisatoshi beside each."""
    amounts = ("200000", "202000", "206000", "207000", "208000", "402000", "404000", "408000", "425000", "503000")
    for amount in amounts:
        for near in (-1, 0, 1):
            made = charge(1, "c", amount=str(int(amount) + near), expiresIn=60)
            case = f"{amount} {near:+d}" if near else amount
            yield _obligation("x-payers", "document-payer", case, (made, *_minute()), _MAGIC)
        added = (_payer(outcome="fail", delay=1), charge(2, "c", amount=amount, expiresIn=60), *_minute())
        yield _obligation("x-payers", "document-payer", f"{amount}, and an added one", added, _MAGIC)


def _obligation(place: str, kind: str, case: str, steps: Sequence[Step], options: Sequence[str] = ()) -> Obligation:
    step: Any = {"do": "control_payments", "options": [*PAUSED, *options], "steps": [*steps]}
    name = "PaymentOrder" if place.startswith("createPayment") else "PayerCreate"
    return Obligation(place, kind, case, f"{_SCHEMAS}/{name}", (step,), setup="payments-changed")
