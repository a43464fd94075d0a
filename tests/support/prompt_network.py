"""A network in the running event loop, without a socket: for tests of callbacks beside other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from leyden.server.ports import CallbackRequest, CallbackResponse
from tests.support.hosted import START_MS


class PromptNetwork:
    """A network whose receivers answer in the next round of the event loop, some of them with an error."""

    def __init__(self) -> None:
        self._around: Callable[[], AbstractContextManager[None]] = nullcontext
        self._pending = 0

    def post(self, request: CallbackRequest, responded: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        status = self.status_of(request)
        self._pending += 1

        def report() -> None:
            self._pending -= 1
            with self._around():
                responded(request, CallbackResponse(status=status))

        asyncio.get_running_loop().call_soon(report)

    def status_of(self, request: CallbackRequest) -> int:
        """The status of a response."""
        return 500 if (request.attempt + len(request.body)) % 3 else 200

    def report_within(self, around: Callable[[], AbstractContextManager[None]]) -> None:
        self._around = around

    def receiver_time_s(self, url: str) -> int:
        return START_MS // 1_000

    def blocked_note(self, url: str) -> str:
        return ""

    async def wait_idle(self) -> None:
        while self._pending:
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Nothing is open."""
