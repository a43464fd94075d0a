"""What every test may ask for: a fresh sandbox, and Hypothesis set up so that a failure can be repeated."""

from __future__ import annotations

import gc
import os
import ssl
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import freezegun
import httpcore2
import httptools  # noqa: F401
import httpx2
import jsonpath_rfc9535  # noqa: F401
import numpy as np  # noqa: F401
import pytest
import yaml  # noqa: F401
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.strategies import booleans

from leyden import Sandbox
from leyden.server.store.tables.row_map import RowMap
from tests.support.examples import DEEP_EXAMPLES, SUITE_EXAMPLES

# A run starts some hundred processes. Where bytecode is not written, each of them compiles the package, which takes
# five times as long as the rest of a start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# jsonschema, which nbformat imports, checks the format `iri` if it can import this package, which compiles 38 grammars
# for more than a second when it is imported. No schema here has that format. The processes that tests start
# miss it, too.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
ABSENT = str(Path(__file__).parent / "support" / "absent")
if ABSENT not in (paths := os.environ.get("PYTHONPATH", "").split(os.pathsep)):
    os.environ["PYTHONPATH"] = os.pathsep.join([ABSENT, *filter(None, paths)])

# The unused imports: `pytester` removes every module that a run inside this process imports first, and these have
# compiled parts, which a process can load only once. A transport of httpx2 imports httpcore2, whose errors httpx2 knows
# by their classes: those of a second import would be strangers to it.
httpx2.HTTPTransport(verify=False).close()


@lru_cache
def _certificates(trust_env: bool, _file: str | None, _folder: str | None) -> ssl.SSLContext:
    return _read_certificates(_trust_env=trust_env)


# A client of httpx2 reads the certificates of the system, which takes ten times as long as a request. A process of the
# tests reads them once.
_read_certificates = httpcore2.default_ssl_context
httpcore2.default_ssl_context = lambda *, _trust_env=True: _certificates(
    _trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
)

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
settings.register_profile("deep", settings.get_profile("suite"), max_examples=DEEP_EXAMPLES)
settings.register_profile(
    "random", settings.get_profile("suite"), derandomize=False, max_examples=1_000, print_blob=True
)
# For mutation testing, which asks whether something fails and not how little it takes.
settings.register_profile(
    "verdict", settings.get_profile("suite"), max_examples=50, phases=[Phase.explicit, Phase.generate]
)
WITHOUT_DEEP = "not deep"  # the `-m` of the default run


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox of its own for the test, in memory, at its default start."""
    with Sandbox(seed=7, start="2030-01-01T09:00:00Z") as sandbox:
        yield sandbox


@pytest.fixture
def row_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows that were read from tables; the test may set it to 0."""
    item, get, counted = RowMap.__getitem__, RowMap.get, [0]

    def counted_item(self: RowMap, doc_id: int) -> Any:
        counted[0] += 1
        return item(self, doc_id)

    def counted_get(self: RowMap, doc_id: int, default: Any = None) -> Any:
        counted[0] += 1
        return get(self, doc_id, default)

    monkeypatch.setattr(RowMap, "__getitem__", counted_item)
    monkeypatch.setattr(RowMap, "get", counted_get)
    return counted


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """No test leaves changed environment variables to the next: what servers are started with depends on them."""
    before = dict(os.environ)
    yield
    names = {name for name, _ in before.items() ^ dict(os.environ).items()} - {"PYTEST_CURRENT_TEST"}
    assert not names, f"environment variables are changed: {', '.join(sorted(names))}"


# The files that take longest, the longest first. The workers begin with them, so that they end at about the same time.
LONGEST = (
    "harness/test_served.py",
    "commands/test_examples.py",
    "devserver/test_listen.py",
    "console/test_page.py",
    "devserver/test_pytest_url.py",
    "devserver/test_client_check.py",
    "integration/test_served.py",
    "devserver/test_receiver_check.py",
    "lab/test_parquet.py",
    "integration/test_schemathesis.py",
    "world/test_bounded_values.py",
    "sandbox/test_network_callbacks.py",
    "server/system/test_server_stops.py",
    "sandbox/test_interrupts.py",
    "harness/test_obligations.py",
    "server/system/test_http_limits.py",
    "console/test_charges.py",
    "project/test_notebooks.py",
    "devserver/test_request_log.py",
    "project/test_core_environment.py",
    "harness/test_conformance.py",
    "server/contract/test_mutated_spec.py",
    "world/test_network_state.py",
    "harness/test_control_obligations.py",
    "console/test_callbacks.py",
    "integration/test_disk_faults.py",
    "recipes/test_javascript.py",
    "console/test_accessibility.py",
    "server/callbacks/test_outbox.py",
    "integration/test_rewritten_journals.py",
    "project/test_architecture.py",
    "recipes/test_container.py",
    "lab/test_charts.py",
    "devserver/test_pytest_plugin.py",
    "project/test_linters_and_wheel.py",
    "devserver/test_clock_changes.py",
    "world/test_changed_rows.py",
    "lab/test_traffic_values.py",
    "lab/test_drawings.py",
    "harness/test_random_walk.py",
    "harness/test_command.py",
    "console/test_docs.py",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What the collection makes stays until the end: Python's garbage collector, which would take a fifth of the time
    of many tests, does not look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        # Hypothesis registers its random generators, and that of NumPy, when it runs first, and asks the collector then
        # who holds them.
        find(booleans(), lambda _: True)
        gc.freeze()
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Load the profile, before any test is imported. pytest-xdist would begin with the files of the most tests,
    whatever they take."""
    chosen = os.environ.get("LEYDEN_PROFILE")
    if chosen not in (None, "random", "verdict"):
        raise pytest.UsageError(
            f'LEYDEN_PROFILE is random or verdict, not {chosen}; `pytest -m ""` runs the deep tests'
        )
    settings.load_profile(chosen or ("suite" if config.getoption("markexpr") == WITHOUT_DEEP else "deep"))
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    config.pluginmanager.register(DeselectedByWorkers())


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """A worker of pytest-xdist tells which tests it leaves out."""
    for item in items:
        if isinstance(item, pytest.Item) and hasattr(item.config, "workeroutput"):
            item.config.workeroutput.setdefault("deselected", []).append(item.nodeid)


class DeselectedByWorkers:
    """The closing line of a run with pytest-xdist has the number of tests that were left out."""

    def __init__(self) -> None:
        self._told = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """The first worker that ends tells it: all of them collect the same tests."""
        names = getattr(node, "workeroutput", {}).get("deselected", [])
        if names and not self._told:
            self._told = True
            node.config.hook.pytest_deselected(items=[SimpleNamespace(nodeid=name) for name in names])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every test has an id of its own, and in a worker of pytest-xdist the longest files come first."""
    # pytest 9.2 leaves the operation out of the ids of Schemathesis's tests, and a worker runs one test for each id.
    ids = Counter(item.nodeid for item in items)
    for item in items:
        if ids[item.nodeid] > 1 and hasattr(item, "operation_label") and hasattr(item, "_id"):
            item._id = item._id.with_params(item.operation_label)
    ids = Counter(item.nodeid for item in items)
    for name, count in ids.items():
        if count > 1:
            raise pytest.UsageError(f"{count} tests have the id {name}, of which a worker runs one: name them apart")
    if hasattr(config, "workerinput"):
        rank = {str(Path(__file__).parent / name): number for number, name in enumerate(LONGEST)}
        items.sort(key=lambda item: rank.get(str(item.path), len(rank)))
