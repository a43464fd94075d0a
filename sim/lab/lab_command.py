"""`leyden lab`: copies of the notebooks, opened in JupyterLab."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from leyden.errors import LabError
from leyden.extras import require
from leyden.files.json_files import InputError
from leyden.lab.packaged_notebooks import notebook_files
from leyden.server.system.stop_signals import STOP_SIGNALS


def lab(options: argparse.Namespace) -> int:
    """Copy the notebooks, trust them and open JupyterLab; return its exit status. SIGTERM and SIGHUP end it, too.

    Raises `LabError`, and `InputError` for a directory that cannot be used.
    """
    require("leyden lab", "nbformat", "lab")
    folder = Path(options.folder)
    notebooks, changed = copy_notebooks(folder)
    lines = [f"{len(notebooks)} notebooks in {folder}" + (f", and {len(changed)} with your changes" if changed else "")]
    lines += [f"  {path.name} keeps your changes: move it away to get the original again" for path in changed]
    print("\n".join(lines), flush=True)
    trust(notebooks)
    if find_spec("jupyterlab") is None:
        raise LabError(
            'JupyterLab is missing: pip install "leyden[lab]", or in a checkout pip install ".[lab]". Any other editor '
            f"of notebooks can open {folder} too"
        )
    first = min(path.name for path in [*notebooks, *changed])
    # With this Python, so that its kernel finds this installation of Leyden.
    command = [sys.executable, "-m", "jupyterlab", first]
    with subprocess.Popen([*command, *_jupyter_options(options)], cwd=folder) as jupyterlab:
        # One who stops this process has no other name for JupyterLab.
        for number in STOP_SIGNALS:
            if number != signal.SIGINT:
                signal.signal(number, lambda number, frame: jupyterlab.terminate())
        while True:
            try:
                status = jupyterlab.wait()
                return status if status >= 0 else 128 - status  # as a shell shows a signal
            except KeyboardInterrupt:
                # JupyterLab gets the signal too, and asks for confirmation.
                continue


def _jupyter_options(options: argparse.Namespace) -> list[str]:
    """The options of JupyterLab: those of the same names, then all that stand after `--`."""
    chosen = ["--no-browser"] if options.no_browser else []
    chosen += ["--allow-root"] if options.allow_root else []
    chosen += [f"--port={options.port}"] if options.port is not None else []
    return [*chosen, *options.passed_on]


def copy_notebooks(folder: Path) -> tuple[list[Path], list[Path]]:
    """Copy the notebooks into a directory. Return the unchanged copies and those with changes, which are kept.

    Raises `InputError` when the directory cannot be written.
    """
    unchanged: list[Path] = []
    changed: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in notebook_files():
            target, text = folder / source.name, source.read_bytes()
            if target.exists() and target.read_bytes() != text:
                changed.append(target)
                continue
            if not target.exists():
                target.write_bytes(text)
            unchanged.append(target)
    except OSError as error:
        raise InputError(f"{error.filename or folder}: {error.strerror}; choose another directory") from None
    if not unchanged and not changed:
        raise LabError("this installation of Leyden has no notebooks: install it again")
    return unchanged, changed


def trust(paths: list[Path]) -> None:
    """Sign notebooks with the user's key: JupyterLab hides drawings in the outputs of untrusted notebooks."""
    from nbformat import read, sign

    opened: Any = read  # these functions have no types
    notary: Any = sign.NotebookNotary()  # type: ignore[no-untyped-call]
    try:
        for path in paths:
            notary.sign(opened(path, as_version=4))
    finally:
        notary.store.close()
