"""The row of an interceptor."""

from __future__ import annotations

from typing import TypedDict

KINDS = ("delay", "fail", "drop", "offline")


class InterceptorRow(TypedDict):
    """An interceptor as it is stored; None: any, or without bound. `hop` -1 is the receiver, `acted` counts."""

    id: str
    kind: str
    payment: str | None
    hop: int | None
    node: int | None
    channel: int | None
    code: int | None
    delay_ms: int | None
    from_ms: int | None
    until_ms: int | None
    times: int | None
    acted: int


class RemovedInterceptorRow(InterceptorRow):
    """Table `removed_interceptors`: an interceptor as it was when it was removed, at `removed_at` (ms)."""

    removed_at: int
