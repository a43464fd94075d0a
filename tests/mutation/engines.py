"""What tests a mutant: one engine after the other, in a process of its own, until one of them notices the mutation."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable

from tests.mutation.importing import ROOT, MutantImporter

# A mutant that hangs or grows is killed. The times are those of one case, or of all tests of a module.
CPU_S, REAL_S, MEMORY = 150, 900, 4 << 30
WALKS = 60
SURVIVED, TIME = "survived", "time"
# Imported once, before the processes are forked; no module of leyden, because the mutant must be imported first.
HEAVY = ("coincurve", "httpx2", "hypothesis", "jsonschema_rs", "orjson", "pytest", "starlette.routing", "yaml")

# Fast tests first. No tests that start a server in its own process: it would run the unchanged source.
_CHARGES = (
    "server/test_static_charges",
    "server/test_lists",
    "server/test_overlays",
    "server/test_edited_spec",
    "server/test_lnurl_pay",
    "server/test_store_pages",
    "integration/test_stories",
    "lab/test_tables",
    "integration/test_durability",
    "world/test_snapshots",
    "integration/test_restart",
)
_CALLBACKS = (
    "server/test_attempts",
    "callbacks/test_transport",
    "server/test_store_pages",
    "server/test_edited_spec",
    "callbacks/test_faults",
    "server/test_outbox",
    "server/test_hostile_receivers",
    "devserver/test_control_callbacks",
    "integration/test_restart",
    "integration/test_disk_faults",
    "integration/test_callback_machine",
)
_ROWS = (
    "server/test_store",
    "server/test_store_pages",
    "server/test_store_disk",
    "server/test_store_journal",
    "server/test_store_table",
)
_FILES = (*_ROWS, "integration/test_durability", "integration/test_disk_faults")
_BOLT11 = ("lightning/test_bolt11_vectors", "lightning/test_bolt11", "server/test_lnurl_pay")
TESTS = {
    "server/charges/lifecycle.py": _CHARGES,
    "server/charges/charges.py": _CHARGES,
    "server/charges/static_charges.py": _CHARGES,
    "server/callbacks/outbox.py": _CALLBACKS,
    "server/callbacks/deliveries.py": _CALLBACKS,
    "server/callbacks/attempts.py": _CALLBACKS,
    "server/charges/lnurl.py": (
        "server/test_lnurl",
        "server/test_lnurl_pay",
        "lightning/test_bolt11_vectors",
        "lightning/test_bolt11",
    ),
    "server/money.py": ("server/test_money_and_timestamps",),
    "server/store/table.py": _ROWS,
    "server/store/tables/table_data.py": _ROWS,
    "server/store/rows.py": _FILES,
    "server/store/tables/index.py": _ROWS,
    "server/store/tables/id_order.py": _ROWS,
    "server/store/journal.py": _FILES,
    "server/store/storage.py": _FILES,
    "sim/lightning/bolt11/codec.py": _BOLT11,
    "sim/lightning/bolt11/fields.py": _BOLT11,
    "sim/world/persistence/world_state.py": ("integration/test_restart", "world/test_network_state"),
    "sim/world/time/clock.py": (
        "world/test_clock",
        "sandbox/test_sandbox",
        "world/test_process_clock",
        "world/test_snapshots",
        "integration/test_restart",
    ),
}
TESTS_FIRST = ("server/store/", "sim/lightning/bolt11/", "sim/world/persistence")


def _conformance_fails() -> bool:
    from leyden.harness.conformance.conformance import conformance_cases
    from leyden.harness.model.rules import OVERLAYS
    from leyden.harness.runs.cases import play
    from leyden.harness.targets.target import InProcess

    target = InProcess()
    return any(
        play(case, target).violation is not None for overlay in (None, *OVERLAYS) for case in conformance_cases(overlay)
    )


def _random_walk_fails() -> bool:
    from leyden.harness.engines.random_walk import random_walk
    from leyden.harness.targets.target import InProcess

    target = InProcess()
    return any(random_walk(seed, target).violation is not None for seed in range(WALKS))


def _tests_fail(module: str) -> bool:
    import pytest

    os.environ["LEYDEN_PROFILE"] = "verdict"
    files = [str(ROOT / "tests" / f"{name}.py") for name in TESTS.get(module, ())]
    quiet = ["-x", "-q", "-m", "", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--assert=plain"]
    return bool(files) and pytest.main([*quiet, *files]) != 0


def _engines(module: str) -> list[tuple[str, Callable[[], bool]]]:
    engines = [
        ("conformance", _conformance_fails),
        ("random-walk", _random_walk_fails),
        ("tests", lambda: _tests_fail(module)),
    ]
    return [engines[2], *engines[:2]] if module.startswith(TESTS_FIRST) else engines


def noticed_by_suite(module: str, source: str, report: Callable[[str], None]) -> str:
    """What notices a mutant of `module` with this source: the first engine that fails, or nothing (`survived`).
    `report` gets the name of each engine before it starts."""
    assert "leyden" not in sys.modules, "leyden is already imported"
    sys.meta_path.insert(0, MutantImporter(module, source))
    for name, fails in _engines(module):
        report(name)
        if fails():
            return name
    return SURVIVED


def in_a_fork(test: Callable[[Callable[[str], None]], str]) -> Callable[[], str]:
    """Start `test` in a process of its own. Returns a function that waits for the result, `time` if it hangs.

    A test that raises an exception or ends the process has noticed the mutant by the engine that it reported last.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        null_device = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null_device, stream)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            report = _EngineReports(writing)
            report("import")
            report(test(report))
        finally:
            os._exit(0)
    os.close(writing)

    def result() -> str:
        with os.fdopen(reading) as pipe:
            names = pipe.read().splitlines()
        _, ended = os.waitpid(child, 0)
        return TIME if os.WIFSIGNALED(ended) and os.WTERMSIG(ended) in {signal.SIGALRM, signal.SIGXCPU} else names[-1]

    return result


class _EngineReports:
    """Writes the name of an engine where another one starts, and gives the process its whole time again."""

    def __init__(self, writing: int) -> None:
        self._writing = writing
        self._name = ""

    def __call__(self, name: str) -> None:
        signal.alarm(REAL_S)
        used_s = round(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
        resource.setrlimit(resource.RLIMIT_CPU, (used_s + CPU_S, resource.RLIM_INFINITY))
        if name != self._name:
            os.write(self._writing, f"{name}\n".encode())
        self._name = name
