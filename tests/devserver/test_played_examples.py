"""The examples of the control document are what a sandbox answers to what they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from leyden import Sandbox

CONTROL = "/sandbox/v1"
# What no request determines: ids, keys, hashes, invoices, times and the time that something takes.
_FREE = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\b0[23][0-9a-f]{64}\b", "<key>"),
    (r"\b[0-9a-f]{64}\b", "<hash>"),
    (r"\blnbcrt[0-9a-z]+", "<invoice>"),
    (r"\blnurl1[0-9a-z]+", "<lnurl>"),
    (r"whsec_\S+", "<secret>"),
    (r"\bkey_[0-9a-f]{32}\b", "<API key>"),
    (r"http://localhost(:\d+)?/", "<server>/"),
)
_FREE_FIELDS = frozenset({"latencyMs", "durationMicroseconds", "bytes", "version", "leyden"})
Played = Iterator[tuple[str, Any]]


def comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "<free>" if name in _FREE_FIELDS else comparable(part) for name, part in value.items()}
    if isinstance(value, list):
        return [comparable(part) for part in value]
    if isinstance(value, str):
        for pattern, name in _FREE:
            value = re.sub(pattern, name, value)
    return value


class Player:
    """A sandbox that sends what the examples of requests are."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        document = sandbox.http.get(f"{CONTROL}/openapi.json").json()
        self.examples = {name: one["value"] for name, one in document["components"]["examples"].items()}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; a body that is a name is the example of this name."""
        body = self.examples[body] if isinstance(body, str) else body
        return self.sandbox.ask(method, f"{CONTROL}{path}", body)

    def coffee(self, **fields: Any) -> Any:
        return self.sandbox.charges.create(amount="250000", description="Coffee", **fields)

    def tips(self) -> Any:
        return self.sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")


def copies(player: Player) -> Played:
    static = player.sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Coffee")
    yield "SnapshotOne", player.ask("POST", "/snapshots", "SnapshotCreateNamed")
    yield "SnapshotListOne", player.ask("GET", "/snapshots")
    static.update(description="Tips")
    yield "DifferencesDescribed", player.ask("POST", "/diff", "DiffWithSnapshot")


def clock(player: Player) -> Played:
    yield "ClockStill", player.ask("GET", "/clock")
    player.coffee(expiresIn=300, callbackUrl="http://shop.localhost/")
    yield "AdvancedExpiry", player.ask("POST", "/clock/advance", "AdvanceByText")
    yield "AdvancedNothing", player.ask("POST", "/clock/advance", "AdvanceTo")


def payments(player: Player) -> Played:
    for end, name in (("settle", "PaymentSettled"), ("cancel", "PaymentCancelled")):
        charge = player.sandbox.charges.create(amount="1000", description="Sticker")
        order = {**player.examples["PaymentOrderHeld"], "request": f"lightning:{charge.request}"}
        payment = player.ask("POST", "/payments", order)
        player.sandbox.advance("2.5s")
        yield "PaymentHeld", player.ask("GET", f"/payments/{payment['id']}")
        yield name, player.ask("POST", f"/payments/{payment['id']}/{end}")
    coffee = player.coffee()
    yield "PaymentSucceeded", player.ask("POST", "/payments", {"request": coffee.request})
    yield "PaymentUnreadable", player.ask("POST", "/payments", {"request": "lnurl1dp6"})
    yield (
        "ChargeFailed",
        player.ask(
            "POST",
            f"/charges/{player.sandbox.charges.create(amount='1000', description='Sticker').id}/fail",
            "FailureLost",
        ),
    )


def rules(player: Player) -> Played:
    yield "PayerAdded", player.ask("POST", "/payers", "PayerSoon")
    yield "FaultDropped", player.ask("POST", "/faults", "FaultDropFirst")
    yield "ServiceFaultAdded", player.ask("POST", "/service-faults", "ServiceFaultLimit")
    player.ask("POST", "/payers", "PayerHalf")
    yield "ClearedTwo", player.ask("DELETE", "/payers")
    player.ask("POST", "/faults", "FaultLate")
    yield "FaultsClearedTwo", player.ask("DELETE", "/faults")
    yield "InboxScripted", player.ask("PUT", "/inboxes/shop.inbox/script", "ScriptFlaky")


def deliveries(player: Player) -> Played:
    player.sandbox.receiver("shop").answers([500])
    coffee = player.coffee(callbackUrl="http://shop.localhost/")
    player.ask("POST", "/payments", {"request": coffee.request})
    wait = {**player.examples["WaitPaid"], "chargeId": coffee.id}
    player.sandbox.advance("0s")
    yield "WaitedInVain", player.ask("POST", "/deliveries/wait", wait)
    player.sandbox.advance("1m")
    yield "WaitedReached", player.ask("POST", "/deliveries/wait", wait)
    page = player.ask("GET", "/deliveries")
    [first] = page["data"]
    played = {"url": "https://shop.example/lightning/updates"}
    attempts = [{**one, "status": status} for one, status in zip(first["attempts"], (503, 204), strict=True)]
    yield "DeliveryListCoffee", {**page, "data": [{**first, **played, "attempts": attempts}]}
    player.ask("POST", "/payments", {"request": player.coffee(callbackUrl="http://shop.localhost/").request})
    second = player.ask("GET", "/deliveries")["data"][0]
    order = {**player.examples["ReplayChosen"], "ids": [first["id"], second["id"]]}
    yield "ReplayedTwo", player.ask("POST", "/deliveries/replay", order)


def inspection(player: Player) -> Played:
    coffee = player.coffee(expiresIn=3_600)
    yield "InspectedChargeListCoffee", player.ask("GET", "/charges")
    yield "InspectedChargeCoffee", player.ask("GET", f"/charges/{coffee.id}")
    yield "DueEventListExpiry", player.ask("GET", "/clock/due")


def network(player: Player) -> Played:
    yield "NetworkNodeListShop", player.ask("GET", "/network/nodes?limit=1")
    yield "InterceptorAdded", player.ask("POST", "/network/interceptors", "InterceptorFail")
    yield "InterceptorListOne", player.ask("GET", "/network/interceptors")
    yield "NodeShop", player.ask("POST", "/network/nodes/shop/drain", "DrainDry")
    yield "NodeShop", player.ask("GET", "/network/nodes/shop")
    yield "ChannelOpened", player.ask("POST", "/network/nodes/n0/channels", "ChannelOrderInbound")


def keys(player: Player) -> Played:
    yield "SecretsOne", player.ask("GET", "/webhook-secret")


@pytest.mark.parametrize("play", [copies, clock, payments, rules, deliveries, inspection, network, keys])
def test_an_example_is_what_a_sandbox_answers(play: Callable[[Player], Played]) -> None:
    network_of = "star:6" if play is network else "direct"
    with Sandbox(seed=3, start="2030-01-01T09:00Z", network=network_of) as sandbox:
        player = Player(sandbox)
        wrong = {}
        for name, answer in play(player):
            expected, got = comparable(player.examples[name]), comparable(answer)
            if expected != got:
                wrong[name] = f"{expected}\n{got}"
    assert not wrong, "\n".join(wrong.values())


def test_an_id_of_an_example_looks_like_those_of_a_sandbox() -> None:
    """Deliveries, payments, Charges, faults and rules all have UUIDs."""
    with Sandbox(seed=3) as sandbox:
        for path in ("/openapi.json", f"{CONTROL}/openapi.json"):
            assert "msg_" not in sandbox.http.get(path).text, path
