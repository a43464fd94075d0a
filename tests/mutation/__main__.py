"""`python -m tests.mutation [--model | --harness] [MODULE ...]`: the mutation score, and the mutants that survive.

Without an option mutants of the service's code are tested by the conformance run, by random walks, and by the tests of
their module, until one of them kills it. Modules that have little effect on responses (the store, invoices) are tested
by their own tests first. `--harness` tests them by the harness alone: the conformance run, then every obligation.
`--model` does so with mutants of the reference model, its constants and regular expressions too, against the unchanged
service: what survives is a rule that the harness never asks about.

Each mutant is tested in its own process. A mutant takes a few seconds, a survivor a minute, so this is run on demand.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path

from tests.mutation.alone import NEVER_EXECUTED, SURVIVED, Baseline, noticed_by, trace
from tests.mutation.engines import HEAVY, TESTS, in_a_fork, noticed_by_suite
from tests.mutation.equivalent import reason
from tests.mutation.importing import ROOT
from tests.mutation.mutants import Mutant, mutants_of

EQUIVALENT = "equivalent"
MODEL = "sim/harness/model"
# What a client or a receiver sees of the service.
HARNESS = (
    "server/http/limits/body_limit.py",
    "server/http/pipeline.py",
    "server/http/request_parsing.py",
    "server/http/validation.py",
    "server/http/idempotency.py",
    "server/http/projects.py",
    "server/charges/lists.py",
    "server/charges/charges.py",
    "server/charges/static_charges.py",
    "server/charges/lifecycle.py",
    "server/charges/lnurl.py",
    "server/charges/lnurl_pay.py",
    "server/callbacks/outbox.py",
    "server/callbacks/deliveries.py",
    "server/callbacks/attempts.py",
    "server/callbacks/signing.py",
)


def select(modules: Sequence[str], sample: int | None, seed: int, model: bool) -> list[Mutant]:
    """The mutants of the modules, or a random sample: so many of each module, but of the model so many in all."""
    groups = {module: mutants_of(ROOT, module, constants=model) for module in modules}
    if model:
        groups = {MODEL: [mutant for mutants in groups.values() for mutant in mutants]}
    for name, mutants in groups.items():
        if sample is not None and len(mutants) > sample:
            groups[name] = random.Random(f"{seed} {name}").sample(mutants, sample)
    # In turn, so that an interrupted run has tested a sample, too.
    return [one for turn in zip_longest(*groups.values()) for one in turn if one is not None]


def main() -> int:
    """Test the mutants; print the score and the survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=main.__doc__)
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="such as server/money.py (default: all with tests)"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--model", action="store_true", help="mutants of the reference model, tested by the harness")
    which.add_argument("--harness", action="store_true", help="mutants of the service, tested by the harness alone")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="at most N mutants of each module; with --model N in all"
    )
    parser.add_argument("--seed", type=int, default=0, help="the random seed of the sample")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="how many are tested at once")
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="CPU",
        help="with --model and --harness: obligations for so long on each mutant; the others are counted",
    )
    parser.add_argument("--json", metavar="FILE", help="write every mutant and its killer")
    options = parser.parse_args()
    unknown = [module for module in options.modules if not (ROOT / module).is_file()]
    if unknown:
        parser.error(f"there is no {unknown[0]}: give a file of this project, such as server/money.py")
    for heavy in HEAVY:
        importlib.import_module(heavy)
    started = time.monotonic()
    modules = options.modules or _default_modules(options.model, options.harness)
    mutants = select(modules, options.sample, options.seed, options.model)
    if options.model or options.harness:
        baseline = trace(modules, options.processes)
        print(f"{len(baseline.cases)} cases are traced in {time.monotonic() - started:.0f} s", flush=True)
        test: Callable[[Mutant], Callable[[], str]] = partial(_test_alone, baseline, options.seconds)
    else:
        test = _test_with_suite
        for module in modules:
            killer = in_a_fork(partial(noticed_by_suite, module, (ROOT / module).read_text()))()
            if killer != SURVIVED:
                parser.error(f"{module} fails without a mutation ({killer}): repair that first")
    killers = []
    try:
        for mutant, killer in zip(mutants, _tested(test, mutants, options.processes), strict=True):
            why = reason(mutant) if _survives(killer) else ""
            killers.append(EQUIVALENT if why else killer)
            if _survives(killer):
                print(f"{killers[-1]:14}", mutant.name, f"({why})" if why else "", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted: {len(killers)} of {len(mutants)} mutants were tested")
    results = list(zip(mutants, killers, strict=False))
    for module in sorted({mutant.module for mutant, _ in results}):
        _print_score(module, [killer for mutant, killer in results if mutant.module == module])
    _print_score("all", killers)
    print(f"{time.monotonic() - started:.0f} s")
    if options.json:
        rows = [{"mutant": mutant.name, "killer": killer} for mutant, killer in results]
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


def _test_alone(baseline: Baseline, seconds: float | None, mutant: Mutant) -> Callable[[], str]:
    return in_a_fork(partial(noticed_by, baseline, mutant, seconds=seconds))


def _test_with_suite(mutant: Mutant) -> Callable[[], str]:
    return in_a_fork(partial(noticed_by_suite, mutant.module, mutant.source()))


def _tested(test: Callable[[Mutant], Callable[[], str]], mutants: Sequence[Mutant], processes: int) -> Iterator[str]:
    """The result of each test, in the order of the mutants."""
    running: deque[Callable[[], str]] = deque()
    for mutant in mutants:
        if len(running) == processes:
            yield running.popleft()()
        running.append(test(mutant))
    yield from (result() for result in running)


def _survives(killer: str) -> bool:
    return killer.startswith((SURVIVED, NEVER_EXECUTED))


def _default_modules(model: bool, harness: bool) -> list[str]:
    if model:
        return [str(file.relative_to(ROOT)) for file in sorted((ROOT / MODEL).glob("*.py"))]
    return [*HARNESS] if harness else [*TESTS]


def _print_score(name: str, results: Sequence[str]) -> None:
    killers = Counter(SURVIVED if one.startswith(SURVIVED) else one for one in results)
    total = killers.total() - killers[EQUIVALENT]
    share = 100 * (total - sum(count for killer, count in killers.items() if _survives(killer))) / max(total, 1)
    by = ", ".join(f"{killer} {count}" for killer, count in sorted(killers.items()))
    print(f"{name:32} {total:5} mutants, {share:5.1f} % killed ({by})", flush=True)


if __name__ == "__main__":
    sys.exit(main())
