"""What was done: everything that came into a sandbox from outside, in order, so that it can be done again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from numbers import Integral, Real
from typing import Any, NamedTuple

from leyden.server.errors import LeydenError
from leyden.server.timestamps import parse_duration
from leyden.world.clock import Fired
from leyden.world.world import World

# A campaign that runs for hours does not fill the memory with what it did.
MOST_ACTS = 100_000
MOST_BODY_BYTES = 32_000_000

_SCALARS = frozenset({str, int, float, bool, type(None)})


class HistoryError(LeydenError):
    """A sandbox that cannot say how it came to be; the text says what can be kept instead."""


class Act(NamedTuple):
    """One thing that was done. `facts` are JSON values; `raised` says that it ended in an exception, but not without
    effect."""

    kind: str
    facts: dict[str, Any]
    raised: bool


class History:
    """How a sandbox was made (`begun`: the arguments, as JSON values) and what was done to it.

    `untold` says why it can no longer be told, if so: nothing more is kept then.
    """

    def __init__(self, begun: Mapping[str, Any], acts: Sequence[Act] = (), *, untold: str = "") -> None:
        self.begun = dict(begun)
        self.acts: list[Act] = list(acts)
        self.untold = untold
        self._body_bytes = sum(len(act.facts.get("body", "")) for act in self.acts)
        self._stood: int | None = None  # where a live clock was last seen

    def __len__(self) -> int:
        return len(self.acts)

    def add(self, kind: str, facts: dict[str, Any], *, raised: bool = False) -> None:
        """Keep one more."""
        if self.untold:
            return
        self._body_bytes += len(facts.get("body", ""))
        if len(self.acts) >= MOST_ACTS or self._body_bytes > MOST_BODY_BYTES:
            self.forget(f"it was done more to than is kept ({MOST_ACTS} things, {MOST_BODY_BYTES} bytes of requests)")
            return
        self.acts.append(Act(kind, facts, raised))

    def forget(self, why: str) -> None:
        """Keep nothing from now on. `why` completes "this sandbox cannot be told as a script, because ..."."""
        self.untold = why
        self.acts = []

    def doing(self, world: World, kind: str, **facts: Any) -> Doing:
        """Around something that is done: keep it, unless it was refused and left no trace. What is added to the facts
        inside is kept with them."""
        return Doing(self, world, kind, facts)

    def catch_up(self, world: World) -> list[Fired]:
        """Let a live clock run what is due, and keep where it then stands: nobody else tells how far it was moved."""
        if not world.clock.rate:
            return []
        with world.lock:
            fired = world.catch_up()
            now = world.clock.now()
            if fired or now != self._stood:
                self.add("advance_to", {"to_ms": now})
            self._stood = now
        return fired

    def told(self) -> Sequence[Act]:
        """Everything, in order. Raises `HistoryError` when something is missing."""
        if self.untold:
            raise HistoryError(
                f"this sandbox cannot be told as a script, because {self.untold}: keep it with save(), or fork() it"
            )
        return self.acts

    def fork(self) -> History:
        """The same past, to go on by itself."""
        return History(self.begun, self.acts, untold=self.untold)

    def snapshot(self) -> dict[str, Any]:
        """As JSON values."""
        return {"begun": self.begun, "acts": [list(act) for act in self.acts], "untold": self.untold}

    @classmethod
    def restored(cls, snapshot: Mapping[str, Any] | None) -> History:
        """What `snapshot()` wrote down; nothing can be told of a case that came without."""
        if snapshot is None:
            return cls({}, untold="the case that it was opened from does not say what had been done")
        acts = [Act(kind, facts, raised) for kind, facts, raised in snapshot["acts"]]
        return cls(snapshot["begun"], acts, untold=snapshot["untold"])


class Doing:
    """The time during which something is done: nobody else does anything meanwhile."""

    __slots__ = ("_before", "_history", "_world", "facts", "kind")

    def __init__(self, history: History, world: World, kind: str, facts: dict[str, Any]) -> None:
        self._history = history
        self._world = world
        self.kind = kind
        self.facts = facts

    def __enter__(self) -> dict[str, Any]:
        world = self._world
        world.lock.acquire()
        try:
            self._history.catch_up(world)
            self._before = len(world.journal)
        except BaseException:
            world.lock.release()
            raise
        return self.facts

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        try:
            if kind is None or len(self._world.journal) != self._before:
                self._history.add(self.kind, self.facts, raised=kind is not None)
        finally:
            self._world.lock.release()


def as_json(value: Any) -> Any:
    """A value as JSON values, spans in seconds. Raises `TypeError` for what has no such form."""
    if isinstance(value, timedelta):
        return parse_duration(value) / 1_000
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Integral):  # numpy's, for example
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(item) for item in value]
    raise TypeError(f"{value!r} cannot be written down: give plain numbers, texts, lists and mappings")
