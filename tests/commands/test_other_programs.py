"""The commands for a served sandbox at a server that is another program than Leyden: no success is reported, and no
file is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.commands.conftest import Leyden
from tests.support.http_servers import answering, handling

ID = "0ceeffd6-a8b5-4e75-9c95-d28cd06f7165"
COMMANDS = [
    words.split()
    for words in (
        "sandbox create", "sandbox list", "sandbox list --all", "sandbox show", f"sandbox show {ID}", "sandbox reset",
        f"sandbox delete {ID}", "sandbox snapshot", "sandbox snapshot --list", f"sandbox snapshot --delete {ID}",
        f"sandbox restore {ID}", f"sandbox restore {ID} {ID}", "sandbox fork", f"sandbox diff --snapshot {ID}",
        "sandbox export kept.json", "sandbox export -", "sandbox import kept.json",
        "charges create --amount 1000 --description x", "charges list", f"charges show {ID}", f"charges fail {ID}",
        "static-charges create --min-amount 1 --max-amount 2 --description x", "static-charges list",
        f"static-charges show {ID}", f"static-charges update {ID} --description x", "pay lnbc1", f"pay {ID}",
        "payments list", f"payments show {ID}", f"payments settle {ID}", f"payments cancel {ID}", "advance 1s",
        "clock", "clock --rate 1", "deliveries list", f"deliveries show {ID}", f"deliveries replay {ID}",
        "deliveries replay --all", "logs", "logs 1", "journal", "journal --all", "api GET /sandbox/v1/faults",
        "api POST /v0/charges --data {}", "api GET /sandbox/v1/requests?limit=1",
    )
]  # fmt: skip


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", b"null", b"{}", b"[]", b'{"data": [1, null]}', b"\xff"])
def test_a_success_of_another_program_is_a_failure(body: bytes, leyden: Leyden, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text("an earlier good export")
    with handling(answering(body)) as url:
        for words in COMMANDS:
            for form in ([], ["--json"]):
                if body == b"[]" and words[0] == "journal":
                    continue  # as of an empty journal
                done = leyden(*words, *form, LEYDEN_URL=url.removesuffix("/hook"))
                assert (done.returncode, done.stdout) == (1, ""), words
                [line] = done.stderr.splitlines()
                assert "did not answer as Leyden does" in line, words
                assert "check the URL" in line
    assert kept.read_text() == "an earlier good export"
    assert os.listdir(tmp_path) == ["kept.json"]
