"""When nodes are offline: times up and down that are drawn by windows, so that any instant costs the same."""

from __future__ import annotations

from collections.abc import Callable

from leyden.rng import RandomStream

# A window has four outages on average: none in this many windows has a probability of e**-80.
_LOOK_BACK = 20
_DRAWS_PER_WINDOW = 1_024  # eight are needed on average
_FOREVER = 2**63


class OutageTimes:
    """The outages of nodes with one share of time up. Times up and down are exponentially distributed.

    `secret(name)` gives the 32 bytes of a named random stream. Before `start_ms` the outages are those of `before`.
    """

    def __init__(
        self,
        start_ms: int,
        secret: Callable[[str], bytes],
        up_share: float,
        mean_down_ms: float,
        before: OutageTimes | None = None,
    ) -> None:
        self.always_up = up_share >= 1.0
        self._since = start_ms
        self._secret = secret
        self._mean_down_ms = mean_down_ms
        self._before = before
        self._mean_up_ms = 0.0 if self.always_up else mean_down_ms * up_share / (1.0 - up_share)
        self._window_ms = max(1, int(4 * self._mean_up_ms))

    def answer(self, node: int, at_ms: int) -> tuple[int, int, bool]:
        """Whether a node is up at an instant, with an interval around it in which that does not change."""
        if self.always_up:
            return at_ms, _FOREVER, True
        drawn, until = self, _FOREVER
        while at_ms < drawn._since and drawn._before is not None:
            until, drawn = drawn._since, drawn._before
        number = drawn._window(at_ms)
        later = (start for start, _ in drawn._outages(node, number) if start > at_ms)
        until = min(until, drawn._window_start(number + 1), *later)
        # The last outage decides: one that starts during another replaces its end. An exponential time has no memory,
        # so that the times down stay exponential.
        last, latest = drawn._last_outage(node, at_ms), at_ms
        while last is None and drawn._before is not None:
            latest, drawn = drawn._since - 1, drawn._before
            last = drawn._last_outage(node, latest)
        if last is None:
            return at_ms, until, True
        start, end = last
        return (end, until, True) if end <= at_ms else (start, min(until, end), False)

    def between(self, node: int, since_ms: int, until_ms: int) -> list[tuple[int, int | None]]:
        """When a node goes offline and comes back, in the time from `since_ms` to `until_ms`, in order. An outage that
        has begun before begins at `since_ms`; one that has not ended by `until_ms` has None."""
        found: list[tuple[int, int | None]] = []
        at_ms, down_since = since_ms, None
        while at_ms <= until_ms:
            _, changes_ms, is_up = self.answer(node, at_ms)
            if is_up and down_since is not None:
                found.append((down_since, at_ms))
                down_since = None
            elif not is_up and down_since is None:
                down_since = at_ms
            at_ms = changes_ms
        return found if down_since is None else [*found, (down_since, None)]

    def _last_outage(self, node: int, at_ms: int) -> tuple[int, int] | None:
        """The start and the end of the latest outage that started by an instant; None without one."""
        number = self._window(at_ms)
        # Some nodes are offline at the first instant, because windows before it have outages, too.
        earliest = 0 if self._before is None else _LOOK_BACK
        for window in range(number, max(number - _LOOK_BACK, earliest - 1), -1):
            started = [outage for outage in self._outages(node, window) if outage[0] <= at_ms]
            if started:
                return started[-1]
        return None

    def _outages(self, node: int, number: int) -> list[tuple[int, int]]:
        """The outages of a node that start in a window, in order."""
        positions = {"offline": number * _DRAWS_PER_WINDOW}
        stream = RandomStream("offline", self._secret(f"offline {node}"), positions)
        at_ms, until = self._window_start(number), self._window_start(number + 1)
        found: list[tuple[int, int]] = []
        while (at_ms := at_ms + 1 + int(stream.exponential(self._mean_up_ms))) < until:
            found.append((at_ms, at_ms + 1 + int(stream.exponential(self._mean_down_ms))))
        return found

    def _window(self, at_ms: int) -> int:
        """The number of the window with an instant; number `_LOOK_BACK` starts at the first instant."""
        return max(0, (at_ms - self._since) // self._window_ms + _LOOK_BACK)

    def _window_start(self, number: int) -> int:
        return self._since + (number - _LOOK_BACK) * self._window_ms
