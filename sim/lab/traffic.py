"""Traffic: streams of simulated customers who arrive, see a Charge and pay it or not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from leyden.arguments import MAX_SPAN_MS, span_from, whole_number
from leyden.distributions import (
    Distribution,
    DistributionText,
    msat_distribution,
    payer_distribution,
    seconds_distribution,
    span_distribution,
    word_distribution,
)
from leyden.errors import DistributionError
from leyden.server.timestamps import to_iso
from leyden.world.traffic import BEHAVIOURS, DAY_MS, TrafficSettings

if TYPE_CHECKING:
    from datetime import timedelta

    from leyden.world.world import World

HOUR_MS = 3_600_000
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*/\s*([a-z0-9.]+)")
_CALL = re.compile(r"([a-z]+)\s*\((.*)\)", re.DOTALL)
_UNITS = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_LEAST_GAP_MS = 1e-6
_FORMS = '"30/min", "every(2s)", "burst(20, 10m)", "daily(30/min, 8:1, 12:3, 22:0)"'


class Traffic:
    """One stream of customers. They arrive when time moves."""

    def __init__(self, world: World, traffic_id: str) -> None:
        self._world = world
        self.id = traffic_id

    @property
    def row(self) -> dict[str, Any]:
        """The row of the stream in the world's store."""
        return dict(self._world.traffic.rows.existing(self.id))

    @property
    def arrived(self) -> int:
        """The number of customers so far."""
        return int(self.row["arrived"])

    @property
    def refused(self) -> int:
        """The number of customers whose Charge the service refused (4xx); the journal has the reasons."""
        return int(self.row["refused"])

    def stop(self) -> Traffic:
        """Stop new arrivals; customers who have arrived continue."""
        with self._world.exclusive():
            self._world.traffic.stop(self.id)
        return self

    def __repr__(self) -> str:
        row = self.row
        arguments = ", ".join(f"{name}={value!r}" for name, value in row["settings"]["arguments"].items())
        following = "ended" if row["next_at"] is None else f"the next at {to_iso(row['next_at'])}"
        return f"Traffic({arguments}): {row['arrived']} arrived, {row['refused']} refused, {following}"


def traffic(
    world: World,
    rate: str = "30/min",
    *,
    amount: DistributionText = "lognorm(250000, 1)",
    patience: DistributionText | None = "lognorm(45s)",
    think_time: DistributionText = "lognorm(15s)",
    expiresIn: DistributionText = 300,
    behaviours: str = "pays",
    payers: int | str | Sequence[str] = 100,
    callbackUrl: str | None = None,
    description: str = "Traffic",
    duration: str | float | timedelta | None = "1d",
    count: int | None = None,
) -> Traffic:
    """Start a stream of customers. Each one sees a Charge of its own and pays it over Lightning, or not.

    `rate` is the arrival process: `30/min` (Poisson), `every(2s)`, `burst(20, 10m)` (twenty at once every ten minutes),
    `daily(30/min, 8:1, 12:3, 22:0)` (Poisson, 30 a minute on average, three times as many from 12:00 UTC as from 8:00,
    none from 22:00).
    `amount` is in msat. `think_time` is the time from seeing the Charge to paying it. A customer leaves without paying
    after `patience`, counted from the same instant; of a payment that is in flight then no more parts are sent, and
    those on their way still count (`patience=None`: never). `expiresIn` is in seconds, 1 or more. All of these are
    distributions (`leyden.distributions`, which says what becomes of draws that are too small or too large).
    `behaviours` are those of `leyden.world.traffic.BEHAVIOURS`: `pays`, or for example `choice(pays:90, late:4,
    never:3, twice:3)`. `payers` is a number of wallets or their names; each customer uses one of them.

    Customers arrive for `duration` (None: without end, so `run()` never returns) and at most `count` of them. An amount
    that the service refuses (4xx) is counted as `refused`; where it fails by a defect (500), the move of time
    raises `Problem`, and the customer has not arrived.
    All random numbers come from the stream `traffic/<id>`; `leyden.world.traffic.TrafficGenerator` says what stays the
    same when distributions change. Raises `DistributionError` for a text that cannot be read, and
    for a `callbackUrl` or a `description` that the service refuses.
    """
    world.config.contract.operation("createCharge")  # raises when the document leaves it out
    limit = None if count is None else _checked(whole_number, "count", count, 1)
    span_ms = None if duration is None else _checked(span_from, "duration", duration, least_ms=1)
    if not isinstance(description, str):
        raise DistributionError(f"description: {description!r} is not a text: give the description of the Charges")
    _check_fields(world, callbackUrl=callbackUrl, description=description)
    settings: TrafficSettings = {
        "arrivals": arrival_process(rate),
        "amount": msat_distribution(amount),
        "behaviour": behaviour_distribution(behaviours),
        "payer": payer_distribution(payers),
        "think_time": span_distribution(think_time, "think_time"),
        "patience": None if patience is None else span_distribution(patience, "patience"),
        "expiresIn": seconds_distribution(expiresIn),
        "callbackUrl": callbackUrl,
        "description": description,
        "arguments": {"rate": rate, "amount": str(amount), "patience": str(patience), "expiresIn": str(expiresIn)},
    }
    with world.exclusive():
        ends_at = None if span_ms is None else world.clock.now() + span_ms
        row = world.traffic.start(settings, ends_at=ends_at, limit=limit)
    return Traffic(world, row["id"])


def _checked(check: Callable[..., int], name: str, value: Any, *bounds: Any, **named: Any) -> int:
    """What `check` returns. Raises `DistributionError` for what it refuses."""
    try:
        return check(name, value, *bounds, **named)
    except (TypeError, ValueError) as error:
        raise DistributionError(f"{name}: {error}") from None


def _check_fields(world: World, **fields: Any) -> None:
    """Raise `DistributionError` for a field that the service refuses, whatever the amount is."""
    body = world.config.contract.operation("createCharge").body
    wrong = () if body is None else body.rule.validator.iter_errors({k: v for k, v in fields.items() if v is not None})
    for name in (str(error.instance_path[0]) for error in wrong if error.instance_path):
        mend = 'write for example "http://shop.localhost/paid"' if name == "callbackUrl" else "give another text"
        raise DistributionError(f"{name}: the service refuses {fields[name]!r}: {mend}")


def arrival_process(text: str) -> Distribution:
    """The arrival process as the world stores it. Raises `DistributionError` with the possible forms."""
    if not isinstance(text, str):
        raise DistributionError(f"rate: {text!r} has no unit of time: write for example {_FORMS}")
    call = _CALL.fullmatch(text.strip())
    if call is None:
        return ["poisson", _gap_ms(text)]
    parts = [part.strip() for part in call[2].split(",")]
    if call[1] == "every" and len(parts) == 1:
        return ["every", _span_ms(parts[0])]
    if call[1] == "burst" and len(parts) == 2 and re.fullmatch("[1-9][0-9]{0,14}", parts[0]):
        return ["burst", int(parts[0]), _span_ms(parts[1])]
    if call[1] == "daily" and len(parts) > 1:
        return _daily(_gap_ms(parts[0]), parts[1:])
    raise DistributionError(f"rate: {text!r} cannot be read: write one of {_FORMS}")


def _gap_ms(text: str) -> float:
    found = _RATE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise DistributionError(f"rate: {text!r} cannot be read: write one of {_FORMS}")
    unit = _UNITS.get(found[2], found[2])
    gap_ms = _span_ms(unit if unit[:1].isdigit() else f"1{unit}") / float(found[1])
    if not _LEAST_GAP_MS <= gap_ms <= MAX_SPAN_MS:
        raise DistributionError(f"rate: {text!r:.60} is out of bounds: give one in 1000 years to 1000000/ms")
    return gap_ms


def _span_ms(text: str) -> int:
    return _checked(span_from, "rate", text, least_ms=1)


def _daily(gap_ms: float, parts: list[str]) -> Distribution:
    """The profile of a day as steps: the start of each (ms of the day), and the customers per ms from there."""
    weights: dict[int, float] = {}
    for part in parts:
        hour, _, weight = part.partition(":")
        try:
            weights[int(hour)] = float(weight)
        except ValueError:
            raise DistributionError(f"rate: {part!r} is not an hour with a weight: write for example 12:3") from None
    if any(not 0 <= hour <= 23 for hour in weights) or not all(0 <= each < 1e9 for each in weights.values()):
        raise DistributionError("rate: hours are 0 to 23, their weights 0 or more")
    hours = sorted(weights)
    # The weight of the last hour also holds before the first one: days follow each other.
    steps = ([] if hours[0] == 0 else [(0, weights[hours[-1]])]) + [(hour * HOUR_MS, weights[hour]) for hour in hours]
    ends = [start for start, _ in steps[1:]] + [DAY_MS]
    total = sum(weight * (end - start) for (start, weight), end in zip(steps, ends, strict=True))
    if total < 1e-9 * DAY_MS:
        raise DistributionError("rate: the weights are 0 on average, so no customer would arrive: give larger ones")
    scale = DAY_MS / total / gap_ms
    return ["daily", [start for start, _ in steps], [weight * scale for _, weight in steps]]


def behaviour_distribution(value: str) -> Distribution:
    """What payers do, from `leyden.world.traffic.BEHAVIOURS`: `pays`, `choice(pays:9, never:1)`. Raises
    `DistributionError`."""
    return word_distribution(value, "behaviours", _behaviour)


def _behaviour(text: str) -> str:
    if text not in BEHAVIOURS:
        raise ValueError(f"there is no {text!r}: choose from {', '.join(BEHAVIOURS)}")
    return text
