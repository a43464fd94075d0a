"""Graphs, sweep stores, key files and reports: a wrong file is refused in one line; files with secrets are private."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from leyden.__main__ import main
from leyden.commands.receivers import EXAMPLE_SECRET
from leyden.devserver.startup.addresses import access_notes, admin_token, api_keys
from leyden.errors import LeydenError, StoreError
from leyden.lab.sweeps.store import SweepStore
from leyden.lightning.topology.import_graph import import_graph
from tests.support.example_receivers import CarefulReceiver, serving_receiver
from tests.support.mutations import mutated, refusal

POLICY = {
    "fee_base_msat": "1000", "fee_rate_milli_msat": "1", "time_lock_delta": 40, "min_htlc": "1",
    "max_htlc_msat": "9000",
}  # fmt: skip
LND = {
    "edges": [
        {
            "channel_id": "1", "node1_pub": "a", "node2_pub": "b", "capacity": "100000", "node1_policy": POLICY,
            "node2_policy": {**POLICY, "disabled": True},
        }
    ]
}  # fmt: skip
CLN = {
    "channels": [
        {
            "short_channel_id": "1x1x1", "source": a, "destination": b, "amount_msat": "100000000msat", "active": True,
            "base_fee_millisatoshi": 1, "fee_per_millionth": 1, "delay": 6, "htlc_minimum_msat": 1,
        }
        for a, b in ("ab", "ba")
    ]
}  # fmt: skip
ROW = {
    "run_id": "r1", "scenario": 0, "replication": 0, "seed": 7, "params": {"x": 1}, "metrics": {"y": 1.5},
    "status": "ok", "error": None, "real_time_s": 0.1, "version": "0.1.0",
}  # fmt: skip


@pytest.mark.parametrize("document", [LND, CLN], ids=["LND", "Core Lightning"])
def test_a_mutated_graph_is_imported_or_refused_in_one_line(document: dict[str, Any]) -> None:
    assert import_graph(document).channels_read == 1
    for data in mutated(document, 400):
        try:
            changed = json.loads(data)
        except (RecursionError, ValueError):
            continue  # the caller parses it
        refusal(lambda: import_graph(changed))  # noqa: B023


def test_a_mutated_sweep_store_is_read_or_refused_in_one_line_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    refused = 0
    for data in mutated(ROW, 300):
        path.write_bytes(json.dumps(ROW).encode() + b"\n" + data + b"\n")

        def read() -> None:
            with SweepStore(path) as store:
                assert set(store.rows) >= {"r1"} or store.rows == {}

        why = refusal(read)
        if why is not None:
            assert why.startswith(f"{path}, line 2")
            refused += 1
    assert 100 < refused < 300


@pytest.mark.parametrize("data", [b"\xff", b"\n", b"two\nlines\n", b"x" * 1000])
def test_a_key_file_without_a_key_is_refused_in_one_line(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "api-key").write_bytes(data)
    with pytest.raises(LeydenError) as refused:
        api_keys([], str(tmp_path), is_local=False)
    assert len(str(refused.value).splitlines()) == 1
    assert "api-key" in str(refused.value)


@pytest.mark.parametrize("kind", ["pipe", "link", "link to nothing", "directory"])
def test_a_key_or_token_that_is_no_regular_file_is_refused(kind: str, tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()
    for name, read in (
        ("api-key", lambda: api_keys([], str(data), is_local=False)),
        ("admin-token", lambda: admin_token(None, str(data), is_local=False)),
    ):
        path = data / name
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "directory":
            path.mkdir()
        else:
            path.symlink_to(elsewhere)
            if kind == "link":
                elsewhere.write_text("leyden_0123456789abcdef\n")
        with pytest.raises(StoreError, match=f"{name} is not a regular file but a ") as refused:
            read()
        assert len(str(refused.value).splitlines()) == 1
    assert elsewhere.exists() == (kind == "link")


def test_a_key_or_token_that_others_can_read_has_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.stat

    def opened(path: Path, **options: Any) -> os.stat_result:
        """A folder of a test is the user's alone; it and the ones above it are made to look open to all."""
        found = real(path, **options)
        return (
            os.stat_result((found.st_mode | stat.S_IXOTH, *tuple(found)[1:])) if stat.S_ISDIR(found.st_mode) else found
        )

    for name in ("api-key", "admin-token"):
        path = tmp_path / name
        path.write_text("leyden_0123456789abcdef\n")
        path.chmod(0o600)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "stat", opened)
            assert access_notes(str(tmp_path)) == []
            path.chmod(0o644)
            [text] = access_notes(str(tmp_path))
            path.chmod(0o600)
        assert f"other users of this machine can read the files in {tmp_path}" in text
    assert access_notes(":memory:") == []


def test_reports_of_the_receiver_check_are_private_and_mask_the_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {form: tmp_path / f"report.{form}" for form in ("json", "html")}
    options = [word for form, path in files.items() for word in (f"--{form}", str(path))]
    with serving_receiver(CarefulReceiver, EXAMPLE_SECRET) as (url, _):
        assert main(["receiver-check", url, "--only", "completed", *options]) == 0
    for path in files.values():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert EXAMPLE_SECRET not in path.read_text()
    assert EXAMPLE_SECRET not in capsys.readouterr().out


def test_a_server_with_a_bad_graph_ends_with_the_status_of_other_bad_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, spec = tmp_path / "graph.json", tmp_path / "spec.yaml"
    for path in (graph, spec):
        path.write_text("{")
    for option in (("--network", str(graph)), ("--network", "nonsense"), ("--spec", str(spec))):
        assert main(["serve", "--port", "0", *option]) == 2, option
        assert len(capsys.readouterr().err.splitlines()) == 1
