"""A receiver's status outside 100 to 599 is an error of the attempt, and a response that does not fit is logged."""

from __future__ import annotations

import logging
from contextlib import ExitStack

import orjson
import pytest

from leyden import Sandbox
from leyden.world.loopback import send_request
from tests.support.failing_receivers import answering, serving
from tests.support.lists import listed
from tests.support.served import served_leyden

STATUSES = ("000", "0", "099", "99", "600", "999", "1000")
CREATE = {"amount": "1000", "description": "tea", "expiresIn": 1}
FROZEN = ("--rate", "0", "--start", "2030-01-01T00:00:00Z", "--seed", "5")
KEY = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))


def test_a_number_that_is_not_an_http_status_is_a_failed_attempt() -> None:
    with ExitStack() as stack:
        client = stack.enter_context(served_leyden(*FROZEN))
        urls = [f"http://{stack.enter_context(serving(answering(f'{status} So')))}/" for status in STATUSES]
        for url in urls:
            client.ok("POST", "/v0/charges", {**CREATE, "callbackUrl": url})
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": "1s"})
        deliveries = {delivery["url"]: delivery for delivery in listed(client.ok, "/sandbox/v1/deliveries")}
        assert sorted(deliveries) == sorted(urls)
        for status, url in zip(STATUSES, urls, strict=True):
            [attempt] = deliveries[url]["attempts"]
            assert (attempt["status"], attempt["error"]) == (None, "protocol")
            assert status in attempt["note"]
            assert deliveries[url]["status"] == "pending"
        assert client.ok("POST", "/sandbox/v1/deliveries/wait", {"status": "any", "timeout": 0})["reached"]
        report = client.ok("POST", "/sandbox/v1/receiver-check", {"url": urls[0]})
        assert report["grade"] == "F"


@pytest.mark.parametrize("stored", [0, 99, 600, 999])
def test_an_attempt_that_was_stored_with_such_a_number_is_shown_as_failed(sandbox: Sandbox, stored: int) -> None:
    sandbox.receiver("shop").answers([500])
    charge = sandbox.charges.create(**CREATE, callbackUrl="http://shop.localhost/")
    sandbox.advance("1s")
    [row] = sandbox.world.service.outbox.deliveries(charge.id)
    with sandbox.world.exclusive():
        sandbox.world.service.outbox.rows.put({**row, "attempts": row["attempts"].replace(",500", f",{stored}")})
    [delivery] = listed(sandbox.ask, "/sandbox/v1/deliveries")
    [attempt] = delivery["attempts"]
    assert (attempt["status"], attempt["error"]) == (None, "protocol")
    assert attempt["note"] == f"the response has the status {stored:03d}: an HTTP status is 100 to 599"
    assert list(sandbox.callbacks["error"]) == ["protocol"]


def test_a_response_that_does_not_fit_the_spec_is_logged(sandbox: Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    charge = sandbox.charges.create(**CREATE)
    rows = sandbox.world.store.table("charges")
    with sandbox.world.exclusive():
        rows.put({**rows.existing(charge.id), "description": "x" * 100_000})
    with caplog.at_level(logging.ERROR, logger="leyden"):
        answer = send_request(sandbox.app, "GET", f"/v0/charges/{charge.id}", KEY)
    assert answer.status == 500
    [line] = [record.getMessage() for record in caplog.records if record.name == "leyden"]
    assert line.startswith("getChargeDetails failed on req-")
    assert orjson.loads(answer.body)["detail"] in line
    assert "description" in line
    assert len(line) < 1_000
