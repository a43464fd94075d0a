"""Requests that a reset overtakes: the present run of a world answers them, as if they had come after it."""

from __future__ import annotations

from starlette.types import Message, Receive, Scope, Send

from leyden.errors import ClosedError
from leyden.server.errors import ServiceReplaced
from leyden.server.http.pipeline import BODY
from leyden.world.world import World


async def respond(world: World, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request by the application of a world. While the body arrives, a reset or a restore may end the run in
    which the request began; the next one then answers it."""
    while True:
        try:
            return await world.app(scope, receive, send)
        except ClosedError:
            raise  # there is no next one
        except ServiceReplaced:
            receive = _again(scope[BODY], receive)
            for name in [name for name in scope if name.startswith("leyden.")]:
                del scope[name]


def _again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that starts with a body that was already read."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return unread.pop() if unread else await receive()

    return receive_again
