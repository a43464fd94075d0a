"""The control plane's operations for the sandbox itself, API keys, time, payments, charges and the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import orjson

from leyden.arguments import span_from
from leyden.devserver.control.body_values import span_ms as to_span_ms
from leyden.devserver.control.pages import Page, created_between, sliced_page
from leyden.devserver.control.resets import reset_world
from leyden.devserver.control.sandbox_state import clock_state, sandbox_state
from leyden.errors import ClockError, PayerError
from leyden.lightning.engine.htlc import PaymentNotHeld
from leyden.lightning.payer.payment_requests import fetch_lnurl_invoice, request_kind, strip_scheme
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.server.charges.wire_model import charge_resource
from leyden.server.contract.bind import handles
from leyden.server.errors import Conflict, FieldError, InvalidRequest, NotFound, SemanticConflict, StorageUnavailable
from leyden.server.http.projects import Projects
from leyden.server.http.request import Request
from leyden.server.timestamps import parse_iso, to_iso
from leyden.world.concurrency.async_moves import advance_to, catch_up, run_until_idle, run_until_next_event
from leyden.world.engines import prepared_engine
from leyden.world.moves.move_guard import check_not_waiting, refused_by_move
from leyden.world.time.process_clock import NOW, requested_start
from leyden.world.time.timers import Fired
from leyden.world.world import World

_HASHED_AT_ONCE = 100  # entries of the journal


class ControlPlane:
    """Handlers for one world."""

    def __init__(self, world: World) -> None:
        self._world = world

    # The sandbox itself

    @handles(needs=("key",), recorded=False)
    async def get_sandbox(self, call: Request) -> dict[str, Any]:
        """The configuration and the present state of this sandbox."""
        world, slices = self._world, self._world.slices()
        journal = world.journal
        while not journal.extend_hash(_HASHED_AT_ONCE):
            if slices.is_over():
                await slices.pause()
        with world.exclusive():
            return sandbox_state(self._world, call.project)

    @handles(raises=(SemanticConflict,), needs=("key",))
    async def reset(self, call: Request) -> dict[str, Any]:
        """Discard all state and start again, with the same key and contract."""
        world = self._world
        # The action log of a sandbox in Python would not repeat what depends on the real time.
        now_ms = None if world.network_log is not None else world.clock.reading()[1]
        try:
            start_ms = requested_start(call.body.get("start"), now_ms)
        except ClockError as error:
            raise SemanticConflict(str(error), field_errors=[FieldError("/start", str(error))]) from None
        starts_now, seed = call.body.get("start") == NOW, call.body.get("seed")
        while True:
            engine = await world.run_apart(partial(prepared_engine, world.next_run(seed, start_ms)))
            if engine is None or engine.is_for(world.next_run(seed, start_ms)):  # there was no other reset meanwhile
                break
        with world.exclusive():
            reset_world(world, seed=seed, start_ms=start_ms, starts_now=starts_now, prepared=engine)
            return sandbox_state(world, call.project)

    # Keys

    @handles(raises=(SemanticConflict,), needs=("key",))
    def create_api_key(self, call: Request) -> dict[str, Any]:
        """Issue another key for the project."""
        return self._new_key(call, lambda projects, key: projects.issue_key(call.project, key))

    @handles(raises=(SemanticConflict,), needs=("key", "body.replaces"))
    def rotate_api_key(self, call: Request) -> dict[str, Any]:
        """Issue a key that replaces another one, which is rejected from now on."""
        replaces = call.body["replaces"]
        return self._new_key(call, lambda projects, key: projects.rotate_key(call.project, key, replaces=replaces))

    # Time

    @handles(recorded=False)
    def get_clock(self, call: Request) -> dict[str, Any]:
        """The present instant and the rate."""
        return clock_state(self._world)

    @handles(raises=(SemanticConflict,), needs=("body.rate",))
    def set_clock(self, call: Request) -> dict[str, Any]:
        """Set the rate: 0 pauses the clock, 1 is real time."""
        try:
            self._world.move(lambda clock: clock.set_rate(call.body["rate"]))
        except ClockError:
            detail = (
                "the clock of a sandbox in Python moves only when it is advanced: advance it, or use `leyden serve`"
            )
            raise SemanticConflict(detail, field_errors=[FieldError("/rate", detail)]) from None
        return clock_state(self._world)

    @handles(raises=(Conflict, SemanticConflict))
    async def advance_clock(self, call: Request) -> dict[str, Any]:
        """Move time, and respond when every event due by then has run and every callback due by then was attempted."""
        [given] = call.body  # exactly one: the schema requires it
        world, value = self._world, call.body[given]
        try:
            with world.lock:
                world.guard.check_no_action()
                check_not_waiting(world)  # the request may be that of the receiver: it would wait for itself
        except ClockError as error:
            raise refused_by_move(str(error)) from None
        try:
            if given == "by":
                span_ms = to_span_ms("/by", value)
                ran = await advance_to(world, lambda clock: clock.now() + span_ms)
            elif given == "to":
                instant_ms = parse_iso(value)
                ran = await advance_to(world, lambda _: instant_ms)
            else:
                ran = await (run_until_idle if value == "idle" else run_until_next_event)(world)
        except ClockError as error:
            raise Conflict(str(error)) from None
        return {"now": to_iso(world.clock.now()), "count": ran.count, "fired": [_fired(event) for event in ran.fired]}

    # Payments

    @handles(raises=(InvalidRequest,), needs=("body.request", "body.outcome", "body.delay", "body.payer", "body.late"))
    async def create_payment(self, call: Request) -> dict[str, Any]:
        """Pay an invoice, an LNURL or a Lightning address as a wallet does.

        A payment that cannot be made is a failed payment.
        """
        body, world = call.body, self._world
        payer = body["payer"]
        text = strip_scheme(body["request"])
        amount_msat = None if body.get("amount") is None else int(body["amount"])
        try:
            delay_ms = span_from("delay", body["delay"])
        except ValueError as error:
            raise InvalidRequest(str(error), field_errors=[FieldError("/delay", str(error))]) from None
        refusal = None
        try:
            is_invoice = request_kind(text) == "bolt11"
            if is_invoice and body.get("comment"):
                detail = "an invoice takes no comment: leave it out, or pay an LNURL or a Lightning address"
                raise InvalidRequest(detail, field_errors=[FieldError("/comment", detail)])
            if not is_invoice:
                # The wallet's requests come first and outside the transaction, as those of a real wallet do.
                text = fetch_lnurl_invoice(
                    text,
                    amount_msat,
                    body.get("comment") or "",
                    self._fetch,
                    base_url=world.public_url,
                    identifier_of=world.service.static_charges.identifier_of,
                    default_to_minimum=True,
                )
                amount_msat = None
        except ValueError as error:
            refusal = str(error)
        is_event = world.defers_searches  # only an event can wait for a search
        with world.exclusive():
            try:
                if refusal is not None:
                    return _payment(world.payments.record_refusal(text, amount_msat, refusal, payer=payer))
                payment = world.payments.pay(
                    text,
                    payer=payer,
                    amount_msat=amount_msat,
                    outcome=body["outcome"],
                    delay_ms=delay_ms,
                    late=body["late"],
                    scheduled=is_event,
                )
            except ValueError as error:
                # Raised before anything was sent: an unreadable invoice, or an amount that it does not allow.
                payment = world.payments.record_refusal(text, amount_msat, str(error), payer=payer)
        if is_event:
            with suppress(StorageUnavailable):  # the event runs when the disk accepts it
                await catch_up(world)
            payment = world.payments.rows.row(payment["id"]) or payment
        return _payment(payment)

    @handles(needs=("query.limit",), recorded=False)
    async def list_payments(self, call: Request) -> Page:
        """One page of the payments that match the filter, or of those of one Charge's invoice, the newest first."""
        found = None
        while found is None:
            found = await self._payments_page(call)
        return found

    @handles(raises=(NotFound,), needs=("path.id",), recorded=False)
    def get_payment(self, call: Request) -> dict[str, Any]:
        """One payment."""
        return _payment(find_payment(self._world, call))

    @handles(raises=(NotFound, Conflict), needs=("path.id",))
    def settle_payment(self, call: Request) -> dict[str, Any]:
        """Settle a held payment."""
        return self._resolve(call, self._world.payments.settle)

    @handles(raises=(NotFound, Conflict), needs=("path.id",))
    def cancel_payment(self, call: Request) -> dict[str, Any]:
        """Cancel a held payment."""
        return self._resolve(call, self._world.payments.cancel)

    # Charges, journal

    @handles(raises=(NotFound, Conflict), needs=("path.id",))
    def fail_charge(self, call: Request) -> dict[str, Any]:
        """Let the node lose the Charge's invoice, so that the Charge fails."""
        world = self._world
        service = world.service.charges
        charge = service.find(call.project, call.path["id"])
        rule = service.lifecycle.decide(charge, "invoice_failed", world.clock.now())
        if rule.to is None:
            raise Conflict(f"this charge is {charge['status']}: {rule.because}")
        if not world.node.fail_invoice(charge["payment_hash"], call.body.get("reason") or "failed on request"):
            raise Conflict("the invoice of this charge is closed, and the charge will expire: fail it earlier")
        return charge_resource(service.find(call.project, charge["id"]))

    @handles(needs=("query.after", "query.limit"), recorded=False)
    def get_journal(self, call: Request) -> list[dict[str, Any]]:
        """The journal's entries after number `after`, in order. A read adds no entry: otherwise a reader that goes on
        until an empty page would never end."""
        entries = self._world.journal.entries(after=call.query["after"], limit=call.query["limit"])
        return [
            {
                "sequence": entry.sequence,
                "at": to_iso(entry.at_ms),
                "kind": entry.kind,
                "subject": entry.subject,
                "facts": entry.facts,
            }
            for entry in entries
        ]

    # Inside

    def _new_key(self, call: Request, make: Callable[[Projects, str | None], str]) -> dict[str, Any]:
        projects, wanted = self._world.service.projects, call.body.get("key")
        try:
            if wanted is not None and (refusal := self._world.key_refusal(wanted)) is not None:
                raise ValueError(refusal)
            key = make(projects, wanted)
            self._world.key_issued(key)
        except ValueError as error:
            raise SemanticConflict(str(error)) from None
        return {"key": key, "keys": projects.keys(call.project)}

    def _fetch(self, url: str) -> Mapping[str, Any]:
        base = self._world.public_url
        if not url.startswith(base + "/"):
            mend = "pay one that GET shows: with another --public-url or port it is another one"
            raise PayerError(f"the URL in this LNURL does not begin with {base}; {mend}")
        answer: Mapping[str, Any] = orjson.loads(self._world.request("GET", url.removeprefix(base)).body)
        return answer

    async def _payments_page(self, call: Request) -> Page | None:
        """The page; None after a reset in between. A payment with many attempts is a large row."""
        world = self._world
        service, table, charge_id = world.service, world.payments.rows, call.query.get("chargeId")
        bounds, status = created_between(call), call.query.get("status")
        filters = {} if status is None else {"status": status}

        def read(after: int | None, limit: int) -> list[Any]:
            with world.exclusive():
                if charge_id is None:
                    return table.page(filters, after, limit, **bounds)
                charge = service.charges.charges.row(charge_id)
                if charge is None:
                    return []
                # A payment that the wallet refused to start has no payment hash.
                wanted = ({"payment_hash": charge["payment_hash"]}, {"refused_request": charge["request"]})
                rows = [row for each in wanted for row in table.page({**each, **filters}, after, limit, **bounds)]
                return sorted(rows, key=lambda row: -row.doc_id)[:limit]

        return await sliced_page(
            call, "payment", read, _payment, slices=world.slices(), is_former=lambda: world.service is not service
        )

    def _resolve(self, call: Request, resolve: Callable[[str], PaymentRow]) -> dict[str, Any]:
        payment = find_payment(self._world, call)
        if payment["status"] != "held":
            raise Conflict(f"this payment is {payment['status']}: only a held one can be settled or cancelled")
        try:
            return _payment(resolve(payment["id"]))
        except PaymentNotHeld as refused:  # over a network the payer learns later that the receiver no longer holds it
            raise Conflict(str(refused)) from None


def _fired(event: Fired) -> dict[str, Any]:
    return {"at": to_iso(event.at_ms), "kind": event.kind, "id": event.key}


def _payment(row: PaymentRow) -> dict[str, Any]:
    return {
        "id": row["id"],
        "status": row["status"],
        "reason": row["reason"],
        "amount": None if row["amount_msat"] is None else str(row["amount_msat"]),
        "paymentHash": row["payment_hash"],
        "request": row["request"],
        "createdAt": to_iso(row["created_at"]),
        "resolvedAt": None if row["resolved_at"] is None else to_iso(row["resolved_at"]),
        "preimage": row["preimage"],
    }


def find_payment(world: World, call: Request) -> PaymentRow:
    """The payment named in the path. Raises `NotFound` when there is none."""
    row = world.payments.rows.row(call.path["id"])
    if row is None:
        raise NotFound("this sandbox has no payment with this id: list the payments")
    return row
