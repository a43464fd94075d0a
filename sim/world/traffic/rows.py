"""The rows of traffic: streams of customers, their long lists, and customers who will come back."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from leyden.distributions import Distribution

# How customers may behave.
BEHAVIOURS = {
    "pays": "pays once, in full",
    "late": "starts to pay only after the charge has expired",
    "never": "looks at the charge and leaves",
    "twice": "pays, forgets it, and pays again",
    "underpays": "sends 1 msat too little",
    "overpays": "sends half as much again",
    "splits": "pays in three parts",
    "holds": "pays, and the node neither settles nor fails the HTLC",
    "fails": "tries, and finds no route",
}


class TrafficSettings(TypedDict):
    """The settings of the customers of one stream. Times are ms, `amount` is msat, `expiresIn` seconds.

    A distribution `["table", id]`, and steps of a rate, are in a row of the table `traffic_values`. `to` is an LNURL or
    a Lightning address, or None for a Charge for each customer. `amount` is None when `to` allows only one amount.
    `returning` is the share of the visits after which the same customer comes again, `return_after` later. `arguments`
    are the texts that the distributions were read from, for the stream's repr.
    """

    arrivals: list[Any]  # a process of `leyden.world.arrivals`
    amount: Distribution | None
    behaviour: Distribution
    payer: Distribution
    think_time: Distribution
    patience: Distribution | None
    expiresIn: Distribution
    callbackUrl: str | None
    description: str
    to: NotRequired[str | None]
    returning: NotRequired[float]
    return_after: NotRequired[Distribution | None]
    arguments: dict[str, str]


class ValuesRow(TypedDict):
    """Table `traffic_values`: a long list of a stream, apart from its row, which changes with each customer.

    `places` are the cumulative weights of the values (None: equal ones), or the instants (ms) from which rates hold.
    """

    id: str
    values: list[Any]
    places: list[float] | None


class ReturnRow(TypedDict):
    """Table `traffic_returns`: a customer who will come back. `visit` is 2 for the second time."""

    id: str
    traffic: str
    number: int
    visit: int
    payer: str
    due_at: int


class TrafficRow(TypedDict):
    """Table `traffic`: one stream of customers. Instants are ms; `due` is `next_at` before rounding.

    `ends_at` and `limit` are None without an end; `next_at` is None once no new customer comes. `arrived` counts
    customers, `returned` the visits of those who came back. `together` is how many of a burst have arrived at `due`.
    """

    id: str
    settings: TrafficSettings
    started_at: int
    ends_at: int | None
    limit: int | None
    arrived: int
    refused: int
    due: float
    next_at: int | None
    returned: NotRequired[int]
    together: NotRequired[int]


def lists_of(settings: TrafficSettings) -> list[tuple[str, str]]:
    """The ids of the rows of the table `traffic_values` that a stream needs, each with its content: `rates`, `names`
    (of payers) or `numbers`."""
    found = [
        (value[1], "names" if name == "payer" else "numbers")
        for name, value in settings.items()
        if isinstance(value, list) and value[0] == "table"
    ]
    if settings["arrivals"][0] == "mixed":
        factors = [factor for term in settings["arrivals"][1] for factor in term]
        found += [(factor[1], "rates") for factor in factors if factor[0] == "table"]
    return found
