"""The real courier: it carries callbacks out over HTTP while the service goes on with its work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any

from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.system.process import system_time_ms

if TYPE_CHECKING:
    from leyden.server.system.http_session import Allow, Lookup, Screen, Session

Answered = Callable[[CallbackRequest, CallbackResponse], None]
Around = Callable[[], AbstractContextManager[Any]]


class HttpTransport:
    """A `leyden.server.ports.Courier` on the event loop in which it is used.

    `allow(host, address, port)` is asked before any socket is opened, with the URL's host and the address that it
    means; it names the rule that forbids the attempt, or gives None. `screen(host, port)` is asked the same before
    the host's address is even looked up. Without them everything is allowed. `lookup(name)` gives a name's addresses,
    by default the system's.
    """

    def __init__(
        self,
        *,
        allow: Allow | None = None,
        screen: Screen | None = None,
        lookup: Lookup | None = None,
        keep_alive_s: float = 1.0,
    ) -> None:
        self._allow: Allow = allow or _every_address
        self._screen: Screen = screen or _every_host
        self._lookup = lookup
        self._keep_alive_s = keep_alive_s
        self._session: Session | None = None
        self._around: Around = nullcontext
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._numbers = count()
        self._answers: list[tuple[CallbackRequest, CallbackResponse, Answered]] = []
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def pending(self) -> int:
        """Attempts under way, those included whose answer is yet to be told."""
        return len(self._tasks) + len(self._answers)

    def post(self, post: CallbackRequest, answered: Answered) -> None:
        """Send in the background, and call `answered(post, answer)` in the loop. Raises `RuntimeError` outside one."""
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        self._tasks[number] = loop.create_task(self._carry(number, post, answered))

    def tell_within(self, around: Around) -> None:
        """Enter `around()` whenever answers are told: those that came together are told within one."""
        self._around = around

    def wall_seconds(self, url: str) -> int:
        """Real time: receivers out there compare signatures with their own clocks."""
        return system_time_ms() // 1_000

    async def drained(self) -> None:
        """Return once nothing is under way and every answer has been told, follow-ups included."""
        while self.pending:
            over = asyncio.get_running_loop().create_future()
            self._waiting.append(over)
            await over

    async def close(self) -> None:
        """Abandon what is under way, without telling: to the outbox those attempts are lost, and made again later."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._answers.clear()
        self._tasks.clear()  # one that had not even begun leaves by itself no more
        self._look_whether_over()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _carry(self, number: int, post: CallbackRequest, answered: Answered) -> None:
        if self._session is None:
            # Here and not above: the client takes a fifth of a second to import, and many a server never sends.
            from leyden.server.system.http_session import Session

            self._session = Session(self._allow, self._screen, self._lookup, self._keep_alive_s)
        try:
            answer = await self._session.send(post)
            self._answers.append((post, answer, answered))
            if len(self._answers) == 1:
                # Not now: whoever else was answered in this round of the loop is told of in the same breath.
                asyncio.get_running_loop().call_soon(self._tell)
        finally:
            self._tasks.pop(number, None)
            self._look_whether_over()

    def _tell(self) -> None:
        answers, self._answers = self._answers, []
        try:
            with self._around():
                for post, answer, answered in answers:
                    try:
                        answered(post, answer)
                    except Exception as error:
                        _report(error)
        except Exception as error:
            _report(error)
        self._look_whether_over()

    def _look_whether_over(self) -> None:
        if self._waiting and not self.pending:
            waiting, self._waiting = self._waiting, []
            for over in waiting:
                if not over.done():
                    over.set_result(None)


def _report(error: Exception) -> None:
    # The outbox failed to take an answer: nobody waits for it, so the loop must be told.
    message = "a callback's answer could not be recorded"
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


def _every_address(host: str, address: str, port: int) -> str | None:
    return None


def _every_host(host: str, port: int) -> str | None:
    return None
