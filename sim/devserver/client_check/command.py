"""`leyden client-check COMMAND`: its options, and what it does."""

from __future__ import annotations

import argparse

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
    check.add_argument("--html", metavar="FILE", help="write the report as a page; - prints it")
    check.set_defaults(run=client_check)


def client_check(options: argparse.Namespace) -> int:
    """Check a client. Returns 0 if it reaches the wanted grade, 1 if not, 3 if it fails without a fault.

    Raises `InputError` for a wrong argument.
    """
    import orjson

    from leyden.devserver.client_check.check import check_client
    from leyden.devserver.client_check.report import report_resource, report_text
    from leyden.devserver.client_check.report_html import report_html
    from leyden.devserver.report_page import check_report, write_report
    from leyden.files.json_files import InputError

    command = options.command_line[1:] if options.command_line[:1] == ["--"] else options.command_line
    if not command:
        raise InputError("there is no command to run: write leyden client-check -- COMMAND")
    for place in (options.json, options.html):
        check_report(place)
    report = check_client(command, only=options.only, limit_s=options.limit)
    if "-" not in (options.json, options.html):
        print(report_text(report), end="")
    write_report(options.json, orjson.dumps(report_resource(report), option=orjson.OPT_INDENT_2).decode() + "\n")
    write_report(options.html, report_html(report))
    if report.grade is None:
        return INCOMPLETE
    return 0 if report.reaches(options.grade) else 1
