"""While time is moved, a sandbox refuses what would move time, change its actions, copy or restore it. `close` ends the
move. An action that the move itself calls may do all of this but move time."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ApiError, ClockError, ClosedError
from leyden.sandbox.time import methods as time_methods
from tests.support.receivers import Got, threaded
from tests.support.requests import post

START = "2030-01-01T09:00:00Z"
MOVE = "/sandbox/v1/clock/advance"
CAMPAIGN = "http://shop.localhost/hook"

Call = Callable[[Sandbox, Path], Any]

# Every method that is refused while time is moved.
REFUSED: dict[str, Call] = {
    "advance": lambda sandbox, path: sandbox.advance("1m"),
    "advance_to": lambda sandbox, path: sandbox.advance_to("2030-01-01T23:00:00Z"),
    "at": lambda sandbox, path: sandbox.at("09:30", print),
    "cancel": lambda sandbox, path: sandbox.cancel(sandbox.scheduled[0]),
    "every": lambda sandbox, path: sandbox.every("10m", print),
    "fork": lambda sandbox, path: sandbox.fork(),
    "notebook": lambda sandbox, path: sandbox.notebook(path / "sandbox.ipynb"),
    "restore": lambda sandbox, path: sandbox.restore(json.loads((path / "before.json").read_text())),
    "run": lambda sandbox, path: sandbox.run(),
    "save": lambda sandbox, path: sandbox.save(path / "sandbox.json"),
    "script": lambda sandbox, path: sandbox.script(),
    "snapshot": lambda sandbox, path: sandbox.snapshot(),
    "step": lambda sandbox, path: sandbox.step(),
}
# Those that read, send requests or change no more than a request does, and `close`, which ends the move.
OTHERS = {
    "ask", "close", "diff", "facts", "from_snapshot", "kpis", "lifecycle", "liquidity", "load", "path", "receiver",
    "replay_deliveries", "replay_delivery", "request", "schedule", "serve", "set_egress", "table", "traffic", "wallet",
}  # fmt: skip
MOVES = {"advance", "advance_to", "run", "step"}


def public_methods() -> set[str]:
    return {name for name in dir(Sandbox) if not name.startswith("_") and callable(getattr(Sandbox, name))}


def test_every_method_is_listed_here() -> None:
    assert public_methods() == REFUSED.keys() | OTHERS


def expiring(sandbox: Sandbox, url: str, minutes: int = 1) -> None:
    sandbox.charges.create(amount="1000", description="tea", callbackUrl=url, expiresIn=minutes * 60)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """One with an action of the next day, that sends callbacks to this machine; `before.json` has its first state."""
    with Sandbox(seed=5, start=START, egress="loopback") as created:
        created.at("08:00", print)
        (tmp_path / "before.json").write_text(json.dumps(created.snapshot()))
        yield created


@contextmanager
def while_a_receiver_is_waited_for(sandbox: Sandbox, call: Callable[[], object]) -> Iterator[None]:
    with threaded(lambda got: (call() and 200) or 200) as hook:
        expiring(sandbox, hook.url)
        yield


def set_event(sandbox: Sandbox, call: Callable[[], object]) -> None:
    """Let an event call it, at 09:10."""
    clock = sandbox.world.clock
    clock.on("test", lambda key: call() and None)
    clock.call_at(clock.now() + 600_000, 0, "test", "1")


@contextmanager
def within_an_event(sandbox: Sandbox, call: Callable[[], object]) -> Iterator[None]:
    set_event(sandbox, call)
    yield


def in_another_thread(call: Callable[[], object]) -> object:
    with ThreadPoolExecutor() as pool:
        return pool.submit(call).result(20)


WHEN: dict[str, Callable[[Sandbox, Callable[[], object]], Any]] = {
    "a receiver is waited for": while_a_receiver_is_waited_for,
    "an event runs": within_an_event,
    "an event of another thread runs": lambda sandbox, call: within_an_event(sandbox, lambda: in_another_thread(call)),
}


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("method", REFUSED)
def test_a_method_is_refused_while_time_is_moved(method: str, when: str, sandbox: Sandbox, tmp_path: Path) -> None:
    errors: list[ClockError] = []

    def call() -> None:
        with pytest.raises(ClockError, match=r"time is being moved .*schedule or cancel actions") as refused:
            REFUSED[method](sandbox, tmp_path)
        errors.append(refused.value)

    ahead = sandbox.scheduled
    with WHEN[when](sandbox, call):
        sandbox.advance("2h")
    assert len(errors) == 1
    assert ("after the receiver has answered" in str(errors[0])) is (when == "a receiver is waited for")
    assert (sandbox.now, sandbox.scheduled) == ("2030-01-01T11:00:00.000Z", ahead)
    REFUSED[method](sandbox, tmp_path)  # afterwards it is possible


@pytest.mark.parametrize("method", sorted(REFUSED.keys() - MOVES))
def test_a_method_is_refused_in_a_thread_beside_an_action(method: str, sandbox: Sandbox, tmp_path: Path) -> None:
    def action(sb: Sandbox) -> None:
        with pytest.raises(ClockError, match="time is being moved by another call"):
            in_another_thread(lambda: REFUSED[method](sb, tmp_path))

    sandbox.at("10:00", action)
    sandbox.advance("2h")
    assert sandbox.now == "2030-01-01T11:00:00.000Z"


@pytest.mark.parametrize("method", sorted({"at", "cancel", "every"}))
def test_an_action_is_not_changed_while_a_request_that_moves_time_waits(
    method: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    refusals: list[str] = []

    def call() -> None:
        with pytest.raises(ClockError, match="after the receiver has answered") as refused:
            REFUSED[method](sandbox, tmp_path)
        refusals.append(str(refused.value))

    with while_a_receiver_is_waited_for(sandbox, call):
        sandbox.ask("POST", MOVE, {"by": "2h"})
    assert len(refusals) == 1


@pytest.mark.parametrize("method", sorted(REFUSED.keys() - MOVES - {"cancel"}))
def test_an_action_may_call_what_moves_no_time(method: str, sandbox: Sandbox, tmp_path: Path) -> None:
    done: list[str] = []

    def action(sb: Sandbox) -> None:
        REFUSED[method](sb, tmp_path)
        done.append(sb.now)

    sandbox.at("09:20", action)
    sandbox.advance("1h")
    assert done[0] == "2030-01-01T09:00:00.000Z" if method == "restore" else "2030-01-01T09:20:00.000Z"


SPANS: dict[str, Callable[[Sandbox, Path], object]] = {
    "advance": lambda sandbox, path: sandbox.advance("2h"),
    "advance_to": lambda sandbox, path: sandbox.advance_to("2030-01-01T11:00:00Z"),
    "run": lambda sandbox, path: sandbox.run(),
    "run a span": lambda sandbox, path: sandbox.run("2h"),
    "run events": lambda sandbox, path: sandbox.run(events=100),
    "steps": lambda sandbox, path: [sandbox.step() for _ in range(20)],
    "spill": lambda sandbox, path: sandbox.run("2h", spill=path / "spilled"),
}


@pytest.mark.parametrize("move", SPANS)
def test_what_an_action_schedules_within_the_move_is_done_at_its_instant(
    move: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    done: list[str] = []

    def note(name: str) -> Callable[[Sandbox], None]:
        return lambda sb: done.append(f"{name} {sb.now[11:16]}")

    def action(sb: Sandbox) -> None:
        note("first")(sb)
        assert sb.cancel(cancelled)
        sb.at("09:45", note("added"))
        again = sb.every("20m", note("again"))
        sb.at("10:15", lambda sb: done.append(f"cancelled {sb.cancel(again)}"))

    with threaded() as hook:
        for minutes in (10, 35, 50, 119):
            expiring(sandbox, hook.url, minutes)
        sandbox.at("09:30", action)
        cancelled = sandbox.at("10:00", note("never"))
        SPANS[move](sandbox, tmp_path)
    assert done == ["first 09:30", "added 09:45", "again 09:50", "again 10:10", "cancelled True"]


def test_an_action_that_a_restore_over_http_takes_away_is_not_done(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restore comes between the end of the move to the instant of the action and the call of the action."""
    done: list[str] = []
    snapshot = sandbox.ask("POST", "/sandbox/v1/snapshots", {})["id"]
    real, restores = time_methods.advance_to, [snapshot]

    def advance_to(*args: Any) -> Any:
        fired = real(*args)
        if restores:
            sandbox.ask("POST", "/sandbox/v1/restore", {"snapshot": restores.pop()})
        return fired

    sandbox.at("09:30", lambda sb: done.append(sb.now[11:16]))
    monkeypatch.setattr(time_methods, "advance_to", advance_to)
    sandbox.advance("2h")
    assert done == ["09:30"]


def test_an_interrupt_comes_at_once_in_an_action_and_frees_the_sandbox(sandbox: Sandbox) -> None:
    done: list[str] = []

    def action(sb: Sandbox) -> None:
        done.append("begun")
        signal.raise_signal(signal.SIGINT)
        done.append("not interrupted")

    sandbox.at("09:30", action)
    with pytest.raises(KeyboardInterrupt):
        sandbox.run("2h")
    assert done == ["begun"]
    assert in_another_thread(lambda: sandbox.at("09:45", print)) in sandbox.scheduled
    in_another_thread(lambda: sandbox.advance("1h"))
    assert sandbox.now == "2030-01-01T10:30:00.000Z"


# Moves by requests, within an action


@pytest.mark.parametrize("way", ["ask", "HTTP"])
@pytest.mark.parametrize("body", [{"by": "1m"}, {"by": 0}, {"to": "2030-01-02T00:00:00Z"}, {"until": "idle"}])
def test_an_action_cannot_move_time_by_a_request(way: str, body: dict[str, Any], sandbox: Sandbox) -> None:
    refusals: list[str] = []

    def action(sb: Sandbox) -> None:
        if way == "HTTP":
            status, problem = post(url, MOVE, body)
            assert status == 409
            refusals.append(problem["detail"])
        else:
            with pytest.raises(ApiError) as refused:
                sb.ask("POST", MOVE, body)
            refusals.append(str(refused.value))

    url = sandbox.serve() if way == "HTTP" else ""
    expiring(sandbox, CAMPAIGN, 10)
    sandbox.at("09:01", action)
    sandbox.advance("2m")
    assert len(refusals) == 1
    assert "<Scheduled action at 2030-01-01T09:01:00.000Z> cannot move time" in refusals[0]
    assert sandbox.now == "2030-01-01T09:02:00.000Z"
    assert same_run(sandbox)


# Scripts


def same_run(sandbox: Sandbox) -> bool:
    names: dict[str, Any] = {}
    exec(sandbox.script(), names)
    with names["sb"] as again:
        return bool(
            again.now == sandbox.now
            and again.journal_hash == sandbox.journal_hash
            and not len(sandbox.diff(again))
            and again.script() == sandbox.script()
        )


WHILE_MOVED: dict[str, tuple[str, dict[str, Any]]] = {
    "advance": (MOVE, {"by": "30m"}),
    "advance by nothing": (MOVE, {"by": "0s"}),
    "advance to": (MOVE, {"to": "2030-01-01T12:00:00Z"}),
    "advance until idle": (MOVE, {"until": "idle"}),
    "snapshot": ("/sandbox/v1/snapshots", {}),
}


@pytest.mark.parametrize("way", ["ask", "request", "HTTP"])
@pytest.mark.parametrize("request_name", WHILE_MOVED)
def test_the_script_refuses_a_request_again_that_was_refused_while_time_was_moved(
    request_name: str, way: str, sandbox: Sandbox
) -> None:
    path, body = WHILE_MOVED[request_name]
    statuses: list[int] = []

    def refused(got: Got) -> int:
        if way == "HTTP":
            statuses.append(post(url, path, body)[0])
        elif way == "request":
            headers = {"apikey": "leyden", "content-type": "application/json", "x-mine": "1"}
            statuses.append(sandbox.request("POST", path, body, headers).status)
        else:
            with pytest.raises(ApiError) as error:
                sandbox.ask("POST", path, body)
            statuses.append(error.value.status)
        return 200

    url = sandbox.serve() if way == "HTTP" else ""
    with threaded(refused) as hook:
        expiring(sandbox, hook.url)
        sandbox.run()
    assert statuses == [409]
    assert len(sandbox.ask("GET", "/sandbox/v1/snapshots")["data"]) == 0
    created = sandbox.ask("POST", "/sandbox/v1/snapshots", {})
    assert created["id"] == "snapshot-1"
    sandbox.ask("POST", "/sandbox/v1/restore", {"snapshot": created["id"]})
    assert same_run(sandbox)


def test_a_saved_sandbox_keeps_what_was_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.at("09:01", lambda sb: sb.request("POST", MOVE, {"by": "1h"}))
    sandbox.advance("2m")
    with Sandbox.load(sandbox.save(tmp_path / "saved.json")) as loaded:
        assert 'sb.session.refused("POST", "/sandbox/v1/clock/advance"' in loaded.script()
        assert same_run(loaded)


# Closing


@contextmanager
def two_receivers(release: threading.Event, closing: Callable[[], object] | None = None) -> Iterator[Any]:
    """The first request is kept until `release`, or for the call `closing`; every one is counted."""
    arrived = threading.Event()

    def answer(got: Got) -> int:
        first = not arrived.is_set()
        arrived.set()
        if first and closing is not None:
            closing()
        elif first:
            release.wait(20)
        return 200

    with threaded(answer) as hook:
        hook_and_arrival = hook, arrived
        try:
            yield hook_and_arrival
        finally:
            release.set()


def opened(where: str, path: Path) -> Sandbox:
    data = path / "data" if where == "data" else None
    sandbox = Sandbox(seed=5, start=START, egress="loopback", data=data)
    if where == "served":
        sandbox.serve()
    return sandbox


@pytest.mark.parametrize("where", ["memory", "served", "data"])
@pytest.mark.parametrize("action", ["none", "between"])
def test_close_ends_a_move_and_nothing_is_posted_after_it(where: str, action: str, tmp_path: Path) -> None:
    sandbox, release, done = opened(where, tmp_path), threading.Event(), []
    with two_receivers(release) as (hook, arrived), ThreadPoolExecutor() as pool:
        expiring(sandbox, hook.url, 1)
        expiring(sandbox, hook.url, 60)
        if action == "between":
            sandbox.at("09:30", lambda sb: done.append(sb.now))
        moved = pool.submit(sandbox.run)
        assert arrived.wait(10)
        sandbox.close()
        assert isinstance(moved.exception(10), ClosedError)
        release.set()
        threading.Event().wait(0.3)
        assert (len(hook.inbox), done) == (1, [])
    with pytest.raises(ClosedError):
        _ = sandbox.now
    if where == "data":
        with Sandbox(data=tmp_path / "data") as again:
            assert again.now == "2030-01-01T09:01:00.000Z"
            [delivery] = again.ask("GET", "/sandbox/v1/deliveries")["data"]
            assert [one["error"] for one in delivery["attempts"]] == ["lost"]


def test_close_by_the_receiver_that_is_waited_for_ends_the_move() -> None:
    sandbox = Sandbox(seed=5, start=START, egress="loopback")
    with two_receivers(threading.Event(), sandbox.close) as (hook, _):
        expiring(sandbox, hook.url, 1)
        expiring(sandbox, hook.url, 60)
        with pytest.raises(ClosedError, match="closed meanwhile: close it after its moves of time"):
            sandbox.run()
        assert len(hook.inbox) == 1


@pytest.mark.parametrize("way", ["ask", "HTTP"])
def test_close_ends_a_move_by_a_request(way: str) -> None:
    sandbox, release = Sandbox(seed=5, start=START, egress="loopback"), threading.Event()
    url = sandbox.serve() if way == "HTTP" else ""
    with two_receivers(release) as (hook, arrived), ThreadPoolExecutor() as pool:
        expiring(sandbox, hook.url, 1)
        expiring(sandbox, hook.url, 60)
        body = {"until": "idle"}
        moved = pool.submit(lambda: sandbox.ask("POST", MOVE, body) if way == "ask" else post(url, MOVE, body))
        assert arrived.wait(10)
        sandbox.close()
        if way == "HTTP":
            with suppress(OSError):  # the server has ended, and perhaps before its response
                assert moved.result(10)[0] == 503
        else:
            assert isinstance(moved.exception(10), ClosedError)
        release.set()
        threading.Event().wait(0.3)
        assert len(hook.inbox) == 1


@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("move", ["advance", "run", "events", "with an action"])
def test_close_ends_a_move_without_a_network(move: str, data: bool, tmp_path: Path) -> None:
    """The thread that closes the sandbox waits for the event that runs, and for no more."""
    sandbox = Sandbox(seed=9, start=START, data=tmp_path / "data" if data else None)
    running, closing = threading.Event(), threading.Event()

    def hold() -> None:
        running.set()
        closing.wait(10)

    set_event(sandbox, hold)
    sandbox.traffic("60/min", callbackUrl=CAMPAIGN)
    world = sandbox.world
    if move == "with an action":
        sandbox.at("11:00", print)
    moves: dict[str, Callable[[], object]] = {
        "run": sandbox.run,
        "events": lambda: sandbox.run(events=100_000),
    }
    with ThreadPoolExecutor() as pool:
        moved = pool.submit(moves.get(move, lambda: sandbox.advance("3h")))
        assert running.wait(10)
        closed = pool.submit(sandbox.close)
        while not world.is_closed:
            assert not closed.done()
        closing.set()
        assert closed.exception(20) is None
        assert isinstance(moved.exception(20), ClosedError)
    assert world.clock.last_seen == 1_893_488_400_000 + 600_000  # that of the event


def test_close_in_an_action_ends_the_move(sandbox: Sandbox) -> None:
    done: list[str] = []
    sandbox.at("09:30", lambda sb: sb.close())
    sandbox.at("09:40", lambda sb: done.append(sb.now))
    with pytest.raises(ClosedError):
        sandbox.advance("2h")
    assert done == []


def test_close_within_an_event_is_refused(sandbox: Sandbox) -> None:
    refusals: list[str] = []

    def call() -> None:
        with pytest.raises(ClockError, match=r"close the sandbox after it, or in an action of sb.at") as refused:
            sandbox.close()
        refusals.append(str(refused.value))

    with within_an_event(sandbox, call):
        sandbox.advance("2h")
    assert (len(refusals), sandbox.now) == (1, "2030-01-01T11:00:00.000Z")


def test_a_copy_that_waits_for_a_receiver_ends_with_the_sandbox() -> None:
    sandbox, release = Sandbox(seed=5, start=START, egress="loopback"), threading.Event()
    with two_receivers(release) as (hook, arrived), ThreadPoolExecutor() as pool:
        expiring(sandbox, hook.url, 1)
        sandbox.world.clock.advance(60_000)  # without a wait
        assert arrived.wait(10)
        copied = pool.submit(sandbox.fork)
        with pytest.raises(TimeoutError):
            copied.result(0.3)
        sandbox.close()
        assert isinstance(copied.exception(10), ClosedError)
