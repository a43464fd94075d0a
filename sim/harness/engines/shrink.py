"""Shrinking: from a long run that broke a promise to the few plain steps that still do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from leyden.harness.checks.violations import Broken
from leyden.harness.generators.generators import START_MS
from leyden.harness.runs.adapters import Target
from leyden.harness.runs.cases import Case, Played, play, recorded

_PLAIN: dict[str, Any] = {
    "amount": "1000",
    "minAmount": "1000",
    "maxAmount": "2000",
    "description": "tea",
    "callbackUrl": "http://r1.inbox.localhost/hook",
    "expiresIn": 60,
    "allowedSlots": 1,
}
_LONG_MS = 7 * 86_400_000
_TRIES = 300
_NEEDED = frozenset(
    {"do", "as", "body", "static", "charge", "payment", "host", "kind", "operation", "what", "of", "to"}
)


def shrink(case: Case, target: Target, broken: Broken) -> tuple[Case, Played]:
    """A finding as the smallest case found that breaks a promise of the same kind, with its proof."""
    first = play(case, target)
    if first.broken is None:
        # The steps alone did not show it: what does depends on more than they say, and that is told as it is.
        first.broken = broken
        return recorded(case, first, target), first
    kind = first.broken.check
    best, left = (case, first), _TRIES

    def still(smaller: Case) -> bool:
        nonlocal best, left
        if left <= 0:
            return False
        left -= 1
        played = play(smaller, target)
        if played.broken is None or played.broken.check != kind:
            return False
        best = (smaller, played)
        return True

    # What came after the step that showed it was never done; mostly that step shows it alone, or with the first.
    until = first.done + first.skipped + 1
    if until < len(case.steps):
        still(replace(case, steps=case.steps[:until]))
    if len(best[0].steps) > 2:
        last = case.steps[min(until, len(case.steps)) - 1]
        if not still(replace(case, steps=(last,))):
            still(replace(case, steps=(case.steps[0], last)))
    changed = True
    while changed and left > 0:
        changed = _plainer_world(best[0], still)
        changed |= _fewer_steps(best[0], still, lambda: best[0])
        changed |= _one_long_wait(best[0], still)
        changed |= _plainer_steps(best[0], still, lambda: best[0])
    small, played = best
    return recorded(small, played, target), played


def _fewer_steps(case: Case, still: Callable[[Case], bool], now: Callable[[], Case]) -> bool:
    changed = False
    size = max(1, len(case.steps) // 2)
    while size:
        at = len(now().steps) - size
        while at >= 0:
            steps = now().steps
            if still(replace(now(), steps=(*steps[:at], *steps[at + size :]))):
                changed = True
            at -= size
        size //= 2
    return changed


def _one_long_wait(case: Case, still: Callable[[Case], bool]) -> bool:
    """Several advances in a row as one that outlasts every schedule."""
    steps = case.steps
    for first in range(len(steps)):
        behind = first
        while behind < len(steps) and steps[behind]["do"] == "advance":
            behind += 1
        wait = {"do": "advance", "by": _LONG_MS}
        if behind > first + 1 and still(replace(case, steps=(*steps[:first], wait, *steps[behind:]))):
            return True
    return False


def _plainer_world(case: Case, still: Callable[[Case], bool]) -> bool:
    changed = False
    if case.disk and still(replace(case, disk=False)):
        case, changed = replace(case, disk=False), True
    for name in case.overlays:
        smaller = replace(case, overlays=tuple(one for one in case.overlays if one != name))
        if still(smaller):
            case, changed = smaller, True
    if case.start_ms != START_MS and still(replace(case, start_ms=START_MS)):
        changed = True
    return changed


def _plainer_steps(case: Case, still: Callable[[Case], bool], now: Callable[[], Case]) -> bool:
    changed = False
    for place in range(len(case.steps)):
        for plainer in _plainer(case.steps[place]):
            steps = now().steps
            if plainer != steps[place] and still(replace(now(), steps=(*steps[:place], plainer, *steps[place + 1 :]))):
                changed = True
                break
    return changed


def _plainer(step: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Steps that say less, or say it more simply, the simplest first."""
    body = step.get("body")
    if isinstance(body, dict):
        for name in body:
            yield {**step, "body": {one: value for one, value in body.items() if one != name}}
        for name, value in body.items():
            if name in _PLAIN and value != _PLAIN[name]:
                yield {**step, "body": {**body, name: _PLAIN[name]}}
            if isinstance(value, str) and len(value) > 1 and value != _PLAIN.get(name):
                yield {**step, "body": {**body, name: value[: len(value) // 2]}}
                yield {**step, "body": {**body, name: value[:-1]}}
    for name in step:
        if name not in _NEEDED:
            yield {one: value for one, value in step.items() if one != name}
    if step["do"] == "receiver" and len(step.get("answers", ())) > 1:
        for answer in step["answers"]:
            yield {**step, "answers": [answer]}
    if step["do"] == "receiver" and step.get("always", 200) not in (200, 500):
        yield {**step, "always": 500}
    if step.get("offset"):
        yield {**step, "offset": 0}
