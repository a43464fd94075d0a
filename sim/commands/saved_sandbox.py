"""`leyden replay` of a saved sandbox: open it, in process or on a server, and compare the hash of its journal."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Mapping
from copy import copy
from typing import Any

import orjson

from leyden.commands.environment import ADMIN_TOKEN
from leyden.commands.served.connection.client import COPY_TIMEOUT_S, Client, responses_of
from leyden.commands.served.output import utc
from leyden.commands.served.sandbox_output import OWN_PATH, PATH
from leyden.errors import ForkError
from leyden.files.json_files import InputError, VersionWarning, shown
from leyden.harness.options import DESCRIBE
from leyden.server.errors import LeydenError
from leyden.server.printable import printable

_TTL = "10m"  # of the copy on a server, in case that it cannot be deleted


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    DESCRIBE["replay"](parser)
    parser.add_argument(
        "--admin-token",
        metavar="TOKEN",
        help=f"admin token of the server, for a saved sandbox (default: {ADMIN_TOKEN[0]})",
    )
    run_case = parser.get_default("run")

    def run(options: argparse.Namespace) -> int:
        """The file is read once: it may be a pipe. One that cannot be read is left to the reader of cases, which says
        why."""
        from leyden.world.snapshots.snapshot_schema import SAVED_SANDBOX

        try:
            options.content = SAVED_SANDBOX.content(options.case)
            document = SAVED_SANDBOX.parse(options.content, shown(options.case))
        except LeydenError:
            document = None
        if isinstance(document, dict) and "leydenCase" not in document and "format" in document:
            return _replay_saved(options, document)
        return int(run_case(options))

    parser.set_defaults(run=run)


def _replay_saved(options: argparse.Namespace, document: Mapping[str, Any]) -> int:
    """Returns 0 if every journal has the hash of the file, 1 otherwise. Raises `InputError` for a file that cannot be
    opened."""
    from leyden.sandbox import Sandbox

    if options.export or options.spec or options.adapter:
        raise InputError(f"{printable(options.case)} is a saved sandbox: --export, --spec and --adapter are for cases")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", VersionWarning)
        try:
            sandbox = Sandbox._restored(document, None, shown(options.case))
        except ForkError as error:
            raise InputError(str(error)) from None
    for warning in caught:
        print(f"leyden replay: {warning.message}", file=sys.stderr)
    with sandbox:
        journal, charges = sandbox.world.journal, sandbox.world.service.charges.charges
        saved, computed = journal.hash, journal.computed_hash()
        counts = ", ".join(f"{count:,} {status}" for (status,), count in sorted(charges.counts("status").items()))
        print(f"saved sandbox {printable(sandbox.world.label)}: {utc(sandbox.now)}, Charges: {counts or 'none'}")
    if computed is None:
        print(f"journal {saved}: only its last entries are in the file, so it was not computed again")
    same = computed in (None, saved)
    if computed is not None:
        print(f"journal {computed}: {'the same' if same else f'differs, the file has {saved}'}")
    if options.target is not None:
        served = _served_hash(options)
        same = same and served == saved
        verdict = "the same" if served == saved else f"differs, the file has {saved}"
        print(f"journal {served} on {options.target}: {verdict}")
    return 0 if same else 1


def _served_hash(options: argparse.Namespace) -> str:
    """The hash of the journal of a copy on a server, which is deleted again."""
    server = Client(_connection(options, options.target, None))
    query, saved = {"name": "leyden replay", "ttl": _TTL}, options.content
    with responses_of(options.target):
        imported = orjson.loads(server("POST", f"{PATH}/import", saved, query=query, timeout_s=COPY_TIMEOUT_S))
        try:
            return printable(
                str(_state(Client(_connection(options, imported["url"], imported["apiKey"])))["journalHash"])
            )
        finally:
            server("DELETE", f"{PATH}/{imported['id']}")


def _state(client: Client) -> Mapping[str, Any]:
    state: Mapping[str, Any] = orjson.loads(client("GET", OWN_PATH))
    return state


def _connection(options: argparse.Namespace, url: str, api_key: str | None) -> argparse.Namespace:
    connection = copy(options)
    connection.url, connection.api_key = url, api_key or options.api_key
    return connection
