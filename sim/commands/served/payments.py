"""`leyden pay` and `leyden payments`: pay as a wallet does, and list, show, settle and cancel payments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Any

import orjson

from leyden.commands.parser import Command, add_commands
from leyden.commands.served.connection.client import Client, RequestFailed, add_connection, segment
from leyden.commands.served.fields import add_times, amount, span_s, times, without_none
from leyden.commands.served.lists import add_paging, print_list
from leyden.commands.served.output import Column, msat, print_fields, print_raw, utc

_PATH = "/sandbox/v1/payments"
_ID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OUTCOMES = ("settle", "hold", "incomplete", "wrong_secret", "underpay", "overpay", "overpay_double", "fail")
_STATUSES = ("in_flight", "held", "succeeded", "failed")
_COLUMNS = (
    Column("id", lambda row: row["id"]),
    Column("status", lambda row: row["status"]),
    Column("amount (msat)", lambda row: "" if row["amount"] is None else f"{int(row['amount']):,}", right=True),
    Column("created", lambda row: utc(row["createdAt"]), needed=False),
    Column("reason", lambda row: row["reason"], shrinks=True, needed=False),
)


def describe_pay(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pay`."""
    parser.add_argument(
        "request",
        metavar="REQUEST",
        help="an invoice, an LNURL or a Lightning address, or the id of a Charge or a Static Charge",
    )
    parser.add_argument(
        "--amount",
        type=amount,
        metavar="MSAT",
        help="the amount (default: that of the invoice and the outcome; of a Static Charge the least)",
    )
    parser.add_argument("--outcome", choices=OUTCOMES, help="how the payment goes (default: settle)")
    parser.add_argument("--delay", type=span_s, metavar="SPAN", help="sandbox time until it arrives, such as 5s")
    parser.add_argument("--late", action="store_true", help="pay an invoice that has expired, which the node refuses")
    parser.add_argument("--wallet", metavar="NAME", help="the name of the payer (default: wallet)")
    parser.add_argument("--comment", metavar="TEXT", help="a comment for the receiver, for a Static Charge")
    add_connection(parser, _pay)


def describe_payments(parser: argparse.ArgumentParser) -> None:
    """Add the commands of `payments`."""
    add_commands(parser, COMMANDS)


def _describe_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--charge", metavar="ID", help="only the payments of the invoice of this Charge")
    parser.add_argument("--status", choices=_STATUSES, help="only those in this state")
    add_times(parser)
    add_paging(parser)
    add_connection(parser, _list)


def _describe_one(parser: argparse.ArgumentParser, method: str, action: str) -> None:
    parser.add_argument("id", metavar="ID", help="the id of the payment")
    add_connection(parser, lambda options: _one(options, method, action))


def _describe_show(parser: argparse.ArgumentParser) -> None:
    _describe_one(parser, "GET", "")


def _describe_settle(parser: argparse.ArgumentParser) -> None:
    _describe_one(parser, "POST", "/settle")


def _describe_cancel(parser: argparse.ArgumentParser) -> None:
    _describe_one(parser, "POST", "/cancel")


def _pay(options: argparse.Namespace) -> int:
    client = Client(options)
    body = {
        "request": _invoice(client, options.request) if _ID.fullmatch(options.request) else options.request,
        "amount": options.amount,
        "outcome": options.outcome,
        "delay": options.delay,
        "late": options.late or None,
        "comment": options.comment,
        "payer": options.wallet,
    }
    raw = client("POST", _PATH, without_none(body))
    _print(options, raw)
    return int(orjson.loads(raw)["status"] == "failed")


def _invoice(client: Client, charge_id: str) -> str:
    """The text that a wallet scans for the Charge or the Static Charge with this id."""
    for kind in ("charges", "static-charges"):
        raw = client.find(f"/v0/{kind}/{charge_id}")
        if raw is not None:
            return str(orjson.loads(raw)["data"]["invoice"]["request"])
    raise RequestFailed(
        f"there is no Charge or Static Charge {charge_id}: `leyden charges list` and `leyden static-charges list` list"
        " those that there are"
    )


def _list(options: argparse.Namespace) -> int:
    query = {"chargeId": options.charge, "status": options.status, **times(options)}
    none = "no payments: leyden pay makes one"
    return print_list(options, Client(options), _PATH, _COLUMNS, query=query, none=none)


def _one(options: argparse.Namespace, method: str, action: str) -> int:
    what = (f"payment {options.id}", "leyden payments list")
    return _print(options, Client(options)(method, f"{_PATH}/{segment(options.id)}{action}", what=what))


def _print(options: argparse.Namespace, raw: bytes) -> int:
    if options.json:
        print_raw(raw)
    else:
        _print_payment(orjson.loads(raw))
    return 0


def _print_payment(payment: Mapping[str, Any]) -> None:
    print_fields(
        [
            ("id", payment["id"]),
            ("status", payment["status"]),
            ("reason", payment["reason"]),
            ("amount", msat(payment["amount"])),
            ("created", utc(payment["createdAt"])),
            ("resolved", utc(payment["resolvedAt"])),
            ("payment hash", payment["paymentHash"]),
            ("preimage", payment["preimage"]),
        ]
    )


COMMANDS = (
    Command(
        "list",
        "list payments, newest first",
        _describe_list,
        ("leyden payments list --status held", "leyden payments list --charge CHARGE --json"),
    ),
    Command(
        "show",
        "show a payment",
        _describe_show,
        ("leyden payments show PAYMENT", "leyden payments show PAYMENT --json"),
    ),
    Command(
        "settle",
        "settle a held payment",
        _describe_settle,
        ("leyden payments settle HELD_PAYMENT", "leyden payments settle HELD_PAYMENT --json"),
    ),
    Command(
        "cancel",
        "cancel a held payment",
        _describe_cancel,
        ("leyden payments cancel HELD_PAYMENT", "leyden payments cancel HELD_PAYMENT --json"),
    ),
)
