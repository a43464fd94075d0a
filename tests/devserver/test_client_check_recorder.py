"""What the client check records of a request: its body, and whether the client stayed for the whole response."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace

from starlette.types import Message, Receive, Scope, Send

from leyden.devserver.client_check.runs import RequestRecorder, SentRequest
from leyden.server.ports import CONNECTION


def recorded(*parts: bytes, leaves_after: int | None = None) -> SentRequest:
    """The record of a request whose body arrives in these parts; its client leaves after so many response messages."""
    connection = SimpleNamespace(is_closed=False)
    scope = {
        "type": "http", "method": "POST", "path": "/v0/charges", "headers": [(b"apikey", b"k")],
        "extensions": {CONNECTION: connection},
    }  # fmt: skip
    arriving = [
        {"type": "http.request", "body": part, "more_body": number < len(parts)} for number, part in enumerate(parts, 1)
    ]
    answer: Sequence[Message] = [
        {"type": "http.response.start", "status": 200, "headers": []},
        {"type": "http.response.body", "body": b"{", "more_body": True},
        {"type": "http.response.body", "body": b"}"},
    ]

    async def app(_: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        for number, message in enumerate(answer):
            connection.is_closed = number == leaves_after or connection.is_closed
            await send(message)

    async def receive() -> Message:
        return arriving.pop(0)

    async def send(_: Message) -> None:
        pass

    recorder = RequestRecorder(app, b"apikey")
    asyncio.run(recorder(scope, receive, send))
    (request,) = recorder.recorded("k")
    return request


def test_the_body_is_recorded_when_it_has_arrived() -> None:
    request = recorded(b'{"amount":', b' "1"}')
    assert (request.body, request.status, request.succeeded) == (b'{"amount": "1"}', 200, True)
    assert recorded(b"x" * 70_000, b"x").body is None


def test_a_client_that_left_did_not_get_the_response() -> None:
    early, late = recorded(b"{}", leaves_after=0), recorded(b"{}", leaves_after=2)
    assert (early.has_left, early.status, early.succeeded) == (True, None, False)
    assert (late.has_left, late.status, late.succeeded) == (True, 200, False)
    assert not recorded(b"{}").has_left


def test_what_happens_after_a_run_does_not_change_its_requests() -> None:
    recorder = RequestRecorder(lambda *_: asyncio.sleep(0), b"apikey")
    recorder.requests["k"] = [SentRequest(0, "POST", "/v0/charges", None)]
    (request,) = recorder.recorded("k")
    recorder.requests["k"][0].has_left = True
    assert not request.has_left
