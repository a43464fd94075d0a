"""Sandboxes that a server creates over HTTP: who may, what each has of its own, and how they end."""

from __future__ import annotations

import asyncio
import base64
import errno
import gc
import json
import os
import queue
import re
import stat
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from leyden.devserver.control import charges as charge_control
from leyden.devserver.sandboxes import operations
from leyden.devserver.sandboxes.admin_access import AdminAccess
from leyden.devserver.sandboxes.factory import SandboxFactory
from leyden.devserver.startup.addresses import admin_token
from leyden.lightning import engine_factory
from leyden.lightning.topology.graph import Graph
from leyden.server import app
from leyden.server.app import ApiMount, LazyMount
from leyden.server.docs import page
from leyden.server.errors import ContractError, Unauthorized
from leyden.server.http.request_parsing import RequestParser
from leyden.server.store.table import RowTable
from leyden.world.world import World
from tests.support.hosted import Hosted, in_server
from tests.support.served import Client, listening_receiver, served_leyden, started_server

BOXES = "/sandbox/v1/sandboxes"
CHARGE = {"amount": "1000", "description": "tea", "expiresIn": 60, "callbackUrl": "http://shop.inbox.localhost"}
TIPS = {"minAmount": "1000", "maxAmount": "1000", "description": "Tips", "identifier": "ana@localhost"}


async def until(done: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not done():
            await asyncio.sleep(0.01)


def test_a_created_sandbox_is_what_its_request_says() -> None:
    async def scenario(server: Hosted) -> None:
        order = {"name": "test_x[1]", "seed": 7, "start": "2031-05-01T10:00:00+02:00", "rate": 0, "ttl": "90s"}
        answer = await server.ask("POST", BOXES, {**order, "overlays": ["strict"], "network": "direct"})
        box = answer.body
        assert answer.status == 201
        assert box["url"] == f"{box['serverUrl']}/sandboxes/{box['id']}"
        assert (box["name"], box["seed"], box["start"], box["rate"], box["ttl"]) == (
            "test_x[1]", 7, "2031-05-01T08:00:00.000Z", 0, 90
        )  # fmt: skip
        inside = await server.ok("GET", f"{box['url']}/sandbox/v1", key=box["apiKey"])
        assert (inside["seed"], inside["overlays"], inside["publicUrl"]) == (7, ["strict"], box["url"])
        secret = await server.ok("GET", "/sandbox/v1/webhook-secret", key=box["apiKey"])
        assert [row["secret"] for row in secret["secrets"]] == [box["webhookSecret"]]
        unknown_field = await server.ask("POST", "/v0/charges", {**CHARGE, "callback_url": "x"}, key=box["apiKey"])
        assert unknown_field.status == 400
        shown = await server.ok("GET", f"{BOXES}/{box['id']}")
        assert {**shown, "idle": 0} == {**{name: box[name] for name in shown}, "idle": 0}  # real seconds
        assert box.keys() - shown.keys() == {"apiKey", "webhookSecret"}

    in_server(scenario)


def test_a_sandbox_has_the_defaults_of_its_server() -> None:
    async def scenario(server: Hosted) -> None:
        one, two = await server.create(), await server.ask("POST", BOXES)
        assert (one["start"], one["rate"], one["overlays"], one["ttl"]) == (
            "2030-01-01T00:00:00.000Z", 5, ["strict"], None
        )  # fmt: skip
        assert two.status == 201
        assert two.body["seed"] != one["seed"]
        assert one["webhookSecret"] == two.body["webhookSecret"] == "whsec_bGV5ZGVuIGV4YW1wbGUgc2VjcmV0IG9rYXk="

    secret = "whsec_bGV5ZGVuIGV4YW1wbGUgc2VjcmV0IG9rYXk="
    in_server(scenario, rate=5.0, overlays=("strict",), webhook_secret=secret)


@pytest.mark.parametrize(
    ("order", "status", "words"),
    [
        ({"speed": 1}, 400, "speed is not a field"),
        ({"seed": -1}, 400, "/seed"),
        ({"overlays": ["../../etc/passwd"]}, 400, "/overlays/0"),
        ({"overlays": ["stirct"]}, 409, "there are:"),
        ({"network": "ring:5"}, 409, "is not a network"),
        ({"webhookSecret": "secret"}, 409, "whsec_"),
        ({"ttl": "100ms"}, 409, "from 1 s to 366 days"),
        ({"ttl": "999999999w"}, 409, "from 1 s to 366 days"),
        ({"ttl": 0.5}, 400, "/ttl"),
        ({"name": "a\nb"}, 400, "/name"),
    ],
)
def test_what_cannot_be_is_refused(order: dict[str, Any], status: int, words: str) -> None:
    async def scenario(server: Hosted) -> None:
        answer = await server.ask("POST", BOXES, order)
        assert (answer.status, words in answer.body["detail"]) == (status, True), answer
        assert (await server.ok("GET", BOXES))["data"] == []

    in_server(scenario)


def test_each_has_its_own_clock_data_journal_inboxes_and_names() -> None:
    async def scenario(server: Hosted) -> None:
        one, two = [await server.create(seed=3) for _ in range(2)]
        charge = (await server.ok("POST", "/v0/charges", CHARGE, key=one["apiKey"]))["data"]
        before = await server.ok("GET", "/sandbox/v1", key=two["apiKey"])
        await server.ok("POST", "/sandbox/v1/clock/advance", {"by": "2m"}, key=one["apiKey"])
        statics = [
            (await server.ok("POST", "/v0/static-charges", TIPS, key=box["apiKey"]))["data"] for box in (one, two)
        ]
        assert (await server.ask("GET", f"/v0/charges/{charge['id']}", key=two["apiKey"])).status == 404
        after = await server.ok("GET", "/sandbox/v1", key=two["apiKey"])
        assert (after["now"], after["charges"]) == (before["now"], {})
        assert (await server.ok("GET", "/sandbox/v1/inboxes", key=two["apiKey"]))["data"] == []
        assert len((await server.ok("GET", "/sandbox/v1/inboxes", key=one["apiKey"]))["data"]) == 1
        for box, static in zip((one, two), statics, strict=True):
            for path in (f"/lnurlp/{static['id']}", "/.well-known/lnurlp/ana"):
                found = await server.ok("GET", box["url"] + path)
                assert found["callback"].startswith(box["url"] + "/lnurlp/")
            paid = await server.ok(
                "POST", "/sandbox/v1/payments", {"request": static["invoice"]["request"]}, key=box["apiKey"]
            )
            assert paid["status"] == "succeeded"
        assert (await server.ask("GET", "/.well-known/lnurlp/ana")).body["status"] == "ERROR"

    in_server(scenario)


def test_the_same_seed_and_requests_give_the_same_journal() -> None:
    async def scenario(server: Hosted) -> None:
        hashes = []
        for _ in range(2):
            box = await server.create(seed=3)
            await server.ok("POST", "/v0/charges", CHARGE, key=box["apiKey"])
            await server.ok("POST", "/sandbox/v1/clock/advance", {"until": "idle"}, key=box["apiKey"])
            hashes.append((await server.ok("GET", "/sandbox/v1", key=box["apiKey"]))["journalHash"])
            await server.ok("GET", BOXES)
        assert hashes[0] == hashes[1]

    in_server(scenario)


def test_sandboxes_with_one_seed_share_ids_and_the_webhook_secret_unless_one_is_given() -> None:
    async def scenario(server: Hosted) -> None:
        other = "whsec_" + base64.b64encode(bytes(32)).decode()
        boxes = [await server.create(**more) for more in ({"seed": 3}, {"seed": 3}, {"seed": 4})]
        boxes.append(await server.create(seed=3, webhookSecret=other))
        ids = [(await server.ok("POST", "/v0/charges", CHARGE, key=box["apiKey"]))["data"]["id"] for box in boxes]
        secrets = [box["webhookSecret"] for box in boxes]
        assert ids[0] == ids[1] == ids[3] != ids[2]
        assert secrets[0] == secrets[1] != secrets[2]
        assert secrets[3] == other

    in_server(scenario)


def test_the_user_part_of_a_lightning_address_is_unique_in_a_sandbox_whatever_follows_it() -> None:
    async def scenario(server: Hosted) -> None:
        for _ in range(2):
            key = (await server.create())["apiKey"]
            for identifier, status in (
                ("ana@shop.example", 200),
                ("ana@another.example", 409),
                ("bob@shop.example", 200),
            ):
                answer = await server.ask("POST", "/v0/static-charges", {**TIPS, "identifier": identifier}, key=key)
                assert answer.status == status
                if status == 409:
                    assert answer.body["detail"].startswith("the user name ana is in use below this URL")

    in_server(scenario)


def test_requests_to_the_server_are_in_no_journal() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create()
        for method, path in (("GET", BOXES), ("GET", f"{BOXES}/{box['id']}"), ("GET", f"{BOXES}/x")):
            await server.ask(method, path)
        assert len(server.first.journal) == len(server.world(box).journal) == 0

    in_server(scenario)


def test_a_key_works_in_its_own_sandbox_only() -> None:
    async def scenario(server: Hosted) -> None:
        one, two = await server.create(), await server.create()
        entries = len(server.world(one).journal)
        for key in (two["apiKey"], "leyden"):
            answer = await server.ask("GET", f"{one['url']}/v0/charges", key=key)
            assert (answer.status, "another sandbox" in answer.body["detail"]) == (401, True)
        assert len(server.world(one).journal) == entries
        assert (await server.ask("GET", f"{one['url']}/v0/charges", key="unknown")).status == 401
        assert (await server.ask("GET", f"{one['url']}/v0/charges")).status == 401

    in_server(scenario)


def test_paths_of_the_server_below_the_url_of_a_sandbox_are_refused_with_the_servers_url() -> None:
    async def scenario(server: Hosted) -> None:
        box, other = await server.create(), await server.create()
        for method, path in (
            ("POST", BOXES),
            ("DELETE", f"{BOXES}/{other['id']}"),
            ("POST", f"{BOXES}/import"),
            ("GET", "/sandbox/v1/server/openapi.json"),
            ("GET", "/sandbox/v1/server/docs"),
            ("GET", f"{BOXES}/{other['id']}/clock"),
            ("GET", "/healthz"),
            ("GET", "/readyz"),
            ("GET", f"/sandboxes/{other['id']}/v0/wallet"),
        ):
            answer = await server.ask(method, f"{box['url']}{path}", key=box["apiKey"])
            assert answer.status == 404, path
            found = re.fullmatch(
                r'(".+") belongs to the server, not to a sandbox: ask at ([^,]+)(?:, whose paths are listed at (.+))?',
                answer.body["detail"],
            )
            assert found is not None
            assert found.groups()[:2] == (f'"{path}"', box["serverUrl"])
            if found[3] is None:
                assert (await server.ask("GET", path)).status == 200
            else:
                assert (await server.ask("GET", found[3])).status == 200
                document = await server.ask("GET", "/sandbox/v1/server/openapi.json")
                is_listed = any(each.split("{")[0] in path for each in document.body["paths"])
                assert is_listed or path.startswith(("/sandbox/v1/server/", "/sandboxes/"))
        unknown = await server.ask("GET", "/sandboxes/sbx_0000000000000000/v0/wallet")
        assert unknown.status == 404
        assert 'has no sandbox "sbx_0000000000000000": list them with GET /sandbox/v1/s' in unknown.body["detail"]

    in_server(scenario)


def test_further_keys_lead_to_their_sandbox_and_are_issued_once_on_a_server() -> None:
    async def scenario(server: Hosted) -> None:
        one, two = await server.create(), await server.create()
        await server.ok("POST", "/sandbox/v1/api-keys", {"key": "second"}, key=one["apiKey"])
        third = await server.ok("POST", "/sandbox/v1/api-keys/rotate", {"replaces": one["apiKey"]}, key=one["apiKey"])
        taken = await server.ask("POST", "/sandbox/v1/api-keys", {"key": "second"}, key=two["apiKey"])
        assert (taken.status, "issued before" in taken.body["detail"]) == (409, True)
        assert (await server.ask("GET", "/v0/charges", key=one["apiKey"])).body["detail"].count("replaced") == 1
        for key in ("second", third["key"]):
            await server.ok("POST", "/v0/charges", CHARGE, key=key)
        assert len(server.world(one).service.charges.charges) == 2
        await server.ok("DELETE", f"{BOXES}/{one['id']}")
        assert (await server.ask("POST", "/sandbox/v1/api-keys", {"key": "second"}, key=two["apiKey"])).status == 409
        assert (await server.ask("GET", "/v0/charges", key="second")).status == 401

    in_server(scenario)


def test_the_list_has_pages_and_a_filter() -> None:
    async def scenario(server: Hosted) -> None:
        boxes = [await server.create(name="even" if number % 2 == 0 else "odd") for number in range(5)]
        first = await server.ok("GET", f"{BOXES}?limit=2")
        await server.ok("DELETE", f"{BOXES}/{boxes[3]['id']}")
        await server.create(name="later")
        rest = await server.ok("GET", f"{BOXES}?limit=100&after={first['next']}")
        assert [row["id"] for row in [*first["data"], *rest["data"]]] == [box["id"] for box in reversed(boxes)]
        assert rest["next"] is None
        even = await server.ok("GET", f"{BOXES}?name=even")
        assert [row["id"] for row in even["data"]] == [boxes[4]["id"], boxes[2]["id"], boxes[0]["id"]]

    in_server(scenario)


def test_a_reset_by_the_server_keeps_the_key_and_repeats_a_seed() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create(seed=3)
        first = (await server.ok("POST", "/v0/charges", CHARGE, key=box["apiKey"]))["data"]
        shown = await server.ok("POST", f"{BOXES}/{box['id']}/reset", {"seed": 3, "start": "2030-06-01T00:00:00Z"})
        assert (shown["seed"], shown["now"]) == (3, "2030-06-01T00:00:00.000Z")
        assert (await server.ok("GET", "/v0/charges", key=box["apiKey"]))["data"] == []
        again = (await server.ok("POST", "/v0/charges", CHARGE, key=box["apiKey"]))["data"]
        assert again["id"] == first["id"]
        assert (await server.ok("POST", f"{BOXES}/{box['id']}/reset"))["seed"] != 3
        assert (await server.ask("POST", f"{BOXES}/sbx_nobody/reset")).status == 404

    in_server(scenario)


def test_a_deleted_sandbox_answers_401_with_the_reason_and_leaves_the_memory() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create(name="gone", ttl="1h")
        await server.ok("POST", "/v0/charges", CHARGE, key=box["apiKey"])
        world = weakref.ref(server.world(box))
        assert (await server.ok("DELETE", f"{BOXES}/{box['id']}"))["id"] == box["id"]
        for method, path in (("GET", "/v0/charges"), ("POST", "/v0/charges"), ("GET", f"{box['url']}/v0/charges")):
            answer = await server.ask(method, path, key=box["apiKey"])
            assert answer.status == 401
            assert f"the sandbox {box['id']} (gone) was deleted" in answer.body["detail"]
            assert answer.headers["www-authenticate"] == 'ApiKey header="apikey"'
        again = await server.ask("DELETE", f"{BOXES}/{box['id']}")
        assert (again.status, "was deleted" in again.body["detail"]) == (404, True)
        await until(lambda: gc.collect() >= 0 and world() is None)

    in_server(scenario)


def test_the_deletion_of_a_sandbox_ends_its_waits() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create()
        waiting = asyncio.create_task(
            server.ok("POST", "/sandbox/v1/deliveries/wait", {"timeout": 5}, key=box["apiKey"])
        )
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await server.ok("DELETE", f"{BOXES}/{box['id']}")
        async with asyncio.timeout(60):
            waited = await waiting
        note = "the end of the sandbox ended this wait: create another one"
        assert waited == {"reached": False, "count": 0, "note": note}

    in_server(scenario)


@pytest.mark.parametrize(
    "move", [{"by": "1h"}, {"to": "2030-01-01T02:00:00Z"}, {"until": "idle"}, {"until": "next_event"}]
)
@pytest.mark.parametrize("expiry_s", [60, 86_000])
def test_the_deletion_of_a_sandbox_ends_its_moves_of_time_with_a_refusal(move: dict[str, str], expiry_s: int) -> None:
    """The move waits for the answer of a receiver, which is out before it begins or is posted within it."""

    async def scenario(server: Hosted, hook: str, posts: queue.Queue[Any], answers: threading.Event) -> None:
        box = await server.create()
        charge = {"amount": "1000", "description": "tea"}
        paid = {**charge, "callbackUrl": hook, "expiresIn": expiry_s}
        made = await server.ok("POST", "/v0/charges", paid, key=box["apiKey"])
        await server.ok("POST", "/v0/charges", {**charge, "expiresIn": 120}, key=box["apiKey"])
        if expiry_s > 120:
            pay = {"request": made["data"]["invoice"]["request"]}
            await server.ok("POST", "/sandbox/v1/payments", pay, key=box["apiKey"])
        moving = asyncio.create_task(server.ask("POST", "/sandbox/v1/clock/advance", move, key=box["apiKey"]))
        await asyncio.to_thread(posts.get, timeout=30)
        await server.ok("DELETE", f"{BOXES}/{box['id']}")
        async with asyncio.timeout(60):
            refused = await moving
        ended = r"the end of the sandbox ended this move of time, after \d of its events: create another one"
        assert (refused.status, bool(re.fullmatch(ended, refused.body["detail"]))) == (409, True)
        answers.set()

    answers = threading.Event()
    with listening_receiver(answers=answers) as (hook, posts):
        in_server(lambda server: scenario(server, hook, posts, answers), egress="loopback")


def test_the_links_of_a_sandbox_that_ended_get_the_error_of_their_protocol() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create()
        fields = {"minAmount": "1000", "maxAmount": "2000", "description": "tea", "identifier": "ana@shop.example"}
        made = (await server.ok("POST", "/v0/static-charges", fields, key=box["apiKey"]))["data"]
        targets = [f"/lnurlp/{made['id']}", f"/lnurlp/{made['id']}/invoice?amount=1000", "/.well-known/lnurlp/ana"]
        for target in targets:
            answer = await server.ask("GET", f"{box['url']}{target}")
            assert (answer.status, answer.body.get("status")) == (200, None)
        await server.ok("DELETE", f"{BOXES}/{box['id']}")
        for target in targets:
            answer = await server.ask("GET", f"{box['url']}{target}")
            assert (answer.status, answer.body["status"]) == (200, "ERROR")
            assert "has ended: ask for a new link" in answer.body["reason"]
            assert answer.headers["access-control-allow-origin"] == "*"
        assert (await server.ask("GET", f"{box['url']}/v0/charges")).status == 401

    in_server(scenario)


def test_a_payment_link_is_answered_whatever_key_the_request_has() -> None:
    """A link needs no key, and its sandbox has not ended because the client has the key of another one."""

    async def scenario(server: Hosted) -> None:
        box, other = await server.create(), await server.create()
        fields = {"minAmount": "1000", "maxAmount": "2000", "description": "tea", "identifier": "ana@shop.example"}
        link = (await server.ok("POST", "/v0/static-charges", fields, key=box["apiKey"]))["data"]["id"]
        for target in (f"/lnurlp/{link}", f"/lnurlp/{link}/invoice?amount=1000", "/.well-known/lnurlp/ana"):
            for key in (other["apiKey"], "leyden", box["apiKey"], "nobody", None):
                answer = await server.ask("GET", f"{box['url']}{target}", key=key)
                assert (answer.status, answer.body.get("status")) == (200, None), (key, answer.body)
        listed = await server.ok("GET", "/v0/charges", key=box["apiKey"])
        assert len(listed["data"]) == 5
        assert (await server.ask("GET", f"{box['url']}/v0/charges", key=other["apiKey"])).status == 401

    in_server(scenario)


def test_without_a_control_plane_its_paths_are_those_of_a_server_with_one() -> None:
    with served_leyden("--rate", "0", "--no-control") as client:
        for path in ("/sandbox/v1/sandboxes", "/sandbox/v1/server/docs", "/sandbox/v1/sandboxes/import"):
            status, problem = client("GET", path)
            assert status == 404
            assert problem["detail"].endswith("start `leyden serve` without this option")
            assert "in process" not in problem["detail"]


def test_a_request_whose_sandbox_ends_while_it_arrives_is_refused_as_the_next_one() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create()
        answers = []
        for target, body in (("/v0/charges", {"amount": "1000", "description": "tea"}), ("/sandbox/v1/reset", {})):
            other = await server.create()
            text = json.dumps(body).encode()

            async def parts(other: Any = other, text: bytes = text) -> AsyncIterator[bytes]:
                yield text[:1]
                await server.ok("DELETE", f"{BOXES}/{other['id']}")
                yield text[1:]

            answers.append(await server.ask("POST", target, parts(), key=other["apiKey"]))
        for answer in answers:
            assert answer.status == 401
            assert "was deleted" in answer.body["detail"]
        await server.ok("GET", "/v0/charges", key=box["apiKey"])

    in_server(scenario)


def test_a_sandbox_ends_when_it_had_no_request_during_its_time_to_live() -> None:
    async def scenario(server: Hosted) -> None:
        box, other = await server.create(ttl=1), await server.create()
        found = server.app.sandbox_of_id(box["id"])
        assert found is not None
        # It is looked at when it expires first, and then again.
        found.used_at_s += 0.3
        await asyncio.sleep(1.1)
        assert server.app.sandbox_of_id(box["id"]) is not None
        await until(lambda: server.app.sandbox_of_id(box["id"]) is None)
        answer = await server.ask("GET", "/v0/charges", key=box["apiKey"])
        assert (answer.status, "no request for 1 s (its ttl)" in answer.body["detail"]) == (401, True)
        await server.ok("GET", "/v0/charges", key=other["apiKey"])

    in_server(scenario)


def test_a_request_in_progress_keeps_its_sandbox() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create(ttl=1)
        found = server.app.sandbox_of_id(box["id"])
        assert found is not None
        waiting = asyncio.create_task(
            server.ask("POST", "/sandbox/v1/deliveries/wait", {"timeout": 1.5}, key=box["apiKey"])
        )
        await asyncio.sleep(0)
        found.used_at_s -= 100
        assert (await waiting).status == 200
        assert server.app.sandbox_of_id(box["id"]) is found

    in_server(scenario)


def test_a_live_clock_runs_events_without_requests() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create(rate=1)
        world = server.world(box)
        await server.ok("POST", "/v0/charges", CHARGE, key=box["apiKey"])
        server.now_ms += 59_990
        world.clock.now()
        # A request schedules the next event, 10 ms later; then the real clock goes on.
        await server.ok("GET", "/sandbox/v1/clock", key=box["apiKey"])
        server.now_ms += 20
        await until(lambda: world.service.charges.charges.counts("status").get(("expired",)) == 1)

    in_server(scenario)


def test_the_event_loop_does_not_look_at_idle_sandboxes(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[World] = []
    real = World.real_seconds_until_due

    def counted(self: World) -> float | None:
        looked.append(self)
        return real(self)

    async def scenario(server: Hosted) -> None:
        boxes = [await server.create(rate=number % 2) for number in range(20)]
        for box in boxes:
            await server.ok("POST", "/v0/charges", {**CHARGE, "expiresIn": 3600}, key=box["apiKey"])
        await asyncio.sleep(0.05)
        looked.clear()
        monkeypatch.setattr(World, "real_seconds_until_due", counted)
        live = await server.create(rate=1)
        await asyncio.sleep(0.05)
        await server.ok("POST", "/v0/charges", CHARGE, key=live["apiKey"])
        await asyncio.sleep(0.05)
        assert server.first in looked
        assert not {server.world(box) for box in boxes} & set(looked)

    in_server(scenario)


def test_a_contract_is_compiled_once_for_each_reading() -> None:
    async def scenario(server: Hosted) -> None:
        boxes = [await server.create(overlays=overlays) for overlays in ([], ["strict"], ["strict"], [])]
        contracts = [server.world(box).config.contract for box in boxes]
        assert contracts[0] is contracts[3] is server.first.config.contract
        assert contracts[1] is contracts[2] is not contracts[0]

    in_server(scenario)


def test_there_is_a_greatest_number_of_sandboxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MAX_SANDBOXES", 2)

    async def scenario(server: Hosted) -> None:
        first = await server.create()
        await server.create()
        full = await server.ask("POST", BOXES, {})
        assert (full.status, "with a ttl" in full.body["detail"]) == (409, True)
        await server.ok("DELETE", f"{BOXES}/{first['id']}")
        await server.create()

    in_server(scenario)


# Who may


def test_a_token_that_was_given_is_needed() -> None:
    async def scenario(server: Hosted) -> None:
        for headers, words in (
            ({}, "the header Authorization is missing"),
            ({"apikey": "leyden"}, "is not the admin token"),
            ({"authorization": "Bearer secret-tokem"}, "another one"),
            ({"authorization": "secret-token"}, "write Bearer"),
        ):
            for method, path in (("POST", BOXES), ("GET", BOXES), ("DELETE", f"{BOXES}/x"), ("GET", f"{BOXES}/x")):
                answer = await server.ask(method, path, headers=headers)
                assert (answer.status, words in answer.body["detail"]) == (401, True), answer
                assert answer.headers["www-authenticate"] == "Bearer"
                assert "secret-token" not in answer.body["detail"]
        allowed = await server.ask("POST", BOXES, {}, headers={"authorization": "bearer secret-token"})
        assert allowed.status == 201
        # The sandbox itself asks for its own key only.
        await server.ok("POST", "/sandbox/v1/clock/advance", {"by": 1}, key=allowed.body["apiKey"])
        assert (await server.ask("GET", "/sandbox/v1/server/openapi.json")).status == 200

    in_server(scenario, token="secret-token")


def test_pages_of_other_sites_are_refused_without_a_token_too() -> None:
    async def scenario(server: Hosted) -> None:
        for headers, status in (
            ({"host": "evil.example"}, 421),
            ({"origin": "http://evil.example"}, 403),
            ({"sec-fetch-site": "cross-site"}, 403),
            ({"sec-fetch-site": "Cross-Site"}, 403),
            ({"sec-fetch-site": "cross-site \t"}, 403),
        ):
            for method, path in (("POST", BOXES), ("GET", BOXES), ("DELETE", f"{BOXES}/x")):
                assert (await server.ask(method, path, headers=headers)).status == status
        box = await server.create()
        foreign = {"origin": "http://evil.example"}
        assert (await server.ask("GET", f"{box['url']}/v0/charges", key=box["apiKey"], headers=foreign)).status == 403
        statics = await server.ok("POST", "/v0/static-charges", TIPS, key=box["apiKey"])
        lnurl = await server.ask("GET", f"{box['url']}/lnurlp/{statics['data']['id']}", headers=foreign)
        assert lnurl.status == 200

    in_server(scenario)


def test_beyond_loopback_a_random_token_is_made_and_kept(tmp_path: Path) -> None:
    assert admin_token(None, ":memory:", is_local=True) == (None, False)
    assert admin_token("given-token", str(tmp_path), is_local=False) == ("given-token", False)
    made, is_new = admin_token(None, str(tmp_path / "data"), is_local=False)
    assert made is not None
    assert is_new
    assert len(made) >= 32
    assert admin_token(None, str(tmp_path / "data"), is_local=False) == (made, True)
    [file] = (tmp_path / "data").iterdir()
    assert (file.name, stat.S_IMODE(file.stat().st_mode)) == ("admin-token", 0o600)
    assert admin_token(None, ":memory:", is_local=False)[0] != made


def test_a_server_without_a_token_is_open() -> None:
    assert AdminAccess(None).authenticate({}, b"") == ""
    with pytest.raises(Unauthorized, match="missing"):
        AdminAccess("secret-token").authenticate({}, b"")


# Over HTTP


def test_sandboxes_end_with_their_server_also_with_data(tmp_path: Path) -> None:
    options = ("--rate", "0", "--data", str(tmp_path), "--admin-token", "secret-token")
    admin = {"authorization": "Bearer secret-token"}
    with started_server(*options) as (client, printed):
        assert client("POST", BOXES, {})[0] == 401
        status, box = client("POST", BOXES, {"name": "here"}, **admin)
        assert status == 201
        own = Client(client.url, box["apiKey"])
        charge = own.ok("POST", "/v0/charges", CHARGE)["data"]
        assert client("GET", f"/v0/charges/{charge['id']}")[0] == 404
        assert own.ok("GET", f"/sandboxes/{box['id']}/v0/charges/{charge['id']}")["data"]["status"] == "pending"
    assert "secret-token" not in printed()
    with served_leyden(*options) as client:
        assert client("GET", BOXES, **admin)[1] == {"data": [], "next": None}
        assert Client(client.url, box["apiKey"])("GET", "/v0/charges")[0] == 401
        assert Client(client.url, "leyden").ok("GET", "/v0/charges")["data"] == []


def test_the_start_message_shows_a_random_token_beyond_loopback() -> None:
    with started_server("--host", "0.0.0.0", "--api-key", "some-key") as (client, printed):
        assert client("POST", BOXES, {})[0] == 401
        assert client("GET", "/v0/charges")[0] == 200
    [line] = [line for line in printed().splitlines() if line.startswith("admin token: leyden_")]
    assert "POST /sandbox/v1/sandboxes" in line


def test_without_a_control_plane_there_are_no_sandboxes() -> None:
    with served_leyden("--no-control") as client:
        assert client("POST", BOXES, {})[0] == 404


def test_the_refusals_for_a_deleted_sandbox_have_ids_of_their_own() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create()
        await server.ok("DELETE", f"{BOXES}/{box['id']}")
        gone = [await server.ask("GET", "/v0/charges", key=box["apiKey"]) for _ in range(2)]
        assert [one.status for one in gone] == [401, 401]
        assert len({one.body["request_id"] for one in gone} - {""}) == 2

    in_server(scenario)


def test_of_an_id_that_may_have_been_removed_the_refusal_says_so() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create()
        ids = []
        for _ in range(3):
            body = {"amount": "1000", "description": "tea", "expiresIn": 1}
            ids.append((await server.ok("POST", "/v0/charges", body, key=box["apiKey"]))["data"]["id"])
        wait = ("POST", "/sandbox/v1/deliveries/wait", {"chargeId": "8f14e45f-ceea-467f-a8b5-91f3d5a1c0de"})
        assert "--keep" not in (await server.ask(*wait, key=box["apiKey"])).body["detail"]
        await server.ok("POST", "/sandbox/v1/clock/advance", {"by": "1m"}, key=box["apiKey"])
        gone = await server.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": ids[0]}, key=box["apiKey"])
        assert gone.status == 409
        assert gone.body["detail"].endswith("; --keep has removed some that ended")

    in_server(scenario, keep=1)


def test_other_requests_are_answered_while_a_sandbox_with_a_network_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, create = list[threading.Thread](), SandboxFactory.create

    def recorded(factory: SandboxFactory, *given: Any, **named: Any) -> World:
        threads.append(threading.current_thread())
        return create(factory, *given, **named)

    async def scenario(server: Hosted) -> None:
        monkeypatch.setattr(SandboxFactory, "create", recorded)
        networks = ["direct", "star:12"]
        created = [await server.create(seed=5, network=network) for network in networks]
        assert [one["network"] for one in created] == networks
        assert [one is threading.main_thread() for one in threads] == [True, False]
        assert "scipy.sparse.csgraph" in sys.modules  # what the first payment needs

    in_server(scenario)


def test_other_requests_are_answered_while_a_network_is_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, generate = list[threading.Thread](), engine_factory.generate

    def recorded(*given: Any, **named: Any) -> Graph:
        threads.append(threading.current_thread())
        return generate(*given, **named)

    async def scenario(server: Hosted) -> None:
        box = await server.create(seed=5, network="star:12")
        key = box["apiKey"]
        shop = await server.ok("GET", "/sandbox/v1/network/nodes/shop", key=key)
        snapshot = await server.ok("POST", "/sandbox/v1/snapshots", {}, key=key)
        monkeypatch.setattr(engine_factory, "generate", recorded)
        reset = await server.ok("POST", "/sandbox/v1/reset", {}, key=key)
        assert reset["seed"] != 5
        assert await server.ok("GET", "/sandbox/v1/network/nodes/shop", key=key) != shop
        await server.ok("POST", "/sandbox/v1/reset", {"seed": 5}, key=key)
        assert await server.ok("GET", "/sandbox/v1/network/nodes/shop", key=key) == shop
        await server.ok("POST", "/sandbox/v1/reset", {}, key=key)
        await server.ok("POST", "/sandbox/v1/restore", {"snapshot": snapshot["id"]}, key=key)
        assert await server.ok("GET", "/sandbox/v1/network/nodes/shop", key=key) == shop
        assert len(threads) == 4
        resets = [server.ok("POST", "/sandbox/v1/reset", {}, key=key) for _ in range(4)]
        assert len({reset["seed"] for reset in await asyncio.gather(*resets)}) == 4
        assert threading.main_thread() not in threads

    in_server(scenario)


def test_other_requests_are_answered_while_the_first_details_of_a_charge_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, load = list[threading.Thread](), charge_control._steps_function

    def recorded() -> Any:
        threads.append(threading.current_thread())
        return load()

    async def scenario(server: Hosted) -> None:
        box = await server.create(seed=5)
        key = box["apiKey"]
        created = await server.ok("POST", "/v0/charges", {"amount": "1000", "description": "tea"}, key=key)
        monkeypatch.setattr(charge_control, "_steps_function", recorded)
        shown = await server.ok("GET", f"/sandbox/v1/charges/{created['data']['id']}", key=key)
        assert shown["charge"]["id"] == created["data"]["id"]
        assert threads
        assert threading.main_thread() not in threads

    in_server(scenario)


def test_other_requests_are_answered_while_the_first_page_of_the_documentation_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, draw = list[threading.Thread](), page.docs_page

    def recorded(*given: Any) -> str:
        threads.append(threading.current_thread())
        return draw(*given)

    async def scenario(server: Hosted) -> None:
        app._page.cache_clear()
        monkeypatch.setattr(page, "docs_page", recorded)
        for path in ("/docs", "/sandbox/v1/docs", "/docs"):
            assert (await server.ask("GET", path)).status == 200
        assert len(threads) == 2
        assert threading.main_thread() not in threads

    in_server(scenario)


@pytest.mark.parametrize("what", ["payments", "charges"])
def test_other_requests_are_answered_while_a_page_of_large_rows_is_read(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    reads, pauses = list[int](), list[int]()

    class EachSlice:
        def is_over(self) -> bool:
            return True

        async def pause(self) -> None:
            pauses.append(len(reads))

    async def scenario(server: Hosted) -> None:
        box = await server.create(seed=5)
        key = box["apiKey"]
        ids = []
        for number in range(50):
            body = {"amount": "1000", "description": f"tea {number}"}
            created = await server.ok("POST", "/v0/charges", body, key=key)
            request = created["data"]["invoice"]["request"]
            paid = await server.ok("POST", "/sandbox/v1/payments", {"request": request}, key=key)
            ids.append(paid["id"] if what == "payments" else created["data"]["id"])
        monkeypatch.setattr(World, "slices", lambda world: EachSlice())
        read = RowTable.page

        def recorded(table: RowTable, *given: Any, **named: Any) -> Any:
            rows = read(table, *given, **named)
            reads.append(len(rows))
            return rows

        monkeypatch.setattr(RowTable, "page", recorded)
        first = await server.ok("GET", f"/sandbox/v1/{what}?limit=45", key=key)
        assert [row["id"] for row in first["data"]] == ids[:4:-1]
        assert (reads, pauses) == ([20, 20, 6], [1, 2])
        rest = await server.ok("GET", f"/sandbox/v1/{what}?limit=45&after={first['next']}", key=key)
        assert ([row["id"] for row in rest["data"]], rest["next"]) == (ids[4::-1], None)

    in_server(scenario)


def test_requests_for_which_no_file_can_be_opened_get_503(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A module is imported on its first use, for example, while many connections are open."""

    def fail(*given: Any, **named: Any) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/somewhere")

    def fail_to_read(*given: Any, **named: Any) -> Any:
        try:
            fail()
        except OSError as error:
            raise ContractError("cannot read this spec (Too many open files)") from error

    def stop(*given: Any, **named: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    async def scenario(server: Hosted) -> None:
        for holder, name, method, path, body in (
            (SandboxFactory, "create", "POST", BOXES, {}),
            (RequestParser, "parse_request", "GET", "/v0/charges", None),
            (type(server.app), "_respond_from", "GET", "/v0/charges", None),
        ):
            for failure in (fail, fail_to_read):
                with monkeypatch.context() as patched:
                    patched.setattr(holder, name, failure)
                    answer = await server.ask(method, path, body, key="leyden" if body is None else None)
                assert (answer.status, answer.body["code"]) == (503, "server_busy")
        assert caplog.records == []
        with monkeypatch.context() as patched:
            patched.setattr(type(server.app), "_respond_from", stop)
            with pytest.raises(PermissionError):
                await server.ask("GET", "/v0/charges", key="leyden")

    in_server(scenario)


def test_a_control_plane_that_could_not_be_read_because_no_file_was_left_is_read_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> ApiMount:
        try:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        except OSError:
            raise ContractError("cannot read this spec (Too many open files)") from None

    async def scenario(server: Hosted) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(LazyMount, "make", property(lambda mount: fail))
            answer = await server.ask("GET", "/sandbox/v1/clock", key="leyden")
        assert (answer.status, answer.body["code"]) == (503, "server_busy")
        assert (await server.ok("GET", "/sandbox/v1/clock", key="leyden"))["rate"] == 0
        assert caplog.records == []

    in_server(scenario)
