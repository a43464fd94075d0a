"""Actions at instants: when they happen, what ends a run, and what forks and scripts have of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ApiError, ClockError
from leyden.server.timestamps import to_iso

Move = Callable[[Sandbox], object]


def seen(into: list[str]) -> Callable[[Sandbox], None]:
    return lambda sandbox: into.append(sandbox.now[11:19])


def charge(sandbox: Sandbox, minutes: int) -> Any:
    """A Charge that expires after so many minutes."""
    return sandbox.charges.create(amount="1000", description="tea", expiresIn=minutes * 60)


@pytest.mark.parametrize(
    "move",
    [
        lambda sb: sb.advance("4h"),
        lambda sb: sb.run("4h"),
        lambda sb: sb.advance_to("2030-01-01T12:00:00Z", "1h"),
        lambda sb: [sb.advance("30m") for _ in range(8)],
    ],
)
def test_an_action_happens_at_its_instant_and_once(sandbox: Sandbox, move: Move) -> None:
    """The sandbox begins at 9:00."""
    times: list[str] = []
    sandbox.at("12:00", seen(times))
    sandbox.at("08:59:59", seen(times))
    sandbox.at(datetime(2030, 1, 1, 10, tzinfo=UTC), seen(times))
    move(sandbox)
    assert (times, sandbox.now) == (["10:00:00", "12:00:00"], "2030-01-01T13:00:00.000Z")
    sandbox.advance("1d")
    assert times == ["10:00:00", "12:00:00", "08:59:59"]
    assert sandbox.scheduled == []


def test_what_is_due_at_the_instant_comes_before_the_action(sandbox: Sandbox) -> None:
    one = charge(sandbox, 60)
    states: list[str] = []
    sandbox.at("10:00", lambda sb: states.append(sb.charges[one.id].status))
    fired = sandbox.advance("2h")
    assert states == ["expired"]
    assert [each.kind for each in fired] == ["charge_expiry"]


def test_actions_of_one_instant_happen_in_the_order_in_which_they_were_scheduled(sandbox: Sandbox) -> None:
    order: list[int] = []
    for number in range(5):
        sandbox.at("12:00", lambda sb, number=number: order.append(number))
    sandbox.run("1d")
    assert order == [0, 1, 2, 3, 4]


def test_a_repeated_action_happens_in_every_period(sandbox: Sandbox) -> None:
    times: list[str] = []
    daily = sandbox.every("1d", seen(times), start="12:00")
    hourly = sandbox.every("1h", seen(times))
    sandbox.advance("4h")
    assert times == ["10:00:00", "11:00:00", "12:00:00", "12:00:00", "13:00:00"]
    assert sandbox.cancel(hourly)
    assert not sandbox.cancel(hourly)
    sandbox.advance("2d")
    assert times[5:] == ["12:00:00"] * 2
    assert repr(sandbox.scheduled) == "[<Scheduled <lambda> at 2030-01-04T12:00:00.000Z, and again every 86400 s>]"
    assert sandbox.scheduled[0].number == daily.number


def test_a_run_until_idle_does_every_single_action_and_ends_before_those_that_are_repeated(sandbox: Sandbox) -> None:
    times: list[str] = []
    sandbox.every("10m", seen(times))
    sandbox.run()
    assert (times, sandbox.now) == ([], "2030-01-01T09:00:00.000Z")
    charge(sandbox, 25)
    sandbox.run()
    assert (times, sandbox.now[11:19]) == (["09:10:00", "09:20:00"], "09:25:00")
    sandbox.at("09:45", lambda sb: charge(sb, 2))
    sandbox.run()
    assert (times[2:], sandbox.now[11:19]) == (["09:30:00", "09:40:00"], "09:47:00")


def test_an_action_is_a_step_and_no_event(sandbox: Sandbox) -> None:
    times: list[str] = []
    charge(sandbox, 60)
    charge(sandbox, 120)
    sandbox.at("10:30", seen(times))
    assert len(sandbox.run("next_event")) == 1
    assert sandbox.run("next_event") == []
    assert (times, sandbox.now[11:19]) == (["10:30:00"], "10:30:00")
    sandbox.at("10:45", seen(times))
    assert len(sandbox.run(events=5)) == 1
    assert times[1:] == ["10:45:00"]
    sandbox.at("23:00", seen(times))
    assert sandbox.step() is None
    assert len(sandbox.scheduled) == 1


def test_an_action_may_schedule_others_but_not_move_time(sandbox: Sandbox) -> None:
    times: list[str] = []

    def first(sb: Sandbox) -> None:
        sb.at("11:00", seen(times))
        sb.at(sb.now, seen(times))
        sb.advance("1s")

    sandbox.at("10:00", first)
    with pytest.raises(ClockError, match=r"<Scheduled first at 2030-01-01T10:00:00.000Z> cannot move time"):
        sandbox.advance("3h")
    assert (times, sandbox.now[11:19]) == ([], "10:00:00")
    sandbox.advance("3h")
    assert times == ["10:00:00", "11:00:00"]


def test_an_action_that_raises_is_done_and_its_error_is_the_caller_s(sandbox: Sandbox) -> None:
    sandbox.every("1h", lambda sb: sb.charges["no such id"])
    with pytest.raises(ApiError, match="404"):
        sandbox.advance("3h")
    assert sandbox.now[11:19] == "10:00:00"
    assert repr(sandbox.scheduled[0]).startswith("<Scheduled <lambda> at 2030-01-01T11:00:00.000Z")


def test_a_fork_does_the_actions_to_itself(sandbox: Sandbox) -> None:
    sandbox.at("12:00", lambda sb: charge(sb, 1))
    fork = sandbox.fork()
    sandbox.cancel(sandbox.scheduled[0])
    with fork:
        fork.advance("4h")
        assert (len(fork.charges), len(sandbox.charges)) == (1, 0)
        assert sandbox.now[11:19] == "09:00:00"


def test_the_script_has_what_was_done() -> None:
    with Sandbox(seed=5, start="2030-01-01T09:00:00Z", network="star:6") as sandbox:
        sandbox.at("12:00", lambda sb: sb.network.close_channel(3))
        sandbox.every("1h", lambda sb: sb.wallet("ana").pay(charge(sb, 30)))
        sandbox.run("6h")
        script, hashed = sandbox.script(), sandbox.world.journal.hash
        assert sandbox.network["n4"].channels[0]["closed"] or "close_channel(3)" in script
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["sb"].world.journal.hash == hashed


def test_moves_without_actions_are_recorded_as_before(sandbox: Sandbox) -> None:
    scheduled = sandbox.at("12:00", lambda sb: None)
    sandbox.cancel(scheduled)
    sandbox.advance("1h")
    sandbox.run()
    assert sandbox.script().splitlines()[-2:] == ['sb.advance("1h")', "sb.run()"]


def test_time_that_is_moved_by_requests_does_the_action_late(sandbox: Sandbox) -> None:
    times: list[str] = []
    sandbox.every("1h", seen(times))
    sandbox.ask("POST", "/sandbox/v1/clock/advance", {"by": "150m"})
    assert times == []
    sandbox.advance("1m")
    assert times == ["11:30:00"]
    sandbox.advance("1h")
    assert times == ["11:30:00", "12:00:00"]


@pytest.mark.parametrize(
    ("call", "error", "why"),
    [
        (lambda sb: sb.at("25:00", print), ValueError, 'or a time of the day, such as "12:00"'),
        (lambda sb: sb.at("2029-01-01T00:00:00Z", print), ValueError, "2029-01-01T00:00:00.000Z has passed"),
        (lambda sb: sb.at("12:00", "network.close_channel"), TypeError, "is no action: give a function of the sandbox"),
        (lambda sb: sb.at(None, print), TypeError, "None is not an instant"),
        (lambda sb: sb.every("0s", print), ValueError, "period"),
        (lambda sb: sb.every("often", print), ValueError, "'often' is not a duration"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(sandbox: Sandbox, call: Move, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        call(sandbox)
    assert sandbox.scheduled == []


def test_a_sandbox_that_follows_the_real_time_has_no_actions() -> None:
    with Sandbox(clock="process") as sandbox, pytest.raises(ClockError, match="stops for no action"):
        sandbox.at("12:00", print)


def test_a_restore_has_the_actions_ahead_that_were_ahead_at_the_snapshot(sandbox: Sandbox) -> None:
    done: list[str] = []

    def note(name: str) -> Callable[[Sandbox], None]:
        return lambda sb: done.append(f"{name} {sb.now[11:16]}")

    def chain(sb: Sandbox) -> None:
        note("chain")(sb)
        sb.at(to_iso(sb.world.clock.now() + 3_600_000), chain)

    start = sandbox.now
    sandbox.at("09:30", note("before"))
    sandbox.every("1h", note("hourly"))
    sandbox.at("11:30", note("once"))
    cancelled = sandbox.at("11:45", note("cancelled"))
    sandbox.at("09:45", chain)
    sandbox.advance("1h")
    kept = sandbox.snapshot()
    first = sandbox.scheduled
    runs = []
    for _ in range(3):
        done.clear()
        sandbox.advance("2h30m")
        runs.append([*done])
        sandbox.restore(kept)
        assert sandbox.scheduled == first
    assert runs[0] == [
        "chain 10:45", "hourly 11:00", "once 11:30", "cancelled 11:45", "chain 11:45", "hourly 12:00",
    ]  # fmt: skip
    assert runs[1:] == [runs[0]] * 2
    sandbox.cancel(cancelled)
    sandbox.advance("2h30m")
    sandbox.restore(kept)
    assert [one for one in first if one not in sandbox.scheduled] == [cancelled]
    assert start < sandbox.now


def test_an_action_that_restores_is_done_once(sandbox: Sandbox) -> None:
    kept = sandbox.snapshot()
    times: list[str] = []

    def back(sb: Sandbox) -> None:
        times.append(sb.now)
        sb.restore(kept)

    for schedule in (lambda: sandbox.at("10:00", back), lambda: sandbox.every("1h", back)):
        times.clear()
        row = schedule()
        sandbox.advance_to("2030-01-01T10:30:00Z")
        assert len(times) == 1
        sandbox.cancel(row)
        sandbox.restore(kept)


@pytest.mark.parametrize("way", ["method", "requests", "served"])
def test_each_restore_has_the_actions_of_its_snapshot(sandbox: Sandbox, way: str) -> None:
    done: list[str] = []
    sandbox.at("09:01", lambda sb: done.append(f"once {sb.now[11:16]}"))
    sandbox.every("1m", lambda sb: done.append(f"again {sb.now[11:16]}"))
    if way == "served":
        sandbox.serve()

    def take() -> Any:
        return sandbox.snapshot() if way == "method" else sandbox.ask("POST", "/sandbox/v1/snapshots", {})["id"]

    def back(to: Any) -> None:
        if way == "method":
            sandbox.restore(to)
        else:
            sandbox.ask("POST", "/sandbox/v1/restore", {"snapshot": to})

    start = take()
    sandbox.advance("3m")
    middle, first = take(), [*done]
    assert first == ["once 09:01", "again 09:01", "again 09:02", "again 09:03"]
    for places in ((middle,), (start, middle), (middle, start, middle)):
        for place in places:
            back(place)
        done.clear()
        sandbox.advance("2m")
        assert done == ["again 09:04", "again 09:05"]
    back(start)
    done.clear()
    sandbox.advance("3m")
    assert done == first


def test_an_action_that_time_over_http_passed_many_times_is_done_once(sandbox: Sandbox) -> None:
    times: list[str] = []
    sandbox.every("1m", lambda sb: times.append(sb.now[11:19]))
    sandbox.ask("POST", "/sandbox/v1/clock/advance", {"by": "3m30s"})
    sandbox.advance("1m")
    assert times == ["09:03:30", "09:04:00"]


def test_a_restore_to_the_state_of_another_sandbox_has_the_actions_ahead(sandbox: Sandbox) -> None:
    with Sandbox(seed=3, start="2030-01-01T10:10:00Z") as other:
        state = other.snapshot()
    times: list[str] = []
    sandbox.at("10:00", lambda sb: times.append("passed"))
    sandbox.at("10:20", lambda sb: times.append(f"once {sb.now[11:16]}"))
    sandbox.every("1h", lambda sb: times.append(f"again {sb.now[11:16]}"))
    sandbox.restore(state)
    sandbox.advance("1h")
    assert times == ["once 10:20", "again 11:00"]


def test_actions_are_among_what_is_next(sandbox: Sandbox) -> None:
    def drain(sb: Sandbox) -> None: ...

    sandbox.at("12:00", drain)
    sandbox.every("10m", lambda sb: None)
    assert repr(sandbox).endswith(
        "next: 2030-01-01T09:10:00.000Z action <lambda>; 2030-01-01T12:00:00.000Z action drain"
    )
    assert "action drain" in sandbox._repr_html_()
    charge(sandbox, 180)
    drawn = sandbox.schedule().text.splitlines()
    assert drawn[0] == "3 scheduled events"
    assert [line.split()[2:] for line in drawn if line[:2].isdigit()][1:] == [
        ["action:", "<lambda>", "and", "again", "every", "600", "s"],
        ["Charge", "expires", "1", "sat", "·", "“tea”"],
    ]
    assert "action: drain" in drawn[-1]
    for _ in range(30):
        sandbox.at("12:00", drain)
    assert sandbox.schedule().text.startswith("33 scheduled events")
    assert "13 later events are left out" in sandbox.schedule().text
    assert "12:00:00.000Z action drain" in repr(sandbox.fork())
