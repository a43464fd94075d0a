"""Simulated customers: they come to the shop by themselves, are shown a Charge, and each pays it in its own way."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, TypedDict, cast

import orjson

from leyden.arguments import ALL_MSAT, MAX_SPAN_MS
from leyden.distributions import Distribution, sample, whole_draw
from leyden.lightning.payer.payments import Payments
from leyden.rng import RandomStream, RandomStreams
from leyden.server.errors import InternalError
from leyden.server.ports import USER, Clock, EventJournal
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable
from leyden.server.timestamps import MAX_INSTANT_MS
from leyden.world.loopback import LoopbackResponse
from leyden.world.time.clock import LAST_MS

TIMER = "traffic"
DAY_MS = 86_400_000

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
_SCRIPTS: Mapping[str, Mapping[str, Any]] = {
    "underpays": {"outcome": "underpay"},
    "overpays": {"outcome": "overpay"},
    "splits": {"parts": 3},
    "holds": {"outcome": "hold"},
    "fails": {"outcome": "fail"},
}


class TrafficSettings(TypedDict):
    """What the customers of one stream are like. Times are ms, `amount` is msat, `expiresIn` seconds.

    `arguments` are the texts that the distributions were read from, for the stream's repr.
    """

    arrivals: list[Any]  # the kind of process and its numbers
    amount: Distribution
    behaviour: Distribution
    payer: Distribution
    think_time: Distribution
    patience: Distribution | None
    expiresIn: Distribution
    callbackUrl: str | None
    description: str
    arguments: dict[str, str]


class TrafficRow(TypedDict):
    """Table `traffic`: one stream of customers. Instants are ms; `due` is `next_at` before rounding.

    `ends_at` and `limit` are None without an end; `next_at` is None once the stream has ended.
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


class TrafficGenerator:
    """The streams of customers of one world: a row of the table `traffic` and one timer each.

    Every customer costs the same eight draws of the random stream `traffic/<id>`, whatever the distributions are: with
    one seed, customer number n has the same think time, patience and budget in every world, however often the others
    came.
    `create_charge` posts a body to `createCharge`.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        streams: RandomStreams,
        payments: Payments,
        journal: EventJournal,
        create_charge: Callable[[bytes], LoopbackResponse],
    ) -> None:
        self.rows = cast(TypedTable[TrafficRow], store.table("traffic", key="id"))
        self._clock = clock
        self._streams = streams
        self._payments = payments
        self._journal = journal
        self._create_charge = create_charge
        clock.on(TIMER, self._arrive)

    def start(self, settings: TrafficSettings, *, ends_at: int | None, limit: int | None) -> TrafficRow:
        """Let customers come from now until `ends_at` (not at it), at most `limit` of them; None: no end."""
        now = self._clock.now()
        number = str(len(self.rows) + 1)
        row: TrafficRow = {
            "id": number, "settings": settings, "started_at": now, "ends_at": ends_at, "limit": limit,
            "arrived": 0, "refused": 0, "due": float(now), "next_at": None,
        }  # fmt: skip
        self._journal.note("traffic_started", number, ends_at=ends_at, limit=limit)
        return self._schedule_next(row, self._streams.stream(f"traffic/{number}"))

    def stop(self, traffic_id: str) -> TrafficRow:
        """Let no more come. No effect on a stream of customers that has ended."""
        row = self.rows.existing(traffic_id)
        if row["next_at"] is None:
            return row
        self._clock.cancel(TIMER, traffic_id)
        return self._end(row)

    def resume(self) -> None:
        """Set the timers again after a store was opened."""
        for row in self.rows:
            if row["next_at"] is not None:
                self._clock.call_at(row["next_at"], USER, TIMER, row["id"])

    def _arrive(self, traffic_id: str) -> None:
        row = self.rows.existing(traffic_id).copy()
        settings, rng = row["settings"], self._streams.stream(f"traffic/{traffic_id}")
        row["arrived"] += 1
        amount_msat = whole_draw(settings["amount"], rng, 0, ALL_MSAT)
        behaviour = sample(settings["behaviour"], rng)
        payer = sample(settings["payer"], rng)
        think_time_ms = whole_draw(settings["think_time"], rng, 0, MAX_SPAN_MS)
        patience = whole_draw(settings["patience"] or ["const", 0], rng, 0, MAX_SPAN_MS)
        patience_ms = None if settings["patience"] is None else patience
        expiry_s = whole_draw(settings["expiresIn"], rng, 1, MAX_SPAN_MS // 1_000)  # 0 is the default of the service
        again_ms = think_time_ms + whole_draw(settings["think_time"], rng, 1, MAX_SPAN_MS)
        body = {
            "amount": str(amount_msat),
            "description": settings["description"],
            "internalId": f"traffic-{traffic_id}-{row['arrived']}",
            "expiresIn": expiry_s,
        }
        if settings["callbackUrl"] is not None:
            body["callbackUrl"] = settings["callbackUrl"]
        response = self._create_charge(orjson.dumps(body))
        facts = {"number": row["arrived"], "payer": payer, "behaviour": behaviour}
        if response.status == 200:
            charge = orjson.loads(response.body)["data"]
            self._journal.note("customer_arrived", charge["id"], traffic=traffic_id, patience_ms=patience_ms, **facts)
            for delay_ms in _delays(behaviour, think_time_ms, again_ms, patience_ms, expiry_s * 1_000):
                self._payments.pay(
                    charge["invoice"]["request"],
                    payer=payer,
                    delay_ms=delay_ms,
                    patience_ms=None if patience_ms is None else max(0, patience_ms - think_time_ms),
                    scheduled=True,
                    **_SCRIPTS.get(behaviour, {}),
                )
        else:
            reason = orjson.loads(response.body)["detail"]
            if response.status >= 500:  # a defect, and no answer to the customer: the event is rolled back
                raise InternalError(f"a customer of the traffic stream {traffic_id} got no Charge: {reason}")
            row["refused"] += 1
            self._journal.note(
                "customer_refused", traffic_id, status=response.status, reason=reason, amount_msat=amount_msat, **facts
            )
        self._schedule_next(row, rng)

    def _schedule_next(self, row: TrafficRow, rng: RandomStream) -> TrafficRow:
        due = min(next_arrival(row["settings"]["arrivals"], rng, row["due"], row["arrived"]), float(MAX_INSTANT_MS))
        if (row["ends_at"] is not None and due >= row["ends_at"]) or row["arrived"] == row["limit"]:
            return self._end(row)
        next_at = ceil(due)
        row = {**row, "due": due, "next_at": next_at}
        self.rows.put(row)
        self._clock.call_at(next_at, USER, TIMER, row["id"])
        return row

    def _end(self, row: TrafficRow) -> TrafficRow:
        row = {**row, "next_at": None}
        self.rows.put(row)
        self._journal.note("traffic_ended", row["id"], arrived=row["arrived"], refused=row["refused"])
        return row


def _delays(
    behaviour: str, think_time_ms: int, again_ms: int, patience_ms: int | None, expiry_ms: int
) -> tuple[int, ...]:
    """When after the arrival this customer pays; one whose think time exceeds its patience has left by then."""
    if behaviour == "never":
        return ()
    if behaviour == "late":
        return (expiry_ms + think_time_ms,)
    if patience_ms is not None and think_time_ms > patience_ms:
        return ()
    return (think_time_ms, again_ms) if behaviour == "twice" else (think_time_ms,)


def next_arrival(arrivals: list[Any], rng: RandomStream, after: float, arrived: int) -> float:
    """The instant (ms, not rounded) of the arrival that follows `after`, for exactly one draw. `arrived` came
    before.
    """
    name = arrivals[0]
    work = rng.exponential(1.0)
    if name == "poisson":
        return after + work * float(arrivals[1])
    if name == "every":
        return after + float(arrivals[1])
    if name == "burst":
        return after + (0.0 if arrived % arrivals[1] else float(arrivals[2]))
    # "daily": the rate changes by the hour (UTC), and one unit of exponential work is done at that rate.
    starts, rates = arrivals[1], arrivals[2]
    ends = [*starts[1:], DAY_MS]
    work_of_a_day: float = sum(rate * (end - start) for start, end, rate in zip(starts, ends, rates, strict=True))
    days, work = divmod(work, work_of_a_day)
    after += days * DAY_MS
    while after <= LAST_MS:
        day_ms = after % DAY_MS
        place = bisect_right(starts, day_ms) - 1
        until = ends[place]
        done = rates[place] * (until - day_ms)
        if work < done:
            return after + work / float(rates[place])
        work -= done
        after += until - day_ms
    return after
