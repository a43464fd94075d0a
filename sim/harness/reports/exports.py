"""Exports: a case as a pytest file, a script of curl commands, or a notebook, for whoever is to see it happen."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable, Mapping
from pprint import pformat

from leyden.harness.model.rules import iso
from leyden.harness.options import KEY
from leyden.harness.runs.cases import Case, play
from leyden.harness.runs.run import Request
from leyden.lab.notebook_writer import CODE, MARKDOWN, Cell, document, dumps
from leyden.server.errors import LeydenError


class ExportError(LeydenError, ValueError):
    """A case that cannot be said in the form asked for."""


def as_pytest(case: Case) -> str:
    """A file for pytest: it fails with the story while the promise is broken, and passes when it is kept."""
    document = pformat(case.document(), width=116, sort_dicts=False)
    story = "\n".join(f"# {line}".rstrip() for line in case.tell().splitlines())
    return (
        f'"""{_one_line(case)}"""\n\n{story}\n\n'
        "from leyden.harness.runs.cases import read_case, replay\n\n"
        f"CASE = {document}\n\n\n"
        "def test_the_promise_is_kept():\n"
        "    replay(read_case(CASE)).check()\n\n\n"
        "def test_the_steps_lead_to_the_same_journal():\n"
        "    replayed = replay(read_case(CASE))\n"
        '    assert replayed.journal_hash == CASE["journalHash"]\n'
    )


def as_curl(case: Case) -> str:
    """A shell script: the requests, one after another, to a fresh `leyden serve` at $LEYDEN, and what they answer.

    The last one is the one whose answer broke the promise; for a case without a finding it asks for the journal's hash.
    Raises `ExportError` for a case that needs more than one server's HTTP, such as a restart.
    """
    if case.restarts:
        raise ExportError("this case stops and starts the service, which curl cannot: export it as pytest or notebook")
    played = play(case)
    requests = [*played.requests]
    if played.revealed is not None and played.revealed[0] not in requests[-1:]:
        requests.append(played.revealed[0])
    overlays = "".join(f" --overlay {name}" for name in case.overlays)
    serve = (
        f"leyden serve --port 8402 --rate 0 --seed {case.seed} --start {iso(case.start_ms)} --api-key {KEY}"
        f" --public-url http://localhost{overlays}"
    )
    lines = ["#!/bin/sh", f"# {_one_line(case)}", "#", "# First, in another terminal:", f"#   {serve}", "#"]
    lines += [f"# {line}".rstrip() for line in case.tell().splitlines()]
    lines += ["", "set -eu", 'LEYDEN="${LEYDEN:-http://127.0.0.1:8402}"', ""]
    for request in requests:
        lines += [_curl(request), "echo"]
    if case.expectation is None:
        lines += ["", "# The proof: the journal's hash is " + str(case.journal_hash), _curl(_hash_request()), "echo"]
    return "\n".join(lines) + "\n"


def as_notebook(case: Case) -> str:
    """A notebook (nbformat 4): the story, a world of the same seed, a cell for each request, the proof at the end."""
    played = play(case)
    told = case.tell().replace("<", "&lt;")
    cells = [
        Cell(MARKDOWN, f"# {_one_line(case)}\n\n```text\n{told}\n```"),
        Cell(
            CODE,
            "from leyden.harness.runs.adapters import InProcess\n\n"
            "world = InProcess()\n"
            f"world.begin({case.seed}, {case.start_ms}, {list(case.overlays)!r}, disk={case.disk})\n\n\n"
            "def send(method, path, headers, body=b''):\n"
            "    answer = world.send(method, path, headers, body)\n"
            "    print(answer.status, answer.body.decode('utf-8', 'replace')[:2000])",
        ),
    ]
    if case.disk:
        cells.append(Cell(CODE, _replay_code(case)))
    else:
        cells += [Cell(CODE, _python(request)) for request in played.requests]
        if played.revealed is not None:
            cells.append(Cell(MARKDOWN, "This is the answer that should have been another one."))
            cells.append(Cell(CODE, _python(played.revealed[0])))
        else:
            proof = f"assert world.journal_hash() == {case.journal_hash!r}\nprint('the same journal')"
            cells.append(Cell(CODE, proof))
    cells.append(Cell(CODE, "world.end()"))
    return dumps(document(cells))


FORMS: Mapping[str, Callable[[Case], str]] = {"pytest": as_pytest, "curl": as_curl, "notebook": as_notebook}


def _one_line(case: Case) -> str:
    if case.expectation is None:
        return f"A case of {len(case.steps)} steps in which every promise is kept."
    fact = case.expectation
    return f"A case of {len(case.steps)} steps: {fact['check']}, {fact['clause']}.".replace('"', "'")


def _curl(request: Request) -> str:
    parts = ["curl -sS", f"-X {request.method}" if request.method != "GET" else ""]
    if request.method == "HEAD":
        parts = ["curl -sS --head"]
    parts += [f"-H {shlex.quote(_header(name, value))}" for name, value in request.headers]
    target = '"$LEYDEN"' + shlex.quote(request.path)
    if not request.body:
        return " ".join(part for part in (*parts, target) if part)
    try:
        text = request.body.decode("utf-8")
        plain = "\x00" not in text and len(text) < 4_000
    except UnicodeDecodeError:
        plain = False
    if plain:
        parts.append(f"--data-binary {shlex.quote(text)}")
        return " ".join(part for part in (*parts, target) if part)
    # A body that a command line cannot carry comes through a pipe.
    packed = base64.b64encode(request.body).decode()
    return f"echo {packed} | base64 -d | " + " ".join(part for part in (*parts, "--data-binary @-", target) if part)


def _header(name: str, value: str) -> str:
    return f"{name}: {value}" if value else f"{name};"  # curl's way to send an empty header


def _hash_request() -> Request:
    return Request("GET", "/sandbox/v1", (("apikey", KEY),), b"")


def _python(request: Request) -> str:
    body = f",\n    {request.body!r}" if request.body else ""
    return f"send(\n    {request.method!r}, {request.path!r},\n    {list(request.headers)!r}{body}\n)"


def _replay_code(case: Case) -> str:
    document = json.dumps(case.document(), indent=1)
    return (
        "import json\n\nfrom leyden.harness.runs.cases import read_case, replay\n\n"
        f"case = read_case(json.loads({document!r}))\nreplayed = replay(case)\n"
        "print(replayed.played.fact or 'every promise was kept')\nassert replayed.same_finding"
    )
