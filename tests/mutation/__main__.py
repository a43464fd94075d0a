"""`python -m tests.mutation [MODULE ...]`: how many small changes of the service's own code go unnoticed, and which.

Each mutant is given to the harness's tour, then to its walk, then to the tests written for its module, in a process of
its own; the first that complains has killed it. What hardly shows in an answer (the store, invoices) is given to its
tests first. On demand only: a mutant costs a few seconds, a survivor a minute.
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
LONGEST_S = 180  # a mutant that hangs is noticed, too
WALKS = 60
SURVIVED = "survived"
# Brought in once, before any process is made; nothing of ours, which a mutant has to come before.
HEAVY = ("coincurve", "httpx2", "hypothesis", "jsonschema_rs", "orjson", "pytest", "starlette.routing", "yaml")

# The fast ones first. A server in a process of its own runs the text that is on the disk: such a test sees no mutant.
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
    "server/store/table_data.py": _ROWS,
    "server/store/rows.py": _FILES,
    "server/store/index.py": _ROWS,
    "server/store/id_order.py": _ROWS,
    "server/store/journal.py": _FILES,
    "server/store/storage.py": _FILES,
    "sim/lightning/bolt11/codec.py": _BOLT11,
    "sim/lightning/bolt11/fields.py": _BOLT11,
    "sim/world/persistence.py": ("integration/test_restart", "lightning/test_network_store"),
    "sim/world/clock.py": (
        "world/test_clock",
        "sandbox/test_sandbox",
        "world/test_process_clock",
        "world/test_snapshots",
        "integration/test_restart",
    ),
}
TESTS_FIRST = ("server/store/", "sim/lightning/bolt11/", "sim/world/persistence")


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets one module be imported from another text."""

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


def _given(module: str, source: str, writing: int) -> None:
    """Set the engines on `module` with this text, one after the other until one complains. Each one's name goes into
    the pipe before its turn, and `survived` when there is none left."""
    assert "leyden" not in sys.modules, "nothing may be imported yet"
    sys.meta_path.insert(0, _Instead(module, source))
    engines = [("tour", _tour_complains), ("walk", _walk_complains), ("tests", lambda: _tests_complain(module))]
    if module.startswith(TESTS_FIRST):
        engines.insert(0, engines.pop())
    for name, complains in engines:
        os.write(writing, f"{name}\n".encode())
        if complains():
            return
    os.write(writing, SURVIVED.encode())


def _tour_complains() -> bool:
    from leyden.harness.conformance.conformance import tour
    from leyden.harness.targets.target import InProcess

    return any(played.broken is not None for played in tour(InProcess()))


def _walk_complains() -> bool:
    from leyden.harness.engines.random_walk import walk
    from leyden.harness.targets.target import InProcess

    target = InProcess()
    return any(walk(seed, target).broken is not None for seed in range(WALKS))


def _tests_complain(module: str) -> bool:
    import pytest

    os.environ["LEYDEN_PROFILE"] = "verdict"
    files = [str(ROOT / "tests" / f"{name}.py") for name in TESTS.get(module, ())]
    quiet = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--assert=plain"]
    return bool(files) and pytest.main([*quiet, *files]) != 0


def judged(module: str, source: str) -> str:
    """Who notices that `module` has this text: `tour`, `walk`, `tests`, `time` when it hangs, or nobody (`survived`).

    In a process of its own. A service that cannot even be imported, or falls over, is noticed like one that lies: by
    the engine whose turn it was.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        signal.alarm(LONGEST_S)
        try:
            _given(module, source, writing)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read().split()
    _, ended = os.waitpid(child, 0)
    return "time" if os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGALRM else said[-1]


def _chosen(modules: Sequence[str], sample: int | None, seed: int) -> Iterator[Mutant]:
    for module in modules:
        mutants = mutants_of(ROOT, module)
        if sample is not None and len(mutants) > sample:
            mutants = sorted(random.Random(f"{seed} {module}").sample(mutants, sample), key=lambda one: one.line)
        yield from mutants


def main() -> int:
    """Judge the mutants and print the score and the survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=main.__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as server/money.py; all that are known")
    parser.add_argument("--sample", type=int, metavar="N", help="at most so many mutants of each module")
    parser.add_argument("--seed", type=int, default=0, help="which ones are taken")
    parser.add_argument("--json", metavar="FILE", help="write every mutant and its killer")
    options = parser.parse_args()
    unknown = [module for module in options.modules if not (ROOT / module).is_file()]
    if unknown:
        parser.error(f"there is no {unknown[0]}: name a file of this project, such as server/money.py")
    for heavy in HEAVY:
        importlib.import_module(heavy)
    began = time.monotonic()
    modules = options.modules or list(TESTS)
    for module in modules:
        killer = judged(module, (ROOT / module).read_text())
        if killer != SURVIVED:
            parser.error(f"{module} is not sound as it stands: the {killer} complains of it; mend that first")
    verdicts: list[tuple[Mutant, str]] = []
    for mutant in _chosen(modules, options.sample, options.seed):
        verdicts.append((mutant, judged(mutant.module, mutant.source())))
        if verdicts[-1][1] == SURVIVED:
            print("survived ", mutant.name, flush=True)
    for module in dict.fromkeys(mutant.module for mutant, _ in verdicts):
        _tell(module, Counter(killer for mutant, killer in verdicts if mutant.module == module))
    _tell("all", Counter(killer for _, killer in verdicts))
    print(f"{time.monotonic() - began:.0f} s")
    if options.json:
        rows = [{"mutant": mutant.name, "killer": killer} for mutant, killer in verdicts]
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


def _tell(name: str, killers: Counter[str]) -> None:
    total = killers.total()
    share = 100 * (total - killers[SURVIVED]) / max(total, 1)
    by = ", ".join(f"{killer} {count}" for killer, count in sorted(killers.items()))
    print(f"{name:28} {total:5} mutants, {share:5.1f} % killed ({by})", flush=True)


if __name__ == "__main__":
    sys.exit(main())
