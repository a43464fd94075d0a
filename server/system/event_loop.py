"""The event loop of a server and of the thread that sends callbacks: uvloop's where it is installed. And a way to run
one in a command."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from leyden.server.system.stop_signals import STOP_SIGNALS

Result = TypeVar("Result")

# The messages of uvloop, and of asyncio.
_TLS_ERROR, _UNREAD_ERROR = "Fatal error on SSL protocol", "Future exception was never retrieved"


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A fresh loop. The event loop policy of the process stays as it is."""
    try:
        # Its timers have a clock of their own: a test that stops the process's clock does not stop a timeout.
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop = uvloop.new_event_loop()
    loop.set_exception_handler(_log)
    return loop


def _log(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error for which no caller waits, unless it is that of a connection which was closed.

    When an attempt to connect with TLS times out in the turn of the loop in which its handshake succeeds, uvloop closes
    the socket and then writes the end of the handshake to it. When the handshake fails in that turn, nobody waits for
    the error.
    """
    is_of_closed = {_TLS_ERROR: RuntimeError, _UNREAD_ERROR: OSError}.get(str(context.get("message")))
    if is_of_closed is None or not isinstance(context.get("exception"), is_of_closed):
        loop.default_exception_handler(context)


def run_until_stopped(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, as of `asyncio.run`. A signal to stop cancels it, another one does not disturb its end, and
    then `KeyboardInterrupt` is raised. In another thread than the main one no signal arrives."""
    stops = STOP_SIGNALS if threading.current_thread() is threading.main_thread() else ()
    before = [signal.getsignal(number) for number in stops]
    is_stopped = False

    async def run() -> Result:
        nonlocal is_stopped
        task = asyncio.ensure_future(work)

        def stop() -> None:
            nonlocal is_stopped
            if not is_stopped:
                is_stopped = True
                task.cancel()

        with suppress(NotImplementedError):  # on Windows
            for number in stops:
                asyncio.get_running_loop().add_signal_handler(number, stop)
        return await task

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        if is_stopped:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number, handler in zip(stops, before, strict=True):
            signal.signal(number, handler)
