"""`leyden sandbox`: create, list, show, reset, delete, copy, export and import the sandboxes of a server."""

from __future__ import annotations

import argparse

from leyden.commands.parser import Command, add_commands
from leyden.commands.served.connection.client import Client, add_connection
from leyden.commands.served.fields import whole, without_none
from leyden.commands.served.lists import add_paging, print_list
from leyden.commands.served.output import Column, print_raw, print_text, rate, seconds, utc
from leyden.commands.served.sandbox_copies import COPIES
from leyden.commands.served.sandbox_output import (
    PATH,
    add_id,
    add_new,
    print_new,
    print_result,
    sandbox_named,
    sandbox_path,
)
from leyden.devserver.argument_types import rate as rate_of

_COLUMNS = (
    Column("id", lambda row: row["id"]),
    Column("name", lambda row: row["name"], shrinks=True),
    Column("time", lambda row: utc(row["now"])),
    Column("clock", lambda row: rate(row["rate"]), needed=False),
    Column("seed", lambda row: row["seed"], right=True, needed=False),
    Column("idle", lambda row: seconds(round(row["idle"])), right=True, needed=False),
    Column("ttl", lambda row: seconds(row["ttl"]), right=True, needed=False),
)


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the commands."""
    add_commands(parser, COMMANDS)


def _describe_create(parser: argparse.ArgumentParser) -> None:
    add_new(parser)
    parser.add_argument("--seed", type=whole, metavar="N", help="the seed of all random choices (default: random)")
    parser.add_argument(
        "--start", metavar="TIME", help="the first time of the clock, such as 2030-01-01T09:00:00Z, or now"
    )
    parser.add_argument(
        "--rate", type=rate_of, metavar="N", help="sandbox seconds per real second; 0 is a paused clock"
    )
    parser.add_argument(
        "--overlay", action="append", metavar="NAME", help="a packaged overlay, such as strict; repeatable"
    )
    parser.add_argument("--network", metavar="WHAT", help="direct, or a network such as line:4")
    parser.add_argument("--webhook-secret", metavar="whsec_...", help="the secret that signs callbacks")
    add_connection(parser, _create, admin=True)


def _describe_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", metavar="TEXT", help="only those with this name")
    add_paging(parser)
    add_connection(parser, _list, admin=True)


def _describe_show(parser: argparse.ArgumentParser) -> None:
    add_id(parser)
    add_connection(parser, _show, admin=True)


def _describe_reset(parser: argparse.ArgumentParser) -> None:
    add_id(parser)
    parser.add_argument(
        "--seed", type=whole, metavar="N", help="the seed of the new run; an earlier one repeats its ids"
    )
    parser.add_argument("--start", metavar="TIME", help="the first time of the clock, or now (default: as before)")
    add_connection(parser, _reset, admin=True)


def _describe_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the id of a sandbox")
    add_connection(parser, _delete, admin=True)


def _create(options: argparse.Namespace) -> int:
    body = {
        "name": options.name,
        "seed": options.seed,
        "start": options.start,
        "rate": options.rate,
        "overlays": options.overlay,
        "network": options.network,
        "webhookSecret": options.webhook_secret,
        "ttl": options.ttl,
    }
    return print_new(options, Client(options)("POST", PATH, without_none(body)))


def _list(options: argparse.Namespace) -> int:
    none = "no sandboxes besides those of --api-key: leyden sandbox create makes one"
    return print_list(options, Client(options), PATH, _COLUMNS, query={"name": options.name}, none=none)


def _show(options: argparse.Namespace) -> int:
    return print_result(options, Client(options)("GET", sandbox_path(options), what=sandbox_named(options)))


def _reset(options: argparse.Namespace) -> int:
    body = without_none({"seed": options.seed, "start": options.start})
    path = f"{sandbox_path(options)}/reset"
    return print_result(options, Client(options)("POST", path, body, what=sandbox_named(options)))


def _delete(options: argparse.Namespace) -> int:
    raw = Client(options)("DELETE", sandbox_path(options), what=sandbox_named(options))
    if options.json:
        print_raw(raw)
    else:
        print_text(f"deleted {options.id}")
    return 0


COMMANDS = (
    Command(
        "create",
        "create a sandbox with its own clock, data and API key",
        _describe_create,
        (
            "leyden sandbox create --name checkout --rate 0 --ttl 10m",
            "leyden sandbox create --seed 7 --env",
        ),
    ),
    Command(
        "list",
        "list the sandboxes that were created, newest first",
        _describe_list,
        ("leyden sandbox list", "leyden sandbox list --name checkout --json"),
    ),
    Command(
        "show",
        "show a sandbox, or that of the API key with its journal hash",
        _describe_show,
        ("leyden sandbox show", "leyden sandbox show SANDBOX --json"),
    ),
    Command(
        "reset",
        "discard everything in a sandbox, or in that of the API key, and start it again",
        _describe_reset,
        ("leyden sandbox reset --seed 7", "leyden sandbox reset SANDBOX --start 2030-01-01T09:00:00Z"),
    ),
    Command(
        "delete",
        "end a sandbox and discard everything in it",
        _describe_delete,
        ("leyden sandbox delete OTHER_SANDBOX", "leyden sandbox delete OTHER_SANDBOX --json"),
    ),
    *COPIES,
)
