"""Crashes: a server is killed many times during requests, and nothing that it acknowledged is lost.

Run as a program (`python -m tests.integration.test_crash`) this file is the starter: a process with all
modules loaded that forks `leyden serve` in about 0.03 s and kills it on request, so that many kills fit into a suite.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from leyden.server.store.store import Store
from tests.support.deep import deep_except, deep_or
from tests.support.http_servers import handling
from tests.support.lists import listed
from tests.support.served import ROOT, Client

KILLS = deep_or(bounded=5, full=8, random=400)  # for each directory; five directories
THREADS = 3
TERMINAL = {"completed", "expired", "error"}
BROKEN = (OSError, http.client.HTTPException, json.JSONDecodeError)


# The starter: program and client


def main() -> None:
    """Execute lines from standard input: `start LOG ARGUMENT...` answers a process id, `kill PID` waits for its end."""
    import leyden.devserver.serve
    import leyden.server.system.http_client.session
    from leyden.__main__ import main as leyden_main
    from leyden.world.config import packaged_contract

    packaged_contract("charges")
    packaged_contract("sandbox")
    assert leyden.devserver.serve
    alive: set[int] = set()

    def kill(process: int) -> None:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        alive.discard(process)

    for line in sys.stdin:
        word, *rest = json.loads(line)
        if word == "kill":
            kill(rest[0])
            print("dead", flush=True)
            continue
        process = os.fork()
        if process == 0:
            log = os.open(rest[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os._exit(leyden_main(rest[1:]))
        alive.add(process)
        print(process, flush=True)
    for process in list(alive):
        kill(process)


class Starter:
    """Starts and kills servers on one directory."""

    def __init__(self, data: Path, durability: str) -> None:
        self._log = data.with_suffix(".log")
        self._arguments = ["serve", "--port", "0", "--data", str(data), "--durability", durability, "--rate", "20"]
        self._arguments += ["--public-url", "http://leyden.localhost", "--seed", "1"]
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.test_crash"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _command(self, *words: Any) -> str:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(json.dumps(words) + "\n")
        self._program.stdin.flush()
        answer = self._program.stdout.readline()
        assert answer, "the starter has ended: see its standard error"
        return answer

    def start(self) -> int:
        """Start a server process and return its process id."""
        self._log.write_text("")
        return int(self._command("start", str(self._log), *self._arguments))

    def ready(self) -> str:
        """Wait until the server listens, and return its URL."""
        for _ in range(4_000):
            output = self._log.read_text()
            if output.endswith("\n"):
                assert output.startswith("Leyden listening on "), output
                return output.split()[3]
            time.sleep(0.005)
        raise AssertionError(f"no server after twenty seconds: {output!r}")

    def kill(self, process: int) -> None:
        """Kill the server with SIGKILL and wait for its end."""
        assert self._command("kill", process) == "dead\n"
        output = self._log.read_text().splitlines()
        # A server prints only where it listens and how it found its directory: also a commit that a kill cut off.
        words = [line.split(maxsplit=1)[0] for line in output if not line.startswith("note: ")]
        assert words == ["Leyden", "documentation:", "project"][: len(words)], "\n".join(output)

    def close(self) -> None:
        """End the starter."""
        self._program.communicate(timeout=20)


# The receiver


class Inbox:
    """Receives the callbacks as (webhook-id, body). The first attempt of some deliveries is refused."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []

    @contextmanager
    def open(self) -> Iterator[str]:
        messages = self.messages

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                webhook_id = self.headers["webhook-id"]
                messages.append((webhook_id, json.loads(body)))
                refused = webhook_id[0] in "01" and self.headers["leyden-attempt"] == "1"
                self.send_response(500 if refused else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        with handling(Handler) as url:
            yield url


# Clients and a ledger of their responses


class Ledger:
    """The state that a server has acknowledged in its responses so far."""

    def __init__(self) -> None:
        self.charges: dict[str, dict[str, Any]] = {}  # as created
        self.ends: dict[str, str] = {}  # the terminal state that was reported
        self.statics: dict[str, dict[str, Any]] = {}  # as last reported, with the most slots
        self.payments: dict[str, str] = {}
        self.unsure: dict[str, dict[str, Any]] = {}  # creations by Idempotency-Key that were not answered yet
        self.wrong: list[str] = []

    def charge(self, data: dict[str, Any]) -> None:
        self.charges.setdefault(data["id"], data)
        if data["status"] in TERMINAL:
            self.ended(data["id"], data["status"])

    def ended(self, charge_id: str, status: str) -> None:
        if self.ends.setdefault(charge_id, status) != status:
            self.wrong.append(f"{charge_id} was {self.ends[charge_id]}, then {status}")

    def static(self, data: dict[str, Any]) -> None:
        known = self.statics.get(data["id"])
        if known is None or data["slots"] >= known["slots"]:
            self.statics[data["id"]] = data

    def payment(self, data: dict[str, Any]) -> None:
        known = self.payments.get(data["id"])
        if known in {"succeeded", "failed"} and data["status"] != known:
            self.wrong.append(f"payment {data['id']} had {known}, then {data['status']}")
        self.payments[data["id"]] = data["status"]


class Customer(threading.Thread):
    """One client that sends random requests until the server is gone."""

    def __init__(self, url: str, hook: str, ledger: Ledger, seed: str) -> None:
        super().__init__(daemon=True)
        self._address = url.removeprefix("http://")
        self._hook = hook
        self._ledger = ledger
        self._rng = random.Random(seed)
        self._seed = seed
        self._made = 0

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=20)
        requests = (
            self._create,
            self._create,
            self._pay,
            self._read,
            self._static,
            self._scan,
            self._patch,
            self._more,
        )
        try:
            while True:
                self._rng.choice(requests)(connection)
        except BROKEN:
            return
        except Exception as error:
            self._ledger.wrong.append(repr(error))
        finally:
            connection.close()

    def _ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any, **more: str) -> Any:
        """The answer's JSON when it is 200; None for a refusal."""
        headers = {"apikey": "leyden", "content-type": "application/json", **more}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 500:
            self._ledger.wrong.append(f"{method} {path}: {text.decode()}")
        return json.loads(text) if answer.status == 200 else None

    def _one(self, things: dict[str, Any]) -> str | None:
        names = list(things)[-60:]
        return self._rng.choice(names) if names else None

    def _create(self, connection: http.client.HTTPConnection) -> None:
        self._made += 1
        key = f"{self._seed}-{self._made}"
        body = {
            "amount": str(self._rng.randint(1_000, 9_000)),
            "description": "tea",
            "internalId": key,
            "callbackUrl": self._hook,
            "expiresIn": self._rng.choice([1, 3, 20, 600]),
        }
        self._ledger.unsure[key] = body
        self._ledger.charge(self._ask(connection, "POST", "/v0/charges", body, **{"idempotency-key": key})["data"])
        del self._ledger.unsure[key]

    def _pay(self, connection: http.client.HTTPConnection) -> None:
        charge_id = self._one(self._ledger.charges)
        if charge_id is None:
            return
        request = self._ledger.charges[charge_id]["invoice"]["request"]
        outcome, delay = self._rng.choice([("settle", 0), ("settle", 0), ("settle", 2), ("hold", 0)])
        body = {"request": request, "outcome": outcome, "delay": delay}
        paid = self._ask(connection, "POST", "/sandbox/v1/payments", body)
        self._ledger.payment(paid)
        if paid["status"] == "succeeded":
            self._ledger.ended(charge_id, "completed")
        if paid["status"] == "held":
            verb = self._rng.choice(["settle", "cancel"])
            done = self._ask(connection, "POST", f"/sandbox/v1/payments/{paid['id']}/{verb}", None)
            if done is not None:
                self._ledger.payment(done)

    def _read(self, connection: http.client.HTTPConnection) -> None:
        charge_id = self._one(self._ledger.charges)
        if charge_id is not None:
            self._ledger.charge(self._ask(connection, "GET", f"/v0/charges/{charge_id}", None)["data"])

    def _static(self, connection: http.client.HTTPConnection) -> None:
        body = {
            "minAmount": "1000",
            "maxAmount": "9000",
            "description": "tips",
            "allowedSlots": self._rng.choice([None, 1, 2, 5]),
            "callbackUrl": self._hook,
        }
        self._ledger.static(self._ask(connection, "POST", "/v0/static-charges", body)["data"])

    def _scan(self, connection: http.client.HTTPConnection) -> None:
        static_id = self._one(self._ledger.statics)
        if static_id is None:
            return
        request = self._ledger.statics[static_id]["invoice"]["request"]
        body = {"request": request, "amount": str(self._rng.randint(1_000, 9_000))}
        self._ledger.payment(self._ask(connection, "POST", "/sandbox/v1/payments", body))
        self._ledger.static(self._ask(connection, "GET", f"/v0/static-charges/{static_id}", None)["data"])

    def _patch(self, connection: http.client.HTTPConnection) -> None:
        static_id = self._one(self._ledger.statics)
        if static_id is not None:
            body = {"allowedSlots": self._rng.choice([None, 3, 9])}
            answer = self._ask(connection, "PATCH", f"/v0/static-charges/{static_id}", body)
            if answer is not None:
                self._ledger.static(answer["data"])

    def _more(self, connection: http.client.HTTPConnection) -> None:
        charge_id = self._one(self._ledger.charges)
        if self._rng.random() < 0.5:
            self._ask(connection, "POST", "/sandbox/v1/clock/advance", {"by": self._rng.choice([0.5, 1, 5])})
        elif charge_id is not None:
            failed = self._ask(connection, "POST", f"/sandbox/v1/charges/{charge_id}/fail", {})
            if failed is not None:
                self._ledger.charge(failed)


# Checks


def every(client: Client, path: str) -> dict[str, dict[str, Any]]:
    """All pages of a list, by id."""
    found: dict[str, dict[str, Any]] = {}
    after = ""
    while True:
        page = client.ok("GET", f"{path}?limit=1000{after}")
        found |= {item["id"]: item for item in page["data"]}
        if page["next"] is None:
            return found
        after = f"&after={page['next']}"


def check_acknowledged_state(client: Client, ledger: Ledger) -> None:
    """Everything acknowledged before the crash exists, in that state or in a permitted later one."""
    assert ledger.wrong == []
    # An unacknowledged creation may be stored or not. A retry with the same key creates it exactly once.
    for key, body in list(ledger.unsure.items()):
        ledger.charge(client.ok("POST", "/v0/charges", body, **{"idempotency-key": key})["data"])
        assert len(client.ok("GET", f"/v0/charges?internalId={key}")["data"]) == 1
        del ledger.unsure[key]
    charges = every(client, "/v0/charges")
    moving = {"status": "", "confirmedAt": None}
    for charge_id, acknowledged in ledger.charges.items():
        found = charges[charge_id]
        assert {**found, **moving} == {**acknowledged, **moving}
        assert found["status"] == ledger.ends.get(charge_id, found["status"])
        ledger.charge(found)
    statics = every(client, "/v0/static-charges")
    for static_id, acknowledged in ledger.statics.items():
        found = statics[static_id]
        assert found["slots"] >= acknowledged["slots"]
        assert found["allowedSlots"] is None or found["slots"] <= found["allowedSlots"]
        assert found["invoice"] == acknowledged["invoice"]
    payments = {payment["id"]: payment["status"] for payment in listed(client.ok, "/sandbox/v1/payments")}
    for payment_id, acknowledged_status in ledger.payments.items():
        if acknowledged_status in {"succeeded", "failed"}:
            assert payments[payment_id] == acknowledged_status
        assert payment_id in payments


def check_final_state(client: Client, inbox: Inbox) -> None:
    """After the last event every charge and payment has ended, every end was reported at least once and with one
    id, and no charge ended twice."""
    assert {payment["status"] for payment in listed(client.ok, "/sandbox/v1/payments")} <= {"succeeded", "failed"}
    deliveries = defaultdict(list)
    for delivery in listed(client.ok, "/sandbox/v1/deliveries"):
        deliveries[delivery["chargeId"]].append(delivery)
    reported = defaultdict(set)
    for webhook_id, body in list(inbox.messages):
        reported[body["id"]].add((webhook_id, json.dumps(body, sort_keys=True)))
    for charge_id, charge in every(client, "/v0/charges").items():
        assert charge["status"] in TERMINAL
        child = charge.get("staticChargeId") is not None
        if child and charge["status"] != "completed":
            continue  # an unpaid invoice of a static charge has no callback
        [delivery] = deliveries[charge_id]
        assert delivery["status"] == "delivered", delivery
        [(webhook_id, body)] = reported[charge_id]
        assert webhook_id == delivery["id"]
        assert json.loads(body)["status"] == charge["status"]


def check_consistency_of_tables(data: Path) -> None:
    """The tables are consistent: charges with invoices, slots with payments, the balance with received amounts."""
    [folder] = {path.parent for path in data.rglob("*.journal")}
    with Store.open(folder) as store:
        assert store.notes == ()
        charges = list(store.table("charges"))
        invoices = {row["payment_hash"]: row for row in store.table("invoices", key="payment_hash")}
        settled = {payment_hash for payment_hash, row in invoices.items() if row["state"] == "SETTLED"}
        completed = [row for row in charges if row["status"] == "completed"]
        assert len({row["payment_hash"] for row in charges}) == len(charges) == len(invoices)
        assert {row["payment_hash"] for row in completed} == settled
        received = sum(row["received_msat"] for row in completed)
        assert received == sum(invoices[payment_hash]["received_msat"] for payment_hash in settled) > 0
        assert received == store.table("wallets").existing("default")["balance_msat"]
        assert received == store.table("node").existing("funds")["received_msat"]
        paid = sum(row["received_msat"] for row in store.table("payments") if row["status"] == "succeeded")
        assert received == paid
        for static in store.table("static_charges"):
            assert static["slots"] == sum(row["static_charge_id"] == static["id"] for row in completed)
            assert static["allowed_slots"] is None or static["slots"] <= static["allowed_slots"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the starter forks: run this on a POSIX system")
@pytest.mark.parametrize(
    ("durability", "seed"),
    deep_except([("os", 1), ("os", 2), ("os", 3), ("interval", 4), ("always", 5)], ("always", 5)),
    ids=str,
)
def test_a_server_killed_many_times_keeps_all_acknowledged_state(tmp_path: Path, durability: str, seed: int) -> None:
    rng = random.Random(seed)
    inbox, ledger = Inbox(), Ledger()
    data = tmp_path / "data"
    starter = Starter(data, durability)
    try:
        with inbox.open() as hook:
            for life in range(KILLS):
                process = starter.start()
                if rng.random() < 0.2:
                    time.sleep(rng.uniform(0, 0.05))  # while it starts and catches up
                    starter.kill(process)
                    continue
                url = starter.ready()
                check_acknowledged_state(Client(url), ledger)
                customers = [Customer(url, hook, ledger, f"{life}.{number}") for number in range(THREADS)]
                for customer in customers:
                    customer.start()
                time.sleep(rng.uniform(0, 0.12))
                starter.kill(process)
                for customer in customers:
                    customer.join(20)
            process = starter.start()
            client = Client(starter.ready())
            check_acknowledged_state(client, ledger)
            client.ok("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
            check_acknowledged_state(client, ledger)
            check_final_state(client, inbox)
            starter.kill(process)
            assert ledger.charges
    finally:
        starter.close()
    check_consistency_of_tables(data)


if __name__ == "__main__":
    main()
