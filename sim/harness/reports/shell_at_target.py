"""A case as a shell script of curl commands for its target, which takes the ids from the answers.

The expected answers are those of a sandbox in process. The script compares statuses and the members of resources; it
exits with 1 as long as the target differs. Payments and times go through `leyden adapter --call`. A script that has no
command for a step, or that does not compare what the case found, says so at its end and exits with 3.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leyden.harness.model.records import Charge
from leyden.harness.reports.at_target import head
from leyden.harness.runs.cases import Case, refusing
from leyden.harness.runs.describe import describe_step
from leyden.harness.runs.external import NEVER_DONE
from leyden.harness.runs.run import Run
from leyden.harness.session.exchanges import Request
from leyden.harness.steps import Step
from leyden.harness.targets.adapter import is_relative
from leyden.harness.targets.target import EXTERNAL, SECOND_API_KEY, Headers, InProcess, Response
from leyden.lab.actions.source_text import comment, shell_word
from leyden.server.printable import printable
from leyden.server.version import VERSION

SHOWN_BY_CURL = frozenset(
    {"lifecycle", "echo", "answers_are_declared", "errors_are_problems"}
)  # the checks whose violations the script sees
_BY_ADAPTER = frozenset({"pay", "advance", "fail", "settle", "cancel", "rotate"})
_PAYMENTS = ("settle", "hold")  # what the methods of an adapter are for
_BY_REQUEST = frozenset({"create_charge", "create_static", "patch", "get", "pay_request", "invoice", "verify", "odd"})
_CHOSEN = frozenset({"id", "createdAt", "expiresAt", "confirmedAt", "staticChargeId", "callbackUrl", "detail", "title",
                     "message", "request_id"})  # fmt: skip
_MEMBERS = frozenset({"unit", "amount", "status", "description", "internalId", "slots", "minAmount", "maxAmount",
                      "allowedSlots", "successMessage", "identifier"})  # fmt: skip
_HEAD = """\
set -u
: "${LEYDEN_API_KEY:=leyden}" "${LEYDEN_SECOND_API_KEY:=nobody}"
call_adapter() { leyden adapter --call "$LEYDEN_ADAPTER" "$@" || exit 3; }
fail() { echo "Contract violation: $1"; exit 1; }
member() { printf '%s' "$body" | grep -o "\\"$1\\": *\\"[^\\"]*\\"" | head -n 1 | cut -d '"' -f 4; }
send() { answer=$(curl -sS --globoff -w '\\n%{http_code}' "$@") || exit 3; status=${answer##*
}; body=${answer%
*}; printf '%s\\n' "$answer"; }
is() { [ "$status" = "$1" ] || fail "status $1 expected, $status observed"; }
has() { printf '%s' "$body" | sed 's/": /":/g' | grep -qF -e "$1" -e "$2" || fail "$1 expected"; }
# Before anything is written: whoever does not answer a read like a charge service gets no request.
send "$LEYDEN_TARGET/v0/wallet" -H "apikey: $LEYDEN_API_KEY"
[ "$status" = 200 ] || { echo "this is no charge service, or it refuses the API key"; exit 3; }
case $body in *'"data"'*) ;; *) echo "this is no charge service: check LEYDEN_TARGET"; exit 3 ;; esac
"""


class _Recording(InProcess):
    """A sandbox in process that keeps its requests and responses."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.contract())
        self.exchanges: list[tuple[Request, Response]] = []

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> Response:
        """Send a request, and keep it with its response."""
        response = super().send(method, target, headers, body)
        self.exchanges.append((Request(method, target, tuple(headers), body), response))
        return response


def shell_at_target(case: Case, title: str) -> str:
    """The script."""
    address = "http://r1.inbox.localhost/hook"
    lines = ["#!/bin/sh", comment(title), "#", comment(case.describe()), "#", head(case)]
    lines += [comment(f"Written by Leyden {VERSION}."), ""]
    lines += [f"LEYDEN_TARGET=${{LEYDEN_TARGET:-{shell_word(case.target)}}}"]
    folder = '"$(dirname "$0")"/' if is_relative(case.adapter) else ""  # a relative path is from that of the script
    lines += [f"LEYDEN_ADAPTER=${{LEYDEN_ADAPTER:-{folder}{shell_word(case.adapter or 'none')}}}", _HEAD]
    if any(step["do"] in _BY_ADAPTER for step in case.steps) or address in case.dumps():
        lines += ["CALLBACK_URL=${CALLBACK_URL:-$(call_adapter callback_url)}", f": ${{CALLBACK_URL:={address}}}", ""]
    names: dict[str, str] = {address: "CALLBACK_URL"}
    target = _Recording(case)
    try:
        run = Run(target, seed=case.seed, start_ms=case.start_ms, overlays=case.overlays)
        for number, step in enumerate(case.steps, 1):
            if _can_be_done(step):
                with refusing(case, number, step):
                    lines += ["", comment(describe_step(step)), *_step(run, target, step, names)]
    finally:
        target.end()
    return "\n".join([*lines, "", *_end(case)]) + "\n"


def _end(case: Case) -> Iterator[str]:
    """The end of the script: no violation, or what it has not checked."""
    others = case.found_on == EXTERNAL
    left = [step for step in case.steps if not (_can_be_done(step) or (others and step["do"] in NEVER_DONE))]
    gaps = [f"this step has no command here: {describe_step(step)}" for step in left]
    if not _compares(case.expectation or {}):
        found = case.expectation or {}
        gaps.append(f"{found.get('where', 'the end of the run')}, where the case found a violation")
    if not gaps:
        yield "echo 'no violation'"
        return
    for gap in gaps:
        yield f"printf '%s\\n' {shlex.quote(printable(f'not checked: {gap}'))}"
    yield "echo 'no violation in what was checked; leyden replay, the pytest file and the notebook check everything'"
    yield "exit 3"


def _compares(expectation: Mapping[str, str]) -> bool:
    """Whether the script compares what a case found: a status, or a member of a resource that is the same at every
    target."""
    if expectation.get("where", "").endswith(": status"):
        return True
    try:
        expected = ast.literal_eval(expectation.get("expected", ""))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    names = expected if isinstance(expected, dict) else {}
    return expectation.get("ruleId") != "DECISIONS lnurl-pay" and any(
        name in _MEMBERS - _CHOSEN and not isinstance(value, dict | list) for name, value in names.items()
    )


def _can_be_done(step: Step) -> bool:
    """Whether the script can do a step; a payment of another kind has no method of the adapter."""
    if step["do"] == "pay":
        return step.get("outcome", "settle") in _PAYMENTS and not {"amount", "delay"} & set(step)
    return step["do"] in _BY_ADAPTER | _BY_REQUEST


def _step(run: Run, target: _Recording, step: Step, names: dict[str, str]) -> Iterator[str]:
    before = len(target.exchanges)
    now = run.model.now
    done = run.do(step)
    if not done:
        return
    if step["do"] == "advance":
        yield f"call_adapter advance {(run.model.now - now) / 1_000}"
    elif step["do"] == "rotate":
        yield "call_adapter rotate"
    elif step["do"] in _BY_ADAPTER:
        charge = run.payment(step["payment"]).charge if "payment" in step else run.charge(step["charge"])
        method = "hold" if step.get("outcome") == "hold" else step["do"]
        yield f"call_adapter {method} {_quoted(str(charge.id if method == 'fail' else charge.request), names)}"
    for request, response in target.exchanges[before:]:
        if request.path.startswith("/sandbox/"):
            continue
        yield _curl(request, names)
        yield f"is {response.status}"
        yield from _members(response.json, names)
        for resource in run.model.ledger.resources:
            if resource.id is not None and resource.id not in names and resource.id.encode() in response.body:
                number = len(names)  # a label may be any text, and a variable may not
                names[resource.id] = f"id_{number}"
                yield f"id_{number}=$(member id)"
                if isinstance(resource, Charge) and resource.request is not None:
                    names[resource.request] = f"request_{number}"
                    yield f"request_{number}=$(member request)"


def _members(body: Any, names: Mapping[str, str]) -> Iterator[str]:
    """The members of a resource that must be there with these values."""
    data = body.get("data") if isinstance(body, dict) else None
    for name, value in (data if isinstance(data, dict) else {}).items():
        if name == "id" and value in names:
            text = f'"\\"id\\":\\"${names[value]}\\""'
            yield f"has {text} {text}"
        elif name not in _CHOSEN and not isinstance(value, dict | list):
            forms = [f'"{name}":{json.dumps(value, ensure_ascii=escaped)}' for escaped in (False, True)]
            yield "has " + " ".join(shell_word(form.replace('": ', '":')) for form in forms)


def _curl(request: Request, names: Mapping[str, str]) -> str:
    words = [] if request.method == "GET" else ["-X", shell_word(request.method)]
    for name, value in request.headers:
        if name.lower() == "apikey":
            key = "LEYDEN_SECOND_API_KEY" if value == SECOND_API_KEY else "LEYDEN_API_KEY"
            words += ["-H", f'"apikey: ${key}"']
        elif name == "Idempotency-Key" and 0 < len(value) < 200:
            words += ["-H", f'{shell_word(f"{name}: {value}")}"-$$"']
        else:
            words += ["-H", shell_word(f"{name}: {value}" if value else f"{name};")]
    if request.body:
        words += ["--data-binary", _quoted(request.body.decode("utf-8", "replace"), names)]
    return f'send "$LEYDEN_TARGET"{_quoted(request.path, names)} {" ".join(words)}'


def _quoted(text: str, names: Mapping[str, str]) -> str:
    """A text as one word of the shell, in which known values are variables."""
    parts: Sequence[str] = re.split(f"({'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})", text)
    return "".join(f'"${names[part]}"' if part in names else shell_word(part) for part in parts if part) or "''"
