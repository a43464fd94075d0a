"""The session of a sandbox: its world, its action log, and requests to its service in the process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import orjson

from leyden.arguments import checked_list, checked_text, refuse_copy, whole_number
from leyden.callbacks.receivers import is_built_in
from leyden.callbacks.recorded_responses import recorded_headers, recorded_id, recorded_response, unknown_attempt
from leyden.callbacks.transport import RecordedNetwork
from leyden.errors import ArgumentError, ClosedError, Problem, ResponseLost, StorageUnavailable, problem_document
from leyden.lab.actions.action_log import DISK_REFUSED, NO_RESPONSE, ActionLog, ActionRecorder
from leyden.lab.progress import Progress
from leyden.sandbox.operations import path_of, refusal
from leyden.sandbox.request_bytes import Headers, header_bytes, json_bytes
from leyden.server.callbacks.egress import Egress, closed_note
from leyden.server.http.request import Request
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.printable import quoted
from leyden.server.system.http_client.background_transport import BackgroundTransport
from leyden.world.components import CONTROL_PATH, key_header
from leyden.world.config import body_type
from leyden.world.interrupts import interrupts
from leyden.world.loopback import Header, LoopbackResponse, send_request
from leyden.world.moves.move_guard import check_not_waiting, take_refusal
from leyden.world.time.clock import VirtualClock
from leyden.world.world import World

T = TypeVar("T")

RECORDED = "recorded"  # the egress mode of a script: nothing is sent, and `respond` gives the responses

# No response depends on these.
_HEADERS_LEFT_OUT = frozenset({b"host", b"user-agent", b"accept-encoding", b"connection", b"content-length"})
MOVE_PATH = f"{CONTROL_PATH}/clock/advance"
_FIRST_ID = re.compile(rb'"id":"([^"]{1,64})"')


def is_recorded(egress: Any) -> bool:
    """Whether an egress mode is that of a script. (A value of another library may have no truth value.)"""
    return isinstance(egress, str) and egress == RECORDED


class Session:
    """The shared state of the parts of a sandbox. `Sandbox.restore` replaces `world` and `action_log`: do not keep
    them.

    `egress` is the mode of the egress policy, None for the default; `egress_allow` are networks that are allowed in
    every mode. Raises `ValueError` for an unknown mode or an invalid network.
    """

    __slots__ = ("_egress", "_egress_allow", "_network", "_own", "_world", "action_log", "progress")

    action_log: ActionLog
    __reduce_ex__ = refuse_copy

    def __init__(
        self, world: World, action_log: ActionLog, egress: str | None = None, egress_allow: Sequence[str] = ()
    ) -> None:
        self._egress = egress
        self._egress_allow = tuple(egress_allow)
        self._network: BackgroundTransport | RecordedNetwork | None = None
        self._own: tuple[str, ...] = ()
        self.progress = Progress()
        self.replace(world, action_log)

    def replace(self, world: World, action_log: ActionLog) -> None:
        """Continue with another world, under the same egress policy."""
        if (former := getattr(self, "_world", None)) is not None:
            world.guard = former.guard  # an action may be what returns to the snapshot
        self._world: World | None = world
        self.action_log = action_log
        world.network_log = self
        if isinstance(self._network, RecordedNetwork):
            self._network = None  # what waits in it belongs to the former world
        self.connect_network(self._egress or "none")

    @property
    def world(self) -> World:
        """The world of the session. Raises `ClosedError` after `close`."""
        if self._world is None:
            raise ClosedError("this sandbox is closed: read its results before close(), or fork it and use the fork")
        return self._world

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Enter to read or change anything of the session: no other thread changes its world, or replaces it."""
        while True:
            world = self._world
            if world is None:
                yield
                return
            with world.lock:
                if self._world is world:
                    yield
                    return

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._world is None

    def close(self) -> None:
        """End what runs, close the store and cancel callbacks in flight; a second call changes nothing. Raises as
        `World.close`."""
        world, self._world = self._world, None  # first: a request that waits for the network ends as one that came late
        if world is None:
            return
        try:
            world.close()
        except BaseException:
            self._world = world  # it may be tried again
            raise
        self.close_network()

    def set_egress(self, egress: str | None, allow: Sequence[str] = ()) -> None:
        """Replace the egress policy; None keeps the mode. Raises `ValueError` as the constructor."""
        allowed = checked_list("egress_allow", allow)
        mode = "none" if egress is None or is_recorded(egress) else egress
        Egress(mode, allow=allowed)  # raises before anything is changed
        self._egress, self._egress_allow = egress or self._egress, allowed
        self.connect_network(self._egress or ("loopback" if self._own else "none"), *self._own)

    def serve_network(self, url: str) -> None:
        """The sandbox is served at `url`: callbacks go to this machine unless another mode was given, and never to that
        URL."""
        self._own = (url,)
        self.connect_network(self._egress or "loopback", url)

    def egress(self, url: str) -> Egress:
        """The present egress policy of the sandboxes that the server at this URL creates: that of this one."""
        mode = self._egress or "loopback"
        return self._egress_of("none" if mode == RECORDED else mode, url, is_beside=True)

    def _egress_of(self, mode: str, *own: str, is_beside: bool = False) -> Egress:
        listeners = [(parts.hostname or "", parts.port or 80) for parts in map(urlsplit, own)]
        return Egress(mode, allow=self._egress_allow, own=listeners, in_python=True, is_beside=is_beside)

    def connect_network(self, mode: str, *own: str) -> None:
        """Let callbacks leave the process as the egress mode and the allowed networks say. They never go to the servers
        at the URLs `own`. Time still waits for those that are in flight. In the mode `recorded` they wait for
        `respond`; what still waits when another mode follows is blocked."""
        with self.world.lock:
            former = self._network
            if mode == RECORDED:
                world = self.world
                self._network = RecordedNetwork(lambda: world.clock.now() // 1_000)
            else:
                egress = self._egress_of(mode, *own)
                is_busy = isinstance(former, BackgroundTransport) and self.world.transport.is_waiting
                if egress.is_closed and not is_busy:
                    self._network = None
                elif isinstance(former, BackgroundTransport):
                    former.egress = egress
                else:
                    self._network = BackgroundTransport(egress)
            if isinstance(former, RecordedNetwork):
                former.block_rest()
            self.world.connect_network(self._network)
            self.action_log.note_network(self._network is not None)

    def respond(
        self,
        delivery_id: str,
        attempt: int,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        body: str = "",
        error: str | None = None,
        note: str = "",
        latency_ms: int = 0,
        time_s: int = 0,
        signed_s: int | None = None,
        signed: Mapping[str, str] | None = None,
        copy: Sequence[Any] | None = None,
    ) -> None:
        """Give an attempt to the network the response that it once had: `sb.session.respond(...)`, for scripts, whose
        egress mode is `recorded`.

        `status` or `error` is the result, `time_s` the receiver's clock in seconds since 1970, `signed_s` the attempt's
        signed timestamp and `signed` these headers of a message that a fault changed (default: those of the sandbox's
        time), `copy` the fault that sent a copy. Raises `UnknownAttempt` when no such attempt waits for a response.
        """
        network, world, wanted = self._network, self.world, recorded_id(delivery_id, attempt, copy)
        given = {"status": status, "error": error, "headers": headers, "body": body}
        response = recorded_response(**given, note=note, latency_ms=latency_ms, signed_s=signed_s)
        time_s, changed = whole_number("time_s", time_s), recorded_headers(signed)
        with world.lock:
            for _ in range(2):
                if isinstance(network, RecordedNetwork) and network.respond(wanted, response, time_s, changed):
                    return
                world.catch_up()  # it may be due now
        raise unknown_attempt(delivery_id, attempt, is_recorded=isinstance(network, RecordedNetwork))

    # `leyden.world.world.NetworkLog`

    def responded(self, request: CallbackRequest, response: CallbackResponse, time_s: int) -> None:
        """Record the response of a receiver on the network."""
        if self._world is not None:
            self.action_log.responded(self._world, request, response, time_s)

    def waits(self) -> None:
        """A request moves time and waits for receivers: other actions come between, and it cannot be divided."""
        self.action_log.discard("its clock was moved by a request while receivers on the network answered")

    def callback_note(self, url: str | None) -> str:
        """Why callbacks to this URL cannot leave the sandbox, and what to change; empty when they may."""
        network = self._network
        is_closed = network is None or (isinstance(network, BackgroundTransport) and network.egress.is_closed)
        return closed_note(url) if url and is_closed and not is_built_in(url) else ""

    def close_network(self) -> None:
        """Cancel the callbacks that are in flight on the network."""
        if isinstance(self._network, BackgroundTransport):
            self._network.stop()

    def record(self, kind: str, **facts: Any) -> ActionRecorder:
        """The context of one action: see `leyden.lab.actions.action_log.ActionLog.record`."""
        return self.action_log.record(self.world, kind, **facts)

    @contextmanager
    def moving(self) -> Iterator[None]:
        """The context of a move of time, or of a part of one. Raises `ClockError` in an action of the sandbox, and
        while another thread moves time."""
        guard = self.world.guard
        guard.start(self.world)
        try:
            yield
        finally:
            guard.end()

    @contextmanager
    def no_moves(self) -> Iterator[None]:
        """The context of a change beside which no move of time may run: none starts inside. Raises `ClockError` while
        time is moved, except in an action, which the move itself calls."""
        self.check_not_moved()  # before the lock: a move without receivers holds it
        with self.lock(), self.world.guard.no_moves(self.world):
            yield

    def check_not_moved(self) -> None:
        """Raise `ClockError` while another thread moves time, or within an event."""
        self.world.guard.check(self.world)

    def move(self, kind: str, step: Callable[[VirtualClock], T], **facts: Any) -> T:
        """Record an action that moves the clock by `step`; its result. Raises `ClockError` if another thread waits."""
        recorder = self.record(kind, **facts)
        with recorder:
            check_not_waiting(self.world)
            return self.world.move(step, recorder.split)

    def complete_log(self) -> None:
        """Bring the action log up to now, with the responses to all callbacks that are in flight on the network.

        Raises `ActionLogError` when one of them will have no response.
        """
        check_not_waiting(self.world)
        self.action_log.catch_up(self.world)
        self.world.wait_for_network(is_copy=True)
        outbox, is_dropped = self.world.service.outbox, self.world.faults.hits.is_dropped
        # An attempt that a fault has dropped was never sent: it times out by the clock.
        sent = [key for key, number in outbox.in_flight.attempts.items() if not is_dropped(key, number)]
        if not all(row is None or is_built_in(row["url"]) for row in map(outbox.delivery, sent)):
            self.action_log.discard("a callback was cancelled before it had its response")
        self.action_log.complete()

    @property
    def api_key(self) -> str:
        """The newest API key of the sandbox's project."""
        return self.world.service.projects.keys(self.world.config.project)[-1]

    def path(self, operation_id: str) -> str:
        """The path template of an operation, as the specification in use has it. Raises `ContractError` when it has no
        such operation."""
        return path_of(self.world, operation_id)

    def ask(self, method: str, target: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request with the API key and return the JSON of its response.

        Raises `ApiError` for any status but 2xx, and `ResponseLost` when a service fault loses the response.
        """
        answer = self.request(method, target, body)
        if not 200 <= answer.status < 300:
            raise refusal(self.world, answer.status, problem_document(answer.body))
        try:
            return orjson.loads(answer.body) if answer.body else {}
        except orjson.JSONDecodeError:  # HTML, as from a proxy
            return problem_document(answer.body)

    def request(
        self, method: str, target: str, body: Mapping[str, Any] | bytes | None = None, headers: Headers | None = None
    ) -> LoopbackResponse:
        """Send one request and record it: see `Sandbox.request`."""
        checked_text("method", method)
        checked_text("target", target)
        if not target.isascii():
            raise ArgumentError(
                f"target={quoted(target, 60)} has characters that a URL does not have: percent-encode them"
                " (urllib.parse.quote)"
            )
        raw = b"" if body is None else body if isinstance(body, bytes) else json_bytes(body)
        if headers is not None:
            sent: tuple[Header, ...] = header_bytes(headers)
        else:
            sent = ((key_header(self.world.service, target), self.api_key.encode("latin-1")),)
            if body is not None:
                sent = (*sent, (b"content-type", body_type(self.world.config.contract, method, target)))
        world, action_log = self.world, self.action_log
        # An interrupt waits until the request is recorded. It ends a move of time between two events.
        interrupts.enter(target.partition("?")[0] == MOVE_PATH)
        try:
            with world.lock:
                _ = self.world  # it may have been closed meanwhile
                pipeline = world.service.pipeline
                requests = pipeline.request_count
                action_log.mark_events(world)
                try:
                    answer = send_request(world.app, method, target, sent, raw)
                except ResponseLost:
                    self.record_request(method, target, None if headers is None else sent, raw, NO_RESPONSE)
                    raise
                except BaseException:
                    if pipeline.request_count > requests:  # it has had no response, so its number is free
                        pipeline.request_count -= 1
                    action_log.add_events(world)
                    raise
                kept = None if headers is None else sent
                self.record_request(method, target, kept, raw, answer.status, answer.body)
        finally:
            interrupts.leave()
        return answer

    def refused(
        self, method: str, target: str, body: Mapping[str, Any] | bytes | None = None, headers: Headers | None = None
    ) -> LoopbackResponse:
        """Send a request that the sandbox refused because time was moved, or a callback was in flight, and let it be
        refused again: `sb.session.refused(...)`, for scripts. As `request`."""
        guard = self.world.guard
        guard.refuses = True
        try:
            return self.request(method, target, body, headers)
        finally:
            guard.refuses = False

    def record_request(
        self,
        method: str,
        target: str,
        headers: Iterable[Header] | None,
        body: bytes,
        status: int,
        response: bytes = b"",
    ) -> dict[str, Any]:
        """Record a request and return its facts. `headers` is None for those that `request` sends by default."""
        facts: dict[str, Any] = {"method": method, "target": target, "headers": None, "body": body.decode("latin-1")}
        if headers is not None:
            kept = [pair for pair in headers if pair[0] not in _HEADERS_LEFT_OUT]
            facts["headers"] = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in kept]
        facts["status"] = status
        if take_refusal():
            facts["refused"] = True
        self.record_created(facts, response)
        try:
            self.action_log.catch_up(self.world)
        finally:
            if status == StorageUnavailable.status:
                self.action_log.discard(DISK_REFUSED)  # repeated where there is space, the request would be accepted
            self.action_log.add("request", facts, raised=status == NO_RESPONSE)
            self.action_log.mark_events(self.world)
        return facts

    def record_created(self, facts: dict[str, Any], response: bytes) -> None:
        """Add the id of the resource that a request created, if its response shows one."""
        found = _FIRST_ID.search(response, 0, 200)
        if found is not None and facts["method"] == "POST" and facts["status"] == 200:
            facts["id"] = found[1].decode("latin-1")

    def read(self, operation_id: str, **path: str) -> dict[str, Any]:
        """The response of an operation that only reads, without a request: reading changes and records nothing.

        `path` gives the path parameters. Raises `ApiError`, and `ContractError` when the specification in use does not
        have the operation.
        """
        world = self.world
        world.config.contract.operation(operation_id)
        call = Request(world.config.project, path, {}, {}, {}, {})
        with world.exclusive():
            try:
                answer: dict[str, Any] = world.service.handlers[operation_id](call)
            except Problem as problem:
                refused = refusal(world, problem.status, problem.to_document(""))
            else:
                return answer
        raise refused
