"""In-flight deliveries: which callbacks are being sent, which wait for a worker slot, which endpoints are disabled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from leyden.server.callbacks.delivery_row import Endpoint

# Snapshots of earlier versions have these names.
FORMER_KEYS = {"due": "queue", "flying": "attempts", "closed": "disabled"}


class InFlight:
    """The state of an outbox that is not in its rows. It takes part in commits, and a fork copies it.

    `queue` has the ids of the deliveries that are due and wait for a worker slot, in due order. `attempts` maps the id
    of each delivery in flight to the number of its attempt. `disabled` has the endpoints that answered 410. They change
    only by the methods.
    """

    def __init__(self) -> None:
        self.queue: deque[str] = deque()
        self.attempts: dict[str, int] = {}
        self.disabled: set[Endpoint] = set()
        # Inside a commit: what undoes the changes since `begin`, oldest first.
        self._undo: list[Callable[[], object]] = []
        self._in_commit = False

    def enqueue(self, delivery_id: str) -> None:
        """Add a delivery at the end of the queue, unless it is the first one: it is due."""
        if self.queue and self.queue[0] == delivery_id:
            return
        self.queue.append(delivery_id)
        self._record(self.queue.pop)

    def acquire(self) -> None:
        """Remove the first delivery from the queue: it gets a worker slot, or needs none."""
        self._record(partial(self.queue.appendleft, self.queue.popleft()))

    def start(self, delivery_id: str, number: int) -> None:
        """An attempt of a delivery is in flight."""
        self._record(partial(self._set, delivery_id, self.attempts.get(delivery_id)))
        self.attempts[delivery_id] = number

    def complete(self, delivery_id: str) -> None:
        """Free the worker slot of a delivery whose attempt has ended."""
        self._record(partial(self._set, delivery_id, self.attempts.pop(delivery_id, None)))

    def discard(self, delivery_id: str, number: int) -> None:
        """Free the worker slot of an attempt that no row records, if the slot is still that attempt's."""
        if self.attempts.get(delivery_id) == number:
            self.complete(delivery_id)

    def disable(self, endpoint: Endpoint) -> bool:
        """Send nothing more to the endpoint: it answered 410. Returns False if it was disabled before."""
        if endpoint in self.disabled:
            return False
        self.disabled.add(endpoint)
        self._record(partial(self.disabled.discard, endpoint))
        return True

    def _record(self, undo: Callable[[], object]) -> None:
        if self._in_commit:
            self._undo.append(undo)

    def _set(self, delivery_id: str, number: int | None) -> None:
        if number is None:
            self.attempts.pop(delivery_id, None)
        else:
            self.attempts[delivery_id] = number

    # Commit and rollback

    def begin(self) -> None:
        """A commit begins: from now on changes are recorded for `rollback`."""
        self._in_commit = True

    def commit(self) -> None:
        """Keep the changes since `begin`."""
        self._in_commit = False
        if self._undo:
            self._undo = []

    def rollback(self) -> None:
        """Undo the changes since `begin`."""
        self._in_commit = False
        while self._undo:
            self._undo.pop()()

    # Snapshots

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain data, independent of later changes."""
        return {
            "queue": list(self.queue),
            "attempts": dict(self.attempts),
            "disabled": [list(endpoint) for endpoint in sorted(self.disabled)],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over the state that `snapshot` returned, in this version or in an earlier one."""
        state = {FORMER_KEYS.get(key, key): value for key, value in state.items()}
        self.queue = deque(state["queue"])
        self.attempts = dict(state["attempts"])
        self.disabled = {(resource_id, url) for resource_id, url in state["disabled"]}
