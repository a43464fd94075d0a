"""`leyden static-charges`: create, list, show and change the Static Charges of a served sandbox."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import orjson

from leyden.commands.parser import Command, add_commands
from leyden.commands.served.connection.client import Client, add_connection, segment
from leyden.commands.served.fields import add_filters, amount, filters, whole, whole_seconds, without_none
from leyden.commands.served.lists import add_paging, print_list
from leyden.commands.served.output import Column, msat, print_fields, print_raw, utc
from leyden.devserver.argument_types import header_value

LISTING = "leyden static-charges list"
_PATH = "/v0/static-charges"
_INSPECTED = "/sandbox/v1/static-charges"  # its reads are no events of the journal, unlike those of the service
_COLUMNS = (
    Column("id", lambda row: row["id"]),
    Column("status", lambda row: row["status"]),
    Column("least (msat)", lambda row: f"{int(row['minAmount']):,}", right=True, needed=False),
    Column("most (msat)", lambda row: f"{int(row['maxAmount']):,}", right=True, needed=False),
    Column("slots", lambda row: _slots(row), right=True),
    Column("description", lambda row: row["description"], shrinks=True),
)


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the commands."""
    add_commands(parser, COMMANDS)


def _slots(row: Mapping[str, Any]) -> str:
    return str(row["slots"]) if row["allowedSlots"] is None else f"{row['slots']}/{row['allowedSlots']}"


def _add_fields(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--min-amount", type=amount, required=required, metavar="MSAT", help="least amount of a payment"
    )
    parser.add_argument(
        "--max-amount", type=amount, required=required, metavar="MSAT", help="greatest amount of a payment"
    )
    parser.add_argument(
        "--description", required=required, metavar="TEXT", help="the text that the wallet shows before"
    )
    parser.add_argument("--success-message", metavar="TEXT", help="the text that the wallet shows after the payment")
    parser.add_argument(
        "--allowed-slots", type=whole, metavar="N", help="how many payments are accepted; 0 is any number"
    )
    parser.add_argument("--internal-id", metavar="TEXT", help="your own reference")
    parser.add_argument("--callback-url", metavar="URL", help="where updates are sent")


def _fields(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "minAmount": options.min_amount,
        "maxAmount": options.max_amount,
        "description": options.description,
        "successMessage": options.success_message,
        "allowedSlots": options.allowed_slots,
        "internalId": options.internal_id,
        "callbackUrl": options.callback_url,
    }


def _describe_create(parser: argparse.ArgumentParser) -> None:
    _add_fields(parser, required=True)
    parser.add_argument("--identifier", metavar="NAME@HOST", help="a Lightning address")
    parser.add_argument(
        "--expires-in",
        type=whole_seconds,
        metavar="SPAN",
        help="how long it can be paid, such as 10m, or seconds (default: for ever)",
    )
    parser.add_argument("--idempotency-key", type=header_value, metavar="KEY", help="create it once only for this key")
    add_connection(parser, _create)


def _describe_list(parser: argparse.ArgumentParser) -> None:
    add_filters(parser, "active", "disabled", "expired")
    parser.add_argument("--text", metavar="TEXT", help="only those with this text in an id, a text or the address")
    add_paging(parser)
    add_connection(parser, _list)


def _describe_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the id of the Static Charge")
    add_connection(parser, _show)


def _describe_update(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the id of the Static Charge")
    _add_fields(parser, required=False)
    add_connection(parser, _update)


def _create(options: argparse.Namespace) -> int:
    body = {**_fields(options), "identifier": options.identifier, "expiresIn": options.expires_in}
    headers = {} if options.idempotency_key is None else {"idempotency-key": options.idempotency_key}
    return _print(options, Client(options)("POST", _PATH, without_none(body), headers=headers))


def _list(options: argparse.Namespace) -> int:
    none = "no Static Charges: leyden static-charges create makes one"
    query = {**filters(options), "text": options.text}
    return print_list(options, Client(options), _INSPECTED, _COLUMNS, query=query, none=none)


def _show(options: argparse.Namespace) -> int:
    raw = Client(options)("GET", f"{_INSPECTED}/{segment(options.id)}", what=_what(options))
    if options.json:
        print_raw(raw)
    else:
        shown = orjson.loads(raw)
        _print_static_charge(shown["staticCharge"], shown["payUrl"])
    return 0


def _update(options: argparse.Namespace) -> int:
    changes = without_none(_fields(options))
    if not changes:
        options.parser.error("nothing to change: give an option such as --max-amount")
    return _print(options, Client(options)("PATCH", f"{_PATH}/{segment(options.id)}", changes, what=_what(options)))


def _what(options: argparse.Namespace) -> tuple[str, str]:
    return f"Static Charge {options.id}", LISTING


def _print(options: argparse.Namespace, raw: bytes) -> int:
    if options.json:
        print_raw(raw)
    else:
        _print_static_charge(orjson.loads(raw)["data"])
    return 0


def _print_static_charge(link: Mapping[str, Any], pay_url: str | None = None) -> None:
    print_fields(
        [
            ("id", link["id"]),
            ("status", link["status"]),
            ("least amount", msat(link["minAmount"])),
            ("most amount", msat(link["maxAmount"])),
            ("slots", _slots(link)),
            ("description", link["description"]),
            ("message", link["successMessage"]),
            ("address", link["identifier"]),
            ("internal id", link["internalId"]),
            ("callback URL", link["callbackUrl"]),
            ("created", utc(link["createdAt"])),
            ("expires", utc(link["expiresAt"])),
            ("LNURL", link["invoice"]["request"]),
            ("stands for", pay_url),
        ]
    )


COMMANDS = (
    Command(
        "create",
        "create a Static Charge",
        _describe_create,
        (
            "leyden static-charges create --min-amount 1000 --max-amount 50000 --description Tips",
            "leyden static-charges create --min-amount 5000 --max-amount 5000 --description Ticket --allowed-slots 2",
        ),
    ),
    Command(
        "list",
        "list Static Charges, newest first",
        _describe_list,
        ("leyden static-charges list", "leyden static-charges list --limit 10 --json"),
    ),
    Command(
        "show",
        "show a Static Charge",
        _describe_show,
        ("leyden static-charges show STATIC_CHARGE", "leyden static-charges show STATIC_CHARGE --json"),
    ),
    Command(
        "update",
        "change fields of a Static Charge",
        _describe_update,
        (
            "leyden static-charges update STATIC_CHARGE --max-amount 100000",
            "leyden static-charges update STATIC_CHARGE --allowed-slots 0",
        ),
    ),
)
