"""Saved sandboxes that somebody else wrote: they are refused in one line, and no text in them becomes code."""

from __future__ import annotations

import ast
import json
import os
import random
import stat
import warnings
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ForkError
from leyden.files.json_files import VersionWarning
from leyden.server.version import VERSION
from tests.support.deep import deep, deep_except, deep_or
from tests.support.mutations import HOSTILE, mutated, places, refusal

ATTACK = "touch('PWNED')"
TEXTS = [
    f'"); {ATTACK}  # ', f"'); {ATTACK}  # ", f"\n{ATTACK}\n", f"\r{ATTACK}", f"\x0c{ATTACK}", f"\u2028{ATTACK}",
    f"\\\"); {ATTACK}#", f"{{{ATTACK}}}", "\ud800", f"charge1.id) or {ATTACK}", f'"""\n{ATTACK}\n"""', "\x00",
]  # fmt: skip


@cache
def saved(network: str) -> dict[str, Any]:
    """A saved sandbox with an action of every kind but `response`."""
    sandbox = Sandbox(seed=7, network=network)
    charge = sandbox.charges.create(amount="250000", description="Coffee", callbackUrl="http://shop.localhost/paid")
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")
    sandbox.receiver("shop").answers([500, "timeout", 200]).when(503, charge=charge.id)
    sandbox.faults.add("drop", charge=charge, attempt=2)
    sandbox.wallet("ana").pay(charge, outcome="hold")
    sandbox.wallet("ana").scan(tips, amount=2000)
    sandbox.ask("GET", f"/v0/charges/{charge.id}")
    sandbox.traffic("every(2s)", duration=10).stop()
    if network != "direct":
        sandbox.network["shop"].offline(60)
        sandbox.network.wallet("ana").drain(outbound=0.5)
    sandbox.advance("90s")
    sandbox.advance_to("2030-01-01T01:00Z")
    sandbox.run("next_event")
    sandbox.step()
    sandbox.run()
    return json.loads(json.dumps(sandbox.fork("again", reseed=5).snapshot()))  # type: ignore[no-any-return]


def assert_only_expected_statements(program: str) -> None:
    """The program has imports, assignments and calls of the sandbox and its resources, and nothing else."""
    for node in ast.parse(program).body:
        if isinstance(node, ast.ImportFrom):
            assert node.module in {"leyden", "contextlib", "leyden.callbacks.replies", "leyden.lab.traffic"}
            continue
        inside = node.body if isinstance(node, ast.With) else [node]
        for statement in inside:
            assert isinstance(statement, ast.Assign | ast.Expr), ast.unparse(statement)
    for call in ast.walk(ast.parse(program)):
        if isinstance(call, ast.Name):
            known = call.id in {"sb", "Sandbox", "Reply", "Traffic", "suppress", "Exception", "float"}
            assert known or call.id.rstrip("0123456789") in {"charge", "code", "payment", "traffic"}, call.id
        if isinstance(call, ast.Attribute):
            assert call.attr not in {"save", "notebook", "load", "__class__"}


def program_of(snapshot: dict[str, Any]) -> str | None:
    """The script, or None if the snapshot or its script is refused in one line."""
    programs: list[str] = []
    refusal(lambda: programs.append(Sandbox.from_snapshot(snapshot).script()))
    return programs[0] if programs else None


@pytest.mark.parametrize("text", deep_except(TEXTS, TEXTS[0]), ids=range(len(TEXTS)))
def test_no_text_of_an_action_log_becomes_code(text: str) -> None:
    written = 0
    whole = saved("line:4")
    for number in range(len(places(whole["action_log"]))):
        snapshot = {**whole, "action_log": deepcopy(whole["action_log"])}
        container, key = places(snapshot["action_log"])[number]
        if not isinstance(container[key], str):
            continue
        container[key] = text
        program = program_of(snapshot)
        if program is not None:
            assert_only_expected_statements(program)
            written += 1
    assert written > 20


@pytest.mark.parametrize("name", ["x=1", "lambda", "__debug__", "\ufb01", 'a"b', "\n"])
def test_no_name_of_an_argument_becomes_code(name: str) -> None:
    snapshot = deepcopy(saved("line:4"))
    for _, facts, _ in snapshot["action_log"]["actions"]:
        if "named" in facts:
            facts["named"] = {name: ATTACK, "fi": 1}
    program = program_of(snapshot)
    assert program is not None
    assert_only_expected_statements(program)


@pytest.mark.parametrize(
    "call", ["save", "network.graph.__class__", f'network["x"].drain() or {ATTACK} or sb.network["y"].drain', "x()"]
)
def test_an_action_calls_nothing_but_the_sandbox(call: str) -> None:
    snapshot = deepcopy(saved("line:4"))
    for _, facts, _ in snapshot["action_log"]["actions"]:
        if "call" in facts:
            facts["call"] = call
    assert program_of(snapshot) is None


def test_a_sandbox_that_is_created_again_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    snapshot = deepcopy(saved("line:4"))
    snapshot["label"] = TEXTS[0]
    for _, facts, _ in snapshot["action_log"]["actions"]:
        if "payer" in facts:
            facts["payer"] = TEXTS[0]
    program = program_of(snapshot)
    assert program is not None
    exec(compile(program, "script", "exec"), {"touch": lambda name: Path(name).touch()})
    assert os.listdir(tmp_path) == []
    snapshot["action_log"]["arguments"]["data"] = "PWNED"
    assert program_of(snapshot) is None


def test_a_wallet_with_quotation_marks_in_its_name_is_in_the_script() -> None:
    sandbox = Sandbox(seed=7, network="line:4")
    sandbox.network.wallet(TEXTS[0]).drain(outbound=0.5)
    names: dict[str, Any] = {}
    exec(sandbox.script(), names)
    assert names["sb"].journal_hash == sandbox.journal_hash


@pytest.mark.filterwarnings("ignore::leyden.files.json_files.VersionWarning")
@pytest.mark.parametrize("network", ["direct", "line:4"])
def test_a_mutated_file_is_loaded_or_refused_in_one_line_with_its_name(network: str, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    refused, number = 0, deep_or(bounded=36, full=360)
    for data in mutated(saved(network), number):
        path.write_bytes(data)
        loaded: list[Sandbox] = []
        why = refusal(lambda: loaded.append(Sandbox.load(path)))  # noqa: B023
        if why is not None:
            assert str(path) in why
            refused += 1
        for sandbox in loaded:
            refusal(sandbox.script)
    assert number * 100 // 360 < refused < number


@cache
def rich() -> dict[str, Any]:
    """A saved sandbox in the middle of payments and callbacks."""
    sandbox = Sandbox(seed=3, network="line:4")
    charge = sandbox.charges.create(amount="250000", description="x", callbackUrl="http://shop.localhost/a")
    other = sandbox.charges.create(amount="250000", description="y", callbackUrl="http://shop.localhost/a")
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")
    sandbox.receiver("shop").answers([500, "timeout", 200]).when(503, charge=charge.id)
    sandbox.faults.add("duplicate_new_id", attempt=2, count=None)
    sandbox.wallet("ana").pay(charge, delay="3s")
    sandbox.wallet("bob").pay(other)
    sandbox.wallet("ana").scan(tips, amount=2000)
    sandbox.traffic("6/min", duration="10m")
    sandbox.advance("2s")
    return json.loads(json.dumps(sandbox.snapshot()))  # type: ignore[no-any-return]


def use(sandbox: Sandbox) -> None:
    sandbox.ask("GET", "/v0/charges")
    sandbox.advance("10s")
    sandbox.run("1h")
    for name in ("payments", "attempts", "deliveries", "callbacks", "journal"):
        sandbox.table(name)


CHANGES: dict[str, Any] = {
    "payments.amount_msat": ..., "receivers.script": [{"status": 200}], "projects.webhook_secrets": None,
    "invoices.payable_until_ms": ..., "charges.expires_at": "x", "charges.created_at": 5e-324,
    "charges.confirmed_at": 1.0, "charges.status": "paid", "deliveries.attempts": "[1,2", "deliveries.rule": "none",
    "deliveries.due_at": True, "invoices.state": "PAID", "payments.attempts": [{}], "payments.script": {},
    "traffic.settings": {}, "traffic.due": "soon", "node.received_msat": 0.5, "received.headers": [],
    "keys.project": None, "static_charges.extra": [], "wallets.balance_msat": 2**70,
}  # fmt: skip


@pytest.mark.parametrize("place", CHANGES)
def test_a_row_that_no_sandbox_writes_is_refused_when_it_is_loaded(place: str) -> None:
    table, _, field = place.partition(".")
    snapshot = deepcopy(saved("direct") if not rich()["tables"][table]["rows"] else rich())
    if CHANGES[place] is ...:
        del snapshot["tables"][table]["rows"][0][1][field]
    else:
        snapshot["tables"][table]["rows"][0][1][field] = CHANGES[place]
    with pytest.raises(ForkError, match="is no saved sandbox") as refused:
        Sandbox.from_snapshot(snapshot)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("clock", {"timers": [[1_893_488_402_000, 1, 1, "payments", "x"]]}),
        ("clock", {"timers": [[1_893_488_402_000, 1, 1, "charge_expiry", "x"]]}),
        ("streams", {"ids": -0.0}),
        ("outbox", {"queue": [[]]}),
        ("network", {"balance": [1]}),
        ("network", {"sessions": [{}]}),
        ("network", {"mission_control": [[9, 0, []]]}),
    ],
)
def test_a_part_that_no_sandbox_writes_is_refused_when_it_is_loaded(part: str, changed: dict[str, Any]) -> None:
    with pytest.raises(ForkError, match="is no saved sandbox"):
        Sandbox.from_snapshot({**rich(), part: {**rich()[part], **changed}})


@pytest.mark.filterwarnings("ignore::leyden.files.json_files.VersionWarning")
def test_a_sandbox_that_is_loaded_from_changed_rows_can_be_used() -> None:
    """Of texts that name nothing a request may say so, with an error that callers catch."""
    rng = random.Random(5)
    used, number = 0, deep_or(bounded=25, full=100)
    for _ in range(number):
        snapshot = {**rich(), "tables": deepcopy(rich()["tables"])}
        container, key = rng.choice(places(snapshot["tables"]))
        match rng.randrange(3):
            case 0:
                del container[key]
            case 1:
                container[key] = rng.choice([one for one in HOSTILE if one != "\ud800"])
            case _ if isinstance(container[key], int):
                container[key] = rng.choice([container[key] + 1, float(container[key]), -container[key], 10**18])
        loaded: list[Sandbox] = []
        refusal(lambda: loaded.append(Sandbox.from_snapshot(snapshot)))  # noqa: B023
        for sandbox in loaded:
            refusal(lambda: use(sandbox))  # noqa: B023
            used += 1
    assert used > number // 25  # most contradict another row, and are refused


COUNTED = (
    "requests", "journal/length", "network/event_count", "network/shard_count", "tables/charges/next_id",
    "tables/payments/rows/0/0", "tables/faults/rows/0/1/hits", "tables/traffic/rows/0/1/arrived",
    "tables/charges/rows/0/1/sequence",
)  # fmt: skip


def with_number(place: str, number: int) -> dict[str, Any]:
    """`rich`, with this number at a place."""
    snapshot: dict[str, Any] = deepcopy(rich())
    holder: Any = snapshot
    *steps, last = (step.replace("~1", "/") for step in place.split("/"))
    for step in steps:
        holder = holder[int(step) if isinstance(holder, list) else step]
    holder[int(last) if isinstance(holder, list) else last] = number
    return snapshot


@pytest.mark.parametrize("place", COUNTED)
def test_a_counter_has_room_above(place: str) -> None:
    with pytest.raises(ForkError, match=rf"/{place}: {2**52} is greater than the maximum of {2**52 - 1}"):
        Sandbox.from_snapshot(with_number(place, 2**52))


def whole_numbers() -> list[str]:
    """The places of whole numbers in `rich`, one for each field."""
    found: dict[tuple[str, ...], str] = {}

    def walk(value: Any, path: tuple[str, ...]) -> None:
        if isinstance(value, (dict, list)):
            for name, one in value.items() if isinstance(value, dict) else enumerate(value):
                walk(one, (*path, str(name).replace("/", "~1")))
        elif type(value) is int:
            found.setdefault(tuple("*" if each.isdigit() else each for each in path[:-1]) + path[-1:], "/".join(path))

    walk({name: part for name, part in rich().items() if name != "action_log"}, ())
    return list(found.values())


@deep("test_a_counter_has_room_above")
@pytest.mark.parametrize("number", [2**53 - 1, 2**53 - 2])
def test_no_number_that_is_loaded_makes_the_next_file_unreadable(number: int) -> None:
    loaded = 0
    for place in whole_numbers():
        try:
            sandbox = Sandbox.from_snapshot(with_number(place, number))
        except ForkError:
            continue
        refusal(lambda: use(sandbox))  # noqa: B023
        Sandbox.from_snapshot(json.loads(json.dumps(sandbox.snapshot())))
        loaded += 1
    assert loaded > 5


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    with path.open("wb") as file:
        file.truncate(2_000_000_000)
    with pytest.raises(ForkError, match="at most"):
        Sandbox.load(path)
    with pytest.raises(ForkError, match="does not exist"):
        Sandbox.load(tmp_path / "nowhere.json")


def test_a_saved_sandbox_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text("{" * 10_000_000)
    path.chmod(0o644)
    Sandbox(seed=7).save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Sandbox.load(path).charges is not None


def test_a_data_directory_is_its_owners_only(tmp_path: Path) -> None:
    Sandbox(data=tmp_path / "data").close()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_a_saved_sandbox_of_another_version_is_loaded_with_a_warning() -> None:
    snapshot = Sandbox(seed=7).snapshot()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Sandbox.from_snapshot(snapshot)
    for version in ("0.0.7", None):
        with pytest.warns(VersionWarning, match=f"and this is Leyden {VERSION}"):
            Sandbox.from_snapshot({**snapshot, "leyden": version})
    assert f"Leyden {VERSION}" in Sandbox(seed=7).script().splitlines()[0]
