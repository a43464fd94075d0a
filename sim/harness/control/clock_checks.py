"""Checks of a live clock: it shows the real time multiplied by its rate, and each event runs at its own instant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.harness.control.filters import CHARGES
from leyden.harness.control.host import Host, violation
from leyden.harness.control.state_checks import do
from leyden.harness.model.dates import instant_of

CLOCK = "/sandbox/v1/clock"
_LAST_MS = 32_503_679_999_000  # the last second of the year 2999
_TOLERANCE_MS = 1  # a part of a millisecond is not shown


class _Expected:
    """The clock as its document describes it: the last instant that a request set, plus the real time since then times
    the rate."""

    def __init__(self, now_ms: int, rate: float) -> None:
        self.now_ms = float(now_ms)
        self.rate = rate

    def passes(self, real_ms: int) -> None:
        """Real time passes."""
        self.now_ms = min(self.now_ms + real_ms * self.rate, _LAST_MS)


def check_clock(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_clock", "steps": [...]}: after each step, a request ("send"), real time that passes ("passes") or
    a restart ("restart", with "how", "delay"? and "options"?), the clock shows the instant that follows from the real
    time and its rate. The events that were due by then, and no others, have run, each at its own instant."""
    shown = host.read(CLOCK)
    expected = _Expected(_ms(shown["now"]), shown["rate"])
    for number, one in enumerate(step["steps"]):
        where = f"after step {number + 1}"
        if one["do"] == "restart":
            host.server.restart(one["how"], stopped_ms=one.get("delay", 0), options=one.get("options", ()))
            host.server.pass_time(0)
            host.forget()
            rate = float(one["options"][1]) if "options" in one else expected.rate
            if rate:  # a clock that is started paused stands where it was left
                expected.passes(one.get("delay", 0))
            expected.rate = rate
        else:
            do(host, one)
            if one["do"] == "passes":
                expected.passes(one["by"])
            elif one["target"] == CLOCK and one.get("status", 200) == 200:
                expected.rate = one["body"]["rate"]
            elif one["target"] == f"{CLOCK}/advance":
                expected.now_ms = min(expected.now_ms + one["body"]["by"] * 1_000, _LAST_MS)
        now_ms = _check(host, expected, where)
        if one["do"] != "passes":  # the clock goes on from whole milliseconds
            expected.now_ms = now_ms


def _check(host: Host, expected: _Expected, where: str) -> int:
    """Compare everything, and return the instant that the clock shows, in ms."""
    shown = host.read(CLOCK)
    now_ms = _ms(shown["now"])
    if shown["rate"] != expected.rate or abs(now_ms - expected.now_ms) > _TOLERANCE_MS:
        raise violation(f"GET {CLOCK} {where}", [round(expected.now_ms), expected.rate], [now_ms, shown["rate"]])
    state = host.read("/sandbox/v1")
    if (state["now"], state["rate"]) != (shown["now"], shown["rate"]):
        raise violation(f"GET /sandbox/v1 {where}", [shown["now"], shown["rate"]], [state["now"], state["rate"]])
    expiries = {row["id"]: row["expiresAt"] for row in host.rows(CHARGES)}
    for row in host.rows(CHARGES):
        status = "expired" if _ms(row["expiresAt"]) <= now_ms else "pending"
        if row["status"] != status:
            raise violation(f"the Charge that expires at {row['expiresAt']}, at {shown['now']}", status, row["status"])
    deliveries = host.rows("listDeliveries")
    notified = {row["chargeId"]: row for row in deliveries}
    for charge_id, at in expiries.items():
        times = (
            [notified[charge_id]["createdAt"], notified[charge_id]["attempts"][0]["dueAt"]]
            if charge_id in notified
            else []
        )
        wanted = [at, at] if _ms(at) <= now_ms else []
        if times != wanted:
            raise violation(f"the callback about the expiry at {at}, at {shown['now']}", wanted, times)
    late = [row for row in host.rows("listDueEvents") if _ms(row["at"]) <= now_ms]
    if late:
        raise violation(f"events that are due after {shown['now']}", "later ones only", late[0])
    if state["pending"] != len(host.rows("listDueEvents")):
        raise violation(f"GET /sandbox/v1: pending {where}", len(host.rows("listDueEvents")), state["pending"])
    return now_ms


def _ms(text: str) -> int:
    found = instant_of(text)
    assert found is not None, text
    return found
