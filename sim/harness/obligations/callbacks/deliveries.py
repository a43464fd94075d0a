"""Obligations of deliveries: the secrets that sign each attempt, and the receivers of each change of state."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step

_DAY_MS = 86_400_000
_URL = "http://r1.inbox.localhost/hook"
_AGAIN: Step = {"do": "restart"}


def delivery_obligations() -> Iterator[Obligation]:
    """Replays of deliveries about rotations of the secret, and a callback for each change of state and for no other."""
    yield from _replays()
    yield from _later()
    yield from _events()
    yield from _endpoints()
    yield from _ended()


def _replays() -> Iterator[Obligation]:
    """A delivery in each state is sent again about the end of the retention of a secret, with and without restarts."""
    source = "#/components/parameters/WebhookSignature"
    for reply, rotations, restarts in product((200, 500, 410, "timeout"), (1, 2, 4), (False, True)):
        again = [_AGAIN] if restarts else []
        steps: list[Step] = [{"do": "receiver", "host": "r1.inbox", "answers": [reply]}]
        steps += [_charge("c1"), {"do": "fail", "charge": "c1"}, {"do": "advance", "by": 16_000}]
        for _ in range(rotations):
            steps += [{"do": "rotate"}, *again, {"do": "replay", "charge": "c1"}, {"do": "advance", "by": 1_000}]
        waited = 1_000 * rotations
        for by in (_DAY_MS - waited - 1, 1, 1, 998, 1, 1, 998, 1, 1, _DAY_MS):
            steps += [{"do": "advance", "by": by}, {"do": "replay", "charge": "c1"}, *again]
        steps += [{"do": "replay", "charge": "c1", "offset": offset} for offset in (-1, -1_000)]
        case = f"{reply}, {rotations} rotations{', restarts' if restarts else ''}"
        yield Obligation("chargeUpdated", "replay-after-rotation", case, source, tuple(steps), setup="replay-changed")


def _later() -> Iterator[Obligation]:
    """A replay at an instant and after a delay, of a delivery in each state: nothing is sent before; another replay
    changes the time; a restart keeps it."""
    source = "sandbox.openapi.yaml#/components/schemas/ReplayTime"
    for number, (reply, how, offset) in enumerate(product((200, 500, 410, "timeout"), ("at", "delay"),
                                                          (0, 1, 999, 5_000, _DAY_MS))):  # fmt: skip
        given: Step = {} if how == "at" else {"how": how}
        restart: list[Step] = [{"do": "restart", "how": ("kill", "close", "snapshot")[number % 3]}]
        again = restart if number % 2 else []
        steps: list[Step] = [{"do": "receiver", "host": "r1.inbox", "answers": [reply, 500, 200]}]
        steps += [_charge("c1"), {"do": "fail", "charge": "c1"}, {"do": "advance", "by": 16_000}]
        steps += [{"do": "replay", "charge": "c1", "offset": offset, **given}, *again]
        steps += [{"do": "advance", "by": offset - 1}] if offset else []
        steps += [{"do": "advance", "by": 1}, {"do": "advance", "by": 30_000}, *again]
        steps += [{"do": "replay", "charge": "c1", "offset": 90_000, **given}, {"do": "advance", "by": 1_000}]
        steps += [{"do": "replay", "charge": "c1", "offset": offset, **given}, *again, {"do": "advance", "by": offset}]
        steps += [{"do": "replay", "charge": "c1", "offset": 600_000, **given}, {"do": "replay", "charge": "c1"}]
        steps += [{"do": "advance", "by": 7 * _DAY_MS}]
        yield Obligation("replayDelivery", "replay-later", f"{reply} {how} {offset} ms", source, tuple(steps),
                         setup="later-changed")  # fmt: skip


def _charge(label: str, **body: object) -> Step:
    fields = {"amount": "1000", "description": "x", "callbackUrl": _URL, "expiresIn": 2_592_000, **body}
    return {"do": "create_charge", "as": label, "body": fields}


def _events() -> Iterator[Obligation]:
    """Events of a Charge and of a Static Charge with each kind of callback URL."""
    source = "#/components/schemas/StaticCharge/properties/status/x-lifecycle"
    urls = {"none": None, "empty": "", "one": _URL, "two": "http://r2.inbox.localhost/"}
    for (name, url), (other_name, other) in product(urls.items(), repeat=2):
        body = {"minAmount": "1000", "maxAmount": "2000", "description": "x", "callbackUrl": url, "expiresIn": 200}
        steps: list[Step] = [{"do": "create_static", "as": "s1", "body": {**body, "allowedSlots": 3}}]
        steps += [{"do": "invoice", "static": "s1", "as": f"c{n}", "amount": "1000"} for n in range(5)]
        steps += [{"do": "pay", "as": "p0", "charge": "c0"}, {"do": "fail", "charge": "c1"}]
        steps += [
            {"do": "patch", "static": "s1", "body": {"callbackUrl": other}},
            {"do": "pay", "as": "p2", "charge": "c2"},
        ]
        steps += [{"do": "invoice", "static": "s1", "as": "c5", "amount": "1000"}]
        steps += [
            {"do": "pay", "as": "p5", "charge": "c5"},
            {"do": "patch", "static": "s1", "body": {"allowedSlots": 9}},
        ]
        steps += [_charge(f"d{n}", callbackUrl=url, expiresIn=100) for n in range(3)]
        steps += [{"do": "pay", "as": "q0", "charge": "d0"}, {"do": "fail", "charge": "d1"}]
        steps += [
            {"do": "advance", "to": ["expiry", "d2"], "offset": 0},
            {"do": "advance", "to": ["expiry", "s1"], "offset": 0},
        ]
        steps += [{"do": "advance", "by": 7 * _DAY_MS}]
        yield Obligation("staticChargeUpdated", "events", f"{name}, then {other_name}", source, tuple(steps),
                         setup="events-changed")  # fmt: skip


def _endpoints() -> Iterator[Obligation]:
    """After 410, callbacks to the same and to another URL, about the same and about another resource, and restarts."""
    source = "#/paths/~1v0~1charges/post/callbacks/chargeUpdated/{$request.body#~1callbackUrl}/x-delivery"
    for other, how in product(
        (_URL, f"{_URL}/", f"{_URL}?a=1", _URL.upper(), "http://r2.inbox.localhost/hook"), ("", "kill", "snapshot")
    ):
        again: list[Step] = [{"do": "restart", "how": how}] if how else []
        body = {"minAmount": "1000", "maxAmount": "2000", "description": "x", "callbackUrl": _URL}
        steps: list[Step] = [{"do": "create_static", "as": f"s{n}", "body": body} for n in (1, 2)]
        steps += [{"do": "invoice", "static": f"s{n % 2 + 1}", "as": f"c{n}", "amount": "1000"} for n in range(9)]
        steps += [{"do": "receiver", "host": "r1.inbox", "answers": [500, 410]}]
        steps += [{"do": "pay", "as": "p0", "charge": "c0"}, {"do": "pay", "as": "p2", "charge": "c2"}, *again]
        steps += [{"do": "pay", "as": "p1", "charge": "c1"}, {"do": "pay", "as": "p4", "charge": "c4"}]
        steps += [{"do": "patch", "static": "s1", "body": {"callbackUrl": other}}, *again]
        steps += [
            {"do": "invoice", "static": "s1", "as": "late", "amount": "1000"},
            {"do": "pay", "as": "p7", "charge": "late"},
        ]
        steps += [
            {"do": "replay", "charge": "c4"},
            *again,
            {"do": "replay", "charge": "c2"},
        ]
        # The delivery that got the 410 has another result now, and the URL stays closed.
        steps += [*again, {"do": "pay", "as": "p6", "charge": "c6"}, *again, {"do": "pay", "as": "p8", "charge": "c8"}]
        steps += [_charge("d1"), {"do": "fail", "charge": "d1"}, {"do": "pay", "as": "p3", "charge": "c3"}]
        steps += [{"do": "advance", "by": 7 * _DAY_MS}]
        case = f"{other}{f', restarts: {how}' if how else ''}"
        yield Obligation("chargeUpdated", "410", case, source, tuple(steps), setup="gone-changed")


def _ended() -> Iterator[Obligation]:
    """One delivery got 410; it is sent again, with each answer, and is then the only one that tells of the 410. Its URL
    stays closed to the same Charge or Static Charge, also after a restart of each kind, and to no other."""
    source = "#/paths/~1v0~1charges/post/callbacks/chargeUpdated/{$request.body#~1callbackUrl}/x-delivery"
    ways = ("", "close", "kill", "compact", "torn", "twice", "snapshot")
    for answers, how, waits in product(((200,), (500, 200), (410,), ("timeout",), ()), ways, (0, 7 * _DAY_MS)):
        if waits and how not in ("", "kill"):
            continue
        again: list[Step] = [{"do": "restart", "how": how}] if how else []
        body = {"minAmount": "1000", "maxAmount": "2000", "description": "x", "callbackUrl": _URL}
        steps: list[Step] = [{"do": "create_static", "as": f"s{n}", "body": body} for n in (1, 2)]
        steps += [{"do": "receiver", "host": "r1.inbox", "answers": [410]}]
        steps += [{"do": "invoice", "static": "s1", "as": "c0", "amount": "1000"},
                  {"do": "pay", "as": "p0", "charge": "c0"},
                  {"do": "receiver", "host": "r1.inbox", "answers": [*answers]}]  # fmt: skip
        steps += [{"do": "replay", "charge": "c0"}, {"do": "advance", "by": 16_000}] if answers else []
        steps += [{"do": "advance", "by": waits}, *again]
        for number, static in ((1, "s1"), (2, "s2"), (3, "s1")):
            steps += [{"do": "invoice", "static": static, "as": f"c{number}", "amount": "1000"},
                      {"do": "pay", "as": f"p{number}", "charge": f"c{number}"}, *again]  # fmt: skip
        steps += [
            {"do": "replay", "charge": "c1"},
            *again,
            {"do": "invoice", "static": "s1", "as": "c4", "amount": "1000"},
        ]
        steps += [{"do": "pay", "as": "p4", "charge": "c4"}, {"do": "advance", "by": 7 * _DAY_MS}]
        name = " ".join(map(str, answers)) or "not sent again"
        case = f"{name}{f', {how}' if how else ''}{', a week later' if waits else ''}"
        yield Obligation("chargeUpdated", "410-sent-again", case, source, tuple(steps), setup="gone-changed")
