"""Streams of customers: they come to the shop by themselves, are shown a Charge, and each pays it in its own way."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, cast

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
from leyden.world.traffic.arrivals import next_arrival
from leyden.world.traffic.requests import Refusal, ShopRequests
from leyden.world.traffic.rows import ReturnRow, TrafficRow, TrafficSettings, ValuesRow

TIMER = "traffic"
RETURN_TIMER = "traffic_return"

_SCRIPTS: Mapping[str, Mapping[str, Any]] = {
    "underpays": {"outcome": "underpay"},
    "overpays": {"outcome": "overpay"},
    "splits": {"parts": 3},
    "holds": {"outcome": "hold"},
    "fails": {"outcome": "fail"},
}


class TrafficGenerator:
    """The streams of customers of one world: a row of the table `traffic` and one timer each.

    Every customer costs the same eight draws of the random stream `traffic/<id>`, whatever the distributions are: with
    one seed, customer number n has the same think time, patience and budget in every world, however often the others
    came. The draws for returns and for later visits come from the stream `traffic/<id>/returns`.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        streams: RandomStreams,
        payments: Payments,
        journal: EventJournal,
        shop: ShopRequests,
    ) -> None:
        self.rows = cast(TypedTable[TrafficRow], store.table("traffic", key="id"))
        self._values = cast(TypedTable[ValuesRow], store.table("traffic_values", key="id"))
        self.returns = cast(TypedTable[ReturnRow], store.table("traffic_returns", key="id", indexes=("traffic",)))
        self._clock = clock
        self._streams = streams
        self._payments = payments
        self._journal = journal
        self.shop = shop
        clock.on(TIMER, self._arrive)
        clock.on(RETURN_TIMER, self._return)

    @property
    def next_id(self) -> str:
        """The id of the stream that is started next."""
        return str(len(self.rows) + 1)

    def start(self, settings: TrafficSettings, *, ends_at: int | None, limit: int | None) -> TrafficRow:
        """Let customers come from now until `ends_at` (not at it), at most `limit` of them; None: no end."""
        now = self._clock.now()
        number = self.next_id
        row: TrafficRow = {
            "id": number, "settings": self._stored(number, settings), "started_at": now, "ends_at": ends_at,
            "limit": limit, "arrived": 0, "refused": 0, "due": float(now), "next_at": None, "returned": 0,
            "together": 0,
        }  # fmt: skip
        self._journal.note("traffic_started", number, ends_at=ends_at, limit=limit)
        return self._schedule_next(row, self._streams.stream(f"traffic/{number}"))

    def stop(self, traffic_id: str) -> TrafficRow:
        """Stop arrivals and returns. No effect on a stream of customers that has ended."""
        row = self.rows.existing(traffic_id)
        pending = self.returns.find("traffic", traffic_id)
        if row["next_at"] is None and not pending:
            return row
        self._clock.cancel(TIMER, traffic_id)
        for each in pending:
            self._clock.cancel(RETURN_TIMER, each["id"])
            self.returns.delete(each["id"])
        return self._end({**row, "next_at": None})

    def resume(self) -> None:
        """Set the timers again after a store was opened."""
        for row in self.rows:
            if row["next_at"] is not None:
                self._clock.call_at(row["next_at"], USER, TIMER, row["id"])
        for pending in self.returns:
            self._clock.call_at(pending["due_at"], USER, RETURN_TIMER, pending["id"])

    def _stored(self, number: str, settings: TrafficSettings) -> TrafficSettings:
        """The settings, with long lists in rows of their own."""
        stored: dict[str, Any] = dict(settings)
        for name, value in settings.items():
            if isinstance(value, list) and value[0] == "values":
                self._values.put({"id": f"{number}/{name}", "values": value[1], "places": value[2]})
                stored[name] = ["table", f"{number}/{name}"]
        if settings["arrivals"][0] == "mixed":
            terms = []
            for place, term in enumerate(settings["arrivals"][1]):
                if term[0][0] == "steps":
                    self._values.put({"id": f"{number}/rate/{place}", "values": term[0][2], "places": term[0][1]})
                    term = [["table", f"{number}/rate/{place}"]]
                terms.append(term)
            stored["arrivals"] = ["mixed", terms, settings["arrivals"][2]]
        return cast(TrafficSettings, stored)

    def _distribution(self, stored: Distribution) -> Distribution:
        if stored[0] != "table":
            return stored
        row = self._values.existing(stored[1])
        return ["values", row["values"], row["places"]]

    def _arrivals(self, stored: list[Any]) -> list[Any]:
        if stored[0] != "mixed" or all(term[0][0] != "table" for term in stored[1]):
            return stored
        terms = []
        for term in stored[1]:
            if term[0][0] == "table":
                row = self._values.existing(term[0][1])
                term = [["steps", row["places"], row["values"]]]
            terms.append(term)
        return ["mixed", terms, stored[2]]

    def _arrive(self, traffic_id: str) -> None:
        row = self.rows.existing(traffic_id).copy()
        rng = self._streams.stream(f"traffic/{traffic_id}")
        row["arrived"] += 1
        row["refused"] += self._visit(row, rng, number=row["arrived"])
        self._schedule_next(row, rng)

    def _return(self, return_id: str) -> None:
        pending = self.returns.existing(return_id)
        self.returns.delete(return_id)
        row = self.rows.existing(pending["traffic"]).copy()
        row["returned"] = row.get("returned", 0) + 1
        rng = self._streams.stream(f"traffic/{row['id']}/returns")
        row["refused"] += self._visit(
            row, rng, number=pending["number"], visit=pending["visit"], payer=pending["payer"]
        )
        if row["next_at"] is None and not self.returns.find("traffic", row["id"]):
            self._end(row)
        else:
            self.rows.put(row)

    def _visit(self, row: TrafficRow, rng: RandomStream, number: int, visit: int = 1, payer: str | None = None) -> bool:
        """Let a customer come; returns whether the service refused it. It takes seven draws of `rng`."""
        settings, traffic_id = row["settings"], row["id"]

        def drawn(distribution: Distribution | None, least: int, most: int) -> int:
            return whole_draw(self._distribution(distribution or ["const", 0]), rng, least, most)

        amount_msat = drawn(settings["amount"], 0, ALL_MSAT)
        behaviour = sample(self._distribution(settings["behaviour"]), rng)
        usual_payer = sample(self._distribution(settings["payer"]), rng)
        payer = usual_payer if payer is None else payer
        think_time_ms = drawn(settings["think_time"], 0, MAX_SPAN_MS)
        patience = drawn(settings["patience"], 0, MAX_SPAN_MS)
        patience_ms = None if settings["patience"] is None else patience
        expiry_s = drawn(settings["expiresIn"], 1, MAX_SPAN_MS // 1_000)  # 0 is the default of the service
        again_ms = think_time_ms + drawn(settings["think_time"], 1, MAX_SPAN_MS)
        facts = {"number": number, "payer": payer, "behaviour": behaviour} | ({"visit": visit} if visit > 1 else {})
        to = settings.get("to")
        if to is None:
            body = {
                "amount": str(amount_msat),
                "description": settings["description"],
                "internalId": f"traffic-{traffic_id}-{number}" + (f"-{visit}" if visit > 1 else ""),
                "expiresIn": expiry_s,
            }
            if settings["callbackUrl"] is not None:
                body["callbackUrl"] = settings["callbackUrl"]
            offer = self.shop.create_charge(orjson.dumps(body))
        else:
            offer = self.shop.request_invoice(to, None if settings["amount"] is None else amount_msat)
        if isinstance(offer, Refusal):
            if offer.status >= 500:  # a defect, and no answer to the customer: the event is rolled back
                what = "no Charge" if to is None else "no invoice"
                raise InternalError(f"a customer of the traffic stream {traffic_id} got {what}: {offer.reason}")
            self._journal.note(
                "customer_refused", traffic_id, status=offer.status, reason=offer.reason, amount_msat=amount_msat,
                **facts,
            )  # fmt: skip
        else:
            expiry_ms = expiry_s * 1_000 if to is None else offer.expiry_ms
            self._journal.note(
                "customer_arrived", offer.charge_id, traffic=traffic_id, patience_ms=patience_ms, **facts
            )
            for delay_ms in _delays(behaviour, think_time_ms, again_ms, patience_ms, expiry_ms):
                self._payments.pay(
                    offer.invoice,
                    payer=payer,
                    delay_ms=delay_ms,
                    patience_ms=None if patience_ms is None else max(0, patience_ms - think_time_ms),
                    scheduled=True,
                    **_SCRIPTS.get(behaviour, {}),
                )
        self._schedule_return(row, number, visit, payer)
        return isinstance(offer, Refusal)

    def _schedule_return(self, row: TrafficRow, number: int, visit: int, payer: str) -> None:
        """Draw whether and when this customer comes again: two draws, if anybody does."""
        share, after = row["settings"].get("returning", 0.0), row["settings"].get("return_after")
        if not share or after is None:
            return
        rng = self._streams.stream(f"traffic/{row['id']}/returns")
        returns = rng.uniform() < share
        due_at = min(self._clock.now() + whole_draw(self._distribution(after), rng, 1, MAX_SPAN_MS), MAX_INSTANT_MS)
        if not returns or (row["ends_at"] is not None and due_at >= row["ends_at"]):
            return
        return_id = f"{row['id']}-{number}-{visit + 1}"
        self.returns.put(
            {"id": return_id, "traffic": row["id"], "number": number, "visit": visit + 1, "payer": payer,
             "due_at": due_at}
        )  # fmt: skip
        self._clock.call_at(due_at, USER, RETURN_TIMER, return_id)

    def _schedule_next(self, row: TrafficRow, rng: RandomStream) -> TrafficRow:
        due, together = next_arrival(
            self._arrivals(row["settings"]["arrivals"]), rng, row["due"], row["arrived"],
            origin=float(row["started_at"]), together=row.get("together", 0),
        )  # fmt: skip
        due = min(due, float(MAX_INSTANT_MS))
        if (row["ends_at"] is not None and due >= row["ends_at"]) or (
            row["limit"] is not None and row["arrived"] >= row["limit"]
        ):
            row = {**row, "next_at": None}
            if self.returns.find("traffic", row["id"]):
                self.rows.put(row)
                return row
            return self._end(row)
        next_at = ceil(due)
        row = {**row, "due": due, "next_at": next_at, "together": together}
        self.rows.put(row)
        self._clock.call_at(next_at, USER, TIMER, row["id"])
        return row

    def _end(self, row: TrafficRow) -> TrafficRow:
        self.rows.put(row)
        self._journal.note("traffic_ended", row["id"], arrived=row["arrived"], refused=row["refused"])
        return row


def _delays(
    behaviour: str, think_time_ms: int, again_ms: int, patience_ms: int | None, expiry_ms: int
) -> tuple[int, ...]:
    """The delays after the arrival at which this customer pays. A customer whose think time exceeds its patience has
    left by then."""
    if behaviour == "never":
        return ()
    if behaviour == "late":
        return (expiry_ms + think_time_ms,)
    if patience_ms is not None and think_time_ms > patience_ms:
        return ()
    return (think_time_ms, again_ms) if behaviour == "twice" else (think_time_ms,)
