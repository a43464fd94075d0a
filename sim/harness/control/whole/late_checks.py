"""Checks of answers of receivers that come after a reset or a restore, which change nothing in the new run, and of
those that never come because the server ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from leyden.callbacks.callback_rows import request_id
from leyden.callbacks.transport import RecordedNetwork
from leyden.harness.control.host import Host, violation
from leyden.harness.control.state_checks import ORIGIN, compare, compare_values, do
from leyden.harness.model.rules import BACKOFF_MS, JITTER
from leyden.server.ports import CallbackRequest, CallbackResponse, OnResponse

LATE_WAYS = ("reset", "restore")
_FEW_ROUNDS = 3  # a request does not wait for the answers
_SNAPSHOTS, _CLOCK = "/sandbox/v1/snapshots", "/sandbox/v1/clock"
_DELIVERIES = "listDeliveries"


class _Receivers(RecordedNetwork):
    """Receivers on the network that answer when they are told to."""

    def __init__(self, host: Host) -> None:
        super().__init__(lambda: host.server.world.clock.now() // 1_000)
        self._host = host
        self.requests: list[CallbackRequest] = []
        host.server.most_rounds = _FEW_ROUNDS
        host.server.world.connect_network(self)

    def post(self, request: CallbackRequest, responded: OnResponse) -> None:
        """Keep the request until it is answered."""
        self.requests.append(request)
        super().post(request, responded)

    def answer(self, status: int | None) -> None:
        """Answer every request with this status; None: the connection fails."""
        response = CallbackResponse(status=status) if status else CallbackResponse(error="reset")
        requests, self.requests = self.requests, []
        for request in requests:
            self.respond(request_id(request), response, self._host.server.world.clock.now() // 1_000)


def check_late(make: Callable[[], Host], step: Mapping[str, Any]) -> None:
    """{"do": "control_late", "how": one of `LATE_WAYS`, "options"?, "steps", "again", "status": 200 or null, "then"}:
    do the steps at two servers, of which callbacks go to receivers that do not answer. Both are reset, or restored to
    the state before; the steps `again` are done, which send callbacks, too. Only at one of them the answers to the
    callbacks of the former run come now: the servers must be the same, also after the steps of `then`, and when the
    callbacks of the new run are answered."""
    how = step["how"]
    hosts, former, present = (make(), make()), [], []
    for host in hosts:
        snapshot = host.accepted("POST", _SNAPSHOTS, {})["id"] if how == "restore" else None
        receivers = _Receivers(host)
        for one in step["steps"]:
            do(host, one)
        former.append(receivers)
        if snapshot is None:
            host.accepted("POST", "/sandbox/v1/reset", {"seed": 1})
        else:
            host.accepted("POST", "/sandbox/v1/restore", {"snapshot": snapshot})
        host.answers.clear()
        present.append(_Receivers(host))
        for one in step["again"]:
            do(host, one)
    reference, other = hosts
    if not former[1].requests:
        raise violation("a callback to a receiver that does not answer", "it is sent", "it is not")
    where = f"after an answer of a receiver to a callback from before a {how}"
    former[1].answer(step["status"])
    compare(reference, other, ORIGIN, where, filtered=False)
    for receivers in present:
        receivers.answer(200)
    for one in step["then"]:
        for host in hosts:
            do(host, one)
    compare_values(reference.answers, other.answers, ORIGIN, f"the answers {where}")
    compare(reference, other, ORIGIN, f"{where}, and the steps after it", filtered=False)


def check_lost(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_lost", "how": one of `ENDS`, "count": n, "options"?, "steps", "status": 200 or null}: do the
    steps, of which callbacks go to receivers that do not answer, and end the server in this way n times. Each time the
    attempts in flight are lost, and the callbacks are sent again at once under their ids. Then the receivers answer: a
    lost attempt does not count against the schedule of retries."""
    receivers = _Receivers(host)
    for one in step["steps"]:
        do(host, one)
    sent = [(one.delivery_id, one.body) for one in receivers.requests]
    if not sent:
        raise violation("callbacks to receivers that do not answer", "some are sent", "none")
    now = host.read(_CLOCK)["now"]
    for number in range(1, step["count"] + 1):
        where = f"after a {step['how']} within attempt {number}"
        host.server.restart(step["how"])
        receivers = _Receivers(host)
        host.forget()
        host.read(_CLOCK)  # after a response the server does what is due
        again = [(one.delivery_id, one.body) for one in receivers.requests]
        if sorted(again) != sorted(sent):
            raise violation(f"callbacks that are sent {where}", [name for name, _ in sent], [name for name, _ in again])
        lost = {"status": None, "error": "lost", "latencyMs": None, "dueAt": now, "at": now, "answeredAt": now}
        expected = [lost] * number + [{**lost, "error": None, "answeredAt": None}]
        for row in host.rows(_DELIVERIES):
            observed = [{name: one[name] for name in lost} for one in row["attempts"]]
            if observed != expected:
                raise violation(f"attempts of {row['id']} {where}", expected, observed)
    receivers.answer(step["status"])
    host.forget()
    ended = {200: "delivered", 410: "stopped"}.get(step["status"] or 0, "pending")
    for row in host.rows(_DELIVERIES):
        if row["status"] != ended:
            raise violation(f"a callback that is answered with {step['status']}", ended, row["status"])
        if ended == "pending":
            delay_ms = (datetime.fromisoformat(row["dueAt"]) - datetime.fromisoformat(now)).total_seconds() * 1_000
            least, most = (BACKOFF_MS[1] * (1 + sign * JITTER) for sign in (-1, 1))
            if not least <= delay_ms <= most:
                raise violation("the first retry after lost attempts, in ms", f"from {least} to {most}", delay_ms)
