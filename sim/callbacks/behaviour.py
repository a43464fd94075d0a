"""The random and timed behaviour of a receiver: a share of failures, a distribution of latencies, and times when it is
down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from leyden.arguments import MAX_SPAN_MS
from leyden.callbacks.callback_rows import BehaviourRow, DownRow, ReplyRow
from leyden.callbacks.replies import REFUSED, ReplySpec, stored_reply, word_of
from leyden.distributions import Distribution, DistributionText, span_distribution, whole_draw
from leyden.errors import ArgumentError
from leyden.rng import RandomStream
from leyden.server.printable import quoted
from leyden.server.timestamps import parse_iso, to_iso

Window = tuple[str, str]

_TIME = re.compile(r"([01][0-9]|2[0-4]):([0-5][0-9])(?::([0-5][0-9]))?")
_DAY_MS = 86_400_000
_WINDOWS_SHOWN = 2
_DOWN = stored_reply(REFUSED)


def behaviour_row(
    failure: float, fails_with: ReplySpec, latency: DistributionText | None, down: Window | Sequence[Window]
) -> BehaviourRow:
    """The behaviour as a row. Raises `ValueError`, with what to do instead, for what is none."""
    if isinstance(failure, bool) or not isinstance(failure, int | float) or not 0 <= failure <= 1:
        raise ArgumentError(f"failure={quoted(failure, 60)} is no share: give a number from 0 to 1")
    return {
        "failure": float(failure),
        "fails_with": stored_reply(fails_with),
        "latency": None if latency is None else span_distribution(latency, "latency"),
        "down": [_window(each) for each in _windows(down)],
    }


def is_down(behaviour: BehaviourRow, now_ms: int) -> bool:
    """Whether the receiver is down at this instant."""
    return any(_is_within(window, now_ms) for window in behaviour["down"])


def down_reply() -> ReplyRow:
    """The result of an attempt while the receiver is down: the connection is refused."""
    return _DOWN


def drawn_reply(behaviour: BehaviourRow, usual: ReplyRow, random: RandomStream) -> ReplyRow:
    """The reply to a callback while the receiver is up: a failure or the `usual` reply, delayed by the latency. It
    always makes two draws, so that another share of failures does not change the latencies."""
    place = random.uniform()
    latency = behaviour["latency"] or ["const", 0]
    late_ms = whole_draw(latency, random, 0, MAX_SPAN_MS)
    reply = behaviour["fails_with"] if place < behaviour["failure"] else usual
    return {**reply, "delay_ms": min(reply["delay_ms"] + late_ms, MAX_SPAN_MS)}


def described(behaviour: BehaviourRow) -> str:
    """The behaviour in a few words."""
    parts = []
    if behaviour["failure"]:
        parts.append(f"{word_of(behaviour['fails_with'])} for {behaviour['failure']:.4g} of the callbacks")
    if behaviour["latency"] is not None:
        parts.append(f"latency {_latency_text(behaviour['latency'])}")
    if behaviour["down"]:
        shown = [_window_text(window) for window in behaviour["down"][:_WINDOWS_SHOWN]]
        more = len(behaviour["down"]) - len(shown)
        parts.append(
            f"down {' and '.join(shown)}" + (f" and in {more} more window{'s' if more > 1 else ''}" if more else "")
        )
    return ", ".join(parts)


def _window_text(window: DownRow) -> str:
    if not window["daily"]:
        return f"from {to_iso(window['from_ms'])} to {to_iso(window['until_ms'])}"
    since, until = _time_text(window["from_ms"]), _time_text(window["until_ms"])
    return f"daily from {since} to {until}"


def _time_text(time_ms: int) -> str:
    hours, rest_s = divmod(time_ms // 1_000, 3_600)
    return f"{hours:02}:{rest_s // 60:02}:{rest_s % 60:02}".removesuffix(":00")


def _latency_text(distribution: Distribution) -> str:
    """The text of a distribution of spans, as `span_distribution` reads it."""
    name, *values = distribution
    if name == "const":
        return _span_text(values[0])
    if name == "choice":
        return f"choice({', '.join(f'{_span_text(value)}:{weight:g}' for value, weight in values[0])})"
    if name == "clip":
        return f"clip({_latency_text(values[0])}, {_span_text(values[1])}, {_span_text(values[2])})"
    first, *rest = values
    shown = [_span_text(first)]
    for place, value in enumerate(rest):
        is_span = name in ("uniform", "normal") or place == 1
        shown += [] if value is None else [_span_text(value) if is_span else f"{value:g}"]
    return f"{name}({', '.join(shown)})"


def _span_text(span: int) -> str:
    return f"{span}ms" if span % 1_000 else f"{span // 1_000}s"


def _is_within(window: DownRow, now_ms: int) -> bool:
    since, until = window["from_ms"], window["until_ms"]
    if not window["daily"]:
        return since <= now_ms < until
    now_ms %= _DAY_MS
    return since <= now_ms < until if since < until else now_ms >= since or now_ms < until


def _windows(down: Window | Sequence[Window]) -> Iterable[Window]:
    """One window, or a list of them."""
    if isinstance(down, str) or not isinstance(down, Iterable):
        raise _no_window(down)
    try:
        found: list[Any] = list(down)
    except TypeError:  # an array without a dimension
        raise _no_window(down) from None
    is_one = len(found) == 2 and not any(isinstance(end, list | tuple) for end in found)
    return [(found[0], found[1])] if is_one else found


def _window(given: Window) -> DownRow:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise _no_window(given)
    times = [_time_ms(end) for end in given]
    is_daily = [time is not None for time in times]
    if all(is_daily):
        since, until = (time for time in times if time is not None)
        if since % _DAY_MS == until % _DAY_MS:
            raise ArgumentError(f"down={quoted(given, 80)} has no length: give two times of the day")
        return {"daily": True, "from_ms": since % _DAY_MS, "until_ms": until}
    if any(is_daily):
        raise _no_window(given)
    since, until = (_instant_ms(end, given) for end in given)
    if since >= until:
        raise ArgumentError(f"down={quoted(given, 80)} ends before it begins: give the earlier instant first")
    return {"daily": False, "from_ms": since, "until_ms": until}


def _time_ms(end: str) -> int | None:
    """A time of the day in ms, or None for anything else."""
    found = _TIME.fullmatch(end) if isinstance(end, str) else None
    if found is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    time_ms = ((hours * 60 + minutes) * 60 + seconds) * 1_000
    return time_ms if time_ms <= _DAY_MS else None


def _instant_ms(end: str, given: object) -> int:
    try:
        return parse_iso(end)
    except (AttributeError, TypeError, ValueError):
        raise _no_window(given) from None


def _no_window(given: object) -> ArgumentError:
    return ArgumentError(
        f"down={quoted(given, 80)} is no window: give two times of every day (UTC), such as ('12:00', '14:00'), two "
        "instants such as ('2030-01-01T12:00:00Z', '2030-01-01T14:00:00Z'), or a list of such windows"
    )
