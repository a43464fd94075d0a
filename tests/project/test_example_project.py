"""A user's project that owns modules named like the folders of this checkout: its tests and our fixtures pass there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.core_environment import CoreEnvironment
from tests.support.deep import deep_except

FILES = {
    "server.py": "def order(name):\n    return {'order': name}\n",
    "sim/__init__.py": "NAME = 'the simulation of this project'\n",
    "specs/__init__.py": "NAME = 'the specifications of this project'\n",
    "notebooks/__init__.py": "NAME = 'the notebooks of this project'\n",
    "tests/__init__.py": "",
    "tests/test_own.py": """
        import notebooks
        import sim
        import specs
        from server import order


        def test_its_own_modules_are_found():
            assert order("tea") == {"order": "tea"}
            assert [one.NAME.split()[1] for one in (sim, specs, notebooks)] == [
                "simulation", "specifications", "notebooks"
            ]
    """,
    "tests/test_sandbox.py": """
        import sim
        from server import order


        def test_a_charge_is_paid(sandbox):
            charge = sandbox.charges.create(amount="1000", description=order("tea")["order"])
            sandbox.wallet("ana").pay(charge)
            sandbox.run()
            assert charge.status == "completed"
            assert sim.NAME.startswith("the simulation")
    """,
    "tests/test_served.py": """
        import json
        from urllib.request import Request, urlopen

        from server import order


        def ask(server, path, body=None):
            headers = {"apikey": server.api_key, "content-type": "application/json"}
            with urlopen(Request(server + path, body and json.dumps(body).encode(), headers), timeout=10) as answer:
                return json.load(answer)["data"]


        def test_a_charge_is_paid_over_http(leyden_server):
            body = {"amount": "1000", "description": order("tea")["order"]}
            charge = ask(leyden_server, "/v0/charges", body)
            leyden_server.sandbox.wallet("ana").pay(charge["invoice"]["request"])
            leyden_server.sandbox.run()
            assert ask(leyden_server, "/v0/charges/" + charge["id"])["status"] == "completed"
    """,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's folder."""
    folder = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        lines = [line.removeprefix(" " * 8) for line in text.splitlines()]
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("command", deep_except(["pytest", "python -m pytest", "python -m pytest -n 2"], "pytest"))
def test_its_tests_and_both_fixtures_pass(core: CoreEnvironment, project: Path, command: str) -> None:
    words = [str(core.pytest_program)] if command == "pytest" else command.split()[1:]
    done = core.run(*words, cwd=project, pytest=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
