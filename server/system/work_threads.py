"""Long work in a thread, while the event loop answers other requests."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from leyden.server.gc_pause import gc_in_parts

Result = TypeVar("Result")

# While work runs, the event loop gets the lock of the interpreter back after this time (the default is 5 ms). A request
# needs the lock several times: after each system call.
SWITCH_S = 0.0005

# More at a time would not end earlier: they share the lock of the interpreter, and each may take much memory.
MOST_AT_A_TIME = 2

_NAME = "leyden-work"

_turns = threading.Semaphore(MOST_AT_A_TIME)
_lock = threading.Lock()
_running = 0
_usual_s = 0.0


async def run_in_thread(work: Callable[[], Result]) -> Result:
    """The result of `work()`, which runs in a thread of its own, with `MOST_AT_A_TIME` at a time. It may use only what
    no other thread changes.

    The end of the process does not wait for it: the thread is a daemon.
    """

    def computed() -> Result:
        with _turns:
            _begin()
            try:
                with gc_in_parts():  # a full collection would hold the lock for long
                    return work()
            finally:
                _end()

    return await wait_in_thread(computed)


async def wait_in_thread(work: Callable[[], Result]) -> Result:
    """The result of `work()`, which mostly waits, in a thread of its own. As `run_in_thread`, without a preference."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def end(result: Result | None, error: BaseException | None) -> None:
        if future.done():  # the request was cancelled
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(end, result, error)

    threading.Thread(target=run, name=_NAME, daemon=True).start()
    return await future


def is_working() -> bool:
    """Whether a thread of this module runs. At the end of the interpreter one in native code would end the process with
    an error of its own: end it by `os._exit` then."""
    return any(thread.name == _NAME for thread in threading.enumerate())


def _begin() -> None:
    global _running, _usual_s
    with _lock:
        if not _running:
            _usual_s = sys.getswitchinterval()
            sys.setswitchinterval(min(SWITCH_S, _usual_s))
        _running += 1


def _end() -> None:
    global _running
    with _lock:
        _running -= 1
        if not _running:
            sys.setswitchinterval(_usual_s)
