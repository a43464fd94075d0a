"""The Containerfile: its instructions, and what they install, in a folder of this machine in place of a container."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from tests.support.core_environment import ROOT, CoreEnvironment, copy_core, wheels_of_the_core
from tests.support.deep import is_deep
from tests.support.package_registries import once, run_installation

CONTAINERFILE = ROOT / "server" / "Containerfile"
TARGET = "/opt/leyden"
_INSTRUCTION = re.compile(r"^([A-Z]+) (.*)$", re.MULTILINE)


def instructions(name: str) -> list[str]:
    """The arguments of each instruction of this name, in order."""
    text = CONTAINERFILE.read_text().replace("\\\n", " ")
    return [argument.strip() for found, argument in _INSTRUCTION.findall(text) if found == name]


def plain_environment(folder: Path) -> Path:
    """The environment that the image has: in a run with deep tests by the commands of its file, otherwise copied."""
    if is_deep():
        return install_as_the_image(folder)
    environment = CoreEnvironment(folder)
    once(folder, lambda: copy_core(environment))
    return environment.python.parents[1]


def install_as_the_image(folder: Path) -> Path:
    """Run the COPY instructions and the RUN instruction of the first stage, into `folder`. Returns the environment.

    The packages come from this environment, in the versions that it has.
    """
    environment = CoreEnvironment(folder).python.parents[1]

    def install() -> None:
        with tempfile.TemporaryDirectory() as build:
            for copy in instructions("COPY"):
                *sources, place = copy.split()
                for source in [] if "--from=build" in sources else sources:
                    path, target = ROOT / source, Path(build) / place
                    if path.is_dir():
                        shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
                    else:
                        shutil.copy(path, target)
            command = instructions("RUN")[0].replace(TARGET, str(environment))
            command = command.replace("python3 ", f"{sys.executable} ", 1)
            wheels = str(wheels_of_the_core(Path(build) / "wheels"))
            run_installation(["sh", "-ec", command], Path(build), PIP_NO_INDEX="1", PIP_FIND_LINKS=wheels)

    once(folder, install)
    return environment
