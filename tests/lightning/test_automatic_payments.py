"""Payers that pay by themselves: which Charges they take, when and how, and the magic amounts."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.commands.served.payments import OUTCOMES as PAY_OUTCOMES
from leyden.devserver.argument_types import autopay
from leyden.errors import ApiError
from leyden.lightning.payer.payer_rules import RULE_OUTCOMES, PayerSpec, payer_spec_of
from leyden.lightning.payer.payment_scripts import OUTCOMES
from leyden.sandbox.resources import Charge
from leyden.server.contract.load import load_contract
from leyden.server.timestamps import parse_iso, to_iso
from tests.support.lists import listed
from tests.support.served import Client, served_leyden, started_server

START = "2030-01-01T09:00:00.000Z"


def create(sandbox: Sandbox, **fields: Any) -> Charge:
    charge: Charge = sandbox.charges.create(**{"amount": "21000", "description": "tea", "expiresIn": 60, **fields})
    return charge


def paid(sandbox: Sandbox) -> list[bool]:
    return [charge.status == "completed" for charge in sandbox.charges]


def test_every_charge_is_paid_after_the_delay_by_an_event_of_the_clock(sandbox: Sandbox) -> None:
    early = create(sandbox)
    payer = sandbox.payers.add(delay="2s")
    charge = create(sandbox)
    sandbox.advance("1.999s")
    assert charge.status == "pending"
    sandbox.advance("1ms")
    assert charge.data["confirmedAt"] == "2030-01-01T09:00:02.000Z"
    assert early.status == "pending"
    [matched] = sandbox.world.journal.entries(kind="payer_matched")
    assert (matched.subject, matched.facts) == (payer["id"], {"charge": charge.id, "outcome": "settle"})
    [payment] = sandbox.world.payments.rows
    assert (payment["payer"], payment["status"]) == ("autopay", "succeeded")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"amount": 30000}, [False, True, False]),
        ({"amount": "30000"}, [False, True, False]),
        ({"description": "two*"}, [False, True, True]),
        ({"description": "Two*"}, [False, False, False]),
        ({"internal_id": "order-*"}, [True, False, False]),
        ({"internal_id": "*"}, [True, False, False]),  # the others have none
        ({"count": 2}, [True, True, False]),
        ({"amount": 30000, "internal_id": "order-1"}, [False, False, False]),
    ],
    ids=str,
)
def test_every_condition_must_match(sandbox: Sandbox, rule: dict[str, Any], expected: list[bool]) -> None:
    sandbox.payers.add(**rule)
    create(sandbox, description="one", internalId="order-1")
    create(sandbox, description="two", amount="30000")
    create(sandbox, description="two and a half")
    sandbox.advance("1s")
    assert paid(sandbox) == expected


def test_a_payer_takes_the_charges_of_one_static_charge(sandbox: Sandbox) -> None:
    tips = {"description": "tips", "minAmount": "1000", "maxAmount": "9000"}
    one, other = (sandbox.static_charges.create(**tips) for _ in range(2))
    sandbox.payers.add(static_charge=one)
    create(sandbox)
    for static in (one, other):
        assert sandbox.request("GET", _callback(sandbox, static.id)).status == 200
    sandbox.advance("1s")
    assert {charge.data["staticChargeId"]: charge.status for charge in sandbox.charges} == {
        None: "pending",
        one.id: "completed",
        other.id: "pending",
    }


def _callback(sandbox: Sandbox, static_id: str) -> str:
    """The target at which a wallet asks for an invoice over 2,000 msat."""
    path = sandbox.path("requestInvoice").replace("{id}", static_id)
    return f"{path}?amount=2000"


def test_the_oldest_payer_that_matches_takes_the_charge(sandbox: Sandbox) -> None:
    sandbox.payers.add(description="never*", outcome="never")
    sandbox.payers.add(delay="1s")
    sandbox.payers.add(delay="2s", outcome="fail")
    for description in ("never this", "this"):
        create(sandbox, description=description)
    sandbox.run()
    assert paid(sandbox) == [False, True]
    assert [payer["hits"] for payer in sandbox.payers] == [1, 1, 0]


@pytest.mark.parametrize(
    ("rule", "at", "status"),
    [
        ({}, "09:00:00.000", "completed"),
        ({"delay": "59.999s"}, "09:00:59.999", "completed"),
        ({"delay": "60s"}, "09:01:00.000", "expired"),
        ({"before_expiry": "1s"}, "09:00:59.000", "completed"),
        ({"before_expiry": "1ms"}, "09:00:59.999", "completed"),
        ({"before_expiry": "2m"}, "09:00:00.000", "completed"),
        ({"before_expiry": 0}, "09:01:00.000", "expired"),
        ({"after_expiry": "1s"}, "09:01:01.000", "expired"),
    ],
    ids=str,
)
def test_the_time_of_the_payment(sandbox: Sandbox, rule: dict[str, Any], at: str, status: str) -> None:
    sandbox.payers.add(**rule)
    charge = create(sandbox)
    sandbox.run()
    assert charge.status == status
    [attempt] = next(iter(sandbox.world.payments.rows))["attempts"]
    assert sandbox.ask("GET", "/sandbox/v1/payments")["data"][0]["createdAt"] == START
    assert f"2030-01-01T{at}Z" == to_iso(attempt["at"])


@pytest.mark.parametrize("start", ["2030-01-01T00:00:00.900Z", "2030-01-01T00:00:00.001Z", "2030-01-01T00:00:00Z"])
def test_a_delay_counts_from_the_creation_and_not_from_its_whole_second(start: str, tmp_path: Path) -> None:
    with Sandbox(seed=1, start=start, overlays=["magic-amounts"]) as sandbox:
        created_ms = sandbox.world.clock.now()
        magic = create(sandbox, amount="200000")
        sandbox.payers.add(delay="0.2s", amount=1_000)
        soon = create(sandbox, amount="1000")
        sandbox.payers.add(delay="1s", outcome="twice")
        later = create(sandbox)
        sandbox.advance("10ms")
        assert not any(paid(sandbox))
        sandbox.run()
        spans = {one.id: parse_iso(one.data["confirmedAt"]) - created_ms for one in sandbox.charges}
        assert (spans[soon.id], spans[later.id], spans[magic.id]) == (200, 1_000, 2_000)
        second = [row["starts_at"] for row in sandbox.world.payments.rows if row["payer"] == "autopay 2"]
        assert second == [created_ms + 2_000]
        names: dict[str, Any] = {}
        exec(sandbox.script(), names)  # the program that the sandbox writes
        with names["sb"], Sandbox.load(sandbox.save(tmp_path / "saved.json")) as loaded:
            assert sandbox.journal_hash == names["sb"].journal_hash == loaded.journal_hash


def test_a_delay_counts_from_the_creation_after_a_restart_before_the_choice(tmp_path: Path) -> None:
    with Sandbox(seed=1, start="2030-01-01T00:00:00.900Z", data=tmp_path / "box") as sandbox:
        sandbox.payers.add(delay="1s")
        create(sandbox)
    with Sandbox(data=tmp_path / "box") as again:
        again.advance("999ms")
        assert paid(again) == [False]
        again.advance("1ms")
        assert paid(again) == [True]


def test_a_share_is_drawn_from_the_seed() -> None:
    def run(seed: int) -> list[bool]:
        with Sandbox(seed=seed) as sandbox:
            sandbox.payers.add(share=0.5)
            for _ in range(40):
                create(sandbox)
            sandbox.advance("1s")
            assert next(iter(sandbox.payers))["matches"] == 40
            return paid(sandbox)

    assert run(1) == run(1) != run(2)
    assert 8 <= sum(run(1)) <= 32


def test_a_sandbox_without_a_payer_is_the_same_as_before(sandbox: Sandbox) -> None:
    """No event, no row, no random number."""
    create(sandbox)
    assert len(sandbox.world.clock) == 1  # the expiry
    assert len(sandbox.world.store.table("payer_invoices")) == 0
    assert "payers" not in sandbox.world.streams.snapshot()


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"outcome": "pay"}, "settle"),
        ({"outcome": "fail", "failure": "BROKE"}, "INSUFFICIENT_BALANCE"),
        ({"failure": "TIMEOUT"}, "no effect with the outcome settle: give outcome="),
        ({"delay": "1s", "after_expiry": "1s"}, "give one of them"),
        ({"outcome": "never", "delay": "1s"}, "leave it out"),
        ({"share": 0}, "above 0"),
        ({"count": 0}, "from 1"),
        ({"delay": "-1s"}, "out of bounds"),
        ({"amount": "01"}, "amount"),
        ({"payer": " "}, "name of a payer"),
        ({"static_charge": "nosuch"}, "Static Charge"),
    ],
    ids=str,
)
def test_a_payer_that_is_not_possible_is_refused(sandbox: Sandbox, wrong: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=part):
        sandbox.payers.add(**wrong)
    assert len(sandbox.payers) == 0


def test_an_unknown_field_of_a_payer_is_named(sandbox: Sandbox) -> None:
    with pytest.raises(TypeError, match="no field dealy"):
        sandbox.payers.add(dealy="1s")


def test_payers_and_scheduled_payments_survive_a_restart_and_end_with_a_reset(tmp_path: Path) -> None:
    with Sandbox(seed=7, data=tmp_path) as sandbox:
        sandbox.payers.add(delay="2s")
        create(sandbox)  # its payer is not chosen yet
        sandbox.advance("0s")
        create(sandbox)
    with Sandbox(data=tmp_path) as sandbox:
        sandbox.advance("2s")
        assert paid(sandbox) == [True, True]
        assert next(iter(sandbox.payers))["hits"] == 2
        sandbox.ask("POST", "/sandbox/v1/reset")
        assert len(sandbox.payers) == 0


def test_a_fork_and_a_snapshot_have_the_payers(sandbox: Sandbox) -> None:
    sandbox.payers.add(delay="2s")
    create(sandbox)
    fork, again = sandbox.fork(), Sandbox.from_snapshot(sandbox.snapshot())
    for one in (sandbox, fork, again):
        create(one)
        one.advance("2s")
        assert paid(one) == [True, True]
    assert sandbox.world.journal.hash == fork.world.journal.hash == again.world.journal.hash


def test_a_script_repeats_the_payers(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(description="tips", minAmount="1000", maxAmount="9000")
    sandbox.payers.add(static_charge=static, outcome="hold")
    sandbox.payers.add(delay="2s", share=0.5, internal_id="a*")
    for _ in range(4):
        create(sandbox, internalId="a1")
    sandbox.run()
    sandbox.payers.clear(next(iter(sandbox.payers))["id"])
    names: dict[str, Any] = {}
    exec(sandbox.script(), names)  # the program that the sandbox writes
    assert "static_charge=code1.id" in sandbox.script()
    assert names["sb"].world.journal.hash == sandbox.world.journal.hash


def test_payers_have_a_repr_and_a_resource(sandbox: Sandbox) -> None:
    assert "add one" in repr(sandbox.payers)
    shown = sandbox.payers.add(delay="90s")
    assert shown == next(iter(sandbox.payers))
    assert shown["delay"] == 90.0
    assert "settle: 0 Charges" in repr(sandbox.payers)
    assert sandbox.payers.clear() == 1


def test_the_control_plane_adds_lists_and_clears(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(description="tips", minAmount="1000", maxAmount="9000")
    bodies: list[dict[str, Any]] = [{}, {"delay": "2s"}, {"staticChargeId": static.id, "outcome": "never"}]
    payers = [sandbox.ask("POST", "/sandbox/v1/payers", body) for body in bodies]
    assert [payer["delay"] for payer in payers] == [None, 2.0, None]
    assert listed(sandbox.ask, "/sandbox/v1/payers?limit=1") == payers
    one = f"/sandbox/v1/payers/{payers[0]['id']}"
    assert sandbox.ask("DELETE", one) == {"cleared": 1}
    with pytest.raises(ApiError, match="404"):
        sandbox.ask("DELETE", one)
    with pytest.raises(ApiError, match=r"409 .*contradict"):
        sandbox.ask("POST", "/sandbox/v1/payers", {"delay": 1, "beforeExpiry": 1})
    with pytest.raises(ApiError, match=r"409 .*Static Charge"):
        sandbox.ask("POST", "/sandbox/v1/payers", {"staticChargeId": create(sandbox).id})
    assert sandbox.ask("DELETE", "/sandbox/v1/payers") == {"cleared": 2}


# The option of the server


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("after=2s", PayerSpec(delay="2s")),
        ("delay=2s, share=0.5", PayerSpec(delay="2s", share=0.5)),
        ("outcome=never,amount=404000", PayerSpec(outcome="never", amount="404000")),
        ("internalId=a*,afterExpiry=1s,count=3", PayerSpec(internal_id="a*", after_expiry="1s", count=3)),
    ],
)
def test_the_option_autopay_is_a_rule(text: str, spec: PayerSpec) -> None:
    assert payer_spec_of(text) == autopay(text) == spec


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("2s", "NAME=VALUE"),
        ("afer=2s", "after"),
        ("after=2", 'write "2s"'),
        ("after=1s,delay=2s", "twice"),
        ("share=many", "no number"),
        ("share=2", "1 at most"),
        ("after=1s,beforeExpiry=1s", "delay and beforeExpiry contradict each other: give one of them"),
        ("count=0", "count is 0: give a whole number from 1 to 1000000, or leave count out for every one"),
        ("count=1000001", "count is 1000001: give a whole number from 1 to 1000000, or leave count out"),
        ("count=None", "write them as in share=0.5,count=3"),
    ],
)
def test_a_wrong_option_autopay_is_refused(text: str, part: str) -> None:
    with pytest.raises(ArgumentTypeError, match=part):
        autopay(text)


def test_a_count_has_the_bounds_of_the_api(sandbox: Sandbox) -> None:
    slow = partial(sandbox.service_faults.add, "slow_body", delay="2s")
    adders: tuple[Callable[..., object], ...] = (sandbox.payers.add, partial(sandbox.faults.add, "drop"), slow)
    for add in adders:
        for count in (1, 1_000_000, None):
            add(count=count)
        with pytest.raises(ValueError, match="give a whole number from 1 to 1000000, or None for every one"):
            add(count=1_000_001)
    assert autopay("count=1000000").count == 1_000_000


def test_a_server_pays_by_itself_also_after_a_reset() -> None:
    with served_leyden("--rate", "0", "--autopay", "amount=30000,outcome=never", "--autopay", "after=2s") as client:
        for _ in range(2):
            assert len(client.ok("GET", "/sandbox/v1/payers")["data"]) == 2
            for amount in ("21000", "30000"):
                client.ok("POST", "/v0/charges", {"amount": amount, "description": "tea"})
            client.ok("POST", "/sandbox/v1/clock/advance", {"by": "2s"})
            assert [charge["status"] for charge in client.ok("GET", "/v0/charges")["data"]] == ["pending", "completed"]
            client.ok("POST", "/sandbox/v1/reset")


def _rules(client: Client) -> list[tuple[str, Any]]:
    return [(payer["payer"], payer["delay"]) for payer in client.ok("GET", "/sandbox/v1/payers")["data"]]


def test_the_rules_of_the_option_are_those_of_the_present_start(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"), "--rate", "0")
    by_request = ("by request", 3600.0)
    with started_server(*data, "--autopay", "after=2s,amount=21000", "--autopay", "after=5s") as (client, first):
        client.ok("POST", "/sandbox/v1/payers", {"delay": "1h", "payer": "by request", "amount": "1000"})
        client.ok("POST", "/v0/charges", {"amount": "21000", "description": "tea"})
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": "2s"})
    with started_server(*data, "--autopay", "after=2s,amount=21000", "--autopay", "after=5s") as (client, same):
        assert [payer["hits"] for payer in client.ok("GET", "/sandbox/v1/payers")["data"]] == [1, 0, 0]
    with started_server(*data, "--autopay", "outcome=never") as (client, other):
        assert _rules(client) == [by_request, ("autopay", None)]
        charge = client.ok("POST", "/v0/charges", {"amount": "21000", "description": "tea"})["data"]
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": "5s"})
        assert client.ok("GET", f"/v0/charges/{charge['id']}")["data"]["status"] == "pending"
    with started_server(*data) as (client, none):
        assert _rules(client) == [by_request]
        client.ok("DELETE", "/sandbox/v1/payers")
    with started_server(*data) as (client, empty):
        assert _rules(client) == []
    with started_server(*data, "--autopay", "after=3s") as (client, _):
        client.ok("POST", "/sandbox/v1/payers", {})
        client.ok("POST", "/sandbox/v1/reset")
        assert _rules(client) == [("autopay", 3.0)]
    assert "active payers: 2 (2 of --autopay, 0 added by requests)" in first()
    assert "active payers: 3 (2 of --autopay, 1 added by requests)" in same()
    assert "active payers: 2 (1 of --autopay, 1 added by requests); GET /sandbox/v1/payers lists them" in other()
    assert "active payers: 1 (0 of --autopay, 1 added by requests)" in none()
    assert "active payers" not in empty()


def test_the_payers_of_the_document_are_counted_at_the_start_as_they_are_listed() -> None:
    overlay = ("--rate", "0", "--overlay", "magic-amounts")
    for options, kinds in ((overlay, "0 of --autopay"), ((*overlay, "--autopay", "after=2s"), "1 of --autopay")):
        with started_server(*options) as (client, printed):
            listed = client.ok("GET", "/sandbox/v1/payers")["data"]
        of_document = sum(payer["id"].startswith("spec-") for payer in listed)
        assert of_document > 5
        line = f"active payers: {len(listed)} ({kinds}, {of_document} of the document, 0 added by requests)"
        assert line in printed()


def test_a_sandbox_in_python_and_its_copies_keep_the_rules_of_the_option(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served_leyden("--data", str(data), "--rate", "0", "--autopay", "after=2s"):
        pass
    [project] = [path.parent for path in data.rglob("charges.journal")]
    with Sandbox(data=project) as sandbox:
        for one in (sandbox, sandbox.fork(), Sandbox.from_snapshot(sandbox.snapshot())):
            assert [payer["delay"] for payer in one.payers] == [2.0]


# Magic amounts

MAGIC = {
    # amount: the status after 2 s, after 59 s and at the end, and the outcomes of the payments
    "200000": ("completed", "completed", "completed", ["SUCCEEDED"]),
    "202000": ("pending", "pending", "expired", ["INCORRECT_PAYMENT_DETAILS"]),
    "206000": ("pending", "pending", "expired", ["INCORRECT_PAYMENT_DETAILS"]),
    "207000": ("completed", "completed", "completed", ["SUCCEEDED"]),
    "208000": ("completed", "completed", "completed", ["SUCCEEDED", "INCORRECT_PAYMENT_DETAILS"]),
    "402000": ("pending", "pending", "expired", ["INSUFFICIENT_BALANCE"]),
    "404000": ("pending", "pending", "expired", []),
    "408000": ("pending", "pending", "expired", ["INCORRECT_PAYMENT_DETAILS"]),
    "425000": ("pending", "completed", "completed", ["SUCCEEDED"]),
    "503000": ("pending", "pending", "expired", ["NO_ROUTE"]),
    "21000": ("pending", "pending", "expired", []),
}


@pytest.mark.parametrize("amount", MAGIC)
def test_a_magic_amount_says_what_the_payer_does(amount: str) -> None:
    with Sandbox(seed=7, overlays=["magic-amounts"]) as sandbox:
        charge = create(sandbox, amount=amount)
        found = []
        for span in ("2s", "57s"):
            sandbox.advance(span)
            found.append(charge.status)
        sandbox.run()
        outcomes = [payment["outcome"] for payment in sandbox.world.payments.rows]
        assert (*found, charge.status, outcomes) == MAGIC[amount]
        assert sum(payer["hits"] for payer in sandbox.payers) == (amount != "21000")


def test_payers_of_the_document_are_listed_first_and_stay() -> None:
    with Sandbox(seed=7, overlays=["magic-amounts"]) as sandbox:
        sandbox.payers.add(delay="2s")
        create(sandbox, amount="208000")
        sandbox.run()
        added = [payer for payer in sandbox.payers if payer["source"] == "request"]
        given = [payer for payer in sandbox.payers if payer["source"] == "document"]
        assert list(sandbox.payers) == [*given, *added]
        assert (len(given), len(added)) == (10, 1)
        assert {payer["amount"]: payer["hits"] for payer in given if payer["hits"]} == {"208000": 1}
        assert given[0]["createdAt"] == "2030-01-01T00:00:00.000Z"
        listed: list[str] = []
        after = ""
        while True:
            page = sandbox.ask("GET", f"/sandbox/v1/payers?limit=4{after}")
            listed += [payer["id"] for payer in page["data"]]
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
        assert listed == [payer["id"] for payer in sandbox.payers]
        with pytest.raises(ApiError, match="given by the document"):
            sandbox.ask("DELETE", f"/sandbox/v1/payers/{given[0]['id']}")
        with Sandbox.from_snapshot(sandbox.snapshot()) as copy:
            assert list(copy.payers) == [*given, *added]
        assert sandbox.ask("DELETE", "/sandbox/v1/payers")["cleared"] == 1
        assert list(sandbox.payers) == given


def test_a_held_magic_amount_can_be_settled() -> None:
    with Sandbox(seed=7, overlays=["magic-amounts"]) as sandbox:
        charge = create(sandbox, amount="202000")
        sandbox.advance("2s")
        [payment] = sandbox.world.payments.rows
        sandbox.ask("POST", f"/sandbox/v1/payments/{payment['id']}/settle")
        assert charge.status == "completed"


def test_the_documents_name_every_magic_amount() -> None:
    document = load_contract(overlays=["magic-amounts"]).document
    magic = {rule["amount"] for rule in document["x-payers"]}
    described = document["components"]["schemas"]["RequestedAmount"]["description"]
    readme = (Path(__file__).parents[2] / "sim/devserver/README.md").read_text()
    assert magic == MAGIC.keys() - {"21000"}
    assert set(re.findall(r"- `(\d+)`:", described)) == magic
    assert set(re.findall(r"^\| `(\d+)` \|", readme, re.MULTILINE)) == magic


def test_every_outcome_is_one_of_each_interface_and_each_document_says_what_it_does(sandbox: Sandbox) -> None:
    schemas = sandbox.http.get("/sandbox/v1/openapi.json").json()["components"]["schemas"]
    payment, payer = (schemas[name]["properties"]["outcome"] for name in ("PaymentOrder", "PayerCreate"))
    assert tuple(payment["enum"]) == OUTCOMES == PAY_OUTCOMES
    assert tuple(payer["enum"]) == RULE_OUTCOMES
    assert tuple(re.findall("^- `([a-z_]+)`:", payment["description"], re.M)) == OUTCOMES
    assert {*re.findall("`([a-z_]+)`", payer["description"])} == {*RULE_OUTCOMES} - {*OUTCOMES}
    readme = (Path(__file__).parents[2] / "sim" / "devserver" / "README.md").read_text(encoding="utf-8")
    [row] = re.findall(r"^[|] `outcome`, `failure` [|].*$", readme, re.M)
    assert {*re.findall("`([a-z_]+)`", row)} == {*RULE_OUTCOMES, "outcome", "failure"}


@pytest.mark.parametrize("network", ["direct", "star:6"])
def test_an_incomplete_payment_over_http_is_returned_after_two_minutes(network: str) -> None:
    with Sandbox(seed=7, network=network) as sandbox:
        charge = create(sandbox, expiresIn=600)
        order = {"request": charge.request, "outcome": "incomplete"}
        path = f"/sandbox/v1/payments/{sandbox.ask('POST', '/sandbox/v1/payments', order)['id']}"
        sandbox.advance("119s")
        assert sandbox.ask("GET", path)["status"] == "in_flight"
        sandbox.advance("2s")
        assert (sandbox.ask("GET", path)["status"], charge.status) == ("failed", "pending")


def test_a_wrong_payer_in_a_document_is_refused() -> None:
    overlay = {
        "overlay": "1.0.0",
        "info": {"title": "wrong", "version": "1"},
        "actions": [{"target": "$", "update": {"x-payers": [{"amount": "5"}]}}],
    }
    with pytest.raises(Exception, match="x-payers"):
        load_contract(overlays=[overlay])


def test_the_name_of_the_option_after_is_corrected_to_the_field(sandbox: Sandbox) -> None:
    with pytest.raises(TypeError, match="a payer has no field after: did you mean delay"):
        sandbox.payers.add(after="2s")
    assert "did you mean delay?" in str(sandbox.request("POST", "/sandbox/v1/payers", {"after": "2s"}).body)


def test_the_delay_of_a_payment_over_http_is_a_number_or_a_span(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="tea")
    for delay in (30, "30s", "0.5h", "-1s"):
        answer = sandbox.request("POST", "/sandbox/v1/payments", {"request": charge.request, "delay": delay})
        assert answer.status == (400 if delay == "-1s" else 200)
    sandbox.advance("30s")
    assert charge.status == "completed"
