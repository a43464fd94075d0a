"""`--follow`: each request and each entry of the journal is printed as it comes."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import NO_VARIABLES
from tests.support.served import Client, served_leyden


class Following:
    """A command that runs: its lines as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def close(self) -> None:
        """Wait for the end of the output."""
        self._reader.join(timeout=30)

    def line(self) -> str:
        return self._lines.get(timeout=30)

    def row(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.line())
        return found


@contextmanager
def following(server: Client, folder: Path, *words: str) -> Iterator[Following]:
    process = subprocess.Popen(
        [sys.executable, "-m", "leyden", *words],
        cwd=folder,
        env={**NO_VARIABLES, "LEYDEN_URL": server.url, "LEYDEN_API_KEY": server.key},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        command = Following(process)
        try:
            yield command
        finally:
            process.kill()
            command.close()


@pytest.fixture
def own(server: Client) -> Client:
    """A client of a sandbox of its own."""
    made = server.ok("POST", "/sandbox/v1/sandboxes", {"rate": 0})
    return Client(server.url, made["apiKey"])


def charge(client: Client, description: str) -> str:
    made: str = client.ok("POST", "/v0/charges", {"amount": "1000", "description": description})["data"]["id"]
    return made


def test_requests_are_printed_as_they_come(own: Client, tmp_path: Path) -> None:
    for number in range(12):
        charge(own, f"tea {number}")
    with following(own, tmp_path, "logs", "--follow", "--json") as command:
        latest = [command.row() for _ in range(10)]
        assert [row["operation"] for row in latest] == ["createCharge"] * 10
        assert [row["id"] for row in latest] == sorted(row["id"] for row in latest)
        made = charge(own, "new")
        assert command.row()["chargeId"] == made
        own("GET", "/v0/charges/abc")
        assert command.row()["status"] == 404


def test_only_requests_that_match_are_printed(own: Client, tmp_path: Path) -> None:
    charge(own, "one of Ana")
    words = ("logs", "--follow", "--json", "--operation", "createCharge", "--text", "Ana")
    with following(own, tmp_path, *words) as command:
        assert command.row()["operation"] == "createCharge"
        charge(own, "one of Bob")
        own("GET", "/v0/wallet")
        made = [charge(own, f"{number} of Ana") for number in range(3)]
        assert [command.row()["chargeId"] for _ in made] == made


def test_people_get_a_table_that_grows(own: Client, tmp_path: Path) -> None:
    with following(own, tmp_path, "logs", "--follow") as command:
        charge(own, "tea")
        assert command.line().split()[:3] == ["id", "time", "method"]
        assert command.line().split()[3:5] == ["POST", "200"]


def test_the_journal_is_followed_across_a_reset(own: Client, tmp_path: Path) -> None:
    charge(own, "tea")
    with following(own, tmp_path, "journal", "--follow", "--json", "--after", "0") as command:
        kinds = {command.row()["kind"] for _ in range(3)}
        assert kinds == {"invoice_issued", "created", "request"}
        own.ok("POST", "/sandbox/v1/reset")
        charge(own, "again")
        charge(own, "and again")  # an event says that the number of entries is another one
        rows = [command.row()]
        while rows[-1]["kind"] != "created":
            rows.append(command.row())
        assert rows[0]["sequence"] == 1


@pytest.mark.skipif(sys.platform == "win32", reason="a process interrupts another one only on POSIX")
def test_an_interrupt_ends_it(own: Client, tmp_path: Path) -> None:
    charge(own, "tea")
    with following(own, tmp_path, "logs", "--follow", "--json") as command:
        command.row()
        os.kill(command.process.pid, signal.SIGINT)
        assert command.process.wait(timeout=30) == 0


def test_the_end_of_the_server_is_one_line(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(served_leyden())
        charge(server, "tea")
        with following(server, tmp_path, "logs", "--follow", "--json") as command:
            command.row()
            charge(server, "tea")
            command.row()  # the stream is open
            stack.close()
            assert command.process.wait(timeout=30) == 1
            assert command.process.stderr is not None
            printed = command.process.stderr.read()
    assert printed.count("\n") == 1
    assert "the sandbox or the server did, or an API key was replaced: follow them again" in printed
