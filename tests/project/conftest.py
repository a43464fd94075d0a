"""The environment of the core alone: the one that the image has, so that it is installed once in a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.containerfile import plain_environment
from tests.support.core_environment import CORE_VARIABLE, CoreEnvironment, copy_pytest
from tests.support.package_registries import once, shared_folder


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> CoreEnvironment:
    """The environment of the core."""
    if CORE_VARIABLE in os.environ:
        return CoreEnvironment(Path(os.environ[CORE_VARIABLE]))
    folder = shared_folder(tmp_path_factory, "image")
    plain_environment(folder)
    environment = CoreEnvironment(folder)
    once(folder / "pytest", lambda: copy_pytest(environment))
    return environment
