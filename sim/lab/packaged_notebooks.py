"""The notebooks: pages that ask one question each, written from plain sources and run by a real kernel.

A source is Python with cell markers, as most editors know them:

# %% [markdown]              the comment lines that follow are the text
# %%                         code
# %% tags=["parameters"]     code with tags

`python -m leyden.lab.packaged_notebooks` says which notebooks are not what their sources make of them; with `--refresh`
they are written anew. Run by a kernel, a source gives the same file to the byte.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path
from typing import Any

import leyden.notebooks
from leyden.errors import NotebookError
from leyden.lab.notebook_writer import CODE, MARKDOWN, Cell, document, dumps

REFRESH = "python -m leyden.lab.packaged_notebooks --refresh"
_MARKER = re.compile(r"# %%(?: \[(markdown)\])?(?: tags=(\[.*\]))?")
_CELL_SECONDS = 120  # a kernel that hangs is given up


def notebooks_folder() -> Path:
    """The directory of the package `leyden.notebooks`: `notebooks/` in a checkout."""
    return Path(leyden.notebooks.__path__[0])


def notebook_files() -> list[Path]:
    """Every notebook, in the order in which they are read."""
    return sorted(notebooks_folder().glob("*.ipynb"))


def source_files() -> list[Path]:
    """Every source, in the same order."""
    return sorted((notebooks_folder() / "sources").glob("*.py"))


def notebook_of(source: Path) -> Path:
    """The notebook that a source makes."""
    return source.parent.parent / f"{source.stem}.ipynb"


def read_source(text: str) -> list[Cell]:
    """The cells of a source. Raises `NotebookError` for a line that stands in none, or a marker that is none."""
    cells: list[Cell] = []
    kind, tags, lines = "", (), []  # type: str, tuple[str, ...], list[str]
    for number, line in enumerate([*text.splitlines(), "# %%"], 1):
        if not line.startswith("# %%"):
            lines.append(line)
            continue
        marker = _MARKER.fullmatch(line)
        if marker is None:
            raise NotebookError(f"line {number}: {line!r} is no marker: write # %%, # %% [markdown] or # %% tags=[...]")
        if kind:
            cells.append(Cell(kind, _source(kind, lines, number), tags))
        elif "".join(lines).strip():
            raise NotebookError(f"line {number}: something stands before the first cell: begin with # %% [markdown]")
        kind, tags, lines = marker[1] or CODE, tuple(json.loads(marker[2] or "[]")), []
    return cells


def _source(kind: str, lines: list[str], number: int) -> str:
    if kind == MARKDOWN:
        loose = [line for line in lines if line.strip() and not line.startswith("#")]
        if loose:
            raise NotebookError(f"before line {number}: {loose[0]!r} in a text: let it begin with #")
        lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
    text = "\n".join(lines).strip("\n")
    if not text:
        raise NotebookError(f"before line {number}: a cell with nothing in it: take it out")
    return text


def execute(node: Any) -> Any:
    """A notebook run from its first cell to its last by a kernel of its own, with outputs that stay the same.

    Nothing is written but what its own code writes, and that into a directory which is gone afterwards. Raises
    `NotebookError` when a cell fails or warns.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    with tempfile.TemporaryDirectory(prefix="leyden-notebook-") as folder:
        client = NotebookClient(
            node,
            timeout=_CELL_SECONDS,
            kernel_name="python3",
            record_timing=False,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": folder}},
        )
        # Whatever this user's IPython does when it starts is no part of the notebook.
        own = {**os.environ, "IPYTHONDIR": str(Path(folder) / ".ipython")}
        try:
            client.execute(env=own)
        except CellExecutionError as error:
            [failed, *_] = [cell["source"] for cell in node["cells"] if _raised(cell)]
            raise NotebookError(f"a cell fails with {error.ename}: {error.evalue}\n\n{failed}") from None
    for cell in node["cells"]:
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                raise NotebookError(f"a cell warns, and nobody should have to read this:\n{output['text']}")
            output.get("metadata", {}).clear()
    node["metadata"]["language_info"] = {"name": "python"}  # the kernel adds the version that it happens to be
    return node


def _raised(cell: Any) -> bool:
    return any(output["output_type"] == "error" for output in cell.get("outputs", ()))


def render(source: Path) -> str:
    """The notebook that a source makes, run. Raises `NotebookError`."""
    try:
        return dumps(execute(document(read_source(source.read_text(encoding="utf-8")))))
    except NotebookError as error:
        raise NotebookError(f"{source.name}: {error}") from None


def differences(source: Path, made: str) -> str:
    """How what was made from a source differs from the notebook that is kept: an empty text, or a diff to read.

    Compared is what can be read: the cells' texts and their outputs as plain text and as pictures. How pandas writes
    its tables in HTML is its own affair, and changes with its versions.
    """
    path = notebook_of(source)
    kept = path.read_text(encoding="utf-8") if path.exists() else '{"cells": []}'
    lines = unified_diff(_readable(kept), _readable(made), f"{path.name}, as it is kept", "as it runs now", lineterm="")
    return "\n".join(lines)


def _readable(text: str) -> list[str]:
    lines: list[str] = []
    for cell in json.loads(text)["cells"]:
        lines += [f"[{cell['cell_type']}] {' '.join(cell['metadata'].get('tags', ()))}", *_lines(cell["source"])]
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            lines += [f"({output['output_type']}) {' '.join(sorted(data))}"]
            lines += _lines(output.get("text", ""))
            lines += _lines(data.get("text/plain", ""))
            if "image/svg+xml" in data:
                drawn = "\n".join(_lines(data["image/svg+xml"])).encode()
                lines.append(f"a picture of {len(drawn)} bytes, {sha256(drawn).hexdigest()[:16]}")
    return lines


def _lines(text: str | list[str]) -> list[str]:
    return (text if isinstance(text, str) else "".join(text)).splitlines()


def _selected_sources(names: Sequence[str]) -> Iterator[Path]:
    sources = source_files()
    if not sources:
        raise NotebookError(f"{notebooks_folder()} has no sources: they are *.py in sources/")
    known = {source.stem: source for source in sources}
    for name in names:
        if Path(name).stem not in known:
            raise NotebookError(f"{name!r} is none of the notebooks {', '.join(known)}")
    return iter([known[Path(name).stem] for name in names] if names else sources)


def main(arguments: Sequence[str] | None = None) -> int:
    """Say which notebooks are not as their sources make them (1), or with `--refresh` write them (0)."""
    parser = argparse.ArgumentParser(prog="python -m leyden.lab.packaged_notebooks", description=main.__doc__)
    parser.add_argument("--refresh", action="store_true", help="run the sources and write the notebooks anew")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    options = parser.parse_args(arguments)
    stale = 0
    try:
        for source in _selected_sources(options.names):
            made = render(source)
            found = differences(source, made)
            if options.refresh:
                notebook_of(source).write_text(made, encoding="utf-8", newline="\n")
            stale += bool(found)
            print(
                f"{notebook_of(source).name}: {'as it was' if not found else 'new' if options.refresh else 'differs'}"
            )
            if found and not options.refresh:
                print(f"{found}\n\nrefresh with: {REFRESH} {source.stem}")
    except NotebookError as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if options.refresh else int(stale > 0)


if __name__ == "__main__":
    sys.exit(main())
