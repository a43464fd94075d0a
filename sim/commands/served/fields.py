"""Values of options as the API takes them, and the filters that several lists have."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from leyden.arguments import option_span_ms


def add_filters(command: argparse.ArgumentParser, *statuses: str) -> None:
    """Add the filters that the lists of Charges and of Static Charges have."""
    command.add_argument("--status", choices=statuses, help="only those in this state")
    command.add_argument("--internal-id", metavar="TEXT", help="only those with this internalId")
    add_times(command)


def add_times(command: argparse.ArgumentParser) -> None:
    """Add the filters for the time of creation."""
    command.add_argument("--created-after", metavar="TIME", help="only those that were created at or after this time")
    command.add_argument("--created-before", metavar="TIME", help="only those that were created before this time")


def filters(options: argparse.Namespace) -> dict[str, object]:
    """The query parameters of the filters."""
    return {
        "status": options.status,
        "internalId": options.internal_id,
        **times(options),
    }


def times(options: argparse.Namespace) -> dict[str, object]:
    """The query parameters for the time of creation."""
    return {"createdAfter": options.created_after, "createdBefore": options.created_before}


def amount(text: str) -> str:
    """An amount in millisatoshis; separators are left out. The service checks it."""
    return text.replace(",", "").replace("_", "")


def without_none(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body without the fields that no option gave."""
    return {name: value for name, value in body.items() if value is not None}


def whole(text: str) -> int | str:
    """A whole number; any other text as it is, so that the service says what belongs there."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else text


def whole_seconds(text: str) -> int | str:
    """A span of whole seconds such as `10m`, or a number of seconds; any other text as it is, as of `whole`."""
    try:
        seconds, rest_ms = divmod(option_span_ms(text), 1_000)
    except ValueError:
        return text
    return text if rest_ms else seconds


def span_s(text: str) -> float:
    """A span of time such as `5s`, or a number of seconds, in seconds."""
    try:
        return option_span_ms(text) / 1_000
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
