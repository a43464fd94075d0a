"""The harness alone against a mutant: the conformance run, then every obligation, up to the first violation.

The unchanged source is traced once: which case executes which lines, what it reaches and what it costs. A mutant is
then tested in a fork of that process, by the cases that execute a line of the mutation: the others cannot notice it.
The obligations that execute a line with a mutated constant are tested first, and of them the cheapest one of every
field, then the second one of each: thousands of cheap cases about one field do not come before the first of another.
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain
from types import CodeType, FunctionType, ModuleType
from typing import Any

from coverage import Coverage

from tests.mutation.importing import ROOT, MutantImporter, module_name
from tests.mutation.mutants import Mutant

CONFORMANCE, OBLIGATIONS, COVERAGE = "conformance", "obligations", "coverage"
SURVIVED, NEVER_EXECUTED = "survived", "never executed"


class Lines:
    """Sets of lines of some modules, each set as one integer."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._first: dict[str, int] = {}
        size = 0
        for module in modules:
            self._first[module] = size
            size += len((ROOT / module).read_bytes().splitlines()) + 1

    def set_of(self, module: str, numbers: Iterable[int]) -> int:
        """The set of these lines of a module."""
        return sum(1 << (self._first[module] + number) for number in {*numbers})

    def with_words(self, words: Iterable[str]) -> int:
        """The lines of all modules that have one of these words."""
        pattern, found = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in words) or "(?!)"), 0
        for module in self._first:
            source = (ROOT / module).read_text().splitlines()
            found |= self.set_of(module, [number for number, line in enumerate(source, 1) if pattern.search(line)])
        return found

    def executed(self, actions: Mapping[str, Callable[[], None]]) -> dict[str, int]:
        """The lines that each of these actions executes, in all its threads."""
        tracer = Coverage(data_file=None, config_file=False, include=[str(ROOT / module) for module in self._first])
        tracer.set_option("run:disable_warnings", ["no-data-collected"])
        tracer.start()
        try:
            for name, action in actions.items():
                tracer.switch_context(name)
                action()
        finally:
            tracer.stop()
        found, data = dict.fromkeys(actions, 0), tracer.get_data()
        for module in self._first:
            for number, names in data.contexts_by_lineno(str(ROOT / module)).items():
                for name in found.keys() & names:
                    found[name] |= self.set_of(module, [number])
        return found


@dataclass(frozen=True)
class Traced:
    """A case on the unchanged source: the lines that it executes, the items that it reaches, and its CPU time."""

    executed: int
    reached: frozenset[Any]
    cpu_s: float


@dataclass
class Baseline:
    """The cases on the unchanged source, each by its key. `imported` are the lines that are executed by the import, and
    `derived` those that make the cases. `caches` are the caches of the modules that are mutated; `wanted` are the items
    that all cases together must reach.
    """

    lines: Lines
    imported: int
    derived: int
    cases: dict[str, Any]
    traced: dict[str, Traced]
    caches: list[Any]
    wanted: set[Any]


def trace(modules: Sequence[str], processes: int = 1) -> Baseline:
    """Run all cases on the unchanged source. Raises `SystemExit` if there is a violation."""
    _forget_imports()
    lines = Lines(modules)
    cases: dict[str, Any] = {}
    first = lines.executed(
        {
            "import": lambda: _import(modules),
            "derive": lambda: cases.update(_cases()),
        }
    )
    traced: dict[str, Traced] = {}
    gc.freeze()
    with ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
        # Each process has the same share of every kind of case.
        shares = [[*cases.items()][number::processes] for number in range(processes)]
        for share in pool.map(functools.partial(_trace_cases, lines), shares):
            traced |= share
    names = {module_name(module) for module in modules}
    caches = [
        one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper) and one.__module__ in names
    ]
    wanted = _wanted()
    lost = wanted.difference(*(one.reached for one in traced.values()))
    if lost:
        raise SystemExit(f"the cases do not reach everything without a mutation: {sorted(lost)[:5]}")
    return Baseline(lines, first["import"], first["derive"], cases, traced, caches, wanted)


def _trace_cases(lines: Lines, cases: Sequence[tuple[str, Any]]) -> dict[str, Traced]:
    from leyden.harness.runs.cases import play
    from leyden.harness.targets.target import InProcess

    target = InProcess()
    found: dict[str, tuple[frozenset[Any], float]] = {}

    def trace_case(key: str, case: Any) -> None:
        started = time.process_time()
        result = play(case, target)
        if result.violation is not None:
            raise SystemExit(f"there is a violation without a mutation: repair that first\n{result.violation}")
        found[key] = frozenset(result.reached), time.process_time() - started

    executed = lines.executed({key: functools.partial(trace_case, key, case) for key, case in cases})
    return {key: Traced(executed[key], *found[key]) for key, _ in cases}


def noticed_by(baseline: Baseline, mutant: Mutant, report: Callable[[str], None], seconds: float | None = None) -> str:
    """What notices the mutant in this process: the name of an engine, or why there is nothing. `report` gets the name
    of the engine before each case. Cases that cost more than `seconds` of CPU time together are left out, and the
    result then says how many; but for those that could still reach what the others should have reached."""
    cases, selected = baseline.cases, set(baseline.traced)
    lines = 0 if mutant.lines is None else baseline.lines.set_of(mutant.module, mutant.lines)
    if lines and not lines & baseline.imported and _replace_code(mutant):
        selected = {key for key, traced in baseline.traced.items() if traced.executed & lines}
        for cache in baseline.caches:
            cache.cache_clear()
        if lines & baseline.derived:
            cases = _cases()
    else:
        _forget_imports()
        sys.meta_path.insert(0, MutantImporter(mutant.module, mutant.source()))
        cases = _cases()
    selected |= cases.keys() - baseline.traced.keys()
    if not selected:
        return NEVER_EXECUTED
    from leyden.harness.runs.cases import play
    from leyden.harness.targets.target import InProcess

    reached = set().union(*(traced.reached for key, traced in baseline.traced.items() if key not in selected))
    target, left = InProcess(), seconds
    uses = baseline.lines.with_words(mutant.names)
    rest = _in_order(baseline, uses, selected & cases.keys())[::-1]
    count, should = len(rest), {*reached}

    def next_case() -> str | None:
        if left is None or left > 0:
            return rest.pop() if rest else None
        for item in baseline.wanted & should - reached:
            for key in rest:
                if key in baseline.traced and item in baseline.traced[key].reached:
                    rest.remove(key)
                    return key
            return None  # no case reaches it any more
        return None

    while (key := next_case()) is not None:
        engine = key.partition(":")[0]
        report(engine)
        started = time.process_time()
        result = play(cases[key], target)
        if result.violation is not None:
            return engine
        reached |= {*result.reached}
        should |= baseline.traced[key].reached if key in baseline.traced else frozenset()
        if left is not None and engine == OBLIGATIONS:
            left -= time.process_time() - started
    if baseline.wanted & (should if rest else baseline.wanted) - reached:
        return COVERAGE
    return f"{SURVIVED} {count - len(rest)} of {count} cases" if rest else SURVIVED


def _in_order(baseline: Baseline, uses: int, keys: Iterable[str]) -> list[str]:
    """The cases in the order in which they test a mutant. `uses` are the lines that use what was mutated."""

    def order(key: str) -> tuple[bool, bool, float]:
        traced = baseline.traced.get(key)
        if traced is None:
            return key.startswith(OBLIGATIONS), False, 0.0
        return key.startswith(OBLIGATIONS), not traced.executed & uses, traced.cpu_s

    places: list[tuple[bool, bool, int]] = []
    ordered, before = sorted(keys, key=order), Counter[tuple[bool, bool, str]]()
    for key in ordered:
        *group, _ = order(key)
        name = (*group, _field_of(key))
        places.append((*group, before[name] if group[0] else 0))
        before[name] += 1
    # Stable: of one place the cheapest is first.
    return [key for _, key in sorted(zip(places, ordered, strict=True), key=lambda pair: pair[0])]


def _field_of(key: str) -> str:
    """The operation and the field, or the fault and its kind, that a case of obligations is about."""
    return " ".join(key.split(f"{OBLIGATIONS}: ")[-1].split(" ", 2)[:2])


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module_name(module))


def _forget_imports() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "leyden"]:
        del sys.modules[name]


def _cases() -> dict[str, Any]:
    """Every case by a key of its own."""
    from leyden.harness.conformance.conformance import conformance_cases
    from leyden.harness.model.rules import OVERLAYS
    from leyden.harness.obligations.derive import obligation_cases

    conformance = chain.from_iterable(conformance_cases(overlay) for overlay in (None, *OVERLAYS))
    return {
        f"{engine}: {case.overlays} {case.name}": case
        for engine, cases in ((CONFORMANCE, conformance), (OBLIGATIONS, obligation_cases()))
        for case in cases
    }


def _wanted() -> set[Any]:
    from leyden.harness.engines.obligations import declared_obligations
    from leyden.harness.reports.coverage import declared, out_of_reach

    items = {item for item in declared() if not out_of_reach(item)}
    return items | {("obligation", name) for name in declared_obligations()}


def _replace_code(mutant: Mutant) -> bool:
    """Give the function of the mutation its mutated code, wherever it was imported. False where that is impossible."""
    path = str(ROOT / mutant.module)
    module: Any = importlib.import_module(module_name(mutant.module))
    holder, found = module, None
    for name in mutant.function.split("."):
        if isinstance(holder, ModuleType | type):  # else it is a function within the one that is replaced
            holder = found = vars(holder)[name]
    if isinstance(found, property):
        found = found.fget
    found = inspect.unwrap(getattr(found, "__func__", found))
    if not isinstance(found, FunctionType):
        return False
    code = _code_in(compile(mutant.source(), path, "exec"), found.__code__)
    if code is None or code.co_freevars != found.__code__.co_freevars:
        return False
    found.__code__ = code
    return True


def _code_in(outer: CodeType, wanted: CodeType) -> CodeType | None:
    """The code of the same function in another version of its module, whose earlier lines are the same."""
    for one in outer.co_consts:
        if isinstance(one, CodeType):
            if one.co_qualname == wanted.co_qualname and one.co_firstlineno == wanted.co_firstlineno:
                return one
            inner = _code_in(one, wanted)
            if inner is not None:
                return inner
    return None
