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

from leyden import Sandbox, grid, sweep
from leyden.commands.served import sandbox_copies
from leyden.devserver.report_page import write_report
from leyden.files.written_files import write_private
from leyden.harness import command
from leyden.harness.runs.cases import Case
from leyden.http_sandbox.sandbox import HttpSandbox
from leyden.server.errors import LeydenError
from leyden.server.store.store import Store
from tests.project.test_architecture import ROOT, SOURCES
from tests.support.store_helpers import files_no_longer_than

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
    "sim/devserver/startup/state_files.py": 1,  # the process id, the address
    "sim/harness/control/store_checks.py": 3,  # files of a store that exist, damaged
    "sim/harness/targets/hosted.py": 1,
    "sim/harness/targets/target.py": 5,
    "sim/lab/lab_command.py": 1,  # the notebooks of the package
    "sim/lab/parquet/manifest.py": 1,
    "sim/files/written_files.py": 2,  # a new file of the given mode, and its descriptor
    "server/contract/document/parse_cache.py": 1,  # the contract
    "server/pipes.py": 1,  # a terminal or a pipe
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


def _drawing(path: Path) -> None:
    with Sandbox(seed=1) as sandbox:
        sandbox.charges.create(amount="1000", description="x").lifecycle().save(path)


def _sweep(path: Path) -> None:
    sweep(lambda s: {"y": s.x}, grid(x=[1, 2]), store=path, progress=False, workers=1)


@pytest.mark.parametrize("writer", [*WRITERS, "case", "table", "drawing"])
def test_a_file_stays_as_it_was_when_the_disk_is_full(tmp_path: Path, writer: str) -> None:
    path = tmp_path / ("file.svg" if writer == "drawing" else "file")
    path.write_text("what an earlier command wrote")
    write: Callable[[Path], object] = {
        **WRITERS,
        "case": lambda path: command._write(path, _CASE.dumps()),
        "table": lambda path: command._write(path, "coverage", is_private=False),
        "drawing": _drawing,
    }[writer]
    with files_no_longer_than(1), pytest.raises((LeydenError, OSError)):
        write(path)
    assert path.read_text() == "what an earlier command wrote"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_the_rows_of_a_sweep_stay_when_the_disk_is_full(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    _sweep(path)
    before = path.read_bytes()
    with files_no_longer_than(len(before) + 5), pytest.raises(LeydenError, match=r"runs\.jsonl cannot be written"):
        sweep(lambda s: {"y": s.x}, grid(x=[1, 2, 3]), store=path, progress=False, workers=1)
    assert path.read_bytes() == before


def test_a_new_file_is_not_left_in_part(tmp_path: Path) -> None:
    with files_no_longer_than(5), pytest.raises(OSError, match="File too large"):
        write_private(tmp_path / "file", "a text of many characters")
    assert [*tmp_path.iterdir()] == []


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    file, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(file)
    write_private(link, "the-key")
    assert link.is_symlink()
    assert (file.read_text(), _mode(file)) == ("the-key", 0o600)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_private(pipe, "the-key")
    assert os.read(reader, 100) == b"the-key"
    os.close(reader)


def test_a_file_in_a_directory_that_takes_no_other_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root no directory refuses a file, so the refusal is that of the call."""
    path, opened = tmp_path / "file", os.open
    path.write_text("a longer text of an earlier file")

    def refused(name: Any, flags: int, *more: Any) -> int:
        if flags & os.O_EXCL:
            raise PermissionError(13, "Permission denied")
        return opened(name, flags, *more)

    monkeypatch.setattr(os, "open", refused)
    write_private(path, "the-key")
    assert (path.read_text(), _mode(path)) == ("the-key", 0o600)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("kept")
    path.chmod(0o400)
    with pytest.raises(PermissionError):
        write_private(path, "the-key")
    assert path.read_text() == "kept"
