"""`leyden logs` and `leyden journal`: the requests that clients sent, and the event journal of a served sandbox."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from leyden.commands.served.connection.client import LONGEST_PAGE, Client, add_connection, next_cursor, segment
from leyden.commands.served.connection.follow import JOURNAL, QUIET, REQUESTS, Print, follow_journal, follow_requests
from leyden.commands.served.fields import whole, without_none
from leyden.commands.served.lists import add_paging, print_list
from leyden.commands.served.output import Column, Table, print_fields, print_raw, print_text, utc
from leyden.files.standard_streams import ending_with_reader

_SOURCES = ("service", "control", "lnurl")
_COLUMNS = (
    Column("id", lambda row: row["id"], right=True),
    Column("time", lambda row: utc(row["at"]), needed=False),
    Column("method", lambda row: f"{row['method']:<6}"),
    Column("status", lambda row: row["status"] or "none", right=True),
    Column("ms", lambda row: f"{row['durationMicroseconds'] / 1_000:.1f}", right=True),
    Column("path", lambda row: row["path"], shrinks=True),
    Column("operation", lambda row: row["operation"] and f"{row['operation']:<18}", needed=False),
    Column("fault", lambda row: _fault(row), needed=False),
)
_ENTRIES = (
    Column("entry", lambda row: row["sequence"], right=True),
    Column("time", lambda row: utc(row["at"])),
    Column("kind", lambda row: f"{row['kind']:<17}"),
    Column("subject", lambda row: row["subject"], needed=False),
    Column("facts", lambda row: orjson.dumps(row["facts"]).decode(), shrinks=True),
)


def describe_logs(parser: argparse.ArgumentParser) -> None:
    """Add the options of `logs`."""
    parser.add_argument("id", nargs="?", metavar="ID", help="show this request with its headers, body and response")
    parser.add_argument("--operation", metavar="NAME", help="only this operation, such as createCharge")
    parser.add_argument("--method", type=str.upper, metavar="METHOD", help="only this method")
    parser.add_argument("--status", metavar="STATUS", help="only this status, such as 404, 4xx or none")
    parser.add_argument("--text", metavar="TEXT", help="only those that have this text")
    parser.add_argument("--charge", metavar="ID", help="only those about this Charge or Static Charge")
    parser.add_argument("--source", choices=_SOURCES, help="only those to this interface")
    parser.add_argument("--client", metavar="NAME", help="only those with this header Leyden-Client")
    parser.add_argument("--follow", action="store_true", help="print the latest 10 and then each new one, oldest first")
    add_paging(parser)
    add_connection(parser, _logs)


def describe_journal(parser: argparse.ArgumentParser) -> None:
    """Add the options of `journal`."""
    parser.add_argument("--after", metavar="N", help="only entries with a higher number (default: 0)")
    parser.add_argument("--limit", metavar="N", help="entries of a page, 1 to 1000 (default: 100)")
    parser.add_argument("--all", action="store_true", help="all entries; with --json one on each line")
    parser.add_argument(
        "--follow", action="store_true", help="print the latest 10, or those after N, then each new one"
    )
    add_connection(parser, _journal)


def _logs(options: argparse.Namespace) -> int:
    client = Client(options)
    if options.id is not None:
        what = (f"request {options.id} in the log", "leyden logs")
        raw = client("GET", f"{REQUESTS}/{segment(options.id)}", what=what, headers=QUIET)
        if options.json:
            print_raw(raw)
        else:
            _print_exchange(orjson.loads(raw))
        return 0
    if options.follow:
        with ending_with_reader():
            follow_requests(client, _filters(options), _printer(options, _COLUMNS), options.limit)
    return print_list(options, client, REQUESTS, _COLUMNS, query=_filters(options), none="no requests", headers=QUIET)


def _printer(options: argparse.Namespace, columns: Sequence[Column]) -> Print:
    """Prints rows as a table, or with --json one on each line."""
    table = Table(columns)

    def show(rows: Sequence[Mapping[str, Any]]) -> None:
        if not options.json:
            table.print(rows)
        for row in rows if options.json else ():
            print_raw(orjson.dumps(row))
        sys.stdout.flush()

    return show


def _filters(options: argparse.Namespace) -> dict[str, Any]:
    return without_none(
        {
            "operation": options.operation,
            "method": options.method,
            "status": options.status,
            "text": options.text,
            "chargeId": options.charge,
            "source": options.source,
            "client": options.client,
        }
    )


def _print_exchange(row: Mapping[str, Any]) -> None:
    """One request and its response, each with its headers and its body."""
    print_fields(
        [
            ("request", row["id"]),
            ("time", utc(row["at"])),
            ("received", utc(row["receivedAt"])),
            ("operation", row["operation"]),
            ("Charge", row["chargeId"]),
            ("fault", _fault(row)),
            ("duration", f"{row['durationMicroseconds'] / 1_000:.1f} ms"),
        ]
    )
    print()
    _print_message(f"{row['method']} {row['path']}", row["request"])
    if row["response"] is None:
        print("\nno response")
    else:
        print()
        _print_message(str(row["status"]), row["response"])


def _print_message(first: str, message: Mapping[str, Any]) -> None:
    print_text(first)
    for name, value in message["headers"]:
        print_text(f"{name}: {value}")
    if message["body"]:
        print()
        print_text(message["body"])
    if message["truncated"]:
        print(f"... the first 16 KiB of {message['size']:,} bytes")
    if not message.get("complete", True):
        print("... and the connection ended within the body")


def _journal(options: argparse.Namespace) -> int:
    client = Client(options)
    if options.follow:
        if options.after is not None and not isinstance(whole(options.after), int):
            options.parser.error(f"--after: {options.after!r} is not the number of an entry, such as 12")
        with ending_with_reader():
            follow_journal(client, _printer(options, _ENTRIES), options.after)
    if options.json and not options.all:
        print_raw(client("GET", JOURNAL, query={"after": options.after, "limit": options.limit}))
        return 0
    table, after = Table(_ENTRIES), options.after
    limit = options.limit or (LONGEST_PAGE if options.all else None)
    while entries := orjson.loads(client("GET", JOURNAL, query={"after": after, "limit": limit})):
        if options.json:
            for entry in entries:
                print_raw(orjson.dumps(entry))
        else:
            table.print(entries)
        after = next_cursor(after, entries[-1]["sequence"])
        if not options.all:
            if len(entries) == int(limit or 100):
                print(f"more: --after {after}, or --all", file=sys.stderr)
            return 0
    if after == options.after and not options.json:
        print("no entries" if after is None else f"no entries after {after}", file=sys.stderr)
    return 0


def _fault(row: Mapping[str, Any]) -> str | None:
    """The kind of the service fault that was used for a request."""
    fault = row["serviceFault"]
    return None if fault is None else str(fault["kind"]) + ("" if fault["applied"] else ", without effect")
