"""Conformance scenarios for requests, Charges and Static Charges: every row and both sides of bounds."""

from __future__ import annotations

from typing import Any

from leyden.harness.conformance.scenario import (
    DAY_MS,
    Scenarios,
    advance,
    change,
    charge,
    fail,
    invoice,
    pay,
    static,
    to,
)
from leyden.harness.generators.bodies import COMMENTS, invalid_bodies
from leyden.harness.generators.odd_requests import ODD_REQUESTS
from leyden.harness.model.charges import HOLD_LIMIT_MS
from leyden.harness.model.rules import BODY_LIMIT, DEPTH_LIMIT
from leyden.harness.session.session import encoded
from leyden.harness.steps import Step


def request_scenarios() -> Scenarios:
    """Every invalid body and every odd request, with valid ones for comparison."""
    found: Scenarios = {}
    for kind, executor in (("charge", "create_charge"), ("static", "create_static")):
        bodies = invalid_bodies(kind)
        for first in range(0, len(bodies), 60):
            batch = bodies[first : first + 60]
            found[f"bodies of a {kind}, from {first}"] = [
                {"do": executor, "as": f"{kind[0]}{n}", "body": body} for n, (_, body) in enumerate(batch)
            ]
    bodies = invalid_bodies("changes")
    steps: list[Step] = [static("s1")]
    steps += [change(body) for _, body in bodies]
    found["bodies of a change"] = steps
    found["unknown fields"] = [charge("c1", colour="blue", id="mine", status="completed"), static("s1", slots=7)]
    deep: list[Any] = []
    for _ in range(DEPTH_LIMIT - 2):
        deep = [deep]
    full: dict[str, Any] = {"amount": "1000", "description": "tea", "x": ""}
    full["x"] = "x" * (BODY_LIMIT - len(encoded(full)))
    found["maximum depth and length"] = [
        charge("c1", x=deep),
        {"do": "create_charge", "as": "c2", "body": full},
        static("s1", x=deep),
    ]
    found["odd requests"] = [{"do": "odd", "operation": one, "kind": kind} for one, kind in ODD_REQUESTS]
    return found


def charge_scenarios() -> Scenarios:
    """Every row of the lifecycle table of Charge."""
    found: Scenarios = {}
    for offset in (-1, 0, 1):
        for outcome in ("settle", "hold"):
            steps: list[Step] = [charge("c1", expiresIn=1), pay("c1", delay=500 + offset, outcome=outcome)]
            found[f"{outcome} {offset:+} ms from expiry"] = [*steps, to("expiry", "c1", -1), advance(1), advance(1_000)]
    found["before, at and after the expiry"] = [
        charge("c1"),
        charge("c2", expiresIn="-"),
        to("expiry", "c1", -1),
        pay("c2", label="p1"),
        to("expiry", "c1"),
        pay("c1", label="p2"),
        fail("c1"),
        to("expiry", "c1", 1),
        to("expiry", "c2", 1),
        advance(DAY_MS),
    ]
    found["paid, then every other event"] = [
        charge("c1"),
        pay("c1"),
        pay("c1", label="p2"),
        fail("c1"),
        to("expiry", "c1", 1),
        {"do": "wallet"},
        {"do": "get", "what": "c1"},
    ]
    found["failed, then every other event"] = [charge("c1"), fail("c1"), fail("c1"), pay("c1"), to("expiry", "c1", 1)]
    found["paid 1 ms before the expiry"] = [charge("c1"), to("expiry", "c1", -1), pay("c1"), advance(1), advance(1)]
    for amount_text in ("1000", "1001", "500000000"):
        invoiced = int(amount_text)
        for amount in (invoiced - 1, invoiced, invoiced + 1, 2 * invoiced - 1, 2 * invoiced, 2 * invoiced + 1):
            found[f"{amount} for {amount_text}"] = [
                charge("c1", amount=amount_text),
                pay("c1", amount=amount),
                {"do": "wallet"},
            ]
    for outcome in ("wrong_secret", "underpay", "overpay", "overpay_double", "fail"):
        found[outcome] = [charge("c1"), pay("c1", outcome=outcome), pay("c1", label="p2")]
    found["API key rotation"] = [{"do": "spare_key"}]
    hold = pay("c1", outcome="hold")
    settle: Step = {"do": "settle", "payment": "p1"}
    cancel: Step = {"do": "cancel", "payment": "p1"}
    for name, then in (
        ("settled", [settle, settle, cancel]),
        ("cancelled", [cancel, settle, cancel, pay("c1", label="p2")]),
        ("failed by its Charge", [fail("c1"), settle, cancel]),
        ("expired", [to("expiry", "c1", -1), to("expiry", "c1"), settle, cancel]),
        ("settled 1 ms before the expiry", [to("expiry", "c1", -1), settle, advance(1)]),
        ("paid by another payment", [pay("c1", label="p2"), settle]),
    ):
        found[f"held and {name}"] = [charge("c1"), hold, *then, advance(DAY_MS)]
    month: Step = charge("c1", expiresIn=2_592_000)
    found["held as long as possible"] = [month, hold, advance(HOLD_LIMIT_MS - 1), settle, advance(DAY_MS)]
    found["held for too long"] = [month, hold, advance(HOLD_LIMIT_MS), settle, pay("c1", label="p2"), advance(DAY_MS)]
    found["in flight"] = [charge("c1"), pay("c1", delay=5_000), settle, cancel, advance(5_000), settle]
    found["two payments at one time"] = [
        charge("c1"),
        pay("c1", delay=1_000),
        pay("c1", label="p2", delay=1_000),
        advance(1_000),
        {"do": "wallet"},
    ]
    return found


def static_scenarios() -> Scenarios:
    """Every row of the lifecycle table of Static Charge, and the responses to wallets."""
    found: Scenarios = {}
    for slots in (1, 2):
        steps: list[Step] = [
            static("s1", allowedSlots=slots, successMessage="thank you"),
            {"do": "pay_request", "static": "s1"},
        ]
        steps += [invoice(f"c{n}") for n in range(1, slots + 3)]
        for n in range(1, slots + 3):
            steps += [pay(f"c{n}"), {"do": "get", "what": "s1"}, {"do": "pay_request", "static": "s1"}]
            steps += [invoice(f"c1{n}"), {"do": "verify", "charge": f"c{n}"}]
        found[f"{slots} slots"] = [*steps, advance(300_000), {"do": "verify", "charge": f"c{slots + 2}"}]
    found["disabled and reopened by a change"] = [
        static("s1", allowedSlots=2),
        {"do": "pay_request", "static": "s1"},
        change({"description": "new"}),
        invoice("c1"),
        invoice("c2"),
        pay("c1"),
        change({"allowedSlots": 1}),
        pay("c2"),
        change({"allowedSlots": 0}),
        invoice("c3"),
        pay("c3"),
        change({"allowedSlots": 1}),
        change({"allowedSlots": 1, "minAmount": "1500", "maxAmount": "1500"}),
        change({"allowedSlots": 2}),
        change({"allowedSlots": 2}),
        change({"internalId": "x"}),
        change({"allowedSlots": 3}),
        change({"allowedSlots": None}),
        change({"minAmount": "2001"}),
        change({"maxAmount": "999"}),
        change({"minAmount": "2000", "maxAmount": "2000"}),
        {"do": "pay_request", "static": "s1"},
        invoice("c4", "2000"),
        change({"callbackUrl": None, "successMessage": "", "internalId": None}),
        invoice("c5", "2000"),
        pay("c5"),
        pay("c4"),
    ]
    ending = static("s1", expiresIn=2, allowedSlots=1)
    for offset in (-1, 0, 1):
        found[f"{offset:+} ms from the expiry of a Static Charge"] = [
            ending,
            invoice("c1"),
            to("expiry", "s1", offset),
            {"do": "pay_request", "static": "s1"},
            invoice("c2"),
            pay("c1"),
            change({"allowedSlots": 5}),
            change({}),
            {**change({}), "by": "second"},
            advance(5_000),
        ]
    # Invoices begin at whole seconds, and so does the Static Charge of the second case.
    for name, before, lefts in (
        ("the last seconds of a Static Charge", [], (501, 500, 2)),
        ("a Static Charge ends at a whole second", [advance(500)], (2_000, 1_999, 1_001, 1_000, 999, 1)),
    ):
        late = [one for n, left in enumerate(lefts) for one in (to("expiry", "s1", -left), invoice(f"c{n}"))]
        found[name] = [*before, ending, *late]
    found["all slots used, then the expiry"] = [ending, invoice("c1"), pay("c1"), to("expiry", "s1"), advance(DAY_MS)]
    found["held while the last slot is used"] = [
        static("s1", allowedSlots=1),
        invoice("c1"),
        invoice("c2"),
        pay("c1", outcome="hold"),
        pay("c2", outcome="hold"),
        {"do": "settle", "payment": "p1"},
        {"do": "settle", "payment": "p2"},
        advance(300_000),
    ]
    found["fail after the invoice is cancelled"] = [
        static("s1", allowedSlots=1),
        *(invoice(f"c{n}") for n in (1, 2)),
        pay("c2"),
        fail("c1"),
        to("expiry", "c1"),
        fail("c1"),
    ]
    found["held at the expiry of a Static Charge"] = [
        ending,
        invoice("c1"),
        pay("c1", outcome="hold"),
        to("expiry", "s1"),
    ]
    found["a Charge of a Static Charge fails"] = [
        static("s1", allowedSlots=1),
        invoice("c1"),
        fail("c1"),
        invoice("c2"),
        pay("c2", label="p1"),
    ]
    found["two payments for the last slot"] = [
        static("s1", allowedSlots=1),
        invoice("c1"),
        invoice("c2"),
        pay("c1", delay=1_000),
        pay("c2", delay=1_000),
        advance(1_000),
    ]
    amounts: list[Any] = ["999", "1000", "1001", "1999", "2000", "2001", "0", "-1000", "1000.0", "1e3", "tip", "", None,
                        "01000", "+1000", " 1000", "1_000", "١٠٠٠"]  # fmt: skip
    found["amounts requested of a Static Charge"] = [
        static("s1"),
        *(invoice(f"c{n}", one) for n, one in enumerate(amounts)),
    ]
    found["comments"] = [
        static("s1"),
        *(invoice(f"c{n}", comment=comment) for n, comment in enumerate(COMMENTS)),
        invoice("c8", twice=True),
        invoice("c9", extra=True),
    ]
    found["addresses"] = [
        static("s1", identifier="ana@shop.example", description='"quoted" é\n'),
        {"do": "pay_request", "static": "s1", "address": True},
        static("s2", identifier="ana@other.example"),
        static("s3", identifier="ben@shop.example"),
        {**static("s4", identifier="ben@shop.example"), "by": "second"},
        static("s6", identifier="ben@shop.example", minAmount="2001"),
        invoice("c1"),
        change({"description": "other"}),
        {"do": "pay_request", "static": "s1"},
        invoice("c2"),
        pay("c1"),
        {"do": "verify", "charge": "c1"},
        {"do": "verify", "charge": "c1", "static": "s3"},
        static("s5", allowedSlots=1, identifier="eve@shop.example"),
        invoice("c5", of="s5"),
        pay("c5"),
        {"do": "pay_request", "static": "s5", "address": True},
        {"do": "verify", "charge": "c2", "static": "s5"},
    ]
    return found
