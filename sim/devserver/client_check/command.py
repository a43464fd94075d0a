"""`leyden client-check COMMAND`: its options, and what it does."""

from __future__ import annotations

import argparse
import sys

from leyden.devserver.argument_types import time_limit_s

INCOMPLETE = 3  # the exit status when the command fails without a fault


def describe(check: argparse.ArgumentParser) -> None:
    """Add the options."""
    check.add_argument(
        "command_line",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="a program and its arguments, after --: it creates a Charge at LEYDEN_URL with the key LEYDEN_API_KEY, and"
        " ends with 0 if that succeeded",
    )
    check.add_argument(
        "--grade", choices="ABCDF", default="B", help="exit status 1 below this grade (default: %(default)s)"
    )
    check.add_argument("--only", action="append", metavar="NAME", help="run only this case; repeatable")
    check.add_argument(
        "--limit",
        type=time_limit_s(600),
        default=30.0,
        metavar="SECONDS",
        help="real time for one run, 1 to 600 (default: %(default)g)",
    )
    check.add_argument("--json", metavar="FILE", help="write the report as JSON; - prints it")
    check.set_defaults(run=client_check)


def client_check(options: argparse.Namespace) -> int:
    """Check a client. Returns 0 if it reaches the wanted grade, 1 if not, 3 if it fails without a fault.

    Raises `InputError` for a wrong argument.
    """
    import orjson

    from leyden.devserver.client_check.check import check_client, resource, text
    from leyden.json_files import InputError

    command = options.command_line[1:] if options.command_line[:1] == ["--"] else options.command_line
    if not command:
        raise InputError("there is no command to run: write leyden client-check -- COMMAND")
    report = check_client(command, only=options.only, limit_s=options.limit)
    if options.json != "-":
        print(text(report), end="")
    if options.json is not None:
        document = orjson.dumps(resource(report), option=orjson.OPT_INDENT_2).decode() + "\n"
        if options.json == "-":
            sys.stdout.write(document)
        else:
            try:
                with open(options.json, "w", encoding="utf-8") as file:
                    file.write(document)
            except OSError as error:
                raise InputError(f"{options.json}: {error.strerror}; choose another file for the report") from None
    if report.grade is None:
        return INCOMPLETE
    return 0 if report.reaches(options.grade) else 1
