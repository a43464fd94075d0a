"""Addresses of host names, from the system's resolver.

A look-up cannot be interrupted, and takes minutes when no name server answers. Each look-up has its own thread; the end
of the process does not wait for it. The number of look-ups is bounded for the process, and for each sandbox by a share
of those that the other sandboxes do not use.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from enum import Enum
from typing import Any

from leyden.server.system.work_threads import wait_in_thread

MAX_PROCESS_LOOKUPS = 128
# A sandbox has at most this part of the look-ups that no other sandbox has, and at least one while any is left: 8 when
# it is alone, fewer when many wait for names without an answer.
_SHARE = 16
MAX_LOOKUPS = MAX_PROCESS_LOOKUPS // _SHARE  # of one sandbox at a time


class TooManyLookups(Exception):
    """The process waits for as many look-ups as it may."""


class LookupState(Enum):
    """What an attempt waits for: nothing, a free slot, or the answer of the resolver."""

    NONE = ""
    QUEUED = "queued"
    WAITING = "waiting"


class AttemptProgress:
    """How far one attempt came, for the note of its failure."""

    state = LookupState.NONE
    earlier = 0  # look-ups of the sandbox that had no answer when this one had to wait
    is_connected = False  # of https: the TLS handshake is complete
    is_sent = False  # at least the head of the request is written to the connection


# Of the present attempt. aiohttp looks a name up in a task of its own, which has the context of the attempt.
PROGRESS: ContextVar[AttemptProgress] = ContextVar("leyden_attempt_progress")


class LookupSlots:
    """The look-ups that the process may wait for at the same time, and their division among the sandboxes.

    It is used by several threads: a sandbox in a program may have an event loop of its own, and a look-up ends in its
    own thread, maybe after its event loop.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._lock = threading.Lock()
        self._free = total
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def take(self, owner: NameLookup, freed: asyncio.Event) -> bool:
        """Take a slot for `owner`. If the owner's share is used up, there is no slot now, and `freed` is set when one
        may be free.

        Raises `TooManyLookups` if the owner has no slot and none is free.
        """
        with self._lock:
            share = max(1, (self._free + owner.asked) // _SHARE)
            if self._free and owner.asked < min(MAX_LOOKUPS, share):
                self._free -= 1
                owner.asked += 1
                return True
            if not owner.asked:
                raise TooManyLookups(f"{self.total} other look-ups have no answer yet")
            self._waiting.add((asyncio.get_running_loop(), freed))
            return False

    def give_back(self, owner: NameLookup) -> None:
        """A look-up of `owner` has ended."""
        with self._lock:
            self._free += 1
            owner.asked -= 1
            waiting, self._waiting = self._waiting, set()
        for loop, freed in waiting:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(freed.set)

    def leave(self, freed: asyncio.Event) -> None:
        """Nobody waits for `freed` any more."""
        with self._lock:
            self._waiting.discard((asyncio.get_running_loop(), freed))


_slots = LookupSlots(MAX_PROCESS_LOOKUPS)


class NameLookup:
    """Look-ups for one sandbox. Attempts that need the same name at the same time share one."""

    def __init__(self) -> None:
        self.asked = 0  # slots taken: look-ups without an answer; counted by `LookupSlots`
        self._turn = asyncio.Lock()  # the attempts get a slot in the order in which they asked for one
        self._running: dict[str, asyncio.Task[list[str]]] = {}
        self._not_started: set[str] = set()  # names whose look-up has a slot and no thread yet

    async def __call__(self, host: str) -> list[str]:
        """The addresses of a name. Raises `OSError`, `UnicodeError` or `TooManyLookups`."""
        # RFC 6761, 6.3: names under localhost are the loopback, whatever a name server answers. No name server is
        # asked, so nothing has to be waited for.
        if ("." + host.rstrip(".").lower()).endswith(".localhost"):
            return await self._answer("localhost", _ask_local)
        if host in self._running:
            return await asyncio.shield(self._running[host])
        progress = PROGRESS.get(AttemptProgress())
        progress.state = LookupState.QUEUED
        progress.earlier = self.asked
        async with self._turn:
            if host not in self._running:
                await self._take_slot(host)
            progress.state = LookupState.WAITING
            answer = self._answer(host, self._ask)
        return await answer

    async def _take_slot(self, host: str) -> None:
        while True:
            freed = asyncio.Event()
            try:
                if _slots.take(self, freed):
                    self._not_started.add(host)
                    return
                await freed.wait()
            except TooManyLookups as error:
                raise TooManyLookups(f"the name {host} was not looked up: {error}") from None
            finally:
                _slots.leave(freed)

    def _answer(self, name: str, ask: Callable[[str], Coroutine[Any, Any, list[str]]]) -> asyncio.Future[list[str]]:
        """The result of the look-up of this name that is in progress; if there is none, one is started."""
        if name not in self._running:
            task = asyncio.create_task(ask(name))
            self._running[name] = task
            task.add_done_callback(lambda task: self._ended(name, task))
        return asyncio.shield(self._running[name])

    def _ended(self, name: str, task: asyncio.Task[list[str]]) -> None:
        del self._running[name]
        if name in self._not_started:  # the event loop was closed first
            self._not_started.remove(name)
            _slots.give_back(self)
        # Every attempt that waited may have ended: then nobody else takes the exception, and asyncio would log it.
        if not task.cancelled():
            task.exception()

    async def _ask(self, name: str) -> list[str]:
        """Look a name up, in a slot that was taken before."""

        def addresses() -> list[str]:
            try:
                return _system_addresses(name)
            finally:
                _slots.give_back(self)

        self._not_started.remove(name)
        return await wait_in_thread(addresses)


async def _ask_local(name: str) -> list[str]:
    return await wait_in_thread(lambda: _system_addresses(name))


def _system_addresses(name: str) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
