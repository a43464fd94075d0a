"""The conformance run: a fixed list of cases for every lifecycle row, error, delivery result and bound.

It takes a second or two and makes no random choices, so it is a smoke test for any implementation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from leyden.harness.conformance.callbacks import callback_scenarios
from leyden.harness.conformance.charges import charge_scenarios, request_scenarios, static_scenarios
from leyden.harness.conformance.lists import list_scenarios
from leyden.harness.conformance.scenario import (
    WEEK_MS,
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
from leyden.harness.constants import OVERLAYS
from leyden.harness.generators.generators import START_MS
from leyden.harness.runs.cases import Case, CaseResult, play
from leyden.harness.steps import Step
from leyden.harness.targets.target import Target


def conformance_cases(overlay: str | None = None) -> Iterator[Case]:
    """The conformance cases without overlays, or those that show the effect of one overlay."""
    if overlay is None:
        plain = (request_scenarios, charge_scenarios, static_scenarios, list_scenarios, callback_scenarios)
        for scenarios in plain:
            for name, steps in scenarios():
                yield _case(name, steps)
        for name, steps in _restarts():
            yield _case(name, steps, disk=True)
        return
    for name, steps in _OVERLAY_SCENARIOS[overlay]():
        yield _case(name, steps, overlays=(overlay,))


def _case(name: str, steps: list[Step], **more: Any) -> Case:
    # Half a second off, because createdAt has whole seconds.
    return Case(tuple(steps), seed=1, start_ms=START_MS + 500, name=f"conformance: {name}", **more)


def run_conformance(target: Target, overlays: Sequence[str] | None = None, *, seed: int = 1) -> Iterator[CaseResult]:
    """Run the cases one after another, each from a fresh start, up to its first violation.

    With `overlays` None: the cases without overlays, then those of each overlay. Otherwise the cases of these overlays,
    with all of them; for an empty list the cases without overlays. `seed` is that of the service.
    """
    if overlays is None:
        cases = [case for overlay in (None, *OVERLAYS) for case in conformance_cases(overlay)]
    else:
        selected = [case for overlay in overlays or (None,) for case in conformance_cases(overlay)]
        cases = [replace(case, overlays=tuple(overlays)) for case in selected]
    for case in cases:
        if target.restarts or not case.disk:
            yield play(replace(case, seed=seed), target)


Scenarios = Iterator[tuple[str, list[Step]]]


def _restarts() -> Scenarios:
    again: Step = {"do": "restart"}
    page: Step = {"do": "list", "query": {"limit": 1}, "between": again}
    yield (
        "restart: a cursor stays valid",
        [
            *(charge(f"c{n}") for n in range(1, 4)),
            *(static(f"s{n}") for n in range(1, 4)),
            *(invoice("s1", f"c{n}") for n in range(4, 7)),
            {**page, "of": "charges"},
            {**page, "of": "charges", "query": {"limit": 2, "status": "pending"}},
            {**page, "of": "statics"},
            {**page, "of": "children", "static": "s1"},
        ],
    )
    yield (
        "restart: everything continues",
        [
            receiver(answers=[500, "timeout", "timeout", 500]),
            {**charge("c1"), "idempotency_key": "k1"},
            charge("c2"),
            static("s1", allowedSlots=2, expiresIn=600),
            invoice("s1", "c3"),
            invoice("s1", "c4"),
            pay("p1", "c1"),
            again,
            {**charge("c1"), "idempotency_key": "k1"},
            pay("p2", "c3", outcome="hold"),
            pay("p3", "c2", delay=60_000),
            to("retry", "c1"),
            again,
            {"do": "settle", "payment": "p2"},
            again,
            to("expiry", "c2", -1),
            again,
            to("expiry", "c2"),
            again,
            {"do": "list", "of": "charges", "query": {"limit": 2}},
            {"do": "wallet"},
            advance(WEEK_MS),
            again,
            {"do": "verify", "charge": "c3"},
            {"do": "terms", "static": "s1"},
        ],
    )
    yield (
        "restart: a lost attempt does not count",
        [
            receiver(always="timeout"),
            charge("c1"),
            pay("p1", "c1"),
            again,
            advance(20_000),
            to("retry", "c1"),
            again,
            advance(WEEK_MS),
        ],
    )
    yield (
        "restart: a disabled Static Charge expires",
        [
            static("s1", allowedSlots=1, expiresIn=600),
            invoice("s1", "c1"),
            pay("p1", "c1"),
            again,
            to("expiry", "s1", -1),
            to("expiry", "s1"),
        ],
    )
    yield (
        "restart: 410, secrets and failures are kept",
        [
            receiver(answers=[410]),
            static("s1"),
            *(invoice("s1", f"c{n}") for n in (1, 2)),
            pay("p1", "c1"),
            {"do": "rotate"},
            again,
            pay("p2", "c2"),
            charge("c3"),
            fail("c3"),
            again,
            advance(WEEK_MS),
        ],
    )


def _strict() -> Scenarios:
    wrong: list[dict[str, Any]] = [{"colour": "blue"}, {"internalId": None}, {"internalId": ""}, {"callbackUrl": None}]
    wrong += [{"callbackUrl": ""}, {"expiresIn": 0}, {"expiresIn": None}, {"expiresIn": ""}, {"expiresIn": 1}]
    yield (
        "strict: one way to omit a field",
        [
            *(charge(f"c{n}", **one) for n, one in enumerate(wrong)),
            *(static(f"s{n}", **one) for n, one in enumerate(wrong)),
            *(static(f"t{n}", allowedSlots=value) for n, value in enumerate((0, None, "", 1))),
            *(static(f"u{n}", successMessage=value, identifier="-") for n, value in enumerate((None, "", "x"))),
            static("s"),
            *(
                change("s", body)
                for body in (
                    {"colour": 1},
                    {"allowedSlots": 0},
                    {"allowedSlots": None},
                    {"internalId": ""},
                    {"internalId": None},
                )
            ),
        ],
    )


def _lenient() -> Scenarios:
    amounts: list[Any] = [999, 1000, 1001, 500_000_000, 500_000_001, 1000.5, "1000", True, -1000, 2000.0]
    yield (
        "lenient: numbers and digit strings",
        [
            *(charge(f"c{n}", amount=one) for n, one in enumerate(amounts)),
            *(static(f"s{n}", minAmount=one) for n, one in enumerate(amounts)),
            *(
                charge(f"d{n}", expiresIn=one)
                for n, one in enumerate(("1", "60", "2592000", "2592001", "060", "-1", "x"))
            ),
            *(static(f"t{n}", allowedSlots=one) for n, one in enumerate(("1", "2147483647", "2147483648", "01", "x"))),
            static("s", allowedSlots="1"),
            change("s", {"allowedSlots": "2", "minAmount": 1500}),
            change("s", {"allowedSlots": ""}),
        ],
    )


def _payable_at_expiry() -> Scenarios:
    for offset in (-1, 0, 1):
        for outcome in ("settle", "hold"):
            yield (
                f"payable at expiry: {outcome} {offset:+} ms",
                [
                    charge("c1", expiresIn=1),
                    pay("p1", "c1", delay=500 + offset, outcome=outcome),
                    to("expiry", "c1", -1),
                    to("expiry", "c1"),
                    advance(1_000),
                ],
            )


def _no_retries() -> Scenarios:
    for reply in (500, "timeout", 200, {"status": 503, "headers": {"Retry-After": "6"}}):
        yield f"no retries: {reply}", [receiver(always=reply), charge("c1"), pay("p1", "c1"), advance(WEEK_MS)]


def _callback_envelope() -> Scenarios:
    yield (
        "callback envelope",
        [
            receiver(answers=[500]),
            charge("c1"),
            charge("c2"),
            charge("c3"),
            static("s1", allowedSlots=1),
            invoice("s1", "c4"),
            pay("p1", "c1"),
            fail("c2"),
            pay("p4", "c4"),
            to("expiry", "c3"),
            advance(WEEK_MS),
        ],
    )


def _reserve_on_issue() -> Scenarios:
    yield (
        "reserve on issue",
        [
            static("s1", allowedSlots=2),
            *(invoice("s1", f"c{n}") for n in (1, 2, 3)),
            pay("p1", "c1"),
            invoice("s1", "c4"),
            to("expiry", "c2", -1),
            invoice("s1", "c5"),
            to("expiry", "c2"),
            invoice("s1", "c6"),
            fail("c6"),
            invoice("s1", "c7"),
            pay("p7", "c7"),
            invoice("s1", "c8"),
        ],
    )
    yield (
        "reserve on issue: a cancelled invoice reserves nothing",
        [
            static("s1", allowedSlots=2),
            *(invoice("s1", f"c{n}") for n in (1, 2)),
            change("s1", {"allowedSlots": 1}),
            pay("p1", "c1"),
            change("s1", {"allowedSlots": 2}),
            invoice("s1", "c3"),
            pay("p2", "c2"),
            pay("p3", "c3"),
        ],
    )


def _count_on_settle() -> Scenarios:
    yield (
        "count on settle",
        [
            static("s1", allowedSlots=1),
            *(invoice("s1", f"c{n}") for n in (1, 2, 3)),
            pay("p1", "c1"),
            invoice("s1", "c4"),
            pay("p2", "c2"),
            change("s1", {"description": "sold out"}),
            change("s1", {"allowedSlots": 1}),
            change("s1", {"allowedSlots": 3}),
            pay("p3", "c3"),
            {"do": "terms", "static": "s1"},
        ],
    )


_OVERLAY_SCENARIOS = {
    "strict": _strict,
    "lenient": _lenient,
    "payable-at-expiry": _payable_at_expiry,
    "no-retries": _no_retries,
    "callback-envelope": _callback_envelope,
    "reserve-on-issue": _reserve_on_issue,
    "count-on-settle": _count_on_settle,
}
