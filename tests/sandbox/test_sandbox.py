"""The sandbox: time control, resources that show the present state, and clear errors."""

from __future__ import annotations

import asyncio
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import numpy as np
import orjson
import pytest

from leyden import Sandbox
from leyden.errors import ApiError, ArgumentError, Bolt11Error, ListenError, PayerError
from leyden.http_sandbox.requests import ask
from leyden.lightning.bolt11.codec import decode
from leyden.lightning.payer.payment_requests import fetch_lnurl_invoice, request_kind
from leyden.sandbox.resources import Charge, Payment
from leyden.server.charges.lnurl import bech32_encode
from tests.support.lists import listed
from tests.support.served import Client

GOOD: dict[str, Any] = {"amount": "1000", "description": "tea"}


def test_nothing_happens_until_time_moves(sandbox: Sandbox) -> None:
    payment = sandbox.wallet("ana").pay(sandbox.charges.create(**GOOD))
    assert (payment.status, payment.outcome) == ("in_flight", None)
    fired = sandbox.step()
    assert fired is not None
    assert (payment.status, payment.outcome) == ("succeeded", "SUCCEEDED")


@pytest.mark.parametrize("by", ["90s", 90, timedelta(seconds=90)])
def test_every_form_of_a_span(sandbox: Sandbox, by: Any) -> None:
    sandbox.advance(by)
    assert sandbox.now == "2030-01-01T09:01:30.000Z"


@pytest.mark.parametrize(
    "when",
    ["2030-01-01T10:00:00Z", datetime(2030, 1, 1, 10, tzinfo=UTC), 1_893_492_000_000, "2030-01-01T11:00:00+01:00"],
)
def test_every_form_of_an_instant_and_a_repeated_call(sandbox: Sandbox, when: Any) -> None:
    for _ in range(2):
        sandbox.advance_to(when)
        assert sandbox.now == "2030-01-01T10:00:00.000Z"


@pytest.mark.parametrize(
    ("offset", "status"), [("-1s", "pending"), ("-1ms", "pending"), ("0s", "expired"), ("1s", "expired")]
)
def test_just_before_and_just_after_the_expiry(sandbox: Sandbox, offset: str, status: str) -> None:
    charge = sandbox.charges.create(**GOOD, expiresIn=60)
    sandbox.advance_to(charge.expires_at, offset=offset)
    assert charge.status == status


def test_the_next_event_is_all_that_is_due_at_the_next_instant_however_time_is_moved(tmp_path: Path) -> None:
    def two() -> Sandbox:
        sandbox = Sandbox(seed=7, start="2030-01-01T09:00:00Z")
        for _ in range(2):
            sandbox.charges.create(**GOOD, expiresIn=10, callbackUrl="http://shop.localhost/hook")
        return sandbox

    plain, spilled, asked = two(), two(), two()
    assert len(asked.ask("GET", "/sandbox/v1/clock/due")["data"]) == 2
    assert asked.ask("POST", "/sandbox/v1/clock/advance", {"until": "next_event"})["count"] == 4
    assert len(plain.run("next_event")) == 4
    spilled.run("next_event", spill=tmp_path)
    assert plain.journal_hash == spilled.journal_hash
    assert [one.status for one in plain.charges] == ["expired", "expired"]


def test_running_to_the_next_event_and_for_a_span(sandbox: Sandbox) -> None:
    sandbox.charges.create(**GOOD, expiresIn=60)
    sandbox.charges.create(**GOOD, expiresIn=120)
    assert [event.kind for event in sandbox.run("next_event")] == ["charge_expiry"]
    assert sandbox.now == "2030-01-01T09:01:00.000Z"
    assert sandbox.run("30s") == []
    assert len(sandbox.run()) == 1
    assert sandbox.run() == []
    assert sandbox.step() is None


@pytest.mark.parametrize("by", ["soon", "-1s", -1, float("nan"), True])
def test_an_invalid_span_is_refused(sandbox: Sandbox, by: Any) -> None:
    with pytest.raises(ValueError):
        sandbox.advance(by)


@pytest.mark.parametrize("by", [None, datetime(2030, 1, 2, tzinfo=UTC), ["5m"]])
def test_a_value_of_another_type_is_no_span(sandbox: Sandbox, by: Any) -> None:
    with pytest.raises(TypeError, match="is not a duration: give"):
        sandbox.advance(by)


@pytest.mark.parametrize("when", ["soon", datetime.fromisoformat("2030-01-01"), None, 1.5, True])
def test_an_invalid_instant_is_refused(sandbox: Sandbox, when: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        sandbox.advance_to(when)


def test_a_response_reads_its_json(sandbox: Sandbox) -> None:
    assert sandbox.request("GET", "/v0/charges").json()["success"] is True


def test_the_action_log_lists_its_actions_and_shows_how_many_they_are(sandbox: Sandbox) -> None:
    sandbox.charges.create(amount="1000", description="tea")
    sandbox.advance("1m")
    assert [action.kind for action in sandbox.action_log] == ["request", "advance"]
    assert repr(sandbox.action_log) == "<action log: 2>"
    sandbox.action_log.discard("it is full")
    assert repr(sandbox.action_log) == "<action log: it is full>"


def test_a_refusal_carries_the_problem(sandbox: Sandbox) -> None:
    with pytest.raises(ApiError) as refused:
        sandbox.charges.create(amount="1", description="tea")
    assert refused.value.status == 400
    assert refused.value.problem["errors"][0]["pointer"] == "/amount"
    with pytest.raises(ApiError, match="404"):
        sandbox.charges["no-such-id"]
    with pytest.raises(TypeError, match="0 is not an id"):
        sandbox.charges[0]


def test_an_ignored_field_causes_a_warning(sandbox: Sandbox) -> None:
    with pytest.warns(UserWarning, match="createCharge has no field expires_in and ignores it: write expiresIn"):
        charge = sandbox.charges.create(amount="1000", description="tea", expires_in=5)
    assert charge.expires_at == charge.created_at + timedelta(minutes=10)
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="2000", description="tips")
    with pytest.warns(UserWarning, match="updateStaticCharge has no field colour and ignores it: its fields are"):
        tips.update(colour="red")
    with pytest.warns(UserWarning, match=r"no field a\\nb and ignores it"):
        tips.update(**{"a\nb": 1})
    with Sandbox(overlays=["strict"]) as strict, pytest.raises(ApiError, match="did you mean expiresIn"):
        strict.charges.create(amount="1000", description="tea", expires_in=5)


def test_a_value_without_a_json_form_is_named(sandbox: Sandbox) -> None:
    with pytest.raises(TypeError, match=r"expiresIn=.* is not JSON: give a text"):
        sandbox.charges.create(amount="1000", description="tea", expiresIn=timedelta(minutes=1))
    charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=np.int64(60))
    assert charge.expires_at == charge.created_at + timedelta(minutes=1)


@pytest.mark.parametrize(
    "number", [float("nan"), float("inf"), [1, -float("inf")], {"a": [float("nan")]}, np.float32("nan")]
)
def test_a_number_without_a_json_form_is_not_sent_as_null(sandbox: Sandbox, number: Any) -> None:
    with pytest.raises(ArgumentError, match=r"expiresIn=.* has no JSON form: give a finite number, or None"):
        sandbox.charges.create(amount="1000", description="tea", expiresIn=number)
    with pytest.raises(ArgumentError, match=r"event=.* has no JSON form"):
        sandbox.replay_deliveries(event=number)
    with pytest.raises(ArgumentError, match=r"expiresIn=.* JSON: give texts, finite numbers"):
        ask("http://127.0.0.1:9", "POST", "/v0/charges", {"expiresIn": number}, {})
    sandbox.charges.create(amount="1000", description="null", internalId=None)


@pytest.mark.parametrize("amount", [2000.0, 2000.5, "2e3", "", float("nan")])
def test_a_wallet_does_not_round_amounts(sandbox: Sandbox, amount: Any) -> None:
    charge = sandbox.charges.create(amount="2000", description="tea")
    with pytest.raises(ValueError, match="give whole millisatoshis"):
        sandbox.wallet("ana").pay(charge, amount=amount)
    sandbox.run()
    assert charge.status == "expired"
    assert sandbox.wallet("ana").pay(charge, amount="2000").outcome is None


def test_a_value_that_cannot_be_paid_is_refused(sandbox: Sandbox) -> None:
    for nothing in (None, {}, 7):
        with pytest.raises(TypeError, match="cannot be paid: give a Charge"):
            sandbox.wallet("ana").pay(nothing)  # type: ignore[arg-type]


def test_a_fault_with_an_unknown_field_is_refused(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="tea")
    with pytest.raises(TypeError, match="a fault has no field chrage: did you mean charge"):
        sandbox.faults.add("drop", chrage=charge)
    assert len(sandbox.faults) == 0


def test_a_single_overlay_must_be_in_a_list() -> None:
    with pytest.raises(TypeError, match=r"write overlays=\['strict'\]"):
        Sandbox(overlays="strict")


def test_fired_events_are_a_list_with_a_short_repr(sandbox: Sandbox) -> None:
    assert repr(sandbox.run()) == "0 events"
    ids = [sandbox.charges.create(amount="1000", description="tea", expiresIn=60).id for _ in range(7)]
    happened = sandbox.run()
    assert [one.key for one in happened] == ids
    lines = [f"  2030-01-01T09:01:00.000Z charge_expiry {created}" for created in ids[:5]]
    assert repr(happened).splitlines() == ["7 events:", *lines, "  and 2 more"]
    sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
    assert repr(sandbox.run()).startswith("1 event:\n  ")


def test_an_invalid_port_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(ListenError, match="port must be 0-65535"):
        sandbox.serve(port=65_536)


def test_a_port_in_use_is_refused_in_words_for_the_caller(sandbox: Sandbox) -> None:
    port = urlsplit(sandbox.serve()).port
    assert port is not None
    with Sandbox() as other:
        with pytest.raises(ListenError, match=r"choose another port \(0 is any free one\)") as refused:
            other.serve(port=port)
        assert "--" not in str(refused.value)
        other.restore(other.snapshot())  # it is not served


def test_a_served_sandbox_leaves_the_event_loop_policy_of_the_process(sandbox: Sandbox) -> None:
    """With the lowest version of uvicorn, too, which sets that of uvloop."""
    policy = asyncio.get_event_loop_policy()
    sandbox.serve()
    assert asyncio.get_event_loop_policy() is policy


def test_a_served_sandbox_is_not_told_that_it_is_not() -> None:
    with Sandbox(egress="none") as sandbox:
        client = Client(sandbox.serve())
        status, problem = client("PATCH", "/sandbox/v1/clock", {"rate": 10})
        assert (status, problem["detail"]) == (
            409,
            "the clock of a sandbox in Python moves only when it is advanced: advance it, or use `leyden serve`",
        )
        client.ok("PATCH", "/sandbox/v1/clock", {"rate": 0})
        status, problem = client("POST", "/sandbox/v1/receiver-check", {"url": "http://127.0.0.1:9/hook"})
        assert status == 409
        assert "the egress of this sandbox is none" in problem["detail"]


def test_collections_are_read_in_order_of_creation(sandbox: Sandbox) -> None:
    created = [sandbox.charges.create(amount="1000", description=str(number)) for number in range(5)]
    assert list(sandbox.charges) == created
    assert len(sandbox.charges) == 5
    assert sandbox.charges[created[2].id] == created[2]
    assert "5 in /v0/charges" in repr(sandbox.charges)


def test_reprs_show_the_state(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="<b>tea</b>")
    assert "1 pending" in repr(sandbox)
    assert "charge_expiry" in repr(sandbox)
    assert "pending" in repr(charge)
    shown = charge._repr_html_()
    assert "<b>" not in shown
    assert "&lt;b&gt;tea" in shown
    assert repr(charge.fail()) == f"Charge(1000 msat, error, '<b>tea</b>', {charge.id})"


def test_the_invoice_has_the_requested_values(sandbox: Sandbox) -> None:
    invoice = sandbox.charges.create(amount="250000", description="Coffee ☕", expiresIn=300).invoice.decode()
    assert (invoice.amount_msat, invoice.description, invoice.expiry_s) == (250_000, "Coffee ☕", 300)
    assert (invoice.currency, invoice.min_final_cltv, invoice.features) == ("bcrt", 80, {8, 14, 17})
    assert invoice.payee == sandbox.world.node.node_id


@pytest.mark.parametrize(("length", "hashed"), [(319, False), (320, True)])
def test_a_description_over_639_bytes_is_committed_to_by_its_hash(sandbox: Sandbox, length: int, hashed: bool) -> None:
    text = "é" * length + "x" * (639 - 2 * length if not hashed else 0)
    charge = sandbox.charges.create(amount="1000", description=text)
    invoice = charge.invoice.decode()
    assert (invoice.description is None, invoice.description_hash is not None) == (hashed, hashed)
    assert charge.data["description"] == text


def test_direct_payments_have_no_network() -> None:
    with pytest.raises(ValueError, match="scale-free:N"):
        Sandbox(network="mesh:400")


def test_serving_on_a_thread(sandbox: Sandbox) -> None:
    url = sandbox.serve()
    assert sandbox.serve() == url
    request = urllib.request.Request(
        f"{url}/v0/charges",
        orjson.dumps({**GOOD, "callbackUrl": "http://shop.localhost/paid"}),
        {"apikey": "leyden", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        created = orjson.loads(answer.read())["data"]
    charge = sandbox.charges[created["id"]]
    sandbox.wallet("ana").pay(charge)
    sandbox.run()
    assert charge.status == "completed"
    assert [post.json["status"] for post in sandbox.receiver("shop").inbox] == ["completed"]


# Wallets


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("LNBCRT1ABC", "bolt11"),
        ("lightning:lnbc1x", "bolt11"),
        ("lnbc", "bolt11"),
        (" LIGHTNING:LNURL1X ", "lnurl"),
        ("lnurl@shop.example", "address"),
        ("lightning:Band@Shop.example:8402", "address"),
    ],
)
def test_the_kinds_of_payment_requests(text: str, kind: str) -> None:
    assert request_kind(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "", "bitcoin:bc1q", "https://shop.example", "hello", "lnurlp://127.0.0.1/x", "LNURLP://X1", "lnurlw:1",
        "lightning:lnurlp://shop.example/1", "keyauth://shop.example/1", "https://shop.example/1/lnurl1abc",
        "http://a@b.example/1", "lnurl", "ln1", "lnd1", "lno1qcp4256ypq", "lnbcx1", "tea1", "lnbcrt://1",
    ],
)  # fmt: skip
def test_a_text_without_a_payment_request_is_refused(sandbox: Sandbox, text: str) -> None:
    with pytest.raises(PayerError, match="neither"):
        request_kind(text)
    wallet = sandbox.wallet("ana")
    for use in (wallet.pay, wallet.scan):
        with pytest.raises(PayerError, match="is neither a BOLT11 invoice nor an LNURL nor a Lightning address"):
            use(text)
    if text:
        reason = sandbox.ask("POST", "/sandbox/v1/payments", {"request": text})["reason"]
        assert "is neither a BOLT11 invoice" in reason


def test_an_invoice_of_another_currency_is_named_as_one() -> None:
    foreign = bech32_encode("lnltc25m", 5, 120)
    assert request_kind(foreign) == "bolt11"
    with pytest.raises(Bolt11Error, match="prefix: 'lnltc25m' is not ln, a known currency"):
        decode(foreign)


def mismatch_error(sandbox: Sandbox, **lies: Any) -> str:
    """The error of a wallet when the responses of the service have these fields changed."""
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")

    def fetch(url: str) -> dict[str, Any]:
        answer = sandbox.ask("GET", url.removeprefix("http://localhost"))
        return {**answer, **{name: value for name, value in lies.items() if name in answer}}

    with pytest.raises(ValueError) as refused:
        fetch_lnurl_invoice(tips.request, 2_000, "", fetch, base_url="http://localhost")
    return str(refused.value)


def test_a_wallet_checks_the_responses_of_the_service(sandbox: Sandbox) -> None:
    other = sandbox.charges.create(amount="3000", description="other").request
    assert "payRequest" in mismatch_error(sandbox, tag="withdrawRequest")
    assert "does not commit" in mismatch_error(sandbox, metadata='[["text/plain","Something else"]]')
    assert "exactly one" in mismatch_error(sandbox, metadata="[]")
    assert "does not commit" in mismatch_error(sandbox, pr=other)


def test_a_wallet_needs_an_amount(sandbox: Sandbox) -> None:
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")
    with pytest.raises(PayerError, match="1000 to 9000"):
        sandbox.wallet("ana").scan(tips)
    fixed = sandbox.static_charges.create(minAmount="5000", maxAmount="5000", description="Ticket")
    assert sandbox.wallet("ana").scan(fixed).row["amount_msat"] == 5_000


def test_pay_takes_whatever_scan_takes(sandbox: Sandbox) -> None:
    tips = sandbox.static_charges.create(
        minAmount="1000", maxAmount="9000", description="Tips", identifier="band@shop.example"
    )
    payments = [
        sandbox.wallet("ana").pay(what, amount=2_000)
        for what in (tips, tips.request, "band@shop.example", "lightning:Band@shop.example", "band@localhost")
    ]
    sandbox.run()
    assert [payment.outcome for payment in payments] == ["SUCCEEDED"] * 5
    assert [charge.data["staticChargeId"] for charge in tips.charges] == [tips.id] * 5
    assert tips.data["slots"] == 5


def test_a_lightning_address_on_localhost_may_have_the_port_of_the_server(sandbox: Sandbox) -> None:
    sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="T", identifier="band@shop.example")

    def reasons(*hosts: str) -> list[str]:
        over_http = [sandbox.ask("POST", "/sandbox/v1/payments", {"request": f"band@{host}"}) for host in hosts]
        return [payment["reason"] for payment in over_http]

    assert reasons("localhost:3000", "127.0.0.1:3000") == [None, None]  # in process no port is another server's
    assert sandbox.wallet("ana").pay("band@localhost:3000").status == "in_flight"
    port = str(urlsplit(sandbox.serve()).port)
    assert reasons(f"localhost:{port}", f"LOCALHOST:{port}", f"127.0.0.1:{port}") == [None, None, None]
    other = "no static charge has the Lightning address"
    for elsewhere in ("localhost:1", "localhost:99999", "localhost", f"shop.example:{port}", f"a.localhost:{port}"):
        [reason] = reasons(elsewhere)
        assert other in reason
        with pytest.raises(PayerError, match=other):
            sandbox.wallet("ana").pay(f"band@{elsewhere}")


def test_a_lightning_address_of_another_host_is_unknown_at_a_full_static_charge_too(sandbox: Sandbox) -> None:
    tips = {"minAmount": "1000", "maxAmount": "1000", "description": "Tips", "allowedSlots": 1}
    sandbox.static_charges.create(**tips, identifier="band@shop.example")
    sandbox.wallet("ana").pay("band@shop.example")
    sandbox.run("1s")
    for request, expected in (
        ("band@other.example", "no static charge has the Lightning address band@other.example: did you mean band@shop"),
        ("band@shop.example", "slot"),
    ):
        assert expected in sandbox.ask("POST", "/sandbox/v1/payments", {"request": request})["reason"]
        with pytest.raises(PayerError, match=expected):
            sandbox.wallet("ana").pay(request)


def test_a_lightning_address_that_nobody_has_is_refused(sandbox: Sandbox) -> None:
    sandbox.static_charges.create(
        minAmount="1000", maxAmount="1000", description="Tips", identifier="band@shop.example"
    )
    with pytest.raises(PayerError, match="no static charge of this project has this lightning address"):
        sandbox.wallet("ana").pay("bend@shop.example")
    with pytest.raises(PayerError, match=r"band@elsewhere\.example: did you mean band@shop\.example"):
        sandbox.wallet("ana").pay("band@elsewhere.example")
    refused = sandbox.ask("POST", "/sandbox/v1/payments", {"request": "bend@shop.example"})
    assert (refused["status"], "lightning address" in refused["reason"]) == ("failed", True)


def test_the_control_api_pays_a_lightning_address(sandbox: Sandbox) -> None:
    sandbox.static_charges.create(
        minAmount="1000", maxAmount="9000", description="Tips", identifier="band@shop.example"
    )
    url = sandbox.serve()
    for request in ("band@shop.example", f"band@{url.removeprefix('http://')}"):
        payment = sandbox.ask("POST", "/sandbox/v1/payments", {"request": request, "amount": "3000"})
        assert (payment["status"], payment["amount"]) == ("succeeded", "3000")


@pytest.mark.parametrize("request_text", ["junk", "lnbcrt1junk", "lnurl1dp6"])
def test_a_payment_of_a_text_that_cannot_be_read_has_no_amount(sandbox: Sandbox, request_text: str) -> None:
    payment = sandbox.ask("POST", "/sandbox/v1/payments", {"request": request_text})
    assert (payment["status"], payment["amount"]) == ("failed", None)
    assert sandbox.payments["amount_msat"].isna().all()
    found = sandbox.ask("GET", f"/sandbox/v1/search?text={request_text}")["data"]
    assert [one["title"] for one in found if one["kind"] == "payment"] == ["amount unknown"]
    assert "Payment(amount unknown, from" in repr(Payment(sandbox.session, payment["id"]))


def test_the_control_api_pays_the_least_amount_by_default(sandbox: Sandbox) -> None:
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")
    payment = sandbox.ask("POST", "/sandbox/v1/payments", {"request": tips.request})
    assert (payment["status"], payment["amount"]) == ("succeeded", "1000")


def test_the_control_api_lists_the_payments_of_one_charge(sandbox: Sandbox) -> None:
    tea, cake = (sandbox.charges.create(amount="1000", description=each) for each in ("tea", "cake"))
    orders = [(tea.request, None), (tea.request.upper(), "5"), (cake.request, None), (f"lightning:{tea.request}", None)]
    for request, amount in orders:
        sandbox.ask("POST", "/sandbox/v1/payments", {"request": request, **({"amount": amount} if amount else {})})
    payments = listed(sandbox.ask, f"/sandbox/v1/payments?chargeId={tea.id}")
    assert [payment["status"] for payment in payments] == ["failed", "failed", "succeeded"]
    assert listed(sandbox.ask, "/sandbox/v1/payments?chargeId=00000000-0000-4000-8000-000000000000") == []
    assert len(listed(sandbox.ask, "/sandbox/v1/payments")) == 4


def test_run_ends_although_an_event_is_due_after_the_end_of_time() -> None:
    with Sandbox(start="2999-12-31T23:59:00Z") as sandbox:
        charge = sandbox.charges.create(amount="1000", description="too late for anybody", expiresIn=600)
        message = sandbox.ask("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
        assert message["now"] <= "2999-12-31T23:59:59.999Z"
        sandbox.ask("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        assert (sandbox.run(), sandbox.step(), charge.status) == ([], None, "pending")
        assert sandbox.now == "2999-12-31T23:59:59.000Z"


def test_what_a_program_makes_due_in_a_served_sandbox_waits_for_a_request_or_a_run(sandbox: Sandbox) -> None:
    url = sandbox.serve()
    headers = {"apikey": sandbox.api_key}

    def started() -> Charge:
        charge = sandbox.charges.create(amount="1000", description="tea")
        sandbox.wallet("ana").pay(charge)
        assert charge.status == "pending"
        return charge

    by_request = started()
    assert httpx2.get(f"{url}/v0/wallet", headers=headers).status_code == 200
    assert by_request.status == "completed"
    by_run = started()
    sandbox.run()
    assert by_run.status == "completed"
    answer = httpx2.patch(f"{url}/sandbox/v1/clock", headers=headers, json={"rate": 1})
    assert "moves only when it is advanced" in answer.json()["detail"]


@pytest.mark.parametrize("until", ["next_event", "1s", 5])
def test_a_number_of_events_ends_a_run_until_idle_and_no_other(sandbox: Sandbox, until: str | int) -> None:
    for _ in range(3):
        sandbox.charges.create(amount="1000", description="tea")
    with pytest.raises(ValueError, match="has two ends"):
        sandbox.run(until, events=2)
    assert len(sandbox.run("idle", events=2)) == 2


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "shop.example"])
def test_a_sandbox_with_the_default_key_is_not_served_to_other_machines(host: str) -> None:
    """It is refused before anything listens; with a key of its own the address decides."""
    with Sandbox(seed=1) as sandbox, pytest.raises(ListenError, match="give Sandbox another api_key"):
        sandbox.serve(host=host)
    if host == "192.0.2.1":  # which is no address of this machine
        with Sandbox(seed=1, api_key="mine") as sandbox, pytest.raises(ListenError, match="cannot listen on"):
            sandbox.serve(host=host)
