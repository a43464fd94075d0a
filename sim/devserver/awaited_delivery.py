"""Sends callback requests and waits for their responses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from leyden.server.ports import CallbackRequest, CallbackResponse, CallbackTransport


async def deliver(transport: CallbackTransport, request: CallbackRequest) -> CallbackResponse:
    """Send one request and return its response. The transport may report it in another thread."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[CallbackResponse] = loop.create_future()

    def complete(response: CallbackResponse) -> None:
        if not result.done():  # the waiting task may have been cancelled
            result.set_result(response)

    def report(_: CallbackRequest, response: CallbackResponse) -> None:
        loop.call_soon_threadsafe(complete, response)

    transport.post(request, report)
    return await result


async def deliver_together(transport: CallbackTransport, requests: Sequence[CallbackRequest]) -> list[CallbackResponse]:
    """Send requests at the same time and return their responses, in the order of the requests."""
    return await asyncio.gather(*(deliver(transport, request) for request in requests))
