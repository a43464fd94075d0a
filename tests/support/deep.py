"""Deep tests: the default run leaves them out, `pytest -m ""` runs everything, `pytest -m deep` only them.

A test that is deep has the decorator `@deep(OTHER)`, where `OTHER` is the name of a test of its module that tests the
same path in the default run. Cases of a parametrised test are deep by `deep_except`. A number within a test that is
lower in the default run is `deep_or`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")

deep = pytest.mark.deep


def is_deep() -> bool:
    """Whether this run has the full numbers: it was not asked to leave the deep tests out."""
    return settings.get_current_profile_name() != "suite"


def deep_or(*, bounded: T, full: T, random: T | None = None) -> T:
    """`bounded` in the default run, `full` in a run with deep tests, and `random` in the profile of this name."""
    if random is not None and settings.get_current_profile_name() == "random":
        return random
    return full if is_deep() else bounded


def deep_except(values: Iterable[Any], *bounded: Any) -> list[Any]:
    """The cases of a parametrised test: those of `bounded`, values or ids, are in the default run, the others are deep.

    A value is one argument, a tuple of several, or a `pytest.param`; in a mapping, the keys are ids.
    """
    return [one if chosen else _as_deep(one) for one, chosen in _chosen(values, bounded)]


def with_deep(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """The cases of a parametrised test of which only those of `chosen` are deep."""
    return [_as_deep(one) if found else one for one, found in _chosen(values, chosen)]


def sampled(values: Iterable[Any], every: int) -> list[Any]:
    """The cases of a parametrised test of which the default run has each one of this number."""
    cases = [case for case, _ in _cases(values, ())]
    return [case if number % every == 0 else _as_deep(case) for number, case in enumerate(cases)]


def _as_deep(case: Any) -> Any:
    return pytest.param(*case.values, id=case.id, marks=[*case.marks, deep])


def _chosen(values: Iterable[Any], chosen: Sequence[Any]) -> list[tuple[Any, bool]]:
    """Each case as a `pytest.param`, and whether it is chosen: some are, and some are not."""
    cases = _cases(values, chosen)
    for name in chosen:
        assert any(name in found for _, found in cases), f"no case is {name!r}"
    assert {bool(found) for _, found in cases} == {False, True}, "both runs need a case"
    return [(case, bool(found)) for case, found in cases]


def _cases(values: Iterable[Any], chosen: Sequence[Any]) -> list[tuple[Any, list[Any]]]:
    """Each case as a `pytest.param`, and what of `chosen` names it."""
    if isinstance(values, Mapping):
        values = [pytest.param(value, id=name) for name, value in values.items()]
    cases = []
    for value in values:
        case = value if hasattr(value, "marks") else pytest.param(*(value if type(value) is tuple else (value,)))
        names = (value, case.values, case.id, *case.values[:1])
        found = [name for name in chosen if any(type(name) is type(one) and name == one for one in names)]
        cases.append((case, found))
    return cases
