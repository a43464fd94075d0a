"""Tools that tests install from the registries of npm and PyPI, into folders of their own."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

_UNREACHABLE = re.compile(
    "Failed to establish|name resolution|ConnectionError|ProxyError|Read timed out|SSLError"
    "|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ERR_SOCKET_TIMEOUT"
)
_TIME_LIMIT_S = 600


def npm_packages(folder: Path, *packages: str) -> Path:
    """The folder with these packages in `node_modules`. Skips without Node.js or the registry, except in CI."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            unavailable(f"this test needs Node.js with npm: install the program {program}")
    options = (
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--no-save",
        "--prefer-offline",
        "--fetch-retries=1",
        "--fetch-retry-mintimeout=1000",
    )

    def install() -> None:
        (folder / "package.json").write_text('{"private": true}\n')
        run_installation(["npm", "install", *options, *packages], folder)

    return once(folder, install)


def python_tools(folder: Path, *packages: str) -> Path:
    """The folder of the programs that these packages of PyPI install. Skips without the registry, except in CI."""

    def install() -> None:
        environment = folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
        options = ("--quiet", "--disable-pip-version-check", "--no-compile")
        python = str(environment / "bin" / "python")
        run_installation([sys.executable, "-m", "pip", "--python", python, "install", *options, *packages], folder)

    return once(folder, install) / "environment" / "bin"


def shared_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder of the run that all its processes share."""
    base = factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name


def unavailable(why: str) -> NoReturn:
    """Skip the test with this sentence. In CI it fails: everything is there."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def once(folder: Path, install: Callable[[], None]) -> Path:
    """The folder, which is filled by the first process that asks for it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            install()
            (folder / "complete").touch()
    return folder


def run_installation(command: Sequence[str], folder: Path, **variables: str) -> None:
    """Run a command that installs, with these variables too. Skips where it reaches no registry, except in CI."""
    variables = {**os.environ, "PIP_RETRIES": "1", **variables}  # a registry that is not there is not asked for long
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=False
    )
    if done.returncode != 0:
        if reason := _UNREACHABLE.search(done.stderr):
            program = Path(command[0]).name
            unavailable(f"{program} reaches no package registry ({reason[0]}): {' '.join(command)[:200]}")
        raise AssertionError(done.stderr[-4_000:])
