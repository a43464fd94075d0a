"""The command line: `leyden serve`, `leyden table`, `leyden version`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from server.errors import LeydenError
from server.moments import parse_iso
from server.version import VERSION


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 it could not be done, 2 it was asked for wrongly."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 2
    try:
        return int(options.run(options))
    except LeydenError as error:
        print(f"leyden {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        # Whoever read our output has had enough (`leyden table | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="leyden", description="A laboratory for Lightning charges.")
    commands = parser.add_subparsers(dest="command", metavar="command")

    serve = commands.add_parser(
        "serve",
        help="answer HTTP: the charge service, its Lightning node and its control plane",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on")
    serve.add_argument("--port", default=8402, type=_port, help="port to listen on; 0 picks a free one")
    serve.add_argument("--data", default=":memory:", metavar="DIR", help="directory to keep the charges in")
    serve.add_argument(
        "--durability",
        choices=("os", "interval", "always"),
        default="os",
        help="what an answer waits for, with --data: os, the system has it (it outlives this process, not a power cut);"
        " interval, the same, and the disk has it within about a second; always, the disk has it",
    )
    serve.add_argument("--api-key", action="append", metavar="KEY", help="a project's key; repeat for more projects")
    serve.add_argument(
        "--start", type=_start, metavar="TIME", help="the clock's first instant (default: the real time)"
    )
    serve.add_argument("--rate", type=_rate, help="sandbox seconds per second; 0 freezes the clock (default: 1)")
    serve.add_argument("--seed", type=_seed, help="the seed of all chance (default: one nobody chose)")
    serve.add_argument("--spec", metavar="FILE", help="serve this document instead of the packaged one")
    serve.add_argument(
        "--overlay", action="append", default=[], metavar="NAME", help="a reading of the spec; repeatable"
    )
    serve.add_argument("--public-url", type=_url, metavar="URL", help="base of the addresses given to wallets")
    serve.add_argument("--no-control", action="store_true", help="leave the control plane under /sandbox/v1 out")
    serve.add_argument("--mock-unbound", action="store_true", help="answer operations without code from their examples")
    serve.set_defaults(run=_serve)

    table = commands.add_parser("table", help="print the routes, lifecycles and callbacks of the spec")
    table.add_argument("--spec", metavar="FILE", help="read this document instead of the packaged one")
    table.add_argument(
        "--overlay", action="append", default=[], metavar="NAME", help="a reading of the spec; repeatable"
    )
    table.add_argument("--into", metavar="FILE", help="put the tables between their markers in this Markdown file")
    table.set_defaults(run=_table)

    version = commands.add_parser("version", help="print the versions of Leyden and of its contract")
    version.set_defaults(run=_version)
    return parser


def _serve(options: argparse.Namespace) -> int:
    from sim.desk.serve import serve

    return serve(options)


def _table(options: argparse.Namespace) -> int:
    from pathlib import Path

    from server.contract.load import default_spec, load_contract
    from server.tables import all_tables, callbacks_table, lifecycle_tables, replace_between_markers, routes_table

    spec = default_spec("charges") if options.spec is None else Path(options.spec)
    contract = load_contract(spec, overlays=options.overlay, known_as="charges.openapi.yaml")
    if options.into is None:
        print(all_tables([contract]))
        return 0
    file = Path(options.into)
    try:
        text = file.read_text()
        for name, table in (
            ("routes", routes_table(contract)),
            ("lifecycles", lifecycle_tables(contract)),
            ("callbacks", callbacks_table(contract)),
        ):
            text = replace_between_markers(text, name, table)
        file.write_text(text)
    except OSError as error:
        raise LeydenError(f"{file}: {error.strerror}; check the path") from None
    return 0


def _version(options: argparse.Namespace) -> int:
    from sim.plans import packaged_contract

    contract = packaged_contract("charges")
    print(f"leyden {VERSION} (contract {contract.version}, Python {sys.version.split()[0]})")
    return 0


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65_535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 0 to 65535")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1
    if not 0 <= rate <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate: give 0 (frozen), 1 (real time) or up to 100000")
    return rate


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise argparse.ArgumentTypeError(f"{text!r} is not a seed: give a whole number of at most 18 digits")
    return int(text)


def _start(text: str) -> int:
    try:
        return parse_iso(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")) or len(text) > 1_000:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a base URL: give http://host or https://host")
    return text.rstrip("/")


if __name__ == "__main__":
    sys.exit(main())
