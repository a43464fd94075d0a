"""Exports: a case as a pytest file, as a script of curl commands, or as a notebook."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable, Mapping
from pprint import pformat

from leyden.harness.constants import API_KEY
from leyden.harness.model.rules import iso
from leyden.harness.reports.at_target import notebook_at_target, pytest_at_target, runs_at_target
from leyden.harness.reports.shell_at_target import SHOWN_BY_CURL, shell_at_target
from leyden.harness.runs.cases import Case, play
from leyden.harness.session.exchanges import Request
from leyden.harness.targets.target import EXTERNAL, SECOND_API_KEY
from leyden.lab.actions.source_text import comment, shell_word
from leyden.lab.notebook_writer import CODE, MARKDOWN, Cell, document, dumps, plain
from leyden.server.errors import LeydenError
from leyden.server.printable import printable
from leyden.server.version import VERSION

_WRITTEN_BY = comment(f"Written by Leyden {VERSION}.")


class ExportError(LeydenError, ValueError):
    """A case that cannot be exported in this format; the text says which one to use."""

    exit_status = 2


def as_pytest(case: Case) -> str:
    """A pytest file, which fails with the report of the violation as long as it occurs; without a violation it checks
    the journal's hash too. A case that a sandbox in process does not reproduce runs at its target (`at_target.py`).
    Raises `ExportError` if the case has none."""
    if runs_at_target(case):
        return pytest_at_target(case, _title(case))
    _check_reproduced(case)
    document = pformat(case.document(), width=116, sort_dicts=False)
    text = (
        f"{comment(_title(case))}\n#\n{comment(case.describe())}\n#\n{_WRITTEN_BY}\n\n"
        "from leyden.harness.runs.cases import read_case, replay\n\n"
        f"CASE = {document}\n\n\n"
        "def test_there_is_no_violation():\n"
        "    replay(read_case(CASE)).check()\n"
    )
    if case.expectation is None and case.journal_hash is not None:
        text += (
            "\n\ndef test_the_journal_is_the_same():\n"
            "    replayed = replay(read_case(CASE))\n"
            '    assert replayed.journal_hash == CASE["journalHash"]\n'
        )
    return text


def as_curl(case: Case) -> str:
    """A shell script that sends the requests to a fresh `leyden serve` at $LEYDEN and prints the responses.

    The last request shows the violation; in a case without one it reads the journal's hash. Raises `ExportError` for
    a case with a restart, and for one that a sandbox in process does not reproduce.
    """
    if runs_at_target(case):
        check = (case.expectation or {}).get("check", "")
        if not case.steps:
            raise ExportError(
                "this case has no steps: the start or the end of the run shows the violation, and a script of curl has"
                " neither; export it as pytest or notebook"
            )
        if check not in SHOWN_BY_CURL:
            raise ExportError(f"a script of curl cannot see a violation of {check}: export it as pytest or notebook")
        return shell_at_target(case, _title(case))
    _check_reproduced(case)
    if case.restarts:
        raise ExportError("this case restarts the service, which curl cannot do: export it as pytest or notebook")
    result = play(case)
    requests = [*result.requests]
    if result.revealed is not None and result.revealed[0] not in requests[-1:]:
        requests.append(result.revealed[0])
    document = (
        []
        if not case.spec_patch
        else [f"leyden replay {shlex.quote(case.origin or 'CASE.case.json')} --export spec > case.openapi.json"]
    )
    used = {value for request in requests for _, value in request.headers}
    second = ["--api-key", SECOND_API_KEY] if SECOND_API_KEY in used else []
    spec = [word for name in case.overlays for word in ("--overlay", str(name))]
    if case.spec_patch:  # the exported document has the overlays
        spec = ["--spec", "case.openapi.json"]
    serve = shlex.join([
        *("leyden", "serve", "--port", "8402", "--rate", "0", "--seed", str(case.seed), "--start", iso(case.start_ms)),
        *("--api-key", API_KEY, *second, "--public-url", "http://localhost", *spec),
    ])  # fmt: skip
    lines = ["#!/bin/sh", comment(_title(case)), "#", "# First, in another terminal:"]
    lines += [comment(f"  {command}") for command in (*document, serve)] + ["#"]
    lines += [comment(case.describe()), "#", _WRITTEN_BY]
    lines += ["", "set -eu", 'LEYDEN="${LEYDEN:-http://127.0.0.1:8402}"', ""]
    for request in requests:
        lines += [_curl(request), "echo"]
    if case.expectation is None and case.journal_hash is not None:
        reads_hash = Request("GET", "/sandbox/v1", (("apikey", API_KEY),), b"")
        lines += ["", comment(f"The hash of the journal must be {case.journal_hash}"), _curl(reads_hash), "echo"]
    return "\n".join(lines) + "\n"


def as_notebook(case: Case) -> str:
    """A notebook (nbformat 4): the report, a sandbox with the same seed, a cell for each request, and the violation or
    the journal's hash at the end. A case that a sandbox in process does not reproduce runs at its target. Raises
    `ExportError` if the case has none."""
    if runs_at_target(case):
        return notebook_at_target(case, _title(case))
    _check_reproduced(case)
    result = play(case)
    # Indented, because no text can end an indented block.
    report = "\n".join(f"    {printable(line)}".rstrip() for line in case.describe().split("\n"))
    cells = [
        Cell(MARKDOWN, f"# {plain(_title(case))}\n\n{report}"),
        Cell(
            CODE,
            f"{_WRITTEN_BY}\n{_target_code(case)}"
            f"target.begin({case.seed!r}, {case.start_ms!r}, {list(case.overlays)!r}, disk={case.disk!r})\n\n\n"
            "def send(method, path, headers, body=b''):\n"
            "    response = target.send(method, path, headers, body)\n"
            "    print(response.status, response.body.decode('utf-8', 'replace')[:2000])",
        ),
    ]
    if case.disk:
        cells.append(Cell(CODE, _replay_code(case)))
    else:
        cells += [Cell(CODE, _python(request)) for request in result.requests]
        if result.revealed is not None:
            cells.append(Cell(MARKDOWN, "The response to this request violated the contract."))
            cells.append(Cell(CODE, _python(result.revealed[0])))
        elif case.expectation is None and case.journal_hash is not None:
            check = f"assert target.journal_hash() == {case.journal_hash!r}\nprint('the journal is the same')"
            cells.append(Cell(CODE, check))
    cells.append(Cell(CODE, "target.end()"))
    return dumps(document(cells))


def as_spec(case: Case) -> str:
    """The specification of the case as JSON, with its overlays, for `leyden serve --spec`."""
    return json.dumps(case.contract().document, indent=1) + "\n"


EXPORTS: Mapping[str, Callable[[Case], str]] = {"pytest": as_pytest, "curl": as_curl, "notebook": as_notebook}
PRINTED: Mapping[str, Callable[[Case], str]] = {**EXPORTS, "spec": as_spec}


def _check_reproduced(case: Case) -> None:
    if not case.is_reproduced:
        what = "found on another implementation" if case.found_on == EXTERNAL else "not reproduced in process"
        raise ExportError(f"this violation was {what}: replay it there, with leyden replay CASE URL")


def _target_code(case: Case) -> str:
    if not case.spec_patch:
        return "from leyden.harness.targets.target import InProcess\n\ntarget = InProcess()\n"
    patch = pformat([dict(operation) for operation in case.spec_patch], width=110, sort_dicts=False)
    return (
        "from leyden.harness.runs.specification import contract_of\n"
        "from leyden.harness.targets.target import InProcess\n\n"
        f"spec_patch = {patch}\n"
        f"target = InProcess(contract_of({list(case.overlays)!r}, spec_patch))\n"
    )


def _title(case: Case) -> str:
    if case.expectation is None:
        return f"A case of {len(case.steps)} steps without a violation."
    return printable(f"A case of {len(case.steps)} steps: {case.expectation['check']}, {case.expectation['ruleId']}.")


def _curl(request: Request) -> str:
    words = ["curl", "-sS", "--globoff", *{"HEAD": ["--head"], "GET": []}.get(request.method, ["-X", request.method])]
    for name, value in request.headers:
        words += ["-H", f"{name}: {value}" if value else f"{name};"]  # the way to send an empty header with curl
    source = ""
    if request.body:
        text = request.body.decode("utf-8", "replace")
        if text.encode() == request.body and "\x00" not in text and len(text) < 4_000 and text[0] != "@":
            words += ["--data-binary", text]
        else:  # a body that cannot be an argument is read from a pipe; curl takes `@name` as the name of a file
            source = f"echo {base64.b64encode(request.body).decode()} | base64 -d | "
            words += ["--data-binary", "@-"]
    return f'{source}{" ".join(map(shell_word, words))} "$LEYDEN"{shell_word(request.path)}'


def _python(request: Request) -> str:
    body = f",\n    {request.body!r}" if request.body else ""
    return f"send(\n    {request.method!r}, {request.path!r},\n    {list(request.headers)!r}{body}\n)"


def _replay_code(case: Case) -> str:
    document = json.dumps(case.document(), indent=1)
    return (
        "import json\n\nfrom leyden.harness.runs.cases import read_case, replay\n\n"
        f"case = read_case(json.loads({document!r}))\nreplayed = replay(case)\n"
        "print(replayed.result.expectation or 'no violation')\nassert replayed.same_violation"
    )
