"""`leyden api`: one request to a served sandbox, for the operations that have no command of their own."""

from __future__ import annotations

import argparse
import re
import sys

from leyden.commands.served.connection.client import Client, add_connection
from leyden.commands.served.output import print_raw
from leyden.files.json_files import STANDARD_INPUT, read_bytes

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("method", choices=_METHODS, type=str.upper, metavar="METHOD", help=", ".join(_METHODS))
    parser.add_argument("path", metavar="PATH", help="the path with its query, such as /sandbox/v1/faults")
    parser.add_argument(
        "--data", metavar="JSON", help="the body; @FILE reads it from a file, and - from standard input"
    )
    add_connection(parser, _api)


def _api(options: argparse.Namespace) -> int:
    if not re.fullmatch(r"/[!-~]*", options.path):
        options.parser.error("PATH begins with a slash and has no spaces, such as /sandbox/v1/faults")
    body, source = (None, None) if options.data is None else _body(options.data)
    print_raw(Client(options)(options.method, options.path, body, source=source))
    return 0


def _body(text: str) -> tuple[bytes, str | None]:
    """The body, and the file that has it."""
    if text == "-":
        return sys.stdin.buffer.read(), STANDARD_INPUT
    if not text.startswith("@"):
        return text.encode(), None
    return read_bytes(text[1:]), text[1:]
