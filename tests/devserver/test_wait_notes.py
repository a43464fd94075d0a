"""The note of a wait for deliveries that ended without them: what the state is, and what may bring the next one."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable

import pytest

from leyden import Sandbox
from leyden.devserver.control.callbacks.dead_ends import dead_end
from leyden.server.store.tables.row_map import RowMap
from tests.support.deep import sampled
from tests.support.served import Client, served_leyden

HOOK = "http://shop.localhost/hook"


def charge(sandbox: Sandbox, **changes: object) -> str:
    return sandbox.charges.create(**{"amount": "21000", "description": "tea", "callbackUrl": HOOK, **changes}).id


def paid(sandbox: Sandbox, *replies: object, fault: str | None = None, to: str | None = None, **options: object) -> str:
    sandbox.receiver("shop").answers(list(replies))
    if fault is not None:
        sandbox.ask("POST", "/sandbox/v1/faults", {"kind": fault})
    made = charge(sandbox, **({} if to is None else {"callbackUrl": to}))
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


def tipped(
    sandbox: Sandbox,
    *replies: object,
    slots: int | None = None,
    life_s: int = 0,
    changed: dict | None = None,
    **options: object,
) -> str:
    sandbox.receiver("shop").answers(list(replies))
    made = tips(sandbox, allowedSlots=slots, expiresIn=life_s)
    sandbox.wallet("ana").scan(sandbox.static_charges[made], **options)
    sandbox.run("1s")
    if changed:
        sandbox.static_charges[made].update(**changed)
    return made


def ended(sandbox: Sandbox, static: str) -> str:
    """A Static Charge with a life of one minute, expired."""
    sandbox.advance("61s")
    return static


def replayed(sandbox: Sandbox, made: str) -> str:
    """The resource, whose stopped deliveries were sent again."""
    assert sandbox.ask("POST", "/sandbox/v1/deliveries/replay", {"status": "stopped"})["replayed"]
    sandbox.advance("0s")
    return made


def payer_due(sandbox: Sandbox) -> str:
    """A Charge that a payer will pay before it expires, as it decides in an event that has not run."""
    sandbox.payers.add(delay="2s")
    return charge(sandbox, expiresIn=10)


def replayed_later(sandbox: Sandbox) -> str:
    """A Charge whose delivery was replayed to later, so that the wait is for that time."""
    made = paid(sandbox, 410)
    [row] = sandbox.ask("GET", f"/sandbox/v1/deliveries?chargeId={made}")["data"]
    sandbox.ask("POST", f"/sandbox/v1/deliveries/{row['id']}/replay", {"delay": "2h"})
    return made


def requested(sandbox: Sandbox, *, full: bool = False, of: str | None = None) -> str:
    """The latest Charge of an invoice that a payer requested of a Static Charge, which is full then or not."""
    made = of or tips(sandbox, allowedSlots=2 if full else None)
    static = sandbox.static_charges[made]
    sandbox.ask("GET", f"/lnurlp/{made}/invoice?amount=1000")
    child = max(static.charges, key=lambda one: one.status == "pending")
    if full:
        sandbox.wallet("ana").scan(static)
        sandbox.run("1s")
        static.update(allowedSlots=1)
    return child.id


def requested_before(sandbox: Sandbox) -> str:
    """A Static Charge that got its callbackUrl after an invoice was requested of it."""
    made = tips(sandbox, callbackUrl=None)
    requested(sandbox, of=made)
    sandbox.static_charges[made].update(callbackUrl=HOOK)
    return made


STATES: dict[str, tuple[Callable[[Sandbox], str | None], dict, str]] = {
    "no callbackUrl": (lambda it: charge(it, callbackUrl=None), {}, "no callbackUrl.*create it with a callbackUrl"),
    "unpaid": (charge, {}, r"is pending and has sent no callback: pay it .*, or advance the clock to 2030-\S+, when"),
    "unpaid, its payment": (charge, {"event": "charge.completed"}, r"no callback: pay it \(POST \S+\); the next event"),
    "unpaid, its expiry": (charge, {"event": "charge.expired"}, r"callback: advance the clock to 2030-\S+, "),
    "unpaid, its failure": (charge, {"event": "charge.error"}, r"no callback: let its invoice fail \(POST .*/fail\)"),
    "a later payment": (
        lambda it: paid(it, delay="5m"), {},
        r"; the next part of payment \S+ of it is due at \S+T09:05:\S+: pay it"
    ),
    "a payment after the expiry": (
        lambda it: paid(it, delay="1h"), {"event": "charge.completed"},
        r"; the next part of payment \S+ of it is due at 2030-01-01T10:0\S+: pay it \(POST \S+\); the next"
    ),
    "an expiry after the payment": (
        lambda it: paid(it, delay="5m"), {"event": "charge.expired"},
        r"payment \S+ of it is due at \S+T09:05\S+: advance .* \S+T09:1\S+, when it expires unless it is paid"
    ),
    "a payment to be held": (
        lambda it: paid(it, delay="5m", outcome="hold"), {"event": "charge.completed"},
        r"payment \S+ of it is due at \S+T09:05\S+: pay it \(POST \S+\)$"
    ),
    "a held payment": (
        lambda it: paid(it, outcome="hold"), {},
        r"; payment \S+ of it is held: settle the held .* \(POST \S+/settle\), or"
    ),
    "completed, another event": (paid, {"event": "charge.expired"}, "completed.*none with.*wait for charge.completed"),
    "a retry is due, another event": (
        lambda it: paid(it, 500), {"event": "charge.expired"},
        "sends no callback besides .*, retries .* included, and has none with .* charge.expired: wait for charge.co"
    ),
    "any, a retry of another event": (
        lambda it: paid(it, 500) and None, {"event": "charge.error"},
        r"^no delivery with the event charge.error is pending \(delivery \S+ with the event charge.completed is\), and"
    ),
    "a delay that waits": (
        lambda it: it.ask("POST", "/sandbox/v1/faults", {"kind": "delay", "attempt": 2}) and paid(it, 500), {},
        r"^the next attempt of delivery \S+, which fault \S+ of the kind delay delays from 2030-01-01T09:00:0\S+ on, "
        r"unless another attempt meets it before, is due at 2030-01-01T10:00:0\S+ and the clock is paused"
    ),
    "a reorder that waits": (
        lambda it: it.ask("POST", "/sandbox/v1/faults", {"kind": "reorder", "attempt": 2, "count": None})
        and paid(it, 500), {}, r"of the kind reorder delays from 2\S+Z on, is due at 2030-01-01T10:\S+ at the latest"
    ),
    "expired, another event": (expired, {"event": "charge.completed"}, "is expired.*wait for charge.expired"),
    "unpaid, a larger count": (charge, {"count": 2}, "^a Charge sends one callback, when it ends: wait .* 1$"),
    "unpaid, any, a larger count": (charge, {"status": "any", "count": 9}, "when it ends: wait for a count of 1$"),
    "held, a larger count": (lambda it: paid(it, outcome="hold"), {"count": 2}, "when it ends: wait for a count of 1$"),
    "completed, a larger count": (paid, {"count": 2}, "completed and sends no more callbacks: wait for a count of 1"),
    "completed, any": (paid, {"status": "any", "count": 3}, "sends no more callbacks: wait for a count of 1"),
    "completed, a replay is due, a larger count": (
        replayed_later, {"count": 2}, "completed and sends no callback besides .*, .*replays included: wait .* 1$"
    ),
    "an expired Static Charge, a retry is due, a larger count": (
        lambda it: ended(it, tipped(it, *[500] * 3, life_s=60)), {"count": 2}, "sends no callback besides .* 1$"
    ),
    "delivered, not exhausted": (
        paid, {"status": "exhausted"},
        r"ended as delivered .*: replay it .*; a delivery is exhausted when"
    ),
    "delivered, not pending": (
        paid, {"status": "pending"},
        r"ended as delivered .*: replay it .*; a delivery is pending while"
    ),
    "stopped": (lambda it: paid(it, 410), {}, "ended as stopped and is not sent again: replay it"),
    "stopped, its condition": (
        lambda it: paid(it, 410), {},
        r"replay it to try again; a delivery is delivered after a 2xx "
    ),
    "delivered, not stopped": (
        paid, {"status": "stopped"},
        r"replay it .*; a delivery is stopped when its URL answers 410"
    ),
    "delivered, not blocked": (
        paid, {"status": "blocked"},
        r"ended as delivered and .*; a delivery is blocked when its address is not allowed or .* its body$"
    ),
    "unpaid, not blocked": (
        charge, {"status": "blocked"},
        r"no callback: pay it .*; a delivery is blocked when its address is not allowed or the document refuses"
    ),
    "a Static Charge, not blocked": (
        tips, {"status": "blocked"},
        r"LNURL .*; a delivery is blocked when its address is not allowed"
    ),
    "an unpaid Static Charge, not delivered": (tips, {"status": "stopped"}, r"LNURL .*; a delivery is stopped when"),
    "a retry": (lambda it: paid(it, 500), {}, r"next attempt of delivery \S+ is due at 2030-\S+ and .*paused"),
    "a replay at a time": (replayed_later, {}, r"attempt of delivery \S+ is due at 2030-01-01T11"),
    "a receiver's timeout": (lambda it: paid(it, "timeout"), {}, r"attempt 1 of \S+ \S+ ends at 2030-"),
    "a dropped attempt": (lambda it: paid(it, fault="drop"), {}, r"attempt 1 .* dropped by a fault and times out"),
    "a delayed attempt": (
        lambda it: paid(it, fault="delay"), {},
        r"^an attempt of delivery \S+, which a fault of the kind delay delays, is due at 2"
    ),
    "a reordered attempt": (
        lambda it: paid(it, fault="reorder"), {},
        r"which a fault of the kind reorder delays, is due .*advance the clock"
    ),
    "an unpaid Static Charge": (tips, {}, r"active, and no Charge of it is pending: pay it by its LNURL \(POST \S+\)$"),
    "a paid Static Charge": (tipped, {"count": 2}, r"no Charge of it is pending: pay it by its LNURL"),
    "a full Static Charge": (
        lambda it: tipped(it, slots=1), {"count": 2},
        r"disabled, and no .*; it takes no payment: raise its allowedSlots, .* \(PATCH \S+\), then pay it by its LNURL"
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
    "a Static Charge whose endpoint answered 410": (
        lambda it: tipped(it, 410), {},
        r"shop.localhost/hook has answered 410, so that only .*: give .*\(PATCH /v0/s\S+\), or replay"
    ),
    "an open payment of a Static Charge whose endpoint answered 410": (
        lambda it: requested(it, of=tipped(it, 410)), {},
        r"has answered 410, so that only replays are sent there: replay its callback when it has ended as stopped"
    ),
    "a Static Charge whose endpoint answered 410, stopped": (
        lambda it: tipped(it, 410), {"status": "stopped", "count": 2},
        r"by its LNURL .*; a delivery is stopped when its URL answers 410, to it or to an earlier callback$"
    ),
    "unpaid, pending": (
        charge, {"status": "pending"},
        r"unless it is paid; a delivery is pending while attempts remain$"
    ),
    "a full Static Charge whose endpoint answered 410": (
        lambda it: tipped(it, 410, slots=1), {},
        r": give its further payments another callbackUrl and raise its allowedSlots, .* \(PATCH /v0/s\S+\), or r"
    ),
    "a full Static Charge without a callbackUrl": (
        lambda it: tipped(it, slots=1, changed={"callbackUrl": None}), {"count": 2},
        r"sent: give it one for its further payments and raise its allowedSlots, so that .* \(PATCH /v0/s\S+\)$"
    ),
    "a Static Charge whose open payment has no callbackUrl": (
        requested_before, {},
        r"^the Static Charge is active, and 1 Charge of it is pending: pay it by its LNURL \(POST \S+\); the next event"
    ),
    "a Static Charge whose callbacks are blocked": (
        lambda it: tips(it, callbackUrl="http://127.0.0.1:1080/a"), {},
        r"; its address is not allowed, which ends each callback as blocked: egress-none"
    ),
    "an unpaid Charge whose callbacks are blocked": (
        lambda it: charge(it, callbackUrl="http://127.0.0.1:1080/a"), {},
        r"; its address is not allowed, which ends each callback as blocked: egress-none"
    ),
    "any failure, after a payment request of a Static Charge": (
        lambda it: requested(it) and charge(it) and None,
        {"event": "charge.error"}, r"let the invoice of Charge \S+ fail"
    ),
    "a Static Charge's open payment": (
        lambda it: tipped(it, delay="4m"), {},
        r"1 Charge of it is pending: pay it by its LNURL .*; the next"
    ),
    "a closed invoice": (
        lambda it: requested(it, full=True), {},
        r"^Charge \S+ can no longer be paid, so .*: wait for those of its Static Charge \(chargeId \S+\)$"
    ),
    "no Charge": (lambda it: None, {}, "and no Charge is pending: create one with a callbackUrl, then pay it"),
    "no pending Charge": (lambda it: expired(it) and None, {"count": 9}, ", and no Charge is pending: create"),
    "only unpaid Charges": (
        lambda it: charge(it) and None, {}, r"1 Charge is pending: pay Charge .*, or advance "
    ),
    "any expiry": (
        lambda it: charge(it) and None, {"event": "charge.expired"},
        r"advance .*, when Charge \S+ expires unless it is paid$"
    ),
    "any failure": (lambda it: charge(it) and None, {"event": "charge.error"}, r"let the invoice of Ch.* fail \(POST"),
    "a payment's expiry": (requested, {"event": "charge.expired"}, "Charge of a Static Charge sends no callback with"),
    "any retry": (lambda it: paid(it, 500) and None, {}, "is due at .* paused: advance the clock"),
    "only Charges without a callbackUrl": (
        lambda it: charge(it, callbackUrl=None) and None, {}, "1 Charge is pending, none with a callbackUrl: create one"
    ),
    "a Static Charge without a callbackUrl": (
        lambda it: tips(it, callbackUrl=None), {}, r"no callback is sent: give it one .* \(PATCH /v0/s\S+\)$"
    ),
    "any, stopped": (lambda it: paid(it, 410) and None, {}, r"^delivery \S+ ended as stopped .*; no delivery is"),
    "any, blocked": (
        lambda it: paid(it, to="http://127.0.0.1:1080/a") and None, {},
        r"^delivery \S+ ended as blocked .*egress.*; no d"
    ),
    "an expired Static Charge without a callbackUrl": (
        lambda it: ended(it, tips(it, callbackUrl=None, expiresIn=60)), {}, "more callbacks: wait for those of another"
    ),
    "a Static Charge whose callbackUrl was taken away": (
        lambda it: tipped(it, changed={"callbackUrl": None}), {"count": 2}, "^it has no .* no further callback is sent"
    ),
    "a payment of a Static Charge without a callbackUrl": (
        lambda it: requested(it, of=tips(it, callbackUrl=None)), {}, r"another payment of its Static .*\(PATCH \S+\)$"
    ),
    "a Static Charge whose stopped callbacks were replayed": (
        lambda it: replayed(it, tipped(it, 410)), {"count": 2}, r"\(PATCH /v0/static-charges/\S+\)$"
    ),
    "a payer that is due": (payer_due, {"event": "charge.expired"}, r"; an event is due now: .*; 1 payer is set "),
    "any, a hold that is due": (
        lambda it: it.wallet("ana").pay(it.charges[charge(it)], outcome="hold") and None, {},
        r"1 Charge is pending: pay Charge .*; an event is due now: advance the clock by 0s$"
    ),
    "any, more pending ones": (
        lambda it: paid(it, 500) and None, {"status": "pending", "count": 2},
        r"^1 delivery is pending, and no Charge is pending: create .*; the next event of the clock is due at "
    ),
    "any, more than pending ones": (
        lambda it: paid(it, 500) and paid(it, 500) and None, {"status": "any", "count": 4}, "^2 deliveries are pend"
    ),
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
     "a payment's expiry", "unpaid, a larger count", "unpaid, any, a larger count", "held, a larger count",
     "completed, a larger count"],
)  # fmt: skip
def test_a_wait_that_nothing_can_end_is_answered_at_once(sandbox: Sandbox, state: str) -> None:
    made, options, _ = STATES[state]
    body = {"chargeId": made(sandbox), "status": "delivered", "count": 1, "event": None, **options}
    assert dead_end(sandbox.world, body) is not None
    assert dead_end(sandbox.world, {**body, "chargeId": tips(sandbox), "event": None}) is None


@pytest.mark.parametrize("status", ["exhausted", "stopped", "blocked"])
@pytest.mark.parametrize("is_named", [True, False])
def test_a_note_says_when_a_delivery_is_in_the_awaited_state(sandbox: Sandbox, status: str, is_named: bool) -> None:
    made = charge(sandbox)
    sandbox.wallet("ana").pay(sandbox.charges[made], delay="20s")
    wanted = {"status": status, **({"chargeId": made} if is_named else {})}
    for reply in (None, 500):
        if reply is not None:
            sandbox.receiver("shop").always(reply)
            sandbox.advance("30s")
            assert [one["status"] for one in sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]] == ["pending"]
        note = sandbox.ask("POST", "/sandbox/v1/deliveries/wait", wanted)["note"]
        assert f"; a delivery is {status} when " in note


def test_what_a_note_tells_to_do_brings_the_delivery(sandbox: Sandbox) -> None:
    """Each step does only what the note of the wait before it says."""
    made = paid(sandbox, "timeout", fault="drop")
    steps = 0
    while not (waited := sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": made}))["reached"]:
        [instant] = re.findall(r"at (2030-\S+Z) and the clock is paused: advance the clock", waited["note"])
        sandbox.ask("POST", "/sandbox/v1/clock/advance", {"to": instant})
        steps += 1
    assert steps == 4, "the drop, a retry, the timeout, a retry"


# Payments of a Charge that expires after 60 s: the outcome, the delay in seconds and more of each.
PLANS: dict[str, list[dict[str, object]]] = {
    "nothing": [],
    "a payment": [{"delay": 30}],
    "a payment after the expiry": [{"delay": 90}],
    "a payment in parts": [{"delay_ms": 5_000, "parts": 3, "gap_ms": 10_000}],
    "a held payment": [{"outcome": "hold"}],
    "a payment to be held": [{"outcome": "hold", "delay": 5}],
    "a payment that fails": [{"outcome": "fail", "delay": 5}],
    "a part that waits for others": [{"outcome": "incomplete"}],
    "a part of more that waits for others": [{"outcome": "incomplete", "amount": "30000"}],
    "one that is held before one that completes": [{"outcome": "hold", "delay": 5}, {"delay": 30}],
    "many": [{"delay": 5 * number} for number in range(1, 7)],
}  # fmt: skip
EVENTS = [None, "charge.completed", "charge.expired", "charge.error"]


def do(sandbox: Sandbox, way: str, made: str) -> None:
    """Do only what one way of a note says."""
    if (found := re.search(r"advance the clock to (\S+Z)", way)) is not None:
        sandbox.ask("POST", "/sandbox/v1/clock/advance", {"to": found[1]})
    elif (found := re.search(r"(?:settle|fail)\b.*\(POST (\S+)\)", way)) is not None:
        sandbox.ask("POST", found[1])
    elif (found := re.search(r"pay (?:it|Charge (\S+)) \(POST (\S+)\)(?: with the amount (\d+))?", way)) is not None:
        amount = {} if found[3] is None else {"amount": found[3]}
        sandbox.ask("POST", found[2], {"request": sandbox.charges[found[1] or made].invoice.request, **amount})
    else:
        pytest.fail(f"no way: {way}")


@pytest.mark.parametrize("of_any", sampled([False, True], 4), ids=["of the Charge", "of any"])
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("plan", PLANS)
def test_each_way_of_a_note_brings_a_delivery_of_the_charge(
    sandbox: Sandbox, plan: str, event: str | None, of_any: bool
) -> None:
    """Or the Charge has ended otherwise meanwhile: what is scheduled is not foretold. Besides, there are a Charge that
    has no callbackUrl and one that expires earlier."""
    made = charge(sandbox, expiresIn=60)
    for payment in PLANS[plan]:
        if "parts" in payment:
            sandbox.world.payments.pay(sandbox.charges[made].invoice.request, **payment)
        else:
            sandbox.wallet("ana").pay(sandbox.charges[made], **payment)
    sandbox.advance("0s")
    charge(sandbox, callbackUrl=None, expiresIn=2)
    wanted = {"event": event} if event else {}
    wanted |= {} if of_any else {"chargeId": made}
    note = sandbox.ask("POST", "/sandbox/v1/deliveries/wait", wanted)["note"]
    payments = [one for one in sandbox.ask("GET", "/sandbox/v1/payments")["data"] if one["status"] != "failed"]
    for one in [] if of_any else payments[-3:]:
        due = re.search(rf"the next part of payment {one['id']} of it is due at (\S+?)[:;]", note)
        assert due is not None or f"payment {one['id']} of it is {one['status']}" in note, note
    ways = re.sub("; the next event of the clock is due at [^;]*$", "", note).rpartition(": ")[2]
    for way in ways.split(", or "):
        copy = sandbox.fork()
        do(copy, way, made)
        copy.advance("0s")
        sent = copy.ask("GET", f"/sandbox/v1/deliveries?chargeId={made}")["data"]
        assert (len(sent) == 1 and sent[0]["event"] == (event or sent[0]["event"])) or plan != "nothing", note


def test_a_note_about_a_static_charge_without_a_callback_url_leads_to_the_delivery(sandbox: Sandbox) -> None:
    made = tips(sandbox, callbackUrl=None)
    note = sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": made})["note"]
    [path] = re.findall(r"\(PATCH (\S+)\)", note)
    sandbox.ask("PATCH", path, {"callbackUrl": HOOK})
    sandbox.wallet("ana").scan(sandbox.static_charges[made])
    sandbox.run("1s")
    assert sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": made})["reached"]


def test_a_static_charge_that_had_a_callback_url_is_waited_for_while_a_delivery_is_pending(sandbox: Sandbox) -> None:
    made = tipped(sandbox, 500)
    sandbox.static_charges[made].update(callbackUrl=None)
    assert dead_end(sandbox.world, {"chargeId": made, "status": "delivered", "count": 1}) is None
    assert "the next attempt" in sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": made})["note"]


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


def test_what_is_due_after_the_end_of_the_clock_is_no_way_to_a_callback() -> None:
    end, later = "2999-12-31T23:59:00Z", "3000-01-01"
    with Sandbox(seed=1) as sb:

        def note(**wanted: object) -> str:
            text: str = sb.ask("POST", "/sandbox/v1/deliveries/wait", {"timeout": 0, **wanted})["note"]
            return text

        sb.ask("POST", "/sandbox/v1/clock/advance", {"to": end})
        charge = sb.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/x")
        sb.wallet("ana").pay(charge, delay="5m")
        assert later not in note(event="charge.expired")
        assert "never comes, because the clock ends at 2999-12-31T23:59:59" in note(
            event="charge.expired", chargeId=charge.id
        )
        assert "pay it (POST /sandbox/v1/payments)" in note(chargeId=charge.id)
        assert "expires" not in note(chargeId=charge.id)
        assert later not in note()
        sb.receiver("shop").always(500)
        sb.wallet("ben").pay(charge)
        sb.advance("50s")
        found = note()
        assert "which never comes, because the clock ends" in found
        assert ": replay it to try again now" in found
        sb.receiver("shop").always(200)
        sb.ask("POST", "/sandbox/v1/deliveries/replay", {})
        sb.run("next_event")
        assert list(sb.deliveries["status"]) == ["delivered"]


def test_a_callback_that_was_not_attempted_yet_needs_no_replay(sandbox: Sandbox) -> None:
    other = "http://127.0.0.1:1080/hook"
    unpaid = sandbox.charges[charge(sandbox, callbackUrl=other)]
    waiting = charge(sandbox, callbackUrl=other)
    sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "delay", "delay": "5s"})
    sandbox.wallet("ana").pay(sandbox.charges[waiting])
    sandbox.advance("1s")
    for made in (unpaid.id, waiting, tips(sandbox, callbackUrl=other)):
        note = sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": made})["note"]
        assert "blocked" in note
        assert 'call set_egress("loopback");' in note
        assert "replay" not in note
    for text in (repr(unpaid), unpaid._repr_html_()):
        assert "set_egress(" in text
        assert "replay" not in text
    sandbox.advance("10s")
    assert "and replay its blocked deliveries" in repr(sandbox.charges[waiting])
