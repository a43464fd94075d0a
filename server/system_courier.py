"""The real courier: it carries callbacks out over HTTP while the service goes on with its work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from server.ports import Answer, Post
from server.system import wall_ms

if TYPE_CHECKING:
    from server.system_session import Allow, Lookup, Screen, Session


class HttpCourier:
    """A `server.ports.Courier` on the event loop in which it is used.

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
        self._tasks: set[asyncio.Task[None]] = set()
        self._telling = False
        self._follow_ups: list[tuple[Post, Callable[[Post, Answer], None]]] = []

    @property
    def pending(self) -> int:
        """Attempts under way, those included whose answer is being told."""
        return len(self._tasks)

    def post(self, post: Post, answered: Callable[[Post, Answer], None]) -> None:
        """Send in the background, and call `answered(post, answer)` in the loop. Raises `RuntimeError` outside one."""
        if self._telling:
            self._follow_ups.append((post, answered))
        else:
            self._begin(post, answered)

    def wall_seconds(self, url: str) -> int:
        """Real time: receivers out there compare signatures with their own clocks."""
        return wall_ms() // 1_000

    async def drained(self) -> None:
        """Return once nothing is under way and every answer has been told, follow-ups included."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Abandon what is under way, without telling: to the outbox those attempts are lost, and made again later."""
        for task in self._tasks:
            task.cancel()
        await self.drained()
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _begin(self, post: Post, answered: Callable[[Post, Answer], None]) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(post, answered))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def _carry(self, post: Post, answered: Callable[[Post, Answer], None]) -> None:
        """Carry one post, and then the first of those that its answer gave rise to, and so on: whoever is on the way
        already takes the next one along, which costs less than sending somebody out for each."""
        if self._session is None:
            # Here and not above: the client takes a fifth of a second to import, and many a server never sends.
            from server.system_session import Session

            self._session = Session(self._allow, self._screen, self._lookup, self._keep_alive_s)
        session = self._session
        while True:
            began = time.perf_counter()
            answer = await session.send(post)
            answer = replace(answer, latency_ms=round((time.perf_counter() - began) * 1_000))
            told = False
            self._telling = True
            try:
                answered(post, answer)
                told = True
            finally:
                self._telling = False
                waiting, self._follow_ups = self._follow_ups, []
                for following in waiting[1:] if told else waiting:
                    self._begin(*following)
            if not waiting:
                return
            post, answered = waiting[0]

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # The outbox failed to take the answer: nobody waits for this task, so the loop must be told.
            message = "a callback's answer could not be recorded"
            task.get_loop().call_exception_handler({"message": message, "exception": error, "task": task})


def _every_address(host: str, address: str, port: int) -> str | None:
    return None


def _every_host(host: str, port: int) -> str | None:
    return None
