"""What objects of a sandbox show of themselves: text in a terminal, tables in a notebook, help and completion."""

from __future__ import annotations

import inspect
import pydoc
import re
import warnings
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import leyden
from leyden import Sandbox
from leyden.errors import ApiError
from leyden.sandbox.resources import Payment

BODY = {"amount": "250000", "description": "tea", "callbackUrl": "http://shop.localhost/paid"}
EVIL = "<script>alert(1)</script>"


class Tables(HTMLParser):
    """The captions and the rows of all tables, and a check that each tag is closed in its place."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.captions: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1] == "caption":
            self.captions.append(data)
        else:
            self.rows[-1][-1] += data


def shown(value: Any) -> Tables:
    return Tables(value._repr_html_())


@pytest.fixture
def busy() -> Sandbox:
    sb = Sandbox(seed=7, start="2030-01-01T09:00Z", network="line:4")
    sb.receiver("shop").answers([500, 200])
    sb.wallet("ana").pay(sb.charges.create(**BODY))
    sb.wallet("ana").pay(sb.charges.create(**BODY), outcome="fail")
    sb.run("10m")
    return sb


def test_a_wallet_shows_its_balance_and_its_payments(busy: Sandbox) -> None:
    wallet = busy.wallet("ana")
    frame = busy.payments
    node = busy.network.wallet("ana")
    first, *lines = repr(wallet).splitlines()
    assert first.startswith(f"Wallet('ana'): node {node.name} with {node.outbound_msat} msat outbound, payments: ")
    assert "1 failed, 1 succeeded, 250000 msat paid, " in first
    assert f"{frame['fees_msat'].sum()} msat fees" in first
    assert lines == [f"  {payment!r}" for payment in wallet.payments]
    assert [payment.id for payment in wallet.payments] == list(frame["id"])
    table = shown(wallet)
    assert table.rows[0] == ["created_at", "amount_msat", "status", "outcome", "reason"]
    assert [row[1:4] for row in table.rows[1:]] == [
        ["250000", "succeeded", "SUCCEEDED"],
        ["250000", "failed", str(frame["outcome"].iloc[1])],
    ]


def test_a_wallet_that_has_not_paid_says_the_next_step() -> None:
    sb = Sandbox()
    assert repr(sb.wallet("bob")) == ("Wallet('bob'): unlimited balance, no payment yet, schedule one with pay(charge)")
    wallet = sb.wallet(EVIL)
    wallet.pay(sb.charges.create(amount="1000", description="tea"))
    assert shown(wallet).captions == [repr(wallet).splitlines()[0].removesuffix(", the newest:")]
    assert "<script" not in wallet._repr_html_()
    sb.close()
    assert repr(wallet) == f"Wallet({EVIL!r}, of a closed sandbox)"
    assert shown(wallet).rows == []


def test_the_network_and_its_nodes_show_their_channels(busy: Sandbox) -> None:
    balances = busy.balances.query("shop")
    table = shown(busy.network["shop"])
    assert table.rows[0] == [
        "channel",
        "peer",
        "capacity_msat",
        "local_msat",
        "remote_msat",
        "in_flight_msat",
        "on_chain_msat",
        "closed",
    ]
    assert [row[3] for row in table.rows[1:]] == [str(amount) for amount in balances["balance_msat"]]
    whole = shown(busy.network)
    assert whole.captions == [repr(busy.network).splitlines()[0], repr(busy.network["shop"])]
    first = next(number for number, row in enumerate(whole.rows) if row[0] == "conditions")
    after = next(number for number, row in enumerate(whole.rows) if number > first and row[0])
    assert after > first + 1
    assert " ".join(row[1] for row in whole.rows[first:after]) == busy.network.conditions
    assert whole.rows[-len(table.rows) :] == table.rows
    assert shown(busy.network.wallet("ana")).rows


def test_faults_and_payers_show_their_fields(busy: Sandbox) -> None:
    empty = [shown(each) for each in (busy.faults, busy.service_faults, busy.payers)]
    assert [table.rows for table in empty] == [[], [], []]
    assert "add one" in empty[0].captions[0]
    busy.faults.add("drop", attempt=2)
    busy.service_faults.add("error", status=429, operation="createCharge")
    busy.payers.add(delay="2s", internal_id=EVIL)
    for each in (busy.faults, busy.service_faults, busy.payers):
        [resource] = list(each)
        table = shown(each)
        assert table.captions == [repr(each).splitlines()[0]]
        present = {name: value for name, value in resource.items() if value is not None}
        assert dict(zip(table.rows[0], table.rows[1], strict=True)) == {k: str(v) for k, v in present.items()}


def test_a_receiver_shows_the_latest_callbacks(busy: Sandbox) -> None:
    receiver = busy.receiver("shop")
    table = shown(receiver)
    assert table.captions == [repr(receiver).strip("<>")]
    assert [row[1:3] for row in table.rows[1:]] == [[got.event, str(got.attempt)] for got in receiver.inbox]
    assert len(table.rows) > 2


def test_figures_and_the_result_of_a_run_are_tables(busy: Sandbox) -> None:
    kpi = shown(busy.kpi)
    assert kpi.captions == [repr(busy.kpi).splitlines()[0]]
    assert [name for name, _ in kpi.rows] == list(busy.kpi.row())
    assert dict(kpi.rows)["completed"] == "1"  # type: ignore[arg-type]
    fired = busy.run("2h")
    table = shown(fired)
    assert table.captions == [f"{len(fired)} events"]
    assert sum(int(row[1]) for row in table.rows[1:]) == len(fired)
    assert {row[0] for row in table.rows[1:]} == {one.kind for one in fired}
    assert shown(busy.run("0s")).rows == []


def test_a_closed_sandbox_shows_that(busy: Sandbox) -> None:
    objects = (busy.wallet("ana"), busy.receiver("shop"), busy.faults, busy.service_faults, busy.payers)
    busy.close()
    for each in objects:
        assert "closed sandbox" in unescape(each._repr_html_())
        assert "closed sandbox" in repr(each)


def test_what_a_sandbox_no_longer_has_is_shown_as_such(tmp_path: Path) -> None:
    sandbox = Sandbox(seed=1)
    charge = sandbox.charges.create(amount="5000", description="x")
    static = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="tips", expiresIn=60)
    payment = sandbox.wallet("ana").pay(charge)
    sandbox.run("2m", spill=tmp_path / "<b>")
    later = sandbox.charges.create(amount="5000", description="y")
    gone = [charge, payment, *([] if static in list(sandbox.static_charges) else [static])]
    sandbox_before = len(sandbox.journal)
    for each in gone:
        assert repr(each).startswith(f"{type(each).__name__}({each.id}, which the sandbox does not have; 1 that ended")
        assert "<b>" in repr(each)
        assert "<b>" not in each._repr_html_()
        assert unescape(each._repr_html_()) == repr(each)
    assert len(sandbox.journal) == sandbox_before
    sandbox.ask("POST", "/sandbox/v1/reset", {"seed": 5})
    assert repr(later) == f"Charge({later.id}, which the sandbox does not have)"
    sandbox.close()
    for each in (charge, static, payment):
        assert repr(each) == each._repr_html_() == f"{type(each).__name__}({each.id}, of a closed sandbox)"


def test_the_seed_is_that_of_the_present_run() -> None:
    with Sandbox(seed=7) as sandbox, sandbox.fork() as fork:
        assert (sandbox.seed, fork.seed) == (7, sandbox.ask("GET", "/sandbox/v1")["seed"])
        sandbox.ask("POST", "/sandbox/v1/reset", {"seed": 5})
        assert (sandbox.seed, fork.seed) == (5, 7)


def test_the_files_of_a_run_have_every_event_and_the_journal_the_last_of_them(tmp_path: Path) -> None:
    sandbox = Sandbox(seed=1)
    sandbox.charges.create(amount="5000", description="x")
    sandbox.run("2h", spill=tmp_path)
    files, here = set(leyden.read(tmp_path).journal["sequence"]), set(sandbox.journal["sequence"])
    assert here <= files
    assert sorted(files) == [*range(1, max(files) + 1)]


# Help and completion


def test_help_names_every_attribute_of_a_sandbox_with_a_line(sandbox: Sandbox) -> None:
    text = re.sub(".\b", "", pydoc.render_doc(Sandbox))
    for name in [name for name in dir(sandbox) if not name.startswith("_") and name != "session"]:
        found = re.search(rf"^ \|  {name}(\(.*)?\n \|      (\S.*)", text, flags=re.MULTILINE)
        assert found, name
        assert len(found[2]) > 10
    assert "session" in text


@pytest.mark.parametrize("kind", ["charges", "static_charges"])
def test_create_has_the_fields_of_the_specification(sandbox: Sandbox, kind: str) -> None:
    operation = {"charges": "createCharge", "static_charges": "createStaticCharge"}[kind]
    body = sandbox.world.config.contract.operation(operation).body
    assert body is not None
    create = getattr(sandbox, kind).create
    *named, rest = inspect.signature(create).parameters.values()
    assert {one.name for one in named} == set(body.properties)
    required = [one.name for one in named if one.default is inspect.Parameter.empty]
    assert required == [name for name in body.properties if name in body.rule.schema["required"]]
    assert rest.kind is inspect.Parameter.VAR_KEYWORD
    text = re.sub(".\b", "", pydoc.render_doc(create))
    for name in body.properties:
        assert re.search(rf"^ +{name}( \(required\))?: [A-Z]", text, flags=re.MULTILINE), name
    assert inspect.signature(create).parameters["expiresIn"].default == 600 or kind == "static_charges"


def test_create_has_the_fields_of_another_specification() -> None:
    sb = Sandbox(overlays=["strict"])
    assert "amount" in inspect.signature(sb.charges.create).parameters
    with pytest.raises(ApiError):
        sb.charges.create(amount="1000", description="tea", unknown=1)


def test_a_warning_about_a_field_points_to_the_line_of_the_caller(sandbox: Sandbox) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sandbox.charges.create(amount="1000", description="tea", expires=5)
    [warning] = caught
    assert warning.filename == __file__


# Mixed-up names


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("status", "'status' is a column, not an id: use sb.charges.table['status']"),
        ("amount", "'amount' is a field, not an id: use sb.charges.table['amount_msat']"),
        ("expiresAt", "'expiresAt' is a field, not an id: use sb.charges.table['expires_at']"),
        ("internalId", "'internalId' is a field, not an id: use sb.charges.table['internal_id']"),
    ],
)
def test_a_field_in_place_of_an_id_names_the_column(sandbox: Sandbox, key: str, words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        sandbox.charges[key]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("status", "sb.charges has no attribute status: use sb.charges.table['status']"),
        ("crate", "did you mean create?"),
        ("zzz", "it has create, table, [id], len and iteration"),
    ],
)
def test_a_field_of_a_collection_names_the_column(sandbox: Sandbox, name: str, words: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(words)):
        getattr(sandbox.charges, name)
    assert not hasattr(sandbox.charges, "_repr_png_")


@pytest.mark.parametrize("name", ["reset", "wait", "rotate", "rotate_secret", "webhook_secret", "requests"])
def test_a_name_that_a_sandbox_does_not_have_names_what_does_its_work(sandbox: Sandbox, name: str) -> None:
    with pytest.raises(AttributeError, match=f"Sandbox has no attribute {name}: call (ask.*)") as refused:
        getattr(sandbox, name)
    sandbox.wallet("ana").pay(
        sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/x")
    )
    eval(f"sandbox.{str(refused.value).rpartition(': call ')[2]}", {"sandbox": sandbox})


def test_an_open_payment_says_what_it_waits_for_and_when(sandbox: Sandbox) -> None:
    def started(outcome: str = "settle", delay: str = "0s") -> Payment:
        charge = sandbox.charges.create(amount="1000", description="tea")
        payment = sandbox.wallet("ana").pay(charge, outcome=outcome, delay=delay)
        sandbox.advance("1s")
        return payment

    later, held, incomplete, paid = started(delay="2m"), started("hold"), started("incomplete"), started()
    for payment, words in (
        (later, "in_flight: it starts at 2030-01-01T09:02:00.000Z"),
        (held, "held: settle() or cancel() it, or the node returns it at 2030-01-01T09:10:01.000Z"),
        (incomplete, "in_flight: the node waits for its other parts until 2030-01-01T09:02:02.000Z, then returns"),
        (paid, "succeeded)"),
    ):
        assert words in repr(payment)
    assert "it starts at" in later._repr_html_()


def test_a_payment_on_the_way_over_a_network_says_so() -> None:
    sandbox = Sandbox(seed=7, network="star:5")
    payment = sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="tea"))
    sandbox.advance("10ms")
    assert "in_flight: it is on the way over the network" in repr(payment)


@pytest.mark.parametrize(
    ("latency", "words"),
    [("3s", "its answer comes at 2030-01-01T09:00:03.000Z"), ("1h", "it times out at 2030-01-01T09:00:15.000Z")],
)
def test_an_attempt_in_flight_says_until_when_it_is(sandbox: Sandbox, latency: str, words: str) -> None:
    sandbox.receiver("shop").behaves(latency=latency)
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/paid")
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("1s")
    [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
    [callback] = sandbox.callbacks.note
    assert delivery["attempts"][0]["note"] == callback == f"the receiver 'shop' has not answered yet: {words}"
    sandbox.run()
    assert "not answered yet" not in "".join(sandbox.callbacks.note)


def test_one_of_a_kind_is_no_plural(sandbox: Sandbox) -> None:
    sandbox.charges.create(amount="1000", description="tea")
    fired = sandbox.run(events=1)
    assert (repr(fired).splitlines()[0], ">1 event<" in fired._repr_html_()) == ("1 event:", True)
    assert repr(sandbox.run(events=1)) == "0 events"
    sandbox.faults.add("drop")
    sandbox.service_faults.add("error")
    sandbox.payers.add(delay="2s")
    assert [repr(each).splitlines()[0] for each in (sandbox.faults, sandbox.service_faults, sandbox.payers)] == [
        "1 fault:", "1 service fault:", "1 payer:",
    ]  # fmt: skip
    assert sandbox.faults._repr_html_().count(">1 fault:<") == 1
