"""Resets and restores of a sandbox while another thread sends requests to it: each request sees one run."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import httpx2
import pytest

from leyden import Sandbox
from tests.support.hosted import Hosted, in_server

CHARGES, RESET = "/v0/charges", "/sandbox/v1/reset"
TEA = {"amount": "21000", "description": "tea", "expiresIn": 600}
TIPS = {"minAmount": "1000", "maxAmount": "2000", "description": "tips", "identifier": "tips@localhost"}
READS = (
    CHARGES,
    "/v0/static-charges",
    "/sandbox/v1",
    "/sandbox/v1/charges",
    "/sandbox/v1/deliveries",
    "/sandbox/v1/payments",
    "/sandbox/v1/inboxes",
    "/sandbox/v1/requests?text=tea",
    "/sandbox/v1/search?text=tea",
    "/sandbox/v1/clock/due",
    "/sandbox/v1/journal?limit=10",
    "/sandbox/v1/webhook-secret",
    "/openapi.json",
)
RESETS = 50

Send = Callable[[str, str, Any], int]


@contextmanager
def requests_meanwhile(send: Send) -> Iterator[Counter[tuple[str, int]]]:
    """Send requests of every kind in another thread; counts the path and the status of each."""
    seen: Counter[tuple[str, int]] = Counter()
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            for method, path, body in [("POST", CHARGES, TEA), *(("GET", path, None) for path in READS)]:
                seen[path, send(method, path, body)] += 1

    thread = threading.Thread(target=work)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # the threads alternate within a step of either
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(interval_s)


def over_http(url: str, key: str) -> Send:
    def send(method: str, path: str, body: Any) -> int:
        raw = None if body is None else json.dumps(body).encode()
        headers = {"apikey": key, "content-type": "application/json"}
        try:
            with urlopen(Request(url + path, raw, headers, method=method), timeout=30) as response:
                response.read()
                return int(response.status)
        except HTTPError as refused:
            return refused.code

    return send


def in_process(sandbox: Sandbox) -> Send:
    client = sandbox.http
    return lambda method, path, body: client.request(method, path, json=body).status_code


def fill(sandbox: Sandbox) -> None:
    for number in range(5):
        sandbox.charges.create(amount="1000", description=f"tea {number}", callbackUrl="http://shop.localhost/")
    sandbox.ask("POST", "/v0/static-charges", TIPS)


@pytest.mark.parametrize("served", [True, False])
def test_requests_during_resets_see_one_run(served: bool) -> None:
    with Sandbox(seed=7) as sandbox:
        send = over_http(sandbox.serve(), sandbox.api_key) if served else in_process(sandbox)
        with requests_meanwhile(send) as seen:
            for _ in range(RESETS):
                fill(sandbox)
                sandbox.ask("POST", RESET)
        assert {status for _, status in seen} == {200}, seen


def test_requests_during_restores_see_one_run() -> None:
    with Sandbox(seed=7) as sandbox:
        fill(sandbox)
        snapshot = sandbox.ask("POST", "/sandbox/v1/snapshots", {})["id"]
        with requests_meanwhile(over_http(sandbox.serve(), sandbox.api_key)) as seen:
            for _ in range(RESETS):
                sandbox.charges.create(amount="1000", description="tea")
                sandbox.ask("POST", "/sandbox/v1/restore", {"snapshot": snapshot})
        assert {status for _, status in seen} == {200}, seen


def test_an_event_stream_during_resets_shows_one_run_after_the_other() -> None:
    with Sandbox(seed=7) as sandbox:
        url, got, ended = sandbox.serve(), [], threading.Event()

        def follow() -> None:
            headers = {"apikey": sandbox.api_key}
            with httpx2.stream("GET", f"{url}/sandbox/v1/events", headers=headers, timeout=30) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        got.append(json.loads(line.removeprefix("data: ")))
                    if ended.is_set() and got[-1].get("run") == RESETS + 1:
                        return

        follower = threading.Thread(target=follow)
        follower.start()
        with requests_meanwhile(over_http(url, sandbox.api_key)) as seen:
            for _ in range(RESETS):
                fill(sandbox)
                sandbox.ask("POST", RESET)
        ended.set()
        follower.join(30)
        assert not follower.is_alive()
        assert {status for _, status in seen} == {200}
        runs = [event["run"] for event in got if "run" in event]
        assert runs == sorted(runs)


def test_restores_in_python_during_requests_in_process_show_one_run() -> None:
    with Sandbox(seed=7) as sandbox:
        fill(sandbox)
        snapshot = sandbox.snapshot()
        with requests_meanwhile(in_process(sandbox)) as seen:
            for _ in range(RESETS):
                sandbox.charges.create(amount="1000", description="tea")
                sandbox.restore(snapshot)
        assert {status for _, status in seen} == {200}, seen


@pytest.mark.parametrize("how", ["reset", "restore"])
def test_a_request_whose_body_arrives_during_a_reset_is_one_of_the_next_run(how: str) -> None:
    async def scenario(server: Hosted) -> None:
        snapshot = await server.ok("POST", "/sandbox/v1/snapshots", {}, key="leyden")
        order = {} if how == "reset" else {"snapshot": snapshot["id"]}
        rest, got = asyncio.Event(), []
        fault = {"kind": "unknown_fields", "operation": "createCharge"}
        await server.ok("POST", "/sandbox/v1/service-faults", fault, key="leyden")

        async def receive() -> Any:
            await rest.wait()
            return {"type": "http.request", "body": json.dumps(TEA).encode(), "more_body": False}

        async def send(message: Any) -> None:
            got.append(message)

        headers = {"host": "localhost", "apikey": "leyden", "content-type": "application/json"}
        scope = {
            "type": "http", "method": "POST", "path": CHARGES, "raw_path": CHARGES.encode(), "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "root_path": "", "scheme": "http", "client": ("127.0.0.1", 1), "server": None,
        }  # fmt: skip
        task = asyncio.ensure_future(server.app(scope, receive, send))
        await asyncio.sleep(0)
        await server.ok("POST", f"/sandbox/v1/{how}", order, key="leyden")
        rest.set()
        await task
        assert got[0]["status"] == 200
        created = json.loads(got[1]["body"])
        assert "x_unknown" not in created  # a fault of the former run
        await server.ok("POST", "/sandbox/v1/clock/advance", {"by": "601s"}, key="leyden")
        charge = await server.ok("GET", f"{CHARGES}/{created['data']['id']}", key="leyden")
        assert charge["data"]["status"] == "expired"  # the run that has it has its timer, too
        kinds = [entry["kind"] for entry in await server.ok("GET", "/sandbox/v1/journal", key="leyden")]
        assert "created" in kinds
        assert "service_fault_hit" not in kinds
        logged = await server.ok("GET", "/sandbox/v1/requests?operation=createCharge", key="leyden")
        assert [(row["status"], row["serviceFault"]) for row in logged["data"]] == [(200, None)]

    in_server(scenario)


def test_a_request_shows_what_the_program_made_due_before_it() -> None:
    with Sandbox(seed=7) as sandbox, httpx2.Client(base_url=sandbox.serve(), headers={"apikey": "leyden"}) as client:
        charge = sandbox.charges.create(amount="250000", description="tea", callbackUrl="http://shop.localhost/hook")
        sandbox.wallet("ana").pay(charge)
        assert client.get(f"/v0/charges/{charge.id}").json()["data"]["status"] == "completed"
        assert client.get("/v0/wallet").json()["data"]["balance"] == "250000"
        assert len(sandbox.receiver("shop").inbox) == 1
        script, digest = sandbox.script(), sandbox.journal_hash
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["sb"].journal_hash == digest
