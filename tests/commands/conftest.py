"""A served sandbox for the commands, with one of each thing that an example names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.served import Client, served_leyden

Leyden = Callable[..., subprocess.CompletedProcess[str]]
NO_VARIABLES = {name: text for name, text in os.environ.items() if not name.startswith(("LEYDEN_", "COLUMNS"))}


@pytest.fixture(scope="module")
def server() -> Iterator[Client]:
    """A server with a paused clock and a known seed."""
    with served_leyden("--rate", "0", "--seed", "7", "--start", "2030-01-01T09:00:00Z") as client:
        yield client


@pytest.fixture
def leyden(server: Client, tmp_path: Path) -> Leyden:
    """Runs `leyden` with these arguments in an empty directory; `LEYDEN_URL` names the server."""

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "leyden", *words],
            cwd=tmp_path,
            env={**NO_VARIABLES, "LEYDEN_URL": server.url, "PYTHONIOENCODING": "utf-8", **variables},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    return run
