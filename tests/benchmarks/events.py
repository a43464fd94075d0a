"""The event stream: what a request costs while many clients follow it."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.benchmarks.bench import FROZEN, Bench, charge_body
from tests.benchmarks.measuring import COST, BenchmarkError, Goal, Row, compared
from tests.benchmarks.serving import KEY, LONGEST_S, Served, broadcast, leyden, load, request

PART = "events"
_ROW = b"event: request\n"


def rows(bench: Bench) -> Iterator[Row]:
    """CPU of the server for a GET whose row goes to all listeners, beside one without listeners and a bare server."""
    listeners, count = bench.scale.of(50, 3), bench.scale.of(3_000, 40)
    followed: list[float] = []
    alone: list[float] = []
    bare: list[float] = []
    for _ in range(bench.scale.repeats):
        with leyden(*FROZEN) as served, broadcast() as ceiling:
            charge_id = served.ask("POST", "/v0/charges", charge_body())["data"]["id"]
            get = [request("GET", f"/v0/charges/{charge_id}")]
            for where, requests in ((served, get), (ceiling, [request("GET", f"/emit/{charge_id}")])):
                load(where, requests, connections=4, count=bench.scale.of(500, 8))
            alone.append(load(served, get, connections=16, count=count).cpu_s)
            followed.append(_followed(served, "/sandbox/v1/events", get, listeners, count))
            bare.append(_followed(ceiling, "/events", [request("GET", f"/emit/{charge_id}")], listeners, count))
    what = f"event stream with {listeners} listeners: GET /v0/charges/{{id}}, CPU a request"
    beside = "bare Starlette, a write to each listener"
    yield compared(PART, what, COST, [followed], beside, [bare], goal=Goal("at most", 0.5))
    yield compared(PART, what, COST, [followed], "without listeners", [alone])


def _followed(served: Served, target: str, requests: list[str], listeners: int, count: int) -> float:
    """CPU of the server for each request, until every listener has every row."""
    with _listening(served, target, listeners) as received:
        before_s = served.cpu_s
        load(served, requests, connections=16, count=count)
        end = time.perf_counter() + LONGEST_S
        while min(received) < count:
            if time.perf_counter() > end:
                raise BenchmarkError(f"a listener got {min(received)} of {count} rows")
            time.sleep(0.01)
        return (served.cpu_s - before_s) / count


@contextmanager
def _listening(served: Served, target: str, count: int) -> Iterator[list[int]]:
    """Clients of the stream, read by a thread. The list has how many rows each has got."""
    where = urlsplit(served.url)
    head = f"GET {target} HTTP/1.1\r\nhost: localhost\r\napikey: {KEY}\r\n\r\n".encode()
    received = [0] * count
    tails = [b""] * count
    stopping = threading.Event()
    sockets = [socket.create_connection((where.hostname or "", where.port or 0)) for _ in range(count)]
    with selectors.DefaultSelector() as selector:
        for number, client in enumerate(sockets):
            client.sendall(head)
            if b"200 OK" not in client.recv(65_536):
                raise BenchmarkError(f"{target} was not answered with 200")
            selector.register(client, selectors.EVENT_READ, number)

        def read() -> None:
            while not stopping.is_set():
                for key, _ in selector.select(0.1):
                    text = tails[key.data] + key.fileobj.recv(1 << 20)  # type: ignore[union-attr]
                    received[key.data] += text.count(_ROW)
                    tails[key.data] = text[text.rfind(b"\n") + 1 :]

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        try:
            yield received
        finally:
            stopping.set()
            thread.join(10)
            for client in sockets:
                client.close()
