"""A sandbox that a server exported has the same journal in Python, on the command line and on a second server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from leyden import Sandbox
from leyden.errors import ForkError
from tests.commands.conftest import Leyden
from tests.support.served import Client, served_leyden


@pytest.fixture
def exported(server: Client, leyden: Leyden, tmp_path: Path) -> str:
    """The journal hash of a sandbox with a paid Charge, whose file is `case.json`."""
    made = json.loads(leyden("sandbox", "create", "--seed", "7", "--rate", "0", "--json").stdout)
    own = {"LEYDEN_URL": made["url"], "LEYDEN_API_KEY": made["apiKey"]}
    client = Client(server.url, made["apiKey"])
    body = {"amount": "250000", "description": "Coffee", "callbackUrl": "http://shop.localhost/paid"}
    charge = client.ok("POST", "/v0/charges", body)["data"]
    assert leyden("pay", charge["id"], **own).returncode == 0
    # Of the server's operations, this one shows the hash and adds nothing to the journal.
    journal_hash: str = json.loads(leyden("sandbox", "snapshot", made["id"], "--json").stdout)["journalHash"]
    assert leyden("sandbox", "export", made["id"], "case.json").returncode == 0
    return journal_hash


def test_the_journal_is_the_same_in_python_on_the_command_line_and_on_a_second_server(
    leyden: Leyden, tmp_path: Path, exported: str
) -> None:
    with Sandbox.load(tmp_path / "case.json") as sandbox:
        assert sandbox.journal_hash == exported
    with served_leyden("--rate", "0") as second:
        done = leyden("replay", "case.json", second.url)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[1:] == [
            f"journal {exported}: the same",
            f"journal {exported} on {second.url}: the same",
        ]
        assert second.ok("GET", "/sandbox/v1/sandboxes")["data"] == []  # the copy was deleted
        made = json.loads(leyden("sandbox", "import", "case.json", "--url", second.url, "--json").stdout)
        assert Client(second.url, made["apiKey"]).ok("GET", "/sandbox/v1")["journalHash"] == exported


def test_the_state_is_described(leyden: Leyden, exported: str) -> None:
    first = leyden("replay", "case.json").stdout.splitlines()[0]
    assert re.fullmatch(r"saved sandbox \S+: 2030-01-01 09:00:00Z, Charges: 1 completed", first)


def test_a_file_that_python_saved_is_replayed(leyden: Leyden, tmp_path: Path) -> None:
    with Sandbox(seed=7) as sandbox:
        sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="tea"))
        sandbox.run()
        sandbox.save(tmp_path / "case.json")
        expected = f"journal {sandbox.journal_hash}: the same"
    assert leyden("replay", "case.json").stdout.splitlines()[1] == expected


def test_a_changed_entry_is_found(leyden: Leyden, tmp_path: Path, exported: str) -> None:
    path = tmp_path / "case.json"
    state = json.loads(path.read_text())
    state["journal"]["entries"][0][3] = "another"
    path.write_text(json.dumps(state))
    done = leyden("replay", "case.json")
    assert done.returncode == 1
    assert f"differs, the file has {exported}" in done.stdout


def test_what_is_for_cases_is_refused(leyden: Leyden, exported: str) -> None:
    done = leyden("replay", "case.json", "--export", "pytest")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "leyden replay: case.json is a saved sandbox: --export, --spec and --adapter are for cases\n"


def test_a_file_that_is_neither_is_refused_as_before(leyden: Leyden, tmp_path: Path) -> None:
    (tmp_path / "case.json").write_text("{}")
    for name in ("case.json", "nothing.json"):
        done = leyden("replay", name)
        assert (done.returncode, done.stdout) == (2, "")
        assert "case" in done.stderr


def test_a_file_of_another_program_with_a_format_is_refused(leyden: Leyden, tmp_path: Path) -> None:
    (tmp_path / "case.json").write_text('{"format": 2}')
    done = leyden("replay", "case.json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "is no saved sandbox" in done.stderr


def test_a_saved_sandbox_with_a_damaged_row_is_refused(leyden: Leyden, tmp_path: Path, exported: str) -> None:
    path = tmp_path / "case.json"
    state = json.loads(path.read_text())
    state["tables"]["charges"]["rows"][0][1]["amount_msat"] = "x"
    path.write_text(json.dumps(state))
    done = leyden("replay", "case.json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "/amount_msat" in done.stderr


def test_a_file_with_a_wrong_action_log_is_refused_in_python_on_the_command_line_and_by_a_server(
    leyden: Leyden, tmp_path: Path, exported: str
) -> None:
    file = tmp_path / "case.json"
    log = {"arguments": {}, "actions": [0, 0], "gap": ""}
    file.write_text(json.dumps({**json.loads(file.read_text()), "action_log": log}))
    why = "is no action log of a saved sandbox: /actions/0: 0 is not of type"
    with pytest.raises(ForkError, match=why):
        Sandbox.load(file)
    for words in (("replay", "case.json"), ("sandbox", "import", "case.json")):
        done = leyden(*words)
        assert done.returncode in (1, 2)
        assert why in done.stderr


def test_a_wrong_action_log_leaves_the_sandbox_as_it_was() -> None:
    with Sandbox(seed=7) as sandbox:
        wrong = {**sandbox.snapshot(), "action_log": {"arguments": {}, "actions": [0], "gap": ""}}
        with pytest.raises(ForkError, match="/actions/0"):
            sandbox.restore(wrong)
        charge = sandbox.charges.create(amount="1000", description="tea")
        assert charge.status == "pending"
        assert sandbox.script()


def test_a_file_of_a_former_format_has_no_member_of_a_later_one() -> None:
    with Sandbox(seed=7) as sandbox:
        saved = {**sandbox.snapshot(), "format": 1}
    with pytest.raises(ForkError, match="its format is 1, and config is a member of format 2"):
        Sandbox.from_snapshot(saved)
