"""Executors for a server that a case hosts in this process: requests to it, and checks of its control plane."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from leyden.errors import MissingExtra
from leyden.harness.control.callbacks.inbox_checks import check_inbox_rules
from leyden.harness.control.callbacks.replay_checks import check_replay, check_unsent
from leyden.harness.control.callbacks.secret_checks import check_secrets
from leyden.harness.control.callbacks.wait_checks import check_wait
from leyden.harness.control.clock_checks import check_clock
from leyden.harness.control.field_checks import check_field
from leyden.harness.control.host import Host
from leyden.harness.control.link_checks import check_links
from leyden.harness.control.list_checks import check_list
from leyden.harness.control.payment_checks import check_payments
from leyden.harness.control.pending_checks import check_pending
from leyden.harness.control.refusal_checks import check_refused
from leyden.harness.control.request_checks import check_payment_request
from leyden.harness.control.search_checks import check_counts, check_search
from leyden.harness.control.state_checks import check_kept
from leyden.harness.control.stream_checks import check_stream
from leyden.harness.control.whole.aged_checks import check_aged
from leyden.harness.control.whole.apart_checks import check_apart
from leyden.harness.control.whole.copy_checks import check_copies
from leyden.harness.control.whole.directory_checks import check_cut, check_keys
from leyden.harness.control.whole.keep_checks import check_keep
from leyden.harness.control.whole.late_checks import check_late, check_lost
from leyden.harness.control.whole.number_checks import check_numbers
from leyden.harness.control.whole.refused_commits import check_full_disk
from leyden.harness.control.whole.repeated_checks import check_repeated
from leyden.harness.session.exchanges import Request
from leyden.harness.session.session import Session
from leyden.harness.steps import Step, StepImpossible
from leyden.harness.targets.hosted import ENDS, HostedServer
from leyden.harness.targets.target import InProcess, Response


def host(session: Session, step: Step) -> None:
    """{"do": "host", "options"?: ["--rate", "0"], "disk"?: true, "steps"?: [step, ...]}: host a server with these
    options of `leyden serve`, with a data directory if `disk`, and do the steps `send` with it. It replaces an earlier
    one."""
    started = new_host(session, step)
    session.host = started
    for one in step.get("steps", ()):
        started.send(one)


def send(session: Session, step: Step) -> None:
    """{"do": "send", "method", "target", "body"?, "as"?, "count"?, "status"?}: send a request to the hosted server,
    `count` times with another `{n}`; `{label.0.id}` is a member of an earlier answer. The response must have the
    status, by default 200 or 201; with 0 there is none, because a service fault loses it."""
    hosted(session).send(step)


def control_list(session: Session, step: Step) -> None:
    """{"do": "control_list", "operation": "listPayments", "check": ..., ...}: check a list of the hosted server;
    `check` is pages, order, rows, refused, filter, pair, portions, changed or between
    (`leyden.harness.control.list_checks`)."""
    check_list(hosted(session), step)


def control_search(session: Session, step: Step) -> None:
    """{"do": "control_search", "kind": "charge", "draw": [["text", "middle", "same"]], "count": 10}: search for the
    texts of a row, with so many results of each kind."""
    check_search(hosted(session), step)


def control_counts(session: Session, step: Step) -> None:
    """{"do": "control_counts", "check": "pending"}: a number in the state of the sandbox agrees with the lists."""
    check_counts(hosted(session), [step["check"]])


def control_replay(session: Session, step: Step) -> None:
    """{"do": "control_replay", "body": {"status": "delivered"}, "draw"?: [["event", "first", "same"]], "count"?: ids,
    "delay"?: ms}: replay the deliveries that match the body and the draws, or this number of them by their ids."""
    check_replay(hosted(session), step)


def control_inbox(session: Session, step: Step) -> None:
    """{"do": "control_inbox", "rules": [{"say", "event"?, "attempt"?, "charge"?, "count"}, ...]}: callbacks of three
    Charges to an inbox with these rules (`leyden.harness.control.callbacks.inbox_checks`)."""
    check_inbox_rules(hosted(session), step)


def control_wait(session: Session, step: Step) -> None:
    """{"do": "control_wait", "status": "any", "event"?, "is_of_charge"?}: wait for the deliveries of the hosted server
    for which these conditions hold (`leyden.harness.control.callbacks.wait_checks`)."""
    check_wait(hosted(session), step)


def control_links(session: Session, step: Step) -> None:
    """{"do": "control_links", "options"}: the link of a Static Charge at a server with these options, one of which is
    its public URL (`leyden.harness.control.link_checks`)."""
    check_links(new_host(session, step), step)


def control_unsent(session: Session, step: Step) -> None:
    """{"do": "control_unsent", "check": "unknown", "count": n, "every": place, "how"?: "at"}: a replay by ids that is
    refused because of one of them."""
    check_unsent(hosted(session), step)


def control_field(session: Session, step: Step) -> None:
    """{"do": "control_field", "operation": "addFault", "kind": "count", "body": {"kind": "drop", "count": 0}}: a
    request with a value of a field that the document allows, or not (`leyden.harness.control.field_checks`)."""
    check_field(hosted(session), step)


def control_copies(session: Session, step: Step) -> None:
    """{"do": "control_copies", "check": "reseed", "count"?: seed, "how"?: "snapshot"}: snapshots and forks
    (`leyden.harness.control.whole.copy_checks`)."""
    check_copies(hosted(session), step)


def control_repeated(session: Session, step: Step) -> None:
    """{"do": "control_repeated", "steps": [step, ...], "refused": [request], "check": "same", "how"?: "fork"}: a
    request that is repeated with its key (`leyden.harness.control.whole.repeated_checks`)."""
    check_repeated(new_host(session, step), step)


def control_kept(session: Session, step: Step) -> None:
    """{"do": "control_kept", "how": "kill", "options"?, "steps": [step, ...], "then"?: [step, ...], "delay"?: ms,
    "reseeds"?: [8, 9]}: do the steps at two servers with these options, restart or copy one of them
    (`state_checks.WAYS`), and compare both, at once and after the steps of `then`."""

    def make(disk: bool) -> Host:
        return new_host(session, {**step, "disk": disk}, is_reference=not started)

    started: list[Host] = []

    def new_server(disk: bool) -> Host:
        started.append(make(disk))
        return started[-1]

    check_kept(new_server, step)


def control_apart(session: Session, step: Step) -> None:
    """{"do": "control_apart", "how": "restore", "options"?, "steps": [step, ...], "meanwhile": [step, ...], "then":
    [step, ...]}: what is done in a sandbox has no effect on its copies, and the reverse
    (`leyden.harness.control.whole.apart_checks`)."""
    check_apart(lambda: new_host(session, step), step)


def control_pending(session: Session, step: Step) -> None:
    """{"do": "control_pending", "how": "kill", "options"?, "steps": [step, ...], "probe"?: [step, ...], "then": [step,
    ...], "offset"?: ms}: restart one of two servers before, at and after an instant, and compare both
    (`leyden.harness.control.pending_checks`)."""
    started: list[Host] = []

    def make(disk: bool) -> Host:
        started.append(new_host(session, {**step, "disk": disk}, is_reference=not started))
        return started[-1]

    check_pending(make, step)


def control_full_disk(session: Session, step: Step) -> None:
    """{"do": "control_full_disk", "how": "refused", "options"?, "steps": [step, ...], "refused": [step], "end"?:
    "kill", "then": [step, ...]}: a request whose commit the disk refuses
    (`leyden.harness.control.whole.refused_commits`)."""
    started: list[Host] = []

    def make(disk: bool) -> Host:
        started.append(new_host(session, {**step, "disk": disk}, is_reference=not started))
        return started[-1]

    check_full_disk(make, step)


def control_numbers(session: Session, step: Step) -> None:
    """{"do": "control_numbers", "options"?, "steps": [step, ...], "how"?: "kill"}: the numbers of the sandbox are those
    of its lists after each step (`leyden.harness.control.whole.number_checks`)."""
    check_numbers(new_host(session, {**step, "disk": step.get("how") in ENDS}), step)


def control_keys(session: Session, step: Step) -> None:
    """{"do": "control_keys", "options"?, "steps": [step, ...]}: API keys that are replaced, and starts
    (`leyden.harness.control.whole.directory_checks`)."""
    check_keys(new_host(session, {**step, "disk": True}), step)


def control_cut(session: Session, step: Step) -> None:
    """{"do": "control_cut", "kind": "first 9", "options"?, "steps": [step, ...], "then": [step, ...]}: a start after a
    kill within a line of the journal (`leyden.harness.control.whole.directory_checks`)."""
    started: list[Host] = []

    def make(disk: bool) -> Host:
        started.append(new_host(session, {**step, "disk": disk}, is_reference=not started))
        return started[-1]

    check_cut(make, step)


def control_late(session: Session, step: Step) -> None:
    """{"do": "control_late", "how": "reset", "options"?, "steps": [step, ...], "again": [step, ...], "status": 200,
    "then": [step, ...]}: answers of receivers that come after the end of a run
    (`leyden.harness.control.whole.late_checks`)."""
    check_late(lambda: new_host(session, step), step)


def control_stream(session: Session, step: Step) -> None:
    """{"do": "control_stream", "options"?, "steps": [step, ...], "count"?: id, "then": [step, ...]}: the stream of
    events while the steps of `then` are done (`leyden.harness.control.stream_checks`)."""
    check_stream(new_host(session, step), step)


def control_lost(session: Session, step: Step) -> None:
    """{"do": "control_lost", "how": "kill", "count": n, "options"?, "disk": true, "steps": [step, ...], "status": 200}:
    attempts in flight when a server ends (`leyden.harness.control.whole.late_checks`)."""
    check_lost(new_host(session, step), step)


def control_refused(session: Session, step: Step) -> None:
    """{"do": "control_refused", "operation": "addFault", "mistakes": ["key", "accept"], "method"?: "HEAD"}: a request
    with these mistakes, which change nothing (`leyden.harness.control.refusal_checks`)."""
    check_refused(hosted(session), step)


def control_secrets(session: Session, step: Step) -> None:
    """{"do": "control_secrets", "options"?, "disk"?, "steps": [step, ...]}: host a server with these options, and check
    after each step which secrets sign and which keys are valid (`leyden.harness.control.callbacks.secret_checks`)."""
    check_secrets(new_host(session, step), step)


def control_payments(session: Session, step: Step) -> None:
    """{"do": "control_payments", "options"?, "steps": [step, ...]}: host a server with these options, and compare the
    payments and the payers after each step (`leyden.harness.control.payment_checks`)."""
    check_payments(new_host(session, step), step)


def control_payment_request(session: Session, step: Step) -> None:
    """{"do": "control_payment_request", "options"?, "kind": "lnurl", "form": "capitals", "amount"?: msat}: host a
    server with these options, and pay this form of a request (`leyden.harness.control.request_checks`)."""
    check_payment_request(new_host(session, step), step)


def control_keep(session: Session, step: Step) -> None:
    """{"do": "control_keep", "count": N, "options"?, "disk"?, "steps": [step, ...], "how"?: "kill"}: a server with
    `--keep N` is compared with one without it (`leyden.harness.control.whole.keep_checks`)."""

    def make(options: tuple[str, ...]) -> Host:
        given = [*step.get("options", ()), *options]
        return new_host(session, {**step, "options": given, "disk": bool(options) and step.get("disk", False)})

    check_keep(make, step)


def control_aged(session: Session, step: Step) -> None:
    """{"do": "control_aged", "count": N, "options"?, "disk"?, "steps": [step, ...], "meanwhile": [step, ...], "then":
    [step, ...], "how"?: "kill"}: what stays while a server with `--keep N` removes rows
    (`leyden.harness.control.whole.aged_checks`)."""

    def make(options: tuple[str, ...]) -> Host:
        given = [*step.get("options", ()), *options]
        return new_host(session, {**step, "options": given, "disk": bool(options) and step.get("disk", False)})

    check_aged(make, step)


def passes(session: Session, step: Step) -> None:
    """{"do": "passes", "by": ms}: real time passes at the hosted server."""
    running = hosted(session)
    running.server.pass_time(step["by"])
    running.forget()


def control_clock(session: Session, step: Step) -> None:
    """{"do": "control_clock", "steps": [...]}: requests, real time that passes ({"do": "passes", "by": ms}) and
    restarts of the hosted server; after each the clock and what was due are compared
    (`leyden.harness.control.clock_checks`)."""
    check_clock(hosted(session), step)


def new_host(session: Session, step: Step, *, is_reference: bool = False) -> Host:
    """A server with the options of a step; it ends with the run. Raises `StepImpossible` where none can be hosted."""
    target = session.target
    if not isinstance(target, InProcess):
        session.unchecked["lists and kept state of the control plane: only a sandbox in process is checked"] = None
        raise StepImpossible("a server is hosted beside a sandbox in process")
    folder = Path(target.new_folder()) if step.get("disk") else None
    try:
        server = HostedServer(step.get("options", ()), folder)
    except MissingExtra as error:
        session.unchecked[f"the control plane of a simulated network: {error}"] = None
        raise StepImpossible("an extra is not installed") from None
    target.at_end.callback(server.close)

    def observe(method: str, path: str, body: Any, response: Response) -> None:
        session.last = (Request(method, path, (), b"" if body is None else orjson.dumps(body)), response)

    return Host(server, observe, is_reference=is_reference)


def hosted(session: Session) -> Host:
    """The server that the case hosts. Raises `StepImpossible` if there is none."""
    if session.host is None:
        raise StepImpossible("no server is hosted")
    found: Host = session.host
    return found
