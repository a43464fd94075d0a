"""Probes and files that tell other programs that a server runs: /healthz, /readyz, --ready-file, --pid-file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import pytest

from leyden.devserver.startup.state_files import state_files
from leyden.files.json_files import InputError
from leyden.server.errors import StorageUnavailable
from leyden.server.system.stop_signals import STOP_SIGNALS
from tests.support.hosted import Hosted, in_server
from tests.support.served import run_command, started_server


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "probe.example", ""])
def test_probes_need_no_key_and_name_no_host(host: str) -> None:
    async def scenario(server: Hosted) -> None:
        await asyncio.sleep(0.01)
        for path, word in (("/healthz", "ok"), ("/readyz", "ready")):
            answer = await server.ask("GET", path, headers={"host": host})
            assert (answer.status, answer.body) == (200, {"status": word})
            assert answer.headers["cache-control"] == "no-store"
            assert (await server.ask("HEAD", path, headers={"host": host})).status == 200
            assert (await server.ask("POST", path, {}, headers={"host": host})).headers["allow"] == "GET, HEAD"
        assert len(server.first.journal) == 0

    in_server(scenario)


def test_a_server_whose_events_fail_is_healthy_and_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: object) -> None:
        raise StorageUnavailable("the disk is full")

    async def scenario(server: Hosted) -> None:
        await asyncio.sleep(0.01)
        events = server.app._events
        with monkeypatch.context() as patched:
            patched.setattr("leyden.devserver.sandboxes.event_runner.catch_up", refuse)
            await events.catch_up(server.first)
            answer = await server.ask("GET", "/readyz")
            assert (answer.status, "due events fail" in answer.body["detail"]) == (503, True)
            assert "disk" not in json.dumps(answer.body)
            assert (await server.ask("GET", "/healthz")).status == 200
        await events.catch_up(server.first)
        assert (await server.ask("GET", "/readyz")).status == 200

    in_server(scenario)


def test_a_server_is_not_ready_while_it_runs_what_became_due_before(monkeypatch: pytest.MonkeyPatch) -> None:
    released = asyncio.Event()

    async def wait(_: object) -> None:
        await released.wait()

    async def scenario(server: Hosted) -> None:
        assert (await server.ask("GET", "/readyz")).body["detail"].startswith("what became due")
        released.set()
        await asyncio.sleep(0.01)
        assert (await server.ask("GET", "/readyz")).status == 200

    monkeypatch.setattr("leyden.devserver.sandboxes.event_runner.catch_up", wait)
    in_server(scenario)


@pytest.mark.parametrize("stop", STOP_SIGNALS)
def test_the_files_are_there_as_long_as_the_server(tmp_path: Path, stop: signal.Signals) -> None:
    ready, pid = tmp_path / "ready", tmp_path / "pid"
    ready.write_text("http://127.0.0.1:1\n")  # an earlier process was killed
    pid.write_text("1\n")
    with started_server("--ready-file", str(ready), "--pid-file", str(pid)) as (client, _):
        # The file comes after the line on stdout.
        until = time.monotonic() + 10
        while not ready.exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert ready.read_text() == f"{client.url}\n"
        assert client.ok("GET", "/readyz") == {"status": "ready"}
        os.kill(int(pid.read_text()), stop)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_one_line_at_the_start(tmp_path: Path) -> None:
    for option in ("--ready-file", "--pid-file"):
        done = run_command("serve", "--port", "0", option, str(tmp_path / "nowhere" / "file"))
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert option in done.stderr


def test_the_file_of_another_server_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with state_files(str(path), None) as ready:
        assert (path.read_text(), ready) == (f"{os.getpid()}\n", None)
        path.write_text("12345\n")
    assert path.read_text() == "12345\n"
    with pytest.raises(InputError, match="--pid-file"), state_files(str(tmp_path), None):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["pid"]


@pytest.mark.parametrize("before", [True, False], ids=["before it is there", "as soon as it is there"])
def test_a_signal_while_a_file_is_written_leaves_nothing(
    before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace

    def interrupted(draft: Path, path: Path) -> None:
        if not before:
            real(draft, path)
        raise KeyboardInterrupt

    monkeypatch.setattr("leyden.devserver.startup.state_files.os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt), state_files(str(tmp_path / "pid"), None):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["notes of a person\n", "12345 67\n", "1\n2\n", " ", "http:/\n", "9" * 2_000])
@pytest.mark.parametrize("option", ["--pid-file", "--ready-file"])
def test_a_file_that_no_server_wrote_is_not_replaced(option: str, content: str, tmp_path: Path) -> None:
    path, free = tmp_path / "notes", str(tmp_path / "free")
    path.write_text(content)
    arguments = (str(path), free) if option == "--pid-file" else (free, str(path))
    with pytest.raises(InputError, match=f"^{option} .*notes exists.*choose another path$"), state_files(*arguments):
        pass
    assert (path.read_text(), [file.name for file in tmp_path.iterdir()]) == (content, ["notes"])


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "dead link", "device"])
def test_what_is_no_regular_file_is_neither_replaced_nor_removed(kind: str, tmp_path: Path) -> None:
    path = Path("/dev/null") if kind == "device" else tmp_path / "path"
    (tmp_path / "pid").write_text("1\n")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind.endswith("link"):
        path.symlink_to(tmp_path / ("pid" if kind == "link" else "nowhere"))
    before = path.lstat()
    for arguments in ((str(path), None), (None, str(path))):
        with pytest.raises(InputError, match="is no regular file"), state_files(*arguments):
            pass
    after = path.lstat()
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)
    assert (tmp_path / "pid").read_text() == "1\n"


def test_both_files_have_paths_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for other in ("state", "sub/../state"):
        with pytest.raises(InputError, match="are both"), state_files(str(tmp_path / "state"), str(tmp_path / other)):
            pass
    assert [file.name for file in tmp_path.iterdir()] == ["sub"]


def test_a_foreign_file_is_one_line_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("notes")
    for option in ("--ready-file", "--pid-file"):
        done = run_command("serve", "--port", "0", option, str(tmp_path / "notes"))
        assert (done.returncode, len(done.stderr.splitlines()), option in done.stderr) == (2, 1, True), done.stderr
    assert (tmp_path / "notes").read_text() == "notes"


def test_what_replaced_a_file_since_stays(tmp_path: Path) -> None:
    pid, ready = tmp_path / "pid", tmp_path / "ready"
    ready.touch()
    with state_files(str(pid), str(ready)) as file:
        assert file is not None
        file.write("http://127.0.0.1:8402")
        assert ready.read_text() == "http://127.0.0.1:8402\n"
        ready.write_text("notes")
        pid.unlink()
        os.mkfifo(pid)
    assert (ready.read_text(), pid.is_fifo()) == ("notes", True)
