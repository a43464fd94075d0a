"""A served sandbox for the commands, with one of each thing that an example names."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from leyden.__main__ import main
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
    """Runs `leyden` with these arguments in an empty directory; `LEYDEN_URL` names the server.

    It runs in this process, as in one of its own whose output is read by a program: starting Python takes longer than
    most commands.
    """

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with (
            mock.patch.dict(os.environ, {**NO_VARIABLES, "LEYDEN_URL": server.url, **variables}, clear=True),
            mock.patch.object(sys, "__stdout__", None),  # no terminal, which has a width
            contextlib.chdir(tmp_path),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", ResourceWarning)  # the end of a process closes its connection
            try:
                status: object = main(words)
            except SystemExit as wrong_arguments:
                status = wrong_arguments.code
            out.flush(), err.flush()
        [printed, said] = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
        assert isinstance(status, int)
        return subprocess.CompletedProcess(words, status, printed, said)

    return run
