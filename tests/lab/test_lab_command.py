"""`leyden lab` copies the notebooks and keeps changed copies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from leyden.__main__ import main
from leyden.lab import lab_command
from leyden.lab.lab_command import copy_notebooks
from leyden.lab.packaged_notebooks import notebook_files
from leyden.server.system.stop_signals import STOP_SIGNALS
from tests.support.deep import deep_except

NAMES = [path.name for path in notebook_files()]


@pytest.fixture(autouse=True)
def _own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))


@pytest.fixture
def _no_jupyterlab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_command, "find_spec", lambda name: None)


@pytest.mark.usefixtures("_no_jupyterlab")
def test_without_jupyterlab_the_notebooks_are_copied_and_the_error_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", str(tmp_path / "copies")]) == 1
    assert sorted(path.name for path in (tmp_path / "copies").iterdir()) == NAMES
    assert 'pip install "leyden[lab]"' in capsys.readouterr().err


@pytest.mark.usefixtures("_no_jupyterlab")
def test_a_changed_copy_is_kept_and_a_deleted_one_is_copied_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_notebooks(tmp_path)
    mine, gone = tmp_path / NAMES[0], tmp_path / NAMES[1]
    mine.write_text("mine")
    gone.unlink()
    assert main(["lab", str(tmp_path)]) == 1
    assert mine.read_text() == "mine"
    assert gone.read_bytes() == notebook_files()[1].read_bytes()
    assert f"{NAMES[0]} keeps your changes" in capsys.readouterr().out


@pytest.mark.usefixtures("_no_jupyterlab")
def test_the_copies_are_trusted_so_that_their_drawings_show(tmp_path: Path) -> None:
    main(["lab", str(tmp_path / "copies")])
    notary: Any = NotebookNotary()
    try:
        for name in NAMES:
            assert notary.check_signature(nbformat.read(tmp_path / "copies" / name, as_version=4))
    finally:
        notary.store.close()


def test_a_path_that_is_not_a_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["lab", str(tmp_path / "file")]) == 2
    assert "choose another directory" in capsys.readouterr().err


def called(folder: Path, main_of_stub: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`leyden lab copies` with a stub of JupyterLab."""
    stub = folder / "packages" / "jupyterlab"
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text("")
    (stub / "__main__.py").write_text(main_of_stub)
    path = os.pathsep.join([str(stub.parent), str(Path(__file__).parents[2]), os.environ["PYTHONPATH"]])
    return subprocess.run(
        [sys.executable, "-m", "leyden.__main__", "lab", "copies", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


OPTIONS: list[tuple[list[str], list[str]]] = [
    ([], []),
    (["--no-browser"], ["--no-browser"]),
    (["--port", "8890", "--allow-root"], ["--allow-root", "--port=8890"]),
    (["--", "--ip", "0.0.0.0", "--", "x"], ["--ip", "0.0.0.0", "--", "x"]),
    (["--no-browser", "--"], ["--no-browser"]),
]


@pytest.mark.parametrize(("options", "expected"), deep_except(OPTIONS, OPTIONS[2]))
def test_jupyterlab_opens_the_first_notebook_in_that_directory_with_these_options(
    tmp_path: Path, options: list[str], expected: list[str]
) -> None:
    says_how = "import json, os, sys\nimport leyden\nprint(json.dumps([sys.argv[1:], os.getcwd()]))\nsys.exit(3)\n"
    done = called(tmp_path, says_how, *options)
    assert done.returncode == 3, done.stderr
    arguments, folder = json.loads(done.stdout.splitlines()[-1])
    assert arguments == [NAMES[0], *expected]
    assert Path(folder) == (tmp_path / "copies").resolve()


@pytest.mark.skipif(sys.platform == "win32", reason="a process interrupts another one only on POSIX")
def test_an_interrupt_is_handled_by_jupyterlab(tmp_path: Path) -> None:
    interrupts = "import os, signal, sys\nos.kill(os.getppid(), signal.SIGINT)\nprint('asks')\nsys.exit(0)\n"
    done = called(tmp_path, interrupts)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "asks"), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="a process ends another one with a signal only on POSIX")
@pytest.mark.parametrize(
    ("on_end", "status"),
    deep_except([("", 143), ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))", 5)], ""),
)
@pytest.mark.parametrize("number", [one for one in STOP_SIGNALS if one != signal.SIGINT])
def test_a_signal_to_end_ends_jupyterlab_too(tmp_path: Path, on_end: str, status: int, number: signal.Signals) -> None:
    ends = f"import os, signal, sys, time\n{on_end}\nprint('runs', flush=True)\nos.kill(os.getppid(), {int(number)})\n"
    done = called(tmp_path, ends + "time.sleep(60)\nprint('continues')\n")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (status, "runs"), done.stderr
