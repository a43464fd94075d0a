"""Conformance scenarios for callbacks: every reply of a receiver, every fault, and success at each attempt."""

from __future__ import annotations

from leyden.harness.conformance.scenario import (
    DAY_MS,
    URL,
    WEEK_MS,
    Scenarios,
    advance,
    change,
    charge,
    fail,
    invoice,
    pay,
    receiver,
    static,
    to,
)
from leyden.harness.generators.world import REPLIES
from leyden.harness.model.faults import FAULTS
from leyden.harness.steps import Step

# Bodies and headers of replies: the same again, another, none, and about the bounds of what an attempt shows.
_SOME, _OTHER = {"X-Shop": "ana", "Date": "today"}, {"X-Shop": "ben"}
_LONG = {f"X-{n}": "x" * 1_000 for n in range(8)}
_TEXTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("later", _SOME), ("later", _SOME), ("later", _OTHER), ("", _OTHER), ("", {}),
    ("é" * 2_048, {**_LONG, "X-8": "x" * 165, "X-9": ""}), ("x" + "é" * 2_048, {**_LONG, "X-8": "x" * 166, "X-9": ""}),
    ("x" * 4_095 + "é", {}),
)  # fmt: skip


def callback_scenarios() -> Scenarios:
    """The scenarios for callbacks, without overlays."""
    found: Scenarios = {}
    for index, reply in enumerate(REPLIES):
        steps = [charge("c1"), receiver(answers=[reply, reply]), pay("c1"), advance(15_000)]
        steps += [to("retry", "c1", -1), to("retry", "c1"), to("retry", "c1", 1), advance(WEEK_MS)]
        found[f"receiver replies {reply if not isinstance(reply, dict) else index}"] = steps
    retry_after = {"status": 500, "headers": {"Retry-After": "60"}}
    steps = [charge("c1"), receiver(answers=[retry_after, retry_after]), pay("c1"), to("retry", "c1"), advance(WEEK_MS)]
    found["Retry-After counts with 429 and 503 only"] = steps
    # Then the delay is not random: it is twice that of the schedule.
    late = {"status": 503, "headers": {"Retry-After": "99999999"}}
    retries: list[Step] = [one for _ in range(9) for one in (to("retry", "c1", -1), to("retry", "c1"))]
    found["Retry-After at most doubles each delay"] = [charge("c1"), receiver(always=late), fail("c1"), *retries]
    found["what receivers reply is shown"] = [
        charge("c1"),
        receiver(answers=[{"status": 500, "body": body, "headers": headers} for body, headers in _TEXTS]),
        pay("c1"),
        advance(WEEK_MS),
    ]
    for attempt in range(1, 11):
        steps = [charge("c1"), receiver(answers=[500] * (attempt - 1)), fail("c1")]
        for _ in range(attempt - 1):
            steps += [to("retry", "c1", -1), to("retry", "c1")]
        found[f"attempt {attempt} succeeds"] = [*steps, advance(WEEK_MS)]
    found["every attempt fails, then it is replayed"] = [
        charge("c1"),
        receiver(always=500),
        pay("c1"),
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
    ]
    found["callbacks about expiry and failure"] = [
        receiver(answers=[500, 500]),
        charge("c1"),
        charge("c2"),
        charge("c3", callbackUrl="-"),
        charge("c4", callbackUrl=""),
        charge("c5", callbackUrl=None),
        fail("c2"),
        to("expiry", "c1"),
        advance(WEEK_MS),
    ]
    found["410 stops the callbacks of one Static Charge"] = [
        static("s1", allowedSlots=3),
        static("s2"),
        *(invoice(f"c{n}") for n in (1, 2, 3)),
        invoice("c4", of="s2"),
        receiver(answers=[500, 410]),
        pay("c1"),
        pay("c2"),
        pay("c3"),
        pay("c4"),
        advance(WEEK_MS),
        {"do": "replay", "charge": "c3"},
    ]
    found["410 stops the callbacks to one URL"] = [
        static("s1"),
        invoice("c1"),
        receiver(answers=[410]),
        pay("c1"),
        change({"callbackUrl": "http://r2.inbox.localhost/other"}),
        invoice("c2"),
        pay("c2"),
        change({"callbackUrl": URL}),
        invoice("c3"),
        pay("c3"),
    ]
    found["410 while another attempt is in flight"] = [
        static("s1"),
        *(invoice(f"c{n}") for n in (1, 2, 3)),
        receiver(answers=[{"status": 410, "delay": 2}, {"status": 500, "delay": 3}, {"status": 200, "delay": 4}]),
        *(pay(f"c{n}") for n in (1, 2, 3)),
        advance(WEEK_MS),
    ]
    other = "http://r2.inbox.localhost/other"
    found["each Charge has its own URL"] = [
        charge("c1"),
        charge("c2", callbackUrl=other),
        pay("c1"),
        pay("c2"),
        advance(1),
    ]
    found["at most eight attempts in flight"] = [
        *(charge(f"c{n}", expiresIn=1) for n in range(1, 11)),
        receiver(answers=["timeout"] * 8 + [{"status": 200, "delay": 3}] * 2),
        advance(1_000),
        advance(14_999),
        advance(1),
        advance(3_000),
        advance(WEEK_MS),
    ]
    for event, cause in (("completed", pay("c1")), ("expired", to("expiry", "c1")), ("error", fail("c1"))):
        for reply in (200, 410, "reset"):
            steps = [receiver(always=reply), charge("c1"), charge("c2"), cause, advance(WEEK_MS)]
            found[f"{event}, reply {reply}"] = steps
    found["payments of a Static Charge, attempts fail"] = [
        receiver(answers=[500]),
        static("s1"),
        invoice("c1"),
        pay("c1"),
        advance(WEEK_MS),
        receiver(always="refused"),
        invoice("c2"),
        pay("c2"),
        advance(WEEK_MS),
    ]
    for kind in FAULTS:
        rotation: list[Step] = [{"do": "rotate"}] if kind == "old_secret" else []  # else there is no old secret
        steps = [*rotation, Step({"do": "fault", "kind": kind, "attempt": 1}), charge("c1")]
        steps += [receiver(answers=[200, 500])]
        steps += [pay("c1"), advance(1_000), advance(15_000), advance(3_600_000), advance(2 * DAY_MS)]
        found[f"fault {kind}"] = steps
    old_secret: Step = {"do": "fault", "kind": "old_secret", "count": 2}
    found["an old secret is one of the project, before and after its rotation"] = [
        old_secret,
        {"do": "rotate"},
        old_secret,
        Step({**charge("c1"), "by": "second"}),
        charge("c2"),
        pay("c1"),
        pay("c2"),
        advance(1),
    ]
    found |= _fault_scenarios()
    for operation, again in (
        ("createCharge", charge("c1")),
        ("createStaticCharge", static("s1")),
        ("updateStaticCharge", change({})),
    ):
        limit: Step = {"do": "fault", "kind": "rate_limit", "operation": operation}
        before = [static("s1")] if operation.startswith("update") else []
        found[f"rate limit: {operation}"] = [*before, limit, again, again]
    found["the secret is rotated between attempts"] = [
        receiver(answers=[500] * 9),
        charge("c1"),
        pay("c1"),
        {"do": "rotate"},
        to("retry", "c1"),
        {"do": "rotate"},
        charge("c2", expiresIn=2_592_000),
        advance(DAY_MS - 6_000),
        fail("c2"),
        advance(WEEK_MS),
    ]
    found["end of the retention of a rotated secret"] = [
        {"do": "rotate"},
        *(charge(f"c{n}", expiresIn=2_592_000) for n in (1, 2, 3)),
        advance(DAY_MS - 1),
        pay("c1"),
        advance(1),
        pay("c2"),
        advance(1),
        pay("c3"),
    ]
    return found


def _fault_scenarios() -> Scenarios:
    """Faults that concern several deliveries: reorder and burst."""
    found: Scenarios = {}
    three = [charge(f"c{n}", expiresIn=7_200) for n in (1, 2, 3)]
    first, second, third = (pay(f"c{n}") for n in (1, 2, 3))
    reorder: Step = {"do": "fault", "kind": "reorder"}
    found["reorder: the next delivery is sent first"] = [
        *three,
        reorder,
        first,
        advance(1_000),
        second,
        advance(1),
        third,
    ]
    found["reorder: the next delivery is answered late"] = [
        *three,
        receiver(answers=[{"status": 200, "delay": 5}, {"status": 500, "delay": 2}, 200]),
        first,
        {**reorder, "charge": "c2"},
        second,
        advance(1_000),
        third,
        advance(1_999),
        advance(1),
        advance(10_000),
    ]
    found["reorder: the next delivery ends those of the Static Charge"] = [
        static("s1"),
        invoice("c1"),
        invoice("c2"),
        reorder,
        receiver(answers=[410]),
        pay("c1"),
        advance(1_000),
        pay("c2"),
        advance(DAY_MS),
    ]
    found["reorder: there is no other delivery"] = [
        *three,
        reorder,
        first,
        to("retry", "c1", -1),
        to("retry", "c1"),
        second,
    ]
    found["reorder: a dropped request releases nothing"] = [
        *three,
        {**reorder, "charge": "c1"},
        {"do": "fault", "kind": "drop", "charge": "c2"},
        first,
        second,
        advance(15_000),
        to("retry", "c2", -1),
        to("retry", "c2"),
    ]
    found["reorder: two of three"] = [*three, {**reorder, "count": 2}, first, second, advance(1), third, advance(1)]
    burst: Step = {"do": "fault", "kind": "burst", "count": 3}
    found["burst: all three deliveries"] = [*three, burst, first, advance(1_000), second, advance(1_000), third]
    found["burst: two of three, then the third"] = [
        *three,
        burst,
        first,
        advance(1_000),
        second,
        to("retry", "c1", -1),
        to("retry", "c1"),
        advance(1),
        third,
    ]
    four = [*three, charge("c4", expiresIn=7_200)]
    found["burst: two and two of four"] = [
        *four,
        {**burst, "count": 4},
        first,
        advance(1_000),
        second,
        advance(300_000),
        third,
        advance(59_999),
        pay("c4"),
        advance(1),
    ]
    return found
