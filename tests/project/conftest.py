"""The environment of the core alone, made once for all tests that need it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.core_environment import CORE_VARIABLE, CoreEnvironment, NoRegistry, core_environment


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> CoreEnvironment:
    """The environment of the core. Skips where pip reaches no package registry, except in CI."""
    if CORE_VARIABLE in os.environ:
        return core_environment(Path(os.environ[CORE_VARIABLE]))
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the workers share it
    try:
        return core_environment(folder / "core-environment")
    except NoRegistry as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"pip reaches no package registry: {error}")
