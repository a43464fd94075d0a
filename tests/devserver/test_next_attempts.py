"""What is said of a pending delivery whose next attempt is not made when it is due, or not yet."""

from __future__ import annotations

import re
import socket
from typing import Any

import pytest

from leyden import Sandbox
from tests.support.served import Client, served_leyden

WAIT = "/sandbox/v1/deliveries/wait"
PLACES = 8  # inFlight of the spec


def paid(sandbox: Sandbox, url: str) -> str:
    charge = sandbox.charges.create(amount="21000", description="tea", callbackUrl=url)
    sandbox.wallet("ana").pay(charge)
    return charge.id


def delivery(sandbox: Sandbox, charge_id: str) -> dict[str, Any]:
    [row] = sandbox.ask("GET", f"/sandbox/v1/deliveries?chargeId={charge_id}")["data"]
    return dict(row)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_delivery_that_waits_for_the_end_of_another_attempt_says_so(sandbox: Sandbox, is_dropped: bool) -> None:
    sandbox.receiver("silent").always("timeout")
    if is_dropped:
        sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "drop", "count": PLACES})
    for _ in range(PLACES):
        paid(sandbox, "http://silent.localhost/hook")
    sandbox.advance("1s")
    made = paid(sandbox, "http://shop.localhost/hook")
    sandbox.advance("0s")
    waits = "is due and waits until one of the 8 attempts in flight ends, the most at once: to http://silent"
    assert delivery(sandbox, made)["note"].startswith(f"it {waits}")
    note = sandbox.ask("POST", WAIT, {"chargeId": made})["note"]
    assert note.startswith(f"the next attempt of delivery {delivery(sandbox, made)['id']} {waits}"), note
    found = re.search(r": advance the clock to (\S+Z), when attempt 1 of delivery (\S+) ends$", note)
    assert found is not None, note
    sandbox.advance_to(found[1])
    ended = sandbox.ask("GET", f"/sandbox/v1/deliveries/{found[2]}")
    assert ended["attempts"][0]["answeredAt"] == found[1]
    assert sandbox.ask("POST", WAIT, {"chargeId": made})["reached"]
    assert delivery(sandbox, made)["note"] == ""


@pytest.mark.parametrize("kind", ["delay", "reorder", "burst"])
@pytest.mark.parametrize("is_of_charge", [False, True])
def test_an_attempt_that_a_fault_will_delay_is_made_at_the_instant_of_the_note(
    sandbox: Sandbox, kind: str, is_of_charge: bool
) -> None:
    sandbox.receiver("shop").answers([500])
    made = paid(sandbox, "http://shop.localhost/hook")
    sandbox.advance("0s")
    fault: dict[str, Any] = {"kind": kind, "count": 3, **({"chargeId": made} if is_of_charge else {})}
    fault_id = sandbox.ask("POST", "/sandbox/v1/faults", fault)["id"]
    due_at = delivery(sandbox, made)["dueAt"]
    note = sandbox.ask("POST", WAIT, {"chargeId": made})["note"]
    unless = "" if is_of_charge else ", unless another attempt meets it before"
    latest = "" if kind == "delay" else " at the latest"
    found = re.search(
        rf", which fault {fault_id} of the kind {kind} delays from {due_at} on{unless}, is due at (\S+Z){latest} and",
        note,
    )
    assert found is not None, note
    assert found[1] > due_at
    sandbox.advance_to(due_at)
    assert len(delivery(sandbox, made)["attempts"]) == 1
    assert delivery(sandbox, made)["dueAt"] == found[1]
    held = sandbox.ask("POST", WAIT, {"chargeId": made})["note"]
    assert f"which a fault of the kind {kind} delays, is due at {found[1]}{latest} and" in held
    sandbox.advance_to(found[1])
    assert delivery(sandbox, made)["attempts"][1]["at"] == found[1]


@pytest.mark.parametrize("fault", [{"attempt": 1}, {"event": "charge.expired"}, {"kind": "drop"}], ids=str)
def test_a_fault_that_delays_no_attempt_of_the_delivery_is_not_named(sandbox: Sandbox, fault: dict) -> None:
    sandbox.receiver("shop").answers([500])
    made = paid(sandbox, "http://shop.localhost/hook")
    sandbox.advance("0s")
    sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "delay", **fault})
    note = sandbox.ask("POST", WAIT, {"chargeId": made})["note"]
    assert f"is due at {delivery(sandbox, made)['dueAt']} and the clock is paused" in note
    assert "fault" not in note


@pytest.fixture
def client():
    with served_leyden("--rate", "1", "--callback-timeout", "60s") as client:
        yield client


def test_silent_receivers_on_the_network_that_take_all_places_are_named(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/hook"

        def failed(to: str) -> str:
            fields = {"amount": "21000", "description": "tea", "callbackUrl": to}
            made: str = client.ok("POST", "/v0/charges", fields)["data"]["id"]
            client.ok("POST", f"/sandbox/v1/charges/{made}/fail")
            return made

        for _ in range(PLACES):
            failed(url)
        made = failed("http://shop.localhost/hook")
        # Each attempt is in flight before the last one is due.
        note = client.ok("POST", WAIT, {"chargeId": made, "timeout": 1})["note"]
        assert f"ends, the most at once: to {url} (8): let a receiver of theirs answer, and wait again" in note, note
        assert "--callback-timeout" in note
        [row] = client.ok("GET", f"/sandbox/v1/deliveries?chargeId={made}")["data"]
        assert (row["status"], row["attempts"]) == ("pending", [])
        assert f"to {url} (8): let the receivers answer, or use a shorter callback timeout" in row["note"]
        connection, _ = silent.accept()
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        connection.close()
        assert client.ok("POST", WAIT, {"chargeId": made})["reached"]


def test_a_wait_for_blocked_says_when_a_delivery_is_blocked(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="21000", description="tea", callbackUrl="http://127.0.0.1:9/hook")
    note = sandbox.ask("POST", WAIT, {"chargeId": charge.id, "status": "blocked"})["note"]
    assert note.endswith("; a delivery is blocked when its address is not allowed or the document refuses its body")
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("0s")
    assert sandbox.ask("POST", WAIT, {"chargeId": charge.id, "status": "blocked"})["reached"]
