"""`python -m tests.mutation [MODULE ...]`: the mutation score of the service's code, and the mutants that survive.

Each mutant is tested in its own process by the conformance run, by random walks, and by the tests of its module, until
one of them kills it. Modules that have little effect on responses (the store, invoices) are tested by their own tests
first. A mutant takes a few seconds, a survivor a minute, so this is run on demand only.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.mutation.mutants import Mutant, mutants_of

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 180  # a mutant that hangs is killed
WALKS = 60
SURVIVED = "survived"
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


class _MutantImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from another source text."""

    def __init__(self, module: str, source: str) -> None:
        # `sim/` is the package itself, `server/` a part of it.
        self._name = "leyden." + module.removeprefix("sim/").removesuffix(".py").replace("/", ".")
        self._path = str(ROOT / module)
        self._source = source

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        return importlib.util.spec_from_loader(name, self, origin=self._path)

    def exec_module(self, module: Any) -> None:
        module.__file__ = self._path
        exec(compile(self._source, self._path, "exec"), module.__dict__)


def _test_mutant(module: str, source: str, writing: int) -> None:
    """Test `module` with this source, by one engine after the other until one fails. The name of each is written to the
    pipe before it starts, and `survived` at the end."""
    assert "leyden" not in sys.modules, "leyden is already imported"
    sys.meta_path.insert(0, _MutantImporter(module, source))
    engines = [
        ("conformance", _conformance_fails),
        ("random-walk", _random_walk_fails),
        ("tests", lambda: _tests_fail(module)),
    ]
    if module.startswith(TESTS_FIRST):
        engines.insert(0, engines.pop())
    for name, fails in engines:
        os.write(writing, f"{name}\n".encode())
        if fails():
            return
    os.write(writing, SURVIVED.encode())


def _conformance_fails() -> bool:
    from leyden.harness.conformance.conformance import run_conformance
    from leyden.harness.targets.target import InProcess

    return any(result.violation is not None for result in run_conformance(InProcess()))


def _random_walk_fails() -> bool:
    from leyden.harness.engines.random_walk import random_walk
    from leyden.harness.targets.target import InProcess

    target = InProcess()
    return any(random_walk(seed, target).violation is not None for seed in range(WALKS))


def _tests_fail(module: str) -> bool:
    import pytest

    os.environ["LEYDEN_PROFILE"] = "verdict"
    files = [str(ROOT / "tests" / f"{name}.py") for name in TESTS.get(module, ())]
    quiet = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--assert=plain"]
    return bool(files) and pytest.main([*quiet, *files]) != 0


def killer_of(module: str, source: str) -> str:
    """What kills the mutant of `module` with this source: `conformance`, `random-walk`, `tests`, `time` if it hangs, or
    nothing (`survived`).

    It runs in its own process. A mutant that cannot be imported or ends the process is killed by the present engine.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        null_device = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null_device, stream)
        signal.alarm(TIMEOUT_S)
        try:
            _test_mutant(module, source, writing)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        names = pipe.read().split()
    _, ended = os.waitpid(child, 0)
    return "time" if os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGALRM else names[-1]


def _select(modules: Sequence[str], sample: int | None, seed: int) -> Iterator[Mutant]:
    for module in modules:
        mutants = mutants_of(ROOT, module)
        if sample is not None and len(mutants) > sample:
            mutants = sorted(random.Random(f"{seed} {module}").sample(mutants, sample), key=lambda one: one.line)
        yield from mutants


def main() -> int:
    """Test the mutants; print the score and the survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=main.__doc__)
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="such as server/money.py (default: all with tests)"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="the largest number of mutants of each module")
    parser.add_argument("--seed", type=int, default=0, help="the random seed of the sample")
    parser.add_argument("--json", metavar="FILE", help="write every mutant and its killer")
    options = parser.parse_args()
    unknown = [module for module in options.modules if not (ROOT / module).is_file()]
    if unknown:
        parser.error(f"there is no {unknown[0]}: give a file of this project, such as server/money.py")
    for heavy in HEAVY:
        importlib.import_module(heavy)
    started = time.monotonic()
    modules = options.modules or list(TESTS)
    for module in modules:
        killer = killer_of(module, (ROOT / module).read_text())
        if killer != SURVIVED:
            parser.error(f"{module} fails without a mutation ({killer}): repair that first")
    results: list[tuple[Mutant, str]] = []
    for mutant in _select(modules, options.sample, options.seed):
        results.append((mutant, killer_of(mutant.module, mutant.source())))
        if results[-1][1] == SURVIVED:
            print("survived ", mutant.name, flush=True)
    for module in dict.fromkeys(mutant.module for mutant, _ in results):
        _print_score(module, Counter(killer for mutant, killer in results if mutant.module == module))
    _print_score("all", Counter(killer for _, killer in results))
    print(f"{time.monotonic() - started:.0f} s")
    if options.json:
        rows = [{"mutant": mutant.name, "killer": killer} for mutant, killer in results]
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


def _print_score(name: str, killers: Counter[str]) -> None:
    total = killers.total()
    share = 100 * (total - killers[SURVIVED]) / max(total, 1)
    by = ", ".join(f"{killer} {count}" for killer, count in sorted(killers.items()))
    print(f"{name:28} {total:5} mutants, {share:5.1f} % killed ({by})", flush=True)


if __name__ == "__main__":
    sys.exit(main())
