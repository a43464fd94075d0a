"""The advice in the reasons of failed payments, on many small networks: each is followed in a fork, where it helps."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from leyden import Sandbox
from leyden.errors import GraphError
from leyden.lightning.routing.payer_names import PAYER_NAMES
from leyden.lightning.topology.graph import from_edges
from leyden.sandbox.resources import Payment

NETWORKS = ("star:6", "line:4", "hub:8", "scale-free:20", "scale-free:30")
PAYERS = ("leyden", "lnd", "ldk", "cln")
AMOUNTS = (1_000, 1_500, 250_000, 90_000_000, 2_000_000_000, 30_000_000_000)


def paid(sandbox: Sandbox, amount: int, outcome: str = "settle") -> Payment:
    charge = sandbox.charges.create(amount=str(amount), description="tea", expiresIn=86_400)
    payment = sandbox.wallet("ana").pay(charge, outcome=outcome)
    sandbox.run("5m")
    return payment


def failures(network: str, payer: str, seed: int) -> list[tuple[Sandbox, int, str, str]]:
    """The sandbox after each failure, the amount, the outcome of the script and the reason."""
    sandbox = Sandbox(seed=seed, network=network, conditions=f"ideal,payer={payer}", overlays=["large-amounts"])
    drain = (0, 0.995, 1.0)[seed % 3]
    if drain:
        sandbox.network["shop"].drain(inbound=drain)
    found = []
    for amount in AMOUNTS:
        for script in ("settle", "incomplete") if amount <= 1_500 else ("settle",):
            fork = sandbox.fork()
            reason = str(paid(fork, amount, script).reason)
            if "not all parts" in reason or reason == "None":
                continue
            found.append((fork, amount, script, reason))
            if amount == 250_000:  # what the payer has learned may stop it now
                again = fork.fork()
                found.append((again, amount, script, str(paid(again, amount).reason)))
    return found


def arrives(payment: Payment, script: str) -> bool:
    """Whether the payment reached the receiver: of an incomplete one its first part."""
    return payment.outcome == "SUCCEEDED" or (script == "incomplete" and bool(payment.row["attempts"]))


def helped(sandbox: Sandbox, amount: int, script: str, reason: str) -> dict[str, bool]:
    """By kind of advice in a reason, whether it helped in a fork."""
    found = {}
    such = re.search(r"pay (less|more), such as ([0-9]+) msat", reason)
    if such:
        other = int(such[2])
        assert (other < amount) == (such[1] == "less"), reason
        found[such[1]] = arrives(paid(sandbox.fork(), other, script), script)
    exactly = re.search(r"each forwards ([0-9]+) msat or more.*, so pay (that|[0-9]+)", reason)
    if exactly:
        other = int(exactly[1] if exactly[2] == "that" else exactly[2])
        found["more"] = arrives(paid(sandbox.fork(), other, script), script)
    if "pay later" in reason:
        fork = sandbox.fork()
        fork.advance("15d")
        found["later"] = arrives(paid(fork, amount, script), script)
    if "open a channel from the payer to the receiver" in reason:
        fork = sandbox.fork()
        fork.network.wallet("ana").open_channel("shop", 100_000_000_000)
        least = re.search(r"to the receiver, and pay ([0-9]+) msat or more", reason)
        found["open"] = arrives(paid(fork, int(least[1]) if least else amount, script), script)
    if re.search(r"pay (less|later)(?!, (such|when))|pay more(?!, such)", reason):
        found["advice without what it means"] = False
    return found


@pytest.mark.parametrize("payer", PAYERS)
@pytest.mark.parametrize("network", NETWORKS)
def test_what_a_reason_advises_helps(network: str, payer: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, 5):
        for sandbox, amount, script, reason in failures(network, payer, seed):
            assert "more than 0 msat" not in reason
            lack = re.search(r"had ([0-9]+) msat, ([0-9]+) of them its reserve", reason)
            assert lack is None or int(lack[2]) <= int(lack[1]), reason
            for kind, is_so in helped(sandbox, amount, script, reason).items():
                assert is_so, (seed, amount, script, kind, reason)
                counts[kind] += 1
    assert counts


@pytest.mark.parametrize("conditions", ["ideal", "ideal,parallel=0.5"])
def test_the_amount_that_a_refused_rebalance_advises_can_be_moved(conditions: str) -> None:
    found = Counter[str]()
    for seed in range(5, 15):
        sandbox = Sandbox(seed=seed, network="scale-free:20", conditions=conditions)
        for amount in (1, 1_000, 10**6, 10**12):
            shop = sandbox.fork().network["shop"]
            try:
                shop.rebalance(amount)
            except GraphError as error:
                text = str(error)
            else:
                found["moved"] += 1
                continue
            such = re.search(r"such as ([0-9]+)$", text)
            if such:
                shop.rebalance(int(such[1]))
                found["larger" if int(such[1]) > amount else "smaller"] += 1
            else:
                assert "open " in text
                found["open"] += 1
    assert found["open"] if "parallel" in conditions else found["larger"] and found["smaller"]


@pytest.mark.parametrize("payer", PAYER_NAMES)
def test_nobody_is_told_to_pay_later_what_no_channel_ever_carries(payer: str) -> None:
    """Neither because of a node that is offline and on no way, nor because failures will be forgotten."""
    edges = [
        {"a": "ana", "b": "a", "capacity_sat": 900_000, "a_balance_sat": 800_000},
        {"a": "a", "b": "shop", "capacity_sat": 100_000, "a_balance_sat": 50_000},
        {"a": "a", "b": "leaf", "capacity_sat": 900_000},
    ]
    network = from_edges(edges, shop="shop")
    with Sandbox(seed=7, network=network, conditions=f"ideal,payer={payer}") as sandbox:
        sandbox.network["leaf"].offline()
        for sat in (300_000, 200_000, 95_000, 300_000):
            charge = sandbox.charges.create(amount=str(sat * 1_000), description="tea", expiresIn=86_400)
            payment = sandbox.wallet("ana").pay(charge)
            sandbox.run("3m")
            assert payment.outcome == "NO_ROUTE"
            assert "pay later" not in payment.reason, payment.reason
            assert "pay less" in payment.reason, payment.reason


@pytest.mark.parametrize("payer", PAYER_NAMES)
@pytest.mark.parametrize("until", [None, "1h"])
def test_a_later_payment_is_not_advised_over_a_node_that_does_not_come_back(payer: str, until: str | None) -> None:
    """Whether another node comes back makes no difference."""
    edges = [("ana", "hub", 9_000_000), ("hub", "shop", 9_000_000), ("ana", "rim", 9_000_000), ("hub", "leaf", 10_000)]
    edges += [("rim", "far", 9_000_000), ("far", "shop", 9_000_000)]
    with Sandbox(seed=7, network=from_edges(edges, shop="shop"), conditions=f"ideal,payer={payer}") as sandbox:
        sandbox.network["leaf"].offline("10m")
        sandbox.network["far"].offline(until)
        sandbox.network["hub"].offline(until)
        reason = str(paid(sandbox, 2_000_000).reason)
        assert ("pay later" in reason) == (until is not None), reason


@pytest.mark.parametrize("what", ["offline", "drain"])
def test_a_payment_of_somebody_else_that_is_held_does_not_hide_what_helps(what: str) -> None:
    """The HTLCs in flight are named as what they are: they may return what they lock."""
    with Sandbox(seed=7, network="star:12") as sandbox:
        order = {"amount": "250000", "description": "tea", "expiresIn": 86_400}
        held = sandbox.wallet("w2").pay(sandbox.charges.create(**{**order, "amount": "300000"}), outcome="hold")
        sandbox.advance("10s")
        assert held.status == "held"
        if what == "offline":
            added = sandbox.ask("POST", "/sandbox/v1/network/interceptors", {"kind": "offline", "node": "n0"})
            sandbox.wallet("w1").pay(sandbox.charges.create(**order))
            sandbox.advance("10s")
            sandbox.ask("DELETE", f"/sandbox/v1/network/interceptors/{added['id']}")
        else:
            sandbox.ask("POST", "/sandbox/v1/network/nodes/shop/drain", {"inbound": 1})
        charge = sandbox.charges.create(**order)
        reasons = []
        for _ in range(2):
            failed = sandbox.wallet("w1").pay(charge)
            sandbox.advance("10s")
            assert failed.status == "failed"
            reasons.append(str(failed.reason))
            if held.status == "held":
                sandbox.ask("POST", f"/sandbox/v1/payments/{held.id}/cancel")
                sandbox.advance("10s")
        with_held, alone = reasons
        assert with_held == f"{alone}, or try again when the HTLCs in flight have ended: they may return what they lock"
        assert "pay later, when the payer's node has forgotten its failures" in alone or what == "drain"
