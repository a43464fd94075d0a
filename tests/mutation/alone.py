"""The harness alone against a mutant: the conformance run, then every obligation, up to the first violation.

The unchanged source is traced once: which case executes which lines, and what it reaches. A mutant is then tested in a
fork of that process, by the cases that execute a line of the mutation: the others cannot notice it.
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from tests.mutation.importing import ROOT, MutantImporter, module_name
from tests.mutation.mutants import Mutant

CONFORMANCE, OBLIGATIONS, COVERAGE = "conformance", "obligations", "coverage"
SURVIVED, NEVER_EXECUTED = "survived", "never executed"


@dataclass
class Baseline:
    """The cases on the unchanged source: for each by its key the lines that it executes and the items that it reaches.
    `caches` are the caches of the modules that are mutated; `wanted` are the items that all cases together must reach;
    `imported` are the lines that are executed by the import.
    """

    executed: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    reached: dict[str, set[Any]] = field(default_factory=dict)
    imported: set[tuple[str, int]] = field(default_factory=set)
    caches: list[Any] = field(default_factory=list)
    wanted: set[Any] = field(default_factory=set)


def trace(modules: Sequence[str]) -> Baseline:
    """Run all cases on the unchanged source. Raises `SystemExit` if there is a violation."""
    _forget_imports()
    files = {str(ROOT / module): module for module in modules}
    imported: set[tuple[str, int]] = set()
    _set_trace(_tracer(files, imported))
    for module in modules:
        importlib.import_module(module_name(module))
    _set_trace(None)
    from leyden.harness.targets.target import InProcess

    found = Baseline(wanted=_wanted(), imported=imported)
    for key, play in _cases(InProcess()):
        lines: set[tuple[str, int]] = set()
        _set_trace(_tracer(files, lines))
        try:
            result = play()
        finally:
            _set_trace(None)
        if result.violation is not None:
            raise SystemExit(f"there is a violation without a mutation: repair that first\n{result.violation}")
        found.executed[key], found.reached[key] = lines, {*result.reached}
    names = {module_name(module) for module in modules}
    found.caches = [
        one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper) and one.__module__ in names
    ]
    lost = found.wanted - set().union(*found.reached.values())
    if lost:
        raise SystemExit(f"the cases do not reach everything without a mutation: {sorted(lost)[:5]}")
    return found


def noticed_by(baseline: Baseline, mutant: Mutant, tell: Callable[[str], None]) -> str:
    """What notices the mutant in this process: the name of an engine, or why there is nothing. `tell` gets the name of
    each engine before it starts."""
    selected = set(baseline.executed)
    lines = {(mutant.module, line) for line in mutant.lines or ()}
    if lines and not lines & baseline.imported and _replace_code(mutant):
        selected = {key for key, executed in baseline.executed.items() if executed & lines}
        for cache in baseline.caches:
            cache.cache_clear()
    else:
        _forget_imports()
        sys.meta_path.insert(0, MutantImporter(mutant.module, mutant.source()))
    if not selected:
        return NEVER_EXECUTED
    from leyden.harness.targets.target import InProcess

    reached = set().union(*(items for key, items in baseline.reached.items() if key not in selected))
    for key, play in _cases(InProcess()):
        if key in selected or key not in baseline.executed:
            engine = key.partition(":")[0]
            tell(engine)
            result = play()
            if result.violation is not None:
                return engine
            reached |= {*result.reached}
    return COVERAGE if baseline.wanted - reached else SURVIVED


def _forget_imports() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "leyden"]:
        del sys.modules[name]


def _cases(target: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every case with a key of its own, those of the conformance run first."""
    from leyden.harness.conformance.conformance import conformance_cases
    from leyden.harness.model.rules import OVERLAYS
    from leyden.harness.obligations.derive import obligation_cases
    from leyden.harness.runs.cases import play

    conformance = chain.from_iterable(conformance_cases(overlay) for overlay in (None, *OVERLAYS))
    for engine, cases in ((CONFORMANCE, conformance), (OBLIGATIONS, obligation_cases())):
        for case in cases:
            yield f"{engine}: {case.overlays} {case.name}", functools.partial(play, case, target)


def _wanted() -> set[Any]:
    from leyden.harness.engines.obligations import declared_obligations
    from leyden.harness.reports.coverage import declared, out_of_reach

    items = {item for item in declared() if not out_of_reach(item)}
    return items | {("obligation", name) for name in declared_obligations()}


def _set_trace(tracer: Any) -> None:
    threading.settrace(tracer)
    sys.settrace(tracer)


def _tracer(files: dict[str, str], lines: set[tuple[str, int]]) -> Any:
    def in_module(frame: FrameType, event: str, argument: Any) -> Any:
        lines.add((files[frame.f_code.co_filename], frame.f_lineno))
        return in_module

    def call(frame: FrameType, event: str, argument: Any) -> Any:
        return in_module if frame.f_code.co_filename in files else None

    return call


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
