"""`leyden table`, `leyden lab` and `leyden version`: their options, and what is short enough to stand here."""

from __future__ import annotations

import argparse
import sys

from leyden.devserver.argument_types import directory, port, text_or_file
from leyden.devserver.serve_options import OVERLAY
from leyden.files.standard_streams import print_document
from leyden.files.written_files import write_document
from leyden.server.version import VERSION


def describe_table(table: argparse.ArgumentParser) -> None:
    """Add the options of `table`."""
    table.add_argument("--spec", metavar="FILE", help="read this document instead of the packaged one")
    table.add_argument("--overlay", action="append", default=[], type=text_or_file, metavar="NAME", help=OVERLAY)
    table.add_argument("--into", metavar="FILE", help="write the tables between their markers in this Markdown file")
    table.set_defaults(run=_table)


def describe_lab(lab: argparse.ArgumentParser) -> None:
    """Add the options of `lab`."""
    lab.add_argument(
        "folder",
        nargs="?",
        default="leyden-lab",
        type=directory,
        metavar="DIR",
        help="the directory; files that you have changed there are kept (default: %(default)s)",
    )
    lab.add_argument(
        "--no-browser", action="store_true", help="start JupyterLab without a browser and print its address"
    )
    lab.add_argument(
        "--port", type=port, metavar="N", help="the port of JupyterLab (default: 8888, or the next free one)"
    )
    lab.add_argument(
        "--allow-root", action="store_true", help="start JupyterLab as root, as in a container; it refuses otherwise"
    )
    # What stands after `--` is for JupyterLab.
    lab.set_defaults(run=_lab, passed_on=[])


def describe_version(version: argparse.ArgumentParser) -> None:
    """Add the options of `version`."""
    version.add_argument("--json", action="store_true", help="print an object")
    version.set_defaults(run=_version)


def _lab(options: argparse.Namespace) -> int:
    from leyden.lab.lab_command import lab

    return lab(options)


def _table(options: argparse.Namespace) -> int:
    from pathlib import Path

    from leyden.files.json_files import InputError, read_text
    from leyden.server.contract.load import load_contract
    from leyden.server.docs.tables import (
        MarkerError,
        all_tables,
        callbacks_table,
        lifecycle_tables,
        replace_between_markers,
        routes_table,
    )

    contract = load_contract(options.spec, overlays=options.overlay, known_as="charges.openapi.yaml")
    if options.spec is not None or options.overlay:
        from leyden.world.trial.trial_requests import try_contract

        try_contract(contract, options.spec)
    if options.into is None:
        print_document(f"{all_tables([contract])}\n")
        return 0
    file = Path(options.into)
    try:
        text = read_text(file)
        for name, table in (
            ("routes", routes_table(contract)),
            ("lifecycles", lifecycle_tables(contract)),
            ("callbacks", callbacks_table(contract)),
        ):
            text = replace_between_markers(text, name, table)
        write_document(file, text)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}; check the path") from None
    except MarkerError as error:
        raise InputError(f"{file}: {error}") from None
    return 0


def _version(options: argparse.Namespace) -> int:
    import orjson

    from leyden.world.config import packaged_contract

    contract = packaged_contract("charges").version
    python = sys.version.split()[0]
    if options.json:
        print(orjson.dumps({"leyden": VERSION, "contract": contract, "python": python}).decode())
    else:
        print(f"leyden {VERSION} (contract {contract}, Python {python})")
    return 0
