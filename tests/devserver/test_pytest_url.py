"""The fixture `leyden_server` on a running server: `--leyden-url`, alone and with four workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from leyden.errors import ApiError, LeydenError
from leyden.http_sandbox import create_sandbox
from leyden.sandbox import Sandbox
from tests.support.served import Client, served_leyden, started_server

pytest_plugins = ["pytester"]

BOXES = "/sandbox/v1/sandboxes"
CONFIG = """[pytest]
addopts = -p no:cacheprovider -p no:schemathesis -p no:xdist
filterwarnings = error
"""

SUITE = """
    import json

    def test_a_paid_charge(leyden_server):
        box = leyden_server.sandbox
        assert box.now == "2030-01-01T00:00:00.000Z"
        charge = box.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/paid")
        payment = box.wallet("ana").pay(charge, delay="2s")
        assert payment.status == "in_flight"
        box.run()
        assert (charge.status, payment.status, charge.amount_msat) == ("completed", "succeeded", 1000)
        [post] = box.inbox("shop")
        assert json.loads(post["body"])["id"] == charge.id
        assert box.webhook_secret == leyden_server.webhook_secret
        assert [one.id for one in box.charges] == [charge.id]

    def test_the_next_has_another(leyden_server, sandbox):
        assert sandbox is leyden_server.sandbox
        assert leyden_server.url == sandbox.url
        assert len(sandbox.charges) == 0

    def test_in_process(sandbox):
        assert sandbox.world is not None

    def test_shared(module_leyden_server, session_leyden_server, module_sandbox):
        assert module_leyden_server.sandbox is module_sandbox
        assert module_leyden_server != session_leyden_server
"""


@pytest.fixture
def client() -> Iterator[Client]:
    with served_leyden("--rate", "0") as client:
        yield client


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("LEYDEN_URL", raising=False)
    pytester.makeini(CONFIG)
    pytester.makepyfile(SUITE)
    return pytester


def test_each_test_has_a_sandbox_of_the_server_which_is_deleted(suite: pytest.Pytester, client: Client) -> None:
    suite.runpytest_inprocess("--leyden-url", client.url).assert_outcomes(passed=4)
    assert client.ok("GET", BOXES)["data"] == []
    assert client.ok("GET", "/sandbox/v1")["charges"] == {}


def test_the_url_comes_from_the_environment_and_the_configuration_file_too(
    suite: pytest.Pytester, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.makepyfile("def test_it(leyden_server): assert '/sandboxes/sbx_' in leyden_server")
    suite.makeini(f"{CONFIG}leyden_url = {client.url}\n")
    suite.runpytest_inprocess().assert_outcomes(passed=1)
    suite.makeini(f"{CONFIG}leyden_url = http://127.0.0.1:9\n")
    monkeypatch.setenv("LEYDEN_URL", client.url)
    suite.runpytest_inprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("localhost:8402", "*--leyden-url 'localhost:8402' is no URL: give http://HOST:PORT*"),
        ("http://127.0.0.1:9", "*no server answers at http://127.0.0.1:9*start `leyden serve`*"),
    ],
)
def test_a_url_without_a_server_is_one_line(suite: pytest.Pytester, url: str, line: str) -> None:
    suite.makepyfile("def test_it(leyden_server): pass")
    outcome = suite.runpytest_inprocess("--leyden-url", url)
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines([line])
    assert "Traceback" not in outcome.stdout.str()
    assert "pytest_plugin.py" not in outcome.stdout.str()


def test_the_admin_token_is_an_option_or_a_variable(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.makepyfile("def test_it(leyden_server): pass")
    with started_server("--admin-token", "secret-token") as (client, _):
        refused = suite.runpytest_inprocess("--leyden-url", client.url)
        refused.assert_outcomes(errors=1)
        refused.stdout.fnmatch_lines(["*401*admin token*"])
        suite.runpytest_inprocess(
            "--leyden-url", client.url, "--leyden-admin-token", "secret-token"
        ).assert_outcomes(passed=1)  # fmt: skip
        monkeypatch.setenv("LEYDEN_ADMIN_TOKEN", "secret-token")
        suite.runpytest_inprocess("--leyden-url", client.url).assert_outcomes(passed=1)
        assert client("GET", BOXES, authorization="Bearer secret-token")[1]["data"] == []


def test_ids_and_secrets_are_those_of_the_run_in_process(suite: pytest.Pytester, client: Client) -> None:
    suite.makepyfile("""
        def test_ids(leyden_server):
            box = leyden_server.sandbox
            with open("seen.txt", "a") as file:
                print(box.charges.create(amount="1000", description="tea").id, leyden_server.webhook_secret, file=file)
    """)
    suite.runpytest_inprocess().assert_outcomes(passed=1)
    suite.runpytest_inprocess("--leyden-url", client.url).assert_outcomes(passed=1)
    first, second = (suite.path / "seen.txt").read_text().splitlines()
    assert first == second


@pytest.mark.parametrize("external", [True, False])
def test_four_workers_have_a_sandbox_each_and_leak_nothing(
    suite: pytest.Pytester, client: Client, external: bool
) -> None:
    suite.makeini("[pytest]\naddopts = -p no:cacheprovider -p no:schemathesis\n")
    suite.makepyfile("""
        import os, pytest

        def sees_its_own(box, name):
            before = {one.data["internalId"] for one in box.charges}
            charge = box.charges.create(amount="1000", description="tea", internalId=name)
            box.wallet("ana").pay(charge)
            box.run()
            assert charge.status == "completed"
            return before

        @pytest.mark.parametrize("number", range(24))
        def test_one(leyden_server, session_leyden_server, number):
            worker = os.environ["PYTEST_XDIST_WORKER"]
            assert sees_its_own(leyden_server.sandbox, f"{worker}-{number}") == set()
            shared = sees_its_own(session_leyden_server.sandbox, f"{worker}-{number}")
            assert all(name.startswith(f"{worker}-") for name in shared)
            with open(f"keys-{worker}.txt", "a") as file:
                print(next(iter(session_leyden_server.sandbox.charges)).id, file=file)
    """)
    options = ("--leyden-url", client.url) if external else ()
    result = suite.run(sys.executable, "-m", "pytest", "-n", "4", *options)
    result.assert_outcomes(passed=24)
    files = sorted(suite.path.glob("keys-*.txt"))
    first_ids = [set(file.read_text().split()) for file in files]
    assert len(files) > 1
    assert all(len(ids) == 1 for ids in first_ids)
    assert len(set.union(*first_ids)) == len(files)
    assert client.ok("GET", BOXES)["data"] == []
    assert client.ok("GET", "/sandbox/v1")["charges"] == {}


def test_two_hundred_clients_over_http_have_a_sandbox_each(client: Client) -> None:
    def one(number: int) -> int:
        with create_sandbox(client.url, name=f"client {number}", seed=number % 5, rate=0) as box:
            charge = box.charges.create(amount=str(1_000 + number), description="tea", callbackUrl="http://a.localhost")
            box.wallet("ana").pay(charge)
            box.run()
            [only] = box.charges
            [delivery] = box.deliveries(status="delivered")
            assert (only.id, only.status, delivery["chargeId"]) == (charge.id, "completed", charge.id)
            return only.amount_msat

    with ThreadPoolExecutor(200) as pool:
        assert sorted(pool.map(one, range(200))) == [1_000 + number for number in range(200)]
    assert client.ok("GET", BOXES)["data"] == []


# The client


def test_the_client_has_the_names_of_the_sandbox(client: Client) -> None:
    with create_sandbox(client.url, seed=3, rate=0, start="2030-01-01T00:00:00Z") as box:
        charge = box.charges.create(amount="1000", description="tea", expiresIn=60)
        held = box.wallet("ana").pay(charge, outcome="hold")
        assert held.status == "held"
        taken = box.snapshot("held")
        assert held.cancel().status == "failed"
        assert (charge.status, held.reason) == ("error", held.data["reason"])
        box.restore(taken)
        assert charge.status == "pending"
        fork = box.fork(name="settled")
        assert fork.wallet("ana").pay("nonsense").status == "failed"
        held.settle()
        assert (charge.status, fork.charges[charge.id].status) == ("completed", "pending")
        static = box.static_charges.create(minAmount="1000", maxAmount="1000", description="Tips")
        assert static.update(description="More").data["description"] == "More"
        assert box.wallet("bob").pay(static, comment=None).status == "succeeded"
        assert len(box.charges) == 2
        assert box.charges.create(amount="1000", description="tea").fail().status == "error"
        box.faults.add("drop", count=1)
        box.service_faults.add("error", status=503)
        with pytest.raises(ApiError, match="503") as refused:
            box.charges.create(amount="1000", description="tea")
        assert refused.value.status == 503
        box.payers.add(delay=2)
        assert (len(box.faults), box.payers.clear(), box.faults.clear(next(iter(box.faults))["id"])) == (1, 1, 1)
        assert box.advance_to("2030-01-01T00:00:30Z") == []
        assert (box.now, box.inbox("nobody")) == ("2030-01-01T00:00:30.000Z", [])
        assert [event["kind"] for event in fork.advance("2m")] == ["charge_expiry"]
        state = box.export()
        with Sandbox.from_snapshot(state) as copy:
            assert copy.journal_hash == state["journal"]["hash"]
        assert box.reset(seed=3).charges.create(amount="1000", description="tea", expiresIn=60).id == charge.id
        fork.delete()
        fork.delete()
    with pytest.raises(ApiError, match="was deleted"):
        box.ask("GET", "/v0/charges")


def test_pages_are_followed_and_errors_name_the_mend(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.http_sandbox._PAGE", 2)
    with create_sandbox(client.url) as box:
        ids = [box.charges.create(amount="1000", description="tea").id for _ in range(5)]
        assert [charge.id for charge in box.charges] == ids
        for _ in range(3):
            box.charges.create(amount="1000", description="tea", callbackUrl="http://a.localhost", expiresIn=1)
        box.ask("PATCH", "/sandbox/v1/clock", {"rate": 0})
        box.advance("1m")
        assert len(box.inbox("a")) == len(box.deliveries()) == 3
        with pytest.raises(ApiError, match="404"):
            _ = box.charges["nobody"]
        with pytest.raises(ApiError, match="/amount"):
            box.charges.create(amount="1", description="tea")
    with pytest.raises(LeydenError, match=r"no server answers at http://127\.0\.0\.1:9 "):
        create_sandbox("http://127.0.0.1:9")
