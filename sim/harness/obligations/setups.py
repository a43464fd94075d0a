"""Setups: the steps before an obligation. The steps of an obligation may change the state freely; the model follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.harness.obligations.control.setups import CONTROL_SETUPS
from leyden.harness.steps import Step

BY_SECOND = "second"


def _charge(label: str, **body: object) -> Step:
    return {"do": "create_charge", "as": label, "body": {"amount": "1000", "description": "tea", **body}}


def _static(label: str, **body: object) -> Step:
    fields = {"minAmount": "1000", "maxAmount": "500000000", "description": "tips", **body}
    return {"do": "create_static", "as": label, "body": fields}


def _invoice(label: str, static: str = "s1") -> Step:
    return {"do": "invoice", "static": static, "as": label, "amount": "2000"}


_LATER: Step = {"do": "advance", "by": 700}


def _spread(steps: list[Step]) -> list[Step]:
    """The steps with time between them, so that no two rows have the same time."""
    return [each for step in steps for each in (step, _LATER)]


# Every state of every resource, rows of the second project, and texts that are easy to confuse.
ROWS: tuple[Step, ...] = (
    *_spread(
        [
            _charge("c3", expiresIn=1, internalId="a"),
            _static("s3", expiresIn=1, internalId="A"),
            _charge("c1", internalId="a"),
            _static("s1", internalId="a", identifier="ana@shop.example"),
            _charge("c2", internalId="A"),
            _static("s2", internalId="a", allowedSlots=1),
            _charge("c4", internalId=" a"),
            {**_charge("c21", internalId="a"), "by": BY_SECOND},
            {**_static("s21", internalId="a", identifier="ben@shop.example"), "by": BY_SECOND},
            _charge("c5", internalId="a b"),
        ]
    ),
    {"do": "pay", "as": "p2", "charge": "c2"},
    {"do": "fail", "charge": "c4"},
    *_spread([_invoice("c12", "s2"), _invoice("c11"), _invoice("c14")]),
    {"do": "pay", "as": "p12", "charge": "c12"},
    {"do": "pay", "as": "p14", "charge": "c14"},
    {"do": "patch", "static": "s1", "body": {"internalId": "b"}},
    _invoice("c13"),
    {"do": "patch", "static": "s1", "body": {"internalId": "a"}},
    {"do": "advance", "by": 3_000},
)
# Lists of many rows of which few match: at both ends, about the middle, and others of the second project before them.


def _rare(number: int) -> list[Step]:
    """Rows that filters look for, and one instant that many rows share."""
    return [
        {"do": "advance", "by": 1_000},
        _charge(f"x{number}", internalId="rare"),
        _charge(f"y{number}", internalId="rare", expiresIn=3_000 + number),
        _charge(f"z{number}"),
        _static(f"t{number}", internalId="rare"),
        _static(f"u{number}", allowedSlots=1),
        {"do": "patch", "static": "t", "body": {"internalId": "rare"}},
        _invoice(f"i{number}", "t"),
        _invoice(f"j{number}", "t"),
        {"do": "patch", "static": "t", "body": {"internalId": None}},
        _invoice(f"k{number}", f"u{number}"),
        {"do": "pay", "as": f"p{number}", "charge": f"x{number}"},
        {"do": "fail", "charge": f"z{number}"},
        {"do": "pay", "as": f"q{number}", "charge": f"i{number}"},
        {"do": "fail", "charge": f"j{number}"},
        {"do": "pay", "as": f"r{number}", "charge": f"k{number}"},
        {"do": "advance", "by": 1_000},
    ]


def _fill(of: str, count: int, label: str, **more: object) -> Step:
    step: Any = {"do": "fill", "of": of, "count": count, "as": label, **more}
    found: Step = step
    return found


LONG: tuple[Step, ...] = (
    _static("t"),
    *_rare(0),
    _fill("children", 110, "a0", static="t"),
    *_rare(1),
    _fill("charges", 250, "a1", body={"expiresIn": 2_592_000}),
    _fill("statics", 290, "a2"),
    *_rare(2),
    _fill("children", 290, "a3", static="t"),
    _fill("charges", 20, "a4", body={"expiresIn": 2_592_000}),
    _fill("statics", 260, "a5"),
    *_rare(3),
    _fill("charges", 280, "a6", by=BY_SECOND),
    _fill("statics", 280, "a7", by=BY_SECOND),
)
# Lists of which a filter that is too common for an index finds only the oldest rows: of one Static Charge, and of
# Static Charges.
PORTIONS: Mapping[str, tuple[Step, ...]] = {
    "portions": (
        _static("t", internalId="early"),
        _fill("children", 130, "b0", static="t"),
        {"do": "patch", "static": "t", "body": {"internalId": None}},
        {"do": "advance", "by": 301_000},
        _fill("children", 260, "b1", static="t"),
    ),
    "portions-links": (
        _fill("statics", 130, "b2", body={"internalId": "early", "expiresIn": 1}),
        {"do": "advance", "by": 2_000},
        _fill("statics", 260, "b3"),
    ),
}
_TEXTS = ("a", "a+b", "a%2Fb", "a&b=c", "caf\u00e9", "cafe\u0301", "", "a\u2028b", "007", "b", "a")
SETUPS: Mapping[str, tuple[Step, ...]] = {
    "empty": (),
    "rows": ROWS,
    "lists": (
        *ROWS,
        *_spread([_charge(f"d{n}", internalId=text) for n, text in enumerate(_TEXTS)]),
        *_spread([_static(f"t{n}", internalId=text) for n, text in enumerate(_TEXTS)]),
        _invoice("c15"),
        {"do": "fail", "charge": "c15"},
    ),
}
# The lists of a service that was started again: of each list, the rows are those of the setup `lists`.
_AGAIN: Step = {"do": "restart", "how": "compact"}
RESTARTED = {"restarted-lists": (*SETUPS["lists"], _AGAIN)}
# The steps of one case that come after those of a setup. A setup that is not here has one obligation for each case.
SHARED: Mapping[str, int] = {"rows": 60, "lists": 150, "empty": 25, "restarted-lists": 150, "long": 120,
                              "disk": 20, **dict.fromkeys(PORTIONS, 120),
                              **dict.fromkeys(CONTROL_SETUPS, 300), "control-rows": 110, "control-few-rows": 30,
                              "control-fields": 100,
                              "control-deliveries": 6, "control-network": 60}  # fmt: skip


def setup_of(name: str) -> tuple[Step, ...]:
    """The steps of a setup; `NAME-changed` is a setup for one obligation alone."""
    if name in CONTROL_SETUPS:
        return (CONTROL_SETUPS[name](),)
    return {**SETUPS, **RESTARTED, **PORTIONS, "long": LONG}.get(name.partition("-changed")[0], ())


def start_of(name: str) -> int | None:
    """The time at which a setup `at TIME` starts, in ms; None for another setup."""
    return int(name.removeprefix("at ")) if name.startswith("at ") else None
