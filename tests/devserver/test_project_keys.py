"""API keys of a directory: every key that was issued in it opens the project that it was issued to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.__main__ import main
from leyden.errors import StoreError
from leyden.server.printable import masked
from tests.support.served import Client, run_command, started_server

FROZEN = ("--rate", "0", "--start", "2030-01-01T00:00:00Z")
TEA = {"amount": "250000", "description": "tea"}


def with_key(client: Client, key: str) -> tuple[int, Any]:
    return Client(client.url, key)("GET", "/sandbox/v1")


def test_a_key_that_replaced_another_opens_the_same_project(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    with started_server(*data, *FROZEN, "--seed", "5") as (client, printed):
        client.ok("POST", "/v0/charges", TEA)
        client.ok("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "leyden", "key": "k9"})
    assert f"project 1 in {tmp_path}: new, seed 5\n" in printed()
    with started_server(*data, "--api-key", "k9") as (client, printed):
        state = client.ok("GET", "/sandbox/v1")
        assert (state["seed"], state["rate"], state["charges"]) == (5, 0, {"pending": 1})
        assert with_key(client, "leyden")[0] == 401
    assert "continued at 2030-01-01T00:00:00.000Z, seed 5, 1 Charge\n" in printed()
    assert "k9" not in printed()
    with started_server(*data) as (client, printed):
        assert [with_key(client, key)[0] for key in ("leyden", "k9")] == [401, 200]
    assert "its key was replaced, so requests need a newer one" in printed()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_project_whose_journal_was_emptied_is_new(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    with started_server(*data, *FROZEN, "--seed", "5") as (client, _):
        client.ok("POST", "/v0/charges", TEA)
    [journal], [end] = tmp_path.glob("*/*.journal"), tmp_path.glob("*/*.end")
    journal.write_bytes(b"")
    end.unlink()
    with started_server(*data, *FROZEN, "--seed", "6") as (client, printed):
        assert client.ok("GET", "/sandbox/v1")["charges"] == {}
    assert f"project 1 in {tmp_path}: new, because its journal is empty, seed 6\n" in printed()


def test_a_replaced_key_is_no_new_project(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    with started_server(*data, *FROZEN, "--seed", "5", "--api-key", "first") as (client, printed):
        client.ok("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "first", "key": "second"})
        Client(client.url, "second").ok("POST", "/sandbox/v1/api-keys/rotate", {"replaces": "second", "key": "third"})
    with started_server(*data, "--api-key", "second", "--api-key", "third", "--api-key", "other") as (client, printed):
        assert with_key(client, "second")[0] == 401
        assert with_key(client, "third")[1]["seed"] == 5
        assert with_key(client, "other")[1]["seed"] != 5
    assert "project 1 in" in printed()
    assert "project 2 in" in printed()
    assert "project 3 in" not in printed()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_key_of_a_project_that_is_not_served_is_not_issued_again(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    with started_server(*data, *FROZEN, "--api-key", "a") as (client, printed):
        client.ok("POST", "/sandbox/v1/api-keys", {"key": "a2"})
    with started_server(*data, *FROZEN, "--api-key", "b") as (client, printed):
        for key in ("a", "a2", "b"):
            status, problem = client("POST", "/sandbox/v1/api-keys", {"key": key})
            assert (status, problem["detail"]) == (409, f"the key {masked(key)} was issued before: choose a new one")
        client.ok("POST", "/sandbox/v1/api-keys", {"key": "b2"})
    assert "1 more there, opened by a key of its own" in printed()


def test_a_new_key_is_refused_where_a_project_cannot_be_read(tmp_path: Path) -> None:
    with started_server("--data", str(tmp_path), "--api-key", "a"):
        pass
    [journal] = tmp_path.rglob("*.journal")
    journal.write_bytes(b"x" + journal.read_bytes())
    done = run_command("serve", "--port", "0", "--data", str(tmp_path), "--api-key", "b")
    assert done.returncode == 2
    assert f"{journal}, line 1" in done.stderr
    assert len(list(tmp_path.iterdir())) == 1


def test_the_webhook_secret_comes_from_the_seed_and_for_further_keys_from_the_key_too() -> None:
    def secrets(*keys: str) -> list[str]:
        options = [word for key in keys for word in ("--api-key", key)]
        with started_server(*FROZEN, "--seed", "5", *options) as (client, _):
            clients = [Client(client.url, key) for key in keys]
            return [one.ok("GET", "/sandbox/v1/webhook-secret")["current"] for one in clients]

    [alone], [first, second], [_, third] = secrets("a"), secrets("b", "c"), secrets("b", "d")
    assert alone == first
    assert len({first, second, third}) == 3


def test_the_directory_of_a_sandbox_is_none_of_a_server_and_the_reverse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, server = tmp_path / "own", tmp_path / "server"
    with Sandbox(data=own) as sandbox:
        sandbox.charges.create(amount="1000", description="tea")
    assert main(["serve", "--port", "0", "--data", str(own)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"leyden serve: {own} is the directory of one sandbox")
    assert sorted(file.name for file in own.iterdir() if file.is_dir()) == []
    with started_server("--data", str(server)):
        pass
    [project] = server.iterdir()
    with pytest.raises(StoreError, match=f"give that of a project, such as {str(project)!r}"):
        Sandbox(data=server)
    with Sandbox(data=project) as sandbox:
        assert len(sandbox.charges) == 0
