"""The documentation is correct: its tables are the contract's, its Python prints what it shows, its commands work."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from leyden.commands.catalogue import build_parser
from leyden.server.contract.load import known_overlays, load_contract
from leyden.server.docs.tables import callbacks_table, lifecycle_tables, replace_between_markers, routes_table
from tests.support.deep import with_deep
from tests.support.served import served_leyden

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [ROOT / "README.md", *ROOT.glob("[a-z]*/**/README.md")]
    if path.relative_to(ROOT).parts[0] not in ("build", "dist")
}
COMMANDS = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    """The code blocks of a page: language and text."""
    return re.findall(r"```(\w+)\n(.*?)```", PAGES[page], flags=re.DOTALL)


SUITES = [(page, code) for page in PAGES for kind, code in blocks(page) if kind == "python" and "def test_" in code]
STORIES = [
    (page, code, text)
    for page in PAGES
    for (kind, code), (after, text) in pairwise(blocks(page))
    if kind == "python" and after == "text" and (page, code) not in SUITES
]


@pytest.mark.parametrize(
    ("name", "table"), [("routes", routes_table), ("lifecycles", lifecycle_tables), ("callbacks", callbacks_table)]
)
def test_the_tables_are_those_of_the_contract(name: str, table) -> None:
    page = PAGES["specs/README.md"]
    assert replace_between_markers(page, name, table(load_contract())) == page, (
        "run `leyden table --into specs/README.md`"
    )


def test_every_python_block_is_run() -> None:
    python = [(page, code) for page in PAGES for kind, code in blocks(page) if kind == "python"]
    assert sorted([(page, code) for page, code, _ in STORIES] + SUITES) == sorted(python)


LONG = [story for story in STORIES if story[0] == "notebooks/README.md"]


@pytest.mark.parametrize(
    ("page", "code", "expected"), with_deep(STORIES, *LONG[:-1]), ids=lambda value: value[:24].split("\n")[0]
)
def test_the_python_prints_what_it_shows(
    page: str, code: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = "\n" * PAGES[page][: PAGES[page].index(code)].count("\n")  # a sweep reads the source of its function
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(before + code, str(ROOT / page), "exec"), {})
    assert [line.rstrip() for line in printed.getvalue().splitlines()] == expected.splitlines()


@pytest.mark.parametrize(("page", "code"), SUITES, ids=lambda value: value[:24].split("\n")[0])
def test_the_suites_pass(pytester: pytest.Pytester, page: str, code: str) -> None:
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider -p no:schemathesis -p no:xdist\nfilterwarnings = error\n")
    pytester.makepyfile(code)
    pytester.runpytest_inprocess().assert_outcomes(passed=code.count("def test_"))


def test_every_overlay_is_listed() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", PAGES["specs/README.md"], flags=re.MULTILINE)
    assert set(known_overlays()) <= set(listed)


def test_every_option_of_serve_is_listed() -> None:
    [commands] = [action.choices for action in build_parser()._subparsers._group_actions]
    options = {option for action in commands["serve"]._actions for option in action.option_strings} - {"-h", "--help"}
    assert {option for option in options if f"`{option}" not in PAGES["sim/devserver/README.md"]} == set()


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 1_800


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file(page: str) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGES[page])
    assert [target for target in targets if not (ROOT / page).parent.joinpath(target).exists()] == []


def test_ci_runs_the_readmes_test_command() -> None:
    [command] = [text.strip() for text in COMMANDS if "pytest" in text]
    assert command in (ROOT / ".ci" / "run").read_text()


def test_the_curl_commands_work() -> None:
    """The curl commands of the README and of the integrators' page, in order, against a served Leyden."""
    texts = [
        text for page in ("README.md", "sim/devserver/README.md") for kind, text in blocks(page) if kind == "console"
    ]
    requests = []
    for line in "".join(texts).replace("\\\n", " ").strip().splitlines():
        words = shlex.split(line)
        if words[0] == "curl":
            target = next(word for word in words if word.startswith("localhost:8402"))
            requests.append((target, words[words.index("-d") + 1] if "-d" in words else None))
    answers = []
    charge: dict = {}
    with served_leyden() as client:
        for target, body in requests:
            path = target.removeprefix("localhost:8402").replace("ID", charge.get("id", "ID"))
            if body is None:
                answers.append(client.ok("GET", path))
            else:
                invoice = charge.get("invoice", {}).get("request", "")
                answers.append(client.ok("POST", path, json.loads(body.replace("lnbcrt...", invoice))))
            charge = charge or answers[0]["data"]
    _, payment, paid, deliveries, clock, created, snapshot, restored, fault, lost = answers
    assert payment["status"] == "succeeded"
    assert paid["data"]["status"] == "completed"
    assert [delivery["status"] for delivery in deliveries["data"]] == ["delivered"]
    assert clock["now"]
    assert (snapshot["name"], restored["now"] >= snapshot["now"]) == ("before the payment", True)
    assert (created["name"], created["seed"]) == ("test_checkout", 7)
    assert fault["kind"] == "changed_body"
    assert (lost["kind"], lost["afterCommit"]) == ("connection_reset", True)
