"""Files with keys, secrets or requests: only their owner may read them, whatever their mode was and the umask is."""

from __future__ import annotations

import argparse
import ast
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leyden import Sandbox
from leyden.commands.served import sandbox_copies
from leyden.devserver.report_page import write_report
from leyden.harness import command
from leyden.harness.runs.cases import Case
from leyden.http_sandbox.sandbox import HttpSandbox
from leyden.json_files import write_private
from leyden.server.store.store import Store
from tests.project.test_architecture import ROOT, SOURCES

_CASE = Case(({"do": "create_charge", "as": "c1", "body": {"amount": "1000"}},))


def _write_of_a_sandbox(name: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with Sandbox(seed=1, api_key="the-key") as sandbox:
            getattr(sandbox, name)(path)

    return write


def _http_save(path: Path) -> None:
    HttpSandbox.save(SimpleNamespace(export=lambda: {"api_key": "the-key"}), path)  # type: ignore[arg-type]


def _export(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox_copies, "Client", lambda options: lambda *_, **__: b'{"api_key": "the-key"}')
        patch.setattr(sandbox_copies, "sandbox_path", lambda options: "")
        patch.setattr(sandbox_copies, "sandbox_named", lambda options: "")
        sandbox_copies._export(argparse.Namespace(file=str(path)))


def _export_tinydb(path: Path) -> None:
    with Store.memory() as store:
        store.export_tinydb(path)


def _report(path: Path) -> None:
    command._write(path, "<p>the-key</p>")


WRITERS: dict[str, Callable[[Path], None]] = {
    "save": _write_of_a_sandbox("save"),
    "notebook": _write_of_a_sandbox("notebook"),
    "http_save": _http_save,
    "export": _export,
    "export_tinydb": _export_tinydb,
    "report": _report,
    "page": lambda path: write_report(str(path), "<p>the-key</p>"),
    "private": lambda path: write_private(path, "the-key"),
}


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_with_secrets_is_only_its_owners(tmp_path: Path, writer: str, existing: bool) -> None:
    path = tmp_path / "file"
    if existing:
        path.write_text("a longer text of an earlier file" * 10_000)
        path.chmod(0o666)
    WRITERS[writer](path)
    assert _mode(path) == 0o600
    assert path.stat().st_size
    assert "earlier" not in path.read_text()


def test_a_case_is_only_its_owners_in_each_form(tmp_path: Path) -> None:
    found: Any = SimpleNamespace(case=_CASE)
    command._write_case(tmp_path, 1, found)
    files = list(tmp_path.iterdir())
    assert len(files) == 1 + len(command.EXPORT_FORMATS)
    assert {_mode(path) for path in files} == {0o600}


def test_a_table_in_a_document_leaves_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.touch(0o644)
    command._write(path, "coverage", is_private=False)
    assert _mode(path) == 0o644


# What is written otherwise: how many calls in which module, and why the file has no secret.
OTHER_WRITES = {
    "sim/commands/documents.py": 1,  # tables of the contract
    "sim/devserver/state_files.py": 1,  # the process id, the address
    "sim/harness/adapter_command.py": 1,  # a template
    "sim/harness/command.py": 2,  # a trial before a long run, which writes nothing; a table of coverage
    "sim/harness/control/store_checks.py": 3,  # files of a store that exist, damaged
    "sim/harness/targets/hosted.py": 1,
    "sim/harness/targets/target.py": 4,
    "sim/lab/api_reference.py": 1,
    "sim/lab/drawings/drawing.py": 1,
    "sim/lab/lab_command.py": 1,  # the notebooks of the package
    "sim/lab/packaged_notebooks.py": 1,
    "sim/lab/parquet/manifest.py": 1,
    "sim/lab/sweeps/store.py": 1,  # the user's metrics
    "sim/qa/command.py": 1,  # files of the package
    "server/contract/document/parse_cache.py": 1,  # the contract
    "server/store/journal.py": 1,  # an fsync of files that exist
}


def _is_write(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("write_text", "write_bytes"):
        return True
    text = ast.unparse(call)
    if text.startswith("os.open("):
        return "O_CREAT" in text and not any(
            isinstance(each, ast.Constant) and each.value == 0o600 for each in call.args
        )
    if name != "open" or "os.open(" in text:
        return False
    modes = [each.value for each in (*call.args, *(word.value for word in call.keywords)) if _is_mode(each)]
    return any(set("wax+") & set(mode) for mode in modes)


def _is_mode(each: ast.expr) -> bool:
    return isinstance(each, ast.Constant) and isinstance(each.value, str) and set(each.value) <= set("rwaxbt+")


def test_every_other_write_is_known_to_have_no_secret() -> None:
    found = Counter(
        str(path.relative_to(ROOT))
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and _is_write(node)
    )
    assert dict(found) == OTHER_WRITES
