"""Follows a served sandbox: prints its requests and the entries of its event journal as they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPException
from typing import Any

import orjson

from leyden.commands.served.connection.client import LONGEST_PAGE, Client, RequestFailed, next_cursor

REQUESTS, JOURNAL, _EVENTS = "/sandbox/v1/requests", "/sandbox/v1/journal", "/sandbox/v1/events"
# The reads of these commands are left out of the log, as those of the console are.
QUIET = {"leyden-client": "console"}
_LATEST = 10  # rows that are printed at first
_MAX_EVENT_BYTES = 16 * 1024 * 1024
_SILENCE_S = 60  # the stream has a comment every 15 seconds

Print = Callable[[Sequence[Mapping[str, Any]]], None]


def follow_requests(client: Client, filters: Mapping[str, Any], show: Print, latest: str | None) -> None:
    """Show the latest requests that match, and then each new one. Ends with `RequestFailed` when the stream ends."""
    query = {**filters, "limit": latest or _LATEST}
    rows = orjson.loads(client("GET", REQUESTS, query=query, headers=QUIET))["data"][::-1]
    show(rows)
    last = rows[-1]["id"] if rows else 0
    for event, row in _events(client, last, filters.get("client")):
        if event != "request" or row["id"] <= last:
            continue
        # The server knows what each filter means: it is asked which of the new rows match.
        new = _newer(client, filters, last) if filters else [row]
        if new:
            show(new)
            last = new[-1]["id"]


def _newer(client: Client, filters: Mapping[str, Any], last: int) -> list[Any]:
    """The requests that match with a number above `last`, oldest first."""
    found: list[Any] = []
    after = None
    while True:
        page = orjson.loads(client("GET", REQUESTS, query={**filters, "after": after}, headers=QUIET))
        found += [row for row in page["data"] if row["id"] > last]
        after = next_cursor(after, page["next"])
        if after is None or page["data"][-1]["id"] <= last:
            return found[::-1]


def follow_journal(client: Client, show: Print, after: str | None) -> None:
    """Show the entries after a number, or the latest ones, and then each new one. Ends as `follow_requests`."""
    known: list[Any] = []  # the last entries that were shown
    last = None if after is None else int(after)
    for event, data in _events(client, None, None):
        if event != "changed":
            continue
        last = max(0, data["journal"] - _LATEST) if last is None else last
        while True:
            # With those that were shown: after a reset, which begins a new journal, they are others.
            entries = _entries(client, last - len(known))
            if entries[: len(known)] != known:
                known, last = [], 0
                continue
            new = entries[len(known) :]
            if not new:
                break
            show(new)
            known, last = [*known, *new][-_LATEST:], new[-1]["sequence"]


def _entries(client: Client, after: int) -> list[Any]:
    query = {"after": after, "limit": LONGEST_PAGE}
    found: list[Any] = orjson.loads(client("GET", JOURNAL, query=query, headers=QUIET))
    return found


def _events(client: Client, last_id: int | None, reader: object) -> Iterator[tuple[str, Any]]:
    """The server-sent events of the sandbox: each its name and its data. Raises `RequestFailed` when they end."""
    headers = QUIET if last_id is None else {**QUIET, "last-event-id": str(last_id)}
    response = client.stream(_EVENTS, query={"client": reader}, headers=headers, timeout_s=_SILENCE_S)
    name, data, size = "", "", 0
    try:
        while line := response.readline(_MAX_EVENT_BYTES):
            size += len(line)
            if size >= _MAX_EVENT_BYTES:
                raise RequestFailed(f"an event of {client.url} has more than {_MAX_EVENT_BYTES} bytes: check the URL")
            field, _, value = line.decode().rstrip("\r\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                data += value
            elif not field:
                if data:
                    yield name, orjson.loads(data)
                name, data, size = "", "", 0
    except (OSError, HTTPException) as error:
        raise RequestFailed(f"the events of {client.url} ended ({error}): follow them again") from None
    raise RequestFailed(
        f"the events of {client.url} ended, because the sandbox or the server did, or an API key was replaced: follow"
        " them again"
    )
