"""The documents of the control planes: when they are compiled, and the parameters of their lists."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import httpx2
import orjson
import pytest

from leyden import Sandbox
from leyden.devserver.control.handlers import control_handlers
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.errors import ApiError
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.contract.types import Contract
from leyden.server.errors import ContractError
from leyden.server.store.store import Store
from leyden.world import merged_openapi
from leyden.world.config import world_config
from leyden.world.loopback import send_request
from leyden.world.world import World
from tests.server.contract.test_widened_spec import without_examples

# Read by the numbers of their entries, as the document says.
FOLLOWED = {"getJournal", "getInbox"}


@pytest.mark.parametrize("name", ["sandbox", "server"])
def test_every_list_has_the_pages_of_the_charge_service(name: str) -> None:
    contract = load_contract(default_spec(name))
    lists = [one for one in contract.operations.values() if one.operation_id.startswith("list")]
    others = [
        one.operation_id
        for one in contract.operations.values()
        if one.method == "get" and one not in lists and any(p.name in ("limit", "after") for p in one.parameters)
    ]
    assert set(others) == (FOLLOWED if name == "sandbox" else set())
    assert len(lists) >= (9 if name == "sandbox" else 2)
    kinds: dict[str, set[str]] = {}
    for operation in lists:
        found = {one.name: one for one in operation.parameters}
        limit = found["limit"].rule.schema
        assert (limit["minimum"], limit["default"]) == (1, 100), operation.operation_id
        own = re.fullmatch(r"\^000\[0([1-9a-f])\]\[0-9a-f\]\{12\}\$", found["after"].rule.schema["pattern"])
        assert own is not None, operation.operation_id
        kinds.setdefault(own[1], set()).add(operation.operation_id)
        schema = operation.success.rule.schema
        assert schema["required"] == ["data", "next"], operation.operation_id
        assert schema["properties"].keys() == {"data", "next"}, operation.operation_id
    assert len(kinds) == len(lists)  # each list has its own cursors


def unexplained(schema: Any, place: str) -> Iterator[str]:
    """The places in the schema of a request at which an error has nothing but the validator's own words."""
    if not isinstance(schema, Mapping):
        return
    members = dict(schema.get("properties", {}))
    members |= {name: schema[name] for name in ("items", "additionalProperties") if isinstance(schema.get(name), dict)}
    for name, member in members.items():
        if not member.get("x-expect"):
            yield f"{place}/{name}"
        yield from unexplained(member, f"{place}/{name}")
    for branch in schema.get("anyOf", ()):
        yield from unexplained(branch, place)


def test_every_field_of_a_request_says_what_it_expects() -> None:
    for name in ("charges", "sandbox"):
        operations = load_contract(default_spec(name)).operations.values()
        bodies = {one.operation_id: one.body.rule.schema for one in operations if one.body is not None}
        assert [place for one, schema in bodies.items() for place in unexplained(schema, one)] == []


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        (
            "answers",
            [{"error": "nope"}],
            '/answers/0/error: expected timeout, reset, refused,.* or null; received "nope"',
        ),
        ("always", {"size": -1}, "/always/size: expected a whole number from 0 to 20000000, or null; received"),
        ("always", {"commits": "yes"}, '/always/commits: expected true, false or null; received "yes"'),
        ("always", {"headers": {"a": "\u0007"}}, "/always/headers/a: expected a text of at most 1000 printable ASCII"),
        ("always", {"headers": {"a b": "c"}}, "/always/headers: expected at most 20 headers, with names of letters"),
        ("rules", [5], '/rules/0: expected an object such as {"say": 500, "attempt": 1}; received the number 5'),
    ],
)
def test_a_refusal_of_a_script_says_what_is_expected(path: str, body: Any, detail: str) -> None:
    with Sandbox(seed=3) as sandbox, pytest.raises(ApiError, match=detail):
        sandbox.ask("PUT", "/sandbox/v1/inboxes/shop/script", {path: body})


@pytest.mark.parametrize("name", ["a" * 64, ".".join(["a" * 60] * 4) + ".bb", f"{'a' * 64}.localhost"])
def test_a_name_that_no_inbox_can_have_is_refused(name: str) -> None:
    with Sandbox(seed=3) as sandbox:
        for method, path, body in (("GET", name, None), ("PUT", f"{name}/script", {"answers": [500]})):
            with pytest.raises(ApiError, match="no inbox can have this name: the parts that dots join") as refused:
                sandbox.ask(method, f"/sandbox/v1/inboxes/{path}", body)
            assert refused.value.status == 404
        for name in ("a" * 63, ".".join(["a" * 60] * 3)):
            sandbox.ask("PUT", f"/sandbox/v1/inboxes/{name}/script", {"answers": [500]})
            charge = sandbox.charges.create(amount="1000", description="x", callbackUrl=f"http://{name}.localhost/")
            sandbox.wallet("ana").pay(charge)
            sandbox.advance("0s")
            assert sandbox.ask("GET", f"/sandbox/v1/inboxes/{name}")["received"] == 1


def test_an_inbox_that_is_the_start_of_several_names_is_refused_with_each_of_them() -> None:
    with Sandbox(seed=3) as sandbox:
        for number in range(3):
            sandbox.receiver(f"shop{number}").answers([500])
        with pytest.raises(ApiError, match=r"; did you mean one of shop0, shop1, shop2\?"):
            sandbox.ask("GET", "/sandbox/v1/inboxes/Shop")
        with pytest.raises(ApiError, match=r"; did you mean shop2\?"):
            sandbox.ask("GET", "/sandbox/v1/inboxes/shop2x")


def test_a_replay_of_the_deliveries_of_an_unknown_charge_is_refused() -> None:
    order = {"chargeId": "00000000-0000-4000-8000-000000000000"}
    with (
        Sandbox(seed=3) as sandbox,
        pytest.raises(ApiError, match="no Charge and no Static Charge of this sandbox has"),
    ):
        sandbox.ask("POST", "/sandbox/v1/deliveries/replay", order)


def test_payments_and_deliveries_have_the_filters_of_the_charge_service() -> None:
    with Sandbox(seed=3, start="2030-01-01T00:00Z") as sandbox:
        made = []
        for number in range(6):
            charge = sandbox.charges.create(
                amount="1000", description="tea", expiresIn=60, callbackUrl="http://a.localhost"
            )
            outcome = ("settle", "hold")[number % 2]
            made.append(sandbox.wallet("ana").pay(charge, outcome=outcome).id)
            sandbox.advance("1s")

        def listed(path: str) -> list[str]:
            found: list[str] = []
            after = ""
            while True:
                page = sandbox.ask("GET", f"/sandbox/v1/{path}&limit=1{after}")
                found += [row["id"] for row in page["data"]]
                if page["next"] is None:
                    return found
                after = f"&after={page['next']}"

        between = "createdAfter=2030-01-01T00:00:02Z&createdBefore=2030-01-01T00:00:05Z"
        assert listed(f"payments?{between}") == made[4:1:-1]
        assert listed(f"payments?{between}&status=held") == [made[3]]
        assert listed("payments?status=succeeded") == [made[4], made[2], made[0]]
        held = sandbox.ask("GET", f"/sandbox/v1/payments/{made[1]}")
        [charge_id] = [charge.id for charge in sandbox.charges if charge.request == held["request"]]
        assert listed(f"payments?chargeId={charge_id}&status=held") == [made[1]]
        assert listed(f"payments?chargeId={charge_id}&status=succeeded") == []
        assert listed(f"payments?chargeId={charge_id}&createdBefore=2030-01-01T00:00:01Z") == []
        sandbox.run()
        every = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
        for low in range(0, 65, 3):
            since, until = f"2030-01-01T00:{low // 60:02}:{low % 60:02}Z", "2030-01-01T00:01:03Z"
            expected = [row["id"] for row in every if since <= row["createdAt"].replace(".000", "") < until]
            assert listed(f"deliveries?createdAfter={since}&createdBefore={until}") == expected
        with pytest.raises(ApiError, match=r"query\.createdAfter"):
            sandbox.ask("GET", "/sandbox/v1/deliveries?createdAfter=yesterday")


def test_a_control_document_that_does_not_compile_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Contract:
        raise ContractError("paths./sandbox/v1/clock.get: getClokc has no handler; add ControlPlane.get_clokc")

    world = World(
        replace(world_config(seed=7, start_ms=0, control=True), control=broken),
        Store.memory(),
        control_handlers=control_handlers,
    )

    async def statuses() -> list[int]:
        transport = httpx2.ASGITransport(MultiTenantApp({"leyden": world}))
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", headers={"apikey": "leyden"}
        ) as client:
            paths = ("/sandbox/v1/clock", "/sandbox/v1/clock", "/sandbox/v1/deliveries", "/v0/charges")
            return [(await client.get(path)).status_code for path in paths]

    with caplog.at_level(logging.WARNING, logger="leyden"):
        assert asyncio.run(statuses()) == [500, 500, 500, 200]
    assert [record.getMessage() for record in caplog.records if record.name == "leyden"] == [
        "requests to /sandbox/v1 get 500: paths./sandbox/v1/clock.get: getClokc has no handler; add"
        " ControlPlane.get_clokc"
    ]
    # A request in process gets the same response, with a body too.
    for method, path, body in (("GET", "/sandbox/v1", b""), ("POST", "/sandbox/v1/clock/advance", b'{"by":"1s"}')):
        headers = ((b"apikey", b"leyden"), (b"content-type", b"application/json"))
        answer = send_request(world.app, method, path, headers, body)
        assert answer.status == 500
        assert "getClokc has no handler; add ControlPlane.get_clokc" in orjson.loads(answer.body)["detail"]


@pytest.mark.parametrize(
    ("schema", "name", "path", "place"),
    [
        ("Clock", "now", "/sandbox/v1/clock", "paths./sandbox/v1/clock.get.responses.200"),
        ("Sandbox", "seed", "/sandbox/v1", "paths./sandbox/v1.get.responses.200"),
    ],
)
def test_a_response_that_an_edited_document_excludes_is_a_500_with_the_field_and_the_mend(
    schema: str, name: str, path: str, place: str
) -> None:
    document = without_examples(read_yaml(default_spec("sandbox").read_bytes(), "sandbox.openapi.yaml"))
    document["components"]["schemas"][schema]["properties"][name] = {"type": "boolean"}
    contract = load_contract(document, known_as="sandbox.openapi.yaml")
    config = replace(world_config(seed=7, start_ms=0), control=lambda: contract)
    world = World(config, Store.memory(), control_handlers=control_handlers)
    answer = send_request(world.app, "GET", path, ((b"apikey", b"leyden"),))
    assert answer.status == 500
    detail = orjson.loads(answer.body)["detail"]
    assert f"does not match the spec: /{name}: " in detail
    assert detail.endswith(f"allow it in {place}")


def test_a_document_that_is_made_of_others_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may ask for it, and each time would cost as much as twenty other requests."""
    made = []
    original = merged_openapi.merged

    def counted(*documents: Any) -> Any:
        made.append(documents)
        return original(*documents)

    monkeypatch.setattr(merged_openapi, "merged", counted)
    bodies = set()
    for seed in (1, 2):
        with Sandbox(seed=seed) as sandbox:
            bodies |= {sandbox.request("GET", "/sandbox/v1/merged.json").body for _ in range(3)}
    assert (len(bodies), len(made)) == (1, 1)
