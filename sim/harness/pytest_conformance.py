"""The conformance run in somebody's own test suite: `@leyden.conformance`, one test for each group of cases.

import leyden

@leyden.conformance("http://127.0.0.1:8402", api_key="leyden")
def test_the_service_conforms(group):
    group.check()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from leyden.arguments import checked_list
from leyden.errors import ArgumentError, LeydenError
from leyden.harness.conformance.conformance import GROUPS, grouped_cases
from leyden.harness.constants import API_KEY
from leyden.harness.model.rules import OVERLAYS
from leyden.harness.runs.cases import play
from leyden.harness.targets.served import target_at
from leyden.harness.targets.target import InProcess, Target
from leyden.server.printable import quoted

_Test = Callable[..., None]


@dataclass(slots=True)
class ConformanceGroup:
    """A group of the conformance cases, for one test. `unchecked` names what the target did not allow to check."""

    name: str
    target: str | None
    api_key: str
    second_api_key: str
    adapter: str
    overlays: tuple[str, ...]
    unchecked: dict[str, None] = field(default_factory=dict)

    def check(self, url: str | None = None) -> None:
        """Run the cases, each from a fresh start, and fail with every violation.

        `url` is for a service that the test starts; otherwise the target of the decorator is tested. What could not be
        checked is printed; if that is everything, the test is skipped. A target that cannot be tested is a failure.
        """
        try:
            target = self._target(url or self.target)
            violations, done = self._run(target)
        except LeydenError as error:
            pytest.fail(f"the target cannot be tested: {error}", pytrace=False)
        for what in self.unchecked:
            print(f"not checked: {what}")
        if violations:
            pytest.fail("\n\n".join(violations), pytrace=False)
        if not done:
            pytest.skip("; ".join(self.unchecked) or "this target can do none of the steps")

    def _run(self, target: Target) -> tuple[list[str], int]:
        """The reports of the violations, and the number of steps."""
        violations, done = [], 0
        for case in grouped_cases(self.name):
            if case.disk and not target.restarts:
                self.unchecked["restarts"] = None
                continue
            case = replace(case, overlays=self.overlays)
            result = play(case, target)
            done += result.done
            self.unchecked.update(result.unchecked)
            if result.violation is not None:
                violations.append(f"{case.name}\n{replace(case, expectation=result.expectation).describe()}")
        return violations, done

    def _target(self, url: str | None) -> Target:
        if url is None:
            return InProcess()
        keys = {"api_key": self.api_key, "second_api_key": self.second_api_key}
        return target_at("", str(url), **keys, adapter=self.adapter)


def conformance(
    target: str | None = None,
    *,
    api_key: str = API_KEY,
    second_api_key: str = "",
    adapter: str = "",
    overlays: Sequence[str] = (),
) -> Callable[[_Test], _Test]:
    """A decorator that runs a test once for each group of conformance cases; the test gets a `ConformanceGroup`, the
    argument `group`, and calls its `check`.

    `target` is the base URL of a served Leyden with a paused clock, or with `adapter` of another implementation; None
    is a sandbox in this process, or the URL that the test gives to `check`. The sandbox of `api_key` is reset for each
    case. `second_api_key` is that of another project. `adapter` is `file.py`, `module:object` or `none`. `overlays` are
    those that the target is served with; `ValueError` for what is no list of the names that the reference model has.
    """
    named = checked_list("overlays", overlays)
    unknown = [one for one in named if one not in OVERLAYS]
    if unknown:
        raise ArgumentError(f"overlays={quoted(unknown)}: choose from {', '.join(OVERLAYS)}")
    group: Any = [
        pytest.param(ConformanceGroup(name, target, api_key, second_api_key, adapter, named), id=name.replace(" ", "-"))
        for name in GROUPS
    ]
    return pytest.mark.parametrize("group", group)
