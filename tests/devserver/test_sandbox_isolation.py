"""Nothing leaks between the sandboxes of one server: neither with 200 clients at once nor by any operation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pytest

from leyden.server.contract.load import default_spec, load_contract
from leyden.server.contract.types import Operation
from leyden.world.snapshots.snapshots import dump_world
from leyden.world.world import World
from tests.support.deep import deep_except, deep_or
from tests.support.hosted import Answer, Hosted, in_server

Json = dict[str, Any]
INBOX = "http://shop.inbox.localhost"
CLIENTS, SEEDS = deep_or(bounded=15, full=60, random=200), 5


class TestClient:
    """One client with its own sandbox. `transcript` has every answer, without what differs between two sandboxes with
    the same seed: key, id and URL."""

    __test__ = False

    def __init__(self, server: Hosted, box: Json, *, at_root: bool) -> None:
        self.server = server
        self.box = box
        self.key = box["apiKey"]
        self.base = "" if at_root else box["url"]
        self.transcript: list[Any] = []

    async def ask(self, method: str, path: str, body: Any = None, *, key: str | None = None, **headers: str) -> Any:
        await asyncio.sleep(0)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        base = self.box["url"] if key == "" else self.base
        answer = await self.server.ask(method, base + path, body, key=(self.key if key is None else key or None),
                                       headers=sent)  # fmt: skip
        text = orjson.dumps([answer.status, answer.body]).decode()
        for own, name in ((self.box["url"], "URL"), (self.box["id"], "ID"), (self.key, "KEY")):
            text = text.replace(own, name)
        self.transcript.append((method, path, _lnurl_free(orjson.loads(text))))
        return answer.body

    async def run(self, seed: int) -> None:
        """What one test does; the order and the amounts depend on the seed alone."""
        rng = random.Random(seed)
        order = {"amount": str(1_000 * rng.randint(1, 90)), "description": f"tea {seed}", "callbackUrl": INBOX}
        charges = [
            (await self.ask("POST", "/v0/charges", order, idempotency_key=f"order-{number}"))["data"]
            for number in range(3)
        ]
        again = await self.ask("POST", "/v0/charges", order, idempotency_key="order-1")
        assert again["data"]["id"] == charges[1]["id"]
        tips = {"minAmount": "1000", "maxAmount": "9000", "description": "Tips", "identifier": "ana@shop.example",
                "callbackUrl": INBOX}  # fmt: skip
        static = (await self.ask("POST", "/v0/static-charges", tips))["data"]
        await self.ask("PUT", "/sandbox/v1/inboxes/shop.inbox/script", {"answers": [500, 200]})
        await self.ask("POST", "/sandbox/v1/faults", {"kind": "duplicate", "event": "charge.completed"})
        steps = [
            ("POST", "/sandbox/v1/payments", {"request": charges[0]["invoice"]["request"]}),
            ("POST", "/sandbox/v1/payments", {"request": static["invoice"]["request"]}),
            ("POST", f"/sandbox/v1/charges/{charges[1]['id']}/fail", {}),
            ("POST", "/sandbox/v1/clock/advance", {"by": "1m"}),
            ("POST", "/sandbox/v1/webhook-secret/rotate", None),
            ("GET", "/v0/wallet", None),
            ("POST", "/sandbox/v1/snapshots", {"name": "between"}),
        ]
        rng.shuffle(steps)
        for method, path, body in steps:
            await self.ask(method, path, body)
        for path in (f"/lnurlp/{static['id']}", "/.well-known/lnurlp/ana"):
            await self.ask("GET", path, key="")  # below the sandbox's own URL, as wallets do
        await self.ask("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
        for path in ("/v0/charges", "/v0/static-charges", "/sandbox/v1/payments", "/sandbox/v1/deliveries?bodies=true",
                     "/sandbox/v1/inboxes/shop.inbox", "/sandbox/v1/faults", "/sandbox/v1/webhook-secret",
                     "/sandbox/v1/journal"):  # fmt: skip
            await self.ask("GET", path)
        end = await self.ask("GET", "/sandbox/v1")
        fork = await self.server.ok("POST", self.base + "/sandbox/v1/fork", {}, key=self.key)
        there = await self.server.ok("GET", "/sandbox/v1/deliveries", key=fork["apiKey"])
        assert there == await self.ask("GET", "/sandbox/v1/deliveries")
        assert fork["now"] == end["now"]
        await self.ask("POST", "/sandbox/v1/diff", {"snapshot": "snapshot-1"})
        await self.ask("POST", "/sandbox/v1/restore", {"snapshot": "snapshot-1"})
        await self.ask("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
        await self.ask("GET", "/sandbox/v1/journal")
        assert await self.server.ok("GET", "/sandbox/v1/deliveries", key=fork["apiKey"]) == there


def _lnurl_free(value: Any) -> Any:
    """The value without texts that encode the URL of the sandbox in bech32, and without the size of a snapshot, which
    has its label."""
    if isinstance(value, Mapping):
        return {name: _lnurl_free(item) for name, item in value.items() if name != "bytes"}
    if isinstance(value, list):
        return [_lnurl_free(item) for item in value]
    return "LNURL" if isinstance(value, str) and "lnurl1" in value else value


def test_parallel_clients_each_see_what_they_would_see_alone() -> None:
    alone: dict[int, list[Any]] = {}

    async def by_itself(server: Hosted) -> None:
        for seed in range(SEEDS):
            client = TestClient(server, await server.create(seed=seed), at_root=True)
            await client.run(seed)
            alone[seed] = client.transcript

    async def crowd(server: Hosted) -> None:
        async def one(number: int) -> tuple[int, list[Any]]:
            seed = number % SEEDS
            box = await server.create(seed=seed, name=f"client {number}")
            client = TestClient(server, box, at_root=number % 2 == 0)
            await client.run(seed)
            if number % 3 == 0:
                await server.ok("DELETE", f"/sandbox/v1/sandboxes/{box['id']}")
            return seed, client.transcript

        found = await asyncio.gather(*(one(number) for number in range(CLIENTS)))
        for seed, transcript in found:
            assert transcript == alone[seed]
        assert len(server.first.journal) == 0

    in_server(by_itself)
    assert all(len(transcript) > 20 for transcript in alone.values())
    in_server(crowd)


# Every operation, with what belongs to another sandbox


class Owner:
    """A sandbox with something of every kind, and the texts that nobody else may see or use."""

    def __init__(self, server: Hosted, box: Json) -> None:
        self.server = server
        self.box = box
        self.world: World = server.world(box)
        self.ids: dict[str, str] = {}

    async def fill(self) -> None:
        async def ok(method: str, path: str, body: Any = None) -> Any:
            return await self.server.ok(method, path, body, key=self.box["apiKey"])

        body = {"amount": "7000", "description": "private-tea", "internalId": "private-order", "callbackUrl": INBOX}
        paid, held, open_ = [(await ok("POST", "/v0/charges", body))["data"] for _ in range(3)]
        payment = await ok("POST", "/sandbox/v1/payments", {"request": paid["invoice"]["request"]})
        holding = await ok("POST", "/sandbox/v1/payments", {"request": held["invoice"]["request"], "outcome": "hold"})
        tips = {"minAmount": "1000", "maxAmount": "1000", "description": "private-tips", "identifier": "ana@private"}
        static = (await ok("POST", "/v0/static-charges", tips))["data"]
        fault = await ok("POST", "/sandbox/v1/faults", {"kind": "drop", "chargeId": open_["id"]})
        service_fault = await ok("POST", "/sandbox/v1/service-faults", {"kind": "error", "status": 503, "nth": 9})
        await ok("PUT", "/sandbox/v1/inboxes/private.inbox/script", {"answers": [500]})
        await ok("POST", "/sandbox/v1/api-keys", {"key": "private-key"})
        await ok("POST", "/sandbox/v1/snapshots", {"name": "private-snapshot"})
        [delivery] = (await ok("GET", "/sandbox/v1/deliveries"))["data"]
        self.ids = {
            "charge": open_["id"], "paid": paid["id"], "static": static["id"], "payment": payment["id"],
            "held": holding["id"], "delivery": delivery["id"], "fault": fault["id"], "service fault":
            service_fault["id"], "payment hash": payment["paymentHash"], "preimage": payment["preimage"],
            "invoice": open_["invoice"]["request"], "lnurl": static["invoice"]["request"], "key": "private-key",
            "first key": self.box["apiKey"], "secret": self.box["webhookSecret"], "inbox": "private.inbox",
            "order": "private-order", "tea": "private-tea", "tips": "private-tips",
            "snapshot name": "private-snapshot",
        }  # fmt: skip

    def state(self) -> bytes:
        """Everything in the sandbox, its journal and its snapshots included."""
        snapshots = [b"".join(snapshot.content).decode() for snapshot in self.world.snapshots.page(None, None, 99)]
        return orjson.dumps([dump_world(self.world), snapshots], option=orjson.OPT_SORT_KEYS)


DOCUMENTS = {name: load_contract(default_spec(name)) for name in ("charges", "sandbox")}
OPERATIONS = [(name, operation) for name, contract in DOCUMENTS.items() for operation in contract.operations.values()]
# The fields of bodies that name something, with what is there to be named.
NAMING = {
    "chargeId": ("charge", "static"), "request": ("invoice", "lnurl"), "replaces": ("key", "first key"),
    "key": ("key",), "secret": ("secret",), "internalId": ("order",), "invoice": ("invoice",), "id": ("charge",),
}  # fmt: skip
ID_KINDS = ("charge", "paid", "static", "payment", "held", "delivery", "fault", "service fault")


def requests(name: str, operation: Operation, ids: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Requests to the operation that name what belongs to the other sandbox: path with query, and body."""
    paths = [operation.path]
    for parameter in operation.parameters:
        if parameter.location == "path":
            kinds = {"id": ID_KINDS, "paymentHash": ("payment hash",), "name": ("inbox",)}.get(parameter.name, ())
            only = {"user": "ana", "snapshot": "snapshot-1"}.get(parameter.name, "1")
            values = [ids[kind] for kind in kinds] or [only]
            paths = [path.replace("{" + parameter.name + "}", value) for path in paths for value in values]
    queries = [f"{p.name}={ids[NAMING[p.name][0]]}" for p in operation.parameters if p.name in NAMING
               and p.location == "query"]  # fmt: skip
    query = "?" + "&".join(queries) if queries else ""
    written = DOCUMENTS[name].document["paths"][operation.path][operation.method]
    content = written.get("requestBody", {}).get("content", {}).get("application/json", {})
    examples: list[Any] = [None]
    for entry in content.get("examples", {}).values():
        if "$ref" in entry:
            entry = DOCUMENTS[name].document["components"]["examples"][entry["$ref"].rpartition("/")[2]]
        examples.append(entry["value"])
    for path in paths:
        for example in examples:
            yield path + query, example
            named = {field: ids[NAMING[field][0]] for field in example or () if field in NAMING}
            if named:
                yield path + query, {**example, **named}
    for field in NAMING if operation.body is not None else ():
        if field in operation.body.properties:
            for kind in NAMING[field]:
                yield paths[0], {**next((one for one in examples if isinstance(one, dict)), {}), field: ids[kind]}


def leaked(answer: Answer, sent: str, ids: Mapping[str, str]) -> list[str]:
    """What the answer tells of the other sandbox beyond what the request had."""
    text = orjson.dumps(answer.body).decode() if not isinstance(answer.body, bytes) else answer.body.decode()
    return [kind for kind, value in ids.items() if value in text and value not in sent]


@pytest.mark.parametrize("where", deep_except(["root", "own URL", "foreign URL"], "own URL", "foreign URL"))
def test_no_operation_reads_or_changes_another_sandbox(where: str) -> None:
    async def scenario(server: Hosted) -> None:
        owner = Owner(server, await server.create(seed=11))
        await owner.fill()
        for name, operation in OPERATIONS:
            other = await server.create(seed=2)
            sent = ""  # what a sandbox was sent it may tell, in its journal for example
            before = owner.state()
            if where == "foreign URL" and not operation.secured:
                continue  # a wallet needs no key
            for path, body in requests(name, operation, owner.ids):
                if operation.operation_id == "waitForDeliveries":
                    body = {**(body or {}), "timeout": 0}
                if operation.operation_id in ("rotateApiKey", "reset"):
                    other = await server.create(seed=2)  # its key may have ended
                method = operation.method.upper()
                base = {"root": "", "own URL": other["url"], "foreign URL": owner.box["url"]}[where]
                answer = await server.ask(method, base + path, body, key=other["apiKey"])
                sent += path + orjson.dumps(body).decode()
                assert leaked(answer, sent, owner.ids) == [], (method, path, body, answer)
                if where == "foreign URL":
                    assert answer.status == 401, (method, path, answer)
                elif "{id}" in operation.path and operation.secured:
                    assert answer.status in (400, 404, 409, 415), (method, path, answer)
                if operation.operation_id == "addServiceFault":
                    other = await server.create(seed=2)  # one that changes no further response
            assert owner.state() == before, operation.operation_id
            tables = orjson.dumps(dump_world(server.first)["tables"]).decode()
            assert not any(value in tables for value in owner.ids.values()), operation.operation_id

    in_server(scenario)


def test_an_idempotency_key_of_another_sandbox_is_a_new_one() -> None:
    async def scenario(server: Hosted) -> None:
        one, two = await server.create(seed=1), await server.create(seed=2)
        answers = [
            await server.ask(
                "POST", "/v0/charges", {"amount": amount, "description": "tea"}, key=box["apiKey"],
                headers={"idempotency-key": "order-1"},
            )
            for box, amount in ((one, "1000"), (two, "2000"), (one, "1000"))
        ]  # fmt: skip
        assert [answer.status for answer in answers] == [200, 200, 200]
        assert [answer.headers.get("idempotent-replayed") for answer in answers] == [None, None, "true"]
        assert answers[0].body["data"]["id"] == answers[2].body["data"]["id"] != answers[1].body["data"]["id"]

    in_server(scenario)
