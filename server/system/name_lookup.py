"""Addresses of host names, from the system's resolver.

A look-up cannot be interrupted, and takes minutes when no name server answers. Each has a thread of its own, which the
end of the process does not wait for, and their number is bounded: for each sandbox, and for the process.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextvars import ContextVar
from enum import Enum

from leyden.server.system.work_threads import wait_in_thread

MAX_LOOKUPS = 8  # of one sandbox at a time
MAX_PROCESS_LOOKUPS = 128

_process_lookups = threading.Semaphore(MAX_PROCESS_LOOKUPS)


class TooManyLookups(Exception):
    """The process waits for as many look-ups as it may."""


class LookupState(Enum):
    """What an attempt waits for: nothing, its turn, or the answer."""

    NONE = ""
    QUEUED = "queued"
    ASKED = "asked"


class LookupProgress:
    """How far the look-up of one attempt is, for the note of its timeout."""

    state = LookupState.NONE


# Of the present attempt. aiohttp looks a name up in a task of its own, which has the context of the attempt.
PROGRESS: ContextVar[LookupProgress] = ContextVar("leyden_lookup_progress")


class NameLookup:
    """Look-ups for one sandbox. Attempts that need the same name at the same time share one."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(MAX_LOOKUPS)
        self._running: dict[str, asyncio.Task[list[str]]] = {}

    async def __call__(self, host: str) -> list[str]:
        """The addresses of a name. Raises `OSError`, `UnicodeError` or `TooManyLookups`."""
        # RFC 6761, 6.3: names under localhost are the loopback, whatever a name server answers. No name server is
        # asked, so nothing has to be waited for.
        is_local = ("." + host.rstrip(".").lower()).endswith(".localhost")
        name = "localhost" if is_local else host
        if name not in self._running and not is_local:
            progress = PROGRESS.get(LookupProgress())
            progress.state = LookupState.QUEUED
            await self._slots.acquire()
            progress.state = LookupState.ASKED
            if name in self._running:
                self._slots.release()
        if name not in self._running:
            task = asyncio.create_task(self._ask(name, is_local=is_local))
            task.add_done_callback(_note_exception)
            self._running[name] = task
        return await asyncio.shield(self._running[name])

    async def _ask(self, name: str, *, is_local: bool) -> list[str]:
        try:
            if is_local:
                return await wait_in_thread(lambda: _system_addresses(name))
            if not _process_lookups.acquire(blocking=False):
                other = f"{MAX_PROCESS_LOOKUPS} other look-ups have no answer yet"
                raise TooManyLookups(f"the name {name} was not looked up: {other}")
            return await wait_in_thread(lambda: _counted_addresses(name))
        finally:
            del self._running[name]
            if not is_local:
                self._slots.release()


def _note_exception(task: asyncio.Task[list[str]]) -> None:
    """Every attempt that waited may have ended: then nobody else takes the exception, and asyncio would log it."""
    if not task.cancelled():
        task.exception()


def _counted_addresses(name: str) -> list[str]:
    try:
        return _system_addresses(name)
    finally:
        _process_lookups.release()


def _system_addresses(name: str) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
