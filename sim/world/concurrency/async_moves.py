"""Moves of time in a server: they wait for the real network without blocking, and let other requests run in between.

    turn:  instant -> its events, in slices -> responses from the network -> the next instant ...

Between two slices the world is in the state between two events. A request that comes then is answered at the instant
that the clock has reached, and what it creates begins at that instant. The order of the events is the same as without
slices: responses that arrive meanwhile are recorded when the events of the instant have run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from leyden.lightning.payer_models.searches import SearchNeeded
from leyden.world.ports import Slices
from leyden.world.time.clock import LAST_MS, Report, VirtualClock
from leyden.world.time.refused_moves import with_reached_instant
from leyden.world.time.timers import EventFields, Fired
from leyden.world.world import World

# A move of time reports so many of its events, and counts all.
MAX_FIRED = 1_000


class Ran:
    """The events of a move of time: the first ones, and the number of all."""

    def __init__(self) -> None:
        self.fired: list[Fired] = []
        self.count = 0

    def add(self, event: EventFields) -> None:
        """Count one event."""
        self.count += 1
        if self.count <= MAX_FIRED:
            self.fired.append(Fired._make(event))


async def advance_to(world: World, target: Callable[[VirtualClock], int]) -> Ran:
    """Move time to the instant that `target` returns when the move begins, as `VirtualClock.advance_to` does. On a
    server, an advance that is requested during another begins after it.

    Time does not move on before every callback that was sent to the real network has been answered. Those of one
    instant are in flight together, and their responses are recorded in the order of sending: within the move a
    receiver's speed changes nothing in the world. Responses that came before the move were recorded as they came.

    Raises `StorageUnavailable` when the disk refuses an event or a response: a frozen clock then stands at the last
    instant that was written, and the events before stay. Raises `ClockError` when a reset or the end of the world ends
    the move, also while it waits for another move: it belonged to the former run.
    """
    clock = world.clock
    async with _turn(world):
        return await _advance(world, clock, target(clock), moves_on=True)


async def run_until_idle(world: World) -> Ran:
    """Run until nothing is scheduled, waiting for callbacks as `advance_to` does."""
    clock = world.clock
    async with _turn(world):
        return await _advance(world, clock, LAST_MS, moves_on=False, until_idle=True)


async def run_until_next_event(world: World) -> Ran:
    """Run everything of the next instant, as `VirtualClock.run_until_next_event` does, waiting for callbacks as
    `advance_to` does: the response to one that is in flight may make something due, so it is waited for first."""
    clock = world.clock
    async with _turn(world):
        ran = await _advance(world, clock, clock.now(), moves_on=False)
        due = clock.next_due()
        if ran.count or due is None:
            return ran
        return await _advance(world, clock, due, moves_on=True)


async def catch_up(world: World) -> None:
    """Run what is due now, as `World.catch_up` does, unless a move runs it already. So is what the responses that came
    meanwhile have made due."""
    if world.running_moves or world.is_closed or world.has_ended:
        return
    arrived = True
    while arrived:
        slices, transport = world.slices(), world.transport
        while not _record_some(world, slices):
            await _pause(world, slices)
        with world.lock:
            clock = world.clock
            until_ms = clock.reached()
        await _run_due(world, clock, until_ms, slices)
        arrived = transport.has_pending_responses


def hold_events(world: World) -> None:
    """For a request that works in slices on a paused clock: what it makes due runs before its response ends, in slices.
    Without this, another request that comes between two slices would run these events before its own response.

    On a live clock a task of the server runs what is due. Without a server nothing comes between.
    """
    server = world.server
    if server is None or not server.runs_here() or world.clock.rate:
        return

    def release() -> None:
        world.running_moves -= 1

    world.running_moves += 1
    server.before_events(release)


async def _advance(
    world: World, clock: VirtualClock, until_ms: int, *, moves_on: bool, until_idle: bool = False
) -> Ran:
    transport, slices, ran = world.transport, world.slices(), Ran()
    answered = False
    with with_reached_instant(clock), transport.responses_in_order() as waits:
        while True:
            with world.lock:
                if transport.has_pending_responses and world.network_log is not None:
                    world.network_log.waits()
                is_recorded = _record_some(world, slices)
                world.check_same_run(clock, ran.count)
                due = clock.next_due()
                ended = due is None or due > until_ms or (until_idle and clock.is_idle())
                if ended and answered and is_recorded:
                    if moves_on:
                        clock.advance_to(until_ms)
                    world.keep_time()
                    return ran
                now = clock.now()
            if not is_recorded:
                await _pause(world, slices)
            elif due is not None and not ended and (answered or due <= now):
                await _run_due(world, clock, due, slices, ran.add)
                await _pause(world, slices)  # the slice may have ended with the last event of the instant
                answered = False
            else:
                await _wait_for_responses(world, clock, waits)
                answered = True


def _record_some(world: World, slices: Slices) -> bool:
    """Record the responses that wait, until the slice is over; whether none is left."""
    with world.lock:
        world.transport.flush_responses(slices.is_over)
        return not world.transport.has_pending_responses


async def _pause(world: World, slices: Slices) -> None:
    """Begin another slice of a move if this one is over. Requests that come between run no events, and responses that
    arrive wait."""
    if not slices.is_over():
        return
    world.running_moves += 1
    try:
        with world.transport.responses_held():
            await slices.pause()
    finally:
        world.running_moves -= 1


async def _run_due(
    world: World, clock: VirtualClock, until_ms: int, slices: Slices, report: Report | None = None
) -> None:
    """Run what is due by `until_ms`, in slices; long searches for routes run in a thread. A reset ends this."""
    world.running_moves += 1
    try:
        with world.transport.responses_held():
            while True:
                try:
                    with world.lock:
                        if world.clock is not clock or world.run_slice(clock, until_ms, slices, report):
                            return
                except SearchNeeded as needed:
                    needed.add_result(await world.run_apart(needed.search.routes))
                await slices.pause()
    finally:
        world.running_moves -= 1


async def _wait_for_responses(world: World, clock: VirtualClock, waits: Callable[[], None]) -> None:
    """Wait until every callback that this run sent to the real network was answered; `waits` is called before. A reset
    ends this."""
    network, server = world.external_transport, world.server
    if network is None or not world.transport.is_waiting:
        return
    waits()
    if world.network_log is not None:
        world.network_log.waits()
    if server is not None and server.runs_here():
        await server.wait(
            network.wait_idle(), is_over=lambda: world.clock is not clock or not world.transport.is_waiting
        )
    elif world.blocks:
        world.wait_for_network()  # a request in process: there is no event loop to wait in
    else:
        await network.wait_idle()


def _turn(world: World) -> AbstractAsyncContextManager[object]:
    server = world.server
    return nullcontext() if server is None or not server.runs_here() else server.turn(world)
