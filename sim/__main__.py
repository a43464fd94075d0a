"""The command line: `leyden serve`, `leyden fuzz`, `leyden receiver-check`, `leyden listen` and the smaller ones."""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from urllib.parse import urlsplit

from leyden.errors import MissingExtra
from leyden.harness.options import COMMANDS as HARNESS
from leyden.harness.options import seed
from leyden.server.callbacks.egress import MODES
from leyden.server.errors import LeydenError
from leyden.server.timestamps import parse_iso
from leyden.server.version import VERSION

# What `receiver-check` signs with unless it is told: known to everybody, so good for nothing else.
EXAMPLE_SECRET = "whsec_YSBzZWNyZXQgZm9yIHJlY2VpdmVyLWNoZWNrIG9ubHk="

_OVERLAY = "another reading of the spec: strict, lenient, ... (a name that is none lists them), or a file; repeatable"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 it could not be done, 2 it was asked for wrongly."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = _parser(given[0] if given else "")
    options = parser.parse_args(given)
    if options.command is None:
        parser.print_help()
        return 2
    try:
        return int(options.run(options))
    except MissingExtra as error:
        print(error, file=sys.stderr)
        return 1
    except LeydenError as error:
        print(f"leyden {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        # Whoever read our output has had enough (`leyden table | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser(chosen: str = "") -> argparse.ArgumentParser:
    """What `chosen` understands; with no such command, all of them by name."""
    parser = argparse.ArgumentParser(prog="leyden", description="A laboratory for Lightning charges.")
    commands = parser.add_subparsers(dest="command", metavar="command")
    # A server that starts need not know what the other commands understand.
    for name in [chosen] if chosen in COMMANDS else COMMANDS:
        summary, describe = COMMANDS[name]
        describe(commands.add_parser(name, help=summary, description=summary[:1].upper() + summary[1:] + "."))
    return parser


def _describe_serve(serve: argparse.ArgumentParser) -> None:
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument(
        "--port", default=8402, type=_port, help="port to listen on; 0 picks a free one (default: %(default)s)"
    )
    serve.add_argument(
        "--data",
        default=":memory:",
        metavar="DIR",
        help="directory to keep everything in (default: %(default)s, gone when it ends)",
    )
    serve.add_argument(
        "--durability",
        choices=("os", "interval", "always"),
        default="os",
        help="what an answer waits for, with --data: os, the system has it (it outlives this process, not a power cut);"
        " interval, the same, and the disk has it within about a second; always, the disk has it"
        " (default: %(default)s)",
    )
    serve.add_argument(
        "--api-key", action="append", metavar="KEY", help="a project's key; repeat for more projects (default: leyden)"
    )
    serve.add_argument(
        "--start", type=_start, metavar="TIME", help="the clock's first instant (default: the real time)"
    )
    serve.add_argument("--rate", type=_rate, help="sandbox seconds per second; 0 freezes the clock (default: 1)")
    serve.add_argument("--seed", type=seed, help="the seed of all chance (default: one nobody chose)")
    serve.add_argument("--spec", metavar="FILE", help="serve this document instead of the packaged one")
    serve.add_argument("--overlay", action="append", default=[], metavar="NAME", help=_OVERLAY)
    serve.add_argument(
        "--egress",
        choices=MODES,
        help="where callbacks may go: loopback, this machine; public, public addresses; none, nowhere, they are only"
        " recorded (default: loopback when listening on loopback, public otherwise)",
    )
    serve.add_argument(
        "--egress-allow",
        action="append",
        default=[],
        type=_network,
        metavar="CIDR",
        help="a network that callbacks may go to besides; repeatable",
    )
    serve.add_argument("--public-url", type=_url, metavar="URL", help="base of the addresses given to wallets")
    serve.add_argument("--no-control", action="store_true", help="leave the control plane under /sandbox/v1 out")
    serve.add_argument(
        "--network",
        metavar="WHAT",
        help="how payments arrive: direct, or over a simulated network such as scale-free:400, hub:50, line:4 or"
        " star:12 (default: direct, or what --data was begun with)",
    )
    serve.add_argument("--mock-unbound", action="store_true", help="answer operations without code from their examples")
    serve.set_defaults(run=_serve)


def _describe_check(check: argparse.ArgumentParser) -> None:
    check.add_argument("url", type=_endpoint, metavar="URL", help="your endpoint")
    check.add_argument(
        "--secret", type=_secret, default=EXAMPLE_SECRET, help="what your endpoint verifies with (default: %(default)s)"
    )
    check.add_argument(
        "--grade", choices="ABCDF", default="B", help="exit with 1 below this grade (default: %(default)s)"
    )
    check.add_argument("--internal-id", metavar="TEXT", help="an internalId that your endpoint knows")
    check.add_argument(
        "--amount", type=_amount, default="250000", metavar="MSAT", help="the amount it expects (default: %(default)s)"
    )
    check.add_argument("--charge-id", type=_uuid, metavar="ID", help="a Charge that your endpoint knows")
    check.add_argument("--only", action="append", metavar="NAME", help="run this check only; repeatable")
    check.add_argument(
        "--timeout",
        type=_timeout,
        default=5.0,
        metavar="SECONDS",
        help="time for an answer, 1 to 15 (default: %(default)g)",
    )
    check.add_argument("--html", metavar="FILE", help="write the report as a page; - prints it")
    check.add_argument("--json", metavar="FILE", help="write the report as JSON; - prints it")
    check.add_argument("--overlay", action="append", default=[], metavar="NAME", help=_OVERLAY)
    _add_egress(check)
    check.set_defaults(run=_receiver_check)


def _describe_listen(listen: argparse.ArgumentParser) -> None:
    listen.add_argument("url", type=_endpoint, metavar="URL", help="where to; without a path, the path of the callback")
    listen.add_argument(
        "--server", type=_url, default="http://127.0.0.1:8402", metavar="URL", help="the sandbox (default: %(default)s)"
    )
    listen.add_argument("--api-key", default="leyden", metavar="KEY", help="the project's key (default: %(default)s)")
    _add_egress(listen)
    listen.set_defaults(run=_listen)


def _describe_table(table: argparse.ArgumentParser) -> None:
    table.add_argument("--spec", metavar="FILE", help="read this document instead of the packaged one")
    table.add_argument("--overlay", action="append", default=[], metavar="NAME", help=_OVERLAY)
    table.add_argument("--into", metavar="FILE", help="put the tables between their markers in this Markdown file")
    table.set_defaults(run=_table)


def _describe_lab(lab: argparse.ArgumentParser) -> None:
    lab.add_argument(
        "folder",
        nargs="?",
        default="leyden-lab",
        metavar="DIR",
        help="where; what you have changed there stays (default: %(default)s)",
    )
    lab.add_argument("--no-browser", action="store_true", help="start JupyterLab and only print its address")
    lab.set_defaults(run=_lab)


def _describe_version(version: argparse.ArgumentParser) -> None:
    version.set_defaults(run=_version)


def _add_egress(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--egress",
        choices=("loopback", "public"),
        default="loopback",
        help="this machine, or public addresses (default: %(default)s)",
    )
    command.add_argument(
        "--egress-allow", action="append", default=[], type=_network, metavar="CIDR", help="a network besides"
    )


def _serve(options: argparse.Namespace) -> int:
    # Until it listens: there is no garbage among what is read, and looking for it takes a third of the time.
    gc.disable()
    from leyden.devserver.serve import serve

    return serve(options)


def _receiver_check(options: argparse.Namespace) -> int:
    from leyden.devserver.receiver_check.command import receiver_check

    return receiver_check(options)


def _listen(options: argparse.Namespace) -> int:
    from leyden.devserver.listen import listen

    return listen(options)


def _lab(options: argparse.Namespace) -> int:
    from leyden.lab.lab_command import lab

    return lab(options)


def _table(options: argparse.Namespace) -> int:
    from pathlib import Path

    from leyden.server.contract.load import load_contract
    from leyden.server.docs.tables import (
        all_tables,
        callbacks_table,
        lifecycle_tables,
        replace_between_markers,
        routes_table,
    )

    contract = load_contract(options.spec, overlays=options.overlay, known_as="charges.openapi.yaml")
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
    from leyden.world.config import packaged_contract

    contract = packaged_contract("charges")
    print(f"leyden {VERSION} (contract {contract.version}, Python {sys.version.split()[0]})")
    return 0


_Describe = Callable[[argparse.ArgumentParser], None]
# Each command: what it is for, and what it understands.
COMMANDS: dict[str, tuple[str, _Describe]] = {
    "serve": ("answer HTTP: the charge service, its Lightning node and its control plane", _describe_serve),
    "receiver-check": (
        "send some forty difficult callbacks to an endpoint of yours and grade its answers",
        _describe_check,
    ),
    "listen": ("hand on what a served sandbox's inboxes receive to a program on this machine", _describe_listen),
    "table": ("print the routes, lifecycles and callbacks of the spec", _describe_table),
    **HARNESS,
    "lab": ("copy the notebooks into a directory of yours and open them in JupyterLab", _describe_lab),
    "version": ("print the versions of Leyden and of its contract", _describe_version),
}


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


def _start(text: str) -> int:
    try:
        return parse_iso(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}: give a network such as 10.0.0.0/8") from None


def _url(text: str) -> str:
    try:
        host = urlsplit(text).hostname if urlsplit(text).port != 0 else None
    except ValueError:
        host = None
    if host is None or not text.startswith(("http://", "https://")) or len(text) > 1_000:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a base URL: give http://host or https://host")
    return text.rstrip("/")


def _endpoint(text: str) -> str:
    _url(text)
    return text


def _secret(text: str) -> str:
    if not re.fullmatch("whsec_(?:[A-Za-z0-9+/]{4}){8,21}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text):
        raise argparse.ArgumentTypeError("that is not a webhook secret: give whsec_ and 24 to 64 bytes in base64")
    return text


def _amount(text: str) -> str:
    if not (text.isascii() and text.isdigit() and not text.startswith("0") and 1_000 <= int(text) <= 500_000_000):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not an amount: give 1000 to 500000000 millisatoshis")
    return text


def _uuid(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text):
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a Charge's id: give the id that its creation answered")
    return text


def _timeout(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 1 <= seconds <= 15:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a time to wait: give 1 to 15 seconds")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
