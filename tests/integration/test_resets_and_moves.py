"""A reset and a restore end the run before: its moves of time, waits, events and the responses to its callbacks."""

from __future__ import annotations

import http.client
import json
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from leyden import Sandbox
from leyden.errors import ClockError
from tests.support.served import Client, served_leyden

START = "2030-01-01T00:00:00.000Z"
FROZEN = ("--rate", "0", "--start", START, "--seed", "7")
ENDED = "a reset or a restore ended this move of time"


class Held:
    """A receiver on this machine that keeps each request until `release` gives its status."""

    def __init__(self) -> None:
        self.url = ""
        self._asked = threading.Semaphore(0)
        self._requests: list[queue.Queue[int]] = []

    def status(self) -> int:
        """Called for each request: the status of its response."""
        mine: queue.Queue[int] = queue.Queue()
        self._requests.append(mine)
        self._asked.release()
        return mine.get(timeout=12)

    def wait_asked(self) -> None:
        """Wait for one more request."""
        assert self._asked.acquire(timeout=10)

    def release(self, number: int, status: int) -> None:
        """Let the response to a request, counted from 0, go."""
        self._requests[number].put(status)

    def release_rest(self) -> None:
        """At the end of a test."""
        for one in self._requests:
            one.put(200)


@contextmanager
def held_receiver() -> Iterator[Held]:
    held = Held()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            status = held.status()
            with suppress(OSError):
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    held.url = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        yield held
    finally:
        held.release_rest()
        server.shutdown()
        server.server_close()


@contextmanager
def served_in_process() -> Iterator[Client]:
    with Sandbox(seed=7, start=START) as sandbox:
        yield Client(sandbox.serve())


@pytest.fixture(params=["process", "thread"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A paused sandbox, served by a process of its own or by a thread beside the test."""
    opened: Callable[[], Any] = (lambda: served_leyden(*FROZEN)) if request.param == "process" else served_in_process
    with opened() as client:
        yield client


def connection_to(client: Client) -> http.client.HTTPConnection:
    where = urlsplit(client.url)
    return http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)


def create(client: Client, url: str | None = None, expires_in_s: int = 60) -> str:
    body = {"amount": "1000", "description": "tea", "expiresIn": expires_in_s, "callbackUrl": url}
    found: str = client.ok("POST", "/v0/charges", body)["data"]["id"]
    return found


def paid(client: Client, url: str) -> str:
    charge_id = create(client, url, 3_600)
    request = client.ok("GET", f"/v0/charges/{charge_id}")["data"]["invoice"]["request"]
    client.ok("POST", "/sandbox/v1/payments", {"request": request})
    return charge_id


ENDS = {"reset": {"seed": 8}, "restore": {"snapshot": "snapshot-1"}}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("body", [{"by": "1h"}, {"to": "2030-01-01T01:00:00Z"}, {"until": "idle"}])
def test_an_advance_that_waits_for_a_receiver_ends_with_the_run(client: Client, body: dict[str, str], end: str) -> None:
    client.ok("POST", "/sandbox/v1/snapshots")
    with held_receiver() as receiver, closing(connection_to(client)) as connection:
        paid(client, receiver.url)
        receiver.wait_asked()
        # Sent before the other requests: one of them would wait for the receiver in its place.
        sent = {"apikey": client.key, "content-type": "application/json"}
        connection.request("POST", "/sandbox/v1/clock/advance", json.dumps(body), sent)
        while client("POST", "/sandbox/v1/clock/advance", {"by": 0})[0] != 409:
            pass  # the other one is not waiting yet
        client.ok("POST", f"/sandbox/v1/{end}", ENDS[end])
        response = connection.getresponse()  # before the receiver answers
        status, problem = response.status, json.load(response)
        assert status == 409
        assert ENDED in problem["detail"]
        charge_id = create(client)
        assert client.ok("POST", "/sandbox/v1/clock/advance", {"by": "59s"})["now"] == "2030-01-01T00:00:59.000Z"
        receiver.release(0, 200)
        assert client.ok("GET", f"/v0/charges/{charge_id}")["data"]["status"] == "pending"
        assert client.ok("POST", "/sandbox/v1/clock/advance", {"by": "1s"})["count"] == 1
        assert client.ok("GET", f"/v0/charges/{charge_id}")["data"]["status"] == "expired"


@pytest.mark.parametrize("end", ENDS)
def test_a_response_to_the_former_run_is_none_to_the_same_attempt_of_the_new_one(client: Client, end: str) -> None:
    """A reset with the same seed and a restore repeat the ids, those of the deliveries included."""
    client.ok("POST", "/sandbox/v1/snapshots")
    with held_receiver() as receiver:
        ids = []
        for _ in range(2):
            client.ok("POST", f"/sandbox/v1/{end}", ENDS[end])
            paid(client, receiver.url)
            receiver.wait_asked()
            ids.append(client.ok("GET", "/sandbox/v1/deliveries")["data"][0]["id"])
        assert ids[0] == ids[1]
        receiver.release(0, 410)
        for _ in range(20):  # enough round trips for the response
            assert client.ok("GET", "/sandbox/v1/deliveries")["data"][0]["status"] == "pending"
        receiver.release(1, 200)
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": 0})
        assert client.ok("GET", "/sandbox/v1/deliveries")["data"][0]["status"] == "delivered"


@pytest.mark.parametrize("end", ENDS)
def test_a_move_of_the_sandbox_ends_with_its_run_by_another_thread(end: str) -> None:
    with Sandbox(seed=7, start=START, egress="loopback") as sandbox, held_receiver() as receiver:
        sandbox.ask("POST", "/sandbox/v1/snapshots")
        sandbox.charges.create(amount="1000", description="tea", expiresIn=1, callbackUrl=receiver.url)
        sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
        with ThreadPoolExecutor() as pool:
            advance = pool.submit(sandbox.advance, "1h")
            receiver.wait_asked()
            sandbox.ask("POST", f"/sandbox/v1/{end}", ENDS[end])
            charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=1)
            with pytest.raises(ClockError, match=ENDED):
                advance.result()
        receiver.release(0, 200)
        assert (sandbox.now, charge.status) == (START, "pending")
        assert [fired.kind for fired in sandbox.run()] == ["charge_expiry"]
        kinds = [entry.kind for entry in sandbox.world.journal.entries()]
        assert not [kind for kind in kinds if kind.startswith("callback_")]


@pytest.mark.parametrize("over_http", [False, True])
@pytest.mark.parametrize("status", [200, 500])
def test_the_next_event_is_looked_for_after_the_responses_in_flight(over_http: bool, status: int) -> None:
    with Sandbox(seed=7, start=START, egress="loopback") as sandbox, held_receiver() as receiver:
        charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=receiver.url)
        sandbox.wallet("ana").pay(charge)
        moves: list[Callable[[], list[str]]] = [
            lambda: [event.kind for event in sandbox.run("next_event")],
            lambda: [
                event["kind"]
                for event in sandbox.ask("POST", "/sandbox/v1/clock/advance", {"until": "next_event"})["fired"]
            ],
        ]
        sandbox.world.clock.run_events(2)  # the payment, then the attempt, without a wait for the response
        receiver.wait_asked()
        receiver.release(0, status)
        with ThreadPoolExecutor() as pool:
            fired = pool.submit(moves[over_http])
            if status == 500:  # the retry is the next event, and its response is waited for, too
                receiver.wait_asked()
                receiver.release(1, 200)
            assert fired.result() == ([] if status == 200 else ["callback"])
