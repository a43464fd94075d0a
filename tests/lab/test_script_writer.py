"""Scripts: the Python program of a sandbox creates the same sandbox."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from freezegun import freeze_time
from hypothesis import example, given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from leyden.errors import ActionLogError, ApiError, DistributionError
from leyden.lab.actions import action_log as history
from leyden.lab.actions.action_log import as_json
from leyden.server.version import VERSION
from tests.support.strategies import URL, Action, actions, displayed_state, full_state, perform


def made_by(script: str) -> Sandbox:
    names: dict[str, Any] = {}
    exec(compile(script, "script", "exec"), names)
    created = names["sb"]
    assert isinstance(created, Sandbox)
    return created


@given(st.lists(actions, max_size=15))
@example([("create", "1000", 60, URL), ("create", "7", 60, None), ("raw", "POST", "/v0/charges", b"\xff")])
@example(
    [("raw", "POST", "/v0/charges", b'{"amount": "1000", "description": "tea"}'), ("fail", 0), ("pay", 0, "settle", 0)]
)
@example([("static", 2), ("scan", 0, 2000), ("slots", 0), ("scan", 0, 500), ("idle",)])
@example([("create", "1000", 600, URL), ("pay", 0, "hold", 0), ("step",), ("settle", 0), ("idle",)])
def test_the_script_creates_the_same_sandbox(done: list[Action]) -> None:
    sandbox = Sandbox(seed=7, start="2030-01-01T09:00Z")
    for action in done:
        perform(sandbox, action)
    again = made_by(sandbox.script())
    assert again.journal_hash == sandbox.journal_hash
    assert full_state(again) == full_state(sandbox)
    assert again.script() == sandbox.script()


@given(st.lists(actions, max_size=8), st.lists(actions, max_size=8), st.sampled_from([None, 1]))
def test_the_script_of_a_fork_creates_the_same_fork(past: list[Action], future: list[Action], seed: int | None) -> None:
    parent = Sandbox(seed=7)
    for action in past:
        perform(parent, action)
    script = parent.script()
    fork = parent.fork("what if", reseed=seed)
    for action in future:
        perform(fork, action)
    again = made_by(fork.script())
    assert again.label == "what if"
    assert full_state(again) == full_state(fork)
    assert parent.script() == script


@given(st.lists(actions, max_size=12))
def test_reading_changes_and_records_nothing(done: list[Action]) -> None:
    sandbox = Sandbox(seed=7)
    for action in done:
        perform(sandbox, action)
    before, script = full_state(sandbox), sandbox.script()
    assert displayed_state(sandbox) == displayed_state(sandbox)
    for name in ("payments", "callbacks", "journal"):
        sandbox.table(name)
    sandbox.diff(sandbox.fork())
    assert (full_state(sandbox), sandbox.script()) == (before, script)


def test_the_text_of_a_script() -> None:
    sandbox = Sandbox(seed=7, start="2030-01-01T09:00Z", overlays=["strict"])
    charge = sandbox.charges.create(amount="250000", description='Coffee "to go"', callbackUrl=URL)
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")
    tips.update(allowedSlots=1)
    sandbox.receiver("shop").answers([500, "timeout", Reply(200, delay="2s")]).when("reset", charge=charge.id)
    sandbox.faults.add("drop", charge=charge, attempt=2)
    sandbox.wallet("ana").pay(charge, outcome="hold", delay="1500ms")
    held = sandbox.wallet("ana").scan(tips, amount=2000, outcome="hold")
    sandbox.advance("90s")
    held.settle()
    charge.fail("lost it")
    sandbox.wallet("bob").pay(charge.request)
    sandbox.ask("GET", f"/v0/charges/{charge.id}")
    sandbox.http.post("/v0/charges", json={"amount": "7"})
    with pytest.raises(ApiError):
        sandbox.charges.create(amount="7", description="too little")
    sandbox.traffic("every(2s)", duration=timedelta(minutes=1)).stop()
    assert sandbox.script() == (
        f"# Written by Leyden {VERSION}.\n"
        "from leyden import Sandbox\n"
        "from leyden.callbacks.replies import Reply\n\n"
        'sb = Sandbox(seed=7, start="2030-01-01T09:00:00.000Z", overlays=["strict"])\n'
        'charge1 = sb.charges.create(amount="250000", description="Coffee \\"to go\\"", '
        f'callbackUrl="{URL}")\n'
        'code1 = sb.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")\n'
        "code1.update(allowedSlots=1)\n"
        'sb.receiver("shop").answers([500, "timeout", Reply(delay=2.0)])\n'
        'sb.receiver("shop").when("reset", charge=charge1.id)\n'
        'sb.faults.add("drop", attempt=2, charge=charge1.id)\n'
        'sb.wallet("ana").pay(charge1, outcome="hold", delay="1500ms")\n'
        'payment2 = sb.wallet("ana").scan(code1, amount=2000, outcome="hold")\n'
        'sb.advance("90s")\n'
        "payment2.settle()\n"
        'charge1.fail(reason="lost it")\n'
        'sb.wallet("bob").pay(charge1)\n'
        'sb.ask("GET", f"/v0/charges/{charge1.id}")\n'
        'sb.request("POST", "/v0/charges", b\'{"amount":"7"}\', headers=[("accept", "*/*"), ("apikey", "leyden"), '
        '("content-type", "application/json")])\n'
        'sb.request("POST", "/v0/charges", {"amount": "7", "description": "too little"})\n'
        'traffic1 = sb.traffic("every(2s)", duration=60.0)\n'
        "traffic1.stop()\n"
    )
    assert full_state(made_by(sandbox.script())) == full_state(sandbox)


@pytest.mark.filterwarnings("ignore:createCharge has no field")
def test_unusual_names_and_texts_are_in_the_script() -> None:
    sandbox = Sandbox(seed=7)
    odd = {"self": 1, "class": [None, True, 1.5], "with space": {"ä\u202e": "\\\n'\""}}
    sandbox.charges.create(amount="1000", description="tabs\tand \u202e", **odd)
    sandbox.ask("POST", "/v0/charges", {"amount": "1000", "description": "\x00"})
    assert full_state(made_by(sandbox.script())) == full_state(sandbox)


def test_requests_over_a_port_are_in_the_script() -> None:
    with Sandbox(seed=7) as sandbox:
        url = sandbox.serve()

        def post(target: str, body: dict[str, Any]) -> Any:
            headers = {"apikey": "leyden", "content-type": "application/json", "idempotency-key": "one"}
            request = urllib.request.Request(f"{url}{target}", orjson.dumps(body), headers)
            with urllib.request.urlopen(request, timeout=10) as answer:
                return orjson.loads(answer.read())

        charge = post("/v0/charges", {"amount": "1000", "description": "tea", "callbackUrl": URL})["data"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            post("/v0/charges", {"amount": "1000", "description": "too long " * 100})
        refused.value.close()
        post("/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
        assert sandbox.charges[charge["id"]].status == "completed"
        assert len(sandbox.receiver("shop").inbox) == 1, "what is due at once is done at once"
        tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")
        sandbox.wallet("ana").scan(tips.request, amount=2000)
        sandbox.run()
        again = made_by(sandbox.script())
        assert again.journal_hash == sandbox.journal_hash


def test_the_script_of_a_process_clock_has_its_instants() -> None:
    with freeze_time("2030-01-01 09:00", tz_offset=0) as frozen:
        sandbox = Sandbox(clock="process")
        sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=URL)
        frozen.tick(30)
        paid = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
        sandbox.wallet("ana").pay(paid)
        frozen.tick(60)
        assert [charge.status for charge in sandbox.charges] == ["expired", "completed"]
        script = sandbox.script()
    assert 'sb.advance_to("2030-01-01T09:00:30.000Z")' in script
    assert made_by(script).journal_hash == sandbox.journal_hash


def test_a_script_runs_in_another_process(tmp_path: Path) -> None:
    sandbox = Sandbox(seed=7, network="line:4")
    sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000000", description="tea", callbackUrl=URL))
    sandbox.run()
    code = sandbox.script() + "print(sb.journal_hash)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == sandbox.journal_hash


# Sandboxes without a script


def test_a_reopened_sandbox_has_no_script(tmp_path: Path) -> None:
    with Sandbox(seed=7, data=tmp_path) as sandbox:
        sandbox.charges.create(amount="1000", description="tea")
        script = sandbox.script()
        assert made_by(script).journal_hash == sandbox.journal_hash
    with Sandbox(data=tmp_path) as again, pytest.raises(ActionLogError, match=r"reopened from a directory.*save"):
        again.script()


def test_a_sandbox_with_a_contract_object_has_no_script() -> None:
    sandbox = Sandbox(spec=Sandbox().world.config.contract)
    with pytest.raises(ActionLogError, match="give the spec as a path"):
        sandbox.fork().script()


def test_a_saved_sandbox_with_a_contract_object_has_the_title_of_its_document(tmp_path: Path) -> None:
    contract = Sandbox().world.config.contract
    saved = Sandbox(spec=contract).save(tmp_path / "saved.json").read_text()
    assert contract.title in saved
    assert len(saved) < 20_000, "the whole contract as a text"


def test_a_full_action_log_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_ACTIONS", 3)
    sandbox = Sandbox(seed=7)
    for _ in range(3):
        sandbox.step()
    assert sandbox.script().count("step") == 3
    sandbox.step()
    assert len(sandbox.action_log) == 0
    with pytest.raises(ActionLogError, match="3 actions"):
        sandbox.script()
    monkeypatch.setattr(history, "MAX_BODY_BYTES", 99)
    talkative = Sandbox(seed=7)
    talkative.request("POST", "/v0/charges", b" " * 99)
    assert "b" + repr(" " * 99) in talkative.script()
    talkative.request("POST", "/v0/charges", b" ")
    with pytest.raises(ActionLogError, match="99 bytes of requests"):
        talkative.fork().script()


def test_a_reset_is_part_of_the_script() -> None:
    sandbox = Sandbox(seed=7)
    sandbox.charges.create(amount="1000", description="tea")
    sandbox.ask("POST", "/sandbox/v1/reset", {"seed": 8, "start": "2031-01-01T00:00:00Z"})
    sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="tea"))
    sandbox.run()
    again = made_by(sandbox.script())
    assert (again.now[:4], full_state(again)) == ("2031", full_state(sandbox))


def test_an_action_without_effect_is_not_recorded() -> None:
    sandbox = Sandbox(seed=7)
    for refused in (
        lambda: sandbox.advance(-1),
        lambda: sandbox.faults.add("unheard of"),
        lambda: sandbox.receiver("shop").always(99),
        lambda: sandbox.wallet("ana").pay("lnbcrt1"),
        lambda: sandbox.traffic("often"),
    ):
        with pytest.raises(ValueError):
            refused()
    assert len(sandbox.action_log) == 0


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (timedelta(minutes=1), 60.0),
        (np.int64(7), 7),
        (np.float64(0.5), 0.5),
        ({"a": (1, None)}, {"a": [1, None]}),
    ],
)
def test_values_are_recorded_as_json_values(value: Any, plain: Any) -> None:
    assert as_json(value) == plain
    assert type(as_json(value)) is type(plain)


def test_a_value_without_a_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="has no JSON form"):
        as_json({"amount": object()})


@pytest.mark.parametrize("wrong", [{"rate": "zz"}, {"amount": "zz"}, {"behaviours": "pays_twice"}, {"count": 0}])
def test_traffic_that_was_refused_is_refused_in_the_script(wrong: dict[str, Any]) -> None:
    sandbox = Sandbox(seed=1, start="2030-01-01T09:00Z")
    static = sandbox.static_charges.create(minAmount="1000", maxAmount="900000", description="T")
    with pytest.raises(DistributionError):
        sandbox.traffic(**{"rate": "5/min", "to": static.id, "duration": "2m", **wrong})
    sandbox.advance("1h")
    names: dict[str, Any] = {}
    exec(sandbox.script(), names)
    assert names["sb"].journal_hash == sandbox.journal_hash
    assert "sb.traffic()" not in sandbox.script()


@pytest.mark.parametrize("egress", ["none", "loopback", "recorded"])
def test_a_dropped_attempt_to_the_network_is_no_cancelled_one(egress: str) -> None:
    with Sandbox(seed=20, egress=egress) as sandbox:
        sandbox.faults.add("drop")
        charge = sandbox.charges.create(amount="1000", description="x", callbackUrl="http://127.0.0.1:9/paid")
        sandbox.wallet("ana").pay(charge)
        sandbox.run(events=2)
        for one in (sandbox, sandbox.fork("later")):
            assert made_by(one.script()).journal_hash == one.journal_hash
            one.advance("15s")
            assert made_by(one.script()).journal_hash == one.journal_hash
