"""Traffic: streams of simulated customers who arrive, see a Charge and pay it or not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from leyden.arguments import checked_share, hint, is_utf8, real_number, span_from, whole_number, with_hints
from leyden.distributions import (
    Distribution,
    Reader,
    msat_value,
    payer_distribution,
    seconds_distribution,
    seconds_value,
    span_value,
    value_distribution,
    word_distribution,
)
from leyden.errors import ArgumentError, DistributionError, PayerError
from leyden.lab.rates import arrival_process, per_minute
from leyden.lightning.payer.payment_requests import request_kind
from leyden.repr_tables import html_table
from leyden.rng import RandomStream
from leyden.samples import drawn_expiry, drawn_msat, drawn_seconds, plain_rate, plain_values
from leyden.server.contract.schema_errors import several_errors
from leyden.server.printable import quoted
from leyden.server.timestamps import to_iso
from leyden.world.interrupts import interrupts
from leyden.world.traffic.requests import Refusal
from leyden.world.traffic.rows import BEHAVIOURS, TrafficSettings

if TYPE_CHECKING:
    from leyden.world.world import World

# A text, a number, values with the same probability (a list, an array, a Series), values with weights, or a function.
Values = str | float | timedelta | Iterable[Any] | Mapping[Any, float] | Callable[[RandomStream], Any]
# A text, texts and functions to add, customers per minute from instants on, or a function of the time (UTC).
Rate = str | Sequence[Any] | Mapping[Any, Any] | Callable[[datetime], Any]


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
        """The number of visits in which the service refused a Charge or an invoice; the journal has the reasons."""
        return int(self.row["refused"])

    @property
    def returned(self) -> int:
        """The number of visits of customers who came back."""
        return int(self.row.get("returned", 0))

    def stop(self) -> Traffic:
        """Stop new arrivals and returns; customers who have arrived continue."""
        with self._world.exclusive():
            self._world.traffic.stop(self.id)
        return self

    def __repr__(self) -> str:
        row = self.row
        arguments = ", ".join(f"{name}={value!r}" for name, value in row["settings"]["arguments"].items())
        following = "ended" if row["next_at"] is None else f"the next at {to_iso(row['next_at'])}"
        returned = f", {row['returned']} returned" if row.get("returned") else ""
        return f"Traffic({arguments}): {row['arrived']} arrived{returned}, {row['refused']} refused, {following}"

    def _repr_html_(self) -> str:
        row = self.row
        counted = [(name, row.get(name, 0)) for name in ("arrived", "returned", "refused")]
        following = [] if row["next_at"] is None else [("next", to_iso(row["next_at"]))]
        rows = [*row["settings"]["arguments"].items(), *counted, *following]
        return html_table([(name, str(value)) for name, value in rows], caption=f"Traffic {self.id}")


@with_hints
def traffic(
    world: World,
    rate: Rate = "30/min",
    *,
    amount: Values | None = "lognorm(250000, 1)",
    patience: Values | None = "lognorm(45s)",
    think_time: Values = "lognorm(15s)",
    expiresIn: Values = 300,
    behaviours: str | Mapping[str, float] = "pays",
    payers: int | str | Sequence[str] | Mapping[str, float] = 100,
    to: str | None = None,
    returning: float = 0,
    return_after: Values = "exp(1d)",
    callbackUrl: str | None = None,
    description: str = "Traffic",
    duration: str | float | timedelta | None = "1d",
    count: int | None = None,
) -> Traffic:
    """Start a stream of customers. Each one sees a Charge of its own, or what `to` names, and pays it over Lightning or
    not.

    `rate` is the arrival process: `30/min` (Poisson), `every(2s)`, `burst(20, 10m)` (twenty at once every ten minutes),
    `daily(30/min, 8:1, 12:3, 22:0)` (Poisson, 30 a minute on average, three times as many from 12:00 UTC as from 8:00,
    none from 22:00), `weekly(30/min, mon-fri:1, sat 9:3, sun:0)` (the same by weekday and hour; each weight holds until
    the next one). A cycle without a rate is a factor with the mean 1, as in `30/min * daily(8:1, 22:0) * weekly(mon:1,
    sat:2)`. `+` and a list add: `["30/min", "burst(20, 10m)"]`. A mapping, or a Series, has the customers per minute
    from instants on, `{"2030-01-01T09:00Z": 30, "2030-01-01T12:00Z": 90}`; the last holds to the end. A function gets
    the time, a `datetime` in UTC, and returns the customers per minute or a text such as `90/h`. It is read when the
    stream starts, for each minute of the `duration` (for each 5 minutes, 15 minutes, hour, 6 hours, day or week of a
    long one, so that there are fewer than 10,000).

    `amount` is in msat. `think_time` is the time from seeing the Charge to paying it. A customer leaves without paying
    after `patience`, counted from the same instant; of a payment that is in flight then no more parts are sent, and
    those on their way still count (`patience=None`: never). `expiresIn` is in seconds, 1 or more. Each of these is a
    text (`leyden.distributions`, which also describes draws that are too small or too large), or values that are
    drawn with the same probability (a list, an array or a Series, at most 100,000), or a mapping from values to
    weights, or a function. A function gets the random stream `traffic/<id>/<argument>` (`leyden.rng.RandomStream`) and
    returns one value: msat, or seconds. It is called 10,000 times when the stream starts, and customers draw from these
    values; random numbers that it takes from elsewhere do not depend on the seed.
    `behaviours` are those of `leyden.world.traffic.rows.BEHAVIOURS`: `pays`, or for example `choice(pays:90, late:4,
    never:3, twice:3)`. `payers` is a number of wallets, or names of wallets or of nodes of the network; each customer
    uses one of them. They have weights in `choice(ana:5, bob:1)`, in a mapping, and in `zipf(100, 1.1)`: of 100 wallets
    number k has the weight k ** -1.1.

    `to` is a Static Charge's id, an LNURL or a Lightning address. Each customer asks it for an invoice of the amount,
    and pays that. The default of the amount is the only possible one, or the usual default within the bounds of the
    Static Charge; `expiresIn`, `description` and `callbackUrl` are those of the Static Charge, and may not be given.
    After each visit the customer comes back with the probability `returning` (0 or more, less than 1), `return_after`
    later (a span, as `think_time`), with the same wallet and everything else drawn anew.

    Customers arrive and return for `duration` (None: without end, so `run()` never returns), and at most `count` of
    them arrive. A customer whom the service refuses (4xx, an LNURL's error) is counted as `refused`. If the service
    fails by a defect (500), the move of time raises `Problem`, and the customer has not arrived. All random numbers
    come from the streams `traffic/<id>` and `traffic/<id>/...`; `leyden.world.traffic.generator.TrafficGenerator` says
    what stays the same when distributions change. Lists and the results of functions are stored in the sandbox: forks,
    saved sandboxes and scripts have them. Raises `DistributionError` for a value that cannot be read, and for a
    `callbackUrl` or a `description` that the service refuses.
    """
    given = {name: value for name, value in locals().items() if name != "world"}
    return start_traffic(world, plain_arguments(world, given))


def plain_arguments(world: World, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `traffic` as JSON values that start the same stream. Arguments with their default value are left
    out, except `rate`. Raises `DistributionError`."""
    span_ms = None if given["duration"] is None else _checked(span_from, "duration", given["duration"], least_ms=1)
    now = world.clock.now()
    ends_at = None if span_ms is None else now + span_ms
    plain = dict(given)

    def stream(name: str) -> Callable[[], RandomStream]:
        # A copy: its draws are not counted in the world.
        return lambda: world.streams.fork().stream(f"traffic/{world.traffic.next_id}/{name}")

    with interrupts.allowed():  # functions are code from outside
        plain["rate"] = plain_rate(given["rate"], now, ends_at, per_minute)
        for name, (_, drawn) in _QUANTITIES.items():
            plain[name] = plain_values(given[name], name, drawn, stream(name))
    for name in ("behaviours", "payers"):
        if isinstance(given[name], Mapping):
            plain[name] = {str(word): _weight(name, weight) for word, weight in given[name].items()}
    if span_ms is not None and type(given["duration"]) not in (str, int, float):  # numpy's numbers, too
        plain["duration"] = span_ms / 1_000
    if not isinstance(given["payers"], (str, Mapping)) and isinstance(given["payers"], Sequence):
        plain["payers"] = list(given["payers"])
    for name in ("count", "payers"):
        if given[name] is not None and not isinstance(given[name], (str, Sequence, Mapping)):
            plain[name] = _checked(whole_number, name, given[name], 1)
    _check_types(given)
    plain["returning"] = _returning(given["returning"])
    parameters = inspect.signature(traffic).parameters
    return {name: value for name, value in plain.items() if name == "rate" or value != parameters[name].default}


def start_traffic(world: World, plain: Mapping[str, Any]) -> Traffic:
    """Start a stream as `traffic` does, with arguments from `plain_arguments`."""
    parameters = list(inspect.signature(traffic).parameters.values())[1:]
    given = {one.name: plain.get(one.name, one.default) for one in parameters}
    to = None if given["to"] is None else _target(world, plain)
    if to is not None:
        given["amount"] = _amount_for(world, to, plain)
    else:
        world.config.contract.operation("createCharge")  # raises when the document leaves it out
    limit = None if given["count"] is None else _checked(whole_number, "count", given["count"], 1)
    duration, description, callback_url = given["duration"], given["description"], given["callbackUrl"]
    span_ms = None if duration is None else _checked(span_from, "duration", duration, least_ms=1)
    _check_types(given)
    _check_fields(world, callbackUrl=callback_url, description=description)
    if given["amount"] is None and to is None:
        raise DistributionError('amount: None is not a distribution: give one such as "lognorm(250000, 1)"')
    return_after = _quantity(given, "return_after")
    settings: TrafficSettings = {
        "arrivals": arrival_process(given["rate"]),
        "amount": None if given["amount"] is None else _quantity(given, "amount"),
        "behaviour": behaviour_distribution(given["behaviours"]),
        "payer": payer_distribution(given["payers"]),
        "think_time": _quantity(given, "think_time"),
        "patience": None if given["patience"] is None else _quantity(given, "patience"),
        "expiresIn": _expiry(given["expiresIn"]),
        "callbackUrl": callback_url,
        "description": description,
        "to": to,
        "returning": given["returning"],
        "return_after": return_after if given["returning"] else None,
        "arguments": {name: _shown(given[name]) for name in _SHOWN if name in plain or name in _ALWAYS_SHOWN},
    }
    with world.exclusive():
        ends_at = None if span_ms is None else world.clock.now() + span_ms
        row = world.traffic.start(settings, ends_at=ends_at, limit=limit)
    return Traffic(world, row["id"])


# The arguments that are distributions: how one value is read, and what a function may return.
_QUANTITIES: Mapping[str, tuple[Reader, Callable[[Any], float]]] = {
    "amount": (msat_value, drawn_msat),
    "patience": (span_value, drawn_seconds),
    "think_time": (span_value, drawn_seconds),
    "expiresIn": (seconds_value, drawn_expiry),
    "return_after": (span_value, drawn_seconds),
}
_ALWAYS_SHOWN = ("rate", "amount", "patience", "expiresIn")
_SHOWN = (*_ALWAYS_SHOWN, "think_time", "behaviours", "payers", "to", "returning", "return_after")


def _quantity(given: Mapping[str, Any], name: str) -> Distribution:
    return value_distribution(given[name], name, _QUANTITIES[name][0])


def _expiry(value: Any) -> Distribution:
    if isinstance(value, list | dict):
        return value_distribution(value, "expiresIn", seconds_value)
    return seconds_distribution(value)


def _shown(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, list | dict) and len(value) > 5 else str(value)


def _check_types(given: Mapping[str, Any]) -> None:
    """Raise `DistributionError` for arguments that are read nowhere else, before they are compared."""
    for name, mend in (("description", "give the description of the Charges"), ("callbackUrl", "give a URL or None")):
        value = given[name]
        if not isinstance(value, str) and not (value is None and name == "callbackUrl"):
            raise DistributionError(f"{name}: {quoted(value, 60)} is not a text: {mend}")
        if value is not None and not is_utf8(value):
            raise DistributionError(f"{name}: {quoted(value, 60)} has half a character, a surrogate: {mend}")
    if not isinstance(given["behaviours"], (str, Mapping)):
        raise DistributionError(
            f"behaviours: {quoted(given['behaviours'], 60)} is not a choice: give a text, or a mapping to weights"
        )
    if given["to"] is not None and not isinstance(given["to"], str):
        shown = quoted(given["to"], 60)
        raise DistributionError(f"to: {shown} cannot be paid: give a Static Charge, an LNURL or a Lightning address")


def _weight(name: str, value: Any) -> float:
    number = real_number(value)
    if number is None or not 0 <= number <= 1e9:
        raise DistributionError(f"{name}: {quoted(value, 60)} is not a weight: give 0 or more, at most 1000000000")
    return number


def _returning(value: Any) -> float:
    share = checked_share("returning", value, "give for example 0.3")
    if share == 1:
        raise DistributionError("returning=1 would bring every customer back without end: give less than 1")
    return share


def _target(world: World, plain: Mapping[str, Any]) -> str:
    """The LNURL or the Lightning address that `to` names. Raises `DistributionError` when nobody can pay it."""
    to = plain["to"]
    for name in ("expiresIn", "description", "callbackUrl"):
        if name in plain:
            raise DistributionError(
                f"{name}: a Static Charge has its own: leave {name} out here, and give it to static_charges.create(...)"
            )
    for operation in ("getPayRequest", "requestInvoice"):
        world.config.contract.operation(operation)
    statics = world.service.static_charges
    with world.exclusive():
        row = statics.static_charges.row(to)
        if row is not None:
            to = statics.show(row)["invoice"]["request"]
    try:
        if request_kind(to) == "bolt11":
            raise DistributionError("to: an invoice is paid once: give a Static Charge, LNURL or Lightning address")
    except PayerError as error:
        raise DistributionError(f"to: {error}, or the id of a Static Charge of this sandbox") from None
    return str(to)


def _amount_for(world: World, to: str, plain: Mapping[str, Any]) -> Any:
    """The amount for payments to `to`: the given one, the only possible one (None), or the default within the
    bounds."""
    with world.exclusive():
        found = world.traffic.shop.pay_request(to)
    if isinstance(found, Refusal):
        raise DistributionError(f"to: nobody can pay {to:.60}: {found.reason}")
    least, most = found["minSendable"], found["maxSendable"]
    if "amount" in plain and plain["amount"] is not None:
        return plain["amount"]
    if least == most:
        return None
    if "amount" in plain:
        raise DistributionError(f"amount: None is no amount here: give one from {least} to {most} msat")
    return f"clip({inspect.signature(traffic).parameters['amount'].default}, {least}, {most})"


def _checked(check: Callable[..., int], name: str, value: Any, *bounds: Any, **named: Any) -> int:
    """The result of `check`. Raises `DistributionError` if `check` refuses the value."""
    try:
        return check(name, value, *bounds, **named)
    except (TypeError, ValueError) as error:
        raise DistributionError(f"{name}: {error}") from None


def _check_fields(world: World, **fields: Any) -> None:
    """Raise `DistributionError` for a field that the service refuses, whatever the amount is."""
    body = world.config.contract.operation("createCharge").body
    given = {name: value for name, value in fields.items() if value is not None}
    wrong = () if body is None else several_errors(body.rule.validator, given)
    for name in (str(error.instance_path[0]) for error in wrong if error.instance_path):
        mend = 'write for example "http://shop.localhost/paid"' if name == "callbackUrl" else "give another text"
        raise DistributionError(f"{name}: the service refuses {quoted(fields[name])}: {mend}")


def behaviour_distribution(value: str | Mapping[str, float]) -> Distribution:
    """The behaviour of payers, from `leyden.world.traffic.BEHAVIOURS`: `pays`, `choice(pays:9, never:1)`. Raises
    `DistributionError`."""
    return word_distribution(value, "behaviours", _behaviour)


def _behaviour(text: str) -> str:
    if text not in BEHAVIOURS:
        raise ArgumentError(f"there is no {quoted(text)}: {hint(text, BEHAVIOURS)}")
    return text
