"""Obligations of the live clock: its rates, pauses, advances and restarts, with events that become due meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from leyden.harness.control.clock_checks import CLOCK
from leyden.harness.control.documents import control_document, resolved
from leyden.harness.obligations.control.setups import PAUSED, charge, host, send
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step

_HOOK = "http://shop.localhost/hook"
_SPANS_MS = (1, 999, 1, 60_000, 3_600_000)
_STARTED = (0, 1, 60, 0.25)  # rates before and after a start
_EXPIRIES_S = (1, 2, 60, 61, 3_600, 86_400, 2_592_000)


def _rate(value: Any, **more: Any) -> Step:
    return send("PATCH", CLOCK, {"rate": value}, **more)


def _passes(*spans_ms: int) -> list[Step]:
    return [{"do": "passes", "by": span_ms} for span_ms in spans_ms]


def _advance(by_s: float) -> Step:
    return send("POST", f"{CLOCK}/advance", {"by": by_s})


def clock_obligations() -> Iterator[Obligation]:
    """Each rate at its bounds and between them, changes of the rate, advances of a clock that runs, and restarts."""
    schema = resolved(control_document(), {"$ref": "#/components/schemas/ClockRate"})["properties"]["rate"]
    most = schema["maximum"]
    for rate in (0, 0.001, 0.5, 1, 3, 60, 1_000.5, most - 1, most):
        yield _clock_obligation(f"rate {rate:g}", [_rate(rate), *_passes(*_SPANS_MS)])
        steps = [*_passes(5_000), _rate(rate), *_passes(2_000), _rate(0), *_passes(2_000), _rate(1), *_passes(1_500)]
        yield _clock_obligation(f"rate {rate:g}, paused, then 1", steps)
        steps = [_rate(rate), *_passes(500), _advance(30), *_passes(700), _advance(0.001), *_passes(1_000)]
        yield _clock_obligation(f"rate {rate:g}, advances", steps)
        for how, delay in (("close", 45_000), ("kill", 1), ("compact", 0)):
            again: list[Any] = [{"do": "restart", "how": how, "delay": delay}]
            steps = [_rate(rate), *_passes(250), *again, *_passes(1_750), _rate(2), *again, *_passes(100), *again]
            yield _clock_obligation(f"rate {rate:g}, {how} for {delay} ms", steps, disk=True)
    for number, (first, second) in enumerate(product(_STARTED, repeat=2)):
        killed = (("kill", 0), (("compact", "torn")[number % 2], 45_000))
        # After a kill a paused clock stands where the last change was, which may be before what it showed.
        for how, delay in (("close", 3_000), *(killed if second else (("compact", 45_000),))):
            other: list[Any] = [{"do": "restart", "how": how, "delay": delay, "options": ["--rate", f"{second}"]}]
            steps = [_rate(first), *_passes(1_500), *other, *_passes(1_500)]
            case = f"rate {first}, restarted with {second} after {delay} ms, {how}"
            yield _clock_obligation(case, steps, disk=True, kind="rate-at-start", setup="rates-changed")
    refused: tuple[Any, ...] = (-1, -0.001, most + 1, "1", None, True, [], "x")
    for value in refused:
        yield _clock_obligation(f"refused {value}", [_rate(7), _rate(value, status=400), *_passes(1_000)])
    yield _clock_obligation("the end of time", [_rate(most), *_passes(10**12, 1_000)])
    yield _clock_obligation("started live", _passes(*_SPANS_MS), "--rate", "4")


def _clock_obligation(
    case: str,
    steps: Sequence[Any],
    *options: str,
    disk: bool = False,
    kind: str = "live-clock",
    setup: str = "control-clock-changed",
) -> Obligation:
    rows = [charge(1, f"e{seconds}", expiresIn=seconds, callbackUrl=_HOOK) for seconds in _EXPIRIES_S]
    started: Any = host(tuple(rows), disk=disk)
    if options:
        started["options"] = [*PAUSED[2:], *options]
    step: Any = {"do": "control_clock", "steps": [*steps]}
    source = "sandbox.openapi.yaml#/paths/~1sandbox~1v1~1clock/patch"
    return Obligation("setClock", kind, case, source, (started, step), setup=setup)
