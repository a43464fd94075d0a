"""The fixture `leyden_server` on a running server: `--leyden-url`, alone and with four workers."""

from __future__ import annotations

import inspect
import re
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from leyden.callbacks.receiver import Receiver
from leyden.callbacks.replies import TIMEOUT, Reply
from leyden.errors import ApiError, ForkError, LeydenError, ResponseLost
from leyden.http_sandbox import create_sandbox
from leyden.http_sandbox import resources as http_resources
from leyden.http_sandbox import sandbox as http_sandbox
from leyden.http_sandbox.receivers import HttpReceiver
from leyden.http_sandbox.resources import HttpCharge
from leyden.lightning.payer.payment_scripts import OUTCOMES
from leyden.sandbox import Sandbox
from leyden.sandbox.collections import Collection, FaultList
from leyden.sandbox.payer_list import PayerList
from leyden.sandbox.resources import Charge, Payment, StaticCharge
from leyden.sandbox.service_fault_list import ServiceFaultList
from leyden.sandbox.wallet import Wallet
from tests.support.deep import deep, deep_except, deep_or, sampled
from tests.support.served import ROOT, Client, served_leyden, started_server

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


def test_a_url_without_a_server_is_one_line(suite: pytest.Pytester) -> None:
    suite.makepyfile("def test_it(leyden_server): pass")
    outcome = suite.runpytest_inprocess("--leyden-url", "http://127.0.0.1:9")
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines(["*no server answers at http://127.0.0.1:9*start it with `leyden serve --port 9`*"])
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


STARTS = {
    "2030-01-01T09:00:00Z": "2030-01-01T09:00:00.000Z",
    "2030-01-01T09:00Z": "2030-01-01T09:00:00.000Z",
    "2030-01-01 09:00:00Z": "2030-01-01T09:00:00.000Z",
    "20300101T090000Z": "2030-01-01T09:00:00.000Z",
    "2030-01-01t09:00z": "2030-01-01T09:00:00.000Z",
    "2030-01-01T11:00+02:00": "2030-01-01T09:00:00.000Z",
    "2030-W01-2T09Z": "2030-01-01T09:00:00.000Z",
    "2030-01-01T09:00:00.123456789Z": "2030-01-01T09:00:00.123Z",
    "2016-12-31T23:59:60Z": "2017-01-01T00:00:00.000Z",
}


@pytest.mark.parametrize("start", STARTS)
def test_every_text_of_a_start_is_taken_in_process_and_over_http(
    suite: pytest.Pytester, client: Client, start: str
) -> None:
    suite.makepyfile(f"def test_it(leyden_server): assert leyden_server.sandbox.now == {STARTS[start]!r}")
    suite.makeini(f"{CONFIG}leyden_start = {start}\n")
    for options in ((), ("--leyden-url", client.url)):
        suite.runpytest_inprocess(*options).assert_outcomes(passed=1)
    with Sandbox(start=start) as inside, create_sandbox(client.url, start=start) as box:
        assert inside.now == box.now == STARTS[start]
        box.run("1h")
        assert box.reset(start=start).now == STARTS[start]


@pytest.mark.parametrize("start", [datetime(2030, 1, 1, 9, tzinfo=UTC), 1_893_488_400_000])
def test_a_start_may_be_a_datetime_or_milliseconds(client: Client, start: Any) -> None:
    with Sandbox(start=start) as inside, create_sandbox(client.url, start=start) as box:
        assert inside.now == box.now == "2030-01-01T09:00:00.000Z"
        assert box.reset(start="now").now > "2024"


@pytest.mark.parametrize("start", ["soon", "2030-01-01", "2030-01-01T09:00", "1970-01-01T00:00:00Z", 5, True, 1.5])
def test_a_wrong_start_is_the_same_error_in_process_and_over_http(client: Client, start: Any) -> None:
    texts = []
    with create_sandbox(client.url) as box:
        for make in (Sandbox, partial(create_sandbox, client.url), box.reset):
            with pytest.raises(ValueError, match=r".") as raised:
                make(start=start)
            texts.append(str(raised.value))
    assert texts == texts[:1] * 3


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("leyden_overlays", "./mine.overlay.yaml", "/overlays/0: expected the name of an overlay"),
        ("leyden_start", "now", "'now' is not a date-time"),
    ],
)
def test_an_error_names_the_option_that_is_refused(
    suite: pytest.Pytester, client: Client, option: str, value: str, text: str
) -> None:
    (suite.path / "mine.overlay.yaml").write_text("overlay: 1.0.0\ninfo: {title: mine, version: '1'}\nactions: []\n")
    suite.makepyfile("def test_it(leyden_server): pass")
    suite.makeini(f"{CONFIG}{option} = {value}\n")
    outcome = suite.runpytest_inprocess("--leyden-url", client.url)
    lines = [*outcome.outlines, *outcome.errlines]
    assert any(f"{option}: " in line and text in line for line in lines)


@pytest.mark.parametrize("external", [True, False])
def test_the_url_of_the_server_creates_further_sandboxes(
    suite: pytest.Pytester, client: Client, external: bool
) -> None:
    suite.makepyfile("""
        from leyden.http_sandbox import create_sandbox

        def test_it(leyden_server):
            with create_sandbox(leyden_server.server_url, name="further") as box:
                assert box.ask("GET", "/v0/wallet") == leyden_server.sandbox.ask("GET", "/v0/wallet")
    """)
    suite.runpytest_inprocess(*(("--leyden-url", client.url) if external else ())).assert_outcomes(passed=1)


def test_the_url_of_a_sandbox_creates_none_and_the_refusal_names_that_of_the_server(client: Client) -> None:
    refusal = f"belongs to the server, not to a sandbox: ask at {client.url}, whose paths are listed at"
    with create_sandbox(client.url) as box, pytest.raises(ApiError, match=refusal):
        create_sandbox(box.url)


@pytest.mark.parametrize("external", deep_except([True, False], True))
def test_four_workers_have_a_sandbox_each_and_leak_nothing(
    suite: pytest.Pytester, client: Client, external: bool
) -> None:
    workers, number = deep_or(bounded=(2, 12), full=(4, 24))
    suite.makeini("[pytest]\naddopts = -p no:cacheprovider -p no:schemathesis\n")
    suite.makepyfile(
        """
        import os, pytest

        def sees_its_own(box, name):
            before = {one.data["internalId"] for one in box.charges}
            charge = box.charges.create(amount="1000", description="tea", internalId=name)
            box.wallet("ana").pay(charge)
            box.run()
            assert charge.status == "completed"
            return before

        @pytest.mark.parametrize("number", range(NUMBER))
        def test_one(leyden_server, session_leyden_server, number):
            worker = os.environ["PYTEST_XDIST_WORKER"]
            assert sees_its_own(leyden_server.sandbox, f"{worker}-{number}") == set()
            shared = sees_its_own(session_leyden_server.sandbox, f"{worker}-{number}")
            assert all(name.startswith(f"{worker}-") for name in shared)
            with open(f"keys-{worker}.txt", "a") as file:
                print(next(iter(session_leyden_server.sandbox.charges)).id, file=file)
    """.replace("NUMBER", str(number))
    )
    options = ("--leyden-url", client.url) if external else ()
    result = suite.run(sys.executable, "-m", "pytest", "-n", str(workers), *options)
    result.assert_outcomes(passed=number)
    files = sorted(suite.path.glob("keys-*.txt"))
    first_ids = [set(file.read_text().split()) for file in files]
    assert len(files) > 1
    assert all(len(ids) == 1 for ids in first_ids)
    assert len(set.union(*first_ids)) == len(files)
    assert client.ok("GET", BOXES)["data"] == []
    assert client.ok("GET", "/sandbox/v1")["charges"] == {}


@deep("test_four_workers_have_a_sandbox_each_and_leak_nothing")
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
    monkeypatch.setattr("leyden.http_sandbox.sandbox._PAGE", 2)
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


# The arguments of `Sandbox`, and what is not there

PAIRS: list[tuple[type, type]] = [
    (Sandbox, http_sandbox.HttpSandbox),
    (Charge, http_resources.HttpCharge),
    (StaticCharge, http_resources.HttpStaticCharge),
    (Collection, http_resources.HttpCollection),
    (FaultList, http_resources.HttpFaults),
    (ServiceFaultList, http_resources.HttpServiceFaults),
    (PayerList, http_resources.HttpPayers),
    (Wallet, http_resources.HttpWallet),
    (Payment, http_resources.HttpPayment),
    (Receiver, HttpReceiver),
]


def _of(kind: str, names: str) -> list[tuple[str, str]]:
    return [(kind, name) for name in names.split()]


ABSENT = {
    "tables, figures and drawings need the rows of the process": [
        *_of(
            "Sandbox",
            "attempts balances callbacks facts htlcs kpi kpis lifecycle liquidity outages plot schedule table",
        ),
        *_of("Charge", "lifecycle qr sequence timeline"),
        *_of("StaticCharge", "lifecycle qr"),
        *_of("Collection", "table"),
        *_of("Wallet", "payments"),
    ],
    "objects of the process": [
        *_of("Sandbox", "app http network traffic world"),
        *_of("Charge", "invoice"),
        *_of("FaultList", "hits"),
        *_of("ServiceFaultList", "hits"),
        *_of("Payment", "outcome row"),
        *_of("Receiver", "behaves use_secret"),
    ],
    "scripts and notebooks are written from the actions in the process": _of("Sandbox", "action_log notebook script"),
    "actions are functions of one program, and any program moves the time of a server": _of(
        "Sandbox", "at cancel every scheduled"
    ),
    "a sandbox of a server is created and imported by the server": _of("Sandbox", "from_snapshot load"),
    "the server was started by somebody else": _of("Sandbox", "close serve set_egress"),
    "a server runs all events of an instant together": _of("Sandbox", "step"),
    "`ask` raises `ApiError`, which has the status and the problem": _of("Sandbox", "request"),
}


def test_every_method_takes_the_arguments_of_the_sandbox_in_process() -> None:
    """In the order and with the names of `Sandbox`; more are possible. Exceptions are told in the docstrings."""
    differ, compared = [], 0
    for in_process, over_http in PAIRS:
        for name in dir(over_http):
            ours, theirs = getattr(over_http, name), getattr(in_process, name, None)
            if name.startswith("_") or not (inspect.isfunction(ours) and inspect.isfunction(theirs)):
                continue
            compared += 1
            taken = inspect.signature(ours).parameters
            differ += [
                f"{over_http.__name__}.{name}: {one.name}"
                for place, one in enumerate(inspect.signature(theirs).parameters.values())
                if one.name not in taken
                or taken[one.name].kind != one.kind
                or (one.kind == one.POSITIONAL_OR_KEYWORD and [*taken][place] != one.name)
            ]
    assert not differ
    assert compared > 15
    readme = " ".join((ROOT / "sim" / "devserver" / "README.md").read_text(encoding="utf-8").split())
    assert "Methods take the arguments of `Sandbox`; `spill` of `run` is refused:" in readme


def test_time_is_moved_over_http_by_the_arguments_of_the_process(client: Client) -> None:
    start = "2030-01-01T00:00:00Z"
    moves: list[tuple[str, list[Any]]] = [
        ("advance", ["1s", 0.5, timedelta(seconds=5), "1h30m", 0, "365251d", "2932896d", "0.6ms", "x", None]),
        ("advance_to", ["2030-01-01T10:00Z", "2030-01-01T12:00:00+01:00", datetime(2030, 1, 1, 13, tzinfo=UTC), 18, 0,
                        1_893_459_600, 1_893_459_600_000, "1970-06-01T00:00:00Z", "9999-12-31T23:59:59.999Z", -1, True,
                        253_402_300_800_000, "2030-01-01", 1.5]),
        ("run", ["idle", "next_event", "1h", "x"]),
    ]  # fmt: skip
    with create_sandbox(client.url, seed=5, start=start, rate=0) as box:
        for name, values in moves:
            for value in values:
                box.reset()
                found: list[Any] = []
                for one in (box, Sandbox(seed=5, start=start)):
                    try:
                        getattr(one, name)(value)
                    except (LeydenError, ValueError, TypeError) as error:
                        found.append((isinstance(error, ApiError), str(one.now)))
                    else:
                        found.append(str(one.now))
                assert found[0] == found[1], (name, value)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_payment_over_http_takes_the_outcomes_of_the_process(client: Client, outcome: str) -> None:
    with create_sandbox(client.url, seed=5, rate=0) as box, Sandbox(seed=5) as inside:
        found = []
        for one in (box, inside):
            charge = one.charges.create(amount="1000", description="tea")
            payment = one.wallet("ana").pay(charge, outcome=outcome)
            one.advance("3m")
            found.append((payment.status, charge.status))
        assert found[0] == found[1]


def test_every_object_over_http_has_a_repr_that_names_it(client: Client) -> None:
    with create_sandbox(client.url, seed=5, rate=0) as box:
        charge = box.charges.create(amount="1000", description="tea")
        tips = box.static_charges.create(minAmount="1000", maxAmount="5000", description="Tips")
        payment = box.wallet("ana").pay(charge)
        shown = {
            f"HttpSandbox({box.url})": box,
            f"HttpCharge({charge.id})": charge,
            f"HttpStaticCharge({tips.id})": tips,
            f"HttpPayment({payment.id})": payment,
            "HttpWallet('ana')": box.wallet("ana"),
            "HttpReceiver('shop')": box.receiver("shop"),
            "HttpCollection(/v0/charges)": box.charges,
            "HttpCollection(/v0/static-charges)": box.static_charges,
            "HttpFaults(/sandbox/v1/faults)": box.faults,
            "HttpServiceFaults(/sandbox/v1/service-faults)": box.service_faults,
            "HttpPayers(/sandbox/v1/payers)": box.payers,
        }
    assert [*shown] == [repr(one) for one in shown.values()]
    assert {type(one).__name__ for one in shown.values()} >= {over_http.__name__ for _, over_http in PAIRS}


def test_what_is_not_there_over_http_is_left_out_on_purpose() -> None:
    absent = {
        f"{in_process.__name__}.{name}"
        for in_process, over_http in PAIRS
        for name in dir(in_process)
        if not (name.startswith("_") or hasattr(over_http, name) or name in over_http.__init__.__code__.co_names)
    }
    assert absent == {f"{kind}.{name}" for names in ABSENT.values() for kind, name in names}
    assert all(reason for reason in ABSENT)


def test_the_readme_lists_what_is_not_there_over_http() -> None:
    text = (ROOT / "sim" / "devserver" / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\w+)`", text.partition("Not there over HTTP:")[2].partition("\n\n")[0]))
    assert listed == {name for names in ABSENT.values() for _, name in names}


def test_a_receiver_is_scripted_over_http_as_in_process(client: Client) -> None:
    with (
        Sandbox(seed=5, start="2030-01-01T00:00:00Z") as inside,
        create_sandbox(client.url, seed=5, start="2030-01-01T00:00:00Z", rate=0) as box,
    ):
        found = []
        for one in (inside, box):
            shop = (
                one.receiver("shop")
                .always(204)
                .answers([500, TIMEOUT, Reply(status=429, headers={"Retry-After": "5"})])
            )
            charge = one.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/x")
            shop.when("RESET", event="charge.completed", charge=charge.id, attempt=1).when(503, attempt=2, count=None)
            one.wallet("ana").pay(charge)
            one.run()
            assert shop.objections == 0
            assert len(shop.script) + len(shop.rules) == len(shop.reset_script().script) + 1
            found.append([shop.usual["status"], len(shop.inbox), one.now])
        assert found[0] == found[1]
        with pytest.raises(ValueError, match="is not a list of replies"):
            box.receiver("shop").answers(500)
        with pytest.raises(ApiError, match="did you mean status"):
            box.receiver("shop").always({"statuss": 200})


@pytest.mark.parametrize(
    ("what", "name", "mend"),
    [
        ("charge", "invoice", r"\.request"),
        ("service_faults", "hits", 'field "hits"'),
        ("wallet", "payments", r"payments\(\)"),
    ],
)
def test_what_http_has_in_another_place_is_named(client: Client, what: str, name: str, mend: str) -> None:
    with create_sandbox(client.url) as box:
        one = {
            "charge": HttpCharge(box, "/v0/charges", "x"),
            "service_faults": box.service_faults,
            "wallet": box.wallet("a"),
        }
        with pytest.raises(AttributeError, match=mend):
            getattr(one[what], name)


def test_what_the_sandbox_in_process_has_is_there_over_http(client: Client, tmp_path: Path) -> None:
    with create_sandbox(client.url, seed=5, start="2030-01-01T00:00:00Z", rate=0, name="checkout") as box:
        assert box.label == "checkout"
        assert box.path("getChargeDetails") == "/v0/charges/{id}"
        with pytest.raises(ValueError, match="no operation 'payCharge'"):
            box.path("payCharge")
        with pytest.raises(ValueError, match="no operation 'createCharg': did you mean 'createCharge'"):
            box.path("createCharg")
        charge = box.charges.create(amount="1000", description="tea", expiresIn=60)
        assert charge.expires_at - charge.created_at == timedelta(seconds=60)
        tips = box.static_charges.create(minAmount="1000", maxAmount="5000", description="Tips")
        paid = [box.wallet("ana").scan(tips, amount=amount) for amount in (1_000, 2_000)]
        before = box.snapshot()
        for number in range(3):
            box.wallet("bob").pay(box.charges.create(amount="1000", description="x"), delay=10 * (number + 1))
        assert box.now == "2030-01-01T00:00:00.000Z"
        fired = box.run(events=2)
        assert len(fired) >= 2
        assert box.now < "2030-01-01T00:00:30.000Z"
        assert box.run(events=0) == []
        box.run(events=1_000)
        assert box.now > "2030-01-01T00:00:30.000Z"
        for wrong in ({"events": -1}, {"until": "next_event", "events": 1}):
            with pytest.raises(ValueError, match="events"):
                box.run(**wrong)
        assert [payment["id"] for payment in box.payments()][:2] == [payment.id for payment in paid]
        assert [one.amount_msat for one in tips.charges] == [1_000, 2_000]
        assert tips.slots == 2
        assert [entry["sequence"] for entry in box.journal()] == list(range(1, len(box.journal()) + 1))
        assert {row["table"] for row in box.diff(before)} >= {"charges", "payments"}
        with pytest.raises(ValueError, match=r"Sandbox.load\(one\).diff\(Sandbox.load\(other\)\)"):
            box.diff(box)  # type: ignore[arg-type]
        for call in (box.diff, box.restore, lambda one: box.fork(snapshot=one)):
            with pytest.raises(ValueError, match=r"5 is not the id of a snapshot: give the text that snapshot\(\)"):
                call(5)  # type: ignore[arg-type]
        with Sandbox.load(box.save(tmp_path / "saved.json")) as loaded:
            assert len(loaded.diff(loaded.fork())) == 0
            assert loaded.journal_hash == box.journal_hash
            assert len(loaded.charges) == len(box.charges)
        with pytest.raises(ForkError, match="cannot be written"):
            box.save(tmp_path / "missing" / "saved.json")


@pytest.mark.parametrize(
    ("rules", "arguments"),
    sampled(
        [
            ("service_faults", {"kind": "error", "status": 429, "retry_after": "2s", "count": 2}),
            ("service_faults", {"kind": "connection_reset", "after_commit": True, "marked": False, "count": None}),
            ("service_faults", {"kind": "slow_body", "delay": timedelta(seconds=2), "until": "2040-01-01T00:00:00Z"}),
            ("service_faults", {"kind": "stale_read", "until": datetime(2040, 1, 1, tzinfo=UTC), "nth": 2}),
            ("service_faults", {"kind": "stale_read", "until": 2_208_988_800_000, "operation": "getChargeDetails"}),
            ("faults", {"kind": "drop", "attempt": 2, "count": None, "event": "charge.expired"}),
            ("faults", {"kind": "delay", "delay": 90}),
            ("payers", {"internal_id": "late-*", "after_expiry": "1s"}),
            ("payers", {"amount": 250_000, "before_expiry": timedelta(seconds=5), "share": 0.5, "payer": "bob"}),
        ],
        3,
    ),
)
def test_rules_are_the_same_in_process_and_over_http(client: Client, rules: str, arguments: dict[str, Any]) -> None:
    with Sandbox(start="2030-01-01T00:00:00Z") as inside, create_sandbox(client.url) as box:
        rest = dict(arguments)
        given = [rest.pop("kind")] if "kind" in rest else []
        found = [getattr(one, rules).add(*given, **rest) for one in (inside, box)]
        for one in found:
            one.pop("id"), one.pop("createdAt")
        assert found[0] == found[1]


def test_rules_name_resources_and_a_fork_its_label(client: Client) -> None:
    with create_sandbox(client.url) as box:
        charge = box.charges.create(amount="1000", description="tea", callbackUrl="http://a.localhost")
        static = box.static_charges.create(minAmount="1000", maxAmount="1000", description="Tips")
        assert box.faults.add("drop", charge=charge)["chargeId"] == charge.id
        assert box.payers.add(static_charge=static)["staticChargeId"] == static.id
        with box.fork("early", reseed=4) as fork:
            assert fork.name == "early"
        box.advance_to(box.now, "90s")
        assert box.run("1m") is not None
        before = box.now
        box.advance_to(datetime.fromisoformat(before), "-1s")
        assert box.now == before


def test_what_is_not_there_says_where_it_is(client: Client) -> None:
    with create_sandbox(client.url) as box:
        charge = box.charges.create(amount="1000", description="tea")
        for one in (box, charge, box.charges, box.faults, box.wallet("ana"), box.wallet("ana").pay(charge)):
            with pytest.raises(AttributeError, match=r"has no kpi, which is not available over HTTP: .*leyden.Sandbox"):
                one.kpi  # noqa: B018


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("connection_reset", {}, "reset"),
        ("connection_reset", {"after_commit": True}, "reset"),
        ("truncated_body", {}, "closed"),
    ],
)
def test_a_lost_response_is_the_same_error_in_process_and_over_http(
    client: Client, kind: str, options: dict[str, Any], reason: str
) -> None:
    with Sandbox() as inside, create_sandbox(client.url) as box:
        for one in (inside, box):
            one.service_faults.add(kind, **options)
            with pytest.raises(ResponseLost, match=r"the request may have been processed") as lost:
                one.charges.create(amount="1000", description="tea")
            assert lost.value.reason == reason
            assert len(one.charges) == (1 if options or kind == "truncated_body" else 0)


def test_an_error_response_that_is_lost_is_not_a_refusal(client: Client) -> None:
    with create_sandbox(client.url) as box:
        box.service_faults.add("truncated_body")
        with pytest.raises(ResponseLost, match="closed within the response"):
            box.charges.create(amount="1", description="tea")


def test_a_server_that_speaks_no_http_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"220 mail.example ready\r\n")

        with ThreadPoolExecutor() as pool:
            pool.submit(answer)
            with pytest.raises(LeydenError, match=r"does not answer in HTTP"):
                create_sandbox(f"http://127.0.0.1:{server.getsockname()[1]}")
