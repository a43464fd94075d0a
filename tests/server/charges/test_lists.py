"""Lists: newest first, in pages, each item exactly once."""

from __future__ import annotations

from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ApiError


@pytest.fixture
def shop(sandbox: Sandbox) -> Sandbox:
    """Thirty charges, one each minute; every third has an internalId, every fifth is paid, and early ones expired."""
    for number in range(30):
        extra: dict[str, Any] = {"internalId": "guest"} if number % 3 == 0 else {}
        charge = sandbox.charges.create(amount="1000", description=str(number), expiresIn=600, **extra)
        if number % 5 == 0:
            sandbox.wallet("ana").pay(charge)
        sandbox.advance("1m")
    return sandbox


def numbers(sandbox: Sandbox, query: str = "") -> list[int]:
    answer = sandbox.ask("GET", f"/v0/charges{query}")
    return [int(item["description"]) for item in answer["data"]]


def test_the_newest_is_first(shop: Sandbox) -> None:
    assert numbers(shop) == list(range(29, -1, -1))


@pytest.mark.parametrize("limit", [1, 7, 10, 29, 30, 31])
def test_pages_have_no_gap_and_no_repetition(shop: Sandbox, limit: int) -> None:
    seen: list[int] = []
    after = ""
    while True:
        answer = shop.ask("GET", f"/v0/charges?limit={limit}{after}")
        assert len(answer["data"]) <= limit
        seen += [int(item["description"]) for item in answer["data"]]
        if answer["next"] is None:
            break
        after = f"&after={answer['next']}"
    assert seen == list(range(29, -1, -1))


def test_the_message_of_a_page_counts_the_rows_of_the_page(shop: Sandbox) -> None:
    first = shop.ask("GET", "/v0/charges?limit=2")
    assert first["message"] == "2 charges on this page"
    last = shop.ask("GET", f"/v0/charges?limit=1000&after={first['next']}")
    assert last["message"] == f"{len(last['data'])} charges on this page"
    whole = shop.ask("GET", "/v0/charges?limit=1000")
    assert whole["message"] == f"{len(whole['data'])} charges"


def test_a_charge_created_between_two_pages_changes_neither(shop: Sandbox) -> None:
    first = shop.ask("GET", "/v0/charges?limit=10")
    shop.charges.create(amount="1000", description="99")
    assert numbers(shop, f"?limit=10&after={first['next']}") == list(range(19, 9, -1))


def test_filters_are_combined(shop: Sandbox) -> None:
    assert numbers(shop, "?internalId=guest") == list(range(27, -1, -3))
    assert numbers(shop, "?status=completed") == [25, 20, 15, 10, 5, 0]
    assert numbers(shop, "?status=completed&internalId=guest") == [15, 0]
    assert numbers(shop, "?internalId=nobody") == []


@pytest.mark.parametrize(
    ("target", "states"),
    [
        ("/v0/charges", "pending, completed, expired or error"),
        ("/v0/static-charges", "active, disabled or expired"),
    ],
)
def test_an_unknown_state_gets_the_list_of_states(shop: Sandbox, target: str, states: str) -> None:
    with pytest.raises(ApiError, match=f'status: expected {states}; received "paid"$'):
        shop.ask("GET", f"{target}?status=paid")


def test_created_after_is_inclusive_and_created_before_is_exclusive(shop: Sandbox) -> None:
    assert numbers(shop, "?createdAfter=2030-01-01T09:05:00Z&createdBefore=2030-01-01T09:08:00Z") == [7, 6, 5]
    assert numbers(shop, "?createdAfter=2030-01-01T11:05:00%2B02:00&createdBefore=2030-01-01T09:06:00Z") == [5]
    assert numbers(shop, "?createdBefore=0000-01-01T00:00:00Z") == []
    assert len(numbers(shop, "?createdAfter=0001-01-01T00:00:00Z")) == 30


@pytest.mark.parametrize("fraction", ["0001", "000500", "0009999", "000000001"])
def test_a_bound_within_a_millisecond_is_later_than_its_begin(shop: Sandbox, fraction: str) -> None:
    assert numbers(shop, f"?createdAfter=2030-01-01T09:05:00.{fraction}Z&createdBefore=2030-01-01T09:08:00Z") == [7, 6]
    later = f"?createdAfter=2030-01-01T09:05:00Z&createdBefore=2030-01-01T09:08:00.{fraction}Z"
    assert numbers(shop, later) == [8, 7, 6, 5]


def test_messages_are_those_of_the_specification(sandbox: Sandbox) -> None:
    examples = sandbox.ask("GET", "/openapi.json")["components"]["examples"].values()
    shown = {one["value"]["message"] for one in examples if "data" in one["value"]}
    charge = sandbox.charges.create(amount="1000", description="tea")
    link = sandbox.static_charges.create(minAmount="1000", maxAmount="2000", description="tips")
    paths = ["charges", f"charges/{charge.id}", "static-charges", f"static-charges/{link.id}", "wallet"]
    assert {sandbox.ask("GET", f"/v0/{path}")["message"] for path in paths} <= shown


def test_another_projects_charges_are_not_listed(shop: Sandbox) -> None:
    shop.world.service.projects.add("other", "other-key")
    answer = shop.http.get("/v0/charges", headers={"apikey": "other-key"})
    assert answer.json()["data"] == []
    mine = next(iter(shop.charges))
    assert shop.http.get(f"/v0/charges/{mine.id}", headers={"apikey": "other-key"}).status_code == 404
    assert shop.http.get("/v0/wallet", headers={"apikey": "other-key"}).json()["data"]["balance"] == "0"
    assert shop.http.get("/v0/wallet").json()["data"]["balance"] == "6000"


def test_a_charge_counts_from_the_whole_second_before_its_request_and_the_spec_says_so() -> None:
    with Sandbox(seed=5, start="2030-01-01T09:00:00.999Z") as shop:
        charge = shop.charges.create(amount="250000", description="Tea", expiresIn=1)
        static = shop.static_charges.create(minAmount="1000", maxAmount="250000", description="Tip", expiresIn=1)
        assert (charge.data["createdAt"], static.data["createdAt"]) == ("2030-01-01T09:00:00.000Z", shop.now)
        assert not shop.ask("GET", f"/v0/charges?createdAfter={shop.now}")["data"]
        assert shop.ask("GET", "/v0/charges?createdAfter=2030-01-01T09:00:00Z")["data"]
        schemas = shop.world.config.contract.document["components"]["schemas"]
        parameters = shop.world.config.contract.document["components"]["parameters"]
        shop.advance("1ms")
        assert (charge.status, static.status) == ("expired", "active")
    charges = [name for name, schema in schemas.items() if "createdAt" in schema.get("properties", {})]
    assert len(charges) >= 4
    for name in charges:
        said = "to the millisecond" if name == "StaticCharge" else "rounded down to a whole second"
        assert said in " ".join(schemas[name]["properties"]["createdAt"]["description"].split()), name
    for described in (schemas["ChargeRequest"]["properties"]["expiresIn"], parameters["CreatedAfter"]):
        assert "`createdAt`" in described["description"]


def test_the_cursor_of_another_list_is_refused_and_that_of_an_earlier_version_is_taken(shop: Sandbox) -> None:
    for _ in range(3):
        shop.static_charges.create(minAmount="1000", maxAmount="1000", description="tips")
        shop.faults.add("drop")
    lists = ("/v0/charges", "/v0/static-charges", "/sandbox/v1/payments", "/sandbox/v1/faults")
    cursors = {path: shop.ask("GET", f"{path}?limit=1")["next"] for path in lists}
    for path in lists:
        for other, cursor in cursors.items():
            answer = shop.http.get(f"{path}?limit=1&after={cursor}")
            assert answer.status_code == (200 if other == path else 400), (path, other)
            if other != path:
                words = "query.after: expected the next of an earlier page of this list"
                assert answer.json()["detail"] == f'{words}; received "{cursor}"'
    assert shop.http.get(f"/sandbox/v1/charges?after={cursors['/v0/charges']}").status_code == 200  # the same rows
    assert numbers(shop, f"?after=0000{cursors['/v0/charges'][4:]}") == list(range(28, -1, -1))
