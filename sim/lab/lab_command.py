"""`leyden lab`: the notebooks on your own desk, opened in JupyterLab."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from leyden.errors import LabError
from leyden.extras import require
from leyden.lab.packaged_notebooks import notebook_files


def lab(options: argparse.Namespace) -> int:
    """Copy, trust, open; the exit status is JupyterLab's. Raises `LabError`."""
    require("leyden lab", "nbformat", "lab")
    folder = Path(options.folder)
    notebooks, kept = copy_notebooks(folder)
    told = [f"{len(notebooks)} notebooks in {folder}" + (f", and {len(kept)} that you have changed" if kept else "")]
    told += [f"  {path.name} stays as you have it: move it away, and the next `leyden lab` brings it" for path in kept]
    print("\n".join(told), flush=True)
    trust(notebooks)
    if find_spec("jupyterlab") is None:
        raise LabError(
            'JupyterLab is missing: pip install "leyden[lab]", or in a checkout pip install ".[lab]". Any other editor '
            f"of notebooks opens {folder} too"
        )
    first = min(path.name for path in [*notebooks, *kept])
    # This very Python, so that the kernel that it starts finds this very Leyden.
    command = [sys.executable, "-m", "jupyterlab", first, *(["--no-browser"] if options.no_browser else [])]
    with subprocess.Popen(command, cwd=folder) as jupyterlab:
        while True:
            try:
                return jupyterlab.wait()
            except KeyboardInterrupt:
                # It heard that too, and asks whether it was meant.
                continue


def copy_notebooks(folder: Path) -> tuple[list[Path], list[Path]]:
    """Bring the notebooks into a directory: those that are there as they were made, and those that its owner has
    changed and that nobody touches. Raises `LabError` when the directory cannot be written."""
    ours: list[Path] = []
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
            ours.append(target)
    except OSError as error:
        raise LabError(f"{error.filename or folder}: {error.strerror}; choose another directory") from None
    if not ours and not changed:
        raise LabError("this Leyden came without its notebooks: install it again")
    return ours, changed


def trust(paths: list[Path]) -> None:
    """Sign notebooks with this user's own key: until then JupyterLab leaves drawings out of outputs that it finds."""
    from nbformat import read, sign

    opened: Any = read  # these functions have no types
    notary: Any = sign.NotebookNotary()  # type: ignore[no-untyped-call]
    try:
        for path in paths:
            notary.sign(opened(path, as_version=4))
    finally:
        notary.store.close()
