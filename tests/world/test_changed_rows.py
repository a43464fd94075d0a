"""Saved sandboxes whose rows somebody changed: they are refused with the place, or work like any other."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from itertools import permutations
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ForkError
from leyden.lightning.payer.payment_scripts import OUTCOMES
from leyden.world.snapshots.snapshot_schema import SNAPSHOT_SCHEMA
from tests.support.deep import deep_or, sampled
from tests.support.edited_values import DELETE, edited
from tests.support.exercise import check_response, rich_snapshot, use_by_every_operation

SAVED = {network: rich_snapshot(network) for network in ("direct", "line:4")}
# The place of an attempt whose message a fault has changed.
SENT = next(place for place, (_, row) in enumerate(SAVED["direct"]["tables"]["fault_hits"]["rows"]) if row["sent"])


def changed(network: str, path: str, value: Any) -> dict[str, Any]:
    """A copy with another value at a place such as `tables/charges/3/amount_msat`: 3 is the place of the row."""
    snapshot = deepcopy(SAVED[network])
    container: Any = snapshot
    *steps, last = path.split("/")
    for step in steps:
        container = container[int(step) if isinstance(container, list) else step]
        if isinstance(container, dict) and "rows" in container and step in snapshot["tables"]:
            container = [row for _, row in container["rows"]]
    edited(container, f"/{last}", value)
    return snapshot


CHANGES: list[tuple[str, Any, str]] = [
    ("charges/0/payment_hash", "00" * 32, "payment_hash"),
    ("charges/0/static_charge_id", "x", "static_charge_id"),
    ("charges/0/status", "x", "status is 'x', which no Charge of the spec has"),
    ("static_charges/0/status", "completed", "status is 'completed', which no Static Charge of the spec has"),
    ("charges/0/amount_msat", 1_000, "amount_msat"),
    ("charges/0/amount_msat", -1, "amount_msat"),
    ("charges/0/request", "lnbcrt1x", "request"),
    ("charges/0/expires_at", 0, "expires_at"),
    ("charges/0/project", "other", "project"),
    ("charges/0/id", "x", "id"),
    ("charges/0/callback_url", "http://[", "callback_url"),
    ("charges/3/static_charge_id", "12345678-1234-4234-8234-123456789012", "static_charge_id"),
    ("charges/0/confirmed_at", None, "confirmed_at"),
    ("charges/0/confirmed_at", 1_893_456_000_001, "confirmed_at"),
    ("charges/4/confirmed_at", 1_893_456_001_000, "confirmed_at"),
    ("charges/4/received_msat", 1_000, "received_msat"),
    ("charges/0/preimage", None, "preimage"),
    ("invoices/4/settled_at", 1_893_456_001_000, "settled_at"),
    ("invoices/4/closed_because", "expired", "closed_because"),
    ("static_charges/0/allowed_slots", -1, "allowed_slots"),
    ("static_charges/0/max_msat", 1, "max_msat"),
    ("traffic/0/due", 20.0, "due is 20.0, which does not fit"),
    ("traffic/0/started_at", 2_000_000_000_000, "due is"),
    ("traffic/0/next_at", 1_893_456_000_000, "due is"),
    ("static_charges/0/extra", {"": None}, "a field of its resource"),
    ("charges/0/extra", {"x": 1}, "a field of its resource"),
    ("static_charges/0/user", "ana", "user"),
    ("static_charges/0/metadata", "[]", "metadata"),
    ("invoices/0/state", "ACCEPTED", "accepted_at"),
    ("invoices/4/state", "SETTLED", "SETTLED"),
    ("invoices/0/received_msat", 0, "received_msat"),
    ("invoices/0/parts/0/cltv_expiry", 2**53 - 1, "cltv_expiry"),
    ("payments/0/script/cltv_expiry", 2**53 - 1, "cltv_expiry"),
    ("payments/0/script/blocks", 2**53 - 1, "blocks"),
    ("receivers/0/script/0/delay_ms", -1, "delay_ms"),
    ("receivers/0/script/0/status", 99, "status"),
    ("receivers/0/script/0/word", "x", "word"),
    ("receivers/0/received", 900, "received"),
    ("received/1/id", "shop#77", "received"),
    ("payers/0/outcome", "unknown", "outcome"),
    ("payers/0/share", 2, "share"),
    ("service_faults/0/nth", 0, "nth"),
    ("service_faults/0/kind", "x", "kind"),
    ("faults/0/count", 0, "count"),
    ("payments/0/status", "x", "status"),
    ("payments/0/resolved_at", None, "resolved_at"),
    ("payments/0/script", None, "script"),
    ("deliveries/0/status", "pending", "due_at"),
    ("deliveries/0/attempts", "[1,2]\n", "attempts"),
    ("deliveries/0/attempts", "x", "attempts"),
    ("deliveries/0/sequence", 0, "sequence"),
    ("charges/0/sequence", 0, "sequence is 0, and it has the delivery number 1"),
    ("service_fault_answers/0/state", "x", "state"),
    ("projects/0/webhook_secrets", [], "webhook_secrets"),
    ("late_answers/0/post/url", "http://[", "url"),
    ("keys/0/ended_at", 1_893_456_000_001, "its project has no key that has not ended"),
    ("held_back/0/id", "12345678-1234-4234-8234-123456789012", "id is that of no row in the table deliveries"),
    ("fault_posts/0/post/body", "\u00ff", "post/body is no UTF-8 text"),
    ("fault_posts/0/post/copied_by", None, "is_copy is True, and post/copied_by None"),
    ("fault_posts/0/is_copy", False, "is_copy is False, and post/copied_by"),
    *((f"fault_hits/{SENT}/sent/0/{field}", value, field) for field, value in (
        ("headers", "x"), ("headers", {"webhook-id": None}), ("headers", {"webhook-id": 7}), ("body", 7),
        ("body", None), ("other", "x"),
    )),
]  # fmt: skip


@pytest.mark.parametrize("network", SAVED)
@pytest.mark.parametrize(("place", "value", "field"), CHANGES, ids=[f"{place}={value}" for place, value, _ in CHANGES])
def test_a_row_that_does_not_fit_is_refused_with_its_table_and_field(
    network: str, place: str, value: Any, field: str
) -> None:
    with pytest.raises(ForkError, match="is no saved sandbox") as refused:
        Sandbox.from_snapshot(changed(network, f"tables/{place}", value))
    text = str(refused.value)
    assert len(text.splitlines()) == 1
    assert "fit together (" not in text, "the place is named"
    assert field in text
    assert any(f"table {name}" in text or f"tables/{name}" in text for name in SAVED[network]["tables"])


@pytest.mark.parametrize(
    ("network", "path", "value", "words"),
    [
        ("direct", "streams/ids", DELETE, "random stream ids"),
        ("direct", "streams/ids", 5, "random stream ids"),
        ("direct", "streams/preimages", 1, "random stream preimages"),
        ("direct", "config/project", "other", "config/project"),
        ("direct", "config/run", 0, "config/run"),
        ("direct", "outbox", {}, "/outbox"),
        ("direct", "journal/hash", "abc", "/journal/hash"),
        ("line:4", "tables/interceptors/rows/0/1/node", 9, "node"),
        ("line:4", "config/seed", 4, "network/"),
        ("line:4", "network", None, "network"),
        ("direct", "journal/entries/0/4/amount_msat", 10**30, "/journal/entries/0/4/amount_msat"),
        ("direct", "config/spec", {"x": [10**30]}, "/config/spec/x/0"),
        ("direct", "label", "\ud800", "/label"),
        ("direct", "tables/charges/rows/0/1/other", 1, "other"),
        ("direct", "tables/payments/rows/0/1/attempts/0/route", [], "fee_msat"),
        ("line:4", "tables/payments/rows/0/1/attempts/0/fee_msat", DELETE, "fee_msat"),
        ("line:4", "tables/payments/rows/0/1/attempts/0/hops/0/3", 10**30, "hops/0/3"),
        ("line:4", "tables/payments/rows/0/1/attempts/0/hops", [], "hops"),
        ("line:4", "network/balance/0", -1, "network/balance"),
        ("line:4", "network/balance/0", 2**63, "network/balance"),
        ("line:4", "network/balance", SAVED["line:4"]["network"]["balance"][::-1], "network/balance"),
        ("line:4", "network/sessions", [], "network/shards"),
        ("line:4", "network/sessions/0/payer", 99, "payer"),
        ("line:4", "network/sessions/0/parts_in_flight", 9, "parts_in_flight"),
        ("line:4", "network/shards/0/edges/0", 99, "edges"),
        ("line:4", "network/shards/0/number", 9, "number"),
        ("line:4", "network/shards/0/times", [], "times"),
        ("line:4", "network/shards/0/times/0/0", -1, "times"),
        ("line:4", "network/shards/0/amounts/0", -1, "amounts/0"),
        ("direct", "tables/charges/next_id", 2**53, "next_id"),
        (
            "direct",
            "journal/entries",
            SAVED["direct"]["journal"]["entries"][:5] + SAVED["direct"]["journal"]["entries"][6:],
            "the journal, entry 0 of the list: its number is 1, and 2 comes there",
        ),
        ("direct", "journal/entries/5/0", 7, "the journal, entry 5 of the list: its number is 7, and 6 comes there"),
        ("direct", "journal/length", 50, "the journal: its length is 50, and it has 103 entries"),
        ("direct", "tables/payments/rows/9/0", 900, "the table payments, row 900: next_id of the table is 11"),
        ("direct", "tables/payments/rows/0/0", 4_503_599_627_370_000, "the table payments, row 4503599627370000"),
        ("direct", "clock/sequence", 5, "above clock/sequence 5"),
        ("direct", "clock/timers/0/2", 51, "has the number 51, as another timer has"),
        ("direct", "clock/timers/1", SAVED["direct"]["clock"]["timers"][0], "clock/timers has the timer payer"),
        ("line:4", "network/background/2", -1, "/network/background/2"),
        ("line:4", "network/background/3", -1, "/network/background/3"),
        ("line:4", "network/events", [[1_893_459_999_000, [["shard", 99]]]], "network/events"),
    ],
)
def test_a_part_that_does_not_fit_is_refused_with_its_place(network: str, path: str, value: Any, words: str) -> None:
    snapshot = deepcopy(SAVED[network])
    edited(snapshot, f"/{path}", value)
    with pytest.raises(ForkError, match="is no saved sandbox") as refused:
        Sandbox.from_snapshot(snapshot)
    assert words in str(refused.value)
    assert "fit together (" not in str(refused.value)


def test_deliveries_of_one_charge_have_numbers_of_their_own() -> None:
    snapshot = deepcopy(SAVED["direct"])
    [_, first], [_, second], *_ = snapshot["tables"]["deliveries"]["rows"]
    second["resource_id"] = first["resource_id"]
    with pytest.raises(ForkError, match=r"the table deliveries, row 2 .*: sequence is 1, as of another delivery of"):
        Sandbox.from_snapshot(snapshot)


def test_a_customer_who_comes_back_has_arrived_before() -> None:
    sandbox = Sandbox(seed=2)
    sandbox.traffic("1/min", duration="5h", returning=0.9, return_after="uniform(1h, 2h)")
    sandbox.run("20m")
    snapshot = sandbox.snapshot()
    Sandbox.from_snapshot(snapshot)
    snapshot["tables"]["traffic_returns"]["rows"][0][1]["number"] = 900
    with pytest.raises(
        ForkError, match=r"the table traffic_returns, row 1 .*: number is 900, and [0-9]+ customers have"
    ):
        Sandbox.from_snapshot(snapshot)


def test_the_oldest_entries_of_a_journal_may_be_gone_and_a_row_below_next_id_too() -> None:
    snapshot = deepcopy(SAVED["direct"])
    del snapshot["journal"]["entries"][:5]
    del snapshot["tables"]["idempotency"]["rows"][0]
    sandbox = Sandbox.from_snapshot(snapshot)
    assert sandbox.world.removed.counts()["journalEntries"] == 5


@pytest.mark.parametrize("table", ["invoices", "charges", "projects", "received"])
def test_a_row_to_which_others_refer_cannot_be_left_out(table: str) -> None:
    snapshot = deepcopy(SAVED["direct"])
    del snapshot["tables"][table]["rows"][0 if table != "received" else 2]
    with pytest.raises(ForkError, match="the table "):
        Sandbox.from_snapshot(snapshot)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((*path, key), *places(value[key], (*path, key)))]


@pytest.mark.parametrize(("network", "seed"), [("direct", 1), ("line:4", 2)])
def test_a_sandbox_with_a_changed_value_is_refused_or_works(network: str, seed: int) -> None:
    rng = random.Random(seed)
    saved = SAVED[network]
    parts = ("config", "tables", "network", "clock", "outbox", "streams", "journal")
    found = [place for part in parts for place in places(saved[part], (part,))]
    refused = used = 0
    number = deep_or(bounded=12, full=60)
    for _ in range(number):
        snapshot = deepcopy(saved)
        *steps, last = rng.choice(found)
        container: Any = snapshot
        for step in steps:
            container = container[step]
        if rng.randrange(6) == 0:
            del container[last]
        else:
            old = container[last]
            others = [-1, 0, 1, 2**53 - 1, 10**30, None, "", "x", [], {}]
            if isinstance(old, int):
                others += [old + 1, old - 1, -old]
            if isinstance(old, str):
                others += [old[:-1], old[::-1]]
            container[last] = rng.choice(others)
        try:
            sandbox = Sandbox.from_snapshot(json.loads(json.dumps(snapshot)))
        except ForkError:
            refused += 1
            continue
        use_by_every_operation(sandbox, quick=True)
        used += 1
    assert refused > number // 3
    assert used >= number // 25


def test_rows_may_be_dated_before_earlier_ones_and_after_the_clock_which_can_be_set_back() -> None:
    """As by `leyden serve --start now`."""
    sandbox = Sandbox(seed=3)
    sandbox.wallet("ana").pay(sandbox.charges.create(amount="7000", description="x", expiresIn=60))
    sandbox.advance("1m")
    sandbox.world.clock.set_back(1_893_455_990_000)
    sandbox.charges.create(amount="7000", description="y")
    opened = Sandbox.from_snapshot(json.loads(json.dumps(sandbox.snapshot())))
    first, second = opened.charges
    assert first.created_at > second.created_at
    snapshot = changed("direct", "clock/now", 1_893_456_000_000)
    assert len(Sandbox.from_snapshot(snapshot).charges) == len(snapshot["tables"]["charges"]["rows"])


def test_a_field_that_only_rows_of_another_state_have_is_refused_or_works() -> None:
    sandbox = Sandbox.from_snapshot(SAVED["direct"])
    body = {"amount": "7000", "description": "Ended", "callbackUrl": "http://shop.localhost/a"}
    sandbox.charges.create(**body, expiresIn=1)
    sandbox.wallet("zoe").pay(sandbox.charges.create(**body), outcome="fail")
    sandbox.advance("2s")
    saved = sandbox.snapshot()
    refused = used = 0
    for name in ("charges", "deliveries", "invoices", "payments"):
        table = saved["tables"][name]
        first: dict[str, tuple[int, dict[str, Any]]] = {}
        for place, (_, row) in sorted(enumerate(table["rows"]), key=lambda each: not each[1][1].get("callback_url")):
            first.setdefault(str(row.get("status", row.get("state"))), (place, row))
        for (place, row), (_, other) in [*permutations(first.values(), 2)][:: deep_or(bounded=4, full=1)]:
            for field in {*row, *other}:
                if (row.get(field) is None) == (other.get(field) is None):
                    continue
                kept = table["rows"][place][1]
                changed_row = {**kept, field: other[field]} if field in other else dict(kept)
                if field not in other:
                    del changed_row[field]
                table["rows"][place][1] = changed_row
                try:
                    opened = Sandbox.from_snapshot(json.loads(json.dumps(saved)))
                except ForkError:
                    refused += 1
                else:
                    opened.advance("4d")
                    for charge in opened.charges:
                        check_response(opened, "GET", f"/v0/charges/{charge.id}")
                    used += 1
                finally:
                    table["rows"][place][1] = kept
    assert refused > deep_or(bounded=6, full=30)
    assert used > 0


NOT_HASHED = ("realTime", "secretDependent")  # facts that name values


@pytest.mark.parametrize("network", SAVED)
@pytest.mark.parametrize(
    "value",
    sampled({"deleted": DELETE, "null": None, "list": [], "object": {}, "-1": -1, "text": "x"}, 2),
)
def test_a_journal_with_other_facts_can_be_shown(network: str, value: Any) -> None:
    snapshot = deepcopy(SAVED[network])
    for entry in snapshot["journal"]["entries"]:
        names = ("status", "resource", "trigger", "refuse", "delivery", "fault", "attempt", *NOT_HASHED)
        for name in names if value is not DELETE else sorted(entry[4]):
            entry[4][name] = [value]
            if value is DELETE:
                del entry[4][name]
            elif name in names:
                entry[4][name] = value if name not in NOT_HASHED else [value]
    sandbox = Sandbox.from_snapshot(snapshot)
    for charge in sandbox.charges:
        charge.timeline()
        check_response(sandbox, "GET", f"/sandbox/v1/charges/{charge.id}")
    check_response(sandbox, "GET", "/sandbox/v1/journal")
    check_response(sandbox, "GET", "/sandbox/v1/export")
    assert len(str(sandbox.world.journal.computed_hash())) == 64


def test_a_rich_sandbox_is_saved_and_works() -> None:
    for network in SAVED:
        use_by_every_operation(Sandbox.from_snapshot(deepcopy(SAVED[network])))


@pytest.mark.parametrize("network", SAVED)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_sandbox_in_the_middle_of_any_payment_is_saved_and_opened(network: str, outcome: str) -> None:
    sandbox = Sandbox(seed=1, network=network)
    charge = sandbox.charges.create(amount="250000", description="x", expiresIn=3_600)
    sandbox.wallet("ana").pay(charge, outcome=outcome)
    sandbox.advance("1s")
    opened = Sandbox.from_snapshot(json.loads(json.dumps(sandbox.snapshot())))
    for one in (sandbox, opened):
        one.run("2h")
    assert opened.journal_hash == sandbox.journal_hash


# Where any value may stand: what a spec echoes from requests, the facts of a journal's entries, which are shown as they
# are, a spec and a map, which have readers of their own, and tables of another version, which are kept.
OPEN_PLACES = {
    "tables/charges/rows/*/1/extra/*", "tables/static_charges/rows/*/1/extra/*", "journal/entries/*/4/*",
    "config/spec/*", "config/network/*", "tables/*/rows/*/1/*",
}  # fmt: skip


def open_places(schema: Any, place: str = "") -> Iterator[str]:
    """The places below a schema at which any value is permitted. Members beside the declared ones are not read."""
    if not isinstance(schema, dict):
        yield place
        return
    branches = [branch for word in ("anyOf", "oneOf") for branch in schema.get(word, ())]
    for branch in branches:
        yield from open_places(branch, place)
    types = schema.get("type", [])
    if not branches and not types and not {"enum", "const", "pattern"} & {*schema}:
        yield place
    if "object" in types:
        for name, inner in schema.get("properties", {}).items():
            yield from open_places(inner, f"{place}/{name}".strip("/"))
        others = schema.get("additionalProperties", True)
        if isinstance(others, dict) or (others and "properties" not in schema):
            yield from open_places(others, f"{place}/*".strip("/"))
    if "array" in types:
        items = schema.get("items", True)
        for number, inner in enumerate(items if isinstance(items, list) else [items]):
            yield from open_places(inner, f"{place}/{number if isinstance(items, list) else '*'}".strip("/"))


def test_every_value_of_a_saved_sandbox_has_a_schema() -> None:
    assert {*open_places(SNAPSHOT_SCHEMA)} == OPEN_PLACES
