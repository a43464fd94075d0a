"""Obligations of numbers: pages, sums, open invoices, stored answers, attempts in flight and held, secrets
and clock ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from typing import Any

from leyden.harness.control.documents import resolved
from leyden.harness.obligations.obligation import KEY, Obligation, document_of
from leyden.harness.obligations.setups import ROWS
from leyden.harness.steps import Step

_LARGEST = "500000000"
_DAY_MS = 86_400_000
_INVOICES = 103
_KEYS = 1_100
_HELD = 200
_IN_FLIGHT = 8  # places that all callbacks share
_PLACES = (0, 1, 99, 100, 101, _INVOICES - 1)  # of the invoices that are paid when they are closed
# Times at which calendars and counters change.
_STARTS = (
    "1971-01-01T00:00:00", "2028-02-28T23:59:59.500", "2100-02-28T23:59:59.500", "2400-02-28T23:59:59.999",
    "2038-01-19T03:14:07.999", "2106-02-07T06:28:15.500", "2029-12-31T23:59:59.999", "2999-12-01T00:00:00.001",
)  # fmt: skip


def count_obligations() -> Iterator[Obligation]:
    """Numbers around the bounds that the document declares."""
    limit = document_of()["components"]["parameters"]["Limit"]["schema"]
    yield from _pages(limit["maximum"], limit["default"])
    yield from _sums()
    yield from _open_invoices()
    yield from _many_invoices()
    yield from _many_answers()
    yield from _in_flight()
    yield from _queued()
    yield from _held()
    yield from _secrets()
    yield from _times()


def _pages(most: int, default: int) -> Iterator[Obligation]:
    source = "#/components/parameters/Limit/schema"
    for of, path in (("charges", "/v0/charges"), ("statics", "/v0/static-charges"),
                     ("children", "/v0/static-charges/{s1}/charges")):  # fmt: skip
        for bound, sizes in ((default, ("", f"?limit={default}")), (most, (f"?limit={most}", f"?limit={most - 1}"))):
            steps: list[Step] = [
                {"do": "create_static", "as": "s1",
                 "body": {"minAmount": "1000", "maxAmount": "2000", "description": "tips"}}
            ]  # fmt: skip
            # One row less than a full page, a full page, one more.
            already = 1 if of == "statics" else 0
            for offset, count in ((-1, bound - 1 - already), (0, 1), (1, 1)):
                steps.append({"do": "fill", "of": of, "static": "s1", "count": count, "as": f"{of}{offset}"})
                for size in sizes:
                    steps.append({"do": "pages", "target": f"{path}{size}", "headers": [["apikey", "{key}"]]})
            yield Obligation(f"{path} query.limit", "rows", f"{bound}-1, {bound}, {bound}+1", source, tuple(steps),
                             setup="pages-changed")  # fmt: skip


def _sums() -> Iterator[Obligation]:
    """Balances above 2^31 and 2^32."""
    steps: list[Step] = []
    for number in range(1, 11):
        body = {"amount": _LARGEST, "description": "dear"}
        steps += [{"do": "create_charge", "as": f"c{number}", "body": body}]
        outcome: Step = {"do": "pay", "as": f"p{number}", "charge": f"c{number}"}
        steps += [{**outcome, "amount": 2 * int(_LARGEST)} if number % 3 == 0 else outcome, {"do": "wallet"}]
    yield Obligation("getWallet", "sum", "past 2^31 and 2^32", "#/components/schemas/Wallet/properties/balance",
                     tuple(steps), setup="sums-changed")  # fmt: skip
    link = {"minAmount": "1000", "maxAmount": _LARGEST, "description": "x", "callbackUrl": "http://r1.inbox.localhost/"}
    more: list[Step] = [{"do": "create_static", "as": "s1", "body": link}]
    for number in range(1, 11):
        more += [{"do": "invoice", "static": "s1", "as": f"c{number}", "amount": _LARGEST},
                 {"do": "pay", "as": f"p{number}", "charge": f"c{number}"}, {"do": "wallet"}]  # fmt: skip
    yield Obligation("getWallet", "sum", "of a Static Charge", "#/components/schemas/Wallet/properties/balance",
                     tuple(more), setup="sums-changed")  # fmt: skip


def _open_invoices() -> Iterator[Obligation]:
    """More open invoices than slots, for each number of slots up to five, and dozens of them."""
    source = "#/components/schemas/StaticCharge/properties/status/x-lifecycle"
    for overlays in ((), ("reserve-on-issue",), ("count-on-settle",)):
        for slots, invoices in ((1, 1), (1, 2), (2, 3), (3, 3), (3, 4), (4, 6), (5, 7), (2, 40), (33, 34)):
            body = {"minAmount": "1000", "maxAmount": "2000", "description": "tickets", "allowedSlots": slots,
                    "callbackUrl": "http://r1.inbox.localhost/", "expiresIn": 600}  # fmt: skip
            steps: list[Step] = [{"do": "create_static", "as": "s1", "body": body}]
            steps += [{"do": "invoice", "static": "s1", "as": f"c{n}", "amount": "1000"} for n in range(invoices)]
            steps += [
                {"do": "pay", "as": f"p{n}", "charge": f"c{n}"} for n in reversed(range(min(invoices, slots + 2)))
            ]
            steps += [
                {"do": "invoice", "static": "s1", "as": "late", "amount": "1000"},
                {"do": "pages", "target": "/v0/static-charges/{s1}/charges?limit=7&status=pending",
                 "headers": [["apikey", "{key}"]]},
                {"do": "patch", "static": "s1", "body": {"allowedSlots": slots + 1}},
                {"do": "invoice", "static": "s1", "as": "again", "amount": "1000"},
                {"do": "pay", "as": "pagain", "charge": "again"},
                {"do": "advance", "by": 301_000},
                {"do": "pages", "target": "/v0/static-charges/{s1}/charges?limit=7&status=expired",
                 "headers": [["apikey", "{key}"]]},
            ]  # fmt: skip
            yield Obligation("requestInvoice", "open-invoices", f"{invoices} of {slots} slots", source, tuple(steps),
                             setup="slots-changed", overlays=overlays)  # fmt: skip


def _many_invoices() -> Iterator[Obligation]:
    """Every open invoice is closed: by the last payment, the end of the Static Charge, and fewer slots."""
    source = "#/components/schemas/StaticCharge/properties/status/x-lifecycle"
    link = {"minAmount": "1000", "maxAmount": "9000", "description": "tickets"}
    ends: dict[str, tuple[dict[str, Any], tuple[Step, ...]]] = {
        "the last slot": ({"allowedSlots": 1}, ({"do": "pay", "as": "pfirst", "charge": "first"},)),
        "fewer slots": ({"allowedSlots": 5}, ({"do": "pay", "as": "pfirst", "charge": "first"},
                                              {"do": "patch", "static": "s1", "body": {"allowedSlots": 1}})),
        "the expiry": ({"expiresIn": 60}, ({"do": "advance", "to": ["expiry", "s1"], "offset": 0},)),
    }  # fmt: skip
    for case, (body, steps) in ends.items():
        labels = [f"c_{number}" for number in _PLACES]
        whole: list[Step] = [
            {"do": "create_static", "as": "s1", "body": {**link, **body}},
            {"do": "invoice", "static": "s1", "as": "first", "amount": "1000"},
            {"do": "fill", "of": "children", "static": "s1", "count": _INVOICES, "as": "c"},
            *steps,
            *(Step({"do": "pay", "as": f"p{label}", "charge": label}) for label in labels),
            {"do": "advance", "by": 1_000},
            {"do": "pages", "target": "/v0/static-charges/{s1}/charges?limit=1000", "headers": [KEY]},
            {"do": "wallet"},
            {"do": "advance", "by": 301_000},
            {"do": "pages", "target": "/v0/static-charges/{s1}/charges?limit=1000", "headers": [KEY]},
        ]
        yield Obligation("requestInvoice", "many-open-invoices", f"{_INVOICES}, closed by {case}", source,
                         tuple(whole), setup="invoices-changed")  # fmt: skip


def _many_answers() -> Iterator[Obligation]:
    """The answer to the first of many keys is stored until its day ends, however many others follow."""
    source = "#/components/parameters/IdempotencyKey"
    body = {"amount": "1000", "description": "tea"}
    first: Step = {"do": "create_charge", "as": "c1", "body": body, "idempotency_key": "first"}
    steps: list[Step] = [
        first,
        {"do": "fill", "of": "charges", "count": _KEYS, "as": "k", "idempotency_key": "key"},
        {**first, "as": "again"},
        {"do": "advance", "by": _DAY_MS - 1},
        {**first, "as": "late"},
        {"do": "advance", "by": 1},
        {**first, "as": "new"},
        {"do": "wallet"},
    ]
    yield Obligation("createCharge header.Idempotency-Key", "many-keys", f"{_KEYS} of them", source, tuple(steps),
                     setup="stored-changed")  # fmt: skip


def _in_flight() -> Iterator[Obligation]:
    """Attempts in flight around the number that a service sends at once, and their order."""
    source = "#/paths/~1v0~1charges/post/callbacks/chargeUpdated"
    for count in (7, 8, 9, 17):
        for reply in ("timeout", {"status": 500, "delay": 2}, {"status": 200, "delay": 14.999}):
            steps: list[Step] = [{"do": "receiver", "host": "r1.inbox", "always": reply}]
            body = {"amount": "1000", "description": "x", "callbackUrl": "http://r1.inbox.localhost/", "expiresIn": 60}
            steps += [{"do": "create_charge", "as": f"c{n}", "body": body} for n in range(count)]
            steps += [{"do": "advance", "to": ["expiry", "c0"], "offset": 0}]
            steps += [{"do": "advance", "by": by} for by in (1_999, 1, 13_000, 1, 15_000, 400_000, _DAY_MS)]
            case = f"{count} {reply if isinstance(reply, str) else reply['status']}"
            yield Obligation("chargeUpdated", "in-flight", case, source, tuple(steps), setup="flight-changed")
    # The places are shared by the callbacks of Charges and of Static Charges.
    hook = "http://r1.inbox.localhost/"
    for charges, children in ((8, 1), (4, 5), (1, 8), (7, 1)):
        steps = [{"do": "receiver", "host": "r1.inbox", "always": "timeout"}]
        static = {"minAmount": "1000", "maxAmount": "2000", "description": "tips", "callbackUrl": hook}
        body = {"amount": "1000", "description": "x", "callbackUrl": hook}
        steps.append({"do": "create_static", "as": "s1", "body": static})
        for number in range(charges):
            steps += [{"do": "create_charge", "as": f"c{number}", "body": body},
                      {"do": "pay", "as": f"p{number}", "charge": f"c{number}"}]  # fmt: skip
        for number in range(children):
            steps += [{"do": "invoice", "static": "s1", "as": f"k{number}", "amount": "1000"},
                      {"do": "pay", "as": f"q{number}", "charge": f"k{number}"}]  # fmt: skip
        steps += [{"do": "advance", "by": by} for by in (0, 14_999, 1, 15_000, 400_000, _DAY_MS)]
        case = f"{charges} of Charges, {children} of payments of a Static Charge"
        yield Obligation("chargeUpdated", "in-flight", case, source, tuple(steps), setup="flight-changed")


def _queued() -> Iterator[Obligation]:
    """Deliveries that are due and wait for a place are sent again, at once or later: each keeps its turn, and no
    attempt is made besides."""
    source = "#/paths/~1v0~1charges/post/callbacks/chargeUpdated"
    last = _IN_FLIGHT + 2
    body = {"amount": "1000", "description": "x", "callbackUrl": "http://r1.inbox.localhost/", "expiresIn": 60}
    replies: tuple[Any, ...] = ("timeout", {"status": 500, "delay": 2})
    for place, reply in product((_IN_FLIGHT, last - 1, last), replies):
        label = f"c{place}"
        now: Step = {"do": "replay", "charge": label}
        later: Step = {**now, "offset": 5_000}
        orders: dict[str, list[Step]] = {
            "once": [now],
            "twice": [now, now],
            "later": [later],
            "much later": [{**now, "offset": 3_600_000}],
            "at once, then later": [now, later],
            "later, then at once": [later, now],
            "with another": [now, {**now, "charge": f"c{_IN_FLIGHT + 1}"}],
            "once, restarted": [now, {"do": "restart"}],
            "once after a restart": [{"do": "restart"}, now],
        }
        for case, steps in orders.items():
            whole: list[Step] = [{"do": "receiver", "host": "r1.inbox", "always": reply}]
            whole += [{"do": "create_charge", "as": f"c{n}", "body": body} for n in range(last + 1)]
            whole += [{"do": "advance", "to": ["expiry", "c0"], "offset": 0}, *steps]
            whole += [{"do": "advance", "by": by} for by in (0, 1_999, 1, 13_000, 1, 15_000, 400_000, _DAY_MS)]
            name = f"{case}, the delivery at place {place}, {reply if isinstance(reply, str) else reply['status']}"
            yield Obligation("replayDelivery", "replay-queued", name, source, tuple(whole), setup="flight-changed")


def _held() -> Iterator[Obligation]:
    """One message more than the kinds of fault that concern several messages hold at a time."""
    source = "sandbox.openapi.yaml#/components/schemas/FaultKind"
    body = {"amount": "1000", "description": "x", "callbackUrl": "http://r1.inbox.localhost/", "expiresIn": 60}
    for kind in ("reorder", "burst"):
        steps: list[Step] = [{"do": "create_charge", "as": f"c{n}", "body": body} for n in range(_HELD + 1)]
        steps += [
            {"do": "fault", "kind": kind, "count": 2 * _HELD},
            {"do": "advance", "to": ["expiry", "c0"], "offset": 0},
        ]
        steps += [{"do": "advance", "by": by} for by in (0, 59_999, 1, 3_600_000, 1)]
        yield Obligation(f"fault {kind}", "held", f"{_HELD}, and one more", source, tuple(steps), setup="held-changed")


def _secrets() -> Iterator[Obligation]:
    """Rotations of the webhook secret, and the end of the day for which the earlier ones sign."""
    source = "#/components/parameters/WebhookSignature"
    for rotations in (1, 2, 3, 4):
        for gap in (0, 3_600_000):
            steps: list[Step] = []
            for number in range(rotations):
                steps += [{"do": "rotate"}, *_notified_charge(f"c{number}"), {"do": "advance", "by": gap}]
            remaining = _DAY_MS - gap * rotations
            for number, by in enumerate((remaining - 1, 1, 1, gap, gap, gap, gap)):
                steps += [{"do": "advance", "by": by}, *_notified_charge(f"d{number}")]
            yield Obligation("webhook-signature", "secrets", f"{rotations} rotations, {gap} ms apart", source,
                             tuple(steps), setup="secrets-changed")  # fmt: skip


def _notified_charge(label: str) -> list[Step]:
    body = {"amount": "1000", "description": "x", "callbackUrl": "http://r1.inbox.localhost/"}
    return [{"do": "create_charge", "as": label, "body": body}, {"do": "fail", "charge": label}]


def _times() -> Iterator[Obligation]:
    """The same steps at the times at which calendars change, with every bound of an expiry."""
    charge = resolved(document_of(), document_of()["components"]["schemas"]["ChargeRequest"])
    number = next(one for one in charge["properties"]["expiresIn"]["anyOf"] if one.get("type") == "integer")
    url = "http://r1.inbox.localhost/"
    for text in _STARTS:
        start_ms = round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)
        steps: list[Step] = []
        for index, seconds in enumerate((1, 2, 3_600, 86_400, number["maximum"] - 1, number["maximum"])):
            body = {"amount": "1000", "description": "x", "callbackUrl": url, "expiresIn": seconds}
            steps.append({"do": "create_charge", "as": f"c{index}", "body": body})
            link = {"minAmount": "1000", "maxAmount": "2000", "description": "x", "expiresIn": seconds}
            steps += [{"do": "create_static", "as": f"s{index}", "body": link},
                      {"do": "invoice", "static": f"s{index}", "as": f"d{index}", "amount": "1000"}]  # fmt: skip
        steps += [{"do": "advance", "by": 1}, {"do": "pay", "as": "p", "charge": "c2"}]
        for label in ("c0", "c1", "s1", "c3", "s4", "c5"):
            steps += [{"do": "advance", "to": ["expiry", label], "offset": offset} for offset in (-1, 0)]
        steps += [{"do": "list", "of": "charges", "query": {"createdAfter": f"{text[:19]}Z"}},
                  {"do": "list", "of": "statics", "query": {"createdBefore": f"{text[:19]}.999Z"}}]  # fmt: skip
        yield Obligation("clock", "start", text, "the harness's list of times", tuple(steps), setup=f"at {start_ms}")


def jitter_obligation() -> Obligation:
    """Over a hundred retries, whose delays are compared as a whole at the end of the case."""
    body = {"amount": "1000", "description": "x", "callbackUrl": "http://r1.inbox.localhost/"}
    steps: list[Step] = [{"do": "receiver", "host": "r1.inbox", "always": 500}]
    for number in range(12):
        steps += [{"do": "create_charge", "as": f"c{number}", "body": body}, {"do": "fail", "charge": f"c{number}"}]
    source = "#/paths/~1v0~1charges/post/callbacks/chargeUpdated"
    steps += [{"do": "advance", "by": 7 * _DAY_MS}, {"do": "wallet"}]
    return Obligation("chargeUpdated", "jitter", "", source, tuple(steps), setup="jitter-changed")


def setup_obligation() -> Obligation:
    """The setup of the lists by itself, with the journal of its steps."""
    return Obligation("setup", "rows", "", "the harness's setup", (*ROWS, {"do": "wallet"}), setup="setup-changed")
