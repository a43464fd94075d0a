"""The pytest plugin, in the test suite of an integrator."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import orjson
import pytest

from leyden.pytest_plugin import LiveServer

pytest_plugins = ["pytester"]

# Other plugins take longer to load than these suites to run.
CONFIG = """[pytest]
addopts = -p no:cacheprovider -p no:schemathesis -p no:xdist
filterwarnings = error
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Iterator[pytest.Pytester]:
    """The suite of an integrator."""
    pytester.makeini(CONFIG)
    return pytester


def create(server: LiveServer, description: str) -> dict[str, object]:
    body = orjson.dumps({"amount": "1000", "description": description, "callbackUrl": "http://shop.localhost/paid"})
    headers = {"apikey": server.api_key, "content-type": "application/json"}
    with urlopen(Request(f"{server}/v0/charges", body, headers), timeout=10) as answer:
        data: dict[str, object] = orjson.loads(answer.read())["data"]
    return data


def test_three_lines_are_a_suite(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        def test_it_expires(sandbox):
            charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
            assert sandbox.advance("60s") and charge.status == "expired"
    """)
    suite.runpytest_inprocess().assert_outcomes(passed=1)


def test_every_test_has_its_own_world_at_the_same_address(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import json
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen
        import pytest

        seen, last = [], []

        def ask(server, path, body=None):
            headers = {"apikey": server.api_key, "content-type": "application/json"}
            with urlopen(Request(server + path, body and json.dumps(body).encode(), headers), timeout=10) as answer:
                return json.load(answer)

        @pytest.mark.parametrize("turn", range(3))
        def test_a_world(leyden_server, turn):
            assert ask(leyden_server, "/v0/charges")["data"] == []
            charge = ask(leyden_server, "/v0/charges", {"amount": "1000", "description": "tea",
                         "callbackUrl": "http://shop.localhost/paid"})["data"]
            box = leyden_server.sandbox
            box.wallet("ana").pay(charge["invoice"]["request"])
            box.run()
            assert ask(leyden_server, "/v0/charges/" + charge["id"])["data"]["status"] == "completed"
            assert box.receiver("shop").inbox[0].json["id"] == charge["id"]
            tips = box.static_charges.create(minAmount="1000", maxAmount="1000", description="tips")
            from leyden.server.charges.lnurl import decode_lnurl
            assert decode_lnurl(tips.request).startswith(leyden_server + "/")
            seen.append((str(leyden_server), charge["id"]))

        def test_the_address_and_the_luck_stay():
            assert len(set(seen)) == 1

        def test_nobody_is_at_home_between_tests():
            with pytest.raises(HTTPError, match="503"):
                urlopen(seen[0][0] + "/v0/charges", timeout=10)
    """)
    suite.runpytest_inprocess().assert_outcomes(passed=5)


def test_seed_start_and_overlays_come_from_the_configuration_file(suite: pytest.Pytester) -> None:
    suite.makeini(CONFIG + "leyden_seed = 42\nleyden_start = 2031-02-03T04:05:06Z\nleyden_overlays = lenient\n")
    suite.makepyfile("""
        def test_the_world(sandbox):
            assert sandbox.now == "2031-02-03T04:05:06.000Z" and sandbox.world.config.seed == 42
            sandbox.charges.create(amount=1000, description="an integer: lenient takes it")
    """)
    suite.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_seed_that_is_no_number_is_reported(suite: pytest.Pytester) -> None:
    suite.makeini(CONFIG + "leyden_seed = lucky\n")
    suite.makepyfile("def test_the_world(sandbox): pass")
    outcome = suite.runpytest_inprocess()
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines(["*leyden_seed is a whole number, not 'lucky'*"])


def test_a_suite_that_uses_none_of_it_loads_none_of_it(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import sys

        def test_nothing_was_imported():
            heavy = ("server", "leyden.world.world", "leyden.sandbox", "pandas", "numpy", "starlette", "uvicorn")
            assert not [name for name in heavy if name in sys.modules]
    """)
    suite.runpytest_subprocess().assert_outcomes(passed=1)


def test_it_can_be_disabled(suite: pytest.Pytester) -> None:
    suite.makepyfile("def test_the_world(sandbox): pass")
    outcome = suite.runpytest_inprocess("-p", "no:leyden")
    outcome.assert_outcomes(errors=1)
    outcome.stdout.fnmatch_lines(["*fixture 'sandbox' not found*"])


def test_the_fixture_serves_here_too(leyden_server: LiveServer) -> None:
    charge = create(leyden_server, "tea")
    assert [one.id for one in leyden_server.sandbox.charges] == [charge["id"]]


def test_the_fixture_is_new_for_each_test(leyden_server: LiveServer) -> None:
    assert len(leyden_server.sandbox.charges) == 0


def test_the_plugin_is_found_by_its_entry_point() -> None:
    root = Path(__file__).parents[2]
    assert '[project.entry-points.pytest11]\nleyden = "leyden.pytest_plugin"' in (root / "pyproject.toml").read_text()
    command = [sys.executable, "-c", "import leyden.pytest_plugin, sys; print('leyden.sandbox' in sys.modules)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
