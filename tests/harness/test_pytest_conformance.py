"""`@leyden.conformance`: the conformance run in the test suite of somebody else."""

from __future__ import annotations

from typing import Any

import pytest

import leyden
from leyden.errors import ArgumentError
from leyden.harness.conformance.conformance import GROUPS, conformance_cases, grouped_cases
from leyden.server.charges.charges import ChargeService
from tests.support.deep import deep
from tests.support.served import served_leyden

pytest_plugins = ["pytester"]
CONFIG = """[pytest]
addopts = -p no:cacheprovider -p no:schemathesis -p no:xdist
filterwarnings = error
"""


def test_the_groups_have_all_cases() -> None:
    assert [case.name for name in GROUPS for case in grouped_cases(name)] == [one.name for one in conformance_cases()]


@pytest.mark.parametrize("overlays", [None, 1, "strict", ["nope"], [1], [[]]])
def test_overlays_that_are_no_list_of_names_are_refused(overlays: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^overlays=.*: ") as raised:
        leyden.conformance(overlays=overlays)
    assert "\n" not in str(raised.value)


@deep("test_a_service_at_a_url_is_checked_as_far_as_possible")
def test_each_group_is_a_test_and_a_violation_is_reported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChargeService, "expire", lambda self, charge_id: None)
    pytester.makeini(CONFIG)
    pytester.makepyfile("""
        import leyden

        @leyden.conformance()
        def test_the_service_conforms(group):
            if group.name in ("charges", "lists"):
                group.check()
    """)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=len(GROUPS) - 2, failed=2)
    result.stdout.fnmatch_lines(["*conformance: before, at and after the expiry*", "*Rule: *", "*Expected*"])


def test_a_service_at_a_url_is_checked_as_far_as_possible(pytester: pytest.Pytester) -> None:
    pytester.makeini(CONFIG)
    with served_leyden("--rate", "0") as client:
        pytester.makepyfile(f"""
            import leyden

            @leyden.conformance("{client.url}")
            def test_the_decorator_has_the_url(group):
                if group.name in ("lists", "restarts"):
                    group.check()

            @leyden.conformance(api_key="wrong")
            def test_the_test_has_the_url(group):
                if group.name == "lists":
                    group.check("{client.url}")
        """)
        result = pytester.runpytest_inprocess("-rA")
    result.assert_outcomes(passed=2 * len(GROUPS) - 2, skipped=1, failed=1)
    result.stdout.fnmatch_lines(["*not checked: isolation of projects: give --second-api-key*"])
    result.stdout.fnmatch_lines(["*the target cannot be tested: *refused the API key: the key (5*"])
