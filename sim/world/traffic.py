"""Visitors: people who come to the shop of their own accord, are shown a charge, and pay it each in their own way."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from math import ceil
from typing import Any

import orjson

from leyden.lightning.payer.payments import Payments
from leyden.server.ports import USER, Clock, EventJournal
from leyden.server.store.store import Store
from leyden.world.loopback import LoopbackResponse
from leyden.world.rng import RandomStream, RandomStreams

TIMER = "traffic"
DAY_MS = 86_400_000

# What visitors may be like, and what each of them does.
BEHAVIOURS = {
    "pays": "pays once, in full",
    "late": "begins to pay only after the charge has expired",
    "never": "looks at the charge and goes",
    "twice": "pays, forgets it, and pays again",
    "underpays": "sends 1 msat too little",
    "overpays": "sends half as much again",
    "splits": "pays in three parts",
    "holds": "pays what the node then neither takes nor gives back",
    "fails": "tries, and finds no route",
}
_SCRIPTS: Mapping[str, Mapping[str, Any]] = {
    "underpays": {"outcome": "underpay"},
    "overpays": {"outcome": "overpay"},
    "splits": {"parts": 3},
    "holds": {"outcome": "hold"},
    "fails": {"outcome": "fail"},
}

Row = dict[str, Any]
Distribution = list[Any]  # a distribution or a way to arrive: its name and its numbers, as JSON values


class TrafficGenerator:
    """The streams of visitors of one world, each a row of the table `traffic` and one timer.

    Every visitor costs the same eight draws of the stream `traffic/<id>`, whatever the laws are: with one seed, visitor
    number n is as hurried, as patient and as rich as in any other world, however often the others came.
    `order` posts a body to `createCharge`.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        streams: RandomStreams,
        payments: Payments,
        journal: EventJournal,
        order: Callable[[bytes], LoopbackResponse],
    ) -> None:
        self.rows = store.table("traffic", key="id")
        self._clock = clock
        self._streams = streams
        self._payments = payments
        self._journal = journal
        self._order = order
        clock.on(TIMER, self._arrive)

    def start(self, laws: Mapping[str, Any], *, ends_at: int | None, most: int | None) -> Row:
        """Let visitors come from now, until `ends_at` (not at it) and at most so many; None: no end.

        `laws` holds `arrivals`, `amount` (msat), `habit`, `payer`, `hesitation` and `patience` (ms; patience may be
        None), `expiresIn` (s) as laws, and `callbackUrl` and `description` as they are sent.
        """
        now = self._clock.now()
        number = str(len(self.rows) + 1)
        row = {"id": number, "laws": dict(laws), "begun_at": now, "ends_at": ends_at, "most": most}
        row |= {"arrived": 0, "refused": 0, "due": float(now), "next_at": None}
        self._journal.note("traffic_begun", number, ends_at=ends_at, most=most)
        return self._await_next(row, self._streams.stream(f"traffic/{number}"))

    def stop(self, traffic_id: str) -> Row:
        """Let no more come. No effect on a stream of visitors that has ended."""
        row = self.rows.existing(traffic_id)
        if row["next_at"] is None:
            return row
        self._clock.cancel(TIMER, traffic_id)
        return self._ended(row)

    def resume(self) -> None:
        """Set the timers again: for a store that was just opened."""
        for row in self.rows:
            if row["next_at"] is not None:
                self._clock.call_at(row["next_at"], USER, TIMER, row["id"])

    def _arrive(self, traffic_id: str) -> None:
        row: Row = dict(self.rows.existing(traffic_id))
        laws, chance = row["laws"], self._streams.stream(f"traffic/{traffic_id}")
        row["arrived"] += 1
        amount_msat = max(0, round(sample(laws["amount"], chance)))
        habit = sample(laws["habit"], chance)
        payer = sample(laws["payer"], chance)
        hesitation_ms = max(0, round(sample(laws["hesitation"], chance)))
        patience = sample(laws["patience"] or ["const", 0], chance)
        patience_ms = None if laws["patience"] is None else max(0, round(patience))
        expiry_s = round(sample(laws["expiresIn"], chance))
        again_ms = hesitation_ms + max(1, round(sample(laws["hesitation"], chance)))
        body = {
            "amount": str(amount_msat),
            "description": laws["description"],
            "internalId": f"traffic-{traffic_id}-{row['arrived']}",
            "expiresIn": expiry_s,
        }
        if laws["callbackUrl"] is not None:
            body["callbackUrl"] = laws["callbackUrl"]
        answer = self._order(orjson.dumps(body))
        facts = {"number": row["arrived"], "payer": payer, "habit": habit}
        if answer.status == 200:
            charge = orjson.loads(answer.body)["data"]
            self._journal.note("visitor_came", charge["id"], traffic=traffic_id, patience_ms=patience_ms, **facts)
            delays = _delays(habit, hesitation_ms, again_ms, patience_ms, expiry_s * 1_000)
            for delay_ms in delays:
                self._payments.pay(
                    charge["invoice"]["request"],
                    payer=payer,
                    delay_ms=delay_ms,
                    patience_ms=None if patience_ms is None else max(0, patience_ms - hesitation_ms),
                    scheduled=True,
                    **_SCRIPTS.get(habit, {}),
                )
        else:
            row["refused"] += 1
            why = orjson.loads(answer.body)["detail"]
            self._journal.note(
                "visitor_refused", traffic_id, status=answer.status, why=why, amount_msat=amount_msat, **facts
            )
        self._await_next(row, chance)

    def _await_next(self, row: Row, chance: RandomStream) -> Row:
        due = next_arrival(row["laws"]["arrivals"], chance, row["due"], row["arrived"])
        if (row["ends_at"] is not None and due >= row["ends_at"]) or row["arrived"] == row["most"]:
            return self._ended(row)
        row = {**row, "due": due, "next_at": ceil(due)}
        self.rows.put(row)
        self._clock.call_at(row["next_at"], USER, TIMER, row["id"])
        return row

    def _ended(self, row: Row) -> Row:
        row = {**row, "next_at": None}
        self.rows.put(row)
        self._journal.note("traffic_ended", row["id"], arrived=row["arrived"], refused=row["refused"])
        return row


def _delays(habit: str, hesitation_ms: int, again_ms: int, patience_ms: int | None, expiry_ms: int) -> tuple[int, ...]:
    """When after the arrival this visitor pays; who needs longer to begin than the patience lasts has gone by then."""
    if habit == "never":
        return ()
    if habit == "late":
        return (expiry_ms + hesitation_ms,)
    if patience_ms is not None and hesitation_ms > patience_ms:
        return ()
    return (hesitation_ms, again_ms) if habit == "twice" else (hesitation_ms,)


def sample(law: Distribution, chance: RandomStream) -> Any:
    """One value under a law, for exactly one draw: a number, or a word for a choice between words."""
    name = law[0]
    if name == "uniform":
        return law[1] + (law[2] - law[1]) * chance.uniform()
    if name == "lognorm":
        return chance.lognormal(law[1], law[2])
    if name == "exp":
        return chance.exponential(law[1])
    if name == "normal":
        return chance.normal(law[1], law[2])
    place = chance.uniform()  # also where nothing hangs on it, so that the draws stay in step
    if name == "choice":
        sums = list(accumulate(weight for _, weight in law[1]))
        return law[1][min(bisect_right(sums, place * sums[-1]), len(sums) - 1)][0]
    if name == "people":
        return f"payer-{int(place * law[1]) + 1}"
    return law[1]


def next_arrival(law: Distribution, chance: RandomStream, after: float, arrived: int) -> float:
    """The instant (ms, not rounded) of the arrival that follows `after`, for exactly one draw. `arrived` have come."""
    name = law[0]
    work = chance.exponential(1.0)
    if name == "poisson":
        return after + work * float(law[1])
    if name == "every":
        return after + float(law[1])
    if name == "burst":
        return after + (0.0 if arrived % law[1] else float(law[2]))
    # "daily": the rate changes by the hour (UTC), and one unit of exponential work is done at that rate.
    starts, rates = law[1], law[2]
    while True:
        day_ms = after % DAY_MS
        place = bisect_right(starts, day_ms) - 1
        until = starts[place + 1] if place + 1 < len(starts) else DAY_MS
        done = rates[place] * (until - day_ms)
        if work < done:
            return after + work / float(rates[place])
        work -= done
        after += until - day_ms
