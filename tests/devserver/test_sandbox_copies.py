"""Snapshots, restores, forks and files of the sandboxes that a server creates."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leyden import Sandbox
from leyden.devserver.control import copies
from leyden.server.errors import Unauthorized
from leyden.server.http.limits.body_limit import BodyLimitMiddleware
from leyden.server.http.pipeline import BODY
from leyden.server.http.strict_json import LONG_BODY_BYTES
from leyden.world import stored_snapshots
from leyden.world.world import World
from tests.support.gate import Gate
from tests.support.hosted import Hosted, in_server
from tests.support.served import Client, listening_receiver, served_leyden

BOXES = "/sandbox/v1/sandboxes"
CHARGE = {"amount": "7000", "description": "tea", "expiresIn": 600, "callbackUrl": "http://shop.inbox.localhost"}


async def filled(server: Hosted, **order: Any) -> Any:
    box = await server.create(**{"seed": 3, **order})
    charge = (await server.ok("POST", "/v0/charges", CHARGE, key=box["apiKey"]))["data"]
    await server.ok("POST", "/v0/charges", CHARGE, key=box["apiKey"])
    await server.ok("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]}, key=box["apiKey"])
    await server.ok("POST", "/sandbox/v1/clock/advance", {"by": "1m"}, key=box["apiKey"])
    return box


async def go_on(server: Hosted, key: str) -> tuple[str, str]:
    """The same actions from here on: the id of a new Charge, and the hash of the journal."""
    charge = (await server.ok("POST", "/v0/charges", CHARGE, key=key))["data"]
    await server.ok("POST", "/sandbox/v1/clock/advance", {"until": "idle"}, key=key)
    return charge["id"], (await server.ok("GET", "/sandbox/v1", key=key))["journalHash"]


def test_a_restore_returns_to_the_snapshot_and_repeats_what_follows() -> None:
    async def scenario(server: Hosted) -> None:
        box = await filled(server)
        path = f"{BOXES}/{box['id']}"
        taken = await server.ask("POST", f"{path}/snapshots", {"name": "paid"})
        assert (taken.status, taken.body["name"], taken.body["now"]) == (201, "paid", "2030-01-01T00:01:00.000Z")
        after = await go_on(server, box["apiKey"])
        await server.ok("POST", "/sandbox/v1/api-keys", {"key": "later"}, key=box["apiKey"])
        for _ in range(2):
            shown = await server.ok("POST", f"{path}/restore", {"snapshot": taken.body["id"]})
            assert shown["now"] == taken.body["now"]
            again = await server.ok("GET", "/v0/charges", key="later")
            assert [row["status"] for row in again["data"]] == ["pending", "completed"]
            await server.ok("POST", f"{path}/restore", {"snapshot": taken.body["id"]})
            assert server.world(box).journal.hash == taken.body["journalHash"]
            assert await go_on(server, box["apiKey"]) == after
        assert (await server.ask("POST", f"{path}/restore", {"snapshot": "snapshot-9"})).status == 409

    in_server(scenario)


def test_a_fork_has_the_past_and_a_key_of_its_own() -> None:
    async def scenario(server: Hosted) -> None:
        box = await filled(server, name="first")
        path = f"{BOXES}/{box['id']}"
        snapshot = await server.ok("POST", f"{path}/snapshots")
        fork = await server.ok("POST", f"{path}/fork", {"name": "second", "ttl": "1h"})
        assert (fork["name"], fork["ttl"], fork["webhookSecret"]) == ("second", 3600, box["webhookSecret"])
        assert fork["apiKey"] != box["apiKey"]
        assert (await server.ask("GET", f"{fork['url']}/v0/charges", key=box["apiKey"])).status == 401
        reseeded = await server.ok("POST", f"{path}/fork", {"reseed": 8})
        after = await go_on(server, fork["apiKey"])
        assert after[0] != (await go_on(server, reseeded["apiKey"]))[0]
        assert server.world(box).clock.now() < server.world(fork).clock.now()
        assert len((await server.ok("GET", "/v0/charges", key=box["apiKey"]))["data"]) == 2
        earlier = await server.ok("POST", f"{path}/fork", {"snapshot": snapshot["id"]})
        assert server.world(earlier).journal.hash == snapshot["journalHash"]
        await server.ok("DELETE", path)
        assert len((await server.ok("GET", "/v0/charges", key=earlier["apiKey"]))["data"]) == 2

    in_server(scenario)


def test_a_file_has_the_same_hash_in_python_and_on_a_second_server(tmp_path: Path) -> None:
    states: list[Any] = []
    after: list[tuple[str, str]] = []

    async def first(server: Hosted) -> None:
        box = await filled(server, network="line:3")
        states.append(await server.ok("GET", f"{BOXES}/{box['id']}/export"))
        after.append(await go_on(server, box["apiKey"]))

    async def second(server: Hosted) -> None:
        imported = await server.ask("POST", f"{BOXES}/import?name=case&ttl=1h", states[0])
        box = imported.body
        assert (imported.status, box["name"], box["ttl"], box["rate"]) == (201, "case", 3600, 0)
        assert box["apiKey"] not in json.dumps(states[0])
        assert (await server.ask("GET", "/v0/charges", key=states[0]["config"]["api_key"])).status == 401
        assert (await server.ok("GET", f"{BOXES}/{box['id']}/export"))["journal"]["hash"] == states[0]["journal"][
            "hash"
        ]
        after.append(await go_on(server, box["apiKey"]))

    in_server(first)
    in_server(second, keys="other")
    file = tmp_path / "case.json"
    file.write_text(json.dumps(states[0]))
    with Sandbox.load(file) as sandbox:
        assert sandbox.world.journal.hash == states[0]["journal"]["hash"]
        created = sandbox.ask("POST", "/v0/charges", CHARGE)["data"]["id"]
        sandbox.ask("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
        after.append((created, sandbox.ask("GET", "/sandbox/v1")["journalHash"]))
    assert after[0] == after[1] == after[2]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), ("90s", 90), ("1h30m", 5_400), ("0", None), ("999999999", None)]
)
def test_the_time_to_live_of_an_import_is_a_span_or_seconds(text: str, seconds: float | None) -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create()
        state = await server.ok("GET", f"{BOXES}/{box['id']}/export")
        imported = await server.ask("POST", f"{BOXES}/import?ttl={text}", state)
        if seconds is None:
            assert imported.status == 409
            assert "ttl must be from 1 s to 366 days" in imported.body["detail"]
        else:
            assert (imported.status, imported.body["ttl"]) == (201, seconds)

    in_server(scenario)


def test_a_file_that_python_saved_is_imported(tmp_path: Path) -> None:
    with Sandbox(seed=5, start="2030-01-01T00:00Z") as sandbox:
        sandbox.charges.create(amount="1000", description="tea")
        state = json.loads(sandbox.save(tmp_path / "case.json").read_text())
        found = sandbox.world.journal.hash

    async def scenario(server: Hosted) -> None:
        box = await server.ok("POST", f"{BOXES}/import", state)
        assert server.world(box).journal.hash == found
        [charge] = (await server.ok("GET", "/v0/charges", key=box["apiKey"]))["data"]
        assert charge["description"] == "tea"

    in_server(scenario)


def test_an_import_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with Sandbox(seed=5) as sandbox:
        sandbox.charges.create(amount="1000", description="tea")
        saved = json.loads(sandbox.save(tmp_path / "case.json").read_text())

    async def scenario(server: Hosted) -> None:
        for table, field, value in (
            ("projects", "webhook_secrets", []),
            ("charges", "payment_hash", "00" * 32),
            ("invoices", "state", "SETTLED"),
        ):
            state = json.loads(json.dumps(saved))
            state["tables"][table]["rows"][0][1][field] = value
            answer = await server.ask("POST", f"{BOXES}/import", state)
            assert (answer.status, table in answer.body["detail"]) == (409, True), answer.body
        assert (await server.ok("GET", BOXES))["data"] == []

    in_server(scenario)


def test_a_sandbox_that_cannot_be_shown_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: Hosted) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(World, "webhook_secret", property(lambda world: [][0]))
            assert (await server.ask("POST", BOXES, {})).status == 500
        assert (await server.ok("GET", BOXES))["data"] == []

    in_server(scenario)


@pytest.mark.parametrize(
    ("state", "status", "words"),
    [
        ({}, 400, "format"),
        ({"format": 7}, 409, "has format 7"),
        ({"format": 2}, 409, "the body"),
        ({"format": 2, "more": 1}, 400, "more"),
    ],
)
def test_what_is_no_file_is_refused(state: Any, status: int, words: str) -> None:
    async def scenario(server: Hosted) -> None:
        answer = await server.ask("POST", f"{BOXES}/import", state)
        assert (answer.status, words in answer.body["detail"]) == (status, True), answer
        assert (await server.ok("GET", BOXES))["data"] == []

    in_server(scenario)


def test_an_import_opens_no_file_that_its_body_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("password: hunter2\n")
    names = [str(secret), "secret.yaml", "./secret.yaml", f"file://{secret}", "no-such-overlay"]
    opened: list[str] = []
    read_bytes = Path.read_bytes

    def noted(path: Path) -> bytes:
        opened.append(path.name)
        return read_bytes(path)

    async def scenario(server: Hosted) -> None:
        box = await filled(server)
        state = await server.ok("GET", f"{BOXES}/{box['id']}/export")
        listed = await server.ok("GET", BOXES)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(Path, "read_bytes", noted)
        for field in state["config"]:
            for name in names:
                for value in (name, [name], ["strict", name], {"$ref": name}, {"paths": {"$ref": name}}):
                    answer = await server.ask(
                        "POST", f"{BOXES}/import", {**state, "config": {**state["config"], field: value}}
                    )
                    if answer.status == 201:  # a text that is the name of something
                        assert (field, value) in [("api_key", name), ("project", name)]
                        await server.ok("DELETE", f"{BOXES}/{answer.body['id']}")
                    else:
                        assert answer.status == 409, (field, value, answer)
                        assert "hunter2" not in answer.body["detail"]
        assert secret.name not in opened
        assert [one["id"] for one in (await server.ok("GET", BOXES))["data"]] == [one["id"] for one in listed["data"]]
        strict = {**state, "config": {**state["config"], "overlays": ["strict"]}}
        assert (await server.ok("POST", f"{BOXES}/import", strict))["overlays"] == ["strict"]

    in_server(scenario)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("seed", (-1, 2**53, -(2**63), 2**63, 1.5, None, "7")),
        ("given_seed", (-1, 2**53, "7")),
        ("start_ms", (-1, 31_535_999_999, 32_503_680_000_000, None)),
        ("api_key", ("", " ", "tab\t", "é", "k" * 201, None)),
        ("keep", (-1, 2**63, "all")),
        ("network", ("", "line:1", "line:100001", "line:4 ", 4)),
        ("overlays", (None, "strict", [None], ["Strict"], ["strict", "strict"])),
    ],
)
def test_an_import_that_a_request_for_a_sandbox_could_not_make_leaves_nothing(
    field: str, values: tuple[object, ...]
) -> None:
    async def scenario(server: Hosted) -> None:
        box = await filled(server)
        state = await server.ok("GET", f"{BOXES}/{box['id']}/export")
        for value in values:
            body = {**state, "config": {**state["config"], field: value}}
            answer = await server.ask("POST", f"{BOXES}/import", body)
            assert (answer.status, "the body" in answer.body["detail"]) == (409, True), (value, answer)
            assert [one["id"] for one in (await server.ok("GET", BOXES))["data"]] == [box["id"]]
        assert (await server.ask("POST", f"{BOXES}/import", state)).status == 201

    in_server(scenario)


def test_snapshots_are_listed_deleted_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_snapshots, "MAX_SNAPSHOTS", 3)

    async def scenario(server: Hosted) -> None:
        box = await filled(server)
        path = f"{BOXES}/{box['id']}/snapshots"
        ids = [(await server.ok("POST", path))["id"] for _ in range(3)]
        assert (await server.ask("POST", path)).status == 409
        await server.ok("POST", "/sandbox/v1/reset", {}, key=box["apiKey"])
        page = await server.ok("GET", f"{path}?limit=2")
        rest = await server.ok("GET", f"{path}?after={page['next']}")
        assert [row["id"] for row in [*page["data"], *rest["data"]]] == ids[::-1]
        await server.ok("DELETE", f"{path}/{ids[1]}")
        assert (await server.ask("DELETE", f"{path}/{ids[1]}")).status == 404
        assert (await server.ok("POST", path))["id"] == "snapshot-4"

    in_server(scenario)


def test_a_live_clock_runs_on_after_a_restore() -> None:
    async def scenario(server: Hosted) -> None:
        box = await server.create(rate=1)
        await server.ok("POST", "/v0/charges", {**CHARGE, "expiresIn": 60}, key=box["apiKey"])
        path = f"{BOXES}/{box['id']}"
        snapshot = await server.ok("POST", f"{path}/snapshots")
        server.now_ms += 3_600_000
        assert (await server.ok("GET", "/v0/charges", key=box["apiKey"]))["data"][0]["status"] == "expired"
        shown = await server.ok("POST", f"{path}/restore", {"snapshot": snapshot["id"]})
        assert (shown["now"], shown["rate"]) == (snapshot["now"], 1)
        assert (await server.ok("GET", "/v0/charges", key=box["apiKey"]))["data"][0]["status"] == "pending"
        server.now_ms += 61_000
        await asyncio.sleep(0.6)
        assert (await server.ok("GET", "/v0/charges", key=box["apiKey"]))["data"][0]["status"] == "expired"

    in_server(scenario)


def test_copies_over_http_and_while_a_callback_is_in_flight() -> None:
    with served_leyden("--rate", "0") as client, listening_receiver() as (hook, inbox):
        box = client.ok("POST", BOXES, {"seed": 3})
        own = Client(client.url, box["apiKey"])
        own.ok("POST", "/v0/charges", {**CHARGE, "expiresIn": 60, "callbackUrl": f"{hook}/hook"})
        own.ok("POST", "/sandbox/v1/clock/advance", {"by": "2m"})
        assert inbox.get(timeout=10)[1]["status"] == "expired"
        state = client.ok("GET", f"{BOXES}/{box['id']}/export")
        assert client.ok("POST", f"{BOXES}/import", state)["id"] != box["id"]
        assert client("POST", f"{BOXES}/{box['id']}/fork", {})[0] == 201


@pytest.mark.parametrize(("size", "status"), [(12 << 20, 201), (16 << 20, 201), ((16 << 20) + 1, 413)])
def test_a_file_is_imported_up_to_the_bound_that_the_document_names(size: int, status: int) -> None:
    with served_leyden("--rate", "0") as client:
        box = client.ok("POST", BOXES, {"name": "a"})
        state = json.dumps(client.ok("GET", f"{BOXES}/{box['id']}/export")).encode()
        connection = http.client.HTTPConnection(client.url.removeprefix("http://"), timeout=60)
        with closing(connection):
            connection.request("POST", f"{BOXES}/import", state.ljust(size), {"content-type": "application/json"})
            answer = connection.getresponse()
            body = json.loads(answer.read())
        assert answer.status == status, body
        if status == 413:
            assert body["detail"].endswith(
                "serve a larger file of a sandbox in Python, with Sandbox.load(path).serve()"
            )


def test_a_fork_and_an_import_send_nothing_to_the_network_unless_they_are_told_to() -> None:
    with served_leyden("--rate", "0") as client, listening_receiver(500) as (hook, inbox):
        server = client.url
        box = client.ok("POST", BOXES, {"seed": 3})
        own, path = Client(server, box["apiKey"]), f"{BOXES}/{box['id']}"
        own.ok("POST", "/v0/charges", {**CHARGE, "expiresIn": 60, "callbackUrl": f"{hook}/hook"})
        own.ok("POST", "/v0/charges", {**CHARGE, "expiresIn": 60})
        own.ok("POST", "/sandbox/v1/clock/advance", {"by": "60s"})
        sent = inbox.get(timeout=10)[0]["webhook-id"]
        taken = client.ok("POST", f"{path}/snapshots")["id"]
        state = client.ok("GET", f"{path}/export")
        fork = client.ok("POST", f"{path}/fork", {"snapshot": taken})
        for copy in (fork, client.ok("POST", f"{BOXES}/import", state)):
            mine = Client(server, copy["apiKey"])
            again = client.ok("POST", f"{BOXES}/{copy['id']}/snapshots")["id"]
            for _ in range(2):
                mine.ok("POST", "/sandbox/v1/clock/advance", {"by": "10m"})
                rows = mine.ok("GET", "/sandbox/v1/deliveries")["data"]
                tried = [(a["status"], a["error"], a["note"] or "") for row in rows for a in row["attempts"]]
                assert sorted(status for status, _, _ in tried if status) == [200, 500]
                blocked = [note for _, error, note in tried if error == "blocked"]
                assert blocked
                assert all(note.startswith("egress-none: ") and '"server"' in note for note in blocked)
                client.ok("POST", f"{BOXES}/{copy['id']}/restore", {"snapshot": again})
        mine = Client(server, fork["apiKey"])
        mine.ok("POST", "/sandbox/v1/reset")
        mine.ok("POST", "/v0/charges", {**CHARGE, "expiresIn": 60, "callbackUrl": f"{hook}/hook"})
        mine.ok("POST", "/sandbox/v1/clock/advance", {"by": "60s"})
        [delivery] = mine.ok("GET", "/sandbox/v1/deliveries")["data"]
        assert delivery["attempts"][0]["error"] == "blocked"
        assert inbox.empty()
        for copy in (
            client.ok("POST", f"{path}/fork", {"egress": "server"}),
            client.ok("POST", f"{BOXES}/import?egress=server", state),
        ):
            Client(server, copy["apiKey"]).ok("POST", "/sandbox/v1/clock/advance", {"by": "1m"})
            assert inbox.get(timeout=10)[0]["webhook-id"] == sent
        while not inbox.empty():
            inbox.get()
        client.ok("POST", f"{path}/restore", {"snapshot": taken})
        own.ok("POST", "/sandbox/v1/clock/advance", {"by": "1m"})
        assert inbox.get(timeout=10)[0]["webhook-id"] == sent


def test_a_sandbox_with_a_callback_in_flight_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: Hosted) -> None:
        box = await filled(server)
        with monkeypatch.context() as patched:
            patched.setattr("leyden.callbacks.transport.TransportRouter.is_waiting", True)
            for method, path in (("POST", "snapshots"), ("POST", "fork"), ("GET", "export")):
                answer = await server.ask(method, f"{BOXES}/{box['id']}/{path}")
                assert (answer.status, "between two states" in answer.body["detail"]) == (409, True)
        assert (await server.ask("POST", f"{BOXES}/{box['id']}/fork")).status == 201

    in_server(scenario)


def test_what_changed_since_a_snapshot_and_in_another_sandbox_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: Hosted) -> None:
        box = await filled(server)
        path = f"{BOXES}/{box['id']}"
        tips = {"minAmount": "1000", "maxAmount": "1000", "description": "Tips"}
        await server.ok("POST", "/v0/static-charges", tips, key=box["apiKey"])
        snapshot = await server.ok("POST", f"{path}/snapshots")
        fork = await server.ok("POST", f"{path}/fork")
        against = ({"snapshot": snapshot["id"]}, {"sandbox": fork["id"]})
        for other in against:
            assert await server.ok("POST", f"{path}/diff", other) == {"count": 0, "differences": []}
        [pending, _] = (await server.ok("GET", "/v0/charges", key=box["apiKey"]))["data"]
        await server.ok("POST", f"/sandbox/v1/charges/{pending['id']}/fail", {}, key=box["apiKey"])
        for other in against:
            found = await server.ok("POST", f"{path}/diff", other)
            row = {"table": "charges", "id": pending["id"], "field": "status", "here": "error", "there": "pending"}
            assert row in found["differences"]
            assert found["count"] == len(found["differences"]) > 1
        monkeypatch.setattr(copies, "MAX_DIFFERENCES", 1)
        cut = await server.ok("POST", f"{path}/diff", against[0])
        assert (cut["count"], len(cut["differences"])) == (found["count"], 1)
        assert (await server.ask("POST", f"{path}/diff", {})).status == 400
        assert (await server.ask("POST", f"{path}/diff", {"sandbox": "sbx_nobody"})).status == 409
        await server.ok("GET", "/v0/charges", key=box["apiKey"])

    in_server(scenario)


@pytest.mark.parametrize("step", ["parse", "find_errors"])
def test_requests_are_answered_while_a_long_file_is_parsed_and_checked(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_long(value: Any, body: Any = None, **_: Any) -> bool:
        return len(value if step == "parse" else body.get("label") or "") > LONG_BODY_BYTES

    gate = Gate(monkeypatch, f"leyden.server.http.request_parsing.{step}", is_long)

    async def scenario(server: Hosted) -> None:
        box = await filled(server)
        state = (await server.ask("GET", f"{BOXES}/{box['id']}/export")).body
        body = {**state, "label": "long" * LONG_BODY_BYTES}
        importing = asyncio.create_task(server.ask("POST", f"{BOXES}/import", body))
        await asyncio.sleep(0)
        await server.ok("POST", "/v0/charges", CHARGE, key=box["apiKey"])
        assert not importing.done()
        gate.open()
        answer = await importing
        assert answer.status in {201, 409}, answer.body

    in_server(scenario)


@pytest.mark.parametrize("authorized", [True, False])
def test_a_long_body_of_an_unauthorized_client_is_not_kept(authorized: bool) -> None:
    """A megabyte arrives in parts of 16 KiB; the application sees it whole, or the first part alone."""
    seen: list[int] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(len(scope[BODY]))

    def authenticate(headers: Any, query: bytes) -> str:
        if not authorized:
            raise Unauthorized("no token")
        return ""

    async def run() -> None:
        parts = [{"type": "http.request", "body": b"x" * 16_384, "more_body": left > 0} for left in range(63, -1, -1)]

        async def receive() -> Any:
            return parts.pop(0)

        pipeline: Any = SimpleNamespace(authenticate=authenticate)
        middleware = BodyLimitMiddleware(application, pipeline, 16 << 20, "send less")
        await middleware({"type": "http", "headers": [], "query_string": b""}, receive, application)
        assert not parts, "all of it is read"

    asyncio.run(run())
    assert seen == [1 << 20 if authorized else LONG_BODY_BYTES]


def test_a_token_is_asked_for_before_a_file_is_read() -> None:
    with served_leyden("--rate", "0", "--admin-token", "secret-token") as client:
        connection = http.client.HTTPConnection(client.url.removeprefix("http://"), timeout=60)
        with closing(connection):
            connection.request("POST", f"{BOXES}/import", b"{" * (1 << 20), {"content-type": "application/json"})
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["code"]) == (401, "unauthorized")


def test_requests_are_answered_while_a_fork_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    for snapshot in (False, True):
        gate = Gate(monkeypatch, "leyden.world.snapshots.snapshots.restore_world")

        async def scenario(server: Hosted, snapshot: bool = snapshot, gate: Gate = gate) -> None:
            box = await filled(server)
            path = f"{BOXES}/{box['id']}"
            body = {"snapshot": (await server.ok("POST", f"{path}/snapshots"))["id"]} if snapshot else {}
            forking = asyncio.create_task(server.ok("POST", f"{path}/fork", body))
            await asyncio.sleep(0)
            later = (await server.ok("POST", "/v0/charges", CHARGE, key=box["apiKey"]))["data"]
            await server.ok("GET", "/v0/charges", key="leyden")
            assert not forking.done()
            gate.open()
            fork = await forking
            ids = {row["id"] for row in (await server.ok("GET", "/v0/charges", key=fork["apiKey"]))["data"]}
            assert len(ids) == 2
            assert later["id"] not in ids, "it has the state of its beginning"

        in_server(scenario)
        monkeypatch.undo()


def test_requests_are_answered_while_a_snapshot_is_read_to_return_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, "leyden.world.stored_snapshots.decoded")

    async def scenario(server: Hosted) -> None:
        box = await filled(server)
        path = f"{BOXES}/{box['id']}"
        taken = await server.ok("POST", f"{path}/snapshots")
        restoring = asyncio.create_task(server.ok("POST", f"{path}/restore", {"snapshot": taken["id"]}))
        await asyncio.sleep(0)
        await server.ok("POST", "/v0/charges", CHARGE, key=box["apiKey"])
        assert len((await server.ok("GET", "/v0/charges", key=box["apiKey"]))["data"]) == 3
        assert not restoring.done()
        gate.open()
        await restoring
        assert len((await server.ok("GET", "/v0/charges", key=box["apiKey"]))["data"]) == 2

    in_server(scenario)
