"""An outbox for tests, with the real clock, store and receivers, and a small rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema_rs import validator_for

from leyden.callbacks.receivers import Receivers
from leyden.rng import RandomStreams, uuid4_from
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.callbacks.outbox import Outbox
from leyden.server.contract.types import CallbackRule, DeliveryRule, Rule
from leyden.server.ports import CallbackResponse, CallbackTransport
from leyden.server.store.store import Store
from leyden.server.timestamps import parse_duration, parse_iso
from leyden.world.event_journal import HashedEventJournal
from leyden.world.time.clock import VirtualClock

START = parse_iso("2030-01-01T09:00:00Z")
SECRET, NEXT_SECRET = "whsec_" + "QUJD" * 8, "whsec_" + "WFla" * 8
SHOP = "http://shop.localhost/hook"

PAUSES = tuple(parse_duration(t) for t in ("0s", "5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"))

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "status"],
    "additionalProperties": False,
    "properties": {"id": {"type": "string"}, "status": {"type": "string"}, "note": {"type": "string"}},
}

DELIVERY = DeliveryRule(
    events={"completed": "charge.completed", "expired": "charge.expired"},
    form="flat",
    delays_ms=PAUSES,
    jitter=0.2,
    retry_after_times=2.0,
    connect_timeout_ms=3_000,
    timeout_ms=15_000,
    in_flight=8,
    rotation_ms=parse_duration("24h"),
)


def rule(schema: Mapping[str, Any] = SCHEMA, **changes: Any) -> CallbackRule:
    return CallbackRule(
        name="chargeUpdated",
        operation_id="createCharge",
        url_path=("callbackUrl",),
        rule=Rule(schema, validator_for(dict(schema))),
        headers=(),
        delivery=DELIVERY._replace(**changes),
    )


class OutboxFixture:
    """An outbox and its receivers, without a service."""

    def __init__(
        self,
        *,
        seed: int = 7,
        start: int = START,
        store: Store | None = None,
        transport: CallbackTransport | None = None,
        rule: CallbackRule | None = None,
        clock: VirtualClock | None = None,
        secrets: Sequence[str] = (SECRET,),
    ) -> None:
        self.rule = rule or RULE
        self.secrets = list(secrets)
        self.store = store or Store.memory()
        self.clock = VirtualClock(start) if clock is None else clock
        self.journal = HashedEventJournal(self.clock)
        self.streams = RandomStreams(seed)
        self.receivers = Receivers(
            self.store,
            self.clock,
            self.journal,
            rules={self.rule.name: self.rule},
        )
        self.receivers.connect(lambda post, answer: self.outbox.on_response(post, answer), lambda at: self.secrets)
        self.shop = self.receivers["shop"]
        self.outbox = Outbox(
            self.store,
            self.clock,
            transport or self.receivers,
            lambda: uuid4_from(self.streams.stream("ids")),
            self.streams.stream("jitter"),
            self.journal,
            rules={self.rule.name: self.rule},
            secrets=lambda project: [{"secret": one, "from_ms": 0, "until_ms": None} for one in reversed(self.secrets)],
            version="9.9",
        )

    def enqueue(self, resource: str = "c1", status: str = "completed", url: str = SHOP, **more: Any) -> None:
        """Let the resource enter `status` and enqueue the delivery, in one commit."""
        with self.store.commit():
            self.outbox.enqueue(
                resource_id=resource,
                project="p",
                url=url,
                rule=self.rule,
                event=self.rule.delivery.events[status],
                sequence=more.pop("sequence", 1),
                data=more.pop("data", {"id": resource, "status": status}),
                at=self.clock.now(),
                **more,
            )

    def row(self, resource: str = "c1", place: int = 0) -> DeliveryRow:
        return self.outbox.deliveries(resource)[place]

    def pass_time(self, span: str) -> None:
        self.clock.advance(parse_duration(span))


class ManualTransport:
    """A transport that keeps every request until the test answers it."""

    def __init__(self, real_time_s: int = START // 1_000) -> None:
        self.requests: list[Any] = []
        self.real_time_s = real_time_s

    def post(self, post: Any, answered: Any) -> None:
        self.requests.append((post, answered))

    def answer(self, place: int = 0, **answer: Any) -> None:
        post, answered = self.requests.pop(place)
        answered(post, CallbackResponse(**answer))

    def receiver_time_s(self, url: str) -> int:
        assert url == SHOP, "the time that this receiver lives in"
        return self.real_time_s


RULE = rule()
