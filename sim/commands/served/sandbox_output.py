"""Shared parts of the commands for sandboxes: the choice of a sandbox, the options of a new one, and its output."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from typing import Any

import orjson

from leyden.commands.environment import API_KEY, URL
from leyden.commands.served.connection.client import segment
from leyden.commands.served.fields import span_s
from leyden.commands.served.output import msat, print_fields, print_raw, rate, seconds, utc
from leyden.files.standard_streams import OutputError, ending_with_reader
from leyden.server.printable import printable

OWN_PATH = "/sandbox/v1"
PATH = f"{OWN_PATH}/sandboxes"
LISTING = "leyden sandbox list"


def add_id(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a sandbox."""
    parser.add_argument("id", nargs="?", metavar="ID", help="the id of a sandbox (default: that of the API key)")


def add_new(parser: argparse.ArgumentParser) -> None:
    """The options of the commands that make a sandbox."""
    parser.add_argument("--name", metavar="TEXT", help="a name for lists")
    parser.add_argument(
        "--ttl", type=span_s, metavar="SPAN", help="it ends after so long without a request, such as 10m"
    )
    parser.add_argument(
        "--env",
        action="store_true",
        help=f"print the lines with which a shell sets {URL[0]} and {API_KEY[0]}, for eval",
    )


def sandbox_path(options: argparse.Namespace) -> str:
    """The path of the sandbox that the options name; without an id that of the API key."""
    return OWN_PATH if options.id is None else f"{PATH}/{segment(options.id)}"


def sandbox_named(options: argparse.Namespace) -> tuple[str, str] | None:
    """The name of the resource of that path, for an error."""
    return None if options.id is None else (f"sandbox {options.id}", LISTING)


def print_new(options: argparse.Namespace, raw: bytes) -> int:
    """Print a sandbox that was made, with its key. Raises `OutputError`, which names the sandbox, if that cannot be
    written: nothing else has the key."""
    sandbox = orjson.loads(raw)
    try:
        with ending_with_reader():
            if options.env and not options.json:
                print(f"export {URL[0]}={printable(shlex.quote(sandbox['url']))}")
                print(f"export {API_KEY[0]}={printable(shlex.quote(sandbox['apiKey']))}")
            else:
                print_result(options, raw)
            sys.stdout.flush()
    except (OutputError, BrokenPipeError) as error:
        why = str(error).partition(":")[0] if isinstance(error, OutputError) else "the reader of the output has left"
        at = f" --url {printable(shlex.quote(options.url))}" if options.url else ""
        delete = f"leyden sandbox delete {printable(shlex.quote(sandbox['id']))}{at}"
        raise OutputError(f"{why}, so the key of the new sandbox is lost: `{delete}` ends it") from None
    return 0


def print_result(options: argparse.Namespace, raw: bytes) -> int:
    """Print a sandbox."""
    if options.json:
        print_raw(raw)
    else:
        print_sandbox(orjson.loads(raw))
    return 0


def print_sandbox(sandbox: Mapping[str, Any]) -> None:
    counts, network = sandbox.get("charges"), sandbox.get("network")
    print_fields(
        [
            ("id", sandbox.get("id")),
            ("name", sandbox.get("name")),
            ("URL", sandbox.get("url") or sandbox.get("publicUrl")),
            ("API key", sandbox.get("apiKey")),
            ("webhook secret", sandbox.get("webhookSecret")),
            ("time", f"{utc(sandbox['now'])}, {rate(sandbox['rate'])}"),
            ("start", utc(sandbox["start"])),
            ("seed", sandbox["seed"]),
            ("overlays", ", ".join(sandbox["overlays"]) or None),
            ("network", network if isinstance(network, str) else "simulated" if network else None),
            ("ttl", seconds(sandbox.get("ttl"))),
            ("Charges", None if counts is None else ", ".join(f"{n:,} {s}" for s, n in counts.items()) or "none"),
            ("balance", msat(sandbox.get("balance"))),
            ("scheduled", sandbox.get("pending")),
            ("service faults", sandbox.get("serviceFaults") or None),
            ("journal hash", sandbox.get("journalHash")),
            *(("note", note) for note in sandbox.get("notes", ())),
            *(("ignored", text) for text in sandbox.get("ignoredFields", ())),
        ]
    )
