"""`leyden.http_sandbox` with a server that is another program than Leyden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leyden.errors import ArgumentError, LeydenError
from leyden.http_sandbox import HttpSandbox, create_sandbox
from tests.support.http_servers import answering, handling

_CREATED = {
    "id": "a", "name": None, "url": "", "serverUrl": "", "apiKey": "key", "webhookSecret": "whsec_", "seed": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "body", [b"<html></html>", b"", b"null", b"[]", b'"id"', b'{"id": "a"}', b"\xff\xfe", b"[" * 100_000]
)
def test_a_response_that_leyden_does_not_send_is_an_error_with_the_mend(body: bytes) -> None:
    with handling(answering(body)) as url, pytest.raises(LeydenError, match="did not answer as Leyden does") as raised:
        create_sandbox(url)
    assert "give the URL of `leyden serve`" in str(raised.value)


@pytest.mark.parametrize("url", ["localhost:8402", "file:///etc/passwd", "ftp://127.0.0.1", "data:,{}", "http://[::1"])
def test_what_is_no_url_of_http_is_refused_before_it_is_opened(url: str) -> None:
    with pytest.raises(LeydenError, match="is no base URL"):
        create_sandbox(url)


def test_a_page_that_follows_itself_ends_a_list() -> None:
    with handling(answering(b'{"data": [], "next": "again"}')) as url:
        sandbox = HttpSandbox({**_CREATED, "url": url})
        with pytest.raises(LeydenError, match="a page follows itself"):
            len(sandbox.charges)


_ITSELF: list[object] = []
_ITSELF.append(_ITSELF)
_DEEP: list[object] = []
for _ in range(100_000):
    _DEEP = [_DEEP]


@pytest.mark.parametrize("value", [{1}, b"a", object(), int, _ITSELF, _DEEP], ids=lambda value: type(value).__name__)
def test_an_argument_without_a_json_form_is_one_error_of_leyden(value: Any) -> None:
    sandbox = HttpSandbox({**_CREATED, "url": "http://127.0.0.1:1"})
    calls: list[Callable[[], Any]] = [
        lambda: create_sandbox("http://127.0.0.1:1", name=value),
        lambda: sandbox.charges.create(amount=value),
        lambda: sandbox.snapshot(value),
        lambda: sandbox.advance(value),
        lambda: sandbox.ask("POST", "/v0/charges", {"amount": value}),
    ]
    for call in calls:
        with pytest.raises(LeydenError) as raised:
            call()
        assert "\n" not in str(raised.value)
        assert "JSON form" in str(raised.value) or "span" in str(raised.value) or "duration" in str(raised.value)


@pytest.mark.parametrize(("method", "target"), [(1, "/v0/charges"), ("GET", 1.5), (None, None)])
def test_a_method_or_a_target_that_is_no_text_is_refused(method: Any, target: Any) -> None:
    with pytest.raises(ArgumentError, match="is no text"):
        HttpSandbox({**_CREATED, "url": "http://127.0.0.1:1"}).ask(method, target)
