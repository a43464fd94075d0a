"""Runs the due events of a server's worlds: after each request, and when a live clock reaches them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from heapq import heappop, heappush

from leyden.devserver.clock_changes import change_text, note
from leyden.devserver.sandboxes.registry import SandboxRegistry, ServedSandbox
from leyden.errors import ClockError, ClosedError
from leyden.server.errors import StorageUnavailable
from leyden.world.concurrency.async_moves import advance_to, catch_up
from leyden.world.world import World

log = logging.getLogger("leyden")

_RECHECK_S = 0.5


class EventRunner:
    """One task for all worlds. A configured world is looked at each time; of the created sandboxes only those whose
    next event is due, so that a thousand idle ones cost nothing.

    An event that fails because the disk is full stays due and is tried again twice a second. `clock_change_ms` returns
    by how many milliseconds the system clock was set since the last call; a change is noted in every world whose clock
    runs. `remove` is called with each sandbox whose time to live is over.
    """

    def __init__(
        self,
        registry: SandboxRegistry,
        remove: Callable[[ServedSandbox], None],
        clock_change_ms: Callable[[], int] | None = None,
    ) -> None:
        self._registry = registry
        self._remove = remove
        self._clock_change_ms = clock_change_ms
        self._changed = asyncio.Event()
        self._next_check_at_s = 0.0  # on the event loop's clock
        self._errors: dict[World, str] = {}
        self._answered: set[World] = set()  # a response from the network has made something due on a paused clock
        self._due: list[tuple[float, str]] = []  # a heap of the ids of created sandboxes
        self._due_at_s: dict[str, float] = {}  # the valid entry of each

    async def run_due_now(self, world: World) -> None:
        """Before a response ends: run what its request made due on a paused clock, so that the client's next request
        comes after it. What a live clock reaches, `run` runs."""
        wait_s = world.wait_after_request()
        if world.transport.has_pending_responses:
            wait_s = 0
        if wait_s == 0 and not world.clock.rate:
            await self.catch_up(world)
            wait_s = None
        due_at_s = None if wait_s is None else asyncio.get_running_loop().time() + wait_s
        sandbox = self._registry.of_world(world)
        if due_at_s is not None and sandbox is not None:
            self._schedule(sandbox, due_at_s)
        # Most requests need no wake-up, because `run` checks again before the next event is due.
        if self._errors or (due_at_s is not None and due_at_s < self._next_check_at_s):
            self._changed.set()

    def responded(self, world: World) -> None:
        """A response from the network was recorded outside of a request: it may have scheduled something. What it made
        due on a paused clock runs now, and not after the next request, which may be a read. Responses that came with it
        may wait to be recorded."""
        wait_s = world.wait_after_request()
        is_due = world.transport.has_pending_responses or (not world.clock.rate and wait_s == 0)
        if is_due and not world.transport.moves:
            self._answered.add(world)
            self._changed.set()
        now_s, sandbox = asyncio.get_running_loop().time(), self._registry.of_world(world)
        if sandbox is not None and (world.clock.rate or world.transport.has_pending_responses):
            self._schedule(sandbox, now_s)
        elif world.clock.rate and wait_s is not None and now_s + wait_s < self._next_check_at_s:
            self._changed.set()  # a retry, for example, which a fast clock reaches before the next check

    def watch(self, sandbox: ServedSandbox) -> None:
        """The sandbox is new, or has another world: run its events when they become due."""
        self._schedule_next(sandbox)
        self._changed.set()  # it may be the first that expires

    def forget(self, sandbox: ServedSandbox) -> None:
        """The sandbox was removed."""
        self._due_at_s.pop(sandbox.id, None)
        self._errors.pop(sandbox.world, None)
        self._answered.discard(sandbox.world)

    @property
    def all_run(self) -> bool:
        """Whether the due events of all configured worlds run."""
        return not any(world in self._errors for world in self._registry.configured)

    async def run(self) -> None:
        """Run events when they become due. A request may change which event is next, and then wakes this task."""
        loop, registry = asyncio.get_running_loop(), self._registry
        while True:
            self._changed.clear()
            waits = [wait for world in registry.configured if (wait := world.real_seconds_until_due()) is not None]
            if not self.all_run:
                await asyncio.sleep(_RECHECK_S)
            else:
                now_s = loop.time()
                instants = [self._due[0][0] if self._due else None, registry.next_expiry_s()]
                waits += [max(0.0, instant - now_s) for instant in instants if instant is not None]
                wait_s = min([*waits, _RECHECK_S])
                self._next_check_at_s = now_s + wait_s
                # Not `wait_for`: until Python 3.12 it loses a cancellation that comes together with the event.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._changed.wait()
            self._note_clock_change()
            for world in (*registry.configured, *self._answered):
                await self.run_live(world)
            for sandbox in self._take_due(loop.time()):
                await self.run_live(sandbox.world)
                self._schedule_next(sandbox)
            for sandbox in registry.expired(loop.time()):
                self._remove(sandbox)

    async def catch_up(self, world: World) -> None:
        """Run the due events of a world. One that fails stays due and is logged once; no other world is affected. A
        clock that is moved at the start of the server (`World.start_at_ms`) is moved before."""
        start_at_ms, world.start_at_ms = world.start_at_ms, None
        try:
            if start_at_ms is not None:
                await _start_at(world, start_at_ms)
            await catch_up(world)
        except ClosedError:
            self._errors.pop(world, None)
        except StorageUnavailable as refusal:
            if self._errors.get(world) != refusal.detail:
                log.error("due events wait for the disk: %s", refusal.detail)
            self._errors[world], world.start_at_ms = refusal.detail, start_at_ms
        except Exception as error:
            if self._errors.get(world) != repr(error):
                log.exception("a due event failed because of a defect in Leyden, and will be tried again")
            self._errors[world] = repr(error)
        else:
            self._errors.pop(world, None)

    async def run_live(self, world: World) -> None:
        """Run what a running clock has reached, record responses that wait and run what those from the network have
        made due, and try again what failed. A move of time runs itself what the responses make due meanwhile."""
        is_answered = world in self._answered and not world.transport.moves
        self._answered.discard(world)
        if world.clock.rate or is_answered or world.transport.has_pending_responses or world in self._errors:
            await self.catch_up(world)

    def _schedule(self, sandbox: ServedSandbox, due_at_s: float) -> None:
        """Look at the sandbox then, or earlier if that was scheduled before."""
        if due_at_s < self._due_at_s.get(sandbox.id, float("inf")):
            self._due_at_s[sandbox.id] = due_at_s
            heappush(self._due, (due_at_s, sandbox.id))
            if due_at_s < self._next_check_at_s:
                self._changed.set()

    def _schedule_next(self, sandbox: ServedSandbox) -> None:
        world = sandbox.world
        if self._registry.of_world(world) is None:
            return
        wait_s = _RECHECK_S if world in self._errors else world.real_seconds_until_due()
        if wait_s is not None:
            self._schedule(sandbox, asyncio.get_running_loop().time() + wait_s)

    def _take_due(self, now_s: float) -> list[ServedSandbox]:
        """The sandboxes that are due. An entry that was replaced by an earlier one is dropped."""
        taken = []
        while self._due and self._due[0][0] <= now_s:
            due_at_s, sandbox_id = heappop(self._due)
            sandbox = self._registry.of_id(sandbox_id)
            if sandbox is not None and self._due_at_s.get(sandbox_id) == due_at_s:
                del self._due_at_s[sandbox_id]
                taken.append(sandbox)
        return taken

    def _note_clock_change(self) -> None:
        change_ms = 0 if self._clock_change_ms is None else self._clock_change_ms()
        worlds = [world for world in self._registry if world.clock.rate] if change_ms else []
        texts = {world: change_text(world, change_ms) for world in worlds}
        for text in dict.fromkeys(texts.values()):
            log.warning("%s", text)
        for world, text in texts.items():
            note(world, text)


async def _start_at(world: World, instant_ms: int) -> None:
    """Move a paused clock to the instant, unless requests have moved it further or a reset has begun another run."""
    with contextlib.suppress(ClockError):
        await advance_to(world, lambda clock: max(instant_ms, clock.now()))
