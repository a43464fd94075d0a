"""What every test may ask for: a fresh sandbox, and Hypothesis set up so that a failure can be repeated."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import freezegun
import jsonpath_rfc9535  # noqa: F401
import pytest
import yaml  # noqa: F401
from hypothesis import HealthCheck, Phase, settings

from leyden import Sandbox
from tests.support.examples import SUITE_EXAMPLES

# A run starts some hundred processes. Where bytecode is not written, each of them compiles the package, which takes
# five times as long as the rest of a start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# jsonschema, which nbformat imports, checks the format `iri` if it can import this package, which compiles 38 grammars
# for more than a second when it is imported. No schema here has that format.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# The two unused imports: `pytester` removes every module that a run inside this process imports first, and these two
# have compiled parts, which a process can load only once.

# `freeze_time` reads every attribute of every module, and scipy imports a subpackage for each of its own.
freezegun.configure(extend_ignore_list=["numpy", "scipy"])

settings.register_profile(
    "suite",
    max_examples=SUITE_EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("deep", settings.get_profile("suite"), derandomize=False, max_examples=2_000, print_blob=True)
# For mutation testing, which asks whether something fails and not how little it takes.
settings.register_profile(
    "verdict", settings.get_profile("suite"), max_examples=100, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile(os.environ.get("LEYDEN_PROFILE", "suite"))


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox of its own for the test, in memory, at its default start."""
    with Sandbox(seed=7, start="2030-01-01T09:00:00Z") as sandbox:
        yield sandbox
