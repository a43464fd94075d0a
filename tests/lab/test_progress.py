"""Progress bars: what shows one, where none is shown, and that a run is the same with it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from leyden import Sandbox
from leyden.lab import progress
from leyden.lab.progress import Progress, is_wanted
from tests.support.deep import deep

PROGRAM = """
import sys
from leyden import Sandbox
from leyden.lab import progress

progress.AFTER_S = 0.0
sb = Sandbox(seed=7, start="2030-01-01T09:00Z")
sb.session.progress = progress.Progress(0.0)
sb.traffic("60/min", callbackUrl="http://shop.localhost/paid", duration="15m")
sb.advance("1h")
print(sb.journal_hash)
"""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Where a bar is wanted; the bars that are drawn."""
    drawn: list[Any] = []

    class Bar:
        def __init__(self, what: str, unit: str, total: float | None) -> None:
            self.what, self.unit, self.total, self.n, self.seen = what, unit, total, 0.0, threading.Event()
            drawn.append(self)

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *raised: object) -> None:
            self.seen.set()

        def refresh(self) -> None:
            pass

    monkeypatch.setattr(progress, "is_wanted", lambda: True)
    monkeypatch.setattr(progress, "bar", Bar)
    yield drawn
    for thread in [each for each in threading.enumerate() if each.name == "leyden-progress"]:
        thread.join(20)


def test_what_takes_longer_has_a_bar_until_it_ends(watched: list[Any]) -> None:
    shown, place = Progress(after_s=0.0), [0.0]
    with shown.shown("move", " ms", lambda: place[0], 10.0):
        while not watched:
            pass
        place[0] = 25.0
        while watched[0].n < 10.0:
            pass
        assert not watched[0].seen.is_set()
    assert watched[0].seen.is_set()  # before the next line of the caller
    assert (watched[0].what, watched[0].total, watched[0].n) == ("move", 10.0, 10.0)


def test_what_is_done_within_something_else_has_no_bar_of_its_own(watched: list[Any]) -> None:
    shown = Progress(after_s=0.0)
    with shown.shown("run"), shown.shown("fork"):
        while not watched:
            pass
    assert [bar.what for bar in watched] == ["run"]


def test_an_error_ends_the_bar(watched: list[Any]) -> None:
    shown = Progress(after_s=0.0)

    def interrupted() -> None:
        with shown.shown("run"):
            while not watched:
                pass
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert watched[0].seen.is_set()
    with shown.shown("again"):
        while len(watched) < 2:
            pass


def test_short_works_have_no_bar_and_share_a_thread(watched: list[Any]) -> None:
    shown = Progress(after_s=0.5)
    for _ in range(1000):
        with shown.shown("step"):
            pass
        assert sum(each.name == "leyden-progress" for each in threading.enumerate()) <= 1
    assert watched == []


def test_moves_forks_saves_and_loads_say_what_they_are(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, float | None, float]] = []
    real = Progress.shown

    def record(self: Progress, what: str, unit: str = "", done: Any = lambda: 0.0, total: Any = None) -> Any:
        seen.append((what, total, done()))
        return real(self, what, unit, done, total)

    monkeypatch.setattr(Progress, "shown", record)
    sb = Sandbox(seed=7)
    sb.advance("10s")
    sb.advance_to("2030-01-01T00:01:00Z")
    sb.run("5s")
    sb.run()
    sb.run(events=3)
    sb.run("5s", spill=tmp_path / "a")
    sb.run(spill=tmp_path / "b")
    sb.fork()
    sb.save(tmp_path / "saved.json")
    Sandbox.load(tmp_path / "saved.json")
    within = seen[5:-3]  # the portions of runs that write files
    del seen[5:-3]
    assert within[0] == ("move", 5_000, 0)
    assert ("run", None, 0) in within
    assert seen == [
        ("move", 10_000, 0), ("move", 50_000, 0), ("move", 5_000, 0), ("run", None, 0), ("run", 3, 0),
        ("fork", None, 0.0), ("save", None, 0.0), ("load", None, 0.0),
    ]  # fmt: skip


def test_a_move_with_a_bar_is_the_same_move(watched: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def moved() -> Sandbox:
        sb = Sandbox(seed=7, start="2030-01-01T09:00Z")
        sb.session.progress = Progress(after_s=0.0)
        sb.traffic("60/min", callbackUrl="http://shop.localhost/paid", duration="10m")
        sb.every("20m", lambda sb: sb.charges.create(amount="1000", description="tea"))
        sb.advance("2h")
        return sb

    shown = moved()
    assert watched != []
    monkeypatch.setattr(progress, "is_wanted", lambda: False)
    plain = moved()
    assert plain.journal_hash == shown.journal_hash
    assert plain.snapshot() == shown.snapshot()


@pytest.mark.parametrize(
    ("terminal", "environment", "wanted"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"TQDM_DISABLE": "1"}, False),
        (True, {"TQDM_DISABLE": "0"}, True),
        (True, {"PYTEST_CURRENT_TEST": "test_x"}, False),
    ],
)
def test_a_bar_is_shown_at_a_terminal_only(terminal: bool, environment: dict[str, str], wanted: bool) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTEST_CURRENT_TEST", "TQDM_DISABLE")}
    main, other = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", "from leyden.lab.progress import is_wanted; print(is_wanted())"],
        stdout=subprocess.PIPE,
        stderr=other if terminal else subprocess.PIPE,
        env={**kept, **environment},
        text=True,
        check=True,
    )
    os.close(main)
    os.close(other)
    assert done.stdout.strip() == str(wanted)


def test_nothing_is_shown_in_a_test() -> None:
    assert not is_wanted()


@deep("test_a_move_with_a_bar_is_the_same_move")
def test_a_pipe_gets_no_bar_and_a_terminal_gets_one() -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTEST_CURRENT_TEST", "TQDM_DISABLE")}
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    piped = subprocess.run(command, capture_output=True, text=True, check=True, env=kept)
    assert piped.stderr == ""
    main, other = pty.openpty()
    termios.tcsetwinsize(other, (24, 80))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=other, text=True, env=kept) as process:
        os.close(other)
        read = bytearray()
        try:
            while some := os.read(main, 4096):
                read += some
        except OSError:  # Linux says that the other end is closed by an error
            pass
        assert process.stdout is not None
        hashed = process.stdout.read()
    os.close(main)
    assert process.returncode == 0, read.decode()
    assert "move:" in read.decode()
    assert hashed == piped.stdout
