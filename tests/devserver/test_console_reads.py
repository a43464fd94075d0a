"""What the console reads besides requests: Charges, what is due, a search over everything, the nodes of the network."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leyden import Sandbox
from leyden.devserver.control import pages, search
from leyden.server.system.work_slices import MAX_STEPS
from tests.support.hosted import Hosted, in_server
from tests.support.lists import listed

Json = dict[str, Any]
CONTROL = "/sandbox/v1"
SHOP = "http://shop.inbox.localhost"


def ask(sandbox: Sandbox, target: str) -> Any:
    return sandbox.ask("GET", f"{CONTROL}/{target}")


def charge(sandbox: Sandbox, **fields: Any) -> Json:
    order = {"amount": "21000", "description": "tea", "expiresIn": 600, **fields}
    created: Json = sandbox.ask("POST", "/v0/charges", order)["data"]
    return created


def tips(sandbox: Sandbox, identifier: str = "ana@localhost") -> Json:
    order = {"minAmount": "1000", "maxAmount": "9000", "description": "Tips", "identifier": identifier}
    created: Json = sandbox.ask("POST", "/v0/static-charges", order)["data"]
    return created


def test_charges_are_listed_as_by_the_service_and_without_a_trace(sandbox: Sandbox) -> None:
    for number in range(5):
        charge(sandbox, description=f"tea {number}", internalId=f"order-{number % 2}")
    static = tips(sandbox)
    sandbox.wallet("ana").pay(static["invoice"]["request"], amount=2_000)
    sandbox.advance("1s")
    of_service = sandbox.ask("GET", "/v0/charges")["data"]
    digest = sandbox.journal_hash
    assert listed(sandbox.ask, f"{CONTROL}/charges?limit=2") == of_service
    assert ask(sandbox, "charges?status=completed")["data"] == of_service[:1]
    assert ask(sandbox, f"charges?staticChargeId={static['id']}")["data"] == of_service[:1]
    assert [row["description"] for row in ask(sandbox, "charges?internalId=order-1")["data"]] == ["tea 3", "tea 1"]
    assert [row["id"] for row in ask(sandbox, "static-charges")["data"]] == [static["id"]]
    assert ask(sandbox, "static-charges?status=disabled")["data"] == []
    shown = ask(sandbox, f"static-charges/{static['id']}")
    assert shown["payUrl"] == f"http://localhost/lnurlp/{static['id']}"
    assert shown["staticCharge"]["identifier"] == "ana@localhost"
    assert sandbox.journal_hash == digest


def test_a_state_that_no_charge_has_is_refused(sandbox: Sandbox) -> None:
    for path, status, detail in (
        ("charges", "complete", 'pending, completed, expired or error; received "complete": did you mean "completed"?'),
        ("static-charges", "x", 'active, disabled or expired; received "x"'),
    ):
        refused = sandbox.http.get(f"{CONTROL}/{path}?status={status}")
        assert (refused.status_code, refused.json()["detail"]) == (400, f"query.status: expected {detail}")
        assert refused.json()["errors"] == [{"pointer": "query.status", "detail": f"expected {detail}"}]


def test_a_charge_is_shown_with_its_invoice_its_events_and_what_is_scheduled(sandbox: Sandbox) -> None:
    new = charge(sandbox, callbackUrl=SHOP)
    shown = ask(sandbox, f"charges/{new['id']}")
    assert shown["charge"] == new
    invoice = shown["invoice"]
    assert (invoice["amount"], invoice["description"], invoice["currency"]) == ("21000", "tea", "bcrt")
    assert (invoice["createdAt"], invoice["expiresAt"]) == (new["createdAt"], new["expiresAt"])
    assert [event["at"] for event in shown["scheduled"]] == [new["expiresAt"]]
    payment = sandbox.wallet("ana").pay(new["invoice"]["request"])
    sandbox.advance("1m")
    after = ask(sandbox, f"charges/{new['id']}")
    assert invoice["paymentHash"] == ask(sandbox, f"payments/{payment.id}")["paymentHash"]
    assert after["timeline"][: len(shown["timeline"])] == shown["timeline"]
    assert len(after["timeline"]) > len(shown["timeline"])
    assert after["scheduled"] == []
    for unknown in ("charges", "static-charges"):
        answer = sandbox.http.get(f"{CONTROL}/{unknown}/00000000-0000-4000-8000-000000000000")
        assert answer.status_code == 404


def test_what_is_due_is_listed_in_the_order_in_which_it_runs(sandbox: Sandbox) -> None:
    charges = [charge(sandbox, expiresIn=600 - 60 * number) for number in range(4)]
    due = listed(sandbox.ask, f"{CONTROL}/clock/due?limit=3")
    assert [event["chargeId"] for event in due if event["kind"] == "charge_expiry"] == [
        one["id"] for one in reversed(charges)
    ]
    assert [event["at"] for event in due] == sorted(event["at"] for event in due)
    page = ask(sandbox, "clock/due?limit=2")
    ran = sandbox.ask("POST", f"{CONTROL}/clock/advance", {"to": due[2]["at"]})["fired"]
    assert [(event["at"], event["id"]) for event in ran] == [(event["at"], event["id"]) for event in due[:3]]
    assert ask(sandbox, f"clock/due?after={page['next']}")["data"] == due[3:]


def test_a_page_of_scheduled_events_follows_one_that_is_cancelled(sandbox: Sandbox) -> None:
    charges = [sandbox.charges.create(amount="1000", description="x", expiresIn=60 * n) for n in range(1, 6)]
    page = ask(sandbox, "clock/due?limit=2")
    assert [row["id"] for row in page["data"]] == [charge.id for charge in charges[:2]]
    sandbox.wallet("ana").pay(charges[1])
    rest = ask(sandbox, f"clock/due?limit=2&after={page['next']}")
    assert [row["id"] for row in rest["data"]] == [charge.id for charge in charges[2:4]]
    sandbox.advance("3m")
    again = ask(sandbox, f"clock/due?after={page['next']}")
    assert [row["id"] for row in again["data"]] == [charge.id for charge in charges[3:]]


def test_a_search_finds_every_kind_by_what_a_person_has_of_it(sandbox: Sandbox) -> None:
    coffee = charge(sandbox, description="Coffee & <b>cake</b>", internalId="order-17", callbackUrl=SHOP)
    charge(sandbox)
    static = tips(sandbox)
    paid = sandbox.wallet("ana").pay(coffee["invoice"]["request"])
    sandbox.advance("1m")

    def found(text: str, limit: int = 10) -> list[tuple[str, str]]:
        answer = sandbox.http.get(f"{CONTROL}/search", params={"text": text, "perKind": limit}).json()
        assert answer["complete"] is True
        return [(row["kind"], row["id"]) for row in answer["data"] if row["kind"] != "request"]

    [delivery] = sandbox.ask("GET", f"{CONTROL}/deliveries")["data"]
    payment_hash = ask(sandbox, f"payments/{paid.id}")["paymentHash"]
    mine, payment = ("charge", coffee["id"]), ("payment", paid.id)
    assert found("COFFEE") == found("order-17") == [mine]
    assert found(coffee["id"]) == [mine, ("delivery", delivery["id"])]
    assert found(coffee["invoice"]["request"]) == found(payment_hash) == [mine, payment]
    assert found(paid.id) == [payment]
    assert found(delivery["id"]) == found("shop.inbox")[-1:] == [("delivery", delivery["id"])]
    assert found("ana@") == [("static_charge", static["id"])]
    link = static["invoice"]["request"]
    for text in (link, link.upper(), link[20:60]):
        assert found(text)[0] == ("static_charge", static["id"])
    assert found("nobody has this") == []
    few = sandbox.http.get(f"{CONTROL}/search", params={"text": "a", "perKind": 1}).json()
    assert few["complete"] is False


def test_lists_of_charges_are_searched(sandbox: Sandbox) -> None:
    made = [charge(sandbox, description=f"Tea {number}", internalId=f"order-{number % 2}") for number in range(5)]
    static = tips(sandbox)

    def found(query: str, kind: str = "charges") -> list[str]:
        return [row["id"] for row in listed(sandbox.ask, f"{CONTROL}/{kind}?{query}")]

    every = [row["id"] for row in reversed(made)]
    assert found("text=tEA&limit=2") == every
    assert found("text=order-1") == [made[3]["id"], made[1]["id"]]
    assert found("text=tea&internalId=order-1&status=pending") == [made[3]["id"], made[1]["id"]]
    for text in (made[2]["id"], made[2]["invoice"]["request"][30:80]):
        assert found(f"text={text}") == [made[2]["id"]]
    assert found("text=cake") == found("text=tea&status=expired") == []
    assert found("text=ANA%40localhost", "static-charges") == found("text=tips", "static-charges") == [static["id"]]
    assert found("text=cake", "static-charges") == []
    link, other = (one["invoice"]["request"] for one in (static, tips(sandbox, identifier="bob@localhost")))
    for text in (link, link.upper(), link[30:]):
        assert found(f"text={text}", "static-charges") == [static["id"]]
    assert len(found(f"text={link[:9]}", "static-charges")) == 2
    assert found(f"text={link}{other}", "static-charges") == []


def test_other_requests_are_answered_while_a_list_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "READ_AT_ONCE", 1)
    count = 3 * MAX_STEPS

    async def scenario(server: Hosted) -> None:
        for _ in range(count):
            await server.ok("POST", "/v0/charges", {"amount": "1000", "description": "tea"}, key="leyden")
        searching = asyncio.create_task(server.ok("GET", f"{CONTROL}/charges?text=nothing", key="leyden"))
        await asyncio.sleep(0)
        await server.ok("GET", f"{CONTROL}/clock", key="leyden")
        assert not searching.done()
        assert await searching == {"data": [], "next": None}
        searching = asyncio.create_task(server.ok("GET", f"{CONTROL}/charges?text=tea&limit=1000", key="leyden"))
        await asyncio.sleep(0)
        await server.ok("POST", f"{CONTROL}/reset", {}, key="leyden")
        assert not searching.done()
        assert await searching == {"data": [], "next": None}, "those of the new run"

    in_server(scenario)


def test_a_search_finds_requests_and_other_requests_are_answered_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "READ_AT_ONCE", 5)

    async def scenario(server: Hosted) -> None:
        for number in range(30):
            order = {"amount": "1000", "description": f"tea {number}"}
            await server.ok("POST", "/v0/charges", order, key="leyden")
        answer = await server.ok("GET", f"{CONTROL}/search?text=tea+17", key="leyden")
        assert [(row["kind"], row["title"]) for row in answer["data"]] == [
            ("charge", "tea 17"), ("request", "POST /v0/charges"),
        ]  # fmt: skip
        [request] = answer["data"][1:]
        assert request["chargeId"] == answer["data"][0]["id"]
        assert (await server.ok("GET", f"{CONTROL}/requests/{request['id']}", key="leyden"))["status"] == 200
        assert (await server.ask("GET", f"{CONTROL}/search?text=", key="leyden")).status == 400

    in_server(scenario)


def test_nodes_are_listed_with_their_balances() -> None:
    with Sandbox(seed=7, network="line:6") as sandbox:
        nodes = listed(sandbox.ask, f"{CONTROL}/network/nodes?limit=4")
        assert nodes[0]["shop"] is True
        assert len(nodes) == len({node["name"] for node in nodes}) >= 6
        for node in nodes:
            full = ask(sandbox, f"network/nodes/{node['name']}")
            assert {**full, "channels": len(full["channels"])} == node
        assert ask(sandbox, f"network/nodes?text={nodes[1]['name']}")["data"] == [nodes[1]]
    with Sandbox(seed=7) as sandbox:
        assert sandbox.http.get(f"{CONTROL}/network/nodes").status_code == 409


@pytest.mark.parametrize("network", ["direct", "star:6"])
def test_the_amount_of_a_payment_is_the_sum_of_its_parts_and_the_timeline_says_which_never_come(network: str) -> None:
    with Sandbox(seed=7, network=network) as sandbox:
        schemas = sandbox.http.get(f"{CONTROL}/openapi.json").json()["components"]["schemas"]
        assert "the sum of all parts" in schemas["Payment"]["properties"]["amount"]["description"]
        for outcome, total, sent in (("settle", 250_001, 250_001), ("underpay", 250_000, 250_000),
                                     ("incomplete", 250_001, 125_001)):  # fmt: skip
            made = charge(sandbox, amount="250001")
            order = {"request": made["invoice"]["request"], "outcome": outcome}
            payment = sandbox.ask("POST", f"{CONTROL}/payments", order)
            sandbox.advance("5s")
            attempts = ask(sandbox, f"payments/{payment['id']}/attempts")["data"]
            assert (payment["amount"], [one["amount"] for one in attempts]) == (str(total), [str(sent)])
            [pays] = [event for event in ask(sandbox, f"charges/{made['id']}")["timeline"] if " pays " in event["text"]]
            assert f"{total / 1_000:g} sat" in pays["text"]
            assert ("of which 125 sat are never sent" in pays["detail"]) is (total != sent)
