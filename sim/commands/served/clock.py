"""`leyden advance` and `leyden clock`: move the time of a served sandbox, and show or set the rate of its clock."""

from __future__ import annotations

import argparse

import orjson

from leyden.commands.served.connection.client import LONG_TIMEOUT_S, Client, add_connection
from leyden.commands.served.fields import span_s, without_none
from leyden.commands.served.output import Column, Table, print_raw, rate, utc
from leyden.devserver.argument_types import rate as rate_of

_COLUMNS = (
    Column("due", lambda row: utc(row["at"])),
    Column("event", lambda row: row["kind"]),
    Column("id", lambda row: row["id"], shrinks=True),
)


def describe_advance(parser: argparse.ArgumentParser) -> None:
    """Add the options of `advance`."""
    how_far = parser.add_mutually_exclusive_group(required=True)
    how_far.add_argument(
        "by", nargs="?", type=span_s, metavar="SPAN", help="how far, such as 5m, 1.5h or 1h30m, or seconds"
    )
    how_far.add_argument("--by", dest="by_option", type=span_s, metavar="SPAN", help="the same")
    how_far.add_argument("--to", metavar="TIME", help="to this time, such as 2030-01-01T12:00:00Z")
    how_far.add_argument(
        "--next-event",
        dest="until",
        action="store_const",
        const="next_event",
        help="through the next instant at which an event is due: all of its events run",
    )
    how_far.add_argument("--idle", dest="until", action="store_const", const="idle", help="until no event is scheduled")
    add_connection(parser, _advance)


def describe_clock(parser: argparse.ArgumentParser) -> None:
    """Add the options of `clock`."""
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--rate", type=rate_of, metavar="N", help="set the sandbox seconds per real second; 0 pauses")
    change.add_argument("--pause", dest="rate", action="store_const", const=0.0, help="the same as --rate 0")
    add_connection(parser, _clock)


def _advance(options: argparse.Namespace) -> int:
    by = options.by_option if options.by is None else options.by
    body = without_none({"by": by, "to": options.to, "until": options.until})
    raw = Client(options)("POST", "/sandbox/v1/clock/advance", body, timeout_s=LONG_TIMEOUT_S)
    if options.json:
        print_raw(raw)
        return 0
    result = orjson.loads(raw)
    count, fired = result["count"], result["fired"]
    print(f"{utc(result['now'])}, {count:,} event{'' if count == 1 else 's'}")
    if fired:
        Table(_COLUMNS).print(fired)
    if count > len(fired):
        print(f"and {count - len(fired):,} more: leyden journal --all lists what happened")
    return 0


def _clock(options: argparse.Namespace) -> int:
    client, path = Client(options), "/sandbox/v1/clock"
    raw = client("GET", path) if options.rate is None else client("PATCH", path, {"rate": options.rate})
    if options.json:
        print_raw(raw)
    else:
        clock = orjson.loads(raw)
        print(f"{utc(clock['now'])}, {rate(clock['rate'])}")
    return 0
