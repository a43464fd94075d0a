"""Named pipes: a command that waits for the other end of one says so, and a pipe whose other end is open is used."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.__main__ import main
from leyden.commands.served import sandbox_copies
from leyden.files.json_files import InputError, read_bytes
from leyden.files.written_files import check_file, write_document, write_private
from leyden.harness import command
from leyden.harness.reports.results import CampaignReport
from leyden.server import pipes
from leyden.server.contract.load import default_spec
from tests.commands.test_odd_paths import OPTIONS, PathOption
from tests.commands.test_urls_and_files import CASE

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")


class Waits(BaseException):
    """In place of a wait."""


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    return path


@pytest.fixture(autouse=True)
def no_endless_wait() -> Iterator[None]:
    """A test that waits for a pipe fails; how long it takes is not asserted."""

    def end(*_: object) -> None:
        raise AssertionError("it waits for the other end of a pipe and does not say so")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def said(monkeypatch: pytest.MonkeyPatch, then: Callable[[Path], Any]) -> list[str]:
    """What is waited for, `reads` or `writes`. `then` runs in a thread when a wait is said."""
    found: list[str] = []

    def say(path: str | Path, verb: str) -> None:
        found.append(verb)
        threading.Thread(target=then, args=(Path(path),)).start()

    monkeypatch.setattr("leyden.server.pipes._say", say)
    return found


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name[7:])
def test_no_command_waits_for_a_pipe_without_a_word(
    option: PathOption,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def wait(path: str | Path, verb: str) -> None:
        raise Waits(str(path))

    monkeypatch.setattr("leyden.server.pipes._say", wait)
    monkeypatch.setattr(command, "run_campaign", lambda *_: CampaignReport())
    monkeypatch.setattr(sandbox_copies, "Client", lambda options: lambda *_, **__: b"{}")
    monkeypatch.setattr(sandbox_copies, "sandbox_path", lambda options: "")
    path, case = tmp_path / ("pipe.py" if option.action.dest in ("adapter", "check", "call") else "pipe.json"), "case"
    os.mkfifo(path)
    (tmp_path / case).write_text(CASE % ("0", '"http://127.0.0.1:1"'))
    waits = ""
    try:
        status = main(option.words(str(path), str(tmp_path / case)))
    except Waits as error:
        status, waits = 2, str(error)
    text = capsys.readouterr().err + waits
    assert status == 2, text
    assert str(path) in text
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_pipe_without_a_writer_is_waited_for_and_read(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "é" * 200_000  # more than a pipe holds
    found = said(monkeypatch, lambda path: path.write_text(text))
    assert (read_bytes(pipe).decode(), found) == (text, ["writes"])


def test_a_writer_that_writes_nothing_ends_the_wait(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = said(monkeypatch, lambda path: path.write_text(""))
    assert (read_bytes(pipe), found) == (b"", ["writes"])


@pytest.mark.parametrize("is_late", [False, True])
def test_a_pipe_with_a_writer_is_read_without_a_word(
    pipe: Path, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = said(monkeypatch, lambda path: None)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    os.close(reader) if is_late else None
    if not is_late:
        os.write(writer, b"content")
    rest = threading.Timer(0.2 * is_late, lambda: (os.write(writer, b"content" if is_late else b"!"), os.close(writer)))
    rest.start()
    assert read_bytes(pipe).startswith(b"content")
    assert found == []
    rest.join()


def test_a_pipe_without_a_reader_is_waited_for_and_written(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for write in (write_private, write_document):
        read: list[str] = []
        found = said(monkeypatch, lambda path, read=read: read.append(path.read_text()))
        check_file(pipe)
        assert found == []
        write(pipe, "text")
        for thread in threading.enumerate():
            if thread is not threading.main_thread() and not thread.daemon:
                thread.join()
        assert (read, found) == (["text"], ["reads"])


def test_the_word_is_one_line_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipes._say(tmp_path / "a\nb", "writes")
    text = capsys.readouterr().err
    assert text == f"leyden: {tmp_path}/a\\nb is a pipe: waiting until a program writes it\n"


def test_a_sandbox_is_loaded_from_a_pipe(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox(seed=1) as sandbox:
        text = json.dumps(sandbox.snapshot())
        found = said(monkeypatch, lambda path: path.write_text(text))
        again = Sandbox.load(pipe)
        assert again.now == sandbox.now
        again.close()
    assert found == ["writes"]


def test_the_pipes_of_a_shell_are_used_without_a_word() -> None:
    """`/dev/stdin`, `/dev/stdout` and those of a process substitution, which are at `/dev/fd`."""
    read, write = os.pipe()
    os.close(write)
    with pytest.raises(InputError, match="Is a directory"):
        read_bytes("/")
    assert read_bytes(f"/dev/fd/{read}") == b""
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "leyden", "table", "--spec", "/dev/stdin"],
        input=default_spec().read_bytes(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    with Sandbox(seed=1) as sandbox:
        saved = json.dumps(sandbox.snapshot()).encode()
    for words in (["replay", "/dev/stdin"], ["client-check", "--only", "plain", "--html", "/dev/stdout", "--", "true"]):
        done = subprocess.run([sys.executable, "-m", "leyden", *words], input=saved, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0 if words[0] == "replay" else 3, b""), done.stderr
        assert b"the same" in done.stdout or b"</html>" in done.stdout
    program = "from leyden.files.written_files import write_private; write_private('/dev/stdout', 'text')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"text", b"")
