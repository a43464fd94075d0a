"""Inboxes: the callbacks that reached the built-in receivers, as rows; the oldest are deleted beyond a limit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

import orjson

from leyden.arguments import whole_number
from leyden.callbacks.callback_rows import PostRow, ReceivedFields
from leyden.errors import ArgumentError, UnknownCallback
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable
from leyden.server.timestamps import to_iso

KEPT_POSTS = 10_000  # of each receiver


@dataclass(frozen=True, slots=True)
class Received:
    """One callback as it reached a receiver at instant `at` (ms), and its response: a status or an error word.

    `repeated` says that the same `webhook-id` was received before; `commits`, that the receiver acted on this callback,
    whatever it answered. `verdict` lists what verification found wrong; it is empty for a correct callback.
    """

    at: int
    url: str
    path: str
    headers: Mapping[str, str]
    body: str
    attempt: int
    answer: int | str
    repeated: bool
    commits: bool
    verdict: Sequence[str]

    @property
    def json(self) -> Any:
        """The body, parsed; None when it is not JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None

    @property
    def webhook_id(self) -> str:
        """The id of the message, the same in all its attempts."""
        return self.headers.get("webhook-id", "")

    @property
    def event(self) -> str:
        """The name of the event, for example `charge.completed`."""
        return self.headers.get("leyden-event", "")


_EMPTY = "no callback yet: the deliveries show what is due, blocked or sent elsewhere"


class Posts:
    """The callbacks to all receivers of a world, by the receiver's name and a number that counts from 1.

    A row has the fields of `Received` and `acknowledged`: whether the sender got a 2xx response.
    """

    def __init__(self, store: Store, kept: int = KEPT_POSTS) -> None:
        self.kept = kept
        self._rows = cast(TypedTable[PostRow], store.table("received", key="id", indexes=("webhook_id",)))
        self._rows.declare_final()

    def add(
        self, name: str, number: int, got: ReceivedFields, *, acknowledged: bool = False, copy: bool = False
    ) -> None:
        """Add a callback, or a `copy` that a fault sent, and delete the oldest one beyond the limit."""
        webhook_id = got["headers"].get("webhook-id", "")
        state = {"webhook_id": webhook_id, "acknowledged": acknowledged, "copy": copy}
        row = {**got, "id": f"{name}#{number}", **state}
        self._rows.put(cast(PostRow, row))
        oldest = number - self.kept
        while self._rows.delete(f"{name}#{oldest}"):  # several, when an earlier start kept more
            oldest -= 1

    def delete_first(self, name: str, total: int, count: int) -> None:
        """Delete the `count` oldest stored callbacks of a receiver that got `total`."""
        first = self.first_number(name, total)
        for number in range(first, min(first + count, total + 1)):
            self._rows.delete(f"{name}#{number}")

    def first_number(self, name: str, total: int) -> int:
        """The number of the oldest stored callback of a receiver that got `total`; `total` + 1 when none is stored.

        An earlier start may have kept fewer than this one.
        """
        numbers = range(max(1, total - self.kept + 1), total + 1)
        return numbers.start + bisect_left(
            numbers, True, key=lambda number: self._rows.row(f"{name}#{number}") is not None
        )

    def first(self, name: str, webhook_id: str) -> PostRow | None:
        """The receiver's oldest stored callback with this `webhook-id`, or None; None also for one without an id, which
        repeats no other."""
        if not webhook_id:
            return None
        prefix = f"{name}#"
        return next((row for row in self._rows.find("webhook_id", webhook_id) if row["id"].startswith(prefix)), None)

    def is_copy(self, name: str, number: int, got: Received) -> bool:
        """Whether a fault sent this callback besides an attempt. A row of an earlier version does not say so: then it
        is one if an earlier stored callback of the receiver has its `webhook-id` and its attempt."""
        prefix = f"{name}#"
        is_copy = self._rows.existing(f"{prefix}{number}").get("copy")
        if is_copy is not None:
            return is_copy
        return got.repeated and any(
            row["attempt"] == got.attempt and row["id"].startswith(prefix) and int(row["id"][len(prefix) :]) < number
            for row in self._rows.find("webhook_id", got.webhook_id)
        )

    def acknowledge(self, name: str, webhook_id: str) -> None:
        """Record that the sender got a 2xx response to the message."""
        first = self.first(name, webhook_id)
        if first is not None and not first["acknowledged"]:
            self._rows.put({**first, "acknowledged": True})

    def received(self, name: str, number: int) -> Received:
        """One callback. Raises `LookupError` when it is not stored."""
        row: Mapping[str, Any] = self._rows.existing(f"{name}#{number}")
        return Received(**{field: row[field] for field in Received.__slots__})


class Inbox(Sequence[Received]):
    """The latest 10,000 callbacks of a receiver, oldest first. `total` counts deleted ones, too."""

    def __init__(self, name: str, posts: Posts, total: int) -> None:
        self._name = name
        self._posts = posts
        self.total = total

    def __len__(self) -> int:
        return self.total + 1 - self._posts.first_number(self._name, self.total)

    @overload
    def __getitem__(self, place: int) -> Received: ...
    @overload
    def __getitem__(self, place: slice) -> list[Received]: ...
    def __getitem__(self, place: int | slice) -> Received | list[Received]:
        deleted = self.total - len(self)
        numbers = range(deleted + 1, self.total + 1)
        if isinstance(place, slice):
            for bound in (place.start, place.stop, place.step):
                if bound is not None:
                    whole_number("a bound of a slice", bound)
            if place.step == 0:
                raise ArgumentError("the step of a slice is 0: give another one")
            return [self._posts.received(self._name, number) for number in numbers[place]]
        place = whole_number("place", place)
        if not -len(self) <= place < len(self):
            stored = f"{len(self)} callbacks" if len(self) else _EMPTY
            raise UnknownCallback(f"there is no callback {place} in the inbox of {self._name!r}, which holds {stored}")
        return self._posts.received(self._name, numbers[place])

    def after(self, number: int, limit: int) -> Iterator[tuple[int, Received]]:
        """At most `limit` posts with a number above `number`, each with its number: the first callback has 1. Raises
        `ArgumentError` for what is not a whole number."""
        number, limit = whole_number("number", number), whole_number("limit", limit)
        first = max(number + 1, self._posts.first_number(self._name, self.total))
        for one in range(first, min(first + limit, self.total + 1)):
            yield one, self._posts.received(self._name, one)

    def is_copy(self, number: int, got: Received) -> bool:
        """Whether the callback with this number is a copy, which a fault sent. Raises `UnknownCallback` for a number
        that is not stored, and `ArgumentError` for what is not a whole number."""
        number = whole_number("number", number)
        first = self._posts.first_number(self._name, self.total)
        if not first <= number <= self.total:
            raise UnknownCallback(
                f"there is no callback with the number {number} in the inbox of {self._name!r}, which holds"
                f" {f'those from {first} to {self.total}' if first <= self.total else _EMPTY}"
            )
        return self._posts.is_copy(self._name, number, got)

    def __repr__(self) -> str:
        lines = [f"{to_iso(got.at)} {got.event} attempt {got.attempt} -> {got.answer}" for got in self[-5:]]
        return f"<Inbox of {len(self)}: {'; '.join(lines) or _EMPTY}>"
