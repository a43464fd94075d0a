"""The examples of every help are run: those for a served sandbox on a server that has what they name."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leyden.commands.catalogue import GROUPS, build_parser
from leyden.harness.runs.cases import Case
from tests.commands.conftest import NO_VARIABLES, Leyden
from tests.commands.test_parser import examples, parsers
from tests.support.deep import deep_except, sampled
from tests.support.example_receivers import CarefulReceiver, serving_receiver
from tests.support.served import Client

SERVED = [command.name for command in GROUPS["Requests to a served sandbox"]]
ALL = {line: parser.prog for parser in parsers(build_parser()) for line in examples(parser)}
# They run until they are interrupted: the line that they print first.
UNTIL_INTERRUPTED = {"serve": "Leyden listening on http://", "listen": "Listening to http://", "--follow": ""}
ENDLESS = {line: first for line in ALL for word, first in UNTIL_INTERRUPTED.items() if word in line.split()[1:]}
OF_SERVED = [line for line in ALL if line.split()[1] in SERVED and line not in ENDLESS]
OTHERS = [line for line in ALL if line.split()[1] not in SERVED and line not in ENDLESS]
# The first example of each command, but none of those that play many cases.
LONG = ("conformance", "client-check")
# Other tests run these commands.
RUN_ELSEWHERE = ("adapter", "fuzz", "lab")
LEFT_OUT = (*LONG, *RUN_ELSEWHERE)
FIRST = {line.split()[1]: line for line in reversed(OTHERS) if line.split()[1] not in LEFT_OUT}.values()
# A client that sends its request once.
CLIENT = """
import json, os, urllib.request
request = urllib.request.Request(
    os.environ["LEYDEN_URL"] + "/v0/charges",
    json.dumps({"amount": "1000", "description": "tea"}).encode(),
    {"apikey": os.environ["LEYDEN_API_KEY"], "content-type": "application/json"},
)
json.load(urllib.request.urlopen(request, timeout=1))
"""


def with_things(server: Client, line: str, folder: Path) -> list[str]:
    """The words of an example, with the ids of things that are made for it."""
    ids: dict[str, str] = {}

    def charge() -> dict[str, Any]:
        body = {"amount": "1000", "description": "tea", "callbackUrl": "http://shop.localhost/paid"}
        made: dict[str, Any] = server.ok("POST", "/v0/charges", body)["data"]
        return made

    if "CHARGE" in line:
        ids["CHARGE"] = charge()["id"]
    if "STATIC_CHARGE" in line:
        body = {"minAmount": "1000", "maxAmount": "50000", "description": "tips"}
        ids["STATIC_CHARGE"] = server.ok("POST", "/v0/static-charges", body)["data"]["id"]
    if "PAYMENT" in line or "DELIVERY" in line:
        for name, outcome in (("PAYMENT", "settle"), ("HELD_PAYMENT", "hold")):
            paid = charge()
            order = {"request": paid["invoice"]["request"], "outcome": outcome}
            ids[name] = server.ok("POST", "/sandbox/v1/payments", order)["id"]
            if name == "PAYMENT":
                deliveries = server.ok("GET", f"/sandbox/v1/deliveries?chargeId={paid['id']}")["data"]
                ids["DELIVERY"] = deliveries[0]["id"]
    if "SANDBOX" in line:
        for name in ("SANDBOX", "OTHER_SANDBOX"):
            ids[name] = server.ok("POST", "/sandbox/v1/sandboxes", {"seed": 7})["id"]
        server.ok("POST", f"/sandbox/v1/sandboxes/{ids['SANDBOX']}/snapshots", {})
    if "checkout.json" in line:
        saved_sandbox(server, folder)
    if "snapshot-1" in line and not server.ok("GET", "/sandbox/v1/snapshots")["data"]:
        server.ok("POST", "/sandbox/v1/snapshots", {})
    words = shlex.split(line.replace("http://127.0.0.1:8402", server.url))[1:]
    return [ids.get(word, word) for word in words]


@pytest.mark.parametrize("line", sampled(OF_SERVED, 4))
def test_an_example_for_a_served_sandbox_works(leyden: Leyden, server: Client, tmp_path: Path, line: str) -> None:
    words = with_things(server, line, tmp_path)
    into = words.pop() if ">" in words else None
    done = leyden(*[word for word in words if word != ">"])
    assert done.returncode == 0, done.stderr
    if into is not None:
        (tmp_path / into).write_text(done.stdout)
    if "--json" in words:
        assert [json.loads(row) for row in done.stdout.splitlines()] or "--all" in words
    assert done.stdout or done.stderr
    if "--rate" in words or "reset" in words:
        server.ok("POST", "/sandbox/v1/reset", {"seed": 7, "start": "2030-01-01T09:00:00Z"})
        server.ok("PATCH", "/sandbox/v1/clock", {"rate": 0})


@pytest.fixture(scope="module")
def receiver() -> Iterator[str]:
    """The URL of a careful receiver that has the default secret of `receiver-check`."""
    from leyden.commands.receivers import EXAMPLE_SECRET

    with serving_receiver(CarefulReceiver, EXAMPLE_SECRET) as (url, _):
        yield url


def saved_sandbox(server: Client, folder: Path) -> None:
    """A saved sandbox as `checkout.json` in a directory."""
    (folder / "checkout.json").write_text(json.dumps(server.ok("GET", "/sandbox/v1/export")))


def local(line: str, server: Client, receiver: str) -> list[str]:
    """The words of an example, with addresses and files that exist, and a shorter run."""
    for given, here in (
        ("http://127.0.0.1:8402", server.url),
        ("http://127.0.0.1:9000", server.url),
        ("http://localhost:3000/hook", receiver),
        ("http://localhost:3000", receiver),
        ("--seconds 60", "--seconds 1 --engines random-walk"),
        ("-- python", f"-- {shlex.quote(sys.executable)}"),
    ):
        line = line.replace(given, here)
    return shlex.split(line)[1:]


@pytest.mark.parametrize("line", deep_except(OTHERS, *FIRST))
def test_any_other_example_works(server: Client, receiver: str, tmp_path: Path, line: str) -> None:
    words = local(line, server, receiver)
    (tmp_path / "my_client.py").write_text(CLIENT)
    if "--check" in words:
        (tmp_path / "shop.py").write_text("class Adapter:\n    def now(self):\n        return 1.0\n")
    saved_sandbox(server, tmp_path)
    (tmp_path / "findings").mkdir()
    (tmp_path / "findings" / "CASE.case.json").write_text(Case(({"do": "advance", "by": 1_000},)).dumps())
    jupyterlab = tmp_path / "packages" / "jupyterlab"
    jupyterlab.mkdir(parents=True)
    (jupyterlab / "__init__.py").touch()
    (jupyterlab / "__main__.py").write_text("import sys; sys.exit(0)")
    done = subprocess.run(
        [sys.executable, "-m", "leyden", *words[: words.index(">") if ">" in words else None]],
        cwd=tmp_path,
        env={**NO_VARIABLES, "PYTHONPATH": os.pathsep.join([str(jupyterlab.parent), os.environ["PYTHONPATH"]])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # This client has no retries: its grade is below B.
    assert done.returncode == (1 if words[0] == "client-check" else 0), done.stdout + done.stderr
    assert done.stdout


@pytest.mark.parametrize("line", sampled(list(ENDLESS), 3))
def test_an_example_that_runs_until_it_is_interrupted_starts(
    server: Client, receiver: str, tmp_path: Path, line: str
) -> None:
    words = local(line, server, receiver)
    if words[0] == "serve":
        words += ["--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "leyden", *words],
        cwd=tmp_path,
        env={**NO_VARIABLES, "LEYDEN_URL": server.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        server.ok("POST", "/v0/charges", {"amount": "1000", "description": "tea"})
        assert process.stdout.readline().startswith(ENDLESS[line])
    finally:
        process.terminate()
        _, printed = process.communicate(timeout=20)
    assert "Traceback" not in printed
