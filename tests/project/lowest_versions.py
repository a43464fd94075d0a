"""The lower bounds of pyproject.toml, on demand: `python -m tests.project.lowest_versions [PYTEST ARGUMENTS]`.

Makes an environment with the lowest direct versions in `build/lowest` and runs the suite, or the part that the
arguments name, in it. `--python 3.12` chooses another interpreter; `--neighbours` installs nothing and resolves Leyden
together with the packages that users have beside it. Needs `uv` (`pip install uv`) and a package registry.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / "build" / "lowest"
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


def run_suite(python: str, arguments: Sequence[str]) -> int:
    """Make the environment and run pytest in it. Returns the exit status of the step that failed, or of pytest."""
    interpreter = str(ENVIRONMENT / "bin" / "python")
    lowest = ("--resolution", "lowest-direct", "--only-binary", ":all:", "--no-binary", "leyden")
    steps = (
        ("venv", "--quiet", "--clear", "--seed", "--python", python, str(ENVIRONMENT)),  # with pip, for the core
        ("pip", "install", "--quiet", "--python", interpreter, *lowest, "-e", ".[dev]"),
        ("pip", "freeze", "--python", interpreter),
    )
    for step in steps:
        status = uv(*step)
        if status != 0:
            return status
    return subprocess.run([interpreter, "-m", "pytest", *arguments], cwd=ROOT).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = ArgumentParser(prog="python -m tests.project.lowest_versions", description=__doc__)
    current = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument("--python", default=current, help="the version of Python (default: %(default)s)")
    parser.add_argument("--neighbours", action="store_true", help="only resolve Leyden with its users' other packages")
    options, rest = parser.parse_known_args(arguments)
    return check_neighbours(options.python) if options.neighbours else run_suite(options.python, rest)


if __name__ == "__main__":
    sys.exit(main())
