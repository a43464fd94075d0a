"""Payments whose parts are in one set at the receiver: the reason of each is true of that payment."""

from __future__ import annotations

from typing import Any

import pytest

from leyden import Sandbox

NETWORKS = ["direct", "line:3,ideal"]
AMOUNT = 250_000


class Shop:
    """A sandbox with one Charge of 250000 msat, and payments of it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.charge = sandbox.charges.create(amount=str(AMOUNT), description="tea", expiresIn=30 * 86_400)

    def pay(self, payer: str, **script: Any) -> str:
        with self.sandbox.world.exclusive():
            made = self.sandbox.world.payments.pay(self.charge.request, payer=payer, scheduled=True, **script)
        self.run(0 if self.sandbox.world.engine is None else 5)  # over a network, parts take time
        return made["id"]

    def run(self, seconds: float) -> None:
        self.sandbox.advance(f"{seconds}s")

    def shown(self, payment_id: str) -> dict[str, Any]:
        return dict(self.sandbox.world.payments.rows.existing(payment_id))


@pytest.fixture(params=NETWORKS)
def shop(request: pytest.FixtureRequest) -> Any:
    with Sandbox(seed=1, network=request.param) as sandbox:
        yield Shop(sandbox)


def check(shop: Shop, payment_id: str, reason: str, why: str) -> None:
    """A payment and its last attempt, the rows and the journal give this reason."""
    shown = shop.shown(payment_id)
    assert (shown["status"], shown["attempts"][-1]["reason"]) == ("failed", reason)
    assert shown["reason"].rpartition("; at last ")[2] == reason
    assert shown["attempts"][-1]["why"] == why
    [failed] = shop.sandbox.world.journal.entries(kind="payment_failed", subject=payment_id)
    assert failed.facts["reason"] == shown["reason"]
    for kind in ("htlc_failed_back", "htlc_refused"):
        for entry in shop.sandbox.world.journal.entries(kind=kind):
            if entry.facts["htlc"].startswith(payment_id):
                assert entry.facts["why"] == why


@pytest.mark.parametrize(
    ("body", "total_msat"),
    [({"amount_msat": 1_000}, 1_000), ({"amount_msat": 400_000}, 400_000), ({"outcome": "overpay"}, 0)],
)
def test_a_set_that_another_payment_fails_does_not_repeat_its_reason(
    shop: Shop, body: dict[str, Any], total_msat: int
) -> None:
    first = shop.pay("ana", outcome="incomplete")
    second = shop.pay("bob", **body)
    total_msat = total_msat or AMOUNT * 3 // 2
    other = f"the invoice asks {AMOUNT}" if total_msat < AMOUNT else f"this one {AMOUNT}"
    announced = f"a part of payment {second} failed the whole set, because it announces {total_msat} msat in total"
    mend = "pay again while no other payment of this invoice is on its way"
    check(shop, first, f"{announced} and {other}: {mend}", "other_part")
    if total_msat < AMOUNT:
        brings = f"the payment brings {total_msat} msat in total and the invoice asks {AMOUNT}"
        check(shop, second, f"{brings}: {AMOUNT - total_msat} msat too little", "underpaid")
    else:
        own = f"this part announces {total_msat} msat in total"
        before = f"the parts before it, of payment {first}, {AMOUNT}"
        check(shop, second, f"{own} and {before}: they must agree", "other_total")


def test_the_timeline_says_it_too(shop: Shop) -> None:
    shop.pay("ana", outcome="incomplete")
    second = shop.pay("bob", amount_msat=1_000)
    lines = [line for line in repr(shop.charge.timeline()).splitlines() if "ana's" in line]
    assert [line for line in lines if f"a part of payment {second} failed the whole set" in line]
    assert not [line for line in lines if "the payment brings" in line]


def test_a_cancelled_payment_fails_the_parts_of_others_with_a_reason_of_their_own(shop: Shop) -> None:
    first = shop.pay("ana", outcome="incomplete", parts=2)
    second = shop.pay("bob", parts=4, gap_ms=60_000)  # over a network its parts have no gap
    if shop.charge.status == "completed":
        assert shop.shown(first)["status"] == shop.shown(second)["status"] == "succeeded"
        return
    with shop.sandbox.world.exclusive():
        shop.sandbox.world.payments.cancel(second)
    check(shop, second, "the payment was cancelled before all its parts arrived", "given_back")
    mend = "pay again while no other payment of this invoice is on its way"
    other = f"payment {second}, a part of which waited in the same set, was cancelled: {mend}"
    check(shop, first, other, "given_back")


def test_a_payment_that_is_cancelled_on_its_way_leaves_the_parts_of_others() -> None:
    with Sandbox(seed=1, network="line:4") as sandbox:
        shop = Shop(sandbox)
        first = shop.pay("ana", outcome="incomplete")
        with sandbox.world.exclusive():
            second = sandbox.world.payments.pay(shop.charge.request, payer="bob", scheduled=True)
        shop.run(0)
        assert shop.shown(second["id"])["status"] == "in_flight"
        with sandbox.world.exclusive():
            sandbox.world.payments.cancel(second["id"])
        shop.run(5)
        assert (shop.shown(first)["status"], shop.charge.status) == ("succeeded", "completed")


def test_the_wait_for_missing_parts_counts_from_the_part_of_another_payment() -> None:
    with Sandbox(seed=1) as sandbox:
        shop = Shop(sandbox)
        first = shop.pay("ana", parts=3, gap_ms=200_000)
        shop.run(100)
        second = shop.pay("bob", parts=3, gap_ms=200_000)
        shop.run(20)
        missing, end = "not all parts of the payment arrived within 120 s of the first", "all must arrive in that time"
        check(shop, first, f"{missing}: {end}", "mpp_timeout")
        check(shop, second, f"{missing} part of the set, which payment {first} sent: {end}", "mpp_timeout")


def test_what_is_held_with_another_payment_returns_with_that() -> None:
    with Sandbox(seed=1) as sandbox:
        shop = Shop(sandbox)
        first = shop.pay("ana", outcome="incomplete", cltv_blocks=90)
        second = shop.pay("bob", outcome="hold", parts=3, gap_ms=1_000)
        shop.run(5)
        row = shop.shown(second)
        assert row["status"] == "held"
        # The third part was not needed: it is not said to be refused for the sake of another payment.
        assert [attempt["status"] for attempt in row["attempts"]] == ["held", "held", "failed"]
        own = row["attempts"][2]["reason"]
        assert own.startswith("the parts that had arrived, of this payment too, are enough and held since "), own
        sandbox.run("11h")
        start, end = "the payment was held until 18 blocks before block 80, at which", "settle a held payment sooner"
        assert shop.shown(second)["attempts"][0]["reason"] == f"{start} its first part expires, and returned: {end}"
        other = f"a part of payment {second} expires, which was held with it, and returned: {end}"
        check(shop, first, f"{start} {other}", "held_too_long")


def test_a_payment_is_held_although_the_shop_refuses_a_part_that_it_does_not_need(shop: Shop) -> None:
    first = shop.pay("ana", outcome="incomplete")
    second = shop.pay("bob", outcome="hold", parts=3)
    assert (shop.shown(first)["status"], shop.shown(second)["status"]) == ("held", "held")
    assert [attempt["status"] for attempt in shop.shown(second)["attempts"]] == ["held", "held", "failed"]
    shop.sandbox.ask("POST", f"/sandbox/v1/payments/{second}/settle")
    shop.run(5)
    assert shop.charge.status == "completed"
    assert (shop.shown(first)["status"], shop.shown(second)["status"]) == ("succeeded", "succeeded")
