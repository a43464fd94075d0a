"""The tour, money: every row of the lifecycle tables, and every bound from both sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leyden.harness.conformance.callbacks import DAY_MS, Step, Story, advance, charge, invoice, pay, static, to
from leyden.harness.generators.bodies import COMMENTS, wrong_bodies
from leyden.harness.model.requests import odd_names
from leyden.harness.model.rules import BODY_LIMIT, DEPTH_LIMIT
from leyden.harness.runs.run import encoded

FAIL = {"do": "fail", "charge": "c1"}


def door_stories() -> Iterator[Story]:
    """Every body that is wrong, every request that is odd, and the right ones beside them."""
    for kind, act in (("charge", "create_charge"), ("static", "create_static")):
        bodies = wrong_bodies(kind)
        for first in range(0, len(bodies), 60):
            some = bodies[first : first + 60]
            made = [{"do": act, "as": f"{kind[0]}{n}", "body": body} for n, (_, body) in enumerate(some)]
            yield f"bodies of a {kind}, from {first}", made
    bodies = wrong_bodies("changes")
    steps: list[Step] = [static("s1")]
    steps += [{"do": "patch", "static": "s1", "body": body} for _, body in bodies]
    yield "bodies of a change", steps
    yield (
        "fields that nobody knows",
        [charge("c1", colour="blue", id="mine", status="completed"), static("s1", slots=7)],
    )
    deep: list[Any] = []
    for _ in range(DEPTH_LIMIT - 2):
        deep = [deep]
    full: dict[str, Any] = {"amount": "1000", "description": "tea", "x": ""}
    full["x"] = "x" * (BODY_LIMIT - len(encoded(full)))
    yield (
        "as deep and as long as may be",
        [charge("c1", x=deep), {"do": "create_charge", "as": "c2", "body": full}, static("s1", x=deep)],
    )
    yield "odd requests", [{"do": "odd", "operation": one, "kind": kind} for one, kind in odd_names()]


def charge_stories() -> Iterator[Story]:
    """Every row of the Charge's table."""
    for offset in (-1, 0, 1):
        for outcome in ("settle", "hold"):
            steps: list[Step] = [charge("c1", expiresIn=1), pay("p1", "c1", delay=500 + offset, outcome=outcome)]
            yield f"{outcome} {offset:+} ms from expiry", [*steps, to("expiry", "c1", -1), advance(1), advance(1_000)]
    yield (
        "time up to, at and after expiry",
        [
            charge("c1"),
            charge("c2", expiresIn="-"),
            to("expiry", "c1", -1),
            pay("p1", "c2"),
            to("expiry", "c1"),
            pay("p2", "c1"),
            FAIL,
            to("expiry", "c1", 1),
            to("expiry", "c2", 1),
            advance(DAY_MS),
        ],
    )
    yield (
        "paid, and everything after",
        [
            charge("c1"),
            pay("p1", "c1"),
            pay("p2", "c1"),
            FAIL,
            to("expiry", "c1", 1),
            {"do": "wallet"},
            {"do": "get", "what": "c1"},
        ],
    )
    yield "failed, and everything after", [charge("c1"), FAIL, FAIL, pay("p1", "c1"), to("expiry", "c1", 1)]
    yield "at the last instant", [charge("c1"), to("expiry", "c1", -1), pay("p1", "c1"), advance(1), advance(1)]
    for asked in ("1000", "1001", "500000000"):
        whole = int(asked)
        for amount in (whole - 1, whole, whole + 1, 2 * whole - 1, 2 * whole, 2 * whole + 1):
            yield (
                f"{amount} for {asked}",
                [charge("c1", amount=asked), pay("p1", "c1", amount=amount), {"do": "wallet"}],
            )
    for outcome in ("wrong_secret", "underpay", "fail"):
        yield outcome, [charge("c1"), pay("p1", "c1", outcome=outcome), pay("p2", "c1")]
    yield "a key makes way for another", [{"do": "spare_key"}]
    hold = pay("p1", "c1", outcome="hold")
    settle, cancel = {"do": "settle", "payment": "p1"}, {"do": "cancel", "payment": "p1"}
    for name, then in (
        ("settled", [settle, settle, cancel]),
        ("cancelled", [cancel, settle, cancel, pay("p2", "c1")]),
        ("failed with its Charge", [FAIL, settle, cancel]),
        ("expired", [to("expiry", "c1", -1), to("expiry", "c1"), settle, cancel]),
        ("settled at the last instant", [to("expiry", "c1", -1), settle, advance(1)]),
        ("paid by another", [pay("p2", "c1"), settle]),
    ):
        yield f"held and {name}", [charge("c1"), hold, *then, advance(DAY_MS)]
    yield "on its way", [charge("c1"), pay("p1", "c1", delay=5_000), settle, cancel, advance(5_000), settle]
    yield (
        "two at one instant",
        [
            charge("c1"),
            pay("p1", "c1", delay=1_000),
            pay("p2", "c1", delay=1_000),
            advance(1_000),
            {"do": "wallet"},
        ],
    )


def static_stories() -> Iterator[Story]:
    """Every row of the Static Charge's table, and what wallets see."""
    for slots in (1, 2):
        steps: list[Step] = [
            static("s1", allowedSlots=slots, successMessage="thank you"),
            {"do": "terms", "static": "s1"},
        ]
        steps += [invoice("s1", f"c{n}") for n in range(1, slots + 3)]
        for n in range(1, slots + 3):
            steps += [pay(f"p{n}", f"c{n}"), {"do": "get", "what": "s1"}, {"do": "terms", "static": "s1"}]
            steps += [invoice("s1", f"c1{n}"), {"do": "verify", "charge": f"c{n}"}]
        yield f"{slots} slots", [*steps, advance(300_000), {"do": "verify", "charge": f"c{slots + 2}"}]
    change = {"do": "patch", "static": "s1"}
    yield (
        "closed and opened by a change",
        [
            static("s1", allowedSlots=2),
            {"do": "terms", "static": "s1"},
            {**change, "body": {"description": "new"}},
            invoice("s1", "c1"),
            invoice("s1", "c2"),
            pay("p1", "c1"),
            {**change, "body": {"allowedSlots": 1}},
            pay("p2", "c2"),
            {**change, "body": {"allowedSlots": 0}},
            invoice("s1", "c3"),
            pay("p3", "c3"),
            {**change, "body": {"allowedSlots": 1}},
            {**change, "body": {"allowedSlots": 2}},
            {**change, "body": {"allowedSlots": 2}},
            {**change, "body": {"internalId": "x"}},
            {**change, "body": {"allowedSlots": 3}},
            {**change, "body": {"allowedSlots": None}},
            {**change, "body": {"minAmount": "2001"}},
            {**change, "body": {"maxAmount": "999"}},
            {**change, "body": {"minAmount": "2000", "maxAmount": "2000"}},
            {"do": "terms", "static": "s1"},
            invoice("s1", "c4", "2000"),
            {**change, "body": {"callbackUrl": None, "successMessage": "", "internalId": None}},
            invoice("s1", "c5", "2000"),
            pay("p5", "c5"),
            pay("p4", "c4"),
        ],
    )
    ending = static("s1", expiresIn=2, allowedSlots=1)
    for offset in (-1, 0, 1):
        yield (
            f"the link's end {offset:+} ms",
            [
                ending,
                invoice("s1", "c1"),
                to("expiry", "s1", offset),
                {"do": "terms", "static": "s1"},
                invoice("s1", "c2"),
                pay("p1", "c1"),
                {**change, "body": {"allowedSlots": 5}},
                {**change, "body": {}},
                {**change, "body": {}, "by": "rival"},
                advance(5_000),
            ],
        )
    yield (
        "the link's last seconds",
        [
            ending,
            *(
                one
                for n, left in enumerate((501, 500, 2))
                for one in (to("expiry", "s1", -left), invoice("s1", f"c{n}"))
            ),
        ],
    )
    yield (
        "used up, then at its end",
        [ending, invoice("s1", "c1"), pay("p1", "c1"), to("expiry", "s1"), advance(DAY_MS)],
    )
    yield (
        "held while the last slot goes",
        [
            static("s1", allowedSlots=1),
            invoice("s1", "c1"),
            invoice("s1", "c2"),
            pay("p1", "c1", outcome="hold"),
            pay("p2", "c2", outcome="hold"),
            {"do": "settle", "payment": "p1"},
            {"do": "settle", "payment": "p2"},
            advance(300_000),
        ],
    )
    yield (
        "no invoice left to lose",
        [
            static("s1", allowedSlots=1),
            *(invoice("s1", f"c{n}") for n in (1, 2)),
            pay("p2", "c2"),
            FAIL,
            to("expiry", "c1"),
            FAIL,
        ],
    )
    yield "held at the link's end", [ending, invoice("s1", "c1"), pay("p1", "c1", outcome="hold"), to("expiry", "s1")]
    yield (
        "a child fails",
        [static("s1", allowedSlots=1), invoice("s1", "c1"), FAIL, invoice("s1", "c2"), pay("p1", "c2")],
    )
    yield (
        "two for the last slot",
        [
            static("s1", allowedSlots=1),
            invoice("s1", "c1"),
            invoice("s1", "c2"),
            pay("p1", "c1", delay=1_000),
            pay("p2", "c2", delay=1_000),
            advance(1_000),
        ],
    )
    asked: list[Any] = ["999", "1000", "1001", "1999", "2000", "2001", "0", "-1000", "1000.0", "1e3", "tip", "", None,
                        "01000", "+1000", " 1000", "1_000", "١٠٠٠"]  # fmt: skip
    yield "amounts asked of a link", [static("s1"), *(invoice("s1", f"c{n}", one) for n, one in enumerate(asked))]
    yield (
        "comments",
        [
            static("s1"),
            *(invoice("s1", f"c{n}", comment=comment) for n, comment in enumerate(COMMENTS)),
            invoice("s1", "c8", twice=True),
            invoice("s1", "c9", extra=True),
        ],
    )
    yield (
        "addresses",
        [
            static("s1", identifier="ana@shop.example", description='"quoted" é\n'),
            {"do": "terms", "static": "s1", "address": True},
            static("s2", identifier="ana@other.example"),
            static("s3", identifier="ben@shop.example"),
            {**static("s4", identifier="ben@shop.example"), "by": "rival"},
            invoice("s1", "c1"),
            {"do": "patch", "static": "s1", "body": {"description": "other"}},
            {"do": "terms", "static": "s1"},
            invoice("s1", "c2"),
            pay("p1", "c1"),
            {"do": "verify", "charge": "c1"},
            {"do": "verify", "charge": "c1", "static": "s3"},
            static("s5", allowedSlots=1, identifier="eve@shop.example"),
            invoice("s5", "c5"),
            pay("p5", "c5"),
            {"do": "terms", "static": "s5", "address": True},
            {"do": "verify", "charge": "c2", "static": "s5"},
        ],
    )
