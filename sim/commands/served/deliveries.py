"""`leyden deliveries`: list, show and replay the callbacks of a served sandbox."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import orjson

from leyden.commands.parser import Command, add_commands
from leyden.commands.served.connection.client import Client, add_connection, segment
from leyden.commands.served.fields import add_times, span_s, times, without_none
from leyden.commands.served.lists import add_paging, print_list
from leyden.commands.served.output import Column, Table, print_fields, print_raw, print_text, utc

_PATH = "/sandbox/v1/deliveries"
_STATUSES = ("pending", "delivered", "exhausted", "stopped", "blocked")
_COLUMNS = (
    Column("id", lambda row: row["id"]),
    Column("event", lambda row: row["event"]),
    Column("status", lambda row: row["status"]),
    Column("attempts", lambda row: len(row["attempts"]), right=True),
    Column("created", lambda row: utc(row["createdAt"]), needed=False),
    Column("URL", lambda row: row["url"], shrinks=True, needed=False),
)
_ATTEMPTS = (
    Column("attempt", lambda row: row["number"], right=True),
    Column("at", lambda row: utc(row["at"])),
    Column("answer", lambda row: _answer(row)),
    Column("ms", lambda row: row["latencyMs"], right=True),
    Column("fault", lambda row: row["fault"], needed=False),
    Column("note", lambda row: row["note"], shrinks=True, needed=False),
)


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the commands."""
    add_commands(parser, COMMANDS)


def _answer(attempt: Mapping[str, Any]) -> str:
    return str(attempt["status"] or attempt["error"] or "no answer yet")


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--charge", metavar="ID", help="only those about this Charge, or the payments of a Static Charge"
    )
    parser.add_argument("--status", choices=_STATUSES, help="only those in this state")
    parser.add_argument("--event", metavar="NAME", help="only those of this event, such as charge.completed")


def _filters(options: argparse.Namespace) -> dict[str, Any]:
    return without_none({"chargeId": options.charge, "status": options.status, "event": options.event})


def _describe_list(parser: argparse.ArgumentParser) -> None:
    _add_filters(parser)
    add_times(parser)
    parser.add_argument("--bodies", action="store_true", help="with --json: with bodies, headers and answers")
    add_paging(parser)
    add_connection(parser, _list)


def _describe_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the id of the delivery, its webhook-id")
    add_connection(parser, _show)


def _describe_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="the ids of deliveries: all are sent again, or none")
    _add_filters(parser)
    parser.add_argument("--all", action="store_true", help="every delivery")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--at", metavar="TIME", help="when, by the clock of the sandbox: such as 2030-01-01T12:00:00Z")
    when.add_argument("--delay", type=span_s, metavar="SPAN", help="how long after now, such as 90s, 5m or 1h30m")
    add_connection(parser, _replay)


def _list(options: argparse.Namespace) -> int:
    query = {**_filters(options), **times(options), **({"bodies": "true"} if options.bodies else {})}
    none = "no deliveries: a Charge with a --callback-url that is paid or expires makes one"
    return print_list(options, Client(options), _PATH, _COLUMNS, query=query, none=none)


def _show(options: argparse.Namespace) -> int:
    raw = Client(options)("GET", f"{_PATH}/{segment(options.id)}", what=_what(options.id))
    if options.json:
        print_raw(raw)
    else:
        _print_delivery(orjson.loads(raw))
    return 0


def _replay(options: argparse.Namespace) -> int:
    filters, time = _filters(options), without_none({"at": options.at, "delay": options.delay})
    given = (bool(options.ids), bool(filters), options.all)
    if sum(given) != 1:
        ways = ("the ids of deliveries", "a filter such as --status exhausted", "--all")
        both = " and ".join(one for one, is_given in zip(("ids", "a filter", "--all"), given, strict=True) if is_given)
        options.parser.error(f"{f'{both} are given: ' if both else ''}give {', or '.join(ways)}")
    if len(options.ids) == 1:
        [delivery_id] = options.ids
        path = f"{_PATH}/{segment(delivery_id)}/replay"
        raw = Client(options)("POST", path, time, what=_what(delivery_id))
    else:
        chosen = {"ids": options.ids} if options.ids else filters
        raw = Client(options)("POST", f"{_PATH}/replay", {**chosen, **time})
    if options.json:
        print_raw(raw)
    elif len(options.ids) == 1:
        _print_delivery(orjson.loads(raw))
    else:
        result = orjson.loads(raw)
        print(f"replayed: {result['replayed']:,}")
        for delivery_id in result["ids"]:
            print_text(f"  {delivery_id}")
        more = result["replayed"] - len(result["ids"])
        if more:
            print(f"  and {more:,} more")
    return 0


def _what(delivery_id: str) -> tuple[str, str]:
    return f"delivery {delivery_id}", "leyden deliveries list"


def _print_delivery(delivery: Mapping[str, Any]) -> None:
    print_fields(
        [
            ("id", delivery["id"]),
            ("Charge", delivery["chargeId"]),
            ("event", delivery["event"]),
            ("URL", delivery["url"]),
            ("status", delivery["status"]),
            ("note", delivery.get("note") or None),
            ("created", utc(delivery["createdAt"])),
            ("next attempt", utc(delivery["dueAt"])),
            ("body", delivery.get("body")),
        ]
    )
    if delivery["attempts"]:
        print()
        Table(_ATTEMPTS).print(delivery["attempts"])
    for attempt in delivery["attempts"]:
        _print_answer(attempt)


def _print_answer(attempt: Mapping[str, Any]) -> None:
    """The headers and the body of the response to an attempt."""
    headers, left_out = attempt.get("answerHeaders", []), attempt.get("answerHeadersLeftOut", 0)
    if not headers and not left_out and not attempt.get("answer"):
        return
    print(f"\nanswer to attempt {attempt['number']}")
    if left_out:
        headers = [*headers, ["", f"({left_out:,} more headers were not kept)"]]
    pairs: list[tuple[str, object]] = [(f"  {name}", value) for name, value in headers]
    print_fields([*pairs, ("  body:", attempt["answer"])] if attempt["answer"] else pairs)


COMMANDS = (
    Command(
        "list",
        "list callback deliveries, newest first",
        _describe_list,
        ("leyden deliveries list --status exhausted", "leyden deliveries list --charge CHARGE --bodies --json"),
    ),
    Command(
        "show",
        "show a delivery with its attempts",
        _describe_show,
        ("leyden deliveries show DELIVERY", "leyden deliveries show DELIVERY --json"),
    ),
    Command(
        "replay",
        "send deliveries again, now or later: those named, or those that a filter selects",
        _describe_replay,
        ("leyden deliveries replay DELIVERY --delay 1h", "leyden deliveries replay --status exhausted"),
    ),
)
