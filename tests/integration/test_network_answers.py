"""What an answer from the network makes due on a paused clock runs when the answer is recorded, without a request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.served import Client, listening_receiver, served_leyden

Ask = Callable[..., dict]


def created(client: Client) -> Ask:
    """A sandbox that was created over HTTP."""
    box = client.ok("POST", "/sandbox/v1/sandboxes", {"rate": 0})
    return lambda *request: client.ok(*request, key=box["apiKey"])


def pay_two(ask: Ask, url: str) -> None:
    """Two payments, of which the callback of the first is held back until that of the second was answered."""
    ask("POST", "/sandbox/v1/faults", {"kind": "reorder", "delay": "1h"})
    for number in range(2):
        body = {"amount": "1000", "description": str(number), "callbackUrl": url}
        request = ask("POST", "/v0/charges", body)["data"]["invoice"]["request"]
        ask("POST", "/sandbox/v1/payments", {"request": request})


@pytest.mark.parametrize("sandbox", [lambda client: client.ok, created], ids=["configured", "created"])
def test_the_callback_that_an_answer_releases_is_sent_without_a_request(sandbox: Callable[[Client], Ask]) -> None:
    with served_leyden("--rate", "0", "--seed", "5") as client:
        ask = sandbox(client)
        with listening_receiver() as (url, received):
            pay_two(ask, url)
            sent = [received.get(timeout=20)[0]["webhook-id"] for _ in range(2)]
            assert len(set(sent)) == 2


@pytest.mark.parametrize("sandbox", [lambda client: client.ok, created], ids=["configured", "created"])
def test_a_wait_sees_the_delivery_that_an_answer_releases(sandbox: Callable[[Client], Ask]) -> None:
    with served_leyden("--rate", "0", "--seed", "5") as client:
        ask = sandbox(client)
        with listening_receiver() as (url, _):
            pay_two(ask, url)
            assert ask("POST", "/sandbox/v1/deliveries/wait", {"count": 2, "timeout": 5})["reached"]
            before = ask("GET", "/sandbox/v1")["journalHash"]
            for path in ("/clock/due", "/deliveries", "/charges"):
                ask("GET", f"/sandbox/v1{path}")
            assert ask("GET", "/sandbox/v1")["journalHash"] == before
