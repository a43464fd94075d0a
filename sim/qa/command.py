"""`leyden qa init`: write the files with which other test tools use the harness."""

from __future__ import annotations

import argparse
from importlib.resources import files
from pathlib import Path

from leyden.commands.parser import Command, add_commands
from leyden.devserver.argument_types import directory
from leyden.files.written_files import write_document
from leyden.server.errors import LeydenError

_EXAMPLES = ("leyden qa init", "leyden qa init contract-tests")
FILES = ("schemathesis.toml", "leyden_hooks.py", "test_leyden_conformance.py")


class QaError(LeydenError):
    """The files cannot be written; the text says what to do."""

    exit_status = 2


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the commands of `qa`."""
    add_commands(
        parser,
        [
            Command(
                "init",
                "write schemathesis.toml, a hooks file and a pytest file into a directory",
                _describe_init,
                _EXAMPLES,
            )
        ],
    )


def _describe_init(init: argparse.ArgumentParser) -> None:
    init.add_argument(
        "folder", nargs="?", default=".", type=directory, metavar="DIR", help="the directory (default: this one)"
    )
    init.set_defaults(run=_init)


def _init(options: argparse.Namespace) -> int:
    folder = Path(options.folder)
    written: list[Path] = []
    try:
        existing = [name for name in FILES if (folder / name).exists()]
        if existing:
            raise QaError(f"{folder / existing[0]} exists: move it away, or choose another directory")
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            write_document(folder / name, files("leyden.qa").joinpath(name).read_text("utf-8"))
            written.append(folder / name)
    except OSError as error:
        for path in written:  # the next attempt would refuse to write over it
            path.unlink(missing_ok=True)
        raise QaError(f"{folder}: {error.strerror}; choose another directory") from None
    for path in written:
        print(path)
    return 0
