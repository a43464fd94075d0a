"""The event loop of a server and of the thread that sends callbacks: uvloop's where it is installed."""

from __future__ import annotations

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A fresh loop. The event loop policy of the process stays as it is."""
    try:
        # Its timers have a clock of their own: a test that stops the process's clock does not stop a timeout.
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
