"""Every command of the command line, in the groups of `leyden --help`.

The options of a command are imported when it runs: the start of a server does not wait for those of the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from leyden.commands.parser import Command, CommandParser, RootParser

_Describe = Callable[[argparse.ArgumentParser], None]
_EPILOG = """\
Environment: LEYDEN_URL, LEYDEN_API_KEY and LEYDEN_ADMIN_TOKEN name the served
sandbox where --url, --api-key and --admin-token do not. The defaults are
http://127.0.0.1:8402 and leyden.

Exit status: 0 for success; 1 for a failure, such as a request that the server
refused; 2 for wrong arguments. The checks also have 3, when something could not
be checked or the target could not be tested.

leyden COMMAND --help lists the options of a command.

Examples:
  leyden serve --rate 0
  leyden charges create --amount 250000 --description Coffee
"""


def _serve(parser: argparse.ArgumentParser) -> None:
    from leyden.devserver.serve_options import describe_serve

    describe_serve(parser)


def _receiver_check(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.receivers import describe_check

    describe_check(parser)


def _listen(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.receivers import describe_listen

    describe_listen(parser)


def _sandbox(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.served.sandboxes import describe

    describe(parser)


def _charges(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.served.charges import describe

    describe(parser)


def _static_charges(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.served.static_charges import describe

    describe(parser)


def _pay(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.served.payments import describe_pay

    describe_pay(parser)


def _payments(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.served.payments import describe_payments

    describe_payments(parser)


def _advance(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.served.clock import describe_advance

    describe_advance(parser)


def _clock(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.served.clock import describe_clock

    describe_clock(parser)


def _deliveries(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.served.deliveries import describe

    describe(parser)


def _logs(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.served.logs import describe_logs

    describe_logs(parser)


def _journal(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.served.logs import describe_journal

    describe_journal(parser)


def _api(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.served.api import describe

    describe(parser)


def _client_check(parser: argparse.ArgumentParser) -> None:
    from leyden.devserver.client_check.command import describe

    describe(parser)


def _qa(parser: argparse.ArgumentParser) -> None:
    from leyden.qa.command import describe

    describe(parser)


def _table(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.documents import describe_table

    describe_table(parser)


def _lab(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.documents import describe_lab

    describe_lab(parser)


def _version(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.documents import describe_version

    describe_version(parser)


def _completion(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.completion import describe

    describe(parser, build_parser)


def _replay(parser: argparse.ArgumentParser) -> None:
    from leyden.commands.saved_sandbox import describe

    describe(parser)


def _harness(name: str) -> _Describe:
    def describe(parser: argparse.ArgumentParser) -> None:
        from leyden.harness.options import DESCRIBE

        DESCRIBE[name](parser)

    return describe


GROUPS: Mapping[str, tuple[Command, ...]] = {
    "The server": (
        Command(
            "serve",
            "serve the charge service, its Lightning node and its control plane over HTTP",
            _serve,
            ("leyden serve --rate 0 --seed 7", 'leyden serve --data leyden-data --autopay "after=2s"'),
        ),
        Command(
            "listen",
            "forward what the inboxes of a served sandbox receive to a program on this machine",
            _listen,
            (
                "leyden listen http://localhost:3000/hook",
                "leyden listen http://localhost:3000 --server http://127.0.0.1:8402 --api-key leyden",
            ),
        ),
    ),
    "Requests to a served sandbox": (
        Command(
            "sandbox",
            "create, list, show, reset, delete, copy, export and import sandboxes",
            _sandbox,
            ("leyden sandbox show", "leyden sandbox create --name checkout --rate 0"),
        ),
        Command(
            "charges",
            "create, list, show and fail Charges",
            _charges,
            ("leyden charges create --amount 250000 --description Coffee", "leyden charges list --status pending"),
        ),
        Command(
            "static-charges",
            "create, list, show and change Static Charges",
            _static_charges,
            (
                "leyden static-charges create --min-amount 1000 --max-amount 50000 --description Tips",
                "leyden static-charges list --json",
            ),
        ),
        Command(
            "pay",
            "pay an invoice, an LNURL, a Lightning address, a Charge or a Static Charge as a wallet does",
            _pay,
            ("leyden pay CHARGE", "leyden pay STATIC_CHARGE --amount 5000 --outcome hold --delay 5s"),
        ),
        Command(
            "payments",
            "list and show payments, and settle or cancel held ones",
            _payments,
            ("leyden payments list --charge CHARGE", "leyden payments settle HELD_PAYMENT"),
        ),
        Command(
            "advance",
            "move the time of the sandbox, and wait until what is due has run",
            _advance,
            ("leyden advance 5m", "leyden advance --next-event --json"),
        ),
        Command(
            "clock",
            "show the time of the sandbox, or set the rate of its clock",
            _clock,
            ("leyden clock", "leyden clock --rate 60"),
        ),
        Command(
            "deliveries",
            "list, show and replay callback deliveries",
            _deliveries,
            ("leyden deliveries list --status exhausted", "leyden deliveries replay DELIVERY"),
        ),
        Command(
            "logs",
            "list the requests of clients, newest first, show one of them, or follow them",
            _logs,
            ("leyden logs --status 4xx", "leyden logs --follow --source service"),
        ),
        Command(
            "journal",
            "list or follow the entries of the event journal",
            _journal,
            ("leyden journal --all --json", "leyden journal --follow"),
        ),
        Command(
            "api",
            "send one request, for operations without a command, and print its response",
            _api,
            (
                "leyden api GET /v0/wallet",
                """leyden api POST /sandbox/v1/faults --data '{"kind": "drop"}'""",
            ),
        ),
    ),
    "Checks of your programs": (
        Command(
            "receiver-check",
            "make 47 checks on your endpoint with difficult callbacks and grade its responses",
            _receiver_check,
            (
                "leyden receiver-check http://localhost:3000/hook",
                "leyden receiver-check http://localhost:3000/hook --grade A --json report.json",
            ),
        ),
        Command(
            "client-check",
            "run your client once for each fault of the service and grade it",
            _client_check,
            (
                "leyden client-check -- python my_client.py",
                "leyden client-check --only too-many-requests --json report.json -- python my_client.py",
            ),
        ),
    ),
    "Checks of the service": (
        Command(
            "conformance",
            "run a fixed list of cases that covers every lifecycle row, error, delivery result and bound",
            _harness("conformance"),
            ("leyden conformance --report coverage.html", "leyden conformance http://127.0.0.1:8402 --api-key leyden"),
        ),
        Command(
            "fuzz",
            "run random steps on a service, compare every result with the reference model, and report violations and"
            " coverage",
            _harness("fuzz"),
            (
                "leyden fuzz --seconds 60 --cases findings",
                "leyden fuzz http://127.0.0.1:8402 --engines random-walk --examples 20",
            ),
        ),
        Command(
            "replay",
            "run a case again, or open a saved sandbox, and report whether the result and the journal are the same",
            _replay,
            ("leyden replay findings/CASE.case.json", "leyden replay checkout.json http://127.0.0.1:8402"),
        ),
        Command(
            "adapter",
            "write or check an adapter, by which the harness controls another implementation of the service",
            _harness("adapter"),
            ("leyden adapter --new shop.py", "leyden adapter --check shop.py http://127.0.0.1:9000"),
        ),
        Command(
            "qa",
            "write files that use the checks of Leyden in Schemathesis and pytest",
            _qa,
            ("leyden qa init", "leyden qa init contract-tests"),
        ),
    ),
    "Documents and tools": (
        Command(
            "lab",
            "copy the notebooks into a directory and open them in JupyterLab",
            _lab,
            ("leyden lab my-notebooks", "leyden lab --allow-root --no-browser --port 8890 -- --ip 0.0.0.0"),
        ),
        Command(
            "table",
            "print the routes, lifecycles and callbacks of the spec",
            _table,
            ("leyden table", "leyden table --overlay strict"),
        ),
        Command(
            "completion",
            "print the completion script of a shell: bash, zsh or fish",
            _completion,
            (
                "leyden completion bash > ~/.local/share/bash-completion/completions/leyden",
                "leyden completion fish > ~/.config/fish/completions/leyden.fish",
            ),
        ),
        Command(
            "version",
            "print the versions of Leyden and of the contract",
            _version,
            ("leyden version", "leyden version --json"),
        ),
    ),
}
COMMANDS: Mapping[str, Command] = {command.name: command for group in GROUPS.values() for command in group}


def build_parser(*names: str) -> CommandParser:
    """The parser with the options of these commands; without names with those of all."""
    parser = RootParser(prog="leyden", description="A sandbox for a Lightning charge API.", epilog=_EPILOG)
    parser.groups = GROUPS
    parser.add_argument("--version", action="store_true", help="do what the command version does")
    commands = parser.add_subparsers(dest="command", metavar="command", parser_class=CommandParser)
    for name in names or COMMANDS:
        parser.add_command(commands, COMMANDS[name])
    return parser
