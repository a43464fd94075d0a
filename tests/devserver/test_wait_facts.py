"""The note of a wait in vain names payments, instants and requests: in random states the other operations show these
payments and instants, and answer these requests."""

from __future__ import annotations

import random
import re
from contextlib import suppress

import pytest

from leyden import Sandbox
from leyden.errors import LeydenError
from tests.support.deep import deep_or
from tests.support.served import served_leyden

HOOKS = ["http://shop.localhost/hook", "http://shop.localhost/other"]
NETWORK = "http://127.0.0.1:1080/hook"  # nothing may be sent there
PAYMENTS = "/sandbox/v1/payments"
WAIT = "/sandbox/v1/deliveries/wait"


def create(sandbox: Sandbox, draw: random.Random) -> None:
    url = draw.choice([*HOOKS, HOOKS[0], None])
    sandbox.charges.create(amount="21000", description="tea", callbackUrl=url, expiresIn=draw.choice([5, 60, 300]))


def create_static(sandbox: Sandbox, draw: random.Random) -> None:
    sandbox.static_charges.create(
        minAmount="1000",
        maxAmount="1000",
        description="tips",
        callbackUrl=draw.choice([*HOOKS, HOOKS[0], None]),
        allowedSlots=draw.choice([None, 1, 2]),
        expiresIn=draw.choice([0, 60]),
    )


OUTCOMES = ["settle", "settle", "hold", "hold", "fail", "incomplete", "incomplete", "underpay", "overpay"]
DELAYS = ["0s", "0s", "2s", "2s", "5s", "90s"]


def pay(sandbox: Sandbox, draw: random.Random) -> None:
    charge = draw.choice(list(sandbox.charges))
    amount = draw.choice([None, None, None, 1_500, 25_000])
    sandbox.wallet("ana").pay(charge, outcome=draw.choice(OUTCOMES), delay=draw.choice(DELAYS), amount=amount)


def split(sandbox: Sandbox, draw: random.Random) -> None:
    """Incomplete payments of one Charge, or one whose parts have gaps."""
    request = draw.choice(list(sandbox.charges)).request
    with sandbox.world.exclusive():
        for _ in range(draw.choice([1, 2, 2, 3])):
            sandbox.world.payments.pay(
                request,
                payer=draw.choice(["ana", "bob"]),
                outcome=draw.choice(["incomplete", "incomplete", "settle", "hold"]),
                parts=draw.choice([2, 3]),
                gap_ms=draw.choice([0, 0, 2_000, 70_000]),
                delay_ms=draw.choice([0, 2_000, 2_000, 5_000, 119_999, 120_000]),
                patience_ms=draw.choice([None, 1_000, 60_000]),
                scheduled=True,
            )


def scan(sandbox: Sandbox, draw: random.Random) -> None:
    static, outcome = draw.choice(list(sandbox.static_charges)), draw.choice(OUTCOMES)
    sandbox.wallet("ana").scan(static, outcome=outcome, delay=draw.choice(DELAYS))


def scan_together(sandbox: Sandbox, draw: random.Random) -> None:
    """Payments that compete for the slots of a Static Charge in one instant."""
    static, delay = draw.choice(list(sandbox.static_charges)), draw.choice(DELAYS)
    for payer in ("ana", "bob", "eve"):
        sandbox.wallet(payer).scan(static, outcome=draw.choice(["settle", "settle", "hold"]), delay=delay)


def request(sandbox: Sandbox, draw: random.Random) -> None:
    sandbox.ask("GET", f"/lnurlp/{draw.choice(list(sandbox.static_charges)).id}/invoice?amount=1000")


def change(sandbox: Sandbox, draw: random.Random) -> None:
    static = draw.choice(list(sandbox.static_charges))
    static.update(**draw.choice([{"callbackUrl": None}, {"callbackUrl": HOOKS[1]}, {"allowedSlots": 1}]))


def add_payer(sandbox: Sandbox, draw: random.Random) -> None:
    times = draw.choice([{}, {"delay": "0s"}, {"delay": "2s"}, {"before_expiry": "2s"}, {"after_expiry": "1s"}])
    outcome = draw.choice(["settle", "settle", "hold", "twice", "fail"])
    condition = draw.choice([{}, {}, {"amount": "21000"}, {"description": "*"}, {"share": 0.5}])
    sandbox.payers.add(**times, **condition, outcome=outcome, count=draw.choice([None, 1, 2]))


def answer(sandbox: Sandbox, draw: random.Random) -> None:
    sandbox.receiver("shop").answers([draw.choice([410, 410, 500])])


def advance(sandbox: Sandbox, draw: random.Random) -> None:
    sandbox.advance(draw.choice(["0s", "0s", "1s", "3s", "61s"]))


def replay(sandbox: Sandbox, draw: random.Random) -> None:
    sandbox.ask("POST", "/sandbox/v1/deliveries/replay", {"status": draw.choice(["stopped", "delivered"])})


ACTIONS = [
    create,
    create_static,
    pay,
    split,
    scan,
    scan_together,
    request,
    change,
    add_payer,
    answer,
    advance,
    advance,
    replay,
]


def drawn_state(draw: random.Random, network: str) -> Sandbox:
    """A sandbox after some actions. One that is not possible then is left out, such as a payment without a Charge."""
    sandbox = Sandbox(seed=1, start="2030-01-01T09:00Z", network=network)
    for action in [draw.choice([create, create_static]), *draw.choices(ACTIONS, k=draw.randint(1, 8))]:
        with suppress(LeydenError, IndexError):
            action(sandbox, draw)
    return sandbox


def drawn_wait(sandbox: Sandbox, draw: random.Random) -> dict[str, object]:
    """A wait that is not reached at once by the default of its count."""
    ids = [one.id for one in (*sandbox.charges, *sandbox.static_charges)]
    wanted: dict[str, object] = {
        "status": draw.choice(["delivered"] * 6 + ["any", "pending", "stopped", "exhausted", "blocked"]),
        "count": draw.choice([1, 1, 2, 3]),
    }
    if draw.random() < 0.4:
        wanted["event"] = draw.choice(["charge.completed", "charge.expired", "charge.error"])
    return wanted if draw.random() < 0.4 else {**wanted, "chargeId": draw.choice(ids)}


def check_facts(sandbox: Sandbox, note: str) -> None:
    """What the note says of payments and of instants is what the other operations show."""
    for payment_id, status in re.findall(r"payment (\S+) of it is (in_flight|held|succeeded|failed)\b", note):
        assert sandbox.ask("GET", f"{PAYMENTS}/{payment_id}")["status"] == status, note
    due = {(one["id"], one["at"]) for one in sandbox.ask("GET", "/sandbox/v1/clock/due?limit=1000")["data"]}
    for payment_id, at in re.findall(r"the next part of payment (\S+) of it is due at (\S+Z)", note):
        assert (payment_id, at) in due, note
    for at in re.findall(r"; the next event of the clock is due at (\S+Z)", note):
        assert at == sandbox.ask("GET", "/sandbox/v1/clock/due?limit=1")["data"][0]["at"], note
    for at in re.findall(r"when (?:it|Charge \S+) expires", note) and re.findall(r"to (\S+Z), when \S+", note):
        assert at in {one.data["expiresAt"] for one in sandbox.charges}, note


def check_requests(sandbox: Sandbox, wanted: dict[str, object], note: str) -> None:
    """Each request of the note is answered with 2xx, and does something: it is possible in this state."""
    for method, path in dict.fromkeys(re.findall(r"\((POST|PATCH) (\S+?)\)", note)):
        if "{id}" in path:
            continue
        with sandbox.fork() as copy:
            body: dict[str, object] = {}
            if path == PAYMENTS:
                named = re.search(r"pay (?:Charge (\S+)|it\b|one of them)", note)
                assert named is not None, note
                static = [one for one in copy.static_charges if one.id == wanted.get("chargeId")]
                if "raise its allowedSlots" in note or (static and "one of them" in named[0]) or "create one" in note:
                    continue  # a request comes before this one
                to = (
                    static[0].data["invoice"]["request"]
                    if static
                    else copy.charges[str(named[1] or wanted["chargeId"])].request
                )
                amount = re.search(r"with the amount (\d+)", note)
                body = {"request": to, **({} if amount is None else {"amount": amount[1]})}
                body |= {"amount": "1000"} if static else {}
            elif method == "PATCH":
                body = {"allowedSlots": None} if "allowedSlots" in note else {"callbackUrl": HOOKS[1] + "/new"}
            before = copy.journal_hash
            copy.ask(method, path, body or None)
            assert copy.journal_hash != before, note


STATES = [("direct", seed) for seed in range(deep_or(bounded=60, full=600))]
STATES += [("line:3,ideal", seed) for seed in range(deep_or(bounded=20, full=200))]


@pytest.mark.parametrize(("network", "seed"), STATES)
def test_what_the_note_of_a_wait_says_is_so(network: str, seed: int) -> None:
    draw = random.Random(seed)
    with drawn_state(draw, network) as sandbox:
        for _ in range(4):
            wanted = drawn_wait(sandbox, draw)
            waited = sandbox.ask("POST", WAIT, wanted)
            if not waited["reached"]:
                check_facts(sandbox, waited["note"])
                check_requests(sandbox, wanted, waited["note"])
            advance(sandbox, draw)


def test_with_a_bound_a_wait_asks_for_no_more_than_what_is_kept() -> None:
    with served_leyden("--keep", "2", "--rate", "0") as client:

        def waited(count: int) -> dict:
            return dict(client.ok("POST", WAIT, {"count": count, "timeout": 5}))

        fields = {"amount": "21000", "description": "tea", "callbackUrl": HOOKS[0]}
        for _ in range(4):
            made = client.ok("POST", "/v0/charges", fields)["data"]
            client.ok("POST", PAYMENTS, {"request": made["invoice"]["request"]})
            assert waited(3)["note"].startswith("--keep 2 keeps no more than 2 deliveries that ended: wait for a count")
        assert waited(3)["note"].endswith(": wait for a count of 2; --keep has removed some that ended")
        assert waited(2)["reached"]


def noted(sandbox: Sandbox, wanted: dict[str, object]) -> str:
    return str(sandbox.ask("POST", WAIT, {"timeout": 0, **wanted})["note"])


def test_parts_that_wait_are_completed_only_by_a_payment_of_their_total(sandbox: Sandbox) -> None:
    made = sandbox.charges.create(amount="250000", description="tea", callbackUrl=HOOKS[0]).id
    waiting = sandbox.wallet("ana").pay(sandbox.charges[made], outcome="incomplete", amount=400_000)
    sandbox.advance("0s")
    for wanted, name in (({"chargeId": made}, "it"), ({}, f"Charge {made}")):
        note = noted(sandbox, wanted)
        way = f"pay {name} (POST /sandbox/v1/payments) with the amount 400000"
        assert f"{way} (a part of payment {waiting.id} waits for that total), or advance the clock" in note
    sandbox.wallet("bob").pay(sandbox.charges[made], amount=400_000)
    sandbox.advance("0s")
    assert sandbox.charges[made].status == "completed"


def test_only_callbacks_of_the_awaited_payment_are_to_be_replayed(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="tips", callbackUrl=HOOKS[0])
    sandbox.receiver("shop").always(410)
    sandbox.wallet("ana").scan(static)
    sandbox.advance("0s")
    sandbox.wallet("bob").scan(static, delay="1m")
    assert noted(sandbox, {"chargeId": static.id}).count(", or replay those that were stopped")
    note = noted(sandbox, {"chargeId": static.charges[1].id})
    assert "has answered 410" in note
    assert "replay those" not in note


def test_a_held_payment_whose_return_travels_to_its_payer_is_not_said_to_be_settled() -> None:
    with Sandbox(seed=3, network="line:4") as sandbox:
        charge = sandbox.charges.create(amount="250000", description="tea", callbackUrl=HOOKS[0], expiresIn=86_400)
        payment = sandbox.wallet("ana").pay(charge, outcome="hold")
        sandbox.advance("1m")
        [due] = [one for one in sandbox.ask("GET", "/sandbox/v1/clock/due")["data"] if "hold" in one["kind"]]
        sandbox.ask("POST", "/sandbox/v1/clock/advance", {"to": due["at"]})
        assert (payment.status, charge.status) == ("held", "pending")
        for wanted in ({}, {"chargeId": charge.id}):
            note = sandbox.ask("POST", WAIT, wanted)["note"]
            assert "settle" not in note, note
            assert "pay " in note, note
