"""Errors of commands are one line, whatever paths and values they quote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from leyden import Sandbox
from leyden.__main__ import main
from leyden.errors import ForkError, LeydenError

HOSTILE = "no\nsuch\x1b[31m\u2028file.json"
COMMANDS = (
    ["serve", "--spec", HOSTILE],
    ["serve", "--overlay", HOSTILE],
    ["serve", "--network", HOSTILE],
    ["serve", "--seed", HOSTILE],
    ["serve", "--start", HOSTILE],
    ["serve", "--egress-allow", HOSTILE],
    ["serve", "--autopay", HOSTILE],
    ["serve", "--port", HOSTILE],
    ["replay", HOSTILE],
    ["load", HOSTILE],
    ["fuzz", "--spec", HOSTILE],
    ["fuzz", "http://127.0.0.1:9", "--adapter", HOSTILE],
    ["adapter", "--check", HOSTILE],
    ["conformance", "--spec", HOSTILE],
    ["receiver-check", HOSTILE],
    ["client-check", "--", HOSTILE],
    ["listen", HOSTILE],
    [HOSTILE],
    ["table", HOSTILE],
    ["charge", "--url", HOSTILE],
)


@pytest.mark.parametrize("given", COMMANDS, ids=lambda given: " ".join(given)[:30].encode("unicode_escape").decode())
def test_an_error_that_quotes_a_text_with_line_feeds_is_one_line(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        status = main(given)
    except SystemExit as end:
        status = int(end.code or 0)
    text = capsys.readouterr().err
    assert status in (1, 2, 3)
    assert text.endswith("\n")
    assert len(text.splitlines()) == 1, text
    assert text[:-1].isprintable()


@pytest.mark.parametrize(
    "words",
    [
        ["listen", "http://127.0.0.1:9", "--egress-allow"], ["fuzz", "--engines"], ["clock", "--rate"],
        ["conformance", "--format"], ["serve", "--port"], ["api"], ["serve", "--overlay", "strict", "--durability"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_error_that_quotes_a_long_argument_keeps_its_start_and_its_end(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*words, "A" * 100_000])
    [line] = capsys.readouterr().err.splitlines()
    assert len(line) < 1_100
    assert line.startswith(f"leyden {words[0]}: ")


def test_an_error_of_the_python_api_that_quotes_a_path_is_one_line(tmp_path: Path) -> None:
    (tmp_path / HOSTILE).write_text("{}")
    for path in (tmp_path / HOSTILE, tmp_path / "no\nother"):
        with pytest.raises(ForkError) as refused:
            Sandbox.load(path)
        assert str(refused.value).isprintable()


def test_an_error_of_a_page_without_markers_names_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("no marker\n")
    assert main(["table", "--into", str(page)]) == 2
    assert capsys.readouterr().err.startswith(f"leyden table: {page}: the marker <!-- leyden:table routes -->")
    assert page.read_text() == "no marker\n"


def test_a_long_text_of_an_error_keeps_its_start_and_its_mend() -> None:
    text = str(LeydenError(f"name={'x' * 100_000} is not possible: give another"))
    assert len(text) < 1_100
    assert text.startswith("name=xxx")
    assert text.endswith("is not possible: give another")


@pytest.mark.parametrize(
    ("given", "status"),
    [
        *(([check], 3) for check in ("conformance", "fuzz", "replay", "adapter", "receiver-check", "client-check")),
        *(([command], 1) for command in ("pay", "advance", "lab", "deliveries", "table")),
        ([], 1),
        *((given, 0) for given in (["serve"], ["listen"], ["logs", "--follow"], ["journal", "--json", "--follow"])),
    ],
    ids=str,
)
def test_an_interrupt_is_a_success_only_of_what_runs_until_then(
    given: list[str], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: list[str], *, is_process: bool) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("leyden.__main__._run", interrupted)
    assert main(given) == status
    assert capsys.readouterr() == ("", "leyden: interrupted before the end\n" if status else "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_check_of_a_client_that_is_stopped_has_no_grade_and_ends_the_client(
    number: signal.Signals, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    client = f"import os, pathlib, time; pathlib.Path({str(started)!r}).write_text(str(os.getpid())); time.sleep(60)"
    words = ["-m", "leyden", "client-check", "--", sys.executable, "-c", client]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as check:
        while not (started.exists() and started.read_text()):
            assert check.poll() is None
            time.sleep(0.02)
        check.send_signal(number)
        printed, error = check.communicate(timeout=30)
    assert (check.returncode, error.splitlines()[-1]) == (3, "leyden: interrupted before the end"), printed
    with suppress(ProcessLookupError):
        for _ in range(500):  # until the system has removed it
            os.kill(int(started.read_text()), 0)
            time.sleep(0.02)
        pytest.fail("the client still runs")
