"""Real HTTP: `leyden serve` in its own process, and an external receiver."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from leyden import Sandbox
from leyden.world.config import packaged_contract
from tests.support.deep import sampled
from tests.support.lists import listed
from tests.support.served import ROOT, Client, listening_receiver, run_command, served_leyden

FROZEN = ("--rate", "0", "--start", "2030-01-01T00:00:00Z", "--seed", "5")


@pytest.fixture(scope="module")
def client():
    with served_leyden(*FROZEN) as client:
        yield client


@pytest.fixture(autouse=True)
def _fresh(client: Client) -> None:
    client.ok("POST", "/sandbox/v1/reset", {})


def create(client: Client, **fields: object) -> dict:
    return client.ok("POST", "/v0/charges", {"amount": "21000", "description": "tea", **fields})["data"]


def status_of(client: Client, charge: dict) -> str:
    return client.ok("GET", f"/v0/charges/{charge['id']}")["data"]["status"]


def test_a_served_charge_is_created_and_paid_with_a_callback(client: Client) -> None:
    with listening_receiver() as (hook, inbox):
        charge = create(client, callbackUrl=hook)
        payment = client.ok("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
        assert payment["status"] == "succeeded"
        headers, body = inbox.get(timeout=10)
        assert body["id"] == charge["id"]
        assert body["status"] == "completed"
        assert headers["leyden-event"] == "charge.completed"
        assert status_of(client, charge) == "completed"
        assert client.ok("GET", f"/sandbox/v1/payments/{payment['id']}") == payment


def test_the_expiry_and_its_callback_happen_before_the_advance_returns(client: Client) -> None:
    with listening_receiver() as (hook, inbox):
        charge = create(client, callbackUrl=hook, expiresIn=60)
        moved = client.ok("POST", "/sandbox/v1/clock/advance", {"by": "61s"})
        assert moved["now"] == "2030-01-01T00:01:01.000Z"
        assert [event["kind"] for event in moved["fired"]] == ["charge_expiry", "callback"]
        assert inbox.get_nowait()[1]["status"] == "expired"
        assert status_of(client, charge) == "expired"
        [delivery] = listed(client.ok, f"/sandbox/v1/deliveries?chargeId={charge['id']}")
        assert (delivery["status"], len(delivery["attempts"])) == ("delivered", 1)


def test_a_failed_invoice_is_reported_by_a_callback(client: Client) -> None:
    with listening_receiver() as (hook, inbox):
        charge = create(client, callbackUrl=hook)
        failed = client.ok("POST", f"/sandbox/v1/charges/{charge['id']}/fail", {"reason": "lost"})
        assert failed["status"] == "error"
        assert inbox.get(timeout=10)[1]["status"] == "error"
        assert status_of(client, charge) == "error"
        assert client("POST", f"/sandbox/v1/charges/{charge['id']}/fail", {})[0] == 409


def test_a_failing_receiver_is_retried_in_virtual_time(client: Client) -> None:
    with listening_receiver(status=500) as (hook, inbox):
        charge = create(client, callbackUrl=hook, expiresIn=60)
        client.ok("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
        [delivery] = listed(client.ok, f"/sandbox/v1/deliveries?chargeId={charge['id']}")
        assert (delivery["status"], len(delivery["attempts"])) == ("exhausted", 10)
        assert inbox.qsize() == 10
        assert len({headers["webhook-id"] for headers, _ in inbox.queue}) == 1


def test_a_static_charge_with_two_slots(client: Client) -> None:
    static = client.ok(
        "POST",
        "/v0/static-charges",
        {"minAmount": "1000", "maxAmount": "9000", "description": "Tips", "allowedSlots": 2},
    )["data"]
    path = f"/v0/static-charges/{static['id']}"

    def pay(amount: str) -> dict:
        return client.ok("POST", "/sandbox/v1/payments", {"request": static["invoice"]["request"], "amount": amount})

    assert [pay("1000")["status"], pay("2000")["status"]] == ["succeeded", "succeeded"]
    assert client.ok("GET", path)["data"]["status"] == "disabled"
    third = pay("3000")
    assert third["status"] == "failed"
    assert third["reason"]
    assert client.ok("PATCH", path, {"allowedSlots": 3})["data"]["status"] == "active"
    assert pay("3000")["status"] == "succeeded"
    assert client.ok("GET", path)["data"]["slots"] == 3
    assert len(client.ok("GET", f"{path}/charges")["data"]) == 3
    assert client.ok("GET", "/v0/wallet")["data"]["balance"] == "6000"


def test_held_payments_are_settled_or_cancelled(client: Client) -> None:
    for verb, payment_status, charge_status in (("settle", "succeeded", "completed"), ("cancel", "failed", "error")):
        charge = create(client)
        held = client.ok("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"], "outcome": "hold"})
        assert held["status"] == "held"
        done = client.ok("POST", f"/sandbox/v1/payments/{held['id']}/{verb}")
        assert (done["status"], status_of(client, charge)) == (payment_status, charge_status)
        assert client("POST", f"/sandbox/v1/payments/{held['id']}/{verb}")[0] == 409


def test_a_delayed_payment_arrives_at_its_virtual_time(client: Client) -> None:
    charge = create(client, expiresIn=60)
    body = {"request": charge["invoice"]["request"], "delay": 59.5}
    assert client.ok("POST", "/sandbox/v1/payments", body)["status"] == "in_flight"
    client.ok("POST", "/sandbox/v1/clock/advance", {"by": 59})
    assert status_of(client, charge) == "pending"
    moved = client.ok("POST", "/sandbox/v1/clock/advance", {"until": "next_event"})
    assert moved["fired"][0]["at"] == "2030-01-01T00:00:59.500Z"
    assert status_of(client, charge) == "completed"


def test_served_and_in_process_responses_have_equal_bytes(client: Client) -> None:
    sandbox = Sandbox(seed=5, start="2030-01-01T00:00:00Z")
    client.ok("POST", "/sandbox/v1/reset", {"seed": 5})
    for expected in (sandbox.ask("POST", "/v0/charges", {"amount": "1000", "description": str(n)}) for n in range(3)):
        assert (
            client.ok("POST", "/v0/charges", {"amount": "1000", "description": expected["data"]["description"]})
            == expected
        )


def test_the_documents_and_their_pages_are_served(client: Client) -> None:
    assert client.ok("GET", "/openapi.json")["openapi"].startswith("3.1")
    assert "/sandbox/v1/clock" in client.ok("GET", "/sandbox/v1/openapi.json")["paths"]
    assert {"/v0/charges", "/sandbox/v1/payments"} < set(client.ok("GET", "/sandbox/v1/merged.json")["paths"])


def test_a_key_belongs_to_one_sandbox() -> None:
    with served_leyden(*FROZEN, "--api-key", "one", "--api-key", "two") as one:
        two = Client(one.url, "two")
        charge = create(one, expiresIn=60)
        assert two("GET", f"/v0/charges/{charge['id']}")[0] == 404
        assert two("POST", f"/sandbox/v1/charges/{charge['id']}/fail", {})[0] == 404
        two.ok("POST", "/sandbox/v1/clock/advance", {"by": "1h"})
        assert status_of(one, charge) == "pending"
        assert two.ok("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})["status"] == "failed"
        body = {"minAmount": "1000", "maxAmount": "1000", "description": "Tips", "identifier": "ana@localhost"}
        static = two.ok("POST", "/v0/static-charges", body)["data"]
        assert one("POST", "/v0/static-charges", body)[0] == 409
        keyless = Client(one.url, "")
        assert keyless.ok("GET", f"/lnurlp/{static['id']}")["tag"] == "payRequest"
        assert keyless.ok("GET", "/.well-known/lnurlp/ana")["tag"] == "payRequest"
        assert keyless("GET", "/sandbox/v1/clock")[0] == 401
        two.ok("POST", "/sandbox/v1/reset", {})
        assert status_of(one, charge) == "pending"


def test_a_running_clock_advances_without_requests() -> None:
    with (
        listening_receiver() as (hook, inbox),
        served_leyden("--rate", "600", "--start", "2030-01-01T00:00:00Z") as client,
    ):
        charge = create(client, callbackUrl=hook, expiresIn=60)
        assert inbox.get(timeout=10)[1]["status"] == "expired"
        assert status_of(client, charge) == "expired"


def test_the_control_plane_can_be_disabled() -> None:
    with served_leyden("--no-control") as client:
        assert client("GET", "/sandbox/v1/clock")[0] == 404
        assert create(client)["status"] == "pending"


def test_a_data_directory_is_continued(tmp_path: Path) -> None:
    with served_leyden(*FROZEN, "--data", str(tmp_path)) as client:
        paid, late = create(client), create(client, expiresIn=60)
        client.ok("POST", "/sandbox/v1/payments", {"request": paid["invoice"]["request"]})
        client.ok("POST", "/sandbox/v1/clock/advance", {"by": "30s"})
        assert run_command("serve", "--port", "0", "--data", str(tmp_path)).returncode == 2
    with served_leyden("--data", str(tmp_path)) as client:
        assert client.ok("GET", "/sandbox/v1/clock") == {"now": "2030-01-01T00:00:30.000Z", "rate": 0}
        assert (status_of(client, paid), status_of(client, late)) == ("completed", "pending")
        client.ok("POST", "/sandbox/v1/clock/advance", {"until": "idle"})
        assert status_of(client, late) == "expired"
        assert create(client)["id"] not in {paid["id"], late["id"]}


@pytest.mark.parametrize(
    ("options", "status", "word"),
    sampled(
        [
            (("--port", "99999"), 2, "port"),
            (("--rate", "-1"), 2, "rate"),
            (("--start", "yesterday"), 2, "start"),
            (("--seed", "x"), 2, "seed"),
            (("--overlay", "stirct"), 2, "strict"),
            (("--spec", "nowhere.yaml"), 2, "nowhere.yaml"),
            (("--api-key", ""), 2, "the value is empty"),
            (("--api-key", "a", "--api-key", "a"), 2, "twice"),
            (("--public-url", "shop"), 2, "URL"),
            (("--public-url", "http://shop.example/pay?by=qr"), 2, "is not a base URL"),
            (("--public-url", "http://shop.example/#pay"), 2, "is not a base URL"),
            (("--public-url", "http://ana@shop.example/"), 2, "has a user: leave out what is before the @"),
            (("--public-url", "http://sh%41p.example/"), 2, "has no host that is a name or an address"),
            (("--public-url", "http://0.0.0.0:99"), 2, "is no address to connect to"),
            (("--public-url", "http://[::]:99"), 2, "is no address to connect to"),
            (("--public-url", "http://0:99"), 2, "is no address to connect to"),
            (("--public-url", "http://[::ffff:0.0.0.0]:99"), 2, "is no address to connect to"),
            (("--allow-host", "*"), 2, "give one such as shop.example, without scheme, port or *"),
            (("--allow-host", "http://shop.example"), 2, "is not the name of a host"),
            (("--allow-host", "shop.example:80"), 2, "is not the name of a host"),
            (("--allow-host", ""), 2, "is not the name of a host"),
            (("--allow-host", ".shop.example"), 2, "is not the name of a host"),
            (("--host", "203.0.113.7"), 1, "203.0.113.7"),
        ],
        6,
    ),
)
def test_a_bad_option_is_one_clear_line(options: tuple[str, ...], status: int, word: str) -> None:
    done = run_command("serve", "--port", "0", *options)
    assert done.returncode == status
    assert word in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_an_occupied_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_command("serve", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "--port" in done.stderr


def test_a_foreign_data_file_is_one_clear_line(tmp_path: Path) -> None:
    with served_leyden("--data", str(tmp_path)):
        pass
    [journal] = tmp_path.rglob("*.journal")
    journal.write_text("no journal\n")
    done = run_command("serve", "--port", "0", "--data", str(tmp_path))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert str(journal) in done.stderr


# What a server does not import before its first answer: most servers need it later, or never.
NOT_AT_THE_START = (
    "aiohttp", "coincurve", "httpx2", "hypothesis", "markdown_it", "numpy", "pandas", "schemathesis", "scipy", "yaml",
    "leyden.harness.model", "leyden.lab", "leyden.lightning.bolt11", "leyden.lightning.engine.engine", "leyden.sandbox",
    "leyden.server.contract.document.extensions", "leyden.server.contract.document.overlay",
    "leyden.server.contract.document.validate_document", "leyden.server.contract.examples", "leyden.server.docs",
    "leyden.server.system.group_commit", "leyden.server.system.http_client.session", "leyden.world.merged_openapi",
    "leyden.world.snapshots.snapshots", "leyden.world.trial.trial_requests",
)  # fmt: skip
FIRST_ANSWER = """
import sys
import leyden.__main__
import leyden.commands.catalogue
import leyden.devserver.serve
from leyden.devserver.control.handlers import control_handlers
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.server.store.store import Store
from leyden.world.config import world_config
from leyden.world.world import World

leyden.commands.catalogue.build_parser("serve").parse_args(["serve", "--port", "0"])
world = World(world_config(seed=1, start_ms=0), Store.memory(), control_handlers=control_handlers)
MultiTenantApp({"leyden": world})
assert world.request("GET", "/v0/wallet", ((b"apikey", b"leyden"),)).status == 200
print(*sys.modules)
"""


def test_a_server_imports_nothing_heavy_before_its_first_answer() -> None:
    packaged_contract("charges")  # it fills the cache of the packaged document
    done = subprocess.run([sys.executable, "-c", FIRST_ANSWER], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    heavy = {name for name in loaded for root in NOT_AT_THE_START if name == root or name.startswith(f"{root}.")}
    assert not heavy


def test_the_version_is_an_option_too() -> None:
    assert run_command("--version").stdout == run_command("version").stdout != ""


def test_a_server_over_a_network_has_loaded_the_path_search_before_it_answers(tmp_path: Path) -> None:
    words = [sys.executable, "-X", "importtime", "-m", "leyden", "serve", "--port", "0", "--network", "line:3"]
    imports = tmp_path / "imports"  # they are more than a pipe holds
    with imports.open("w") as file:
        process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=file, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("Leyden listening on ")
    finally:
        process.terminate()
        process.communicate(timeout=20)
    assert "scipy.sparse.csgraph" in imports.read_text()
