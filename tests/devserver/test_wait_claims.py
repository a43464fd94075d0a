"""What the notes of a wait claim is what the lists say: each combination of the filters in random states."""

from __future__ import annotations

import itertools
import random
import re
from contextlib import suppress
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import LeydenError
from tests.devserver.test_wait_facts import ACTIONS, HOOKS, NETWORK, WAIT, create, create_static
from tests.support.deep import deep_or

EVENTS = [None, "charge.completed", "charge.expired", "charge.error"]
STATUSES = ["delivered", "pending", "exhausted", "stopped", "blocked", "any"]


def fail_for_now(sandbox: Sandbox, draw: random.Random) -> None:
    sandbox.receiver("shop").answers([draw.choice([500, 500, "timeout", 410])] * draw.choice([1, 3, 12]))


def add_fault(sandbox: Sandbox, draw: random.Random) -> None:
    count = draw.choice([2, None])
    kind = draw.choice(["delay", "delay", "drop", "reorder", "burst", "duplicate", "redeliver"])
    sandbox.ask("POST", "/sandbox/v1/faults", {"kind": kind, "count": count, "attempt": draw.choice([None, 1, 2])})


def create_on_network(sandbox: Sandbox, draw: random.Random) -> None:
    charge = sandbox.charges.create(amount="21000", description="tea", callbackUrl=NETWORK)
    if draw.random() < 0.5:
        sandbox.wallet("ana").pay(charge)


def pay_many(sandbox: Sandbox, draw: random.Random) -> None:
    """Several callbacks to one receiver that may be silent: more than may be in flight at once."""
    if draw.random() < 0.5:
        sandbox.receiver("shop").answers(["timeout"] * 9)
    for _ in range(10):
        sandbox.wallet("ana").pay(sandbox.charges.create(amount="21000", description="tea", callbackUrl=HOOKS[0]))
    sandbox.advance(draw.choice(["0s", "1s"]))


def fill_the_last_slot(sandbox: Sandbox, draw: random.Random) -> None:
    """A payment is held or was only requested when another one takes the last slot."""
    static = sandbox.static_charges.create(
        minAmount="1000", maxAmount="1000", description="tip", callbackUrl=HOOKS[0], allowedSlots=1
    )
    if draw.random() < 0.5:
        sandbox.wallet("ana").scan(static, outcome="hold")
    else:
        sandbox.ask("GET", f"/lnurlp/{static.id}/invoice?amount=1000")
    sandbox.wallet("bob").scan(static)
    sandbox.advance("1s")
    if draw.random() < 0.5:
        static.update(allowedSlots=2)


MORE = [
    *ACTIONS,
    fill_the_last_slot,
    fill_the_last_slot,
    fail_for_now,
    fail_for_now,
    add_fault,
    create_on_network,
    pay_many,
]


class Lists:
    """What the lists of a sandbox say."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.deliveries: list[dict[str, Any]] = sandbox.ask("GET", "/sandbox/v1/deliveries?limit=1000")["data"]
        self.pending_charges = [one for one in sandbox.charges if one.status == "pending"]
        self.static_of = {child.id: static.id for static in sandbox.static_charges for child in static.charges}
        service = sandbox.world.service
        rows = (*service.charges.charges, *service.static_charges.static_charges)
        self.closed = {row["id"] for row in rows if "closed" in row}
        self.url_of = {row["id"]: row["callback_url"] for row in rows}

    def of(self, about: str | None, **fields: str | None) -> list[dict[str, Any]]:
        """The deliveries about this Charge or Static Charge with these values; None is any."""
        return [
            row
            for row in self.deliveries
            if about in (None, row["chargeId"], self.static_of.get(row["chargeId"]))
            and all(value in (None, row[name]) for name, value in fields.items())
        ]

    def row(self, delivery_id: str) -> dict[str, Any]:
        [found] = [row for row in self.deliveries if row["id"] == delivery_id]
        return found


def check_deliveries(lists: Lists, wanted: dict[str, Any], note: str) -> None:
    """What the note says of deliveries that are pending, or that there are."""
    about = wanted.get("chargeId")
    count, name = r"(no|\d+) deliver(?:y|ies)", r"(?: with the event (charge\.\w+))?"
    for number, event in re.findall(rf"(?:^|; ){count}{name} (?:is|are) pending", note):
        assert number == str(len(lists.of(None, status="pending", event=event or None)) or "no"), note
        if event:  # the pending ones with another event are named
            others = [row["event"] for row in lists.of(None, status="pending") if row["event"] != event]
            matched = re.search(r" pending \(([^)]*)\)", note)
            assert set(re.findall(r"charge\.\w+", matched[1] if matched else "")) == set(others), note
    for delivery_id, event in re.findall(r"delivery (\S+) with the event (\S+) is[;)]", note):
        assert [row["id"] for row in lists.of(None, status="pending", event=event)] == [delivery_id], note
    for number, event in re.findall(r"(\d+) deliveries with the event (\S+) are, the oldest", note):
        assert int(number) == len(lists.of(None, status="pending", event=event)), note
    if re.search(r"sends no more callbacks|so no (further )?callback is sent", note):
        assert not lists.of(about, status="pending"), note
    if "retries and replays included" in note:
        assert lists.of(about, status="pending"), note
    if "so no further callback is sent" in note:
        assert lists.of(about), note
    if (found := re.search(r"has none with the event (charge\.\w+)", note)) is not None:
        assert not lists.of(about, event=found[1]), note
    if "it sent none" in note:
        assert not lists.of(about), note
    if (found := re.search(r"Charge (\S+) is \w+ and has sent (no|\d+) callback", note)) is not None:
        assert found[2] == str(len(lists.of(found[1])) or "no"), note
    for delivery_id, status in re.findall(r"delivery (\S+) ended as (\w+) ", note):
        assert lists.row(delivery_id)["status"] == status, note


def check_attempts(lists: Lists, note: str) -> None:
    """What the note says of the attempts of a pending delivery."""
    for number, delivery_id in re.findall(r"attempt (\d+) of delivery (\S+) (?:ends|was dropped|is in flight)", note):
        attempts = lists.row(delivery_id)["attempts"]
        assert (len(attempts), attempts[-1]["answeredAt"]) == (int(number), None), note
    in_flight = sum(row["attempts"][-1]["answeredAt"] is None for row in lists.deliveries if row["attempts"])
    if found := re.search(r"next attempt of delivery (\S+) is due and waits .* (\d+) attempts in flight", note):
        row = lists.row(found[1])
        assert (int(found[2]), row["status"]) == (in_flight, "pending"), note
        assert row["note"].startswith("it is due and waits until one of the"), row
    if (found := re.search(r"the next attempt of delivery (\S+) is due (?:at (\S+Z)|now)", note)) is not None:
        row = lists.row(found[1])
        assert found[2] in (None, row["dueAt"]), note
        assert not (found[2] is None and in_flight == 8), note


def check_charges(lists: Lists, wanted: dict[str, Any], note: str) -> None:
    """What the note says of Charges."""
    if "no Charge is pending" in note:
        assert not lists.pending_charges, note
    if found := re.search(r"and (\d+) Charges? (?:is|are) pending", note):
        assert int(found[1]) == len(lists.pending_charges), note
    if ", none with a callbackUrl" in note:
        assert [lists.url_of[one.id] for one in lists.pending_charges] == [None] * len(lists.pending_charges), note
    if found := re.search(r"and (no|\d+) Charges? of it (?:is|are) pending", note):
        children = [one for one in lists.pending_charges if lists.static_of.get(one.id) == wanted["chargeId"]]
        assert found[1] == str(len(children) or "no"), note
        closed = [one for one in children if one.id in lists.closed]
        matched = re.search(r", of which (\d+) can no longer be paid", note)
        assert (int(matched[1]) if matched else 0) == len(closed), note
        assert not ("pay one of them" in note and len(closed) == len(children)), note


@pytest.mark.parametrize("seed", range(deep_or(bounded=30, full=400)))
def test_what_the_notes_of_a_wait_claim_is_what_the_lists_say(seed: int) -> None:
    draw = random.Random(seed)
    with Sandbox(seed=1, start="2030-01-01T09:00Z", egress=draw.choice(["none", "loopback"])) as sandbox:
        sandbox.receiver("other").always(draw.choice([200, 500]))
        for action in [draw.choice([create, create_static]), *draw.choices(MORE, k=draw.randint(2, 10))]:
            with suppress(LeydenError, IndexError):
                action(sandbox, draw)
        lists = Lists(sandbox)
        ids = [one.id for one in (*sandbox.charges, *sandbox.static_charges)]
        abouts = [None, *draw.sample(ids, min(4, len(ids)))]
        for about, event, status, count in itertools.product(abouts, EVENTS, STATUSES, [1, 2, 40]):
            wanted = {"chargeId": about, "event": event, "status": status, "count": count}
            wanted = {name: value for name, value in wanted.items() if value is not None}
            waited = sandbox.ask("POST", WAIT, {**wanted, "timeout": 0})
            matching = len(lists.of(about, event=event, status=None if status == "any" else status))
            assert (waited["count"], waited["reached"]) == (matching, matching >= count)
            if not waited["reached"]:
                assert waited["note"]
                check_deliveries(lists, wanted, waited["note"])
                check_attempts(lists, waited["note"])
                check_charges(lists, wanted, waited["note"])


FORBIDDEN = ["http://10.0.0.9/x", "http://127.0.0.1:2/x"]


@pytest.mark.parametrize("url", [*FORBIDDEN, *HOOKS[:1]])
@pytest.mark.parametrize("kind", [None, "delay", "drop", "reorder", "burst"])
@pytest.mark.parametrize("status", STATUSES)
def test_a_way_that_a_wait_for_any_charge_names_brings_a_match_or_says_what_hinders(
    url: str, kind: str | None, status: str
) -> None:
    """Also where the callback is blocked: the wait for any state counts it, and a fault may hold it as pending."""
    with Sandbox(seed=1, start="2030-01-01T09:00Z") as sandbox:
        charge = sandbox.charges.create(amount="21000", description="tea", callbackUrl=url)
        if kind is not None:
            sandbox.ask("POST", "/sandbox/v1/faults", {"kind": kind, "count": 2})
        note = sandbox.ask("POST", WAIT, {"status": status, "timeout": 0})["note"]
        assert f"1 Charge is pending: pay Charge {charge.id}" in note
        is_hindered = url in FORBIDDEN and status not in ("any", "blocked")
        assert ("its address is not allowed, which ends each callback as blocked" in note) == is_hindered
        sandbox.wallet("ana").pay(charge)
        sandbox.advance(0)
        waited = sandbox.ask("POST", WAIT, {"status": status, "timeout": 0})
        if status == "any":
            assert (waited["reached"], waited["count"]) == (True, 1)
