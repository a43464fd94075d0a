"""The command line: `leyden serve`, `listen`, `receiver-check`, `table`, `fuzz`, `lab` and the other commands."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from leyden.devserver.argument_types import (
    amount,
    base_url,
    charge_id,
    endpoint,
    ip_range,
    time_limit_s,
    webhook_secret,
)
from leyden.devserver.client_check.command import describe as describe_client_check
from leyden.devserver.serve_options import OVERLAY, describe_serve
from leyden.errors import MissingExtra
from leyden.harness.options import COMMANDS as HARNESS
from leyden.server.errors import LeydenError
from leyden.server.printable import printable_lines
from leyden.server.version import VERSION

# The default secret of `receiver-check`. It is public, and has no other use.
EXAMPLE_SECRET = "whsec_YSBzZWNyZXQgZm9yIHJlY2VpdmVyLWNoZWNrIG9ubHk="


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 for success, 1 for a failure, 2 for wrong arguments.

    A file that cannot be used is a wrong argument.

    `receiver-check` returns 3 when it could not check everything.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--version"]:
        given = ["version"]
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
        print(f"leyden {options.command}: {printable_lines(str(error))}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        # The reader of our output closed the pipe (`leyden table | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser(chosen: str = "") -> argparse.ArgumentParser:
    """The parser with the options of the command `chosen`; if there is no such command, with all commands."""
    parser = argparse.ArgumentParser(prog="leyden", description="A sandbox for a Lightning charge API.")
    parser.add_argument("--version", action="store_true", help="do what the command version does")
    commands = parser.add_subparsers(dest="command", metavar="command")
    # The start of a server does not wait for the options of the other commands.
    for name in [chosen] if chosen in COMMANDS else COMMANDS:
        summary, describe = COMMANDS[name]
        describe(commands.add_parser(name, help=summary, description=summary[:1].upper() + summary[1:] + "."))
    return parser


def _describe_check(check: argparse.ArgumentParser) -> None:
    check.add_argument("url", type=endpoint, metavar="URL", help="the endpoint to check")
    check.add_argument(
        "--secret",
        type=webhook_secret,
        default=EXAMPLE_SECRET,
        help="the webhook secret of the endpoint (default: %(default)s)",
    )
    check.add_argument(
        "--grade", choices="ABCDF", default="B", help="exit status 1 below this grade (default: %(default)s)"
    )
    check.add_argument(
        "--require-complete",
        action="store_true",
        help="exit status 3 when the grade is good enough and something could not be checked, such as duplicates; a"
        " worse grade is 1 in any case",
    )
    check.add_argument("--internal-id", metavar="TEXT", help="an internalId that the endpoint knows")
    check.add_argument(
        "--amount",
        type=amount,
        default="250000",
        metavar="MSAT",
        help="the amount that the endpoint expects (default: %(default)s)",
    )
    check.add_argument("--charge-id", type=charge_id, metavar="ID", help="the id of a Charge that the endpoint knows")
    check.add_argument("--only", action="append", metavar="NAME", help="run only this check; repeatable")
    check.add_argument(
        "--timeout",
        type=time_limit_s(15),
        default=5.0,
        metavar="SECONDS",
        help="time limit for a response, 1 to 15; the first message may take three times as long, 15 at most"
        " (default: %(default)g)",
    )
    check.add_argument("--html", metavar="FILE", help="write the report as an HTML page; - prints it")
    check.add_argument("--json", metavar="FILE", help="write the report as JSON; - prints it")
    check.add_argument("--overlay", action="append", default=[], metavar="NAME", help=OVERLAY)
    _add_egress(check)
    check.set_defaults(run=_receiver_check)


def _describe_listen(listen: argparse.ArgumentParser) -> None:
    listen.add_argument(
        "url", type=endpoint, metavar="URL", help="the target; if it has no path, the path of each callback is kept"
    )
    listen.add_argument(
        "--server",
        type=base_url,
        default="http://127.0.0.1:8402",
        metavar="URL",
        help="the served sandbox (default: %(default)s)",
    )
    listen.add_argument(
        "--api-key", default="leyden", metavar="KEY", help="the project's API key (default: %(default)s)"
    )
    _add_egress(listen)
    listen.set_defaults(run=_listen)


def _describe_table(table: argparse.ArgumentParser) -> None:
    table.add_argument("--spec", metavar="FILE", help="read this document instead of the packaged one")
    table.add_argument("--overlay", action="append", default=[], metavar="NAME", help=OVERLAY)
    table.add_argument("--into", metavar="FILE", help="write the tables between their markers in this Markdown file")
    table.set_defaults(run=_table)


def _describe_lab(lab: argparse.ArgumentParser) -> None:
    lab.add_argument(
        "folder",
        nargs="?",
        default="leyden-lab",
        metavar="DIR",
        help="the directory; files that you have changed there are kept (default: %(default)s)",
    )
    lab.add_argument(
        "--no-browser", action="store_true", help="start JupyterLab without a browser and print its address"
    )
    lab.set_defaults(run=_lab)


def _describe_version(version: argparse.ArgumentParser) -> None:
    version.set_defaults(run=_version)


def _add_egress(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--egress",
        choices=("loopback", "public"),
        default="loopback",
        help="addresses to which requests are sent: loopback or public addresses (default: %(default)s)",
    )
    command.add_argument(
        "--egress-allow",
        action="append",
        default=[],
        type=ip_range,
        metavar="CIDR",
        help="additional network; repeatable",
    )


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

    from leyden.json_files import InputError, read_text
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
        text = read_text(file)
        for name, table in (
            ("routes", routes_table(contract)),
            ("lifecycles", lifecycle_tables(contract)),
            ("callbacks", callbacks_table(contract)),
        ):
            text = replace_between_markers(text, name, table)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}; check the path") from None
    return 0


def _version(options: argparse.Namespace) -> int:
    from leyden.world.config import packaged_contract

    contract = packaged_contract("charges")
    print(f"leyden {VERSION} (contract {contract.version}, Python {sys.version.split()[0]})")
    return 0


_Describe = Callable[[argparse.ArgumentParser], None]
# Each command: its summary, and the function that adds its options.
COMMANDS: dict[str, tuple[str, _Describe]] = {
    "serve": ("serve the charge service, its Lightning node and its control plane over HTTP", describe_serve),
    "receiver-check": (
        "make 47 checks on your endpoint with difficult callbacks and grade its responses",
        _describe_check,
    ),
    "client-check": ("run your client once for each fault of the service and grade it", describe_client_check),
    "listen": ("forward what the inboxes of a served sandbox receive to a program on this machine", _describe_listen),
    "table": ("print the routes, lifecycles and callbacks of the spec", _describe_table),
    **HARNESS,
    "lab": ("copy the notebooks into a directory and open them in JupyterLab", _describe_lab),
    "version": ("print the versions of Leyden and of the contract", _describe_version),
}


if __name__ == "__main__":
    sys.exit(main())
