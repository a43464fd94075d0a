"""The fault `reorder` with receivers on the network: a held callback is sent when another attempt has ended, so that
their order is the same in every run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from leyden import Sandbox
from tests.support.failing_receivers import not_listening
from tests.support.lists import listed
from tests.support.receivers import Got, threaded
from tests.support.served import Client, served_leyden

Ask = Callable[..., Any]


class Slow:
    """The answers of a receiver: it keeps the order in which requests came, and how many it had at once."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.most = self._present = 0
        self._lock = threading.Lock()

    def __call__(self, got: Got) -> int:
        with self._lock:
            self.order.append(got.json["description"])
            self._present += 1
            self.most = max(self.most, self._present)
        time.sleep(0.2)
        with self._lock:
            self._present -= 1
        return 200


def expiring(ask: Ask, name: str, after_s: int, url: str) -> str:
    fields = {"amount": "1000", "description": name, "callbackUrl": url, "expiresIn": after_s}
    return str(ask("POST", "/v0/charges", fields)["data"]["id"])


def play(ask: Ask, kinds: tuple[str, ...], url: str, first_url: str) -> None:
    """Callbacks at 5, 6, 7 ... s; those of this kind are held back. `first_url` gets the first that is sent."""
    first = kinds.index("sent")
    for number, kind in enumerate(kinds):
        charge = expiring(ask, str(number), 5 + number, first_url if number == first else url)
        if kind == "held":
            ask("POST", "/sandbox/v1/faults", {"kind": "reorder", "chargeId": charge})
    ask("POST", "/sandbox/v1/clock/advance", {"by": "30s"})


@pytest.mark.parametrize(
    ("kinds", "order"),
    [
        (("held", "sent"), ["1", "0"]),
        (("held", "sent", "sent"), ["1", "0", "2"]),
        (("sent", "held", "sent"), ["0", "2", "1"]),
        (("held", "sent", "held", "sent"), ["1", "0", "3", "2"]),
    ],
)
@pytest.mark.parametrize("where", ["served", "in process"])
def test_a_held_callback_follows_the_answer_to_another_one(
    where: str, kinds: tuple[str, ...], order: list[str]
) -> None:
    slow = Slow()
    with threaded(slow) as hook:
        if where == "served":
            with served_leyden("--rate", "0") as client:
                play(client.ok, kinds, hook.url, hook.url)
        else:
            with Sandbox(egress="loopback") as sandbox:
                play(sandbox.ask, kinds, hook.url, hook.url)
    assert (slow.order, slow.most) == (order, 1)


def test_an_attempt_at_a_dead_receiver_releases_it_too() -> None:
    slow = Slow()
    with threaded(slow) as hook, not_listening() as dead, served_leyden("--rate", "0") as client:
        play(client.ok, ("held", "sent"), hook.url, f"http://{dead}/")
        deliveries = {row["status"]: row for row in listed(client.ok, "/sandbox/v1/deliveries")}
    assert slow.order == ["0"]
    assert deliveries["delivered"]["attempts"][0]["at"] >= deliveries["pending"]["attempts"][0]["at"]


def test_it_is_released_once_after_a_restart_in_between(tmp_path: Any) -> None:
    """The attempt that was in flight is lost and made again; its end releases the held one."""
    slow, released = Slow(), threading.Event()

    def hanging(got: Got) -> int:
        released.wait(20)
        return 200

    options = ("--rate", "0", "--data", str(tmp_path))
    with threaded(slow) as hook, threaded(hanging) as never:
        with served_leyden(*options) as client:
            held = expiring(client.ok, "held", 5, hook.url)
            client.ok("POST", "/sandbox/v1/faults", {"kind": "reorder", "chargeId": held})
            client.ok("POST", "/sandbox/v1/clock/advance", {"by": "5s"})
            other = client.ok("POST", "/v0/charges", _charge(never.url))["data"]
            client.ok("POST", "/sandbox/v1/payments", {"request": other["invoice"]["request"]})
            _until(lambda: never.inbox)
        assert slow.order == []
        released.set()
        with served_leyden(*options) as client:
            client.ok("POST", "/sandbox/v1/clock/advance", {"by": "1s"})
            statuses = _statuses(client)
    assert (slow.order, statuses) == (["held"], ["delivered", "delivered"])


def _charge(url: str) -> dict[str, str]:
    return {"amount": "1000", "description": "other", "callbackUrl": url}


def _statuses(client: Client) -> list[str]:
    return [row["status"] for row in listed(client.ok, "/sandbox/v1/deliveries")]


def _until(done: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not done() and time.monotonic() < until:
        time.sleep(0.02)
