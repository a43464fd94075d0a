"""Hands: which messages are being carried at this moment, which wait for a free hand, and where nobody wants more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

Endpoint = tuple[str, str]  # the id of a resource, and the URL that was given for it


class InFlight:
    """What an outbox knows besides its rows. A commit that is refused takes it back, a fork carries it over.

    `due` are the messages that wait for a free hand, in due order. `flying` gives for each message that was handed over
    and not answered the number of its attempt. `closed` are the endpoints that said 410.
    """

    def __init__(self) -> None:
        self.queue: deque[str] = deque()
        self.attempts: dict[str, int] = {}
        self.disabled: set[Endpoint] = set()
        self._open = False
        self._taken: list[str] = []
        self._landed: dict[str, int] = {}
        self._shut: list[Endpoint] = []

    def acquire(self) -> None:
        """Take the first that is due in hand: it waits no longer."""
        taken = self.queue.popleft()
        if self._open:
            self._taken.append(taken)

    def complete(self, delivery_id: str) -> None:
        """The message was answered: its hand is free."""
        number = self.attempts.pop(delivery_id, None)
        if self._open and number is not None:
            self._landed.setdefault(delivery_id, number)

    def discard(self, delivery_id: str, number: int) -> None:
        """An attempt that no row knows of was answered: its hand is free, if it still holds that one."""
        if self.attempts.get(delivery_id) == number:
            del self.attempts[delivery_id]

    def disable(self, endpoint: Endpoint) -> None:
        """The endpoint wants to hear no more."""
        if endpoint not in self.disabled:
            self.disabled.add(endpoint)
            self._shut.append(endpoint)

    # What a commit taken back takes back

    def begin(self) -> None:
        """A commit begins: from here on, note what `rollback` would have to undo."""
        self._open = True
        if self._taken or self._landed or self._shut:
            self._taken, self._landed, self._shut = [], {}, []

    def rollback(self, under_way: Callable[[str], int | None]) -> list[str]:
        """The commit was refused; the messages that were taken in hand in it, and are due again.

        `under_way` tells from the rows, which are as they were, the number of a message's attempt that is under way.
        """
        for delivery_id, number in self._landed.items():
            self.attempts[delivery_id] = number
        for delivery_id in (*self._taken, *self._landed):
            if under_way(delivery_id) != self.attempts.get(delivery_id):
                self.attempts.pop(delivery_id, None)
        self.disabled.difference_update(self._shut)
        taken = self._taken
        self._taken, self._landed, self._shut = [], {}, []
        return taken

    # What a fork carries over

    def snapshot(self) -> dict[str, Any]:
        """All of it as plain data that later changes do not touch."""
        return {
            "due": list(self.queue),
            "flying": dict(self.attempts),
            "closed": [list(endpoint) for endpoint in sorted(self.disabled)],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become what `snapshot` wrote down."""
        self.queue = deque(state["due"])
        self.attempts = dict(state["flying"])
        self.disabled = {(resource, url) for resource, url in state["closed"]}
