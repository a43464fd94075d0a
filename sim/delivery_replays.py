"""Callbacks that are sent again, now or later: the methods of `Sandbox` and `HttpSandbox`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Protocol
from urllib.parse import quote

from leyden.arguments import FIRST_MS, LAST_MS, checked_list, checked_text, span_from, whole_number
from leyden.errors import ArgumentError
from leyden.server.printable import quoted
from leyden.server.timestamps import parse_iso, to_iso

_PATH = "/sandbox/v1/deliveries"


class _Resource(Protocol):
    """A Charge or a Static Charge."""

    id: str


class DeliveryReplays(ABC):
    """The replays of a sandbox."""

    @abstractmethod
    def ask(self, method: str, target: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request and return the JSON of its response."""

    def replay_delivery(
        self,
        delivery_id: str,
        *,
        at: str | int | datetime | None = None,
        delay: str | float | timedelta | None = None,
    ) -> dict[str, Any]:
        """Send one callback again, under the same id: now, at an instant of the sandbox (`at`), or after a `delay`.
        Returns the delivery as the control plane shows it.

        Raises `ApiError` 404 for an unknown id, 409 while an attempt is in flight and for an instant that has passed.
        """
        path = f"{_PATH}/{quote(checked_text('delivery_id', delivery_id), safe='')}/replay"
        delivery: dict[str, Any] = self.ask("POST", path, _time(at, delay))
        return delivery

    def replay_deliveries(
        self,
        ids: Sequence[str] | None = None,
        *,
        charge: _Resource | str | None = None,
        status: str | None = None,
        event: str | None = None,
        at: str | int | datetime | None = None,
        delay: str | float | timedelta | None = None,
    ) -> dict[str, Any]:
        """Send again the callbacks with these ids (at most 200), all of them or none, or those that match all filters:
        now, at an instant of the sandbox (`at`), or after a `delay`. Returns their number and their ids.

        Raises `ApiError` 409 with the id that is unknown or in flight.
        """
        charge_id = charge if isinstance(charge, str) or charge is None else getattr(charge, "id", None)
        if charge is not None and not isinstance(charge_id, str):
            raise ArgumentError(f"charge={quoted(charge, 60)} is no Charge: give one of this sandbox, or its id")
        given = {
            "ids": None if ids is None else list(checked_list("ids", ids)),
            "chargeId": charge_id,
            "status": status,
            "event": event,
        }
        order = {name: value for name, value in given.items() if value is not None}
        replayed: dict[str, Any] = self.ask("POST", f"{_PATH}/replay", {**order, **_time(at, delay)})
        return replayed


def _time(at: str | int | datetime | None, delay: str | float | timedelta | None) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if at is not None:
        if isinstance(at, int):
            whole_number("at", at, FIRST_MS, LAST_MS)
        body["at"] = at.isoformat() if isinstance(at, datetime) else to_iso(at) if isinstance(at, int) else at
        if isinstance(at, str):
            with suppress(ValueError):  # the response says what is wrong
                body["at"] = to_iso(parse_iso(at))
    if delay is not None:
        body["delay"] = span_from("delay", delay) / 1_000
    return body
