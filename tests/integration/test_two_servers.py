"""Two servers on one directory: the second is refused, even if the lock file was deleted, and no charge is lost."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.served import ROOT, Client, run_command, served_leyden

BODY = {"amount": "1000", "description": "tea"}


def test_a_second_server_is_refused_after_the_lock_file_was_deleted(tmp_path: Path) -> None:
    with served_leyden("--data", str(tmp_path)) as client:
        kept = [client.ok("POST", "/v0/charges", BODY)["data"]["id"]]
        for lock_file in list(tmp_path.rglob("charges.lock")):
            lock_file.unlink()
        refused = run_command("serve", "--port", "0", "--data", str(tmp_path))
        assert (refused.returncode != 0, refused.stdout) == (True, "")
        [line] = refused.stderr.splitlines()
        assert "is in use by another process, although its charges.lock was deleted" in line
        kept += [client.ok("POST", "/v0/charges", BODY)["data"]["id"] for _ in range(3)]
    with served_leyden("--data", str(tmp_path)) as client:
        assert [charge["id"] for charge in client.ok("GET", "/v0/charges")["data"]] == kept[::-1]


def test_a_server_whose_journal_was_made_longer_stops_with_an_error_and_leaves_it(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "leyden", "serve", "--port", "0", "--data", str(tmp_path)]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        client = Client(process.stdout.readline().split()[-1])
        client.ok("POST", "/v0/charges", BODY)
        [journal] = tmp_path.rglob("charges.journal")
        with journal.open("ab") as file:
            file.write(b"the line of another program")
        lengthened = journal.read_bytes()
        status, problem = client("POST", "/v0/charges", BODY)
        assert status == 507
        assert "was made longer by another program" in problem["detail"]
    finally:
        process.terminate()
        printed = process.communicate(timeout=20)[1].splitlines()
    assert process.returncode == 1
    assert [line for line in printed if re.search("made longer by another program", line)] == printed[-1:]
    assert journal.read_bytes() == lengthened
