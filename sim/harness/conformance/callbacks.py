"""The tour, callbacks: every answer of a receiver, every fault, every attempt that may be the one that succeeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leyden.harness.generators.world import SAYINGS
from leyden.harness.model.faults import FAULTS

Step = dict[str, Any]
Story = tuple[str, list[Step]]

URL = "http://r1.inbox.localhost/hook"
WEEK_MS = 7 * 86_400_000
DAY_MS = 86_400_000


def charge(label: str, **body: Any) -> Step:
    """Create a Charge, with a callback and a minute to live unless told otherwise."""
    sent = {"amount": "1000", "description": "tea", "callbackUrl": URL, "expiresIn": 60, **body}
    return {"do": "create_charge", "as": label, "body": {name: value for name, value in sent.items() if value != "-"}}


def static(label: str, **body: Any) -> Step:
    """Create a Static Charge with a callback."""
    sent = {"minAmount": "1000", "maxAmount": "2000", "description": "tips", "callbackUrl": URL, **body}
    return {"do": "create_static", "as": label, "body": {name: value for name, value in sent.items() if value != "-"}}


def pay(label: str, charge_label: str, **how: Any) -> Step:
    """Pay a Charge."""
    return {"do": "pay", "as": label, "charge": charge_label, **how}


def advance(by_ms: int) -> Step:
    """Let time pass."""
    return {"do": "advance", "by": by_ms}


def to(kind: str, label: str, offset: int = 0) -> Step:
    """Let time pass up to an instant that is ahead, or to either side of it."""
    return {"do": "advance", "to": [kind, label], "offset": offset}


def receiver(**told: Any) -> Step:
    """Tell the first receiver how to answer."""
    return {"do": "receiver", "host": "r1.inbox", **told}


def invoice(static_label: str, label: str, amount: Any = "1000", **more: Any) -> Step:
    """Ask a link for an invoice."""
    step = {"do": "invoice", "static": static_label, "as": label, **more}
    return step if amount is None else {**step, "amount": amount}


def callback_stories() -> Iterator[Story]:
    """Stories about callbacks, for the reading without overlays."""
    for place, saying in enumerate(SAYINGS):
        steps = [charge("c1"), receiver(answers=[saying, saying]), pay("p1", "c1"), advance(15_000)]
        steps += [to("retry", "c1", -1), to("retry", "c1"), to("retry", "c1", 1), advance(WEEK_MS)]
        yield f"receiver answers {saying if not isinstance(saying, dict) else place}", steps
    asks = {"status": 500, "headers": {"Retry-After": "60"}}
    steps = [charge("c1"), receiver(answers=[asks, asks]), pay("p1", "c1"), to("retry", "c1"), advance(WEEK_MS)]
    yield "only 429 and 503 may ask to wait", steps
    for attempt in range(1, 11):
        steps = [charge("c1"), receiver(answers=[500] * (attempt - 1)), {"do": "fail", "charge": "c1"}]
        for _ in range(attempt - 1):
            steps += [to("retry", "c1", -1), to("retry", "c1")]
        yield f"attempt {attempt} succeeds", [*steps, advance(WEEK_MS)]
    yield (
        "every attempt fails, then it is asked for again",
        [
            charge("c1"),
            receiver(always=500),
            pay("p1", "c1"),
            advance(WEEK_MS),
            {"do": "replay", "charge": "c1"},
            advance(WEEK_MS),
            receiver(),
            {"do": "replay", "charge": "c1"},
            {"do": "replay", "charge": "c1"},
            receiver(answers=["timeout"]),
            {"do": "replay", "charge": "c1"},
            {"do": "replay", "charge": "c1"},
            advance(WEEK_MS),
        ],
    )
    yield (
        "expiry and failure are told too",
        [
            receiver(answers=[500, 500]),
            charge("c1"),
            charge("c2"),
            charge("c3", callbackUrl="-"),
            charge("c4", callbackUrl=""),
            charge("c5", callbackUrl=None),
            {"do": "fail", "charge": "c2"},
            to("expiry", "c1"),
            advance(WEEK_MS),
        ],
    )
    yield (
        "410 ends it for this link only",
        [
            static("s1", allowedSlots=3),
            static("s2"),
            *(invoice("s1", f"c{n}") for n in (1, 2, 3)),
            invoice("s2", "c4"),
            receiver(answers=[500, 410]),
            pay("p1", "c1"),
            pay("p2", "c2"),
            pay("p3", "c3"),
            pay("p4", "c4"),
            advance(WEEK_MS),
            {"do": "replay", "charge": "c3"},
        ],
    )
    yield (
        "410 is said of one URL",
        [
            static("s1"),
            invoice("s1", "c1"),
            receiver(answers=[410]),
            pay("p1", "c1"),
            {"do": "patch", "static": "s1", "body": {"callbackUrl": "http://r2.inbox.localhost/other"}},
            invoice("s1", "c2"),
            pay("p2", "c2"),
            {"do": "patch", "static": "s1", "body": {"callbackUrl": URL}},
            invoice("s1", "c3"),
            pay("p3", "c3"),
        ],
    )
    yield (
        "410 while another is under way",
        [
            static("s1"),
            *(invoice("s1", f"c{n}") for n in (1, 2, 3)),
            receiver(answers=[{"status": 410, "delay": 2}, {"status": 500, "delay": 3}, {"status": 200, "delay": 4}]),
            *(pay(f"p{n}", f"c{n}") for n in (1, 2, 3)),
            advance(WEEK_MS),
        ],
    )
    other = "http://r2.inbox.localhost/other"
    yield (
        "to each its own URL",
        [charge("c1"), charge("c2", callbackUrl=other), pay("p1", "c1"), pay("p2", "c2"), advance(1)],
    )
    yield (
        "no more than eight under way",
        [
            *(charge(f"c{n}", expiresIn=1) for n in range(1, 11)),
            receiver(answers=["timeout"] * 8 + [{"status": 200, "delay": 3}] * 2),
            advance(1_000),
            advance(14_999),
            advance(1),
            advance(3_000),
            advance(WEEK_MS),
        ],
    )
    for event in ("completed", "expired", "error"):
        how: list[Step] = {
            "completed": [pay("p1", "c1")],
            "expired": [to("expiry", "c1")],
            "error": [{"do": "fail", "charge": "c1"}],
        }[event]
        for said in (200, 410, "reset"):
            steps = [receiver(always=said), charge("c1"), charge("c2"), *how, advance(WEEK_MS)]
            yield f"{event} meets {said}", steps
    yield (
        "a payment of a link meets 410, then failure",
        [
            receiver(answers=[500]),
            static("s1"),
            invoice("s1", "c1"),
            pay("p1", "c1"),
            advance(WEEK_MS),
            receiver(always="refused"),
            invoice("s1", "c2"),
            pay("p2", "c2"),
            advance(WEEK_MS),
        ],
    )
    for kind in FAULTS:
        steps = [{"do": "fault", "kind": kind, "attempt": 1}, charge("c1"), receiver(answers=[200, 500])]
        steps += [pay("p1", "c1"), advance(1_000), advance(15_000), advance(3_600_000), advance(2 * DAY_MS)]
        yield f"fault {kind}", steps
    yield from _held_stories()
    for operation, again in (
        ("createCharge", charge("c1")),
        ("createStaticCharge", static("s1")),
        ("updateStaticCharge", {"do": "patch", "static": "s1", "body": {}}),
    ):
        limit = {"do": "fault", "kind": "rate_limit", "operation": operation}
        before = [static("s1")] if operation.startswith("update") else []
        yield f"too many: {operation}", [*before, limit, again, again]
    yield (
        "the secret changes under way",
        [
            receiver(answers=[500] * 9),
            charge("c1"),
            pay("p1", "c1"),
            {"do": "rotate"},
            to("retry", "c1"),
            {"do": "rotate"},
            charge("c2", expiresIn=2_592_000),
            advance(DAY_MS - 6_000),
            {"do": "fail", "charge": "c2"},
            advance(WEEK_MS),
        ],
    )
    yield (
        "the secret's last instant",
        [
            {"do": "rotate"},
            *(charge(f"c{n}", expiresIn=2_592_000) for n in (1, 2, 3)),
            advance(DAY_MS - 1),
            pay("p1", "c1"),
            advance(1),
            pay("p2", "c2"),
            advance(1),
            pay("p3", "c3"),
        ],
    )


def _held_stories() -> Iterator[Story]:
    """Faults that are about several messages: one that another overtakes, and some that go at one instant."""
    three = [charge(f"c{n}", expiresIn=7_200) for n in (1, 2, 3)]
    first, second, third = (pay(f"p{n}", f"c{n}") for n in (1, 2, 3))
    reorder = {"do": "fault", "kind": "reorder"}
    yield "reordered: the next one overtakes", [*three, reorder, first, advance(1_000), second, advance(1), third]
    yield (
        "reordered: nobody overtakes",
        [*three, reorder, first, to("retry", "c1", -1), to("retry", "c1"), second],
    )
    yield (
        "reordered: what is dropped overtakes nobody",
        [
            *three,
            {**reorder, "charge": "c1"},
            {"do": "fault", "kind": "drop", "charge": "c2"},
            first,
            second,
            advance(15_000),
            to("retry", "c2", -1),
            to("retry", "c2"),
        ],
    )
    yield "reordered: two of three", [*three, {**reorder, "count": 2}, first, second, advance(1), third, advance(1)]
    burst = {"do": "fault", "kind": "burst", "count": 3}
    yield "burst: all three are there", [*three, burst, first, advance(1_000), second, advance(1_000), third]
    yield (
        "burst: two of three, and the third by itself",
        [*three, burst, first, advance(1_000), second, to("retry", "c1", -1), to("retry", "c1"), advance(1), third],
    )
