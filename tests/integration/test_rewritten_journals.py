"""Data directories whose journal was rewritten with right checksums: they are opened, or refused with `StoreError`."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.errors import StoreError
from leyden.server.store.journal import encode_line
from leyden.server.store.store import Store
from leyden.server.timestamps import MAX_INSTANT_MS
from leyden.world.persistence import directory_checks
from leyden.world.time.clock import LAST_MS
from tests.support import exercise
from tests.support.deep import deep_except, deep_or
from tests.support.mutations import HOSTILE, places, refusal
from tests.support.store_helpers import END, JOURNAL

Bodies = list[dict[str, Any]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a payment, a callback and timers."""
    folder = tmp_path_factory.mktemp("written")
    with Sandbox(seed=3, data=folder) as sandbox:
        charge = sandbox.charges.create(amount="250000", description="x", callbackUrl="http://shop.localhost/a")
        sandbox.receiver("shop").answers([500, "timeout", 200])
        sandbox.wallet("ana").pay(charge, delay="3s")
        sandbox.advance("10s")
    return folder


def rewritten(written: Path, folder: Path, change: Callable[[Bodies], object]) -> Path:
    """A copy of a directory with other commits in its journal."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(written, folder)
    (folder / END).unlink()
    bodies: Bodies = [json.loads(line)[1] for line in (folder / JOURNAL).read_bytes().splitlines()]
    change(bodies)
    lines, chain = [], 0
    for body in bodies:
        line, chain = encode_line(json.dumps(body).encode(), chain)
        lines.append(line)
    (folder / JOURNAL).write_bytes(b"".join(lines))
    return folder


def last_change(bodies: Bodies, table: str, row_id: str) -> tuple[int, dict[str, Any]]:
    changes = [change for body in bodies[1:] for change in body.get(table) or () if len(change) == 2]
    return next(change for change in reversed(changes) if str(change[1].get("id", "")).startswith(row_id))


def last_row(bodies: Bodies, table: str, row_id: str) -> dict[str, Any]:
    return last_change(bodies, table, row_id)[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda bodies: last_row(bodies, "world", "config").update(start_ms="soon"),
        lambda bodies: last_row(bodies, "world", "config").pop("start_ms"),
        lambda bodies: last_row(bodies, "world", "config").update(seed=None),
        lambda bodies: last_row(bodies, "world", "config").update(seed=-1),
        lambda bodies: last_row(bodies, "world", "state")["streams"].update(ids=-0.0),
        lambda bodies: last_row(bodies, "world", "state").update(now=[]),
        lambda bodies: last_row(bodies, "world", "state").update(time_base=[1]),
        lambda bodies: last_row(bodies, "world", "receiver_answer").update(sequence="x"),
        lambda bodies: last_row(bodies, "world", "receiver_answer").pop("id"),
        lambda bodies: last_row(bodies, "receivers", "shop").update(id=[[]]),
        lambda bodies: bodies[-1].update(receivers=[[9, last_row(bodies, "receivers", "shop")]]),
        lambda bodies: bodies[-1].update(receivers=[["1", {"id": "other"}]]),
        lambda bodies: bodies[-1].update(receivers=[[0, {"id": "other"}]]),
        lambda bodies: bodies[-1].update(receivers=[[True, {"id": "other"}]]),
        lambda bodies: bodies[-1].update(receivers=[[9, ["id", "other"]]]),
    ],
)
def test_a_row_that_no_world_writes_is_a_store_error(written, tmp_path, change):
    folder = rewritten(written, tmp_path / "data", change)
    with pytest.raises(StoreError):
        Sandbox(data=folder)


@pytest.mark.parametrize("network", ["direct", "line:4"])
@pytest.mark.parametrize("rows", [("config",), ("state",), ("state", "config"), ()])
def test_a_directory_without_its_seed_or_its_time_is_refused(
    tmp_path: Path, network: str, rows: tuple[str, ...]
) -> None:
    """Rows without a world are those of no sandbox: it would go on with another seed, time and network."""
    with Sandbox(seed=3, data=tmp_path / "written", network=network) as sandbox:
        sandbox.charges.create(amount="250000", description="x")

    def change(bodies: Bodies) -> None:
        if not rows:
            bodies.append({"world": None})
        for row in rows:
            bodies.append({"world": [[last_change(bodies, "world", row)[0]]]})

    folder = rewritten(tmp_path / "written", tmp_path / "data", change)
    name = "state" if rows == ("state",) else "config"
    words = rf"{JOURNAL}: the table world has no row '{name}', and there are other rows; restore the directory from"
    for _ in range(2):
        with pytest.raises(StoreError, match=words):
            Sandbox(data=folder)


def test_a_network_that_no_sandbox_has_is_refused_with_the_mend(written: Path, tmp_path: Path) -> None:
    folder = rewritten(
        written, tmp_path / "data", lambda bodies: last_row(bodies, "world", "config").update(network="no such")
    )
    with pytest.raises(StoreError, match=r"'no such' is not a network.*; restore the directory from"):
        Sandbox(data=folder)


@pytest.mark.parametrize(
    ("table", "row_id", "changes", "words"),
    [
        ("charges", "", {"amount_msat": -1}, "amount_msat"),
        ("charges", "", {"status": 5}, "status"),
        ("charges", "", {"status": "no such"}, "status is 'no such', which no Charge of the spec has"),
        ("charges", "", {"static_charge_id": "no such"}, "static_charge_id"),
        ("charges", "", {"payment_hash": "00" * 32}, "payment_hash"),
        ("charges", "", {"expires_at": 0}, "expires_at"),
        ("charges", "", {"description": "9" * 5_000}, "description of its resource"),
        ("invoices", "", {"state": "CANCELED"}, "settled_at"),
        ("invoices", "", {"closed_at": 1_893_488_400_000}, "closed_at"),
        ("payments", "", {"attempts": {}}, "attempts"),
        ("payments", "", {"script": None}, "script"),
        ("deliveries", "", {"attempts": "[1"}, "attempts"),
        ("deliveries", "", {"status": "sent"}, "status"),
        ("charges", "", {"sequence": 0}, "sequence is 0, and it has the delivery number 1"),
        ("receivers", "shop", {"script": [{"status": 200}]}, "script"),
        ("receivers", "shop", {"received": 99}, "received"),
        ("projects", "default", {"webhook_secrets": []}, "webhook_secrets"),
        ("keys", "", {"project": "other"}, "project"),
    ],
)
@pytest.mark.parametrize("mark", ["none", "rewritten"])
def test_a_row_that_does_not_fit_is_refused_with_the_file_and_the_line(
    written: Path, tmp_path: Path, table: str, row_id: str, changes: dict[str, Any], words: str, mark: str
) -> None:
    folder = rewritten(written, tmp_path / "data", lambda bodies: last_row(bodies, table, row_id).update(changes))
    if mark == "rewritten":  # as by somebody who changes the mark beside the journal, too
        with Store.open(folder):
            assert (folder / END).exists()
    with pytest.raises(StoreError, match=rf"{JOURNAL}, line [0-9]+: the table {table}, row [0-9]+.*{words}") as refused:
        Sandbox(data=folder)
    text = str(refused.value)
    assert len(text.splitlines()) == 1
    number = int(text.partition(", line ")[2].partition(":")[0])
    line = (folder / JOURNAL).read_text().splitlines()[number - 1]
    assert [change for change in json.loads(line)[1][table] if changes.items() <= change[1].items()]


@pytest.mark.parametrize(
    ("row_id", "changes", "words"),
    [
        ("channel-", {"balance": [-1, 1]}, "network/balance, channel"),
        ("channel-", {"balance": [2**63, 1]}, "network/balance"),
        ("channel-", {"balance": 5}, "the table network, row"),
        ("channel-", {"id": None}, "the table network, row"),
        ("session-", {"data": {}}, "the table network"),
        ("shard-", {"data": []}, "the table network"),
        ("engine", {"closed": [99]}, "channel 99"),
        ("engine", {"id": "motor"}, "none with the id 'engine'"),
    ],
)
def test_a_row_of_a_network_that_does_not_fit_is_refused(
    tmp_path: Path, row_id: str, changes: dict[str, Any], words: str
) -> None:
    with Sandbox(seed=3, data=tmp_path / "written", network="line:4") as sandbox:
        charge = sandbox.charges.create(amount="250000", description="x")
        sandbox.wallet("bob").pay(charge, outcome="hold")
        sandbox.advance("20s")

    def change(bodies: Bodies) -> None:
        for body in bodies[1:]:
            for place in body.get("network") or ():
                if len(place) == 2 and str(place[1]["id"]).startswith(row_id):
                    place[1].update(changes)

    folder = rewritten(tmp_path / "written", tmp_path / "data", change)
    with pytest.raises(StoreError, match=words) as refused:
        Sandbox(data=folder)
    assert len(str(refused.value).splitlines()) == 1
    assert str(refused.value).endswith("; restore the directory from a copy, or use a new one")


def test_a_network_whose_receiver_refused_a_part_opens_as_former_versions_wrote_it(tmp_path: Path) -> None:
    with Sandbox(seed=3, data=tmp_path / "written", network="line:4") as sandbox:
        charge = sandbox.charges.create(amount="250000", description="x")
        sandbox.wallet("bob").pay(charge, outcome="hold")
        sandbox.advance("20s")

    def change(bodies: Bodies) -> None:
        last_row(bodies, "network", "session-")["data"]["policy_retries"] = [-1]

    with Sandbox(data=rewritten(tmp_path / "written", tmp_path / "data", change)) as sandbox:
        [session] = sandbox.snapshot()["network"]["sessions"]
        assert session["policy_retries"] == []


def test_a_text_that_no_sandbox_writes_is_refused_or_does_no_harm(tmp_path: Path) -> None:
    """In each text of each kind of row: a status, a kind, an id, a name."""
    exercise.rich_sandbox("direct", tmp_path / "written").close()
    with Store.open(tmp_path / "written") as store:
        tables = {name: deepcopy(dict(data.rows)) for name, data in store.tables.items() if name != "world"}
    tried, left_out, refused = set(), [], []
    for name, rows in tables.items():
        for doc_id, row in rows.items():
            for *steps, last in texts(row):
                kind = (name, *(step for step in (*steps, last) if isinstance(step, str)))
                if kind in tried:
                    continue
                tried.add(kind)
                if last != "status" and len(tried) % deep_or(bounded=6, full=1):
                    left_out.append(kind)
                    continue
                changed = deepcopy(row)
                container: Any = changed
                for step in steps:
                    container = container[step]
                container[last] = "no such"
                folder = rewritten(
                    tmp_path / "written",
                    tmp_path / "data",
                    lambda bodies: bodies.append({name: [[doc_id, changed]]}),  # noqa: B023
                )
                sandboxes: list[Sandbox] = []
                if refusal(lambda: sandboxes.append(Sandbox(data=folder))) is not None:  # noqa: B023
                    refused.append(kind)
                for sandbox in sandboxes:
                    exercise.read_everything(sandbox)
                    sandbox.close()
    assert {("charges", "status"), ("static_charges", "status"), ("payments", "status")} <= {*refused}
    assert len(tried) - len(left_out) - len(refused) > deep_or(bounded=3, full=20)


def texts(value: Any) -> Iterator[tuple[str | int, ...]]:
    """The place of every text in a row."""
    if isinstance(value, str):
        yield ()
    elif isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from ((key, *rest) for rest in texts(value[key]))


ABSURD = (-998, -1, 0, 2**53 - 1, 2**53, 2**63 - 1, 2**64, MAX_INSTANT_MS, LAST_MS, 10**15, 1e308)


@pytest.mark.parametrize("clock", deep_except(["virtual", "process"], "virtual"))
def test_a_number_of_a_world_is_refused_or_does_no_harm(tmp_path: Path, clock: str) -> None:
    """What is opened works, and can be saved: a directory and a saved sandbox have the same bounds."""
    with Sandbox(seed=3, data=tmp_path / "written", clock=clock) as sandbox:
        sandbox.wallet("ana").pay(sandbox.charges.create(amount="250000", description="x"))
        sandbox.faults.add("drop")
    with Store.open(tmp_path / "written") as store:
        rows = deepcopy(dict(store.table_data("world").rows))
    refused = []
    for doc_id, row in rows.items():
        numbers = [
            (container, key)
            for container, key in places(row)
            if type(container[key]) in (int, float) and key != "format"
        ]
        for container, key in numbers:
            before = container[key]
            for value in ABSURD:
                container[key] = value
                folder = rewritten(
                    tmp_path / "written",
                    tmp_path / "data",
                    lambda bodies: bodies.append({"world": [[doc_id, row]]}),  # noqa: B023
                )
                sandboxes: list[Sandbox] = []
                if refusal(lambda: sandboxes.append(Sandbox(data=folder, clock=clock))) is not None:  # noqa: B023
                    refused.append((key, value))
                for sandbox in sandboxes:
                    for method, target, body in (
                        ("GET", "/sandbox/v1", None),
                        ("POST", "/v0/charges", {"amount": "1000", "description": "x"}),
                        ("POST", "/sandbox/v1/webhook-secret/rotate", {}),
                        ("POST", "/sandbox/v1/faults", {"kind": "drop"}),
                        ("GET", "/sandbox/v1/timers", None),
                    ):
                        exercise.check_response(sandbox, method, target, body)
                    Sandbox.from_snapshot(json.loads(json.dumps(sandbox.snapshot()))).close()
                    exercise.check_response(sandbox, "POST", "/sandbox/v1/reset", {})
                    sandbox.close()
                    Sandbox(data=folder, clock=clock).close()
            container[key] = before
    for name in ("secrets", "ids", "preimages", "payments", "faults"):
        assert {(name, -998), (name, -1), (name, 2**53)} <= {*refused}
    assert ("rate", 10**15) in refused


@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_state_that_another_spec_does_not_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_trusted: bool
) -> None:
    if is_trusted:
        monkeypatch.setattr(directory_checks, "ALWAYS_CHECKED_ROWS", 0)
    document = json.dumps(read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml"))
    other = load_contract(json.loads(document.replace('"disabled"', '"full"')), known_as="charges.openapi.yaml")
    with Sandbox(data=tmp_path) as sandbox:
        sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="x", allowedSlots=1)
    with Sandbox(data=tmp_path, spec=other):
        """Every row is in a state that both have."""
    with Sandbox(data=tmp_path) as sandbox:
        [tips] = sandbox.static_charges
        sandbox.wallet("ana").scan(tips, amount=2000)
        sandbox.advance("1s")
        assert tips.status == "disabled"
    with Store.open(tmp_path) as store:
        assert directory_checks.is_trusted(store) == is_trusted
    with pytest.raises(StoreError, match="status is 'disabled', which no Static Charge of the spec has: use the spec"):
        Sandbox(data=tmp_path, spec=other)
    Sandbox(data=tmp_path).close()


def test_many_rows_are_checked_unless_their_journal_ends_where_its_writer_stopped(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_checks, "ALWAYS_CHECKED_ROWS", 0)
    folder = tmp_path / "data"

    def change(bodies: Bodies) -> None:
        last_row(bodies, "charges", "").update(failure=5)

    def is_checked() -> bool:
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        return refusal(lambda: Sandbox(data=shutil.copytree(folder, tmp_path / "copy")).close()) is not None

    rewritten(written, folder, change)
    assert is_checked(), "nothing says where the journal ended"
    with Store.open(folder) as store:
        assert not store.is_as_written
    assert not is_checked()
    with (folder / JOURNAL).open("rb+") as file:
        *_, last = lines = file.read().splitlines(keepends=True)
        chain = int(json.loads(last)[0], 16)
        file.write(encode_line(b'{"held_back":[]}', chain)[0])
    assert len(lines) > 3
    assert is_checked(), "a commit was appended after the process stopped"


def test_a_changed_journal_is_opened_or_refused(written, tmp_path):
    rng = random.Random(4)
    opened = refused = 0

    def change(bodies: Bodies) -> None:
        # The rows about the world, and the places of all rows.
        found = [place for body in bodies[1:] for place in places(body.get("world") or [])]
        found += [(row, at) for body in bodies[1:] for rows in body.values() for row in rows for at in range(len(row))]
        container, key = rng.choice(found)
        match rng.randrange(3):
            case 0:
                del container[key]
            case 1 if isinstance(container[key], int):
                container[key] = rng.choice([-0.0, float(container[key]), -container[key], 10**18])
            case _:
                container[key] = deepcopy(rng.choice([one for one in HOSTILE if one != "\ud800"]))

    for _ in range(120):
        folder = rewritten(written, tmp_path / "data", change)
        sandboxes: list[Sandbox] = []
        if refusal(lambda: sandboxes.append(Sandbox(data=folder))) is None:  # noqa: B023
            opened += 1
        else:
            refused += 1
        for sandbox in sandboxes:
            refusal(lambda: sandbox.advance("10s"))  # noqa: B023
            sandbox.close()
    assert opened > 10
    assert refused > 10


def test_a_byte_that_was_changed_in_a_large_directory_is_found_with_its_line(tmp_path: Path) -> None:
    """Its rows are not checked one by one: the checksum of each line finds the change."""
    folder = tmp_path / "data"
    with Sandbox(seed=3, data=folder) as sandbox:
        for number in range(directory_checks.ALWAYS_CHECKED_ROWS // 2 + 1):
            sandbox.ask("POST", "/v0/charges", {"amount": str(1_000 + number), "description": "x"})
    with Store.open(folder) as store:
        assert directory_checks.is_trusted(store)
    sound, end, rng = (folder / JOURNAL).read_bytes(), (folder / END).read_bytes(), random.Random(2)
    digits = [at for at, byte in enumerate(sound) if byte in b"0123456789"]
    for number in range(40):
        at = rng.choice(digits) if number % 2 else rng.randrange(len(sound))
        other = rng.choice([byte for byte in (b"0123456789" if number % 2 else range(256)) if byte != sound[at]])
        (folder / JOURNAL).write_bytes(sound[:at] + bytes([other]) + sound[at + 1 :])
        (folder / END).write_bytes(end)
        if number % 4 > 1:
            (folder / END).unlink()
        line = sound.count(b"\n", 0, at) + 1
        with pytest.raises(StoreError, match=f"line {line}: "):
            Store.open(folder)
