"""The conditions of a network as texts: `ideal`, `realistic`, `uptime=0.9,outage=2h`, `ideal,latency=50ms`.

ideal, realistic   the conditions to begin with; realistic without one of them
uptime             the share of time in which a node is online, 0.001 to 1 (0.98); the shop's node has its own, and a
                   payer's node sends its payments at any time: who pays is online. A node that is offline forwards
                   nothing, in either direction: what is on its way waits until it is back, or expires
shop_uptime        the same for the shop's node, 0.001 to 1 (1)
outage             how long a node is offline on average (30m)
offline_code       what the node before one that is offline answers (unknown_next_peer)
                   unknown_next_peer          as LND: a link that is not eligible to forward; the payer goes around
                   temporary_channel_failure  as Core Lightning and the letter of BOLT 4: the payer tries smaller parts
latency            the median time of a message over one hop (120ms)
latency_sigma      the standard deviation of its logarithm, 0 to 3 (0.6)
slow               the share of nodes that are slow, 0 to 1 (0.1)
slow_factor        how many times longer a message to a slow node takes, 1 to 1000 (8)
stuck              the probability that an HTLC gets stuck at a hop, 0 to 1 (0.001)
stuck_time         how long it is stuck on average (3h), exponentially distributed: no measurement of such times was
                   found, only reports of single ones, from minutes to the expiry. If it is longer than the HTLC may
                   live, the channel is force closed: with these values in one of about 100,000 attempts over two
                   channels or more. Before the last node 83 blocks are left, nearly 14 hours: e**(-13.8/3) of one in a
                   thousand; earlier there are more
block_time         the mean time between blocks (10m)
liquidity          how channels are divided between their sides at the start: uniform, or bimodal as LND's estimator
                   assumes (`leyden.lightning.topology.liquidity`). A graph whose channels have balances keeps them
                   without it; all others are uniform
shop               the receiving node: random (any node), largest (that with the most channels), or the name or public
                   key of one. Without it: of a scale-free network a node with 10 to 50 channels, of a graph from a file
                   the largest, of other shapes the last node
payers             where wallets are: funded, on nodes with at least 1,000,000 sat of their own in two channels or more
                   (without it, too), or random, on any node but the shop's. Chances that a payment has a way are in
                   `leyden.lightning.topology.placement`
payer              how payers learn and choose routes; what is modelled of each is in `leyden.lightning.payer_models`.
                   Those of an implementation do not try a channel of their own to a node that is offline
                   leyden       as without it: this simulation's own (`sim/lightning/README.md`)
                   lnd          as LND with its default estimator (a priori)
                   lnd-bimodal  as LND with its bimodal estimator
                   ldk          as LDK with its probabilistic scorer
                   cln          as Core Lightning's xpay, with routes from askrene
background         payments an hour between nodes that wallets may be on, as `payers` says; never the shop's (0)
background_amount  their median in sat, 1 to 10**9; log-normal, with a standard deviation of 1 of the logarithm (50000)
spending           the share of what the shop was paid that it spends at the end of the hour, 0 to 1 (0)
swap               the shop swaps out at the end of an hour if it can receive less than this share of its capacity, 0 to
                   0.5, and can then receive half of it (0)
liquidity_scale    of bimodal: the sat by which the density of a side's balance falls to 1/e, 1 to 10**12 (300000)
parallel           of a scale-free network: the share of channels that are further ones between two nodes, 0 to 0.5 (0;
                   in the snapshot after which these networks are made it is 0.11). A node forwards over any channel to
                   the same peer that has enough (`leyden.lightning.engine.channels.Channels.other_edge`)
fees               of a generated network: the fees, limits and disabled channels of a year, 2021 or 2024 (2021); the
                   sources, and what is assumed, are in `leyden.lightning.topology.policies`

In brackets: the value in realistic conditions. They are assumptions, not measurements of the public network. The last
value counts of one that is given twice.
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
from leyden.lightning.failure_codes import FAILURE_NAMES, FailureCode
from leyden.lightning.routing.payer_names import LEYDEN, PAYER_NAMES
from leyden.lightning.topology.liquidity import SHAPES, LiquidityFunction
from leyden.lightning.topology.placement import FUNDED, PAYER_PLACES, SHOP_PLACES
from leyden.lightning.topology.policies import FEES, FEES_2021
from leyden.server.printable import cut, quoted
from leyden.server.spelling import closest

PRESETS: Mapping[str, NetworkConditions] = {"ideal": IDEAL, "realistic": REALISTIC}

# What can be written: a text, or its parts by name, such as `{"uptime": 0.9, "outage": "2h"}`.
# `liquidity` may also be a function there.
ConditionOptions = str | Mapping[str, str | float | timedelta | LiquidityFunction]


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
            changed: dict[str, Any] = {field: reader(name, value)}
            found = replace(found, **changed)
        else:
            near = closest(name, [*_READERS, *PRESETS])
            mend = f"did you mean {near}" if near else f"choose from {', '.join([*PRESETS, *_READERS])}"
            if part in PRESETS:
                raise GraphError(f"conditions: {part} is what the others change: write it first, and once")
            raise GraphError(f"conditions: {quoted(part, 60)} is none: {mend}; a value follows =, as in uptime=0.9")
    return found


def condition_text(options: ConditionOptions) -> str:
    """Options as one text, without a function. Raises `GraphError` for what describes no conditions."""
    if isinstance(options, Mapping):
        options = ",".join(f"{name}={_shown(name, value)}" for name, value in options.items() if not callable(value))
    if not isinstance(options, str):
        raise GraphError(
            f'conditions={quoted(options, 60)} is none: give "ideal", "realistic" or "uptime=0.9,outage=2h"'
        )
    network_conditions(options)
    return options


def liquidity_function(options: ConditionOptions) -> LiquidityFunction | None:
    """The function of `liquidity`, if it is one. Raises `GraphError` for a function of anything else."""
    given = dict(options) if isinstance(options, Mapping) else {}
    functions: dict[str, Any] = {name: value for name, value in given.items() if callable(value)}
    for name in functions:
        if name != "liquidity":
            raise GraphError(f"conditions: {name} is a function: only liquidity may be one")
        if "liquidity_scale" in given:
            raise GraphError("conditions: a function of liquidity has no liquidity_scale: leave it out")
    return functions.get("liquidity")


def check_for_graph(options: str, former: str = "") -> None:
    """Raise `GraphError` for conditions that only a generated network can have, unless they are among the `former`
    ones, with which it was generated: a graph has its channels already."""
    for part in options.split(","):
        if part.strip().partition("=")[0] in _OF_GENERATED and part not in former.split(","):
            raise GraphError(
                f"conditions: {quoted(part.strip(), 60)} is of generated networks, and this one has its channels and"
                " policies: leave it out"
            )


def described(conditions: NetworkConditions) -> str:
    """The conditions as a text that has every value; those of generated networks alone only if they differ from the
    default."""
    names = {field: name for name, (field, _) in _READERS.items()}
    values = {one.name: getattr(conditions, one.name) for one in fields(conditions)}
    values |= {field: values[field] or default for field, default in (("payers", FUNDED), ("payer", LEYDEN))}
    values["parallel_share"] = values["parallel_share"] or ""
    return ", ".join(f"{names[field]}={_value(field, value)}" for field, value in values.items() if value != "")


def _value(field: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if field == "offline_code":
        return FAILURE_NAMES[int(value)]
    return _time(value) if field.endswith("_ms") else f"{value:g}"


def _number(least: str, most: str) -> Callable[[str, str], float]:
    def read(name: str, text: str) -> float:
        try:
            value = Decimal(text)
        except InvalidOperation:
            value = Decimal("NaN")
        if not (value.is_finite() and Decimal(least) <= value <= Decimal(most)):
            raise GraphError(
                f"conditions: {name}={quoted(cut(text, 40))} is out of bounds: give a number from {least} to {most}"
            )
        return float(value)

    return read


def _liquidity(name: str, text: str) -> str:
    if text not in SHAPES:
        raise GraphError(
            f"conditions: {name}={cut(text, 40)!r} is none: give {' or '.join(SHAPES)}, or a function in a mapping,"
            " such as {'liquidity': function}"
        )
    return text


def _shop(name: str, text: str) -> str:
    if not text.strip():
        raise GraphError(f"conditions: {name} is empty: give {', '.join(SHOP_PLACES)} or the name of a node")
    return text.strip()


def _payers(name: str, text: str) -> str:
    if text not in PAYER_PLACES:
        raise GraphError(f"conditions: {name}={cut(text, 40)!r} is none: give {' or '.join(PAYER_PLACES)}")
    return "" if text == FUNDED else text


def _payer(name: str, text: str) -> str:
    if text not in PAYER_NAMES:
        raise GraphError(f"conditions: {name}={cut(text, 40)!r} is none: give {', '.join(PAYER_NAMES)}")
    return "" if text == LEYDEN else text


def _fees(name: str, text: str) -> str:
    if text not in FEES:
        raise GraphError(f"conditions: {name}={cut(text, 40)!r} is none: give {' or '.join(FEES)}")
    return "" if text == FEES_2021 else text


def _offline_code(name: str, text: str) -> int:
    if text not in _OFFLINE_CODES:
        raise GraphError(f"conditions: {name}={cut(text, 40)!r} is none: give {' or '.join(_OFFLINE_CODES)}")
    return _OFFLINE_CODES[text]


def _milliseconds(name: str, text: str) -> float:
    try:
        return float(span_from(name, text, least_ms=1))
    except ValueError as error:
        raise GraphError(f"conditions: {name}: {error}") from None


_OFFLINE_CODES = {
    FAILURE_NAMES[code]: code for code in (FailureCode.UNKNOWN_NEXT_PEER, FailureCode.TEMPORARY_CHANNEL_FAILURE)
}
_READERS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "uptime": ("up_share", _number("0.001", "1")),
    "shop_uptime": ("shop_up_share", _number("0.001", "1")),
    "outage": ("mean_down_ms", _milliseconds),
    "offline_code": ("offline_code", _offline_code),
    "latency": ("hop_median_ms", _milliseconds),
    "latency_sigma": ("hop_sigma_log", _number("0", "3")),
    "slow": ("slow_share", _number("0", "1")),
    "slow_factor": ("slow_factor", _number("1", "1000")),
    "stuck": ("stuck_share", _number("0", "1")),
    "stuck_time": ("mean_stuck_ms", _milliseconds),
    "block_time": ("mean_block_ms", _milliseconds),
    "liquidity": ("liquidity", _liquidity),
    "shop": ("shop", _shop),
    "payers": ("payers", _payers),
    "payer": ("payer", _payer),
    "liquidity_scale": ("liquidity_scale_sat", _number("1", "1000000000000")),
    "parallel": ("parallel_share", _number("0", "0.5")),
    "fees": ("fees", _fees),
    "background": ("background_per_hour", _number("0", "1000000")),
    "background_amount": ("background_amount_sat", _number("1", "1000000000")),
    "spending": ("spending_share", _number("0", "1")),
    "swap": ("swap_share", _number("0", "0.5")),
}


_OF_GENERATED = ("parallel", "fees")


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
