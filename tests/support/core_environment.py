"""An environment that holds the built wheel and the packages that the core requires, and nothing else."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Names a folder with an environment that is tried instead of one with the newest versions.
CORE_VARIABLE = "LEYDEN_CORE_ENVIRONMENT"
_UNREACHABLE = re.compile("Failed to establish|name resolution|ConnectionError|ProxyError|Read timed out|SSLError")


class NoRegistry(Exception):
    """pip reached no package registry."""


@dataclass(frozen=True, slots=True)
class CoreEnvironment:
    """A virtual environment in `folder`. pytest and pytest-xdist lie in a directory of their own beside it, so that the
    environment holds the core alone."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "core" / "bin" / "python"

    @property
    def pytest_program(self) -> Path:
        """The command `pytest`."""
        return self.folder / "pytest" / "bin" / "pytest"

    def size_mb(self) -> int:
        """The space that it takes on the disk, in whole MB of 2**20 bytes, as `du -sm` counts it."""
        return int(subprocess.check_output(["du", "-sm", self.folder / "core"]).split()[0])

    def run(
        self, *arguments: str, cwd: Path, pytest: bool = False, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run its interpreter with these arguments and return the finished process."""
        return subprocess.run(
            [str(self.python), *arguments],
            cwd=cwd,
            env=self.variables(pytest=pytest),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def variables(self, *, pytest: bool = False) -> dict[str, str]:
        """Environment variables for a process: none that changes what Python imports but, on request, pytest."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "COV_"))}
        return {**kept, "PYTHONPATH": str(self.folder / "pytest")} if pytest else kept


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into `folder` and return its path."""
    checkout = folder / "checkout"
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info", "build", "dist", "tests")
    shutil.copytree(ROOT, checkout, ignore=ignored)
    script = f"from setuptools.build_meta import build_wheel; print(build_wheel({str(folder)!r}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=checkout, capture_output=True, text=True, check=True)
    return folder / done.stdout.split()[-1]


def core_environment(folder: Path) -> CoreEnvironment:
    """The environment in `folder`, which is made by the first process that asks for it. Raises `NoRegistry`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = CoreEnvironment(folder)
        if not (folder / "complete").exists():
            wheel = build_wheel(folder)
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "core")], check=True)
            _pip_install(environment, str(wheel))
            _pip_install(environment, "--no-compile", "--target", str(folder / "pytest"), "pytest", "pytest-xdist")
            (folder / "complete").touch()
        return environment


def _pip_install(environment: CoreEnvironment, *arguments: str) -> None:
    options = ("--quiet", "--disable-pip-version-check", "--retries", "1")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", environment.python, "install", *options, *arguments],
        cwd=environment.folder,
        env=environment.variables(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        if _UNREACHABLE.search(done.stderr):
            raise NoRegistry(done.stderr[-2_000:])
        raise AssertionError(done.stderr[-4_000:])
