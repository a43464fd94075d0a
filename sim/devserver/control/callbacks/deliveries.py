"""The control plane's operations for callbacks: deliveries, replays, waiting, webhook secrets, the receiver check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from leyden.callbacks.receivers import is_built_in
from leyden.devserver.control.body_values import check_charge_id, span_ms
from leyden.devserver.control.callbacks.dead_ends import dead_end
from leyden.devserver.control.callbacks.wait_notes import wait_note
from leyden.devserver.control.pages import Page, created_between, sliced_page
from leyden.devserver.control.sandbox_state import over_http
from leyden.devserver.control.slices import in_slices
from leyden.devserver.receiver_check.check import check_receiver
from leyden.devserver.receiver_check.report import report_resource
from leyden.devserver.receiver_check.session import CheckRefused, KnownIds
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import attempt_resource, delivery_fields, is_in_flight
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.callbacks.signing import SecretRow, stops_at_ms
from leyden.server.charges.lists import query_instant
from leyden.server.contract.bind import handles
from leyden.server.errors import Conflict, FieldError, NotFound, SemanticConflict
from leyden.server.http.request import EncodedJson, Request
from leyden.server.printable import cut
from leyden.server.spelling import closest
from leyden.server.timestamps import parse_iso, to_iso
from leyden.stepwise import Stepwise, run_to_end
from leyden.world.attempt_notes import attempt_note, place_note, shorter_timeout
from leyden.world.concurrency.async_moves import hold_events
from leyden.world.time.clock import LAST_MS
from leyden.world.world import World

# No further check of a receiver begins after this time: a client waits for the report.
_LONGEST_CHECK_S = 45
_REPLAYED_AT_ONCE, _SHOWN_IDS = 50, 1_000
_CHECKED_ATTEMPTS = 1_000  # a response with more of them is checked against the document without them


class CallbackControl:
    """Handlers for one world's callbacks."""

    def __init__(self, world: World) -> None:
        self._world = world

    # Deliveries

    @handles(raises=(SemanticConflict,), needs=("query.limit",), recorded=False)
    async def list_deliveries(self, call: Request) -> Page | EncodedJson:
        """One page of the deliveries that match the filter, the newest first."""
        self._check_event(call.query.get("event"), "query.event")
        world, slices, filters = self._world, self._world.slices(), self._filters(call.query)
        outbox, bodies = world.service.outbox, bool(call.query.get("bodies"))
        bounds = created_between(call)
        found = await sliced_page(
            call,
            "delivery",
            lambda after, limit: outbox.rows.page(filters, after, limit, **bounds),
            lambda row: row,
            slices=slices,
            is_former=lambda: world.service.outbox is not outbox,
        )
        if found is None:
            return await self.list_deliveries(call)  # a reset: these deliveries are of the former run
        # To check and to write a long page at once would hold other requests.
        rows, deliveries, encoded = found["data"], [], list[bytes]()
        is_long = sum(AttemptLog(row).attempt_count for row in rows) > _CHECKED_ATTEMPTS
        for row in rows:
            steps = _delivery_steps(row, world, bodies=bodies)
            delivery = await in_slices(world, steps, lambda: world.lock, slices)
            if delivery is None:
                return await self.list_deliveries(call)
            if is_long:
                encoded.append(orjson.dumps(delivery))
                delivery["attempts"] = []
            deliveries.append(delivery)
        response = {**found, "data": deliveries}
        if not is_long:
            return response
        head, end = orjson.dumps({**found, "data": []}).split(b"[]")
        return EncodedJson(response, (head, b"[", *_separated(encoded), b"]", end))

    @handles(raises=(NotFound,), needs=("path.id",), recorded=False)
    async def get_delivery(self, call: Request) -> dict[str, Any]:
        """One delivery, with the exact bytes of its attempts."""
        world, delivery = self._world, None
        while delivery is None:
            steps = _delivery_steps(self._find(call.path["id"]), world)
            delivery = await in_slices(world, steps, lambda: world.lock)
        return delivery

    @handles(raises=(NotFound, Conflict, SemanticConflict), needs=("path.id",))
    async def replay_delivery(self, call: Request) -> dict[str, Any]:
        """Send one delivery's message again, now or later."""
        world = self._world
        with world.exclusive():
            row = self._find(call.path["id"])
            when_ms = self._when(call.body)
            reason = self._not_replayable(row)
            if reason is not None:
                raise Conflict(reason)
            row = world.service.outbox.replay(row["id"], when_ms)
        hold_events(world)
        delivery = await in_slices(world, _delivery_steps(row, world), lambda: world.lock)
        return run_to_end(_delivery_steps(row, world)) if delivery is None else delivery

    @handles(raises=(SemanticConflict,))
    async def replay_deliveries(self, call: Request) -> dict[str, Any]:
        """Send again the deliveries of a list, or each one that matches the filter, is not in flight, and whose
        callback is in the spec.

        Those of a list are one commit. Those of a filter are divided: each part is one commit, and other requests are
        answered in between. A process that is killed in the middle has replayed the first of them. Every delivery that
        is counted is committed.
        """
        check_charge_id(self._world, call.body.get("chargeId"), "/chargeId")
        self._check_event(call.body.get("event"), "/event")
        when_ms = self._when(call.body)
        if call.body.get("ids") is not None:
            return self._replay_listed(call.body, when_ms)
        world, slices, filters = self._world, self._world.slices(), self._filters(call.body)
        outbox, replayed = world.service.outbox, 0
        ids: list[str] = []
        after, last = None, outbox.rows.newest_id()
        hold_events(world)
        while True:
            is_over = False
            with world.exclusive():
                if world.service.outbox is not outbox:
                    break  # a reset
                rows = [row for row in outbox.rows.page_up(filters, after, _REPLAYED_AT_ONCE) if row.doc_id <= last]
                for row in rows:
                    if self._not_replayable(row) is None:
                        outbox.replay(row["id"], when_ms)
                        replayed += 1
                        ids += [row["id"]] if replayed <= _SHOWN_IDS else []
                    after = row.doc_id
                    if is_over := slices.is_over():
                        break
            if after == last or (len(rows) < _REPLAYED_AT_ONCE and not is_over):
                break
            if is_over:
                await slices.pause()
        return {"replayed": replayed, "ids": ids}

    @handles(raises=(SemanticConflict,), needs=("body.count", "body.timeout"), recorded=False)
    async def wait_for_deliveries(self, call: Request) -> dict[str, Any]:
        """Wait, in real time, until enough deliveries match. A request in process is answered at once, and so is one
        of a world in which no more can match."""
        world, run, wanted = self._world, self._world.transport, call.body["count"]
        check_charge_id(world, call.body.get("chargeId"), "/chargeId")
        self._check_event(call.body.get("event"), "/event")
        counted = self._counter(call.body)
        if world.server is not None:
            await world.server.until(
                world,
                lambda: run.is_discarded or counted() >= wanted or dead_end(world, call.body) is not None,
                call.body["timeout"],
            )
        if not run.is_discarded:
            count = counted()
            if count >= wanted:
                return {"reached": True, "count": count}
            note = await wait_note(world, call.body, self._filters({**call.body, "status": None}))
        if run.is_discarded:
            reset = "a reset or a restore ended this wait: wait again in the new run"
            deleted = "the end of the sandbox ended this wait: create another one"
            count, note = 0, deleted if world.transport is run else reset
        return {"reached": False, "count": count, "note": note}

    # The secret

    @handles(needs=("key",), recorded=False)
    def get_webhook_secret(self, call: Request) -> dict[str, Any]:
        """The secrets that sign now, or signed at the instant `at` of the query, the newest first."""
        at, projects = query_instant(call, "at"), self._world.service.projects
        if at is None:
            return self._secrets(call)
        return _shown_secrets(projects.signing_rows_then(call.project, at), projects.secrets(call.project))

    @handles(needs=("key",))
    def rotate_webhook_secret(self, call: Request) -> dict[str, Any]:
        """Replace the secret; for a time the former one signs, too."""
        self._world.service.projects.rotate_secret(call.project)
        return self._secrets(call)

    def _secrets(self, call: Request) -> dict[str, Any]:
        """The secrets that sign now."""
        projects = self._world.service.projects
        signing = projects.signing_rows(call.project, self._world.clock.now())
        return _shown_secrets(signing, projects.secrets(call.project))

    # The integrator's own endpoint

    @handles(raises=(SemanticConflict,), needs=("key", "body.url", "body.amount", "body.timeout", "body.include"))
    async def check_receiver(self, call: Request) -> dict[str, Any]:
        """Check an endpoint on the real network and grade it."""
        world, body = self._world, call.body
        if world.server is None or not world.server.runs_here():
            raise SemanticConflict(
                "the check sends from the event loop of a server, and a request in process has none: use"
                f" `leyden receiver-check`, or {over_http(world)}"
            )
        if is_built_in(body["url"]):
            raise _refusal(
                "/url",
                "the check sends to the network only, and names below .localhost are the built-in receivers of this"
                " sandbox: give the host and the port of your own endpoint",
            )
        if world.external_transport is None:
            raise SemanticConflict(
                "the egress of this sandbox is none, so it reaches no endpoint: use `leyden receiver-check`, or allow"
                ' the endpoint\'s host with egress="loopback" or egress_allow; a fork or an import on a server'
                ' needs the egress "server"'
            )
        secret = body.get("secret") or world.service.projects.signing_secrets(call.project, world.clock.now())[0]
        try:
            report = await check_receiver(
                body["url"],
                world.external_transport,
                secret=secret,
                contract=world.config.contract,
                known=KnownIds(body.get("internalId"), body["amount"], body.get("chargeId")),
                only=body.get("only"),
                timeout_s=body["timeout"],
                run_s=_LONGEST_CHECK_S,
            )
        except CheckRefused as refused:
            raise SemanticConflict(str(refused)) from None
        return report_resource(report, body["include"])

    # Inside

    def _find(self, delivery_id: str) -> DeliveryRow:
        row = self._world.service.outbox.delivery(delivery_id)
        if row is None:
            raise NotFound("this sandbox has no delivery with this id: list the deliveries")
        return row

    def _replay_listed(self, body: Mapping[str, Any], when_ms: int | None) -> dict[str, Any]:
        """Replay the deliveries with these ids, all of them or none."""
        ids: list[str] = body["ids"]
        if any(body.get(name) is not None for name in ("chargeId", "status", "event")):
            raise _refusal("/ids", "ids and a filter are given: give either the ids or the filter")
        outbox = self._world.service.outbox
        with self._world.exclusive():
            for place, delivery_id in enumerate(ids):
                row = outbox.delivery(delivery_id)
                reason = (
                    "this sandbox has no delivery with this id: list the deliveries"
                    if row is None
                    else self._not_replayable(row)
                )
                if reason is not None:
                    raise _refusal(f"/ids/{place}", f"{cut(delivery_id, 60)!r}: {reason}; nothing was sent")
            for delivery_id in ids:
                outbox.replay(delivery_id, when_ms)
        return {"replayed": len(ids), "ids": ids}

    def _not_replayable(self, row: DeliveryRow) -> str | None:
        """Why the delivery cannot be sent again, or None."""
        if is_in_flight(row):
            if self._world.faults.hits.is_dropped(row["id"], AttemptLog(row).attempt_count):
                return "an attempt of this delivery was dropped by a fault and has yet to time out: advance the clock"
            return "an attempt of this delivery is in flight: wait for its response, then try again"
        if not self._world.service.outbox.has_rule(row):
            return f"the callback {cut(row['rule'], 60)!r} is not in the spec: serve the spec with which it was made"
        return None

    def _when(self, body: Mapping[str, Any]) -> int | None:
        """The instant that the body of a replay asks for; None is now."""
        at, delay, now = body.get("at"), body.get("delay"), self._world.clock.now()
        if at is None:
            return None if delay is None else min(now + span_ms("/delay", delay), LAST_MS)
        if delay is not None:
            raise _refusal("/delay", "at and delay are given: give one of them")
        at_ms = parse_iso(at)
        if at_ms < now:
            raise _refusal("/at", f"the sandbox's clock is at {to_iso(now)} already: give a later instant, or none")
        return min(at_ms, LAST_MS)  # the last second of 2999: the clock stops at its beginning

    def _check_event(self, event: str | None, pointer: str) -> None:
        """Raise `SemanticConflict` for an event that no callback of the contract has."""
        rules = [rule for operation in self._world.config.contract.operations.values() for rule in operation.callbacks]
        known = sorted({name for rule in rules for name in rule.delivery.events.values()})
        if event is not None and event not in known:
            near = closest(event, known)
            mend = f"choose one of {', '.join(known)}" if near is None else f"did you mean {near}?"
            raise _refusal(pointer, f"no callback has the event {cut(event, 60)!r}: {mend}")

    def _filters(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of the rows that a filter of a request asks for."""
        filters = {name: wanted[name] for name in ("status", "event") if wanted.get(name) is not None}
        charge = wanted.get("chargeId")
        if charge is not None:
            static = self._world.service.static_charges.static_charges.row(charge)
            filters["resource_id" if static is None else "endpoint_id"] = charge
        return filters

    def _counter(self, wanted: Mapping[str, Any]) -> Callable[[], int]:
        """A function that counts the deliveries that match now."""
        filters = self._filters({**wanted, "status": None if wanted["status"] == "any" else wanted["status"]})
        if wanted.get("chargeId") is None:
            return lambda: self._count(filters.get("status"), filters.get("event"))
        return lambda: self._world.service.outbox.rows.count_with(filters)

    def _count(self, status: str | None, event: str | None) -> int:
        """The number of deliveries with this status and this event; None is any."""
        counts = self._world.service.outbox.rows.counts("status", "event").items()
        return sum(count for (one, other), count in counts if status in (None, one) and event in (None, other))


def _shown_secrets(rows: Sequence[SecretRow], every: Sequence[SecretRow]) -> dict[str, Any]:
    """Some of the secrets of a project, of `every` that it had."""
    ends_ms = [stops_at_ms(every, row) for row in rows]
    secrets = [
        {
            "secret": row["secret"],
            "since": to_iso(row["from_ms"]),
            "until": None if end_ms is None else to_iso(end_ms),
        }
        for row, end_ms in zip(rows, ends_ms, strict=True)
    ]
    return {"current": secrets[0]["secret"], "secrets": secrets}


def _separated(pieces: Sequence[bytes]) -> Iterator[bytes]:
    """The pieces with commas between them."""
    for place, piece in enumerate(pieces):
        yield piece if place == 0 else b"," + piece


def _refusal(pointer: str, detail: str) -> SemanticConflict:
    return SemanticConflict(detail, field_errors=[FieldError(pointer, detail)])


def _delivery_steps(row: DeliveryRow, world: World, *, bodies: bool = True) -> Stepwise[dict[str, Any]]:
    """A delivery with its attempts, one in each step."""
    resource = delivery_fields(row, with_body=bodies)
    if waits := place_note(world, row):
        resource["note"] = f"it {waits}: let the receivers answer{shorter_timeout(world)}"
    attempts, signature = AttemptLog(row).attempts(), world.service.outbox.signature if bodies else None
    for number, attempt in enumerate(attempts, 1):
        shown = attempt_resource(row, number, attempt, signature)
        hit = world.faults.hits.shown(row["id"], number)
        shown["dueAt"] = to_iso(attempt.due_at)
        shown["answeredAt"] = None if attempt.ended_at is None else to_iso(attempt.ended_at)
        shown["fault"] = None if hit is None else hit["kind"]
        shown["note"] = attempt_note(world, row, number, attempts)
        if bodies:
            shown["answer"] = attempt.response_body
            shown["answerHeaders"] = attempt.response_headers
            shown["answerHeadersLeftOut"] = attempt.headers_left_out
            shown["sent"] = None if hit is None else hit["sent"]
        resource["attempts"].append(shown)
        yield
    return resource
