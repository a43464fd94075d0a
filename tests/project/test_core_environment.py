"""The core alone: its size, what it serves, and the one line with which everything else names its extra."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.core_environment import CoreEnvironment
from tests.support.deep import deep_except, sampled
from tests.support.served import Client, served_leyden

LINE = "network='line:3'"
MOST_MB = 110  # with pip in it
EMPTY_RUN = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:anyio")
SHOWS_IMPORTS = """
import pathlib, sys
def pytest_sessionfinish():
    pathlib.Path("imported").write_text("\\n".join(sys.modules))
"""

# What a Sandbox and its objects cannot do with the core alone: the expression, what the message names, package, extra.
PYTHON = [
    ("sb.charges.table", "sb.charges.table", "pandas", "lab"),
    ("sb.static_charges.table", "sb.static_charges.table", "pandas", "lab"),
    *((f"sb.{name}", f"sb.{name}", "pandas", "lab") for name in (
        "attempts", "balances", "callbacks", "deliveries", "htlcs", "journal", "outages", "payments"
    )),
    ("sb.diff(sb)", "sb.diff()", "pandas", "lab"),
    ("sb.kpi.by('1h')", "kpi.by()", "pandas", "lab"),
    ("sb.notebook('story.ipynb')", "sb.notebook()", "nbformat", "lab"),
    ("charge.qr()", "qr()", "segno", "lab"),
    ("sb.plot.conversion()", "sb.plot.conversion()", "matplotlib", "lab"),
    ("leyden.conformance", "leyden.conformance", "pytest", "qa"),
    ("leyden.plot_sweep(None, 'conversion', x='expiresIn')", "plot_sweep()", "matplotlib", "lab"),
    ("leyden.sweep(print, leyden.grid(a=[1]))", "sweep()", "pandas", "lab"),
    ("Sandbox(network='scale-free:40')", "network='scale-free:40'", "scipy", "network"),
    ("Sandbox(network='line:3')", "network='line:3'", "scipy", "network"),
]  # fmt: skip

# Commands and options that the core cannot carry out: the arguments, what the message names, package, extra.
COMMANDS = [
    (("lab", "notebooks"), "leyden lab", "nbformat", "lab"),
    (("serve", "--port", "0", "--network", "scale-free:40"), "--network scale-free:40", "scipy", "network"),
    (("fuzz",), "leyden fuzz --engines state-machine", "hypothesis", "qa"),
    (("fuzz", "--engines", "state-machine"), "leyden fuzz --engines state-machine", "hypothesis", "qa"),
    (("fuzz", "--engines", "random-walk,schemathesis"), "leyden fuzz --engines schemathesis", "schemathesis", "qa"),
    (
        ("fuzz", "--engines", "random-walk", "--cluster", "tcp://127.0.0.1:9"),
        "leyden fuzz --cluster",
        "distributed",
        "cluster",
    ),
]

WALK = """
import json, sys
import leyden
from leyden import Sandbox

sb = Sandbox(seed=1)
charge = sb.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/paid")
sb.wallet("ana").pay(charge)
sb.run()
walked = {"sb": sb, "sb.charges": sb.charges, "sb.static_charges": sb.static_charges, "charge": charge,
          "sb.kpi": sb.kpi, "sb.wallet('ana')": sb.wallet("ana"), "sb.receiver('shop')": sb.receiver("shop"),
          "leyden": leyden}
expressions = [f"{name}.{attribute}" for name, owner in walked.items() for attribute in dir(owner)
               if not attribute.startswith("_")] + sys.argv[1:]
raised = {}
for expression in expressions:
    try:
        eval(expression)
    except Exception as error:
        raised[expression] = [type(error).__name__, str(error)]
print(json.dumps(raised))
"""


def needs(what: str, package: str, extra: str) -> str:
    return f'{what} needs {package}: pip install "leyden[{extra}]", or in a checkout pip install ".[{extra}]"'


@contextmanager
def served(core: CoreEnvironment, folder: Path) -> Iterator[Client]:
    """`leyden serve` in the environment of the core."""
    command = [str(core.python), "-m", "leyden", "serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, env=core.variables(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield Client(process.stdout.readline().split()[-1])
        finally:
            process.terminate()


def test_the_core_is_small(core: CoreEnvironment) -> None:
    """The environment is made without pip, which saves time; a user's has it, so its size counts."""
    pip = find_spec("pip")
    assert pip is not None
    assert pip.origin is not None
    pip_mb = int(subprocess.check_output(["du", "-sm", Path(pip.origin).parent]).split()[0])
    assert core.size_mb() + pip_mb <= MOST_MB


@pytest.fixture(scope="module")
def raised(core: CoreEnvironment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What every public attribute and every expression of `PYTHON` raises: the class and the text."""
    folder = tmp_path_factory.mktemp("walk")
    done = core.run("-c", WALK, *(expression for expression, *_ in PYTHON), cwd=folder)
    assert done.returncode == 0, done.stderr
    return {expression: (kind, text) for expression, (kind, text) in json.loads(done.stdout).items()}


@pytest.mark.parametrize(("expression", "what", "package", "extra"), PYTHON)
def test_the_python_api_names_the_extra(
    raised: dict[str, tuple[str, str]], expression: str, what: str, package: str, extra: str
) -> None:
    assert raised[expression] == ("MissingExtra", needs(what, package, extra))


def test_every_other_attribute_works_with_the_core(raised: dict[str, tuple[str, str]]) -> None:
    known = {expression for expression, *_ in PYTHON}
    others = {expression: text for expression, (_, text) in raised.items() if expression not in known}
    # This one is absent in any environment, because payments are direct.
    assert others.pop("sb.network").startswith("payments are direct here")
    assert others == {}


@pytest.mark.parametrize(("arguments", "what", "package", "extra"), deep_except(COMMANDS, *COMMANDS[::3]))
def test_the_command_line_names_the_extra(
    core: CoreEnvironment, tmp_path: Path, arguments: tuple[str, ...], what: str, package: str, extra: str
) -> None:
    done = core.run("-m", "leyden", *arguments, cwd=tmp_path)
    name = "" if what.startswith("leyden ") else f"leyden {arguments[0]}: "
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{name}{needs(what, package, extra)}\n")


def test_a_directory_of_a_network_names_the_extra(core: CoreEnvironment, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with served_leyden("--data", data, "--network", "line:3"):
        pass
    done = core.run("-m", "leyden", "serve", "--port", "0", "--data", data, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, f"leyden serve: {needs(LINE, 'scipy', 'network')}\n")


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    sampled(
        [
            (("version",), 0, "leyden "),
            (("table",), 0, "createCharge"),
            (("--help",), 0, "receiver-check"),
            (("receiver-check", "http://127.0.0.1:1024/hook"), 1, "Grade F"),
            (("listen", "http://127.0.0.1:1024/hook", "--server", "http://127.0.0.1:9"), 1, "leyden serve"),
            (("fuzz", "--engines", "random-walk", "--examples", "2"), 0, "2 "),
        ],
        3,
    ),
)
def test_the_other_commands_work_with_the_core(
    core: CoreEnvironment, tmp_path: Path, arguments: tuple[str, ...], status: int, text: str
) -> None:
    done = core.run("-m", "leyden", *arguments, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert text in done.stdout + done.stderr


def test_the_core_serves_and_pays_a_charge(core: CoreEnvironment, tmp_path: Path) -> None:
    with served(core, tmp_path) as client:
        charge = client.ok("POST", "/v0/charges", {"amount": "21000", "description": "tea"})["data"]
        payment = client.ok("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
        assert payment["status"] == "succeeded"
        assert client.ok("GET", f"/v0/charges/{charge['id']}")["data"]["status"] == "completed"
        status, problem = client("GET", "/sandbox/v1/network/nodes/shop")
        assert (status, "--network" in problem["detail"]) == (409, True)


def test_an_empty_test_run_imports_the_plugin_and_nothing_else_of_leyden(core: CoreEnvironment, tmp_path: Path) -> None:
    """What it costs in CPU time is measured by the benchmarks: imports are nearly all of it."""
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    (tmp_path / "conftest.py").write_text(SHOWS_IMPORTS)

    def imported(*options: str) -> set[str]:
        assert core.run(*EMPTY_RUN, *options, cwd=tmp_path, pytest=True).returncode == 0
        return set((tmp_path / "imported").read_text().split())

    assert imported() - imported("-p", "no:leyden") == {"leyden", "leyden.pytest_plugin"}


def test_the_core_brings_no_pytest_plugin_besides(core: CoreEnvironment, tmp_path: Path) -> None:
    """Every plugin is loaded by every test run of a user, so that a new one has to be a decision."""
    listed = "from importlib.metadata import entry_points; print(*entry_points(group='pytest11').names)"
    assert set(core.run("-c", listed, cwd=tmp_path).stdout.split()) == {"anyio", "leyden"}


def test_the_core_holds_nothing_of_an_extra(core: CoreEnvironment, tmp_path: Path) -> None:
    named = "numpy scipy pandas matplotlib pytest hypothesis schemathesis freezegun nbformat segno"
    script = "import sys, importlib.util as u; print(*(name for name in sys.argv[1:] if u.find_spec(name)))"
    assert core.run("-c", script, *named.split(), cwd=tmp_path).stdout.strip() == ""
    assert sys.version_info[:2] == tuple(
        map(int, core.run("-c", "import sys; print(*sys.version_info[:2])", cwd=tmp_path).stdout.split())
    )
