"""A system clock that is set back and forth, or is wrong for a while: what a served sandbox does, and says."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.commands.catalogue import build_parser
from leyden.devserver.clock_changes import change_text, note, opened_texts, span_text
from leyden.devserver.serve import open_server
from leyden.devserver.startup.addresses import ServerAddresses
from leyden.errors import ApiError
from leyden.server.ports import CallbackRequest
from leyden.server.store.store import Store
from leyden.server.system import clock as system_clock
from leyden.server.system.clock import ServerClock
from leyden.server.timestamps import parse_iso, to_iso
from leyden.world.config import world_config
from leyden.world.world import World
from tests.support.deep import deep, deep_except, with_deep
from tests.support.forked import forked_leyden
from tests.support.hosted import Hosted, in_server
from tests.support.prompt_network import PromptNetwork
from tests.support.served import Client, listening_receiver, run_command
from tests.support.store_helpers import failing

DAY_MS = 86_400_000
BODY = {"amount": "1000", "description": "tea", "expiresIn": 60}

# The system clock is wrong by the number of milliseconds in a file.
WRONG_CLOCK = """
import time
real = time.time_ns
def wrong():
    with open(FILE) as text:
        return real() + int(text.read() or 0) * 1_000_000
time.time_ns = wrong
time.time = lambda: wrong() / 1e9
"""


def wrong_clock_of(file: Path) -> str:
    return WRONG_CLOCK.replace("FILE", repr(str(file)))


@contextmanager
def served(tmp_path: Path, wrong_ms: int, *options: str) -> Iterator[tuple[Client, Path, list[str]]]:
    """A server with data under a wrong system clock, the file that sets it, and its start message after the block."""
    offset = tmp_path / "offset"
    offset.write_text(str(wrong_ms))
    words = ["serve", "--port", "0", "--data", str(tmp_path / "data"), *options]
    process = forked_leyden(*words, first=wrong_clock_of(offset))
    assert process.stdout is not None
    assert process.stderr is not None
    printed: list[str] = []
    try:
        line = process.stdout.readline()
        assert line.startswith("Leyden listening on "), process.stderr.read()
        yield Client(line.split()[-1]), offset, printed
    finally:
        process.terminate()
        printed += process.communicate(timeout=20)[1].splitlines()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def shown_ms(client: Client) -> int:
    return parse_iso(client.ok("GET", "/sandbox/v1/clock")["now"])


def is_near(client: Client, expected_ms: int) -> bool:
    return abs(shown_ms(client) - expected_ms) < 30_000


def set_notes(client: Client) -> list[str]:
    """The notes that the system clock was set, of which each change has one."""
    return [text for text in client.ok("GET", "/sandbox/v1")["notes"] if text.startswith("the system clock was set")]


def test_a_clock_that_runs_does_not_follow_a_system_clock_that_is_set(tmp_path: Path) -> None:
    with served(tmp_path, 0) as (client, offset, printed):
        charge = client.ok("POST", "/v0/charges", BODY)["data"]
        for wrong_ms in (400 * DAY_MS, -3_600_000, 3_600_000, 0, 5_000):
            before = len(set_notes(client))
            offset.write_text(str(wrong_ms))
            deadline = time.monotonic() + 20
            while len(set_notes(client)) == before:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert is_near(client, now_ms())
            assert client.ok("GET", f"/v0/charges/{charge['id']}")["data"]["status"] == "pending"
        notes = set_notes(client)
        assert notes[0].startswith("the system clock was set forward by 400 days: a clock that runs does not follow")
        assert notes[1].startswith("the system clock was set back by 400 days 1 hour: a clock that runs does not")
        entries = client.ok("GET", "/sandbox/v1/journal")
        assert [entry["facts"]["text"] for entry in entries if entry["kind"] == "clock"] == notes
    assert any(notes[1] in line for line in printed)


@deep("test_the_clock_does_not_go_back_while_something_later_is_open")
def test_a_sandbox_that_is_ahead_says_so_and_returns_to_the_system_clock(tmp_path: Path) -> None:
    with served(tmp_path, 400 * DAY_MS) as (client, _, _):
        early = client.ok("POST", "/v0/charges", {**BODY, "expiresIn": 1})["data"]
        deadline = time.monotonic() + 20
        while client.ok("GET", f"/v0/charges/{early['id']}")["data"]["status"] != "expired":
            assert time.monotonic() < deadline
            time.sleep(0.05)
    for _ in range(2):
        with served(tmp_path, 0) as (client, _, printed):
            assert is_near(client, now_ms() + 400 * DAY_MS)
            notes = client.ok("GET", "/sandbox/v1")["notes"]
            assert "ahead of the system clock; leyden serve --start now sets it to the system clock" in notes[-1]
        assert [f"note: {note}" for note in notes] == [line for line in printed if line.startswith("note: ")]
    with served(tmp_path, 0, "--start", "now") as (client, _, printed):
        assert is_near(client, now_ms())
        [note] = client.ok("GET", "/sandbox/v1")["notes"]
        assert re.match("the clock was set back by (400|399) days", note)
        late = client.ok("POST", "/v0/charges", BODY)["data"]
        assert [charge["id"] for charge in client.ok("GET", "/v0/charges")["data"]] == [late["id"], early["id"]]
        created_before = f"/v0/charges?createdBefore={early['createdAt']}"
        assert [charge["id"] for charge in client.ok("GET", created_before)["data"]] == [late["id"]]
        assert client.ok("GET", f"/v0/charges/{early['id']}")["data"]["createdAt"] == early["createdAt"]
    assert f"note: {note}" in printed
    with served(tmp_path, 0) as (client, _, _):
        assert is_near(client, now_ms())
        assert client.ok("GET", "/sandbox/v1")["notes"] == []
        assert len(client.ok("GET", "/v0/charges")["data"]) == 2


def test_the_time_of_a_stop_counts_at_the_saved_rate() -> None:
    saved = {"now": 5_000_000, "rate": 60.0, "time_base": [5_000_000, 5_000_000]}
    [text] = opened_texts(saved, 1.0, 5_000_000 + 10_000)
    assert text.startswith("the sandbox's clock is 9 minutes 50 seconds ahead of the system clock")
    assert opened_texts({**saved, "rate": 1.0}, 1.0, 5_000_000 + 10_000) == []


@pytest.mark.parametrize("rate", deep_except(["1", "0"], "1"))
def test_the_clock_does_not_go_back_while_something_later_is_open(tmp_path: Path, rate: str) -> None:
    with served(tmp_path, 400 * DAY_MS, "--rate", rate) as (client, _, _):
        charge = client.ok("POST", "/v0/charges", {**BODY, "expiresIn": 3_600})["data"]
    done = run_command("serve", "--port", "0", "--data", str(tmp_path / "data"), "--start", "now")
    assert (done.returncode != 0, done.stdout) == (True, "")
    [line] = done.stderr.splitlines()
    assert "1 pending Charge(s) that were created after that" in line
    with served(tmp_path, 0) as (client, _, _):
        notes = client.ok("GET", "/sandbox/v1")["notes"]
    if rate == "1":
        waiting = "--start now sets it to the system clock when what was waiting at the start has ended"
        assert f"{waiting}: 1 pending Charge(s)" in notes[-1]
    with served(tmp_path, 0, "--rate", "0") as (client, _, _):
        assert client.ok("GET", f"/v0/charges/{charge['id']}")["data"] == charge
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
    with served(tmp_path, 0, "--start", "now", "--rate", rate) as (client, _, _):
        assert is_near(client, now_ms())
        assert client.ok("GET", f"/v0/charges/{charge['id']}")["data"]["status"] == "expired"


@deep("test_the_clock_does_not_go_back_while_something_later_is_open")
def test_a_sandbox_over_a_network_does_not_go_back(tmp_path: Path) -> None:
    with served(tmp_path, 400 * DAY_MS, "--network", "line:3") as (client, _, _):
        client.ok("GET", "/sandbox/v1")
    done = run_command("serve", "--port", "0", "--data", str(tmp_path / "data"), "--start", "now")
    assert done.returncode != 0
    assert "the state of a simulated network cannot go back" in done.stderr
    with served(tmp_path, 0) as (client, _, _):
        notes = client.ok("GET", "/sandbox/v1")["notes"]
    assert notes[-1].endswith("cannot go back: a new --data begins at the system clock")


@pytest.mark.parametrize("rate", deep_except(["1", "0"], "1"))
def test_a_sandbox_that_is_behind_goes_forward_and_what_fell_due_runs_at_its_instant(tmp_path: Path, rate: str) -> None:
    with served(tmp_path, 0, "--start", "2024-01-01T00:00:00Z", "--rate", "0") as (client, _, _):
        charge = client.ok("POST", "/v0/charges", {**BODY, "callbackUrl": "http://shop.localhost/hook"})["data"]
    with served(tmp_path, 0, "--start", "now", "--rate", rate) as (client, _, _):
        while client("GET", "/readyz")[0] != 200:
            time.sleep(0.01)
        assert is_near(client, now_ms())
        assert client.ok("GET", f"/v0/charges/{charge['id']}")["data"]["status"] == "expired"
        [delivery] = client.ok("GET", "/sandbox/v1/deliveries")["data"]
        assert delivery["createdAt"] == charge["expiresAt"]
        assert "set forward by" in client.ok("GET", "/sandbox/v1")["notes"][0]


@pytest.mark.parametrize("change_ms", [2 * DAY_MS, -2 * DAY_MS])
def test_a_system_clock_that_was_set_is_compared_as_it_is_now(tmp_path: Path, change_ms: int) -> None:
    """While the server runs, after a reset to the system clock, and after a restart: no time passed meanwhile."""
    with served(tmp_path, 0) as (client, offset, _):
        charge = client.ok("POST", "/v0/charges", BODY)["data"]
        offset.write_text(str(change_ms))
        while not client.ok("GET", "/sandbox/v1")["notes"]:
            time.sleep(0.05)
        texts = client.ok("GET", "/sandbox/v1")["notes"][1:]
        assert sum("clock is 2 days behind the system clock" in text for text in texts) == (change_ms > 0)
    with served(tmp_path, change_ms) as (client, _, _):
        assert client.ok("GET", f"/v0/charges/{charge['id']}")["data"]["status"] == "pending"
        assert is_near(client, now_ms())
        texts = client.ok("GET", "/sandbox/v1")["notes"]
        assert sum("clock is 2 days behind the system clock" in text for text in texts) == (change_ms > 0)
        assert sum("clock is 2 days ahead of the system clock" in text for text in texts) == (change_ms < 0)
        shown = client.ok("POST", "/sandbox/v1/reset", {"start": "now"})
        assert is_near(client, now_ms() + change_ms)
        assert shown["notes"] == []


@pytest.mark.parametrize("change_ms", [2 * DAY_MS, -2 * DAY_MS])
def test_a_reset_to_now_follows_a_system_clock_that_was_set(tmp_path: Path, change_ms: int) -> None:
    with served(tmp_path, 0) as (client, offset, _):
        offset.write_text(str(change_ms))
        while not client.ok("GET", "/sandbox/v1")["notes"]:
            time.sleep(0.05)
        assert client.ok("POST", "/sandbox/v1/reset", {"start": "now"})["notes"] == []
        assert is_near(client, now_ms() + change_ms)
        box = client.ok("POST", "/sandbox/v1/sandboxes", {})
        assert abs(parse_iso(box["createdAt"]) - now_ms() - change_ms) < 30_000
        other = Client(client.url, box["apiKey"])
        assert is_near(other, now_ms() + change_ms)
        assert other.ok("GET", "/sandbox/v1")["notes"] == []


def test_a_reset_to_a_start_that_is_ahead_says_so(tmp_path: Path) -> None:
    """The system clock was wrong when the sandbox began, and was corrected since."""
    with served(tmp_path, 2 * DAY_MS) as (client, offset, _):
        offset.write_text("0")
        while not client.ok("GET", "/sandbox/v1")["notes"]:
            time.sleep(0.05)
        [note] = client.ok("POST", "/sandbox/v1/reset", {})["notes"]
        assert note.startswith(
            "the sandbox's clock is 1 day 23 hours ahead of the system clock; a reset with the start"
        )
        assert is_near(client, now_ms() + 2 * DAY_MS)
        assert client.ok("POST", "/sandbox/v1/reset", {"start": "now"})["notes"] == []
        later = to_iso(now_ms() + DAY_MS)
        assert client.ok("POST", "/sandbox/v1/reset", {"start": later})["notes"] == []


def test_a_start_now_says_by_how_much_a_clock_that_ran_went_forward(tmp_path: Path) -> None:
    with served(tmp_path, 0) as (client, _, _):
        client.ok("POST", "/v0/charges", BODY)
    with served(tmp_path, 2 * DAY_MS, "--start", "now") as (client, _, _):
        [note] = client.ok("GET", "/sandbox/v1")["notes"]
    assert note.startswith("the clock was set forward by 2 days")


NOTES: list[tuple[list[str], Any, str]] = [
    ([], 3 * DAY_MS, "by the system clock the server was stopped for"),
    (["--start", "2024-01-01T00:00:00Z"], 120_000, "behind the system clock"),
    (["--start", "2024-01-01T00:00:00Z"], (0, "--start", "now"), "set forward by"),
    (["--start", "2024-01-01T00:00:00Z", "--rate", "0"], (0, "--start", "now"), "set forward by"),
]


@pytest.mark.parametrize(("first", "then", "note"), with_deep(NOTES, *NOTES[1:]))
def test_a_start_with_a_note_sends_the_callbacks_that_fell_due_meanwhile(
    tmp_path: Path, first: list[str], then: int | tuple[int | str, ...], note: str
) -> None:
    with listening_receiver() as (url, inbox):
        with served(tmp_path, 0, *first) as (client, _, _):
            charge = client.ok("POST", "/v0/charges", {**BODY, "callbackUrl": f"{url}/paid"})["data"]
        wrong_ms, *options = then if isinstance(then, tuple) else (then,)
        with served(tmp_path, int(wrong_ms), *map(str, options)) as (client, _, _):
            assert any(note in text for text in client.ok("GET", "/sandbox/v1")["notes"])
            _, body = inbox.get(timeout=20)
            assert (body["id"], body["status"]) == (charge["id"], "expired")


def test_a_reset_removes_the_notes_of_the_former_run_and_says_how_far_the_clock_is_behind() -> None:
    async def scenario(server: Hosted) -> None:
        async def notes() -> list[str]:
            found: list[str] = (await server.ok("GET", "/sandbox/v1", key="leyden"))["notes"]
            return found

        await server.ok("PATCH", "/sandbox/v1/clock", {"rate": 1}, key="leyden")
        assert await notes() == []
        server.now_ms += 7_200_000
        note(server.first, change_text(server.first, 7_200_000))
        assert ["the system clock was set forward by 2 hours" in text for text in await notes()] == [True]
        shown = await server.ok("POST", "/sandbox/v1/reset", key="leyden")
        assert shown["now"] == shown["start"]
        assert shown["notes"] == await notes()
        [behind] = await notes()
        assert behind.startswith("the sandbox's clock is 2 hours behind the system clock: ")
        await server.ok("POST", "/sandbox/v1/clock/advance", {"by": "2h"}, key="leyden")
        assert await notes() == []
        shown = await server.ok("POST", "/sandbox/v1/reset", {"start": "now"}, key="leyden")
        assert (shown["start"], shown["now"], shown["notes"]) == (to_iso(server.now_ms), to_iso(server.now_ms), [])

    in_server(scenario)


@deep("test_a_reset_removes_the_notes_of_the_former_run_and_says_how_far_the_clock_is_behind")
def test_a_clock_that_runs_again_after_a_pause_or_a_restore_says_how_far_it_is_behind() -> None:
    async def scenario(server: Hosted) -> None:
        async def behind() -> list[str]:
            return re.findall(
                "clock is (.+) behind", str((await server.ok("GET", "/sandbox/v1", key="leyden"))["notes"])
            )

        server.now_ms += 60_000
        assert await behind() == []
        await server.ok("PATCH", "/sandbox/v1/clock", {"rate": 1}, key="leyden")
        assert await behind() == ["1 minute"]
        snapshot = await server.ok("POST", "/sandbox/v1/snapshots", {}, key="leyden")
        server.now_ms += 60_000
        await server.ok("POST", "/sandbox/v1/restore", {"snapshot": snapshot["id"]}, key="leyden")
        assert await behind() == ["2 minutes"]
        await server.ok("PATCH", "/sandbox/v1/clock", {"rate": 2}, key="leyden")
        assert await behind() == []

    in_server(scenario)


def test_a_created_sandbox_starts_and_restarts_at_the_system_clock() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create(start="now")
        assert box["now"] == to_iso(server.now_ms)
        server.now_ms += 60_000
        for path in ("/sandbox/v1/reset", f"/sandbox/v1/sandboxes/{box['id']}/reset"):
            shown = await server.ok("POST", path, {"start": "now"}, key=box["apiKey"])
            assert shown["start"] == to_iso(server.now_ms)

    in_server(scenario)


START_NOW = "leyden serve --start now sets it to the system clock"
RESET = "a reset with the start now begins at the system clock"


def test_the_notes_of_a_created_sandbox_give_only_mends_that_it_has() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create(start="2029-01-01T00:00:00Z", rate=1)
        key = box["apiKey"]
        server.first.can_start_now = True
        for world in (server.world(box), server.first):
            for change_ms in (7_200_000, -7_200_000):
                text = change_text(world, change_ms)
                assert RESET in text
                assert (START_NOW in text) == (world is server.first)
        note(server.world(box), change_text(server.world(box), 7_200_000))
        changed, behind = (await server.ok("GET", "/sandbox/v1", key=key))["notes"]
        for text in (changed, behind):
            assert text.endswith(f"; POST /sandbox/v1/clock/advance moves it, and {RESET}")
        await server.ok("POST", "/sandbox/v1/clock/advance", {"to": to_iso(server.now_ms)}, key=key)
        shown = await server.ok("GET", "/sandbox/v1", key=key)
        assert (shown["now"], shown["notes"]) == (to_iso(server.now_ms), [changed])
        shown = await server.ok("POST", "/sandbox/v1/reset", {"start": "now"}, key=key)
        assert (shown["now"], shown["notes"]) == (to_iso(server.now_ms), [])

    in_server(scenario)


OPTIONS: list[tuple[list[str], bool]] = [
    (["--start", "2024-01-01T00:00:00Z"], True),
    (["--start", "2024-01-01T00:00:00Z", "--data", ":memory:"], False),
    (["--start", "now"], False),
]


@pytest.mark.parametrize(("options", "can_start_now"), with_deep(OPTIONS, OPTIONS[2]))
def test_the_start_now_is_a_mend_of_a_directory_that_was_started_without_it(
    tmp_path: Path, options: list[str], can_start_now: bool
) -> None:
    with served(tmp_path, -7_200_000, *options) as (client, offset, _):
        offset.write_text("0")
        deadline = time.monotonic() + 20
        notes: list[str] = []
        while not any("system clock was set" in text for text in notes):
            assert time.monotonic() < deadline
            time.sleep(0.05)
            notes = client.ok("GET", "/sandbox/v1")["notes"]
        for text in notes:
            assert RESET in text
            assert (START_NOW in text) == can_start_now
        assert client.ok("POST", "/sandbox/v1/reset", {"start": "now"})["notes"] == []


def test_a_sandbox_without_control_or_over_a_network_gets_no_mend_that_it_lacks() -> None:
    def world(**options: Any) -> World:
        return World(world_config(seed=1, start_ms=0, rate=1, real_clock=lambda: 7_200_000, **options), Store.memory())

    plain, network = world(control=False), world(network="line:3")
    network.can_start_now = True
    for change_ms in (7_200_000, -7_200_000):
        assert change_text(plain, change_ms).endswith("a clock that runs does not follow it")
    assert START_NOW in change_text(network, 7_200_000)
    assert START_NOW not in change_text(network, -7_200_000)


def test_a_sandbox_in_python_has_no_system_clock_to_start_at(sandbox: Sandbox) -> None:
    sandbox.advance("1m")
    with pytest.raises(ApiError, match="a sandbox in Python has no system clock") as refused:
        sandbox.ask("POST", "/sandbox/v1/reset", {"start": "now"})
    assert (refused.value.status, sandbox.now) == (409, "2030-01-01T09:01:00.000Z")


@deep("test_the_time_of_a_stop_counts_at_the_saved_rate")
def test_a_server_says_that_a_run_has_another_seed_than_its_option(tmp_path: Path) -> None:
    with served(tmp_path, 0, "--seed", "7", "--rate", "0") as (client, _, _):
        reset = client.ok("POST", "/sandbox/v1/reset")
    with served(tmp_path, 0, "--seed", "7") as (client, _, printed):
        [text] = client.ok("GET", "/sandbox/v1")["notes"]
        assert f"the present run has the seed {reset['seed']}, " in text
        assert "not 7, that of --seed" in text
        client.ok("POST", "/sandbox/v1/reset", {"seed": 7})
        assert client.ok("GET", "/sandbox/v1")["notes"] == []
    assert f"note: {text}" in printed


def test_a_system_clock_outside_the_times_of_a_sandbox_is_refused_as_a_start(tmp_path: Path) -> None:
    wrong_ms = 86_400_000 - now_ms()
    (tmp_path / "offset").write_text(str(wrong_ms))
    process = forked_leyden("serve", "--port", "0", first=wrong_clock_of(tmp_path / "offset"))
    printed, said = process.communicate(timeout=60)
    assert (process.wait(), printed) == (2, "")
    [line] = said.splitlines()
    assert "the system clock shows 1970-01-02T" in line
    with served(tmp_path, wrong_ms, "--start", "2030-01-01T00:00:00Z") as (client, _, _):
        assert client.ok("GET", "/sandbox/v1/clock")["now"].startswith("2030-01-01T00:")


def test_a_new_sandbox_starts_at_the_system_clock(tmp_path: Path) -> None:
    with served(tmp_path, 0, "--start", "now") as (client, _, _):
        assert is_near(client, now_ms())
        assert client.ok("GET", "/sandbox/v1")["notes"] == []


def test_the_servers_clock_reports_each_change_once(monkeypatch: pytest.MonkeyPatch) -> None:
    system = [1_000_000_000]
    monkeypatch.setattr(system_clock, "system_time_ms", lambda: system[0])
    monkeypatch.setattr(system_clock, "_elapsed_ms", lambda: 5_000)
    clock = ServerClock()
    assert (clock.now(), clock.change_ms()) == (1_000_000_000, 0)
    for change in (400 * DAY_MS, -500 * DAY_MS, 1_000, -1_000):
        system[0] += change
        assert (clock.now(), clock.change_ms(), clock.change_ms()) == (1_000_000_000, change, 0)
    system[0] += 999
    assert clock.change_ms() == 0


def test_a_long_stop_is_reported() -> None:
    saved = {"now": 5_000, "rate": 1.0, "time_base": [1_000, 1_000]}
    assert opened_texts(saved, 1, 6_000) == []
    [text] = opened_texts(saved, 1, 5_000 + 2 * DAY_MS)
    assert "stopped for 2 days" in text
    assert opened_texts(saved, 0, 5_000 + 2 * DAY_MS) == []


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (999, "less than a second"),
        (1_000, "1 second"),
        (61_000, "1 minute 1 second"),
        (400 * DAY_MS + 7_200_000 + 60_000, "400 days 2 hours"),
        (DAY_MS + 5_000, "1 day"),
    ],
)
def test_a_span_has_its_two_largest_units(span_ms: int, text: str) -> None:
    assert span_text(span_ms) == text


@pytest.mark.parametrize("projects", [1, 2])
def test_a_start_now_that_is_refused_changes_no_directory(tmp_path: Path, projects: int) -> None:
    """The clock of the first of two projects could go back, that of the second could not."""
    keys = [word for number in range(projects) for word in ("--api-key", f"key-{number}")]
    with served(tmp_path, 0, *keys) as (client, _, _):
        last = Client(client.url, f"key-{projects - 1}")
        last.ok("POST", "/v0/charges", {**BODY, "expiresIn": 86_400})
    files = sorted(path for path in (tmp_path / "data").rglob("*") if path.suffix in (".journal", ".end"))
    before = [path.read_bytes() for path in files]
    assert len(files) == 2 * projects
    (tmp_path / "offset").write_text(str(-30 * DAY_MS))
    words = ["serve", "--port", "0", "--data", str(tmp_path / "data"), "--start", "now", *keys]
    process = forked_leyden(*words, first=wrong_clock_of(tmp_path / "offset"))
    _, printed = process.communicate(timeout=20)
    assert process.wait() == 2
    assert "--start now would set the clock back by" in printed
    assert [path.read_bytes() for path in files] == before


class SlowStart(Hosted):
    """A server whose real time goes on by a tenth of a second each time it is read."""

    @property
    def now_ms(self) -> int:
        self.shown_ms += 100
        return self.shown_ms

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        self.shown_ms = value


def test_the_clock_of_a_sandbox_that_starts_now_shows_the_real_time() -> None:
    async def scenario() -> None:
        hosted = SlowStart()
        for options in ({"rate": 1, "start": "now"}, {"rate": 1, "start": "now", "network": "star:3"}):
            created = (await hosted.ask("POST", "/sandbox/v1/sandboxes", options)).body
            sandbox = hosted.app.sandbox_of_id(created["id"])
            assert sandbox is not None
            world = sandbox.world
            assert world.clock.now() == hosted.shown_ms
            for start in ("now", None, "now"):
                body = {} if start is None else {"start": start}
                answer = await hosted.ask("POST", f"{created['url']}/sandbox/v1/reset", body, key=created["apiKey"])
                assert answer.status == 200, answer
                assert (world.clock.now() == hosted.shown_ms) == (start == "now")

    asyncio.run(scenario())


@pytest.mark.parametrize("start", [(), ("--start", "now"), ("--start", "2030-01-01T00:00:00Z")])
@pytest.mark.parametrize("overlay", [(), ("--overlay", "strict")])
def test_the_clock_of_a_new_server_shows_the_real_time_however_long_its_start_takes(
    start: tuple[str, ...], overlay: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    class TestClock:
        ms = parse_iso("2026-01-01T00:00:00Z")

        def now(self) -> int:
            self.ms += 100
            return self.ms

        def offset_ms(self) -> int:
            return 0

        def change_ms(self) -> int:
            return 0

    clock = TestClock()

    def tried(*_: object) -> None:
        clock.ms += 10_000

    monkeypatch.setattr("leyden.world.trial.trial_requests.try_contract", tried)
    options = build_parser("serve").parse_args(["serve", *overlay, *start])
    worlds: dict[str, World] = {}
    open_server(options, clock, ServerAddresses.of("127.0.0.1", 8402, None), ["leyden"], "token", worlds)
    assert clock.ms > TestClock.ms + 10_000 * bool(overlay)
    now_ms, config = worlds["leyden"].clock.now(), worlds["leyden"].config
    if "2030" in "".join(start):
        assert config.given_start_ms == config.start_ms == parse_iso(start[1]) <= now_ms < config.start_ms + 2_000
    else:
        assert now_ms == clock.ms


class RefusingOnce(PromptNetwork):
    """A network whose receiver refuses the first callback."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0

    def status_of(self, request: CallbackRequest) -> int:
        self.sent += 1
        return 500 if self.sent == 1 else 200


def test_a_retry_of_a_fast_clock_does_not_wait_for_the_next_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.devserver.sandboxes.event_runner._RECHECK_S", 3_600)

    async def scenario(hosted: Hosted) -> None:
        network = RefusingOnce()
        hosted.first.connect_network(network)
        hosted.first.move(lambda clock: clock.set_rate(10_000))
        body = {"amount": "1000", "description": "tea", "expiresIn": 600, "callbackUrl": "http://shop.example/hook"}
        created = await hosted.ask("POST", "/v0/charges", body, key="leyden")
        invoice = created.body["data"]["invoice"]["request"]
        await hosted.ask("POST", "/sandbox/v1/payments", {"request": invoice}, key="leyden")
        async with asyncio.timeout(20):
            while network.sent < 2:
                hosted.now_ms += 1
                await asyncio.sleep(0.001)

    in_server(scenario)


def test_a_journal_that_cannot_be_compacted_is_a_note_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leyden.server.store.storage.GARBAGE_FLOOR", 20)
    with Sandbox(data=tmp_path / "data") as sandbox:

        def notes() -> list[str]:
            return [text for text in sandbox.http.get("/sandbox/v1").json()["notes"] if "compact" in text]

        with monkeypatch.context() as full:
            full.setattr("leyden.server.store.storage.Compaction", failing)
            for _ in range(40):
                sandbox.charges.create(amount="1000", description="tea", expiresIn=1)
                sandbox.advance("2s")
            [note] = notes()
        assert "charges.journal could not be compacted (No space left on device), and grows with each commit" in note
        sandbox.session.world.store.compact()
        assert notes() == []
