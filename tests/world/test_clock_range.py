"""The clock has times from 1971 to the end of 2999, whichever way it is started."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from leyden import Sandbox
from leyden.__main__ import main
from leyden.world.time.clock import LAST_MS, VirtualClock
from leyden.world.time.process_clock import FIRST_MS, MAX_RATE

OUTSIDE: list[Any] = [
    "1970-12-31T23:59:59.999Z", "1970-06-01T00:00Z", "3000-01-01T00:00Z", "3500-01-01T00:00Z",
    datetime(3001, 1, 1, tzinfo=UTC), FIRST_MS - 1, LAST_MS + 1, 0, -1,
]  # fmt: skip


@pytest.mark.parametrize("start", OUTSIDE)
def test_no_clock_starts_outside_its_range(start: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="from 1971 to the end of 2999"):
        Sandbox(start=start)
    if isinstance(start, str):
        with pytest.raises(SystemExit) as ended:
            main(["serve", "--port", "0", "--start", start])
        assert ended.value.code == 2
        assert "--start" in (error := capsys.readouterr().err)
        assert "from 1971 to the end of 2999" in error


@pytest.mark.parametrize("start", [FIRST_MS, LAST_MS])
def test_the_bounds_themselves_are_times_of_the_clock(start: int) -> None:
    with Sandbox(start=start) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
        sandbox.wallet("ana").pay(charge)
        sandbox.run("1s")
        assert charge.status == "completed"


def test_a_live_clock_stops_at_the_end_of_time() -> None:
    real_ms = 0
    clock = VirtualClock(LAST_MS - 10, rate=MAX_RATE, real_clock=lambda: real_ms)
    for real_ms in (0, 1, 10**15, 0, 10**15):
        clock.catch_up()
        assert clock.now() == (LAST_MS if real_ms or clock.last_seen == LAST_MS else LAST_MS - 10)


def test_a_start_in_seconds_is_refused_with_the_mend() -> None:
    with pytest.raises(ValueError, match="give milliseconds, 1893456000000"):
        Sandbox(start=1_893_456_000)
    with Sandbox(start=1_893_456_000_000) as sandbox:
        assert sandbox.now == "2030-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("start", "begins"),
    [
        ("3000-01-01T00:00:00Z", None),
        ("1970-12-31T23:59:59Z", None),
        ("2999-12-31T23:59:59.999Z", "2999-12-31T23:59:59.000Z"),
        ("2999-12-31T23:59:59-14:00", "2999-12-31T23:59:59.000Z"),
        ("1971-01-01T00:00:00+14:00", "1971-01-01T00:00:00.000Z"),
    ],
)
def test_a_reset_starts_within_the_range(start: str, begins: str | None) -> None:
    with Sandbox() as sandbox:
        answer = sandbox.http.post("/sandbox/v1/reset", json={"start": start})
        assert answer.status_code == (400 if begins is None else 200), answer.text
        assert begins is None or answer.json()["start"] == begins


@pytest.mark.parametrize("span", ["999999999w", "2932897d", "999999999w999999999w", 31_536_000_000])
def test_an_advance_by_a_span_beyond_the_end_of_time_stops_there(span: str | float) -> None:
    with Sandbox(seed=1) as sandbox:
        sandbox.ask("POST", "/sandbox/v1/clock/advance", {"by": span})
        assert sandbox.ask("GET", "/sandbox/v1/clock")["now"] == "2999-12-31T23:59:59.000Z"
