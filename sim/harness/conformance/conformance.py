"""The tour: a fixed walk past every row, every refusal, every outcome of a delivery and both sides of every bound.

It takes a second or two, draws no luck of its own, and so is the smoke test for any implementation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from leyden.harness.conformance.callbacks import (
    WEEK_MS,
    Step,
    advance,
    callback_stories,
    charge,
    invoice,
    pay,
    receiver,
    static,
    to,
)
from leyden.harness.conformance.charges import charge_stories, door_stories, static_stories
from leyden.harness.conformance.lists import list_stories
from leyden.harness.generators.generators import START_MS
from leyden.harness.options import OVERLAYS
from leyden.harness.runs.adapters import Target
from leyden.harness.runs.cases import Case, Played, play


def tour_cases(overlay: str | None = None) -> Iterator[Case]:
    """The stories of the tour: without overlays, or those that tell an overlay's reading from the others."""
    if overlay is None:
        plain = (door_stories, charge_stories, static_stories, list_stories, callback_stories)
        for stories in plain:
            for name, steps in stories():
                yield _case(name, steps)
        for name, steps in _restarts():
            yield _case(name, steps, disk=True)
        return
    for name, steps in _OF_OVERLAY[overlay]():
        yield _case(name, steps, overlays=(overlay,))


def _case(name: str, steps: list[Step], **more: Any) -> Case:
    # In the middle of a second, because createdAt is not.
    return Case(tuple(steps), seed=1, start_ms=START_MS + 500, name=f"tour: {name}", **more)


def tour(target: Target, overlays: Sequence[str] | None = None, *, seed: int = 1) -> Iterator[Played]:
    """Play the stories one after another, each in a world of its own; the first finding of each ends that story. The
    seed is the worlds': which ids they give, which pauses they draw.

    `overlays` None is the whole tour: the plain reading, then each overlay by itself. Otherwise the stories of these
    overlays are played under all of them; under none, the plain ones.
    """
    if overlays is None:
        cases = [case for overlay in (None, *OVERLAYS) for case in tour_cases(overlay)]
    else:
        told = [case for overlay in overlays or (None,) for case in tour_cases(overlay)]
        cases = [replace(case, overlays=tuple(overlays)) for case in told]
    for case in cases:
        if target.restarts or not case.disk:
            yield play(replace(case, seed=seed), target)


Stories = Iterator[tuple[str, list[Step]]]


def _restarts() -> Stories:
    again = {"do": "restart"}
    page = {"do": "list", "query": {"limit": 1}, "between": again}
    yield (
        "restart: a cursor leads on",
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
        "restart: everything goes on",
        [
            receiver(answers=[500, "timeout", "timeout", 500]),
            {**charge("c1"), "once": "k1"},
            charge("c2"),
            static("s1", allowedSlots=2, expiresIn=600),
            invoice("s1", "c3"),
            invoice("s1", "c4"),
            pay("p1", "c1"),
            again,
            {**charge("c1"), "once": "k1"},
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
        "restart: an attempt that was lost costs none",
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
        "restart: a used-up link still ends",
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
        "restart: what was said stays said",
        [
            receiver(answers=[410]),
            static("s1"),
            *(invoice("s1", f"c{n}") for n in (1, 2)),
            pay("p1", "c1"),
            {"do": "rotate"},
            again,
            pay("p2", "c2"),
            charge("c3"),
            {"do": "fail", "charge": "c3"},
            again,
            advance(WEEK_MS),
        ],
    )


def _strict() -> Stories:
    wrong: list[dict[str, Any]] = [{"colour": "blue"}, {"internalId": None}, {"internalId": ""}, {"callbackUrl": None}]
    wrong += [{"callbackUrl": ""}, {"expiresIn": 0}, {"expiresIn": None}, {"expiresIn": ""}, {"expiresIn": 1}]
    yield (
        "strict: one way not to give a field",
        [
            *(charge(f"c{n}", **one) for n, one in enumerate(wrong)),
            *(static(f"s{n}", **one) for n, one in enumerate(wrong)),
            *(static(f"t{n}", allowedSlots=value) for n, value in enumerate((0, None, "", 1))),
            *(static(f"u{n}", successMessage=value, identifier="-") for n, value in enumerate((None, "", "x"))),
            static("s"),
            *(
                {"do": "patch", "static": "s", "body": body}
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


def _lenient() -> Stories:
    amounts: list[Any] = [999, 1000, 1001, 500_000_000, 500_000_001, 1000.5, "1000", True, -1000, 2000.0]
    yield (
        "lenient: numbers and digits",
        [
            *(charge(f"c{n}", amount=one) for n, one in enumerate(amounts)),
            *(static(f"s{n}", minAmount=one) for n, one in enumerate(amounts)),
            *(
                charge(f"d{n}", expiresIn=one)
                for n, one in enumerate(("1", "60", "2592000", "2592001", "060", "-1", "x"))
            ),
            *(static(f"t{n}", allowedSlots=one) for n, one in enumerate(("1", "2147483647", "2147483648", "01", "x"))),
            static("s", allowedSlots="1"),
            {"do": "patch", "static": "s", "body": {"allowedSlots": "2", "minAmount": 1500}},
            {"do": "patch", "static": "s", "body": {"allowedSlots": ""}},
        ],
    )


def _payable_at_expiry() -> Stories:
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


def _no_retries() -> Stories:
    for said in (500, "timeout", 200, {"status": 503, "headers": {"Retry-After": "6"}}):
        yield f"no retries: {said}", [receiver(always=said), charge("c1"), pay("p1", "c1"), advance(WEEK_MS)]


def _envelope() -> Stories:
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
            {"do": "fail", "charge": "c2"},
            pay("p4", "c4"),
            to("expiry", "c3"),
            advance(WEEK_MS),
        ],
    )


def _reserve() -> Stories:
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
            {"do": "fail", "charge": "c6"},
            invoice("s1", "c7"),
            pay("p7", "c7"),
            invoice("s1", "c8"),
        ],
    )
    yield (
        "reserve on issue: what was closed reserves nothing",
        [
            static("s1", allowedSlots=2),
            *(invoice("s1", f"c{n}") for n in (1, 2)),
            {"do": "patch", "static": "s1", "body": {"allowedSlots": 1}},
            pay("p1", "c1"),
            {"do": "patch", "static": "s1", "body": {"allowedSlots": 2}},
            invoice("s1", "c3"),
            pay("p2", "c2"),
            pay("p3", "c3"),
        ],
    )


def _oversell() -> Stories:
    yield (
        "count on settle",
        [
            static("s1", allowedSlots=1),
            *(invoice("s1", f"c{n}") for n in (1, 2, 3)),
            pay("p1", "c1"),
            invoice("s1", "c4"),
            pay("p2", "c2"),
            {"do": "patch", "static": "s1", "body": {"description": "sold out"}},
            {"do": "patch", "static": "s1", "body": {"allowedSlots": 1}},
            {"do": "patch", "static": "s1", "body": {"allowedSlots": 3}},
            pay("p3", "c3"),
            {"do": "terms", "static": "s1"},
        ],
    )


_OF_OVERLAY = {
    "strict": _strict,
    "lenient": _lenient,
    "payable-at-expiry": _payable_at_expiry,
    "no-retries": _no_retries,
    "callback-envelope": _envelope,
    "reserve-on-issue": _reserve,
    "count-on-settle": _oversell,
}
