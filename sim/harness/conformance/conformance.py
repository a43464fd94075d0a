"""The conformance cases: a fixed list for every lifecycle row, error, delivery result and bound.

They make no random choices. The conformance run has those that `selection.py` does not leave to the obligations. It
takes some seconds, so it is a smoke test for any implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from json import dumps
from typing import Any

from leyden.harness.conformance.callbacks import callback_scenarios
from leyden.harness.conformance.charges import charge_scenarios, request_scenarios, static_scenarios
from leyden.harness.conformance.lists import list_scenarios
from leyden.harness.conformance.scenario import (
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
from leyden.harness.conformance.selection import LEFT_OUT_GROUPS, is_left_out
from leyden.harness.generators.generators import START_MS
from leyden.harness.model.rules import OVERLAYS
from leyden.harness.runs.cases import Case, CaseResult, play
from leyden.harness.steps import Step
from leyden.harness.targets.target import Target


def conformance_cases(overlay: str | None = None) -> Iterator[Case]:
    """All conformance cases without overlays, or those that show the effect of one overlay."""
    if overlay is None:
        for name in GROUPS:
            yield from grouped_cases(name)
    else:
        yield from _cases(_OVERLAY_SCENARIOS[overlay], overlays=(overlay,))


def run_cases(overlay: str | None = None) -> Iterator[Case]:
    """Those of the `conformance_cases` that the conformance run has."""
    if overlay is None:
        for name in GROUPS:
            if name not in LEFT_OUT_GROUPS:  # whose scenarios are not derived
                yield from _selected(name, left_out=False)
    else:
        yield from conformance_cases(overlay)


def left_out_cases() -> Iterator[Case]:
    """The other ones, which the engine `obligations` asks before the obligations: first those of the control plane, of
    which the conformance run has none."""
    for name in reversed([*GROUPS]):
        yield from _selected(name, left_out=True)


def _selected(group: str, *, left_out: bool) -> Iterator[Case]:
    scenarios = {name: steps for name, steps in GROUPS[group]().items() if is_left_out(group, name) is left_out}
    yield from _cases(scenarios, disk=group == "restarts")


def scenarios_of(group: str) -> Scenarios:
    """The scenarios of one of the `GROUPS`, or those of an overlay."""
    return GROUPS[group]() if group in GROUPS else dict(_OVERLAY_SCENARIOS[group])


def grouped_cases(group: str) -> Iterator[Case]:
    """The cases of one of the `GROUPS`."""
    yield from _cases(GROUPS[group](), disk=group == "restarts")


def _cases(scenarios: Scenarios, **more: Any) -> Iterator[Case]:
    for name, steps in scenarios.items():
        # Half a second off, because createdAt has whole seconds.
        yield Case(tuple(steps), seed=1, start_ms=START_MS + 500, name=f"conformance: {name}", **more)


def run_conformance(target: Target, overlays: Sequence[str] | None = None, *, seed: int = 1) -> Iterator[CaseResult]:
    """Run the cases of the conformance run one after another, each from a fresh start, up to its first violation.

    With `overlays` None: the cases without overlays, then those of each overlay. Otherwise the cases of these overlays,
    with all of them; for an empty list the cases without overlays. `seed` is that of the service.
    """
    if overlays is None:
        cases = [case for overlay in (None, *OVERLAYS) for case in run_cases(overlay)]
    else:
        selected = [case for overlay in overlays or (None,) for case in run_cases(overlay)]
        cases = [replace(case, overlays=tuple(overlays)) for case in selected]
    for case in cases:
        if target.restarts or not case.disk:
            yield play(replace(case, seed=seed), target)


_AGAIN: Step = {"do": "restart"}
_PAGE: Step = {"do": "list", "query": {"limit": 1}, "between": _AGAIN}
_RESTARTS: Scenarios = {
    "restart: a cursor stays valid": [
        *(charge(f"c{n}") for n in range(1, 4)),
        *(static(f"s{n}") for n in range(1, 4)),
        *(invoice(f"c{n}") for n in range(4, 7)),
        {**_PAGE, "of": "charges"},
        {**_PAGE, "of": "charges", "query": {"limit": 2, "status": "pending"}},
        {**_PAGE, "of": "statics"},
        {**_PAGE, "of": "children", "static": "s1"},
    ],
    "restart: everything continues": [
        receiver(answers=[500, "timeout", "timeout", 500]),
        {**charge("c1"), "idempotency_key": "k1"},
        charge("c2"),
        static("s1", allowedSlots=2, expiresIn=600),
        invoice("c3"),
        invoice("c4"),
        pay("c1"),
        {**_AGAIN, "how": "damaged"},
        {**charge("c1"), "idempotency_key": "k1"},
        pay("c3", label="p2", outcome="hold"),
        pay("c2", label="p3", delay=60_000),
        to("retry", "c1"),
        _AGAIN,
        {"do": "settle", "payment": "p2"},
        _AGAIN,
        to("expiry", "c2", -1),
        _AGAIN,
        to("expiry", "c2"),
        _AGAIN,
        {"do": "list", "of": "charges", "query": {"limit": 2}},
        {"do": "wallet"},
        advance(WEEK_MS),
        _AGAIN,
        {"do": "verify", "charge": "c3"},
        {"do": "pay_request", "static": "s1"},
    ],
    "restart: an open attempt ends at its own time": [
        receiver(always="timeout"),
        charge("c1"),
        pay("c1"),
        _AGAIN,
        advance(20_000),
        to("retry", "c1"),
        _AGAIN,
        advance(WEEK_MS),
    ],
    "restart: a callback outside the sandbox is blocked": [
        charge("c1", callbackUrl="http://192.0.2.1/hook"),
        static("s1", callbackUrl="http://inbox.localhost.example/hook"),
        invoice("c2"),
        pay("c1"),
        pay("c2"),
        advance(1),
        _AGAIN,
        {"do": "replay", "charge": "c1"},
        advance(WEEK_MS),
    ],
    "restart: a disabled Static Charge expires": [
        static("s1", allowedSlots=1, expiresIn=600),
        invoice("c1"),
        pay("c1"),
        _AGAIN,
        to("expiry", "s1", -1),
        to("expiry", "s1"),
    ],
    "restart: 410, secrets and failures are kept": [
        receiver(answers=[410]),
        static("s1"),
        *(invoice(f"c{n}") for n in (1, 2)),
        pay("c1"),
        {"do": "rotate"},
        _AGAIN,
        pay("c2"),
        charge("c3"),
        fail("c3"),
        _AGAIN,
        advance(WEEK_MS),
    ],
}

_WAYS_TO_OMIT: tuple[dict[str, Any], ...] = (
    {"colour": "blue"}, {"internalId": None}, {"internalId": ""}, {"callbackUrl": None}, {"callbackUrl": ""},
    {"expiresIn": 0}, {"expiresIn": None}, {"expiresIn": ""}, {"expiresIn": 1},
)  # fmt: skip
_NUMBERS = (999, 1000, 1001, 500_000_000, 500_000_001, 1000.5, "1000", True, -1000, 2000.0)


def _refusals() -> Scenarios:
    from leyden.harness.conformance.refusals import refusal_scenarios  # with all of the obligations

    return refusal_scenarios()


def _control() -> Scenarios:
    from leyden.harness.conformance.control import control_scenarios  # with all of the obligations

    return control_scenarios()


# The cases without overlays, in their order.
GROUPS: Mapping[str, Callable[[], Scenarios]] = {
    "requests": request_scenarios,
    "refusals": _refusals,
    "charges": charge_scenarios,
    "static charges": static_scenarios,
    "lists": list_scenarios,
    "callbacks": callback_scenarios,
    "restarts": lambda: _RESTARTS,
    "control plane": _control,
}
# The scenarios that show the effect of each overlay.
_OVERLAY_SCENARIOS: Mapping[str, Scenarios] = {
    "strict": {
        "strict: one way to omit a field": [
            *(charge(f"c{n}", **one) for n, one in enumerate(_WAYS_TO_OMIT)),
            *(static(f"s{n}", **one) for n, one in enumerate(_WAYS_TO_OMIT)),
            *(static(f"t{n}", allowedSlots=value) for n, value in enumerate((0, None, "", 1))),
            *(static(f"u{n}", successMessage=value, identifier="-") for n, value in enumerate((None, "", "x"))),
            *(
                Step({"do": "request", "target": "/v0/charges", "headers": [["apikey", "{key}"]], "raw": body})
                for body in ("{}", "[]", "0", *(dumps({f"x{n}": n for n in range(count)}) for count in (20, 21)))
            ),
            static("s"),
            *(
                change(body, of="s")
                for body in (
                    {"colour": 1},
                    {"allowedSlots": 0},
                    {"allowedSlots": None},
                    {"internalId": ""},
                    {"internalId": None},
                )
            ),
        ]
    },
    "lenient": {
        "lenient: numbers and digit strings": [
            *(charge(f"c{n}", amount=one) for n, one in enumerate(_NUMBERS)),
            *(static(f"s{n}", minAmount=one) for n, one in enumerate(_NUMBERS)),
            *(
                charge(f"d{n}", expiresIn=one)
                for n, one in enumerate(("1", "60", "2592000", "2592001", "060", "-1", "x"))
            ),
            *(static(f"t{n}", allowedSlots=one) for n, one in enumerate(("1", "2147483647", "2147483648", "01", "x"))),
            static("s", allowedSlots="1"),
            change({"allowedSlots": "2", "minAmount": 1500}, of="s"),
            change({"allowedSlots": ""}, of="s"),
        ]
    },
    "payable-at-expiry": {
        f"payable at expiry: {outcome} {offset:+} ms": [
            charge("c1", expiresIn=1),
            pay("c1", delay=500 + offset, outcome=outcome),
            to("expiry", "c1", -1),
            to("expiry", "c1"),
            advance(1_000),
        ]
        for offset in (-1, 0, 1)
        for outcome in ("settle", "hold")
    },
    "no-retries": {
        f"no retries: {reply}": [receiver(always=reply), charge("c1"), pay("c1"), advance(WEEK_MS)]
        for reply in (500, "timeout", 200, {"status": 503, "headers": {"Retry-After": "6"}})
    },
    "callback-envelope": {
        "callback envelope": [
            receiver(answers=[500]),
            charge("c1"),
            charge("c2"),
            charge("c3"),
            static("s1", allowedSlots=1),
            invoice("c4"),
            pay("c1"),
            fail("c2"),
            pay("c4"),
            to("expiry", "c3"),
            advance(WEEK_MS),
        ]
    },
    "reserve-on-issue": {
        "reserve on issue": [
            static("s1", allowedSlots=2),
            *(invoice(f"c{n}") for n in (1, 2, 3)),
            pay("c1"),
            invoice("c4"),
            to("expiry", "c2", -1),
            invoice("c5"),
            to("expiry", "c2"),
            invoice("c6"),
            fail("c6"),
            invoice("c7"),
            pay("c7"),
            invoice("c8"),
        ],
        "reserve on issue: a cancelled invoice reserves nothing": [
            static("s1", allowedSlots=2),
            *(invoice(f"c{n}") for n in (1, 2)),
            change({"allowedSlots": 1}),
            pay("c1"),
            change({"allowedSlots": 2}),
            invoice("c3"),
            pay("c2"),
            pay("c3"),
        ],
    },
    "count-on-settle": {
        "count on settle": [
            static("s1", allowedSlots=1),
            *(invoice(f"c{n}") for n in (1, 2, 3)),
            pay("c1"),
            invoice("c4"),
            pay("c2"),
            change({"description": "sold out"}),
            change({"allowedSlots": 1}),
            change({"allowedSlots": 3}),
            pay("c3"),
            {"do": "pay_request", "static": "s1"},
        ]
    },
}
