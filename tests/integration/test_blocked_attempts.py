"""An attempt that the egress policy forbids is blocked at its instant: no request sees it in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import httpx2
import pytest

from leyden import Sandbox
from tests.support.served import served_leyden

Ask = Callable[..., Any]
FORBIDDEN = "http://10.0.0.9/x"


@contextmanager
def configured(rate: int) -> Iterator[Ask]:
    with served_leyden("--rate", str(rate), "--seed", "5") as client:
        yield client.ok


@contextmanager
def created(rate: int) -> Iterator[Ask]:
    with served_leyden("--seed", "5") as client:
        box = client.ok("POST", "/sandbox/v1/sandboxes", {"rate": rate})
        yield lambda *request: client.ok(*request, key=box["apiKey"])


@contextmanager
def served_by_python(_: int) -> Iterator[Ask]:
    with Sandbox(seed=5) as sandbox:
        url = sandbox.serve()
        with httpx2.Client(base_url=url, headers={"apikey": "leyden"}) as client:

            def ask(method: str, path: str, body: Any = None) -> Any:
                response = client.request(method, path, json=body)
                assert response.is_success, response.text
                return response.json()

            yield ask


@contextmanager
def in_process(_: int) -> Iterator[Ask]:
    with Sandbox(seed=5, egress="loopback") as sandbox:
        yield sandbox.ask


@pytest.mark.parametrize(
    ("serve", "rate"),
    [(configured, 0), (configured, 50), (created, 0), (created, 50), (served_by_python, 0), (in_process, 0)],
)
def test_the_next_request_sees_that_an_attempt_was_blocked(
    serve: Callable[[int], AbstractContextManager[Ask]], rate: int
) -> None:
    with serve(rate) as ask:
        for number in range(8):
            body = {"amount": "1000", "description": str(number), "callbackUrl": FORBIDDEN}
            charge = ask("POST", "/v0/charges", body)["data"]
            ask("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
            if serve is in_process:  # a request in process runs nothing after it
                ask("POST", "/sandbox/v1/clock/advance", {"by": 0})
            if rate:  # direct payments take simulated time
                ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": charge["id"], "status": "blocked"})
                [row] = ask("GET", f"/sandbox/v1/deliveries?chargeId={charge['id']}")["data"]
                ask("POST", f"/sandbox/v1/deliveries/{row['id']}/replay", {})
            waited = ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": charge["id"], "timeout": 0})
            assert "in flight" not in waited["note"]
            [row] = ask("GET", f"/sandbox/v1/deliveries?chargeId={charge['id']}")["data"]
            assert {attempt["error"] for attempt in row["attempts"]} == {"blocked"}
            assert row["status"] == "blocked"
            assert "10.0.0.9 is not a loopback address" in row["attempts"][-1]["note"]
            snapshot = ask("POST", "/sandbox/v1/snapshots", {})
            ask("DELETE", f"/sandbox/v1/snapshots/{snapshot['id']}")


@pytest.mark.parametrize("over_http", [True, False])
def test_a_script_repeats_blocked_attempts(over_http: bool) -> None:
    with Sandbox(seed=5, egress="loopback") as sandbox:
        url = sandbox.serve() if over_http else ""
        for number in range(3):
            charge = sandbox.charges.create(amount="1000", description=str(number), callbackUrl=FORBIDDEN)
            sandbox.charges.create(amount="1000", description="late", callbackUrl=FORBIDDEN, expiresIn=5)
            if over_http:
                paid = {"request": charge.request}
                httpx2.post(f"{url}/sandbox/v1/payments", json=paid, headers={"apikey": "leyden"}).raise_for_status()
            else:
                sandbox.wallet("ana").pay(charge)
            sandbox.run("20s")
        rows = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
        assert [row["status"] for row in rows] == ["blocked"] * 6
        names: dict[str, Any] = {}
        exec(sandbox.script(), names)
        assert names["sb"].journal_hash == sandbox.journal_hash
