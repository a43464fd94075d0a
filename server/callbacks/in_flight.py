"""In-flight deliveries: which callbacks are being sent, which wait for a worker slot, which endpoints are disabled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from leyden.server.callbacks.delivery_row import Endpoint


class InFlight:
    """The state of an outbox that is not in its rows. It takes part in commits, and a fork copies it.

    `queue` has the ids of the deliveries that are due and wait for a worker slot, in due order. `attempts` maps the id
    of each delivery in flight to the number of its attempt. `disabled` has the endpoints that answered 410.
    """

    def __init__(self) -> None:
        self.queue: deque[str] = deque()
        self.attempts: dict[str, int] = {}
        self.disabled: set[Endpoint] = set()
        self._in_commit = False
        self._acquired: list[str] = []
        self._completed: dict[str, int] = {}
        self._newly_disabled: list[Endpoint] = []

    def acquire(self) -> None:
        """Remove the first delivery from the queue: it gets a worker slot."""
        delivery_id = self.queue.popleft()
        if self._in_commit:
            self._acquired.append(delivery_id)

    def complete(self, delivery_id: str) -> None:
        """Free the worker slot of a delivery whose attempt has ended."""
        number = self.attempts.pop(delivery_id, None)
        if self._in_commit and number is not None:
            self._completed.setdefault(delivery_id, number)

    def discard(self, delivery_id: str, number: int) -> None:
        """Free the worker slot of an attempt that no row records, if the slot is still that attempt's."""
        if self.attempts.get(delivery_id) == number:
            del self.attempts[delivery_id]

    def disable(self, endpoint: Endpoint) -> None:
        """Send nothing more to the endpoint: it answered 410."""
        if endpoint not in self.disabled:
            self.disabled.add(endpoint)
            self._newly_disabled.append(endpoint)

    # Commit and rollback

    def begin(self) -> None:
        """A commit begins: from now on changes are recorded for `rollback`."""
        self._in_commit = True
        if self._acquired or self._completed or self._newly_disabled:
            self._acquired, self._completed, self._newly_disabled = [], {}, []

    def rollback(self, attempt_in_flight: Callable[[str], int | None]) -> list[str]:
        """Undo the changes since `begin`. Returns the deliveries that left the queue meanwhile: they are due again.

        `attempt_in_flight` gives, from the restored rows, the number of a delivery's attempt in flight, or None.
        """
        for delivery_id, number in self._completed.items():
            self.attempts[delivery_id] = number
        for delivery_id in (*self._acquired, *self._completed):
            if attempt_in_flight(delivery_id) != self.attempts.get(delivery_id):
                self.attempts.pop(delivery_id, None)
        self.disabled.difference_update(self._newly_disabled)
        acquired = self._acquired
        self._acquired, self._completed, self._newly_disabled = [], {}, []
        return acquired

    # Snapshots

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain data, independent of later changes."""
        return {
            "due": list(self.queue),
            "flying": dict(self.attempts),
            "closed": [list(endpoint) for endpoint in sorted(self.disabled)],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over the state that `snapshot` returned."""
        self.queue = deque(state["due"])
        self.attempts = dict(state["flying"])
        self.disabled = {(resource_id, url) for resource_id, url in state["closed"]}
