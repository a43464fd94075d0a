"""The virtual clock is paused until it is moved, and runs each event at its due time."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leyden.errors import ClockError
from leyden.server.ports import CALLBACK, EXPIRY, SETTLEMENT, USER
from leyden.world.time.clock import LAST_MS, VirtualClock
from leyden.world.time.timers import Fired, Timer, Timers
from tests.support.examples import examples

START = 1_893_488_400_000  # 2030-01-01T09:00:00Z

timers = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from([SETTLEMENT, EXPIRY, CALLBACK, USER]), st.sampled_from("abcdefgh")),
    max_size=20,
)


class ManualRealClock:
    """A real clock that the test sets, also backwards."""

    def __init__(self) -> None:
        self.ms = 5_000_000

    def __call__(self) -> int:
        return self.ms


def record_events(clock: VirtualClock, *kinds: str) -> list[tuple[int, str, str]]:
    """Register handlers that append (now, kind, key) to the returned list."""
    events: list[tuple[int, str, str]] = []
    for kind in kinds:
        clock.on(kind, lambda key, kind=kind: events.append((clock.now(), kind, key)))
    return events


def clock_with(schedule: list[tuple[int, int, str]], **options) -> tuple[VirtualClock, list[tuple[int, str, str]]]:
    clock = VirtualClock(START, **options)
    events = record_events(clock, "bell")
    for after, priority, key in schedule:
        clock.call_at(START + after, priority, "bell", key)
    return clock, events


# Order


@given(timers)
def test_events_run_by_due_time_then_priority_then_arrival(schedule):
    clock, events = clock_with(schedule)
    last = {key: (after, priority, arrival) for arrival, (after, priority, key) in enumerate(schedule)}
    expected = [
        (START + after, "bell", key) for (after, _, _), key in sorted((position, key) for key, position in last.items())
    ]
    assert [(t.due_ms, t.kind, t.key) for t in clock.upcoming(100)] == expected
    fired = clock.advance(50)
    assert events == expected
    assert fired == [Fired(*event) for event in expected]
    assert clock.now() == START + 50
    assert len(clock) == 0


@given(timers, st.integers(0, 60), st.integers(0, 60))
def test_two_advances_equal_one(schedule, first, second):
    whole, events_whole = clock_with(schedule)
    split, events_split = clock_with(schedule)
    assert split.advance(first) + split.advance(second) == whole.advance(first + second)
    assert events_split == events_whole
    assert split.snapshot() == whole.snapshot()


@given(timers)
def test_step_run_and_advance_give_the_same_events(schedule):
    stepped, _ = clock_with(schedule)
    fired = []
    while event := stepped.run_events(1):
        fired += event
    idle, _ = clock_with(schedule)
    sliced, _ = clock_with(schedule)
    instants, _ = clock_with(schedule)
    assert idle.run_until_idle() == fired
    by_slice = []
    while not sliced.run_slice(START + 50, lambda: len(by_slice) % 3 == 0, by_slice.append):
        assert len(by_slice) % 3 == 0
    assert by_slice == fired
    assert sliced.now() == (fired[-1].at_ms if fired else START)
    by_instant = []
    while (swept := instants.run_until_next_event()) != []:
        assert {event.at_ms for event in swept} == {instants.now()}
        by_instant += swept
    assert by_instant == fired
    assert idle.now() == stepped.now() == (fired[-1].at_ms if fired else START)


def test_an_event_scheduled_for_the_current_time_runs_in_the_same_sweep():
    clock = VirtualClock(START)
    events: list[str] = []

    def expire(key: str) -> None:
        events.append(f"expire {key}")
        clock.call_at(clock.now(), CALLBACK, "post", key)
        clock.call_at(clock.now() - 10, SETTLEMENT, "pay", key)  # a time in the past means now

    clock.on("expire", expire)
    clock.on("post", lambda key: events.append(f"post {key}"))
    clock.on("pay", lambda key: events.append(f"pay {key} at {clock.now() - START}"))
    clock.call_at(START + 5, EXPIRY, "expire", "a")
    clock.call_at(START + 5, EXPIRY, "expire", "b")
    clock.call_at(START + 6, SETTLEMENT, "pay", "late")
    clock.advance(5)
    # Settlements run before the second expiry, callbacks after both.
    assert events == ["expire a", "pay a at 5", "expire b", "pay b at 5", "post a", "post b"]


# Moving


def test_advancing_to_the_same_time_again_changes_nothing():
    clock, events = clock_with([(10, USER, "a"), (20, USER, "b")])
    assert clock.next_due() == START + 10
    assert clock.advance_to(START + 9) == []
    assert clock.advance_to(START + 10) == [(START + 10, "bell", "a")]
    assert clock.advance_to(START + 10) == []
    assert clock.advance_to(START) == []
    assert (clock.now(), clock.next_due()) == (START + 10, START + 20)
    assert events == [(START + 10, "bell", "a")]


def test_advancing_by_zero_runs_the_events_due_now():
    clock, events = clock_with([(0, USER, "a")])
    assert events == []
    assert [event.key for event in clock.advance(0)] == ["a"]


def test_time_cannot_go_backwards_and_is_in_whole_milliseconds():
    clock = VirtualClock(START)
    with pytest.raises(ValueError, match="time can't go backwards"):
        clock.advance(-1)
    for odd in (1.5, "5m", True, None):
        with pytest.raises(TypeError, match=r"^by_ms is whole milliseconds"):
            clock.advance(odd)
        with pytest.raises(TypeError, match=r"^when_ms is whole milliseconds"):
            clock.advance_to(odd)
        with pytest.raises(TypeError, match=r"^start_ms is whole milliseconds"):
            VirtualClock(odd)
    assert clock.now() == START


def test_an_idle_clock_has_nothing_to_do():
    clock = VirtualClock(START)
    assert clock.run_events(1) == []
    assert clock.next_due() is None
    assert clock.run_until_idle() == []
    assert clock.run_until_next_event() == []
    assert clock.now() == START
    assert "0 events ahead" in repr(clock)
    clock.call_at(START + 1, USER, "bell", "a")
    assert "1 event ahead" in repr(clock)


def test_an_event_after_the_end_of_time_never_runs():
    clock = VirtualClock(LAST_MS - 1_000)
    clock.on("bell", lambda key: None)
    for after, key in enumerate(("at the end", "too late")):
        clock.call_at(LAST_MS + after, 0, "bell", key)
    assert [fired.key for fired in clock.run_until_idle()] == ["at the end"]
    assert (clock.next_due(), clock.run_events(1), clock.run_until_next_event()) == (None, [], [])
    assert (clock.now(), len(clock)) == (LAST_MS, 1)


def test_a_timer_is_replaced_by_its_name_and_removed_by_cancel():
    clock, events = clock_with([(10, USER, "a"), (10, USER, "b")])
    clock.call_at(START + 10, USER, "bell", "a")  # rescheduled: now behind b
    clock.call_at(START + 5, USER, "bell", "c")
    clock.cancel("bell", "c")
    clock.cancel("bell", "never stood")
    assert [event.key for event in clock.advance(10)] == ["b", "a"]
    assert len(events) == 2


# Limits on endless loops


def test_running_until_idle_is_bounded():
    clock = VirtualClock(START)
    clock.on("block", lambda key: clock.call_at(clock.now() + 600_000, USER, "block", key))
    clock.call_at(START, USER, "block", "chain")
    with pytest.raises(ClockError, match=r"^not idle after 25 events"):
        clock.run_until_idle(limit=25)
    assert clock.now() == START + 24 * 600_000
    exact, _ = clock_with([(1, USER, "a"), (1, USER, "b")])
    assert len(exact.run_until_idle(limit=2)) == 2
    short, _ = clock_with([(1, USER, "a"), (1, USER, "b")])
    with pytest.raises(ClockError, match="after 1 event:"):
        short.run_until_idle(limit=1)


def test_an_event_that_reschedules_itself_for_now_is_stopped():
    clock = VirtualClock(START, instant_limit=100)
    clock.on("loop", lambda key: clock.call_at(clock.now(), USER, "loop", key))
    clock.call_at(START + 1, USER, "loop", "x")
    with pytest.raises(ClockError, match="without letting time pass"):
        clock.advance(1_000)
    assert clock.now() == START + 1


def test_many_events_at_different_times_are_not_a_loop():
    clock = VirtualClock(START, instant_limit=2)
    clock.on("tick", lambda key: clock.call_at(clock.now() + 1, USER, "tick", key))
    clock.call_at(START, USER, "tick", "x")
    assert len(clock.advance(50)) == 51


@pytest.mark.parametrize(("count", "allowed"), [(2, True), (3, True), (4, False)])
def test_the_number_of_events_at_one_time_is_limited(count, allowed):
    clock = VirtualClock(START, instant_limit=3)
    events = record_events(clock, "bell")
    for number in range(count):
        clock.call_at(START + 1, USER, "bell", str(number))
        clock.call_at(START + 2, USER, "bell", f"later {number}")
    if allowed:
        assert len(clock.advance(2)) == 2 * count
    else:
        with pytest.raises(ClockError, match="more than 3 events at the single instant"):
            clock.advance(2)
        assert len(events) == 3


def test_run_until_idle_can_stop_between_events_of_one_time():
    clock, events = clock_with([(1, USER, "a"), (2, USER, "b"), (2, USER, "c"), (2, USER, "d")])
    with pytest.raises(ClockError, match="after 2 events"):
        clock.run_until_idle(limit=2)
    assert [key for _, _, key in events] == ["a", "b"]


def test_an_event_cannot_move_the_clock():
    clock = VirtualClock(START)
    clock.on("impatient", lambda key: clock.advance(1))
    clock.call_at(START + 1, USER, "impatient", "x")
    with pytest.raises(ClockError, match="call_at"):
        clock.advance(5)


def test_a_missing_handler_and_a_second_handler_are_errors():
    clock = VirtualClock(START)
    clock.call_at(START, USER, "bell", "x")
    with pytest.raises(ClockError, match=r"no handler for 'bell'.*clock\.on"):
        clock.advance(1)
    clock.on("bell", lambda key: None)
    with pytest.raises(ClockError, match="there is a handler"):
        clock.on("bell", lambda key: None)
    assert clock.advance(1) == [(START, "bell", "x")]


# Events and their transactions


def test_each_event_runs_in_its_context_at_its_due_time():
    log: list[str] = []

    @contextmanager
    def commit():
        log.append(f"begin {clock.now() - START}")
        yield
        log.append(f"commit after {len(events)}")

    clock, events = clock_with([(3, USER, "a"), (7, USER, "b")], event_context=commit)
    clock.advance(10)
    assert log == ["begin 3", "commit after 1", "begin 7", "commit after 2"]


def test_an_event_that_raises_is_rolled_back():
    clock = VirtualClock(START)
    events = []
    full = True

    def write(key: str) -> None:
        if full:
            clock.call_at(START + 1_000, USER, "write", key)  # rolled back with the rest
            raise OSError("disk full")
        events.append((clock.now(), key))

    clock.on("write", write)
    clock.call_at(START + 5, USER, "write", "first")
    clock.call_at(START + 5, USER, "write", "second")
    for _ in range(2):
        with pytest.raises(OSError, match="disk full"):
            clock.advance_to(START + 9)
        assert clock.now() == START  # as before the event
    full = False
    clock.advance_to(START + 9)
    assert events == [(START + 5, "first"), (START + 5, "second")]
    assert len(clock) == 0


# A running clock


def test_a_running_clock_follows_the_real_clock_at_its_rate():
    real_clock = ManualRealClock()
    clock = VirtualClock(START, rate=60, real_clock=real_clock)
    assert clock.now() == START
    real_clock.ms += 500
    assert clock.now() == START + 30_000
    clock.set_rate(0.5)
    real_clock.ms += 500
    assert clock.now() == START + 30_250
    clock.set_rate(0)
    real_clock.ms += 10_000
    assert (clock.now(), clock.rate) == (START + 30_250, 0)


def test_a_running_clock_never_goes_back_when_the_real_clock_does():
    real_clock = ManualRealClock()
    clock = VirtualClock(START, rate=1, real_clock=real_clock)
    real_clock.ms += 1_000
    assert clock.now() == START + 1_000
    real_clock.ms -= 700
    assert clock.now() == START + 1_000
    assert clock.catch_up() == []
    real_clock.ms += 1
    assert clock.now() == START + 1_001  # it does not pause until the real clock reaches its former time


def test_a_running_clock_waits_at_an_event_until_it_has_run():
    real_clock = ManualRealClock()
    clock = VirtualClock(START, rate=1, real_clock=real_clock)
    events = record_events(clock, "bell")
    clock.call_at(START + 100, USER, "bell", "a")
    clock.call_at(START + 200, USER, "bell", "b")
    real_clock.ms += 1_000
    assert clock.now() == START + 100
    assert [event.key for event in clock.catch_up()] == ["a", "b"]
    assert events == [(START + 100, "bell", "a"), (START + 200, "bell", "b")]
    assert clock.now() == START + 1_000


def test_a_running_clock_can_still_be_advanced():
    real_clock = ManualRealClock()
    clock = VirtualClock(START, rate=1, real_clock=real_clock)
    events = record_events(clock, "bell")
    clock.call_at(START + 5_000, USER, "bell", "a")
    clock.advance_to(START + 3_000)
    assert clock.now() == START + 3_000
    assert clock.run_events(1) == [(START + 5_000, "bell", "a")]
    real_clock.ms += 10
    assert clock.now() == START + 5_010
    assert events == [(START + 5_000, "bell", "a")]


def test_frequent_reads_do_not_slow_the_clock():
    real_clock = ManualRealClock()
    clock = VirtualClock(START, rate=0.1, real_clock=real_clock)
    for _ in range(100):
        real_clock.ms += 1
        clock.catch_up()
        clock.now()
    assert clock.now() == START + 10


def test_a_running_clock_runs_no_event_in_the_past():
    real_clock = ManualRealClock()
    clock = VirtualClock(START, rate=1, real_clock=real_clock)
    events = record_events(clock, "bell")
    real_clock.ms += 500
    clock.call_at(START + 1, USER, "bell", "a")
    assert clock.next_due() == START + 500
    clock.catch_up()
    assert events == [(START + 500, "bell", "a")]


def test_a_paused_clock_catches_up_with_the_current_time_only():
    clock, events = clock_with([(0, USER, "a"), (1, USER, "b")])
    assert [event.key for event in clock.catch_up()] == ["a"]
    assert clock.now() == START
    assert len(events) == 1


@pytest.mark.parametrize("rate", [0, 0.5, 1, 2])
def test_reading_gives_the_real_time_of_the_current_virtual_time(rate):
    real_clock = ManualRealClock()
    clock = VirtualClock(START, rate=rate, real_clock=real_clock)
    record_events(clock, "bell")
    clock.call_at(START + 1_000, USER, "bell", "a")
    real_clock.ms += 400
    assert clock.reading() == (START + round(400 * rate), 5_000_400)
    real_clock.ms += 9_600
    # A running clock waits at the event; the real clock passed that time earlier.
    assert clock.reading() == ((START + 1_000, 5_000_000 + round(1_000 / rate)) if rate else (START, 5_010_000))
    assert clock.is_behind() == bool(rate)
    assert len(clock.catch_up()) == int(rate > 0)
    assert clock.reading() == (START + round(10_000 * rate), 5_010_000)
    assert not clock.is_behind()
    assert VirtualClock(START).reading() == (START, None)


def test_a_clock_is_paused_between_begin_and_commit_and_adds_that_time_afterwards():
    real_clock = ManualRealClock()
    clock = VirtualClock(START, rate=1, real_clock=real_clock)
    for end in (clock.commit, clock.rollback):
        seen = clock.now()
        clock.begin()
        real_clock.ms += 100
        assert clock.now() == clock.last_seen == seen
        end()
        assert clock.now() == seen + 100


def test_a_rate_set_between_begin_and_commit_applies_after_the_commit():
    real_clock = ManualRealClock()
    clock = VirtualClock(START, real_clock=real_clock)
    clock.begin()
    clock.set_rate(2)
    real_clock.ms += 100
    assert clock.now() == START
    clock.commit()
    assert clock.now() == START + 200


def test_elapsed_time_is_added_and_events_in_it_run_at_their_due_time():
    clock = VirtualClock(START, rate=1, real_clock=ManualRealClock())
    events = record_events(clock, "bell")
    clock.call_at(START + 1_000, USER, "bell", "a")
    clock.add_elapsed(0)
    assert clock.now() == START
    for _ in range(2):
        clock.add_elapsed(2_500)
    assert clock.now() == START + 1_000
    clock.catch_up()
    assert (clock.now(), events) == (START + 5_000, [(START + 1_000, "bell", "a")])
    with pytest.raises(ValueError, match="-1 ms cannot be added"):
        clock.add_elapsed(-1)


def test_a_paused_clock_is_behind_only_when_an_event_is_due_now():
    clock, _ = clock_with([(1, USER, "a")])
    assert not clock.is_behind()
    clock.call_at(START, USER, "bell", "b")
    assert clock.is_behind()
    clock.catch_up()
    assert not clock.is_behind()


def test_set_back_moves_the_clock_back_and_never_forward():
    clock, _ = clock_with([(500, USER, "a")])
    clock.advance(100)
    clock.set_back(START + 101)
    assert clock.now() == START + 100
    clock.set_back(START + 40)
    assert (clock.now(), clock.next_due()) == (START + 40, START + 500)


def test_a_rate_needs_a_real_clock_and_is_not_negative():
    clock = VirtualClock(START)
    with pytest.raises(ClockError, match="needs a real clock"):
        clock.set_rate(1)
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="rate must be"):
            VirtualClock(START, rate=wrong, real_clock=ManualRealClock())


@given(
    st.lists(st.tuples(st.sampled_from(["real_clock", "rate", "advance", "catch_up", "call"]), st.integers(-50, 200)))
)
def test_now_never_decreases_whatever_is_done(actions):
    real_clock = ManualRealClock()
    clock = VirtualClock(START, rate=2, real_clock=real_clock)
    seen = [START]
    clock.on("bell", lambda key: seen.append(clock.now()))
    for number, (action, value) in enumerate(actions):
        if action == "real_clock":
            real_clock.ms += value
        elif action == "rate":
            clock.set_rate(abs(value) % 3)
        elif action == "advance":
            clock.advance(abs(value))
        elif action == "catch_up":
            clock.catch_up()
        else:
            clock.call_at(clock.now() + value, USER, "bell", str(number))
        seen.append(clock.now())
    assert seen == sorted(seen)


# State


@given(timers, st.integers(0, 50))
def test_a_restored_and_a_forked_clock_continue_as_the_original(schedule, pause):
    clock, _ = clock_with(schedule)
    clock.advance(pause)
    saved = json.loads(json.dumps(clock.snapshot()))
    fork = clock.fork()
    other = VirtualClock(0)
    other.restore(saved)
    assert fork.snapshot() == other.snapshot() == saved
    record_events(fork, "bell")
    record_events(other, "bell")
    for each in (clock, fork, other):
        each.call_at(START + 50, SETTLEMENT, "bell", "new")
    assert fork.run_until_idle() == other.run_until_idle() == clock.run_until_idle()


def test_a_fork_does_not_change_its_parent():
    clock, events = clock_with([(10, USER, "a")])
    fork = clock.fork()
    record_events(fork, "bell")
    fork.cancel("bell", "a")
    fork.call_at(START + 1, USER, "bell", "b")
    fork.advance(20)
    assert (clock.now(), len(clock), events) == (START, 1, [])
    assert [event.key for event in clock.advance(20)] == ["a"]


def test_a_fork_has_the_rate_and_the_limit_of_its_parent():
    real_clock = ManualRealClock()
    fork = VirtualClock(START, rate=2, real_clock=real_clock, instant_limit=3).fork()
    real_clock.ms += 100
    assert fork.now() == START + 200
    fork.on("loop", lambda key: fork.call_at(fork.now(), USER, "loop", key))
    fork.call_at(START + 300, USER, "loop", "x")
    with pytest.raises(ClockError, match="more than 3 events"):
        fork.advance(200)


def test_a_rollback_restores_the_clock():
    real_clock = ManualRealClock()
    clock = VirtualClock(START, rate=2, real_clock=real_clock)
    events = record_events(clock, "bell")
    clock.call_at(START + 100, USER, "bell", "stands")
    clock.call_at(START + 200, USER, "bell", "moved")
    before = clock.snapshot()
    clock.begin()
    clock.cancel("bell", "stands")
    clock.call_at(START + 50, USER, "bell", "moved")
    clock.call_at(START + 60, USER, "bell", "new")
    clock.set_rate(0)
    clock.rollback()
    assert clock.snapshot() == before
    real_clock.ms += 100
    clock.catch_up()
    assert events == [(START + 100, "bell", "stands"), (START + 200, "bell", "moved")]
    clock.begin()
    clock.call_at(START + 300, USER, "bell", "kept")
    clock.commit()
    assert clock.next_due() == START + 300


# The timer heap


class TimersAgainstASortedList(RuleBasedStateMachine):
    """After any sequence of operations the heap equals a sorted list with one entry per name."""

    def __init__(self) -> None:
        super().__init__()
        self.timers = Timers()
        self.model: dict[tuple[str, str], tuple[int, int, int]] = {}
        self.arrivals = 0
        self.before: tuple[dict[tuple[str, str], tuple[int, int, int]], int] | None = None

    @rule(due=st.integers(0, 30), priority=st.integers(0, 3), kind=st.sampled_from("xy"), key=st.sampled_from("abcd"))
    def schedule(self, due: int, priority: int, kind: str, key: str) -> None:
        self.arrivals += 1
        self.timers.schedule(due, priority, kind, key)
        self.model[kind, key] = (due, priority, self.arrivals)

    @rule(kind=st.sampled_from("xy"), key=st.sampled_from("abcd"))
    def cancel(self, kind: str, key: str) -> None:
        assert self.timers.cancel(kind, key) is (self.model.pop((kind, key), None) is not None)

    @rule(now=st.integers(0, 30), put_back=st.booleans())
    def take(self, now: int, put_back: bool) -> None:
        expected = next((timer for timer in self._sorted() if timer.due_ms <= now), None)
        taken = next(self.timers.due(now), None)
        assert taken == expected
        if taken is not None and put_back:
            self.timers.put_back(taken)
        elif taken is not None:
            del self.model[taken[3], taken[4]]

    @precondition(lambda self: self.before is None)
    @rule()
    def begin(self) -> None:
        self.timers.begin()
        self.before = (dict(self.model), self.arrivals)

    @precondition(lambda self: self.before is not None)
    @rule(committed=st.booleans())
    def end(self, committed: bool) -> None:
        assert self.before is not None
        if committed:
            self.timers.commit()
        else:
            self.timers.rollback()
            self.model, self.arrivals = self.before
        self.before = None

    @precondition(lambda self: self.before is None)
    @rule()
    def copy(self) -> None:
        self.timers = self.timers.copy()

    @precondition(lambda self: self.before is None)
    @rule()
    def save_and_open(self) -> None:
        snapshot = json.loads(json.dumps(self.timers.snapshot()))
        self.timers = Timers()
        self.timers.schedule(0, 0, "x", "replaced by restore")
        self.timers.restore(snapshot)

    @invariant()
    def equals_the_model(self) -> None:
        expected = self._sorted()
        assert self.timers.peek() == (expected[0] if expected else None)
        assert self.timers.upcoming(3) == expected[:3]
        assert len(self.timers) == len(expected)
        assert all((timer.kind, timer.key) in self.timers for timer in expected)

    def _sorted(self) -> list[Timer]:
        return sorted(Timer(*position, *name) for name, position in self.model.items())


TestTimersAgainstASortedList = TimersAgainstASortedList.TestCase
TestTimersAgainstASortedList.settings = examples(100, bounded=30, stateful_step_count=40)


def test_timers_that_are_taken_over_are_those_of_the_snapshot():
    timers = Timers()
    for number in range(50):
        timers.schedule(number % 7, number % 2, "charge", str(number))
    read, taken = Timers(), Timers()
    read.restore(timers.snapshot())
    taken.restore({**timers.snapshot(), "timers": read})
    assert taken.snapshot() == timers.snapshot()
    assert [*taken.due(9)] == [*timers.due(9)]
    assert taken.snapshot() == timers.snapshot()


def test_replaced_timers_do_not_accumulate():
    timers = Timers()
    for number in range(2_000):
        timers.schedule(number, 0, "moves", "often")
        assert len(timers._heap) <= 2 * 1 + 16
    assert timers.upcoming(5) == [Timer(1_999, 0, 2_000, "moves", "often")]


def test_cancelled_timers_do_not_accumulate_and_the_others_keep_their_order():
    timers = Timers()
    for number in reversed(range(1_000)):
        timers.schedule(number, 0, "charge", str(number))
    for number in range(1_000):
        if number % 10:
            timers.cancel("charge", str(number))
        assert len(timers._heap) <= 2 * len(timers) + 16
    assert [entry[0] for entry in timers.due(1_000)] == list(range(0, 1_000, 10))


def test_a_few_cancelled_timers_do_not_cause_a_rebuild():
    timers = Timers()
    for number in range(16):
        timers.schedule(number, 0, "charge", str(number))
    for number in range(16):
        timers.cancel("charge", str(number))
    assert (len(timers), len(timers._heap)) == (0, 16)
    assert timers.peek() is None


def test_the_heap_may_be_rebuilt_during_a_sweep():
    timers = Timers()
    for number in range(100):
        timers.schedule(number, 0, "keep" if number % 2 else "drop", str(number))
    seen = []
    for entry in timers.due(1_000):
        seen.append(entry[0])
        if len(seen) == 1:
            for number in range(0, 100, 2):
                timers.cancel("drop", str(number))
                timers.schedule(500, 0, "new", "one")
    assert seen == [0, *range(1, 100, 2), 500]
