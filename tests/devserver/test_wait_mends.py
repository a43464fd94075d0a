"""What the note of a wait in vain promises happens: in random states, each of its ways is done as it says."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from pathlib import Path

import pytest

from leyden import Sandbox
from leyden.errors import LeydenError
from tests.support.deep import deep_or
from tests.support.served import served_leyden

HOOKS = ["http://shop.localhost/hook", "http://shop.localhost/other"]
NETWORK = "http://127.0.0.1:1/hook"  # nothing may be sent there
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


def obey(sandbox: Sandbox, note: str) -> None:
    """Let the built-in receiver answer as the callback needs it to end in the awaited status."""
    if (found := re.search(r"; its callback (?:is pending|ends as \w+) only (?:if|until) ([^;]+)", note)) is not None:
        answers = {"all attempts that remain fail": 500, "its URL answers 410": 410}
        if "address" not in found[1]:
            sandbox.receiver("shop").always(500 if "is pending" in found[0] else answers.get(found[1], 200))


def arrive(sandbox: Sandbox) -> None:
    """Let what is due now happen, and what was sent over a network arrive."""
    sandbox.advance("0s" if sandbox.world.engine is None else "5s")


def do_with_new(sandbox: Sandbox, wanted: dict[str, object], note: str, draw: random.Random) -> None:
    """Create a Charge as the note says, and do one of its ways with it: it comes to the end that the way names."""
    mend = re.split(r"; (?:its callback|--keep)", note)[0].rpartition(": ")[2]
    *before, create, ways = mend.split(", then ") if "unless" not in mend else [*mend.split(", then ", 1)]
    for step in before:
        paths = re.findall(r"\(DELETE (\S+)\)", step)
        assert paths, note
        for path in paths:
            sandbox.ask("DELETE", path)
    life = re.search(r"expiresIn of (\d+) at most", create)
    made = sandbox.charges.create(
        amount="22000" if "does not match" in create else "21000",
        description="tea",
        callbackUrl=NETWORK if wanted["status"] == "blocked" else HOOKS[0],
        expiresIn=int(life[1]) if life else 60,
    )
    step = draw.choice(ways.split(", or "))
    # A payer may pay it by itself; one that pays over a network, or later, has not done so by the next request.
    is_at_once = step == "pay it (POST /sandbox/v1/payments)" or "let its invoice fail" in step
    sandbox.advance("0s") if is_at_once else arrive(sandbox)

    def settle_held() -> None:
        [held] = [one for one in sandbox.ask("GET", PAYMENTS)["data"] if (one["request"], one["status"]) == of_made]
        sandbox.ask("POST", f"{PAYMENTS}/{held['id']}/settle")

    of_made, end = (made.request, "held"), "completed"
    if step.startswith("pay it"):
        paid = sandbox.wallet("bob").pay(made)
        arrive(sandbox)
        if "unless payer" in step and made.status != "completed":
            settle_held()
        assert made.status == "completed", f"{note}: {paid}"
    elif step.startswith("settle the payment"):
        settle_held()
    elif step == "advance the clock until it expires":
        end = "expired"
        sandbox.advance("61s")
    elif "let its invoice fail" in step:
        end = "error"
        sandbox.ask("POST", f"/sandbox/v1/charges/{made.id}/fail")
    else:
        assert re.fullmatch(r"payer \S+ pays it at once", step), note
    assert made.status == end, note


def done(sandbox: Sandbox, wanted: dict[str, object], note: str, draw: random.Random) -> dict[str, object] | None:
    """Do one way of the note, and check what it says of it. The wait that follows; None if there is none."""
    obey(sandbox, note)
    mend = re.split(r"; (?:its callback|--keep)", note)[0].rpartition(": ")[2]
    if mend.startswith(("create one with", "delete ")):
        do_with_new(sandbox, wanted, note, draw)
        return wanted
    way = draw.choice(mend.split(", or "))
    about = wanted.get("chargeId")
    if (found := re.match(r"wait for (charge\.\w+)", way)) is not None:
        return {**wanted, "event": found[1]}
    if (found := re.search(r"wait for a count of (\d+)", way)) is not None:
        assert int(found[1]) < int(str(wanted["count"])), note
        return {**wanted, "count": int(found[1])}
    if (found := re.search(r"wait for those of its Static Charge \(chargeId (\S+)\)", way)) is not None:
        return {**wanted, "chargeId": found[1]}
    if re.search(r"another (Charge|one$)|create (it|another)|pay another invoice|wait for another", way):
        return None
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
                is_sure = not re.search(r"(does not complete|no payment completes) it before", way)
                assert expired.status in ("expired", *(() if is_sure else ("completed",))), note
    if (found := re.search(r"(?:settle|fail)\b.*\(POST (\S+)\)", way)) is not None:
        sandbox.ask("POST", found[1])
    elif way.startswith("pay the Static Charge by its LNURL"):
        made_payment = sandbox.wallet("bob").scan(sandbox.static_charges[str(about)])
        arrive(sandbox)
        assert sandbox.ask("GET", f"{PAYMENTS}/{made_payment.id}")["status"] in ("succeeded", "held"), note
    elif (found := re.match(r"pay (?:it|Charge (\S+))", way)) is not None:
        name = re.search(r"Charge (\S+) is pending", note)
        one = found[1] or (name[1] if name else about)
        amount = re.search(r"with the amount (\d+)", way)
        made_payment = sandbox.wallet("bob").pay(sandbox.charges[str(one)], amount=amount and amount[1])
        sandbox.advance("0s")
        paid = sandbox.ask("GET", f"{PAYMENTS}/{made_payment.id}")
        travels = () if sandbox.world.engine is None else ("in_flight",)
        assert paid["status"] in ("succeeded", "held", *travels), f"{note}: {paid}"
    elif (found := re.search(r"\(PATCH (\S+)\)", way)) is not None:
        url = NETWORK if wanted["status"] == "blocked" else f"{HOOKS[0]}/{draw.random()}"
        fields = {"allowedSlots": None} if "allowedSlots" in way else {}
        fields |= {"callbackUrl": url} if "callbackUrl" in way or "give it one" in way else {}
        sandbox.ask("PATCH", found[1], fields)
    elif "replay those that were stopped" in way:
        body = {"status": "stopped", **({"chargeId": about} if about else {})}
        assert sandbox.ask("POST", "/sandbox/v1/deliveries/replay", body)["replayed"], note
    elif (found := re.search(r"delivery (\S+) ended as \S+ and is not sent again: replay it", note)) is not None:
        sandbox.ask("POST", f"/sandbox/v1/deliveries/{found[1]}/replay")
    else:
        assert moved is not None, f"no way is known: {note}"
    return wanted


STATES = [("direct", seed) for seed in range(deep_or(bounded=40, full=400))]
STATES += [("line:3,ideal", seed) for seed in range(deep_or(bounded=20, full=200))]


@pytest.mark.parametrize(("network", "seed"), STATES)
def test_what_the_notes_of_a_wait_promise_happens(network: str, seed: int) -> None:
    draw = random.Random(seed)
    with drawn_state(draw, network) as sandbox:
        wanted: dict[str, object] | None = drawn_wait(sandbox, draw)
        notes: list[str] = []
        for _ in range(60 if network == "direct" else 200):
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
            pytest.fail(f"what the notes say does not help: {wanted}, {notes}")


PAYERS: dict[str, list[dict[str, object]]] = {
    "at once": [{}],
    "later": [{"delay": "2s"}],
    "twice": [{"outcome": "twice"}],
    "before the expiry": [{"before_expiry": "2s"}],
    "after the expiry": [{"after_expiry": "1s"}],
    "held at once": [{"outcome": "hold"}],
    "held later": [{"outcome": "hold", "delay": "2s"}],
    "too little": [{"outcome": "underpay"}],
    "never, before one at once": [{"outcome": "never"}, {}],
    "of an amount": [{"amount": "21000"}],
    "held, of an amount": [{"amount": "21000", "outcome": "hold"}, {}],
    "of any description": [{"description": "*", "delay": "2s"}],
    "of a share": [{"share": 0.5}, {"share": 0.5, "outcome": "hold"}],
    "once": [{"count": 1}, {"outcome": "hold"}],
    "many": [{"amount": "21000", "delay": f"{number}s"} for number in range(1, 6)],
}


@pytest.mark.parametrize("event", [None, "charge.completed", "charge.expired", "charge.error"])
@pytest.mark.parametrize("payers", [*PAYERS, "of the document", "of the document, later", "of its amount"])
def test_a_charge_still_to_be_created_comes_to_its_callback_whatever_the_payers_do(
    payers: str, event: str | None, tmp_path: Path
) -> None:
    of_document = {
        "of the document": {"outcome": "settle"},
        "of the document, later": {"delay": "2s"},
        "of its amount": {"amount": "21000"},
    }
    contents = {
        "overlay": "1.0.0",
        "info": {"title": "payers", "version": "1"},
        "actions": [{"target": "$", "update": {"x-payers": [of_document.get(payers)]}}],
    }
    overlay = tmp_path / "payers.json"
    overlay.write_text(json.dumps(contents))
    for seed in range(6):
        with Sandbox(seed=1, overlays=[str(overlay)] if payers in of_document else ()) as sandbox:
            for payer in PAYERS.get(payers, []):
                sandbox.payers.add(**payer)
            wanted: dict[str, object] | None = {
                "status": "delivered",
                "count": 1,
                **({"event": event} if event else {}),
            }
            notes: list[str] = []
            while wanted is not None and not (waited := sandbox.ask("POST", WAIT, wanted))["reached"]:
                notes.append(waited["note"])
                assert len(notes) < 4, notes
                wanted = done(sandbox, wanted, notes[-1], random.Random(seed))
            assert wanted is not None, notes


@pytest.mark.parametrize("status", ["delivered", "stopped", "exhausted", "pending", "blocked"])
@pytest.mark.parametrize("former", [200, 410])
@pytest.mark.parametrize("of_any", [False, True])
def test_what_a_delivery_that_ended_otherwise_needs_is_said(status: str, former: int, of_any: bool) -> None:
    with Sandbox(seed=1) as sandbox:
        sandbox.receiver("shop").always(former)
        charge = sandbox.charges.create(amount="21000", description="tea", callbackUrl=HOOKS[0])
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("0s")
        [row] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
        if row["status"] == status:
            return
        wanted: dict[str, object] = {"status": status, "count": 1} | ({} if of_any else {"chargeId": charge.id})
        note = sandbox.ask("POST", WAIT, wanted)["note"]
        if status == "blocked":  # nothing on a built-in receiver is blocked
            assert "replay" not in note, note
            assert note.endswith("wait for another Charge") or of_any, note
            return
        if not of_any or status != "pending":  # it is one of the ways
            assert f"delivery {row['id']} ended as {row['status']} and is not sent again: replay it" in note
        assert re.search(rf"; its callback (ends as {status} only if|is {status} only until) ", note), note
        obey(sandbox, note)
        sandbox.ask("POST", f"/sandbox/v1/deliveries/{row['id']}/replay")
        sandbox.advance("0s")
        sandbox.run("60d")
        shown = sandbox.ask("GET", f"/sandbox/v1/deliveries/{row['id']}")
        assert shown["status"] == status or (status == "pending" and len(shown["attempts"]) > 2)


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


@pytest.mark.parametrize("of_any", [False, True])
@pytest.mark.parametrize("network", ["star:6", "line:3,ideal"])
def test_the_first_way_of_each_note_on_a_network_leads_to_the_delivery(network: str, of_any: bool) -> None:
    """A reader that always takes the first way pays once, and then lets the payment arrive."""
    with Sandbox(seed=3, network=network) as sandbox:
        charge = sandbox.charges.create(amount="250000", description="tea", callbackUrl=HOOKS[0])
        wanted = {} if of_any else {"chargeId": charge.id}
        notes: list[str] = []
        while not (waited := sandbox.ask("POST", WAIT, wanted))["reached"]:
            notes.append(waited["note"])
            assert len(notes) < 40, notes
            way = waited["note"].rpartition(": ")[2].split(", or ")[0]
            if way.startswith("pay "):
                sandbox.ask("POST", PAYMENTS, {"request": charge.request})
            else:
                moved = re.match(r"advance the clock(?: to (\S+Z)| by 0s)", way)
                assert moved is not None, notes
                sandbox.ask("POST", "/sandbox/v1/clock/advance", {"to": moved[1]} if moved[1] else {"by": 0})
        assert len(sandbox.ask("GET", PAYMENTS)["data"]) == 1, notes


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
