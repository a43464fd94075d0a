"""Standard output and error of every command: on a full disk, closed, and in an encoding without the characters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from leyden import Sandbox
from leyden.commands.catalogue import build_parser
from leyden.server.version import VERSION
from tests.commands.conftest import NO_VARIABLES
from tests.commands.test_parser import parsers
from tests.commands.test_urls_and_files import CASE
from tests.support.deep import deep_except
from tests.support.served import Client

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")

# Each command in a process of its own, forked from one that has imported the commands.
PROGRAM = """
import io, json, os, signal, sys, tempfile
import leyden.__main__, leyden.commands.catalogue, leyden.harness.command, leyden.devserver.serve

for words, output, encoding in json.loads(sys.argv[1]):
    files = [tempfile.TemporaryFile() for _ in range(2)]
    pid = os.fork()
    if not pid:
        for number, file in enumerate(files, 1):
            os.dup2(file.fileno(), number)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), errors="backslashreplace", write_through=True)
        if output == "closed":
            os.close(1)
            sys.stdout = None
        else:
            if output == "full":
                os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding=encoding)
        sys.argv = ["leyden", *words]
        signal.alarm(60)
        try:
            status = leyden.__main__.main()
        except SystemExit as end:
            status = end.code
        except BaseException:
            sys.excepthook(*sys.exc_info())
            status = 99
        try:
            sys.stdout.flush()
        except BaseException:
            status = 120
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    texts = []
    for file in files:
        file.seek(0)
        texts.append(file.read().decode("latin-1"))
    print(json.dumps([status, *texts]), flush=True)
"""
TEXT = "Café ☕"


class Ended(NamedTuple):
    """A process that has ended: its status, and what it wrote."""

    status: int
    printed: str
    stderr: str


def run(server: Client, folder: Path, given: list[tuple[list[str], str, str]]) -> Iterator[tuple[list[str], Ended]]:
    """Each of the commands with its output and the encoding of it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(given)],
        env={**NO_VARIABLES, "LEYDEN_URL": server.url},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ended = [Ended(*json.loads(line)) for line in done.stdout.splitlines()]
    return zip([words for words, *_ in given], ended, strict=True)


@pytest.fixture
def printing(server: Client, tmp_path: Path) -> list[list[str]]:
    """A use of each command that prints something, and each help."""
    charge: dict[str, Any] = server.ok(
        "POST", "/v0/charges", {"amount": "1000", "description": TEXT, "callbackUrl": "http://shop.localhost/paid"}
    )["data"]
    tips = {"minAmount": "1000", "maxAmount": "5000", "description": TEXT}
    static = server.ok("POST", "/v0/static-charges", tips)["data"]["id"]
    body = {"request": charge["invoice"]["request"]}
    payment = server.ok("POST", "/sandbox/v1/payments", body)["id"]
    delivery = server.ok("GET", "/sandbox/v1/deliveries")["data"][0]["id"]
    server.ok("POST", "/sandbox/v1/snapshots", {})
    case = json.loads(CASE % (VERSION, '""'))
    case["steps"] = [{"do": "create_charge", "as": "c1", "body": {"amount": "1000", "description": TEXT}}]
    (tmp_path / "case.json").write_text(json.dumps({**case, "foundOn": "in process", "adapter": ""}))
    with Sandbox(seed=1) as sandbox:
        sandbox.save(tmp_path / "saved.json")
    helps = [[*parser.prog.split()[1:], "--help"] for parser in parsers(build_parser())]
    return [
        *helps, [], ["version"], ["version", "--json"], ["table"],
        *(["completion", shell] for shell in ("bash", "zsh")),
        ["serve", "--port", "0"], ["charges", "list"], ["charges", "list", "--json"], ["charges", "show", charge["id"]],
        ["charges", "create", "--amount", "1000", "--description", TEXT], ["static-charges", "show", static],
        ["static-charges", "list"], ["payments", "list"], ["payments", "show", payment], ["deliveries", "list"],
        ["deliveries", "show", delivery], ["deliveries", "replay", delivery], ["journal"], ["logs"],
        ["clock"], ["advance", "1s"], ["sandbox", "show"],
        ["sandbox", "diff", "--snapshot", "snapshot-1"], ["sandbox", "export", "-"],
        ["api", "GET", f"/v0/charges/{charge['id']}"], ["replay", "case.json"], ["replay", "saved.json"],
        *(["replay", "case.json", "--export", form] for form in ("pytest", "curl", "notebook", "spec")),
        ["receiver-check", "http://127.0.0.1:1/hook"], ["client-check", "--only", "plain", "--html", "-", "--", "true"],
        ["fuzz", "--engines", "random-walk", "--examples", "1", "--workers", "1"],
    ]  # fmt: skip


@pytest.mark.parametrize("output", ["full", "closed"])
def test_output_that_cannot_be_written_is_one_line(
    output: str, printing: list[list[str]], server: Client, tmp_path: Path
) -> None:
    cause = "No space left on device" if output == "full" else "it is closed"
    for words, ended in run(server, tmp_path, [(words, output, "utf-8") for words in printing]):
        *before, line = ended.stderr.splitlines() or [""]
        assert (ended.status, ended.printed) == (2, ""), (words, ended)
        assert f": standard output cannot be written ({cause}): send it to another place" in line, (words, ended)
        assert line.startswith("leyden"), (words, ended)
        # A check has printed on standard error how far it is, and a server was ready.
        assert "Traceback" not in ended.stderr
        assert len(before) < 3, (words, ended)


@pytest.mark.parametrize("encoding", deep_except(["ascii", "cp1252"], "ascii"))
def test_a_character_that_the_output_does_not_have_is_escaped(
    encoding: str, printing: list[list[str]], server: Client, tmp_path: Path
) -> None:
    given = [words for words in printing if words[:1] != ["serve"] or "--help" in words]
    cup = 0
    for words, ended in run(server, tmp_path, [(words, "written", encoding) for words in given]):
        assert ended.status in (0, 1, 2, 3), (words, ended)
        assert ended.printed, (words, ended)
        assert not any(word in ended.stderr for word in ("Traceback", "codec", "answer as Leyden")), (words, ended)
        cup += "\\u2615" in ended.printed and "--json" not in words
    assert cup > 5


@pytest.mark.parametrize("errors", ["/dev/full", "closed"])
def test_a_server_whose_errors_cannot_be_written_serves(errors: str, tmp_path: Path) -> None:
    end = "2>&-" if errors == "closed" else f"2>{errors}"
    command = f'exec "{sys.executable}" -m leyden serve --port 0 {end}'
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            assert Client(url)("GET", "/v0/charges")[0] == 200
        finally:
            process.terminate()
        assert process.wait(20) == 0


def test_no_file_of_a_server_gets_the_number_of_a_stream_that_was_closed(tmp_path: Path) -> None:
    """What prints to the descriptor, as a C library does, would write into the data."""
    ready = tmp_path / "ready"
    command = (
        f'exec "{sys.executable}" -m leyden serve --port 0 --data "{tmp_path}/data" --ready-file "{ready}" <&- 2>&-'
    )
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            links = [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in (0, 2)]
        finally:
            process.terminate()
    assert links == ["/dev/null", "/dev/null"]


def test_the_reader_of_a_command_may_leave() -> None:
    for words in ("table", "completion bash"):
        command = f'("{sys.executable}" -m leyden {words}; echo $? >&2) | head -n 1'
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert (done.stderr, len(done.stdout.splitlines())) == ("0\n", 1)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("receiver-check http://127.0.0.1:9/nobody", 3),
        ("client-check --only plain -- false", 3),
        ("replay nowhere.json", 2),
        ("table", 0),
    ],
)
def test_a_command_whose_reader_has_left_has_the_status_that_it_has_with_a_reader(words: str, status: int) -> None:
    for reader in ("cat >/dev/null", "true"):
        command = f'("{sys.executable}" -m leyden {words} 2>/dev/null; echo $? >&2) | {reader}'
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert done.stderr == f"{status}\n", reader


def test_a_failed_payment_without_a_reader_is_a_failure_and_a_follower_ends(server: Client) -> None:
    _, created = server("POST", "/v0/charges", {"amount": "1000", "description": "tea", "expiresIn": 60})
    for words, status in (
        (f"pay {created['data']['id']} --outcome fail", 1),
        ("logs --follow", 0),
        ("charges list --all", 0),
    ):
        command = f'("{sys.executable}" -m leyden {words} --url {server.url} 2>/dev/null; echo $? >&2) | true'
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
        assert done.stderr == f"{status}\n", words


def test_a_request_that_was_answered_is_named_where_its_response_cannot_be_written(server: Client) -> None:
    words = f"charges create --amount 1000 --description tea --url {server.url}"
    command = f'exec "{sys.executable}" -m leyden {words} >/dev/full'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "POST /v0/charges was answered, so it is done" in done.stderr
    command = f'exec "{sys.executable}" -m leyden charges list --url {server.url} >/dev/full'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, "answered" in done.stderr) == (2, False)
