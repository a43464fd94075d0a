"""`leyden sandbox snapshot`, `restore`, `fork`, `diff`, `export` and `import`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

import orjson

from leyden.commands.parser import Command
from leyden.commands.served.connection.client import COPY_TIMEOUT_S, Client, add_connection, segment
from leyden.commands.served.fields import whole, without_none
from leyden.commands.served.lists import add_paging, print_list
from leyden.commands.served.output import Column, Table, print_fields, print_raw, utc
from leyden.commands.served.sandbox_output import (
    OWN_PATH,
    PATH,
    add_id,
    add_new,
    print_new,
    print_result,
    sandbox_named,
    sandbox_path,
)
from leyden.files.json_files import STANDARD_INPUT, InputError, read_bytes, shown
from leyden.files.written_files import check_file, write_private
from leyden.server.printable import printable

_SNAPSHOTS = (
    Column("id", lambda row: row["id"]),
    Column("name", lambda row: row["name"], shrinks=True),
    Column("time", lambda row: utc(row["now"])),
    Column("bytes", lambda row: f"{row['bytes']:,}", right=True, needed=False),
    Column("journal hash", lambda row: row["journalHash"][:16], needed=False),
)
_DIFFERENCES = (
    Column("table", lambda row: row["table"]),
    Column("id", lambda row: row["id"]),
    Column("field", lambda row: row["field"]),
    Column("here", lambda row: row["here"], shrinks=True),
    Column("there", lambda row: row["there"], shrinks=True),
)

_NOT_COMPARED = (
    "the event journal, API keys, the rate of the clock, the posts of inboxes besides their number, what faults and"
    " inboxes delay, returning customers, responses kept for an Idempotency-Key, and the random numbers to come"
)


def _describe_snapshot(parser: argparse.ArgumentParser) -> None:
    add_id(parser)
    parser.add_argument("--name", metavar="TEXT", help="a name for lists")
    parser.add_argument("--list", action="store_true", help="list the snapshots, and take none")
    parser.add_argument("--delete", metavar="SNAPSHOT", help="forget this snapshot, and take none")
    add_paging(parser)
    add_connection(parser, _snapshot, admin=True)


def _describe_restore(parser: argparse.ArgumentParser) -> None:
    add_id(parser)
    parser.add_argument("snapshot", metavar="SNAPSHOT", help="the id of the snapshot")
    add_connection(parser, _restore, admin=True)


def _describe_fork(parser: argparse.ArgumentParser) -> None:
    add_id(parser)
    parser.add_argument("--snapshot", metavar="SNAPSHOT", help="from this snapshot (default: from the present state)")
    parser.add_argument("--reseed", type=whole, metavar="N", help="other random numbers from here on")
    add_new(parser)
    _add_egress(parser)
    add_connection(parser, _fork, admin=True)


def _describe_diff(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{parser.description} Not compared are {_NOT_COMPARED}."
    add_id(parser)
    other = parser.add_mutually_exclusive_group(required=True)
    other.add_argument("--snapshot", metavar="SNAPSHOT", help="with this snapshot of it")
    other.add_argument("--sandbox", metavar="ID", help="with another sandbox")
    add_connection(parser, _diff, admin=True)


def _describe_export(parser: argparse.ArgumentParser) -> None:
    add_id(parser)
    parser.add_argument("file", metavar="FILE", help="the file to write; - prints it")
    add_connection(parser, _export, admin=True)


def _describe_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file that export or Sandbox.save wrote; - reads standard input")
    add_new(parser)
    _add_egress(parser)
    add_connection(parser, _import, admin=True)


def _add_egress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--egress",
        choices=("none", "server"),
        help="where its callbacks go besides names below .localhost: nowhere, or as --egress of the server allows"
        " (default: none)",
    )


def _snapshot(options: argparse.Namespace) -> int:
    client, path = Client(options), f"{sandbox_path(options)}/snapshots"
    if options.list:
        return print_list(options, client, path, _SNAPSHOTS, none="no snapshots", what=sandbox_named(options))
    if options.delete is not None:
        what = (f"snapshot {options.delete} of this sandbox", f"{_snapshots_of(options)} --list")
        raw = client("DELETE", f"{path}/{segment(options.delete)}", what=what)
    else:
        raw = client("POST", path, without_none({"name": options.name}), what=sandbox_named(options))
    if options.json:
        print_raw(raw)
        return 0
    snapshot = orjson.loads(raw)
    print_fields(
        [
            ("deleted" if options.delete is not None else "snapshot", snapshot["id"]),
            ("name", snapshot["name"]),
            ("time", utc(snapshot["now"])),
            ("journal hash", snapshot["journalHash"]),
        ]
    )
    return 0


def _snapshots_of(options: argparse.Namespace) -> str:
    return " ".join(["leyden sandbox snapshot", *([] if options.id is None else [options.id])])


def _restore(options: argparse.Namespace) -> int:
    body = {"snapshot": options.snapshot}
    return print_result(
        options, Client(options)("POST", f"{sandbox_path(options)}/restore", body, what=sandbox_named(options))
    )


def _fork(options: argparse.Namespace) -> int:
    body = {
        "snapshot": options.snapshot,
        "reseed": options.reseed,
        "name": options.name,
        "ttl": options.ttl,
        "egress": options.egress,
    }
    return print_new(
        options,
        Client(options)("POST", f"{sandbox_path(options)}/fork", without_none(body), what=sandbox_named(options)),
    )


def _diff(options: argparse.Namespace) -> int:
    body = without_none({"snapshot": options.snapshot, "sandbox": options.sandbox})
    raw = Client(options)("POST", f"{sandbox_path(options)}/diff", body, what=sandbox_named(options))
    if options.json:
        print_raw(raw)
        return 0
    result = orjson.loads(raw)
    count = result["count"]
    if count == 0:
        print(f"no differences; not compared are {_NOT_COMPARED}")
    else:
        print(f"{count:,} field{' differs' if count == 1 else 's differ'}")
        Table(_DIFFERENCES).print(result["differences"])
    return 0


def _export(options: argparse.Namespace) -> int:
    from leyden.world.snapshots.snapshot_schema import SAVED_SANDBOX  # it loads the schemas of all rows

    client = Client(options)
    if options.file != "-":
        with _errors_of(options.file):
            check_file(options.file)
    path, what = f"{sandbox_path(options)}/export", sandbox_named(options)
    raw = client("GET", path, what=what, timeout_s=COPY_TIMEOUT_S, max_bytes=SAVED_SANDBOX.max_bytes)
    if options.file == "-":
        print_raw(raw)
        return 0
    with _errors_of(options.file):
        write_private(options.file, raw.decode() + "\n")  # it has the keys and the secrets of the sandbox
    print(
        f"{shown(options.file)}: {len(raw) + 1:,} bytes, with the API keys and secrets of the sandbox", file=sys.stderr
    )
    return 0


@contextmanager
def _errors_of(file: str) -> Iterator[None]:
    """While a file is written, or may be: an error of the system is an `InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{shown(file)}: {error.strerror}; choose another file") from None


def _import(options: argparse.Namespace) -> int:
    is_file = options.file != "-"
    raw = read_bytes(options.file) if is_file else sys.stdin.buffer.read()
    source = options.file if is_file else STANDARD_INPUT
    query = {
        "name": options.name,
        "ttl": None if options.ttl is None else f"{options.ttl:.3f}s",
        "egress": options.egress,
    }
    imported = Client(options)("POST", f"{PATH}/import", raw, query=query, source=source, timeout_s=COPY_TIMEOUT_S)
    of_copy = copy(options)
    of_copy.url, of_copy.api_key = (orjson.loads(imported)[name] for name in ("url", "apiKey"))
    for note in orjson.loads(Client(of_copy)("GET", OWN_PATH))["notes"]:
        print(f"leyden sandbox import: {printable(str(note))}", file=sys.stderr)
    return print_new(options, imported)


COPIES = (
    Command(
        "snapshot",
        "keep the state of a sandbox in memory, to return to it",
        _describe_snapshot,
        ('leyden sandbox snapshot --name "before the payment"', "leyden sandbox snapshot SANDBOX --list"),
    ),
    Command(
        "restore",
        "return a sandbox to a snapshot",
        _describe_restore,
        ("leyden sandbox restore snapshot-1", "leyden sandbox restore SANDBOX snapshot-1 --json"),
    ),
    Command(
        "fork",
        "create a sandbox in the state of another one, or of one of its snapshots",
        _describe_fork,
        (
            "leyden sandbox fork --name other-course",
            "leyden sandbox fork SANDBOX --snapshot snapshot-1 --reseed 8 --json",
        ),
    ),
    Command(
        "diff",
        "list the fields in which a sandbox differs from a snapshot or from another sandbox",
        _describe_diff,
        ("leyden sandbox diff --snapshot snapshot-1", "leyden sandbox diff SANDBOX --sandbox OTHER_SANDBOX"),
    ),
    Command(
        "export",
        "write the whole state of a sandbox to a file",
        _describe_export,
        ("leyden sandbox export checkout.json", "leyden sandbox export SANDBOX - > checkout.json"),
    ),
    Command(
        "import",
        "create a sandbox in the state of a file that export or Sandbox.save wrote",
        _describe_import,
        (
            "leyden sandbox import checkout.json",
            "leyden sandbox import checkout.json --url http://127.0.0.1:8402 --name again --json",
        ),
    ),
)
