"""Lists of the API: the options for their pages, and pages as tables or as JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from leyden.commands.served.connection.client import LONGEST_PAGE, Client, next_cursor
from leyden.commands.served.output import Column, Table, print_raw
from leyden.files.standard_streams import ending_with_reader
from leyden.server.printable import printable, quoted


def add_paging(command: argparse.ArgumentParser) -> None:
    """Add the options for the pages of a list."""
    command.add_argument("--limit", metavar="N", help="rows of a page, 1 to 1000 (default: 100)")
    command.add_argument("--after", metavar="CURSOR", help="the page after this cursor, the `next` of the page before")
    command.add_argument("--all", action="store_true", help="all pages; with --json one row on each line")


def print_list(
    options: argparse.Namespace,
    client: Client,
    path: str,
    columns: Sequence[Column],
    *,
    query: Mapping[str, object] | None = None,
    none: str,
    what: tuple[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> int:
    """Print the page of a list that the options name, or all pages. `none` is said of an empty list of all rows."""
    given = {**(query or {}), "limit": options.limit, "after": options.after}
    if options.json and not options.all:
        print_raw(client("GET", path, query=given, what=what, headers=headers))
        return 0
    if options.all and options.limit is None:
        given["limit"] = LONGEST_PAGE
    table, found, after = Table(columns), 0, None
    with ending_with_reader():
        for page in _pages(lambda query: client("GET", path, query=query, what=what, headers=headers), given):
            rows, after = page["data"], page["next"]
            found += len(rows)
            if options.json:
                for row in rows:
                    print_raw(orjson.dumps(row))
            elif rows:
                table.print(rows)
            if not options.all:
                break
    if not found and not options.json:
        print(_nothing(none, {**(query or {}), "after": options.after}), file=sys.stderr)
    if after is not None and not options.all:
        print(f"more: --after {printable(str(after))}, or --all", file=sys.stderr)
    return 0


def _nothing(none: str, selection: Mapping[str, object]) -> str:
    """What is said of an empty list: `none`, or that nothing matches the parameters that select rows."""
    given = [
        f"{name}={quoted(str(value), 60)}"
        for name, value in selection.items()
        if value is not None and name != "bodies"  # which selects fields
    ]
    if not given:
        return none
    return f"{none.partition(':')[0]} with {', '.join(given)}: leave out an option that selects to see others"


def _pages(read: Callable[[Mapping[str, object]], bytes], query: Mapping[str, object]) -> Iterator[Any]:
    while True:
        page = orjson.loads(read(query))
        yield page
        after = next_cursor(query.get("after"), page["next"])
        if after is None:
            return
        query = {**query, "after": after}
