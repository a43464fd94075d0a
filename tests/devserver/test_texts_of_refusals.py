"""The text of `ApiError` for each body that a refusal may have, in process and over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from leyden.errors import ApiError, Bolt11Error, PayerError
from leyden.http_sandbox import create_sandbox
from leyden.sandbox import Sandbox
from tests.support.http_servers import answering, handling
from tests.support.served import Client, served_leyden


def test_a_refusal_with_another_body_than_a_problem_says_what_came() -> None:
    with served_leyden("--rate", "0") as client, create_sandbox(client.url) as box, Sandbox(seed=7) as inside:
        for one in (inside, box):
            for body, text in (("empty", "500: the body of the response is empty"), ("html", "500 not JSON: <html>")):
                one.service_faults.add("error", status=500, body=body)
                with pytest.raises(ApiError) as refused:
                    one.charges.create(amount="1000", description="tea")
                assert str(refused.value).startswith(text)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "500: the body of the response is empty"),
        (b"{}", "500: the body of the response has neither a title nor a detail"),
        (b"null", "500 no JSON object: null"),
        (b'["a"]', '500 no JSON object: ["a"]'),
        (b"sorry", "500 not JSON: sorry"),
        (b'{"title": "Sorry"}', "500 Sorry"),
        (b'{"detail": "it failed"}', "500: it failed"),
    ],
)
def test_the_text_of_a_refusal_never_names_what_is_not_there(body: bytes, text: str) -> None:
    with handling(answering(body, status=500)) as url, pytest.raises(ApiError) as refused:
        create_sandbox(url)
    assert str(refused.value) == text


def test_an_invoice_that_was_copied_in_part_is_an_error_of_bolt11() -> None:
    with Sandbox(seed=1) as sandbox:
        for text in ("lnbcrt2500n1pcdc4", "LNBCRT1", "lightning:lnbcrt1x"):
            with pytest.raises(Bolt11Error):
                sandbox.wallet("ana").pay(text)
        for text in ("tea", "lnurl1x", "a@b@c"):
            with pytest.raises(PayerError):
                sandbox.wallet("ana").pay(text)


def test_the_note_of_a_built_in_receiver_names_no_url_that_is_blocked() -> None:
    with Sandbox(seed=1) as sandbox:
        for port, is_named in ((99, False), (1_023, False), (1_024, True), (80, True)):
            url = f"http://shop.localhost:{port}/x"
            charge = sandbox.charges.create(amount="1000", description="x", callbackUrl=url)
            sandbox.wallet("ana").pay(charge)
            sandbox.run()
            note = sandbox.ask("GET", f"/sandbox/v1/deliveries?chargeId={charge.id}")["data"][0]["attempts"][0]["note"]
            assert (f"http://localhost:{port}" in note) == is_named, note
            assert "whatever the port" in note


ONLY_OVER_HTTP = [
    ("/sandbox/v1/fork", {}),
    ("/sandbox/v1/receiver-check", {"url": "http://127.0.0.1:9/hook"}),
    ("/sandbox/v1/sandboxes", {"name": "x"}),
]


@pytest.mark.parametrize(("path", "body"), ONLY_OVER_HTTP, ids=[path for path, _ in ONLY_OVER_HTTP])
def test_what_a_request_in_process_cannot_do_names_the_url_that_does_it(path: str, body: dict[str, Any]) -> None:
    with Sandbox(seed=5) as sandbox:
        before = sandbox.http.post(path, json=body).json()["detail"]
        assert "Sandbox.serve()" in before
        url = sandbox.serve()
        refusal = sandbox.http.post(path, json=body).json()["detail"]
        assert "not served" not in before + refusal
        assert "no sandbox in a program" not in refusal
        assert url in refusal or "the URL that Sandbox.serve() returns" in refusal
        Client(url, sandbox.api_key).ok("POST", path, body)
