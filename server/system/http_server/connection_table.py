"""The connections of a server: how many there may be, and which one is closed or refused when there are more."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from leyden.server.errors import Problem, ServerBusy
from leyden.server.system.http_server.flow import UnreadResponses

log = logging.getLogger("leyden")

# So many silent connections are looked at, whether they have sent a request that the server has not read yet.
_MOST_LOOKED_AT = 8
# So many connections more than the limit may be open for this time, until such requests have been read; at most as many
# as the limit.
_MOST_BEYOND, _UNREAD_S = 24, 0.05
# So many that were refused may wait until their clients have read the refusal; at most twice as many as the limit.
_MOST_REFUSED = 32


class TabledConnection(Protocol):
    """What the table uses of a connection."""

    @property
    def has_request_in_progress(self) -> bool:
        """Whether a request arrived whole and has no complete response yet."""

    @property
    def is_closing(self) -> bool:
        """Whether it is closed, or is being closed."""

    @property
    def has_unread(self) -> bool:
        """Whether the client has sent bytes that the server has not read yet."""

    def refuse(self, problem: Problem) -> None:
        """Send the problem, and close the connection when the client has had time to read it."""

    def abort(self) -> None:
        """Close it at once."""

    def close(self) -> None:
        """Close it after what was sent."""


@dataclass
class ConnectionTable:
    """The shared state of a server's connections: their limit, the order of their activity, what waits on them.

    `by_activity` has the open connections that were not refused, the one that has been silent for longest first;
    `refused` those that were, the oldest first.
    `held_bytes` is the length of what was received and waits to be parsed.
    """

    limit: int
    by_activity: OrderedDict[TabledConnection, None] = field(default_factory=OrderedDict)
    refused: OrderedDict[TabledConnection, None] = field(default_factory=OrderedDict)
    held_bytes: int = 0
    unread: UnreadResponses = field(default_factory=UnreadResponses)
    refusals: Counter[str] = field(default_factory=Counter)

    def record(self, problem: Problem) -> None:
        """Count a refused request by its code. The first of each code is logged, so a flood writes one line."""
        self.refusals[problem.code] += 1
        if self.refusals[problem.code] == 1:
            log.warning("a request was refused with %s: %s (more are counted)", problem.status, problem.detail)

    def note_activity(self, connection: TabledConnection) -> None:
        """The connection is open, and was active now."""
        if connection not in self.refused:
            self.by_activity[connection] = None
            self.by_activity.move_to_end(connection)

    def note_refused(self, connection: TabledConnection) -> None:
        """A refusal was sent to the connection, which counts no longer. The oldest of too many such is closed."""
        self.by_activity.pop(connection, None)
        self.refused[connection] = None
        if len(self.refused) > min(_MOST_REFUSED, 2 * self.limit):
            oldest, _ = self.refused.popitem(last=False)
            oldest.close()

    def remove(self, connection: TabledConnection) -> None:
        """The connection was closed."""
        self.by_activity.pop(connection, None)
        self.refused.pop(connection, None)

    def make_room(self, newest: TabledConnection) -> None:
        """If there are more connections than the limit, close the one that has been silent for longest. If each of the
        others has a request in progress, the newest is refused."""
        beyond = len(self.by_activity) - self.limit
        if beyond <= 0 or newest not in self.by_activity or newest.has_request_in_progress:
            return
        others = (other for other in self.by_activity if other is not newest)
        silent = (other for other in others if not other.has_request_in_progress and not other.is_closing)
        has_sent = False  # whether one that was looked at has a request that is not read yet
        for other in islice(silent, _MOST_LOOKED_AT):
            if not other.has_unread:
                del self.by_activity[other]
                other.abort()
                return
            has_sent = True
        if has_sent and beyond <= min(_MOST_BEYOND, self.limit):
            asyncio.get_running_loop().call_later(_UNREAD_S, self.make_room, newest)
        else:
            newest.refuse(ServerBusy("all connections have a request in progress: repeat the request later"))
