"""The lower bounds of pyproject.toml, on demand: `python -m tests.project.lowest_versions [PYTEST ARGUMENTS]`.

Makes an environment with the lowest direct versions of all extras in `build/lowest` and runs the suite, or the part
that the arguments name, in it, without the tests of `NEWEST`. The extras need newer versions of some packages than the
core does, so that a second environment, `build/lowest-core`, has the lowest direct versions of the core alone and the
lowest pytest; the tests of the core run its commands, its Python API and the pytest fixtures there. `--core` tries the
core only; `--python 3.12` chooses another interpreter; `--neighbours` installs nothing and resolves Leyden together
with the packages that users have beside it. Needs `uv` (`pip install uv`) and a package registry.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from tests.support.core_environment import CORE_VARIABLE

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / "build" / "lowest"
CORE = ROOT / "build" / "lowest-core"
LOWEST = ("--quiet", "--resolution", "lowest-direct")
# Wheels only, except for the one pure Python package whose lowest versions have none, and Leyden itself.
WHEELS = ("--only-binary", ":all:", "--no-binary", "leyden", "--no-binary", "standardwebhooks")
CORE_TESTS = ("tests/project/test_core_environment.py", "tests/project/test_example_project.py")
# What these compare with is made with the newest versions: printed DataFrames, and the annotations of packages.
NEWEST = (
    "tests/project/test_notebooks.py::test_a_notebook_is_the_result_of_its_source",
    "tests/project/test_linters_and_wheel.py::test_mypy_has_nothing_to_say",
)
# What users of Leyden install beside it; each list has to resolve together with the core.
NEIGHBOURS = (("lnurl>=2",), ("bolt11", "fastapi", "httpx", "respx", "pytest-httpx"))


def uv(*arguments: str, text: str | None = None) -> int:
    """Run one command of uv and return its exit status."""
    return subprocess.run([sys.executable, "-m", "uv", *arguments], cwd=ROOT, input=text, text=True).returncode


def check_neighbours(python: str) -> int:
    """Resolve the core together with each list of `NEIGHBOURS`. Returns 0 if all resolve, 1 otherwise."""
    failed = 0
    for names in NEIGHBOURS:
        wanted = "\n".join([f"leyden @ {ROOT.as_uri()}", *names])
        status = uv(
            "pip", "compile", "--quiet", "--python-version", python, "--output-file", "/dev/null", "-", text=wanted
        )
        print(f"{'conflict' if status else 'resolved'}: leyden, {', '.join(names)}")
        failed |= status
    return int(failed != 0)


def run_all(steps: Sequence[tuple[str, ...]]) -> int:
    """Run these commands of uv up to the first that fails. Returns its exit status, or 0."""
    for step in steps:
        status = uv(*step)
        if status != 0:
            return status
    return 0


def run_suite(python: str, arguments: Sequence[str]) -> int:
    """Make the environment of all extras and run pytest in it. Returns the exit status of what failed, or of pytest."""
    interpreter = str(ENVIRONMENT / "bin" / "python")
    steps = (
        ("venv", "--quiet", "--clear", "--seed", "--python", python, str(ENVIRONMENT)),  # with pip, for the core
        ("pip", "install", "--python", interpreter, *LOWEST, *WHEELS, "-e", ".[dev]"),
        ("pip", "freeze", "--python", interpreter),
    )
    command = [interpreter, "-m", "pytest", *(f"--deselect={name}" for name in NEWEST), *arguments]
    return run_all(steps) or subprocess.run(command, cwd=ROOT).returncode


def run_core(python: str) -> int:
    """Make the environment of the core and run its tests with it. Returns the exit status of what failed."""
    shutil.rmtree(CORE, ignore_errors=True)
    interpreter = str(CORE / "core" / "bin" / "python")
    pytest = ("--target", str(CORE / "pytest"), "pytest>=7.4", "pytest-xdist>=3.5")  # as in the extras `qa` and `dev`
    steps = (
        ("venv", "--quiet", "--python", python, str(CORE / "core")),
        ("pip", "install", "--python", interpreter, *LOWEST, *WHEELS, "."),
        ("pip", "freeze", "--python", interpreter),
        ("pip", "install", "--python", interpreter, *LOWEST, *pytest),
    )
    status = run_all(steps)
    if status:
        return status
    environment = {**os.environ, CORE_VARIABLE: str(CORE)}
    command = [sys.executable, "-m", "pytest", "-n", "0", *CORE_TESTS]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = ArgumentParser(prog="python -m tests.project.lowest_versions", description=__doc__)
    current = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument("--python", default=current, help="the version of Python (default: %(default)s)")
    parser.add_argument("--neighbours", action="store_true", help="only resolve Leyden with its users' other packages")
    parser.add_argument("--core", action="store_true", help="only try the lowest versions of the core")
    options, rest = parser.parse_known_args(arguments)
    if options.neighbours:
        return check_neighbours(options.python)
    status = 0 if options.core else run_suite(options.python, rest)
    return run_core(options.python) or status


if __name__ == "__main__":
    sys.exit(main())
