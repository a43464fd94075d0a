"""The loopback gives a body as a server reads it: a long one in several messages."""

from __future__ import annotations

from typing import Any

import pytest

from leyden.world.loopback import send_request

PART = 64 * 1024


@pytest.mark.parametrize(
    ("size", "parts"),
    [(0, [0]), (1, [1]), (PART, [PART]), (PART + 1, [PART, 1]), (3 * PART, [PART] * 3)],
)
def test_a_long_body_has_several_messages(size: int, parts: list[int]) -> None:
    read: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while not read or read[-1].get("more_body"):
            read.append(await receive())
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    body = bytes(number % 251 for number in range(size))
    assert send_request(app, "POST", "/", body=body).status == 204
    assert [len(one["body"]) for one in read] == parts
    assert b"".join(one["body"] for one in read) == body
