"""The notebooks of the package: built from Python sources and executed by a Jupyter kernel.

A source is Python with the usual cell markers:

# %% [markdown]              the following comment lines are the text
# %%                         code
# %% tags=["parameters"]     code with tags

`python -m leyden.lab.packaged_notebooks` lists the notebooks that differ from the result of their source; `--refresh`
writes them again. Equal sources give equal files.
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
from leyden.files.written_files import write_document
from leyden.lab.notebook_writer import CODE, MARKDOWN, Cell, document, dumps
from leyden.server.printable import quoted

REFRESH = "python -m leyden.lab.packaged_notebooks --refresh"
_MARKER = re.compile(r"# %%(?: \[(markdown)\])?(?: tags=(\[.*\]))?")
_CELL_SECONDS = 120  # the timeout of a cell
_WIDGET = "application/vnd.jupyter.widget-view+json"


def notebooks_folder() -> Path:
    """The directory of the package `leyden.notebooks`: `notebooks/` in a checkout."""
    return Path(leyden.notebooks.__path__[0])


def notebook_files() -> list[Path]:
    """All notebooks, in reading order."""
    return sorted(notebooks_folder().glob("*.ipynb"))


def source_files() -> list[Path]:
    """All sources, in the same order."""
    return sorted((notebooks_folder() / "sources").glob("*.py"))


def notebook_of(source: Path) -> Path:
    """The path of the notebook of a source."""
    return source.parent.parent / f"{source.stem}.ipynb"


def read_source(text: str) -> list[Cell]:
    """The cells of a source. Raises `NotebookError` for a line outside a cell and for an invalid marker."""
    cells: list[Cell] = []
    kind, tags, lines = "", (), []  # type: str, tuple[str, ...], list[str]
    for number, line in enumerate([*text.splitlines(), "# %%"], 1):
        if not line.startswith("# %%"):
            lines.append(line)
            continue
        marker = _MARKER.fullmatch(line)
        if marker is None:
            raise NotebookError(
                f"line {number}: {quoted(line)} is not a marker: write # %%, # %% [markdown] or # %% tags=[]"
            )
        if kind:
            cells.append(Cell(kind, _source(kind, lines, number), tags))
        elif "".join(lines).strip():
            raise NotebookError(f"line {number}: there is text before the first cell: start with # %% [markdown]")
        kind, tags, lines = marker[1] or CODE, tuple(json.loads(marker[2] or "[]")), []
    return cells


def _source(kind: str, lines: list[str], number: int) -> str:
    if kind == MARKDOWN:
        loose = [line for line in lines if line.strip() and not line.startswith("#")]
        if loose:
            raise NotebookError(f"before line {number}: {quoted(loose[0])} in a text cell: start the line with #")
        lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
    text = "\n".join(lines).strip("\n")
    if not text:
        raise NotebookError(f"before line {number}: the cell is empty: remove it")
    return text


def execute(node: Any) -> Any:
    """Execute a notebook with a new kernel, and remove what differs between runs from its outputs, and widgets.

    The kernel's working directory is temporary. Raises `NotebookError` when a cell fails or warns.
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
        # The notebook must not depend on this user's IPython configuration, nor on how long a cell takes.
        environment = {**os.environ, "IPYTHONDIR": str(Path(folder) / ".ipython"), "TQDM_DISABLE": "1"}
        try:
            client.execute(env=environment)
        except CellExecutionError as error:
            [failed, *_] = [cell["source"] for cell in node["cells"] if _raised(cell)]
            first = quoted(failed.partition("\n")[0])
            raise NotebookError(f"the cell {first} fails with {error.ename}: {error.evalue}") from None
    for cell in node["cells"]:
        if "outputs" in cell:
            # A widget lives in a kernel, and its view has a random id.
            cell["outputs"] = [output for output in cell["outputs"] if _WIDGET not in output.get("data", {})]
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                raise NotebookError(f"a cell writes to stderr: {output['text']}")
            shown = output.get("metadata", {})
            for name in [name for name in shown if not name.startswith("image/")]:  # the size of an image stays
                del shown[name]
    node["metadata"].pop("widgets", None)
    node["metadata"]["language_info"] = {"name": "python"}  # without the version of the kernel's Python
    return node


def _raised(cell: Any) -> bool:
    return any(output["output_type"] == "error" for output in cell.get("outputs", ()))


def render(source: Path) -> str:
    """The text of the executed notebook of a source. Raises `NotebookError`."""
    try:
        return dumps(execute(document(read_source(source.read_text(encoding="utf-8")))))
    except NotebookError as error:
        raise NotebookError(f"{source.name}: {error}") from None


def differences(source: Path, rendered: str) -> str:
    """The differences between the rendered notebook of a source and the stored one: a diff, or an empty text.

    The cells' texts and their outputs as plain text and SVG are compared. The HTML of tables is not: it changes with
    the version of pandas.
    """
    path = notebook_of(source)
    stored = path.read_text(encoding="utf-8") if path.exists() else '{"cells": []}'
    lines = unified_diff(_readable(stored), _readable(rendered), f"{path.name} as stored", "as rendered", lineterm="")
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
                lines.append(f"an SVG of {len(drawn)} bytes, {sha256(drawn).hexdigest()[:16]}")
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
            raise NotebookError(f"{quoted(name)} is not one of the notebooks {', '.join(known)}")
    return iter([known[Path(name).stem] for name in names] if names else sources)


def main(arguments: Sequence[str] | None = None) -> int:
    """List the notebooks that differ from the result of their source (status 1); `--refresh` writes them."""
    parser = argparse.ArgumentParser(prog="python -m leyden.lab.packaged_notebooks", description=main.__doc__)
    parser.add_argument("--refresh", action="store_true", help="execute the sources and write the notebooks")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    options = parser.parse_args(arguments)
    stale = 0
    try:
        for source in _selected_sources(options.names):
            rendered = render(source)
            found = differences(source, rendered)
            if options.refresh:
                write_document(notebook_of(source), rendered)
            stale += bool(found)
            state = "unchanged" if not found else "written" if options.refresh else "differs"
            print(f"{notebook_of(source).name}: {state}")
            if found and not options.refresh:
                print(f"{found}\n\nrefresh with: {REFRESH} {source.stem}")
    except NotebookError as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if options.refresh else int(stale > 0)


if __name__ == "__main__":
    sys.exit(main())
