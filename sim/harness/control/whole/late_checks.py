"""Checks of answers of receivers that come after a reset or a restore: they change nothing in the new run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.callbacks.callback_rows import request_id
from leyden.callbacks.transport import RecordedNetwork
from leyden.harness.control.host import Host, violation
from leyden.harness.control.state_checks import ORIGIN, compare, compare_values, do
from leyden.server.ports import CallbackRequest, CallbackResponse, OnResponse

LATE_WAYS = ("reset", "restore")
_FEW_ROUNDS = 3  # a request does not wait for the answers
_SNAPSHOTS = "/sandbox/v1/snapshots"


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
