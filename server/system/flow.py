"""Flow control of a connection whose client sends requests before it has the responses to earlier ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl


class HeldFlow(FlowControl):
    """uvicorn's flow control, which reads nothing more while `is_held()`.

    uvicorn resumes reading at each response and whenever an application waits for a body: a client that goes on
    sending would have any number of requests in memory.
    """

    def __init__(self, transport: asyncio.Transport, is_held: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._is_held = is_held

    def resume_reading(self) -> None:
        """Read on, unless what was read waits."""
        if not self._is_held():
            super().resume_reading()
