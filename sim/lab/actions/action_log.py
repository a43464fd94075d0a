"""The action log: every action on a sandbox from outside, in order, so that a script can repeat them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from numbers import Integral
from typing import Any, NamedTuple

from leyden.arguments import real_number
from leyden.callbacks.mutations import SIGNATURE, STAMP
from leyden.errors import ActionLogError, ArgumentError
from leyden.files.json_files import MAX_DEPTH, WRONG_DATA
from leyden.lab.actions.action_schema import SAVED_ACTION_LOG
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.errors import StorageUnavailable
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.printable import printable, quoted
from leyden.server.timestamps import parse_duration
from leyden.world.interrupts import interrupts
from leyden.world.time.timers import Fired
from leyden.world.world import World

# A campaign that runs for hours must not fill the memory with its actions.
MAX_ACTIONS = 100_000
MAX_BODY_BYTES = 32_000_000

# The kinds of the actions that only move time. One that raises has run some events, and that is recorded instead.
MOVES = frozenset({"advance", "advance_to", "events", "idle", "next_event"})

DISK_REFUSED = "the disk refused a change: the journal reports it, and a script cannot repeat it"

_SCALARS = frozenset({str, int, float, bool, type(None)})

# The status of a request whose response a service fault lost.
NO_RESPONSE = 0


class Action(NamedTuple):
    """One action. `facts` are JSON values; `raised` says that it ended in an exception after it had an effect."""

    kind: str
    facts: dict[str, Any]
    raised: bool


class ActionLog:
    """The arguments of a sandbox (JSON values) and the actions on it.

    `gap` says why the log is incomplete; an incomplete log is empty and records nothing more.
    """

    def __init__(self, arguments: Mapping[str, Any], actions: Sequence[Action] = (), *, gap: str = "") -> None:
        self.arguments = dict(arguments)
        self.actions: list[Action] = list(actions)
        self.gap = gap
        self._body_bytes = sum(len(action.facts.get("body", "")) for action in self.actions)
        self._events_recorded = 0  # `VirtualClock.event_count` when events were last recorded
        self._live_ms: int | None = None  # the instant of a live clock when it was last recorded

    def __len__(self) -> int:
        return len(self.actions)

    def __iter__(self) -> Iterator[Action]:
        return iter(self.actions)

    def __repr__(self) -> str:
        return f"<action log: {self.gap or len(self.actions)}>"

    def add(self, kind: str, facts: dict[str, Any], *, raised: bool = False) -> None:
        """Append one action."""
        if self.gap:
            return
        self._body_bytes += len(facts.get("body", ""))
        if len(self.actions) >= MAX_ACTIONS or self._body_bytes > MAX_BODY_BYTES:
            self.discard(f"the action log is full (at most {MAX_ACTIONS} actions, {MAX_BODY_BYTES} bytes of requests)")
            return
        self.actions.append(Action(kind, facts, raised))

    def mark_raised(self, facts: dict[str, Any]) -> None:
        """The last action, which has these facts, ended in an exception after all."""
        if self.actions and self.actions[-1].facts is facts:
            self.actions[-1] = self.actions[-1]._replace(raised=True)

    def discard(self, why: str) -> None:
        """Drop all actions and record no more. `why` completes "this sandbox has no script, because ..."."""
        self.gap = why
        self.actions = []

    def record(self, world: World, kind: str, **facts: Any) -> ActionRecorder:
        """A context manager around an action: it is recorded unless it raised without any effect.

        The context's value is `facts`; what the action adds to them is recorded too.
        """
        return ActionRecorder(self, world, kind, facts)

    def note_network(self, is_open: bool) -> None:
        """Append whether callbacks may leave the process from now on, if that has changed."""
        last = next((action for action in reversed(self.actions) if action.kind in ("network", "reseed")), None)
        if is_open != (last is not None and last.facts.get("open", False)):
            self.add("network", {"open": is_open})

    def responded(self, world: World, request: CallbackRequest, response: CallbackResponse, time_s: int) -> None:
        """Append the response of a receiver on the network, which came at `time_s` on the receiver's clock."""
        if world.clock.rate:
            self.discard("a receiver on the network answered while its clock followed the process")
        facts: dict[str, Any] = {
            "delivery": request.delivery_id,
            "attempt": request.attempt,
            "copy": None if request.copied_by is None else list(request.copied_by),
            "status": response.status,
            "headers": dict(response.headers),
            "body": response.body.decode("latin-1"),
            "error": response.error,
            "note": response.note,
            "latency_ms": response.latency_ms,
            "time_s": time_s,
            "signed_s": _signed_s(world, request),
        }
        hit = None if request.copied_by is not None else world.faults.hits.row(request.delivery_id, request.attempt)
        if hit is not None and hit["sent"]:
            facts["signed"] = {name: request.headers[name] for name in (STAMP, SIGNATURE) if name in request.headers}
        self.add("response", facts)

    def catch_up(self, world: World) -> list[Fired]:
        """Run what is due on a live clock, and record its instant: no other action says how far it moved."""
        if not world.clock.rate:
            return []
        with world.lock:
            self.mark_events(world)
            try:
                fired = world.catch_up()
            except BaseException:
                self.add_events(world)
                raise
            now = world.clock.now()
            if fired or now != self._live_ms:
                self.add("advance_to", {"to_ms": now})
            self._live_ms = now
        return fired

    def mark_events(self, world: World) -> None:
        """The events that have run so far are recorded."""
        self._events_recorded = world.clock.event_count

    def add_events(self, world: World) -> None:
        """Record the events that have run since the last recorded one as an action of their own."""
        count = world.clock.event_count - self._events_recorded
        if count:
            self.add("events", {"count": count})
        self.mark_events(world)

    def complete(self) -> Sequence[Action]:
        """All actions, in order. Raises `ActionLogError` when the log is incomplete."""
        if self.gap:
            raise ActionLogError(
                f"this sandbox has no script, because {printable(self.gap)}: use save() or fork() instead"
            )
        return self.actions

    def fork(self) -> ActionLog:
        """A copy that continues on its own."""
        return ActionLog(self.arguments, self.actions, gap=self.gap)

    def snapshot(self) -> dict[str, Any]:
        """The log as JSON values."""
        return {"arguments": self.arguments, "actions": [list(action) for action in self.actions], "gap": self.gap}

    @classmethod
    def from_snapshot(cls, snapshot: Mapping[str, Any], where: str = "the snapshot") -> ActionLog:
        """The log in a sandbox's snapshot; an incomplete one for a snapshot without a log.

        Raises `ForkError` for a log that no sandbox wrote: one line that begins with `where`.
        """
        log, former = snapshot.get("action_log"), snapshot.get("history")
        if log is None and former is None:
            return cls({}, gap="it was loaded from a snapshot without an action log")
        if log is None:
            try:
                log = _log_of_format_1(former)
            except WRONG_DATA:
                raise SAVED_ACTION_LOG.refusal(where, "its history is not of format 1") from None
        SAVED_ACTION_LOG.check(log, where)
        actions = [Action(kind, facts, raised) for kind, facts, raised in log["actions"]]
        return cls(log["arguments"], actions, gap=log["gap"])


# Names in the actions of format 1, by kind of action.
_FORMER_METHODS = {"forget": "reset_script", "trusts": "use_secret"}
_FORMER_OPTIONS = {"habits": "behaviours", "hesitation": "think_time"}


def _log_of_format_1(log: Any) -> dict[str, Any]:
    actions = [[kind, _current_names(kind, facts), raised] for kind, facts, raised in log["acts"]]
    return {"arguments": log["begun"], "actions": actions, "gap": log["untold"]}


def _current_names(kind: str, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of an action of format 1 under the present names."""
    if kind == "reseed":
        return {"seed": facts["luck"]}
    if kind == "receiver":
        return {**facts, "method": _FORMER_METHODS.get(facts["method"], facts["method"])}
    if kind == "call" and facts["call"] == "traffic":
        named = {_FORMER_OPTIONS.get(name, name): value for name, value in facts["named"].items()}
        return {**facts, "named": named}
    return facts


class ActionRecorder:
    """The context of one action: it holds the world's lock, so no other action interleaves.

    An interrupt waits until the action is recorded. It ends a move of time between two events. A move calls `split`
    before it releases the lock for a while: other actions follow what it has done by then.
    """

    __slots__ = ("_entries_before", "_is_split", "_log", "_world", "facts", "kind")

    def __init__(self, log: ActionLog, world: World, kind: str, facts: dict[str, Any]) -> None:
        self._log = log
        self._world = world
        self.kind = kind
        self.facts = facts
        self._is_split = False

    def split(self) -> None:
        """Record the events that have run so far."""
        self._log.add_events(self._world)
        self._is_split = True

    def __enter__(self) -> dict[str, Any]:
        interrupts.enter(True)
        world = self._world
        world.lock.acquire()
        try:
            world.check_open()
            self._log.catch_up(world)
            self._entries_before = len(world.journal)
            self._log.mark_events(world)
            interrupts.set_stops(self.kind in MOVES)
        except BaseException:
            world.lock.release()
            interrupts.leave()
            raise
        return self.facts

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        world, log = self._world, self._log
        try:
            if isinstance(error, StorageUnavailable) and len(world.journal) != self._entries_before:
                log.discard(DISK_REFUSED)
            elif self.kind in MOVES and (kind is not None or self._is_split):
                log.add_events(world)
                if kind is None and self.kind in ("advance", "advance_to"):
                    log.add("advance_to", {"to_ms": world.clock.now()})
            elif kind is None or len(world.journal) != self._entries_before:
                log.add(self.kind, self.facts, raised=kind is not None)
            log.mark_events(world)
        finally:
            world.lock.release()
            interrupts.leave()


def _signed_s(world: World, request: CallbackRequest) -> int | None:
    """The signed timestamp of an attempt; None of a copy, and of one that is kept no more."""
    row = world.service.outbox.delivery(request.delivery_id)
    if row is None or request.copied_by is not None:
        return None
    return AttemptLog(row).attempts()[request.attempt - 1].timestamp_s


def as_json(value: Any, depth: int = 0) -> Any:
    """A value as JSON values, durations in seconds. Raises `TypeError` for what has no JSON form,
    and for what nests deeper than a file that is read may."""
    if depth > MAX_DEPTH:
        raise ArgumentError(f"{quoted(value, 40)} ... nests deeper than {MAX_DEPTH} levels: give a flat value")
    if isinstance(value, timedelta):
        return parse_duration(value) / 1_000
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Integral):  # numpy's, for example
        return int(value)
    if (number := real_number(value)) is not None:
        return number
    if isinstance(value, Mapping):
        return {str(key): as_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(item, depth + 1) for item in value]
    raise ArgumentError(f"{quoted(value)} has no JSON form: give plain numbers, texts, lists and mappings")
