"""`leyden charges`: create, list, show and fail the Charges of a served sandbox."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import orjson

from leyden.commands.parser import Command, add_commands
from leyden.commands.served.connection.client import Client, add_connection, segment
from leyden.commands.served.fields import add_filters, amount, filters, whole_seconds, without_none
from leyden.commands.served.lists import add_paging, print_list
from leyden.commands.served.output import Column, Table, msat, print_fields, print_raw, utc
from leyden.devserver.argument_types import header_value

_PATH = "/sandbox/v1/charges"  # its reads are no events of the journal, unlike those of the service
LISTING = "leyden charges list"
COLUMNS = (
    Column("id", lambda row: row["id"]),
    Column("status", lambda row: row["status"]),
    Column("amount (msat)", lambda row: f"{int(row['amount']):,}", right=True),
    Column("created", lambda row: utc(row["createdAt"]), needed=False),
    Column("description", lambda row: row["description"], shrinks=True),
)

_EVENTS = (
    Column("at", lambda row: utc(row["at"])),
    Column("event", lambda row: row["text"]),
    Column("answer", lambda row: row["response"], needed=False),
    Column("detail", lambda row: row["detail"], shrinks=True, needed=False),
)


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the commands."""
    add_commands(parser, COMMANDS)


def _describe_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--amount", type=amount, required=True, metavar="MSAT", help="millisatoshis, such as 250,000")
    parser.add_argument("--description", required=True, metavar="TEXT", help="what the payment is for")
    parser.add_argument("--internal-id", metavar="TEXT", help="your own reference")
    parser.add_argument("--callback-url", metavar="URL", help="where updates are sent")
    parser.add_argument(
        "--expires-in",
        type=whole_seconds,
        metavar="SPAN",
        help="how long it can be paid, such as 10m, or seconds (default: 600)",
    )
    parser.add_argument("--idempotency-key", type=header_value, metavar="KEY", help="create it once only for this key")
    add_connection(parser, _create)


def _describe_list(parser: argparse.ArgumentParser) -> None:
    add_filters(parser, "pending", "completed", "expired", "error")
    parser.add_argument("--static-charge", metavar="ID", help="only the payments of this Static Charge")
    parser.add_argument("--text", metavar="TEXT", help="only those with this text in an id, a text or the invoice")
    add_paging(parser)
    add_connection(parser, _list)


def _describe_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the id of the Charge")
    add_connection(parser, _show)


def _describe_fail(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the id of the Charge")
    parser.add_argument("--reason", metavar="TEXT", help="a reason for the journal")
    add_connection(parser, _fail)


def _create(options: argparse.Namespace) -> int:
    body = {
        "amount": options.amount,
        "description": options.description,
        "internalId": options.internal_id,
        "callbackUrl": options.callback_url,
        "expiresIn": options.expires_in,
    }
    headers = {} if options.idempotency_key is None else {"idempotency-key": options.idempotency_key}
    return _print(options, Client(options)("POST", "/v0/charges", without_none(body), headers=headers))


def _list(options: argparse.Namespace) -> int:
    client, query = Client(options), filters(options)
    if options.static_charge is not None:
        what = (f"Static Charge {options.static_charge}", "leyden static-charges list")
        client("GET", f"/sandbox/v1/static-charges/{segment(options.static_charge)}", what=what)
        query["staticChargeId"] = options.static_charge
    query["text"] = options.text
    none = "no Charges: leyden charges create makes one"
    return print_list(options, client, _PATH, COLUMNS, query=query, none=none)


def _show(options: argparse.Namespace) -> int:
    what = (f"Charge {options.id}", LISTING)
    raw = Client(options)("GET", f"{_PATH}/{segment(options.id)}", what=what)
    if options.json:
        print_raw(raw)
    else:
        _print_inspected(orjson.loads(raw))
    return 0


def _fail(options: argparse.Namespace) -> int:
    path = f"{_PATH}/{segment(options.id)}/fail"
    raw = Client(options)(
        "POST", path, without_none({"reason": options.reason}), what=(f"Charge {options.id}", LISTING)
    )
    if options.json:
        print_raw(raw)
    else:
        _print_charge(orjson.loads(raw))
    return 0


def _print(options: argparse.Namespace, raw: bytes) -> int:
    if options.json:
        print_raw(raw)
    else:
        _print_charge(orjson.loads(raw)["data"])
    return 0


def _print_inspected(found: Mapping[str, Any]) -> None:
    """A Charge, what happened to it, and what is scheduled."""
    _print_charge(found["charge"])
    for title, events in (("events", found["timeline"]), ("scheduled", found["scheduled"])):
        if events:
            print(f"\n{title}")
            Table(_EVENTS).print(events)
    if found["omitted"]:
        print(f"{found['omitted']:,} events in the middle are left out: leyden journal --all has them")
    if found["moreScheduled"]:
        print(f"{found['moreScheduled']:,} later scheduled events are left out")


def _print_charge(charge: Mapping[str, Any]) -> None:
    print_fields(
        [
            ("id", charge["id"]),
            ("status", charge["status"]),
            ("amount", msat(charge["amount"])),
            ("description", charge["description"]),
            ("internal id", charge["internalId"]),
            ("callback URL", charge["callbackUrl"]),
            ("created", utc(charge["createdAt"])),
            ("expires", utc(charge["expiresAt"])),
            ("confirmed", utc(charge["confirmedAt"])),
            ("Static Charge", charge["staticChargeId"]),
            ("invoice", charge["invoice"]["request"]),
        ]
    )


COMMANDS = (
    Command(
        "create",
        "create a Charge",
        _describe_create,
        (
            "leyden charges create --amount 250000 --description Coffee",
            "leyden charges create --amount 250,000 --description Tea --callback-url http://inbox.localhost --json",
        ),
    ),
    Command(
        "list",
        "list Charges, newest first",
        _describe_list,
        ("leyden charges list --status pending", "leyden charges list --all --json"),
    ),
    Command(
        "show",
        "show a Charge",
        _describe_show,
        ("leyden charges show CHARGE", "leyden charges show CHARGE --json"),
    ),
    Command(
        "fail",
        "let the node lose the invoice of a pending Charge, so that the Charge fails",
        _describe_fail,
        ("leyden charges fail CHARGE", 'leyden charges fail CHARGE --reason "the node was restored"'),
    ),
)
