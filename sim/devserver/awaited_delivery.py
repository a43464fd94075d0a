"""Carried: a post handed to a courier, and its answer waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from leyden.server.ports import CallbackRequest, CallbackResponse, CallbackTransport


async def deliver(courier: CallbackTransport, post: CallbackRequest) -> CallbackResponse:
    """The answer to one post. Must run in the courier's event loop."""
    told: asyncio.Future[CallbackResponse] = asyncio.get_running_loop().create_future()

    def answered(_: CallbackRequest, answer: CallbackResponse) -> None:
        if not told.done():  # whoever waited may have been told to stop
            told.set_result(answer)

    courier.post(post, answered)
    return await told


async def deliver_together(courier: CallbackTransport, posts: Sequence[CallbackRequest]) -> list[CallbackResponse]:
    """The answers to posts that are sent at the same moment, in their order."""
    return await asyncio.gather(*(deliver(courier, post) for post in posts))
