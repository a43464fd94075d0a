"""Shrinking: from a long run with a violation to a few simple steps with the same violation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from leyden.harness.checks.violations import ContractViolation
from leyden.harness.generators.generators import START_MS
from leyden.harness.runs.case_schema import STEP_VALIDATOR
from leyden.harness.runs.cases import Case, CaseResult, play, with_result
from leyden.harness.steps import Step
from leyden.harness.targets.target import IN_PROCESS, Target
from leyden.server.errors import LeydenError

_SIMPLE: dict[str, Any] = {
    "amount": "1000",
    "minAmount": "1000",
    "maxAmount": "2000",
    "description": "tea",
    "callbackUrl": "http://r1.inbox.localhost/hook",
    "expiresIn": 60,
    "allowedSlots": 1,
}
_LONG_MS = 7 * 86_400_000
_MAX_TRIES = 300
# Members that stay where the schema of a case does not require them: others refer to them.
# Members that stay. The options of a hosted server have its seed: two servers without it have different ids.
_KEPT = frozenset({"as", "body", "charge", "options", "static", "to"})


def shrink(case: Case, target: Target, violation: ContractViolation) -> tuple[Case, CaseResult]:
    """The smallest case found with a violation of the same check, and its result.

    If the steps alone do not reproduce the violation, the case is returned `as_found`. An error ends the search; it is
    then in `unchecked` of the result.
    """
    search: _Search | None = None
    result = CaseResult(case, violation)
    try:
        first = play(case, target)
        if first.violation is not None:
            search = _Search(case, first, first.violation.check, target)
            search.run()
        else:
            result = replace(first, violation=violation)
    except Exception as error:  # whatever it is, the violation was observed
        result = result if search is None else search.result
        why = str(error) if isinstance(error, LeydenError) else f"{type(error).__name__}: {error}"
        result.unchecked[f"whether a smaller case has the violation of {violation.check}: {why}"] = None
    if search is None:
        return as_found(result, target), result
    return with_result(search.case, search.result, target), search.result


def as_found(result: CaseResult, target: Target) -> Case:
    """The case of a result with its violation, which was not observed again at this target."""
    case = with_result(result.case, result, target)
    return replace(case, found_on="", journal_hash=None) if target.kind == IN_PROCESS else case


class _Search:
    """The best case so far, its result, and the attempts to make it smaller."""

    def __init__(self, case: Case, result: CaseResult, check: str, target: Target) -> None:
        self.case = case
        self.result = result
        self._check = check
        self._target = target
        self._left = _MAX_TRIES

    def run(self) -> None:
        """Make the case smaller as long as that is possible."""
        case = self.case
        # Later steps were never done. Mostly the last step alone reproduces the violation, or with the first one.
        until = self.result.done + self.result.skipped + 1
        if until < len(case.steps):
            self._try(replace(case, steps=case.steps[:until]))
        if len(self.case.steps) > 2:
            last = case.steps[min(until, len(case.steps)) - 1]
            if not self._try(replace(case, steps=(last,))):
                self._try(replace(case, steps=(case.steps[0], last)))
        changed = True
        while changed and self._left > 0:
            changed = self._simplify_start()
            changed |= self._remove_steps()
            changed |= self._join_advances()
            changed |= self._simplify_steps()

    def _try(self, smaller: Case) -> bool:
        """Whether this case has a violation of the same check; it is then the best so far."""
        if self._left <= 0:
            return False
        self._left -= 1
        result = play(smaller, self._target)
        if result.violation is None or result.violation.check != self._check:
            return False
        self.case, self.result = smaller, result
        return True

    def _try_steps(self, *steps: Step) -> bool:
        return self._try(replace(self.case, steps=steps))

    def _simplify_start(self) -> bool:
        changed = self.case.disk and self._try(replace(self.case, disk=False))
        # What is served has its overlays, whatever a run needs.
        for name in () if self._target.network else self.case.overlays:
            changed |= self._try(replace(self.case, overlays=tuple(one for one in self.case.overlays if one != name)))
        return changed | (self.case.start_ms != START_MS and self._try(replace(self.case, start_ms=START_MS)))

    def _remove_steps(self) -> bool:
        changed = False
        size = max(1, len(self.case.steps) // 2)
        while size:
            at = len(self.case.steps) - size
            while at >= 0:
                steps = self.case.steps
                changed |= self._try_steps(*steps[:at], *steps[at + size :])
                at -= size
            size //= 2
        return changed

    def _join_advances(self) -> bool:
        """Several advances in a row as one that is longer than every schedule."""
        steps = self.case.steps
        for first in range(len(steps)):
            end = first
            while end < len(steps) and steps[end]["do"] == "advance":
                end += 1
            advance: Step = {"do": "advance", "by": _LONG_MS}
            if end > first + 1 and self._try_steps(*steps[:first], advance, *steps[end:]):
                return True
        return False

    def _simplify_steps(self) -> bool:
        changed = False
        for index in range(len(self.case.steps)):
            for simpler in simpler_steps(self.case.steps[index]):
                steps = self.case.steps
                if self._try_steps(*steps[:index], simpler, *steps[index + 1 :]):
                    changed = True
                    break
        return changed


def simpler_steps(step: Step) -> Iterator[Step]:
    """Steps with fewer or with simpler members, the simplest first, that a case may have."""
    return (simpler for simpler in _simpler(step) if simpler != step and STEP_VALIDATOR.is_valid(simpler))


def _simpler(step: Step) -> Iterator[Step]:
    body = step.get("body")
    if isinstance(body, dict):
        for name in body:
            yield {**step, "body": {one: value for one, value in body.items() if one != name}}
        for name, value in body.items():
            if name in _SIMPLE and value != _SIMPLE[name]:
                yield {**step, "body": {**body, name: _SIMPLE[name]}}
            if isinstance(value, str) and len(value) > 1 and value != _SIMPLE.get(name):
                yield {**step, "body": {**body, name: value[: len(value) // 2]}}
                yield {**step, "body": {**body, name: value[:-1]}}
    for name in step:
        if name not in _KEPT:
            yield cast("Step", {one: value for one, value in step.items() if one != name})
    if step["do"] == "receiver" and len(step.get("answers", ())) > 1:
        for reply in step["answers"]:
            yield {**step, "answers": [reply]}
    if step["do"] == "receiver" and step.get("always", 200) not in (200, 500):
        yield {**step, "always": 500}
    if step.get("offset"):
        yield {**step, "offset": 0}
