"""The conditions of a network as texts: `ideal`, `realistic`, `uptime=0.9,outage=2h`, `ideal,latency=50ms`.

ideal, realistic   the conditions to begin with; realistic without one of them
uptime             the share of time in which a node is online, 0.001 to 1 (0.98); the shop's node has its own, and a
                   payer's node sends its payments at any time: who pays is online. A node that is offline forwards
                   nothing, in either direction: what is on its way waits until it is back, or expires
shop_uptime        the same for the shop's node, 0.001 to 1 (1)
outage             how long a node is offline on average (30m)
latency            the median time of a message over one hop (120ms)
latency_sigma      the standard deviation of its logarithm, 0 to 3 (0.6)
slow               the share of nodes that are slow, 0 to 1 (0.1)
slow_factor        how many times longer a message to a slow node takes, 1 to 1000 (8)
stuck              the probability that an HTLC gets stuck at a hop, 0 to 1 (0.001)
stuck_time         how long it is stuck on average (3h). If that is longer than the HTLC may live, the channel is force
                   closed: with these values in one of about 100,000 attempts over two channels or more. Before the
                   last node 83 blocks are left, nearly 14 hours: e**(-13.8/3) of one in a thousand; earlier there are
                   more
block_time         the mean time between blocks (10m)

In brackets: the value in realistic conditions. They are assumptions, not measurements of the public network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from leyden.arguments import span_from
from leyden.errors import GraphError
from leyden.lightning.engine.network_conditions import IDEAL, REALISTIC, NetworkConditions
from leyden.server.printable import quoted
from leyden.server.spelling import closest

PRESETS: Mapping[str, NetworkConditions] = {"ideal": IDEAL, "realistic": REALISTIC}

# What can be written: a text, or its parts by name, such as `{"uptime": 0.9, "outage": "2h"}`.
ConditionOptions = str | Mapping[str, str | float | timedelta]


def network_conditions(options: str) -> NetworkConditions:
    """The conditions that a text describes; empty: realistic ones. Raises `GraphError`."""
    found = REALISTIC
    for number, part in enumerate(options.split(",") if options else ()):
        part = part.strip()
        name, is_given, value = part.partition("=")
        if number == 0 and part in PRESETS:
            found = PRESETS[part]
        elif is_given and name in _READERS:
            field, reader = _READERS[name]
            found = replace(found, **{field: reader(name, value)})
        else:
            near = closest(name, [*_READERS, *PRESETS])
            mend = f"did you mean {near}" if near else f"choose from {', '.join([*PRESETS, *_READERS])}"
            raise GraphError(f"conditions: {quoted(part, 60)} is none: {mend}; a value follows =, as in uptime=0.9")
    return found


def condition_text(options: ConditionOptions) -> str:
    """Options as one text. Raises `GraphError` for what describes no conditions."""
    if isinstance(options, Mapping):
        options = ",".join(f"{name}={_shown(name, value)}" for name, value in options.items())
    if not isinstance(options, str):
        raise GraphError(
            f'conditions={quoted(options, 60)} is none: give "ideal", "realistic" or "uptime=0.9,outage=2h"'
        )
    network_conditions(options)
    return options


def described(conditions: NetworkConditions) -> str:
    """The conditions as a text that has every value."""
    names = {field: name for name, (field, _) in _READERS.items()}
    values = {one.name: getattr(conditions, one.name) for one in fields(conditions)}
    return ", ".join(
        f"{names[field]}={_time(value) if field.endswith('_ms') else f'{value:g}'}" for field, value in values.items()
    )


def _number(least: str, most: str) -> Callable[[str, str], float]:
    def read(name: str, text: str) -> float:
        try:
            value = Decimal(text)
        except InvalidOperation:
            value = Decimal("NaN")
        if not (value.is_finite() and Decimal(least) <= value <= Decimal(most)):
            raise GraphError(
                f"conditions: {name}={quoted(text[:40])} is out of bounds: give a number from {least} to {most}"
            )
        return float(value)

    return read


def _milliseconds(name: str, text: str) -> float:
    try:
        return float(span_from(name, text, least_ms=1))
    except ValueError as error:
        raise GraphError(f"conditions: {name}: {error}") from None


_READERS: Mapping[str, tuple[str, Callable[[str, str], float]]] = {
    "uptime": ("up_share", _number("0.001", "1")),
    "shop_uptime": ("shop_up_share", _number("0.001", "1")),
    "outage": ("mean_down_ms", _milliseconds),
    "latency": ("hop_median_ms", _milliseconds),
    "latency_sigma": ("hop_sigma_log", _number("0", "3")),
    "slow": ("slow_share", _number("0", "1")),
    "slow_factor": ("slow_factor", _number("1", "1000")),
    "stuck": ("stuck_share", _number("0", "1")),
    "stuck_time": ("mean_stuck_ms", _milliseconds),
    "block_time": ("mean_block_ms", _milliseconds),
}


def _shown(name: str, value: Any) -> str:
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)}ms"
    is_seconds = isinstance(value, (int, float)) and _READERS.get(name, ("", None))[1] is _milliseconds
    return f"{value}s" if is_seconds else str(value)


def _time(milliseconds: float) -> str:
    whole = int(milliseconds)
    size, unit = next((size, unit) for size, unit in _UNITS if whole % size == 0)
    return f"{whole // size}{unit}"


_UNITS = ((3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms"))
