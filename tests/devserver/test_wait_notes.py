"""The note of a wait for deliveries that ended without them: what the state is, and what brings the next one."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable

import pytest

from leyden import Sandbox
from leyden.devserver.control.wait_notes import dead_end
from leyden.server.store.tables.row_map import RowMap
from tests.support.served import Client, served_leyden

HOOK = "http://shop.localhost/hook"


def charge(sandbox: Sandbox, **changes: object) -> str:
    return sandbox.charges.create(**{"amount": "21000", "description": "tea", "callbackUrl": HOOK, **changes}).id


def paid(sandbox: Sandbox, *replies: object, fault: str | None = None, **options: object) -> str:
    sandbox.receiver("shop").answers(list(replies))
    if fault is not None:
        sandbox.ask("POST", "/sandbox/v1/faults", {"kind": fault})
    made = charge(sandbox)
    sandbox.wallet("ana").pay(sandbox.charges[made], **options)
    sandbox.run("1s")
    return made


def expired(sandbox: Sandbox) -> str:
    made = charge(sandbox, expiresIn=60)
    sandbox.advance("61s")
    return made


def tips(sandbox: Sandbox, **changes: object) -> str:
    fields = {"minAmount": "1000", "maxAmount": "1000", "description": "Tips", "callbackUrl": HOOK, **changes}
    return sandbox.static_charges.create(**fields).id


def tipped(sandbox: Sandbox, *replies: object, slots: int | None = None, life_s: int = 0, **options: object) -> str:
    sandbox.receiver("shop").answers(list(replies))
    made = tips(sandbox, allowedSlots=slots, expiresIn=life_s)
    sandbox.wallet("ana").scan(sandbox.static_charges[made], **options)
    sandbox.run("1s")
    return made


def ended(sandbox: Sandbox, static: str) -> str:
    """A Static Charge with a life of one minute, expired."""
    sandbox.advance("61s")
    return static


def replayed_later(sandbox: Sandbox) -> str:
    """A Charge whose delivery was replayed to later, so that the wait is for that time."""
    made = paid(sandbox, 410)
    [row] = sandbox.ask("GET", f"/sandbox/v1/deliveries?chargeId={made}")["data"]
    sandbox.ask("POST", f"/sandbox/v1/deliveries/{row['id']}/replay", {"delay": "2h"})
    return made


def requested(sandbox: Sandbox, *, full: bool = False) -> str:
    """The Charge of an invoice that a payer requested of a Static Charge, which is full then or not."""
    made = tips(sandbox, allowedSlots=2 if full else None)
    static = sandbox.static_charges[made]
    sandbox.ask("GET", f"/lnurlp/{made}/invoice?amount=1000")
    [child] = static.charges
    if full:
        sandbox.wallet("ana").scan(static)
        sandbox.run("1s")
        static.update(allowedSlots=1)
    return child.id


STATES: dict[str, tuple[Callable[[Sandbox], str | None], dict, str]] = {
    "no callbackUrl": (lambda it: charge(it, callbackUrl=None), {}, "no callbackUrl.*create it with a callbackUrl"),
    "unpaid": (charge, {}, r"is pending and has sent no callback: pay it .*, or advance the clock to 2030-\S+, when"),
    "unpaid, its payment": (charge, {"event": "charge.completed"}, r"callback: pay it \(POST \S+\)$"),
    "unpaid, its expiry": (charge, {"event": "charge.expired"}, r"callback: advance the clock to 2030-\S+, "),
    "unpaid, its failure": (charge, {"event": "charge.error"}, r"let its invoice fail \(POST .*/fail"),
    "a later payment": (lambda it: paid(it, delay="1h"), {}, r"advance the clock until payment \S+ ends, with the"),
    "a held payment": (lambda it: paid(it, outcome="hold"), {}, r"settle its held payment \(POST .*/settle\)"),
    "completed, another event": (paid, {"event": "charge.expired"}, "completed.*none with.*wait for charge.completed"),
    "expired, another event": (expired, {"event": "charge.completed"}, "is expired.*wait for charge.expired"),
    "completed, a larger count": (paid, {"count": 2}, "completed and sends no more callbacks: wait for a count of 1"),
    "completed, any": (paid, {"status": "any", "count": 3}, "sends no more callbacks: wait for a count of 1"),
    "delivered, not exhausted": (paid, {"status": "exhausted"}, "ended as delivered and is not sent again: replay it"),
    "delivered, not pending": (paid, {"status": "pending"}, "ended as delivered and is not sent again: replay it"),
    "stopped": (lambda it: paid(it, 410), {}, "ended as stopped and is not sent again: replay it"),
    "a retry": (lambda it: paid(it, 500), {}, r"next attempt of delivery \S+ is due at 2030-\S+ and .*paused"),
    "a replay at a time": (replayed_later, {}, r"attempt of delivery \S+ is due at 2030-01-01T11"),
    "a receiver's timeout": (lambda it: paid(it, "timeout"), {}, r"attempt 1 of \S+ \S+ ends at 2030-"),
    "a dropped attempt": (lambda it: paid(it, fault="drop"), {}, r"attempt 1 .* dropped by a fault and times out"),
    "a delayed attempt": (lambda it: paid(it, fault="delay"), {}, r"a fault of the kind delay delays.* is due at 2"),
    "a reordered attempt": (lambda it: paid(it, fault="reorder"), {}, "of the kind reorder delays.*advance the clock"),
    "an unpaid Static Charge": (tips, {}, r"no payment of the Static Charge is open: pay it \(POST "),
    "a paid Static Charge": (tipped, {"count": 2}, "no payment of the Static Charge is open: pay it"),
    "a full Static Charge": (
        lambda it: tipped(it, slots=1), {"count": 2}, r"disabled and takes no payment: raise its allowedSlots \(PATCH"
    ),
    "an event that no Static Charge has": (
        tips, {"event": "charge.expired"}, "a Static Charge sends no callback with the event charge.expired: wait"
    ),
    "an expired Static Charge": (
        lambda it: ended(it, tips(it, expiresIn=60)), {}, "Charge is expired and sends no more callbacks: wait"
    ),
    "an expired Static Charge, a larger count": (
        lambda it: ended(it, tipped(it, life_s=60)), {"count": 2}, "sends no more callbacks: wait for a count of 1"
    ),
    "a Static Charge's retry": (lambda it: tipped(it, 500), {}, "is due at .* paused: advance"),
    "a Static Charge's open payment": (lambda it: tipped(it, delay="1h"), {}, r"advance .*until payment \S+ ends"),
    "a closed invoice": (lambda it: requested(it, full=True), {}, "can no longer be paid: pay another invoice"),
    "no Charge": (lambda it: None, {}, "no delivery is pending, and no Charge is unpaid: create one, then pay one"),
    "only unpaid Charges": (lambda it: charge(it) and None, {}, "1 unpaid Charges have sent none: pay one .*advance"),
    "any expiry": (lambda it: charge(it) and None, {"event": "charge.expired"}, "none: advance the clock until one"),
    "any failure": (lambda it: charge(it) and None, {"event": "charge.error"}, r"let the invoice of one fail \(POST"),
    "a payment's expiry": (requested, {"event": "charge.expired"}, "Charge of a Static Charge sends no callback with"),
    "any retry": (lambda it: paid(it, 500) and None, {}, "is due at .* paused: advance the clock"),
    "any, not pending": (lambda it: paid(it) and None, {"status": "pending"}, "no delivery is pending, and no Ch"),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_a_wait_in_vain_says_what_brings_the_next_delivery(sandbox: Sandbox, state: str) -> None:
    made, options, wanted = STATES[state]
    charge_id = made(sandbox)
    body = {**options, **({} if charge_id is None else {"chargeId": charge_id})}
    waited = sandbox.ask("POST", "/sandbox/v1/deliveries/wait", body)
    assert not waited["reached"]
    assert re.search(wanted, waited["note"]), waited["note"]


@pytest.mark.parametrize(
    "state",
    ["an event that no Static Charge has", "an expired Static Charge", "an expired Static Charge, a larger count",
     "a payment's expiry", "completed, a larger count"],
)  # fmt: skip
def test_a_wait_that_nothing_can_end_is_answered_at_once(sandbox: Sandbox, state: str) -> None:
    made, options, _ = STATES[state]
    body = {"chargeId": made(sandbox), "status": "delivered", "count": 1, "event": None, **options}
    assert dead_end(sandbox.world, body) is not None
    assert dead_end(sandbox.world, {**body, "chargeId": tips(sandbox), "event": None}) is None


def test_what_a_note_tells_to_do_brings_the_delivery(sandbox: Sandbox) -> None:
    """Each step does only what the note of the wait before it says."""
    made = paid(sandbox, "timeout", fault="drop")
    steps = 0
    while not (waited := sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": made}))["reached"]:
        [instant] = re.findall(r"at (2030-\S+Z) and the clock is paused: advance the clock", waited["note"])
        sandbox.ask("POST", "/sandbox/v1/clock/advance", {"to": instant})
        steps += 1
    assert steps == 4, "the drop, a retry, the timeout, a retry"


@pytest.fixture(scope="module")
def client():
    with served_leyden("--rate", "1", "--start", "2030-01-01T00:00:00Z") as client:
        yield client


def test_with_a_clock_that_runs_the_note_says_when(client: Client) -> None:
    client.ok("PUT", "/sandbox/v1/inboxes/shop/script", {"answers": [500]})
    body = {"amount": "21000", "description": "tea", "callbackUrl": HOOK}
    made = client.ok("POST", "/v0/charges", body)["data"]
    client.ok("POST", "/sandbox/v1/payments", {"request": made["invoice"]["request"]})
    note = client.ok("POST", "/sandbox/v1/deliveries/wait", {"chargeId": made["id"], "timeout": 0})["note"]
    assert re.search(r"is due at 2030-\S+Z, in \d+\.\d s: wait again, or advance the clock", note), note


def test_a_request_to_the_network_waits_for_its_receiver(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/hook"
        body = {"amount": "21000", "description": "tea", "callbackUrl": url}
        made = client.ok("POST", "/v0/charges", body)["data"]
        client.ok("POST", "/sandbox/v1/payments", {"request": made["invoice"]["request"]})
        note = client.ok("POST", "/sandbox/v1/deliveries/wait", {"chargeId": made["id"], "timeout": 0})["note"]
        assert f"is in flight: let the receiver at {url} answer, and wait again" in note


@pytest.mark.parametrize("wanted", [{}, {"event": "charge.expired"}, {"event": "charge.completed"}], ids=str)
def test_the_note_about_many_pending_deliveries_reads_few_of_them(
    sandbox: Sandbox, wanted: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.receiver("shop").always(500)
    for number in range(300):
        charge(sandbox, expiresIn=60 + number)
    sandbox.wallet("ana").pay(sandbox.charges[charge(sandbox)])
    sandbox.advance("10m")
    rows = sandbox.ask("GET", "/sandbox/v1/deliveries?limit=1000&status=pending")["data"]
    assert len(rows) == 301
    first = min((row for row in rows if wanted.get("event") in (None, row["event"])), key=lambda row: row["dueAt"])
    reads = []
    read = RowMap.__getitem__
    monkeypatch.setattr(RowMap, "__getitem__", lambda rows, doc_id: (reads.append(doc_id), read(rows, doc_id))[1])
    note = sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"count": 302, **wanted})["note"]
    assert f"the next attempt of delivery {first['id']} is due at {first['dueAt']} and the clock is paused" in note
    assert len(reads) < 20 or wanted == {"event": "charge.completed"}
