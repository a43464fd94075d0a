"""A case as a shell script of curl commands for its target, which takes the ids from the answers.

The expected answers are those of a sandbox in process. The script compares statuses and the members of resources; it
exits with 1 as long as the target differs. Payments and times go through `leyden adapter --call`. A script does not
know the time of its target to the second, so it compares no state of what is about to expire or has just expired. A
script that has no command for a step, or that does not compare what the case found, says so and exits with 3.
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
from leyden.harness.runs.external import TOLERANCE_MS, is_never_done
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
_OF_TIME = frozenset({"status", "slots"})
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
    script = _Script(case, {address: "CALLBACK_URL"})
    lines += script.lines()
    return "\n".join([*lines, "", *_end(case, script)]) + "\n"


def _end(case: Case, script: _Script) -> Iterator[str]:
    """The end of the script: no violation, or what it has not checked."""
    others = case.found_on == EXTERNAL
    left = [step for step in case.steps if not (_can_be_done(step) or (others and is_never_done(step)))]
    gaps = [f"this step has no command here: {describe_step(step)}" for step in left]
    if not script.compares(case.expectation or {}):
        found = case.expectation or {}
        gaps.append(f"{found.get('where', 'the end of the run')}, where the case found a violation")
    if not gaps:
        yield "echo 'no violation'"
        return
    for gap in gaps:
        yield f"printf '%s\\n' {shlex.quote(printable(f'not checked: {gap}'))}"
    yield "echo 'no violation in what was checked; leyden replay, the pytest file and the notebook check everything'"
    yield "exit 3"


def _can_be_done(step: Step) -> bool:
    """Whether the script can do a step; a payment of another kind has no method of the adapter."""
    if step["do"] == "pay":
        return step.get("outcome", "settle") in _PAYMENTS and not {"amount", "delay"} & set(step)
    return step["do"] in _BY_ADAPTER | _BY_REQUEST


class _Script:
    """The commands of the steps, and what they compare. `names` has the variables of known values."""

    def __init__(self, case: Case, names: dict[str, str]) -> None:
        self._case = case
        self._names = names
        self._target = _Recording(case)
        self._doubtful: set[str] = set()  # the labels of what is or was about its expiry
        self._statuses: dict[str, set[str]] = {}  # by the label
        self._values: dict[tuple[str, str], Any] = {}  # the last value of a member, by the label and the name

    def lines(self) -> list[str]:
        """The lines for every step, and the last look at every resource."""
        case, found = self._case, list[str]()
        try:
            run = Run(self._target, seed=case.seed, start_ms=case.start_ms, overlays=case.overlays)
            for number, step in enumerate(case.steps, 1):
                if _can_be_done(step) and not (case.found_on == EXTERNAL and is_never_done(step)):
                    with refusing(case, number, step):
                        found += ["", comment(describe_step(step)), *self._step(run, step)]
            found += ["", comment("at the end")]
            for resource in run.model.ledger.resources:
                before = len(self._target.exchanges)
                run.check_resource(resource)
                found += self._exchanges(run, before, {resource.label})
        finally:
            self._target.end()
        return found

    def compares(self, expectation: Mapping[str, str]) -> bool:
        """Whether the script compares what a case found: a status, or a member of a resource that is the same at every
        target, with the value that the case expected."""
        where, text = expectation.get("where", ""), expectation.get("expected", "")
        words = re.findall(r"[^\s:,()]+", where)
        if where.endswith(": status"):
            named = [self._statuses[word] for word in words if word in self._statuses]
            return any(text in one for one in named or self._statuses.values())
        try:
            expected = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return False
        members = expected if isinstance(expected, dict) else {}
        return expectation.get("ruleId") != "DECISIONS lnurl-pay" and any(
            name in _MEMBERS - _CHOSEN and (word, name) in self._values and self._values[word, name] == value
            for name, value in members.items()
            for word in words
        )

    def _step(self, run: Run, step: Step) -> Iterator[str]:
        before = len(self._target.exchanges)
        now = run.model.now
        is_late = self._note_doubts(run) and "idempotency_key" in step
        done = run.do(step)
        if not done:
            return
        self._note_doubts(run)
        if step["do"] == "advance":
            yield f"call_adapter advance {(run.model.now - now) / 1_000}"
        elif step["do"] == "rotate":
            yield "call_adapter rotate"
        elif step["do"] in _BY_ADAPTER:
            charge = run.payment(step["payment"]).charge if "payment" in step else run.charge(step["charge"])
            method = "hold" if step.get("outcome") == "hold" else step["do"]
            text = str(charge.id if method == "fail" else charge.request)
            yield f"call_adapter {method} {_quoted(text, self._names)}"
        labels = {str(step[name]) for name in ("as", "what", "static", "charge") if name in step}
        yield from self._exchanges(run, before, labels, is_late=is_late)

    def _note_doubts(self, run: Run) -> bool:
        """Note what is about its expiry now, with the Static Charge that counts its payments. Returns whether the
        retention of a response ends now."""
        now = run.model.now
        for one in run.model.ledger.resources:
            if one.expires_at is not None and abs(one.expires_at - now) <= TOLERANCE_MS:
                others = [one.parent] if isinstance(one, Charge) else one.children
                self._doubtful |= {one.label, *(each.label for each in others if each is not None)}
        return any(abs(end - now) <= TOLERANCE_MS for end in run.model.retention_ends())

    def _exchanges(self, run: Run, first: int, named: set[str], *, is_late: bool = False) -> Iterator[str]:
        """The commands for the requests since the first one, of a step that has these labels."""
        names, resources = self._names, run.model.ledger.resources
        for request, response in self._target.exchanges[first:]:
            if request.path.startswith("/sandbox/"):
                continue
            body = response.json
            data = body.get("data") if isinstance(body, dict) else None
            shown = data if isinstance(data, dict) else {}
            ids = {one.label for one in resources if one.id and (one.id == shown.get("id") or one.id in request.path)}
            labels = ids or named
            is_doubtful = is_late or bool(self._doubtful & (ids | named))
            yield _curl(request, names)
            if not is_doubtful:
                yield f"is {response.status}"
            for label in labels:
                if is_doubtful:  # what was compared before is not what the case found
                    self._statuses[label] = set()
                    self._values.update({(label, name): None for name in _OF_TIME})
                else:
                    self._statuses.setdefault(label, set()).add(str(response.status))
            for name, value in shown.items():
                if name == "id" and value in names and not is_late:
                    text = f'"\\"id\\":\\"${names[value]}\\""'
                    yield f"has {text} {text}"
                elif name in _CHOSEN or isinstance(value, dict | list) or (is_doubtful and name in _OF_TIME):
                    continue
                else:
                    forms = [f'"{name}":{json.dumps(value, ensure_ascii=escaped)}' for escaped in (False, True)]
                    yield "has " + " ".join(shell_word(form.replace('": ', '":')) for form in forms)
                    self._values.update({(label, name): value for label in labels})
            yield from self._variables(run, response)

    def _variables(self, run: Run, response: Response) -> Iterator[str]:
        """The variables of what the response shows first."""
        names = self._names
        for resource in run.model.ledger.resources:
            if resource.id is not None and resource.id not in names and resource.id.encode() in response.body:
                number = len(names)  # a label may be any text, and a variable may not
                names[resource.id] = f"id_{number}"
                yield f"id_{number}=$(member id)"
                if isinstance(resource, Charge) and resource.request is not None:
                    names[resource.request] = f"request_{number}"
                    yield f"request_{number}=$(member request)"


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
