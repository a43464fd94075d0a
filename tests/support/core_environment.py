"""An environment that holds Leyden and the packages that the core requires, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, PackagePath, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.package_registries import unavailable

ROOT = Path(__file__).parents[2]
# Names a folder with an environment that is tried instead of one with the newest versions.
CORE_VARIABLE = "LEYDEN_CORE_ENVIRONMENT"
_WRITTEN_BY_PIP = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json")


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


def required(requirements: Iterable[str]) -> list[Distribution]:
    """The distributions of this environment that fulfil the requirements, and those that these require."""
    wanted = [(Requirement(text), "") for text in requirements]
    found: dict[tuple[str, str], Distribution] = {}
    while wanted:
        requirement, extra_of_parent = wanted.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra_of_parent}):
            continue
        for extra in ("", *requirement.extras):
            if (requirement.name, extra) not in found:
                package = found[requirement.name, extra] = distribution(requirement.name)
                wanted += [(Requirement(text), extra) for text in package.requires or ()]
    return [package for (_, extra), package in found.items() if extra == ""]


def _files(package: Distribution) -> list[PackagePath]:
    """What the package has on the import path, without bytecode."""
    return [file for file in package.files or () if ".." not in file.parts and "__pycache__" not in file.parts]


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into `folder` and return its path."""
    checkout = folder / "checkout"
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info", "build", "dist", "tests")
    shutil.copytree(ROOT, checkout, ignore=ignored)
    script = f"from setuptools.build_meta import build_wheel; print(build_wheel({str(folder)!r}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=checkout, capture_output=True, text=True, check=True)
    return folder / done.stdout.split()[-1]


def wheels_of_the_core(folder: Path) -> Path:
    """Pack the installed distributions that the core requires, and those that build it, into wheels in `folder`.

    pip installs from them without a registry: it still reads every requirement, and finds nothing that none names.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folder.mkdir()
    for package in required([*project["project"]["dependencies"], *project["build-system"]["requires"]]):
        kinds = re.findall(r"^Tag: (\S+)-(\S+)-(\S+)$", package.read_text("WHEEL") or "", re.MULTILINE)
        if not kinds:
            unavailable(f"{package.name} was not installed from a wheel: install it with pip")
        tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*kinds, strict=True))
        name = re.sub(r"[-_.]+", "_", package.name)
        with zipfile.ZipFile(folder / f"{name}-{package.version}-{tag}.whl", "w") as wheel:
            files = [file for file in _files(package) if file.name not in _WRITTEN_BY_PIP]
            for file in files:
                wheel.write(str(package.locate_file(file)), str(file))
            [metadata] = {file.parent for file in files if len(file.parts) == 2 and file.name == "WHEEL"}
            wheel.writestr(str(metadata / "RECORD"), "".join(f'"{file}",,\n' for file in files))
    return folder


def copy_core(environment: CoreEnvironment) -> None:
    """Make the environment without pip: copy the distributions that the core requires, and unpack the wheel of Leyden.

    It has what pip installs, in a fifth of the time; only pip reads the requirements.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment.folder / "core")], check=True)
    [target] = (environment.folder / "core").glob("lib/python*/site-packages")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    _copy(required(project["dependencies"]), target)
    with tempfile.TemporaryDirectory() as build, zipfile.ZipFile(build_wheel(Path(build))) as wheel:
        wheel.extractall(target)
    _write_program(environment, environment.python.parent / "leyden", "leyden.__main__", "main()")


def copy_pytest(environment: CoreEnvironment) -> None:
    """Copy the pytest and pytest-xdist of this environment, and what they require, to their place in that one."""
    _copy(required(["pytest", "pytest-xdist"]), environment.folder / "pytest")
    environment.pytest_program.parent.mkdir()
    _write_program(environment, environment.pytest_program, "pytest", "console_main()")


def _copy(packages: Iterable[Distribution], target: Path) -> None:
    for package in packages:
        for file in _files(package):
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(package.locate_file(file)), target / file)


def _write_program(environment: CoreEnvironment, path: Path, module: str, call: str) -> None:
    name = call.partition("(")[0]
    path.write_text(f"#!{environment.python}\nimport sys\n\nfrom {module} import {name}\n\nsys.exit({call})\n")
    path.chmod(0o755)
