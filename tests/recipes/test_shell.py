"""The recipe with curl alone passes, and leaves nothing on the server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.deep import deep
from tests.support.served import ROOT, served_leyden

SCRIPT = ROOT / "tests" / "recipes" / "shell" / "checkout.sh"
SHELLS = {str(SCRIPT): "sh", str(ROOT / ".ci" / "run"): "bash"}


def run(url: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script against a server."""
    environment = {"PATH": os.environ["PATH"], "LEYDEN_URL": url, **variables}
    return subprocess.run(["sh", str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(shutil.which("curl") is None, reason="install curl to run the script that calls it")
def test_the_script_passes_with_and_without_an_admin_token() -> None:
    for token in ("", "a-random-text"):
        with served_leyden(*(["--admin-token", token] if token else [])) as client:
            done = run(client.url, LEYDEN_ADMIN_TOKEN=token)
            assert done.returncode == 0, done.stderr
            assert done.stdout.splitlines() == [
                "payment: succeeded",
                "paid charge: completed",
                "callback: delivered",
                "unpaid charge: expired",
            ]
            assert client.ok("GET", "/sandbox/v1/sandboxes", authorization=f"Bearer {token}")["data"] == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="install curl to run the script that calls it")
def test_the_script_fails_when_what_it_expects_does_not_happen(tmp_path: Path) -> None:
    broken = tmp_path / "checkout.sh"
    broken.write_text(SCRIPT.read_text().replace('{"by": "60s"}', '{"by": "59s"}'))
    with served_leyden() as client:
        environment = {"PATH": os.environ["PATH"], "LEYDEN_URL": client.url}
        command = ["sh", str(broken)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (1, "unpaid charge: expected expired, found pending\n")
        assert client.ok("GET", "/sandbox/v1/sandboxes")["data"] == []


def test_the_shell_can_read_each_script() -> None:
    for script, shell in SHELLS.items():
        done = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), script


@deep("test_the_shell_can_read_each_script")
def test_shellcheck_finds_nothing(linters: Path) -> None:
    done = subprocess.run([str(linters / "shellcheck"), *SHELLS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
