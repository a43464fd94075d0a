"""What the note of a wait in vain promises happens: in random states, each of its ways is done as it says."""

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
PAYMENTS = "/sandbox/v1/payments"
WAIT = "/sandbox/v1/deliveries/wait"


def create(sandbox: Sandbox, draw: random.Random) -> None:
    url = draw.choice([*HOOKS, HOOKS[0], None])
    sandbox.charges.create(amount="21000", description="tea", callbackUrl=url, expiresIn=draw.choice([5, 60]))


def create_static(sandbox: Sandbox, draw: random.Random) -> None:
    sandbox.static_charges.create(
        minAmount="1000",
        maxAmount="1000",
        description="tips",
        callbackUrl=draw.choice([*HOOKS, HOOKS[0], None]),
        allowedSlots=draw.choice([None, 1, 2]),
        expiresIn=draw.choice([0, 60]),
    )


def pay(sandbox: Sandbox, draw: random.Random) -> None:
    outcome = draw.choice(["settle", "settle", "hold", "fail"])
    charge = draw.choice(list(sandbox.charges))
    sandbox.wallet("ana").pay(charge, outcome=outcome, delay=draw.choice(["0s", "0s", "2s", "90s"]))


def scan(sandbox: Sandbox, draw: random.Random) -> None:
    static = draw.choice(list(sandbox.static_charges))
    sandbox.wallet("ana").scan(static, outcome=draw.choice(["settle", "hold"]), delay=draw.choice(["0s", "2s"]))


def request(sandbox: Sandbox, draw: random.Random) -> None:
    sandbox.ask("GET", f"/lnurlp/{draw.choice(list(sandbox.static_charges)).id}/invoice?amount=1000")


def change(sandbox: Sandbox, draw: random.Random) -> None:
    static = draw.choice(list(sandbox.static_charges))
    static.update(**draw.choice([{"callbackUrl": None}, {"callbackUrl": HOOKS[1]}, {"allowedSlots": 1}]))


def add_payer(sandbox: Sandbox, draw: random.Random) -> None:
    sandbox.payers.add(delay=draw.choice(["0s", "2s"]), outcome=draw.choice(["settle", "hold"]), count=2)


def answer(sandbox: Sandbox, draw: random.Random) -> None:
    sandbox.receiver("shop").answers([draw.choice([410, 410, 500])])


def advance(sandbox: Sandbox, draw: random.Random) -> None:
    sandbox.advance(draw.choice(["0s", "0s", "1s", "3s", "61s"]))


def replay(sandbox: Sandbox, draw: random.Random) -> None:
    sandbox.ask("POST", "/sandbox/v1/deliveries/replay", {"status": draw.choice(["stopped", "delivered"])})


ACTIONS = [create, create_static, pay, scan, request, change, add_payer, answer, advance, advance, replay]


def drawn_state(draw: random.Random) -> Sandbox:
    """A sandbox after some actions. One that is not possible then is left out, such as a payment without a Charge."""
    sandbox = Sandbox(seed=1, start="2030-01-01T09:00Z")
    for action in [draw.choice([create, create_static]), *draw.choices(ACTIONS, k=draw.randint(1, 8))]:
        with suppress(LeydenError, IndexError):
            action(sandbox, draw)
    return sandbox


def drawn_wait(sandbox: Sandbox, draw: random.Random) -> dict[str, object]:
    """A wait that is not reached at once by the default of its count."""
    ids = [one.id for one in (*sandbox.charges, *sandbox.static_charges)]
    wanted: dict[str, object] = {
        "status": draw.choice(["delivered"] * 6 + ["any", "pending", "stopped", "exhausted"]),
        "count": draw.choice([1, 1, 2, 3]),
    }
    if draw.random() < 0.4:
        wanted["event"] = draw.choice(["charge.completed", "charge.expired"])
    return wanted if draw.random() < 0.4 else {**wanted, "chargeId": draw.choice(ids)}


def check_claims(sandbox: Sandbox, wanted: dict[str, object], note: str) -> None:
    """What the note says of the present state is so."""
    about = "".join(f"&{name}={wanted[name]}" for name in ("event",) if wanted.get(name))
    pending = len(sandbox.ask("GET", f"/sandbox/v1/deliveries?limit=1000&status=pending{about}")["data"])
    if (found := re.search(r"(no|\d+) deliver(?:y is|ies are) pending", note)) is not None:
        assert found[1] == (str(pending) if pending else "no"), note
    if "no Charge is pending" in note:
        assert not [one for one in sandbox.charges if one.status == "pending"], note
    if "chargeId" in wanted and (found := re.search(r"so no (further )?callback is sent", note)) is not None:
        rows = sandbox.ask("GET", f"/sandbox/v1/deliveries?chargeId={wanted['chargeId']}")["data"]
        assert bool(found[1]) == bool(rows), note


def done(sandbox: Sandbox, wanted: dict[str, object], note: str, draw: random.Random) -> dict[str, object] | None:
    """Do one way of the note, and check what it says of it. The wait that follows; None if there is none."""
    mend = re.split(r"; (?:its callback|--keep)", note)[0].rpartition(": ")[2]
    way = mend if mend.startswith("create one") else draw.choice(mend.split(", or "))
    about = wanted.get("chargeId")
    if (found := re.match(r"wait for (charge\.\w+)", way)) is not None:
        return {**wanted, "event": found[1]}
    if (found := re.search(r"wait for a count of (\d+)", way)) is not None:
        assert int(found[1]) < int(str(wanted["count"])), note
        return {**wanted, "count": int(found[1])}
    if re.search(r"another (Charge|one$)|create (it|another|one)|pay another invoice|wait for another", way):
        if not way.startswith("create one"):
            return None
        made = sandbox.charges.create(amount="21000", description="tea", callbackUrl=HOOKS[0], expiresIn=60)
        sandbox.advance("0s")  # a payer may pay it by itself
        step = draw.choice(way.partition("then ")[2].split(", or "))
        if step.startswith("pay"):
            sandbox.wallet("bob").pay(made)
            sandbox.advance("0s")
            assert made.status == "completed" or sandbox.payers, note
        else:
            assert step == "advance the clock until it expires", note
            sandbox.advance("61s")
        return wanted
    moved = re.search(r"advance the clock(?: to (\S+Z)| by 0s|(?=$|,))", way)
    if moved is not None:
        due = re.search(r"due at (\S+Z)|ends at (\S+Z)", note)
        to = moved[1] or (next(filter(None, due.groups()), None) if due and "by 0s" not in way else None)
        sandbox.ask("POST", "/sandbox/v1/clock/advance", {"to": to} if to else {"by": 0})
        if (found := re.search(r"when payment (\S+) (?:of \S+ \S+ |of it )?(completes|is held)", way)) is not None:
            paid = sandbox.ask("GET", f"{PAYMENTS}/{found[1]}")
            assert paid["status"] == {"completes": "succeeded", "is held": "held"}[found[2]], f"{note}: {paid}"
        if (found := re.search(r"when (?:Charge )?(\S+) expires", way)) is not None:
            expired = sandbox.charges[str(about) if found[1] == "it" else found[1]]
            if found[1] != "it" or about in [one.id for one in sandbox.charges]:
                assert expired.status == "expired", note
    if (found := re.search(r"(?:settle|fail)\b.*\(POST (\S+)\)", way)) is not None:
        sandbox.ask("POST", found[1])
    elif (found := re.match(r"pay (?:it|Charge (\S+))", way)) is not None:
        name = re.search(r"Charge (\S+) is pending", note)
        one = found[1] or (name[1] if name else about)
        statics = [static.id for static in sandbox.static_charges]
        what = sandbox.static_charges[one] if one in statics else sandbox.charges[one]
        wallet = sandbox.wallet("bob")
        made_payment = wallet.scan(what) if one in statics else wallet.pay(what)
        sandbox.advance("0s")
        paid = sandbox.ask("GET", f"{PAYMENTS}/{made_payment.id}")
        assert paid["status"] in ("succeeded", "held"), f"{note}: {paid}"
    elif (found := re.search(r"\(PATCH (\S+)\)", way)) is not None:
        fields = {"allowedSlots": None} if "allowedSlots" in way else {"callbackUrl": HOOKS[0] + f"/{draw.random()}"}
        sandbox.ask("PATCH", found[1], fields)
    elif "replay those that were stopped" in way:
        body = {"status": "stopped", **({"chargeId": about} if about else {})}
        assert sandbox.ask("POST", "/sandbox/v1/deliveries/replay", body)["replayed"], note
    elif (found := re.search(r"delivery (\S+) ended as \S+ and is not sent again: replay it", note)) is not None:
        sandbox.ask("POST", f"/sandbox/v1/deliveries/{found[1]}/replay")
    else:
        assert moved is not None, f"no way is known: {note}"
    return wanted


@pytest.mark.parametrize("seed", range(deep_or(bounded=40, full=400)))
def test_what_the_notes_of_a_wait_promise_happens(seed: int) -> None:
    draw = random.Random(seed)
    with drawn_state(draw) as sandbox:
        wanted: dict[str, object] | None = drawn_wait(sandbox, draw)
        notes: list[str] = []
        for _ in range(12):
            if wanted is None:
                break
            waited = sandbox.ask("POST", WAIT, wanted)
            if waited["reached"]:
                break
            notes.append(waited["note"])
            before = sandbox.journal_hash, sandbox.now, wanted
            check_claims(sandbox, wanted, notes[-1])
            wanted = done(sandbox, wanted, notes[-1], draw)
            assert (sandbox.journal_hash, sandbox.now, wanted) != before, f"nothing changed: {notes[-1]}"
        else:
            assert wanted["status"] != "delivered", notes


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
