"""An environment that holds Leyden and the packages that the core requires, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
# Names a folder with an environment that is tried instead of one with the newest versions.
CORE_VARIABLE = "LEYDEN_CORE_ENVIRONMENT"


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


def copy_pytest(environment: CoreEnvironment) -> None:
    """Copy the pytest and pytest-xdist of this environment, and what they require, to their place in that one."""
    target = environment.folder / "pytest"
    wanted, copied = ["pytest", "pytest-xdist"], set[str]()
    while wanted:
        name = wanted.pop()
        if name in copied:
            continue
        copied.add(name)
        package = distribution(name)
        for requirement in map(Requirement, package.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted.append(requirement.name)
        for file in package.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(package.locate_file(file)), target / file)
    program = environment.pytest_program
    program.parent.mkdir()
    program.write_text(f"#!{environment.python}\nimport sys\n\nimport pytest\n\nsys.exit(pytest.console_main())\n")
    program.chmod(0o755)
