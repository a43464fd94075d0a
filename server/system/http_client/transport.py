"""The HTTP transport: it sends callbacks in the background on the event loop and reports their responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any

from leyden.server.callbacks.egress import UNRESOLVED, Egress
from leyden.server.ports import CallbackRequest, CallbackResponse, OnResponse
from leyden.server.system.clock import system_time_ms

if TYPE_CHECKING:
    from leyden.server.system.http_client.session import AddressCheck, Explain, HostCheck, Lookup, Session

ReportContext = Callable[[], AbstractContextManager[Any]]


class HttpTransport:
    """A `leyden.server.ports.CallbackTransport` over real HTTP.

    `check_host(host, port)` runs before the host's address is looked up, `check_address(host, address, port)` before a
    socket is opened. Each returns the name of the rule that forbids the attempt, or None. By default everything is
    allowed. `explain(rule, host, port, address)` gives the note of a forbidden attempt, by default the rule; for the
    rule `unresolved` it gives an addition to the note, by default none. `blocked_note(url)` is the note of an attempt
    that is blocked now, as far as that is known without a lookup. `lookup(name)` resolves a name to its addresses; the
    default is the system's resolver.
    """

    def __init__(
        self,
        *,
        check_address: AddressCheck | None = None,
        check_host: HostCheck | None = None,
        explain: Explain | None = None,
        blocked_note: Callable[[str], str] | None = None,
        lookup: Lookup | None = None,
    ) -> None:
        self._check_address: AddressCheck = check_address or _allow_address
        self._check_host: HostCheck = check_host or _allow_host
        self._explain: Explain = explain or _rule_alone
        self._blocked_note = blocked_note
        self._lookup = lookup
        self._session: Session | None = None
        self._report_context: ReportContext = nullcontext
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._task_ids = count()
        self._responses: list[tuple[CallbackRequest, CallbackResponse, OnResponse]] = []
        self._idle_waiters: list[asyncio.Future[None]] = []
        self.is_closed = False

    @classmethod
    def within(cls, egress: Egress) -> HttpTransport:
        """A transport that sends what this egress policy allows."""
        return cls.following(lambda: egress)

    @classmethod
    def following(cls, egress: Callable[[], Egress]) -> HttpTransport:
        """A transport that sends what the egress policy allows that `egress` returns at the time."""
        return cls(
            check_address=lambda *target: egress().check_address(*target),
            check_host=lambda *target: egress().check_host(*target),
            explain=lambda *details: egress().explain(*details),
            blocked_note=lambda url: egress().blocked_note(url),
        )

    @property
    def pending_count(self) -> int:
        """Attempts in flight, and those whose response is not reported yet."""
        return len(self._tasks) + len(self._responses)

    def post(self, request: CallbackRequest, on_response: OnResponse) -> None:
        """Send in the background, and call `on_response` in the event loop. Once it is closed, nothing is sent. Raises
        `RuntimeError` without a loop."""
        loop = asyncio.get_running_loop()
        if self.is_closed:
            return
        task_id = next(self._task_ids)
        self._tasks[task_id] = loop.create_task(self._send(task_id, request, on_response))

    def report_within(self, context: ReportContext) -> None:
        """Enter `context()` when responses are reported: those that arrive together are reported in one context."""
        self._report_context = context

    def blocked_note(self, url: str) -> str:
        """The note of an attempt to send to `url` that is blocked now; empty when it may be sent, and when only the
        lookup of the host's name can tell."""
        return "" if self._blocked_note is None else self._blocked_note(url)

    def receiver_time_s(self, url: str) -> int:
        """The system clock, in seconds since the epoch: a real receiver compares signatures with its own clock."""
        return system_time_ms() // 1_000

    async def wait_idle(self) -> None:
        """Return when nothing is in flight and every response is reported, those of follow-up attempts included."""
        while self.pending_count:
            idle = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(idle)
            await idle

    async def close(self) -> None:
        """Cancel what is in flight, without reporting it, and send nothing more: the outbox sends those callbacks again
        after a restart."""
        self.is_closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._responses.clear()
        self._tasks.clear()  # a task that was cancelled before its first step has not removed itself
        self._wake_if_idle()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _send(self, task_id: int, request: CallbackRequest, on_response: OnResponse) -> None:
        if self._session is None:
            # Imported here: the client takes a fifth of a second to import, and many servers never send.
            from leyden.server.system.http_client.session import Session

            self._session = Session(self._check_address, self._check_host, self._explain, self._lookup)
        try:
            response = await self._session.send(request)
            self._responses.append((request, response, on_response))
            if len(self._responses) == 1:
                # Not now: the other responses of this round of the loop are reported in the same context.
                asyncio.get_running_loop().call_soon(self._report)
        finally:
            self._tasks.pop(task_id, None)
            self._wake_if_idle()

    def _report(self) -> None:
        responses, self._responses = self._responses, []
        try:
            with self._report_context():
                for request, response, on_response in responses:
                    try:
                        on_response(request, response)
                    except Exception as error:
                        _log_error(error)
        except Exception as error:
            _log_error(error)
        self._wake_if_idle()

    def _wake_if_idle(self) -> None:
        if self._idle_waiters and not self.pending_count:
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)


def _log_error(error: Exception) -> None:
    # The outbox could not record a response, and no caller waits for it: the event loop logs the error.
    message = "a callback's response could not be recorded"
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


def _rule_alone(rule: str, host: str, port: int, address: str) -> str:
    return "" if rule == UNRESOLVED else rule


def _allow_address(host: str, address: str, port: int) -> str | None:
    return None


def _allow_host(host: str, port: int) -> str | None:
    return None
