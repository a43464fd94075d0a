"""Tables: every frame is new, has the same dtypes when empty, exact amounts, and marks missing values."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.lab import tables
from leyden.lab.table_columns import MEANINGS, columns
from leyden.lab.table_rows import COUNT, FLAG, MSAT, SHARE, TABLES, TEXT, TIME
from leyden.server.timestamps import to_iso
from leyden.world.config import packaged_contract
from tests.support.lists import listed
from tests.support.strategies import URL, Action, actions, perform

NAMES = list(TABLES)
NETWORKS = ["direct", "line:4"]


def busy(network: str = "direct") -> Sandbox:
    sandbox = Sandbox(seed=7, start="2030-01-01T09:00Z", network=network)
    sandbox.receiver("shop").answers([500, "timeout", 200])
    sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000000", description="tea", callbackUrl=URL))
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=1)
    sandbox.wallet("ana").scan(tips, amount=2000)
    sandbox.wallet("bob").scan(tips, amount=3000)
    sandbox.charges.create(amount="1001", description="nobody", expiresIn=60)
    sandbox.run()
    return sandbox


def kind_of(frame: pd.DataFrame, column: str) -> str:
    dtype = frame[column].dtype
    words = {"Int64": "whole", "float64": "float", "boolean": FLAG, "str": TEXT, "datetime64[ms, UTC]": TIME}
    return "state" if isinstance(dtype, pd.CategoricalDtype) else words[str(dtype)]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", NAMES)
def test_full_or_empty_a_table_has_the_same_columns_of_the_same_types(name: str, network: str) -> None:
    empty, full = Sandbox(network=network).table(name), busy(network).table(name)
    assert len(full) or name == "outages"  # the conditions decide, and direct payments have none
    assert list(empty.columns) == list(full.columns)
    assert empty.dtypes.equals(full.dtypes)
    expected = [("world", TEXT)]
    for column, kind in TABLES[name].columns:
        expected.append((column, {MSAT: "whole", COUNT: "whole", SHARE: "float"}.get(kind, kind)))
        if kind == MSAT:
            expected.append((column.removesuffix("msat") + "sat", "float"))
    assert [(column, kind_of(full, column)) for column in full] == [
        (column, kind if kind in ("whole", "float", TEXT, TIME, FLAG) else "state") for column, kind in expected
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_table_has_its_name_on_the_sandbox(name: str) -> None:
    sandbox = busy()
    shown: Any = getattr(sandbox, name)
    frame = shown.table if name in ("charges", "static_charges") else shown
    pd.testing.assert_frame_equal(frame, tables.frame(sandbox.world, name))
    assert (frame["world"] == "main").all()
    assert frame.index.equals(pd.RangeIndex(len(frame)))


def test_a_frame_is_a_copy() -> None:
    sandbox = busy()
    taken = sandbox.charges.table
    taken["status"] = "mine"
    assert set(sandbox.charges.table["status"]) == {"completed", "expired"}
    before = sandbox.payments
    sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="another"))
    assert len(sandbox.payments) == len(before) + 1


def test_states_are_categories_among_all_that_the_contract_has() -> None:
    empty = Sandbox()
    assert list(empty.charges.table["status"].cat.categories) == ["pending", "completed", "expired", "error"]
    assert list(empty.static_charges.table["status"].cat.categories) == ["active", "disabled", "expired"]
    counted = busy().charges.table["status"].value_counts()
    assert (counted["pending"], counted["completed"], counted["expired"], counted["error"]) == (0, 2, 2, 0)


def test_amounts_are_exact_with_satoshis_beside_them() -> None:
    sandbox = Sandbox()
    amounts = [1_000, 1_001, 499_999_999, 500_000_000]
    for amount in amounts:
        sandbox.charges.create(amount=str(amount), description="tea")
    table = sandbox.charges.table
    assert table["amount_msat"].tolist() == amounts
    assert table["amount_sat"].tolist() == [1.0, 1.001, 499_999.999, 500_000.0]
    assert table["received_msat"].isna().all()
    assert table["received_sat"].isna().all()
    large = [2**63 - 1, 2**53 + 1, None]
    assert tables._typed(sandbox.world, MSAT, large).tolist()[:2] == large[:2]


def test_instants_are_utc_to_the_millisecond() -> None:
    sandbox = Sandbox(start="2030-01-01T10:00:00.123+01:00")
    charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
    sandbox.wallet("ana").pay(charge, delay="1ms")
    sandbox.run()
    [row] = sandbox.charges.table.itertuples()
    assert row.created_at == pd.Timestamp("2030-01-01T09:00:00Z")
    assert row.expires_at == charge.expires_at
    assert row.confirmed_at == pd.Timestamp("2030-01-01T09:00:00.124Z")
    assert sandbox.payments["resolved_at"].iloc[0] == row.confirmed_at
    assert pd.isna(sandbox.deliveries["due_at"]).all()


@given(st.lists(actions, max_size=12))
def test_the_tables_equal_the_responses_of_the_service(done: list[Action]) -> None:
    sandbox = Sandbox(seed=7)
    for action in done:
        perform(sandbox, action)
    shown = [charge.data for charge in sandbox.charges]
    table = sandbox.charges.table
    assert table["id"].tolist() == [charge["id"] for charge in shown]
    assert table["status"].tolist() == [charge["status"] for charge in shown]
    assert [str(amount) for amount in table["amount_msat"]] == [charge["amount"] for charge in shown]
    assert [to_iso(at.value // 1_000_000) for at in table["expires_at"]] == [charge["expiresAt"] for charge in shown]
    posts = listed(sandbox.ask, "/sandbox/v1/deliveries")[::-1]
    assert sandbox.deliveries["id"].tolist() == [post["id"] for post in posts]
    assert sandbox.deliveries["attempts"].tolist() == [len(post["attempts"]) for post in posts]
    tries = [attempt["status"] for post in posts for attempt in post["attempts"]]
    assert [None if pd.isna(status) else status for status in sandbox.callbacks["http_status"]] == tries
    wallet = sandbox.ask("GET", "/v0/wallet")["data"]["balance"]
    balances = sandbox.balances.set_index("kind")["balance_msat"]
    assert balances.tolist() == [int(wallet), int(wallet)]
    assert table["received_msat"].sum() == int(wallet) == sandbox.payments["received_msat"].sum()


def test_the_journal_table_has_every_fact() -> None:
    sandbox = busy()
    entries = sandbox.world.journal.entries()
    journal = sandbox.journal
    assert journal["sequence"].tolist() == [entry.sequence for entry in entries]
    assert [json.loads(facts) for facts in journal["facts"]] == [entry.facts for entry in entries]
    assert journal["kind"].value_counts()["invoice_settled"] == 2


def test_the_tables_of_a_payment_over_a_network() -> None:
    sandbox = busy("line:4")
    attempts, htlcs = sandbox.attempts, sandbox.htlcs
    assert list(attempts[["at", "hop", "code", "retried", "learned"]].columns) == [
        "at", "hop", "code", "retried", "learned",
    ]  # fmt: skip
    settled = attempts[attempts["status"] == "settled"]
    assert (settled["hops"] == settled["route"].str.count(">") + 1).all()
    hops = htlcs.groupby(["payment_id", "attempt"]).size()
    assert hops.sum() == len(htlcs)
    assert (hops.loc[settled.set_index(["payment_id", "attempt"]).index].to_numpy() == settled["hops"]).all()
    channels = sandbox.balances.query("kind == 'channel'")
    assert (channels["balance_msat"] + channels["remote_msat"] == channels["capacity_msat"]).all()
    assert channels["change_msat"].sum() == 0


# How it looks


def test_a_collection_is_also_a_table() -> None:
    sandbox = busy()
    assert sandbox.charges[["status", "amount_sat"]].shape == (4, 2)
    assert sandbox.charges[sandbox.charges.table["id"].iloc[0]].status == "completed"
    hostile = sandbox.charges.create(amount="1000", description="<script>alert(1)</script>\u202e")
    for shown in (sandbox.charges._repr_html_(), hostile._repr_html_(), sandbox._repr_html_()):
        assert "<table" in shown
        assert "<script" not in shown
        assert "<style" not in shown
    assert "\u202e" not in repr(hostile)


def test_an_invoice_is_a_table_of_its_fields() -> None:
    invoice = Sandbox(seed=7).charges.create(amount="250000", description="<b>tea</b>").invoice
    decoded = invoice.decode()
    lines = repr(decoded).splitlines()
    assert [line.split()[1] for line in lines if not line.startswith(" ")] == [
        "currency", "payment_hash", "payment_secret", "description", "expiry_s", "min_final_cltv", "features",
    ]  # fmt: skip
    assert "    amount          250000 msat" in lines
    assert "&lt;b&gt;tea" in invoice._repr_html_() == decoded._repr_html_()


def test_a_sandbox_is_shown_as_a_card() -> None:
    sandbox = Sandbox(seed=7, start="2030-01-01T09:00Z", label="morning")
    for seconds in (60, 120, 180, 240):
        sandbox.charges.create(amount="1000", description="tea", expiresIn=seconds)
    text = repr(sandbox)
    assert text.startswith("Sandbox(seed=7) 'morning' at 2030-01-01T09:00:00.000Z\n  charges: 4 pending\n  next: ")
    assert text.count("charge_expiry") == 3
    assert sandbox._repr_html_().count("charge_expiry") == 3


def test_drawings_and_figures_change_nothing() -> None:
    sandbox = busy("line:4")
    charge, code = next(iter(sandbox.charges)), next(iter(sandbox.static_charges))
    before = sandbox.journal_hash
    drawings = [charge.timeline(), charge.sequence(), charge.lifecycle(), charge.qr(), code.lifecycle(), code.qr()]
    drawings += [sandbox.lifecycle("Charge"), sandbox.schedule(), sandbox.liquidity()]
    assert all(drawing.svg.startswith("<svg") and repr(drawing) for drawing in drawings)
    assert sandbox.kpi.created == 4
    assert sandbox.kpis(since="2030-01-02T00:00Z").created == 0
    assert sandbox.kpis(until="2030-01-02T00:00Z").created == 4
    assert sandbox.journal_hash == before


def test_pandas_comes_with_the_first_table() -> None:
    code = (
        "import sys; from leyden import Sandbox; sb = Sandbox(); sb.charges.create(amount='1000', description='tea'); "
        "sb.run(); repr(sb); sb.fork(); sb.script(); assert not {'pandas', 'numpy'} & set(sys.modules); "
        "sb.payments; assert 'pandas' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    with Sandbox() as sandbox:
        with pytest.raises(ValueError, match="no table 'xyz': choose one of charges, static_"):
            sandbox.table("xyz")
        with pytest.raises(ValueError, match=r"no table 'charge': did you mean 'charges'\?"):
            sandbox.table("charge")


# What the columns are


@pytest.mark.parametrize("network", [None, "line:4"])
def test_the_documented_columns_are_those_of_the_frames(network: str | None) -> None:
    sandbox = busy(network) if network else busy()
    for name in TABLES:
        documented = [column for column in columns() if column.table == name]
        frame = sandbox.table(name)
        assert [column.name for column in documented] == list(frame.columns)
        assert [column.dtype for column in documented] == [str(dtype) for dtype in frame.dtypes]
        key = [column.name for column in documented if column.is_key]
        assert not frame.duplicated(key).any()


def test_a_column_that_names_a_row_of_another_table_finds_it() -> None:
    sandbox = busy("line:4")
    for column in columns():
        if not column.names or (column.table == "htlcs" and column.name == "attempt"):
            continue
        table, _, target = column.names.partition(".")
        named = set(sandbox.table(column.table)[column.name].dropna())
        known = set(sandbox.table(table)[target])
        if table == "charges":  # an event of a Static Charge names that
            known |= set(sandbox.static_charges.table["id"])
        assert named <= known, column


def test_attempts_and_htlcs_have_the_charge_of_their_payment() -> None:
    sandbox = busy("line:4")
    charge_of = sandbox.payments.set_index("id")["charge_id"]
    for table in (sandbox.attempts, sandbox.htlcs):
        assert len(table)
        assert table["charge_id"].tolist() == charge_of.loc[table["payment_id"]].tolist()


def test_the_meanings_are_those_of_the_columns_and_no_others() -> None:
    assert {name: list(table) for name, table in MEANINGS.items()} == {
        name: [column for column, _ in table.columns] for name, table in TABLES.items()
    }


def test_the_meanings_of_callbacks_do_not_say_sent_of_those_that_were_not() -> None:
    """They have an instant and a duration all the same: when the attempt began, and how long it took to end."""
    with Sandbox(seed=1) as sandbox:
        sandbox.faults.add("drop", count=1)
        for url in ("http://shop.localhost/paid", "http://127.0.0.1:1080/paid"):
            sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="x", callbackUrl=url))
            sandbox.run("1m")
        unsent = sandbox.callbacks[sandbox.callbacks["error"].notna()]
        assert unsent["error"].tolist() == ["timeout", "blocked"]
        assert unsent["at"].notna().all()
        assert unsent["latency_ms"].tolist() == [15_000, 0]
        assert len(sandbox.receiver("shop").inbox) == 1
    attempt = packaged_contract("sandbox").document["components"]["schemas"]["Attempt"]["properties"]
    for at in (MEANINGS["callbacks"]["at"], attempt["at"]["description"]):
        assert at.lower().startswith("when it began")
        assert all(error in at for error in ("blocked", "refused", "unresolved", "tls", "dropped"))
    for took in (MEANINGS["callbacks"]["latency_ms"], attempt["latencyMs"]["description"]):
        assert took.lower().startswith("how long it took until the response or the error, in milliseconds")


def test_the_facts_of_a_kind_of_event_are_columns() -> None:
    sandbox = busy()
    facts = sandbox.facts("invoice_settled")
    assert list(facts.columns[:4]) == ["world", "sequence", "at", "subject"]
    assert facts["received_msat"].gt(0).all()
    assert len(facts) == (sandbox.journal["kind"] == "invoice_settled").sum()
    with pytest.raises(ValueError, match=r"no event 'settled': it has .*invoice_settled"):
        sandbox.facts("settled")
    with pytest.raises(ValueError, match=r"no event 'invoice_settled': it has no events yet$"):
        Sandbox(seed=7).facts("invoice_settled")


def test_a_kind_of_event_that_a_reopened_directory_no_longer_has_is_not_denied(tmp_path: Path) -> None:
    with Sandbox(seed=7, data=tmp_path / "kept") as first:
        first.wallet("ana").pay(first.charges.create(amount="1000", description="x"))
        first.run()
        first.facts("payment_settled")
        with pytest.raises(ValueError, match=r"no event 'nothing': it has [a-z_, ]+$"):
            first.facts("nothing")
        first.faults.add("drop", count=1)
        first.service_faults.add("error", count=1)
        assert [repr(faults.hits) for faults in (first.faults, first.service_faults)] == ["[]", "[]"]
    with Sandbox(data=tmp_path / "kept") as again, again.fork("copy") as copy:
        for sandbox in (again, copy):
            for faults in (sandbox.faults, sandbox.service_faults):
                assert repr(faults.hits).startswith("[], the journal no longer has what happened before")
            with pytest.raises(
                ValueError, match=r"no event 'payment_settled': .*; the journal no longer has what happ"
            ):
                sandbox.facts("payment_settled")
