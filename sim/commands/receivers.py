"""The options of `leyden receiver-check` and `leyden listen`."""

from __future__ import annotations

import argparse

from leyden.commands.environment import API_KEY, URL, from_environment
from leyden.devserver.argument_types import (
    amount,
    api_key,
    base_url,
    charge_id,
    endpoint,
    ip_range,
    text_or_file,
    time_limit_s,
    webhook_secret,
)
from leyden.devserver.serve_options import OVERLAY

# The default secret of `receiver-check`. It is public, and has no other use.
EXAMPLE_SECRET = "whsec_YSBzZWNyZXQgZm9yIHJlY2VpdmVyLWNoZWNrIG9ubHk="


def describe_check(check: argparse.ArgumentParser) -> None:
    """Add the options of `receiver-check`."""
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
        help="time limit for a response, 1 to 15 (default: %(default)g). For the first response the command waits three"
        " times as long, 15 at most: it says whether an endpoint answers late or not at all. Late is a failure, too",
    )
    check.add_argument("--html", metavar="FILE", help="write the report as an HTML page; - prints it")
    check.add_argument("--json", metavar="FILE", help="write the report as JSON; - prints it")
    check.add_argument("--overlay", action="append", default=[], type=text_or_file, metavar="NAME", help=OVERLAY)
    _add_egress(check)
    check.set_defaults(run=_receiver_check)


def describe_listen(listen: argparse.ArgumentParser) -> None:
    """Add the options of `listen`."""
    listen.description = (
        "Forward what the inboxes of a served sandbox receive to a program on this machine. The inbox has answered each"
        " message already: the program's answer is printed, and changes nothing and causes no retry."
    )
    listen.add_argument(
        "url", type=endpoint, metavar="URL", help="the target; if it has no path, the path of each callback is kept"
    )
    listen.add_argument(
        "--server",
        type=base_url,
        default=from_environment(URL),
        metavar="URL",
        help=f"the served sandbox (default: {URL[0]}, or {URL[1]})",
    )
    listen.add_argument(
        "--api-key",
        type=api_key,
        default=from_environment(API_KEY),
        metavar="KEY",
        help=f"the project's API key (default: {API_KEY[0]}, or {API_KEY[1]})",
    )
    _add_egress(listen)
    listen.set_defaults(run=_listen)


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
