"""The reference model: the service's rules in a few hundred lines, so that somebody knows what is right before looking.

Each method is one step of `leyden.harness.executors.executors`. It changes the model and returns what the service must
answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from leyden.harness.model.callbacks import Luck, Outbox
from leyden.harness.model.charges import Book
from leyden.harness.model.records import Charge, Payment, Static
from leyden.harness.model.rules import (
    KEPT_MS,
    LINK_EXPIRY_S,
    LONGEST_COMMENT,
    USUAL_EXPIRY_S,
    Reading,
    given,
    has_half_character,
    is_key,
    pointed,
    wrong_in_changes,
    wrong_in_charge,
    wrong_in_static,
)
from leyden.harness.model.time import Timeline

Body = Mapping[str, Any]


@dataclass(slots=True)
class Promise:
    """What must be answered: the status, for a refusal its `code`, and the entry or row that says so (`because`).

    `points` is the place of a field that is wrong, which a 400 must name. `made` is the record that a 200 shows;
    `refused_link` a wallet's request that gets LNURL's ERROR. `replays` is the exact body of an earlier answer;
    `remember` is to be given the body of this one.
    """

    status: int
    code: str = ""
    because: str = ""
    points: str = ""
    made: Charge | Static | Payment | None = None
    refused_link: bool = False
    replays: bytes | None = None
    remember: Callable[[bytes], None] | None = None


class Model:
    """What the service should be like now. `luck` tells what it drew where the rules leave it to chance."""

    def __init__(self, reading: Reading, start_ms: int, luck: Luck) -> None:
        self.reading = reading
        self.time = Timeline(start_ms)
        self.touched: dict[Charge | Static, None] = {}
        self.outbox = Outbox(self.time, reading, luck, self._touch, self.signing)
        self.book = Book(self.time, reading, self.outbox, self._touch)
        self.secrets: dict[str, list[tuple[str, int | None]]] = {}
        self.limits: list[tuple[str | None, int]] = []
        self._kept: dict[tuple[str, str, str], tuple[str, int, bytes]] = {}

    @property
    def now(self) -> int:
        """The present, in ms since 1970."""
        return self.time.now

    def _touch(self, thing: Charge | Static) -> None:
        self.touched[thing] = None

    def reached(self) -> list[tuple[str, ...]]:
        """The rows and outcomes that decided something since this was last asked."""
        cells = [*self.book.reached, *self.outbox.reached]
        self.book.reached.clear()
        self.outbox.reached.clear()
        return cells

    # At the door

    def limited(self, operation: str) -> bool:
        """Whether a fault asked for this request to be refused with 429."""
        for place, (wanted, left) in enumerate(self.limits):
            if wanted in (None, operation) and left:
                self.limits[place] = (wanted, left - 1)
                return True
        return False

    def _once(self, project: str, operation: str, key: str | None, body: Body, judge: Callable[[], Promise]) -> Promise:
        """Answer as before for a key that is remembered; otherwise judge, and remember [idempotency]."""
        if key is None:
            return judge()
        name, print_ = (project, operation, key), json.dumps(body, sort_keys=True)
        kept = self._kept.get(name)
        if kept is not None and self.now < kept[1] + KEPT_MS:
            if kept[0] != print_:
                return Promise(409, "idempotency_key_reused", "idempotency")
            return Promise(0, because="idempotency", replays=kept[2])
        promise, at = judge(), self.now

        def remember(answer: bytes) -> None:
            self._kept[name] = (print_, at, answer)

        promise.remember = remember
        return promise

    # Charges

    def create_charge(self, label: str, project: str, body: Body, key: str | None) -> Promise:
        """POST /v0/charges, past the checks of key, media type and JSON."""
        if key is not None and not is_key(key):
            return Promise(400, "invalid_request", "idempotency")
        wrong = ("", "statuses") if has_half_character(body) else wrong_in_charge(body, self.reading)
        if wrong is not None:
            return Promise(400, "invalid_request", wrong[1], wrong[0] and f"/{wrong[0]}")
        if pointed(body, ("expiresIn", "amount")):
            return Promise(409, "not_possible", "statuses")
        return self._once(project, "createCharge", key, body, lambda: self._new_charge(label, project, body))

    def _new_charge(self, label: str, project: str, body: Body) -> Promise:
        created_at = self.now // 1_000 * 1_000
        charge = Charge(
            label=label,
            project=project,
            amount_msat=int(body["amount"]),
            description=body["description"],
            internal_id=body.get("internalId"),
            callback_url=body.get("callbackUrl"),
            created_at=created_at,
            expires_at=created_at + 1_000 * (given(body.get("expiresIn")) or USUAL_EXPIRY_S),
        )
        self.book.open(charge)
        self._touch(charge)
        return Promise(200, because="paths", made=charge)

    # Static Charges

    def create_static(self, label: str, project: str, body: Body, key: str | None) -> Promise:
        """POST /v0/static-charges."""
        if key is not None and not is_key(key):
            return Promise(400, "invalid_request", "idempotency")
        wrong = ("", "statuses") if has_half_character(body) else wrong_in_static(body, self.reading)
        if wrong is not None:
            return Promise(400, "invalid_request", wrong[1], wrong[0] and f"/{wrong[0]}")
        if pointed(body, ("expiresIn", "allowedSlots", "minAmount", "maxAmount")):
            return Promise(409, "not_possible", "statuses")
        return self._once(project, "createStaticCharge", key, body, lambda: self._new_static(label, project, body))

    def _new_static(self, label: str, project: str, body: Body) -> Promise:
        identifier = body.get("identifier") or None
        # Fields that contradict each other and a name that is taken: which is found first is nobody's business.
        crossed = int(body["minAmount"]) > int(body["maxAmount"])
        if identifier is not None and self.named(identifier.partition("@")[0]) is not None:
            return Promise(409, "" if crossed else "conflict", "identifier")
        if crossed:
            return Promise(409, "not_possible", "amounts")
        seconds = given(body.get("expiresIn"))
        static = Static(
            label=label,
            project=project,
            min_msat=int(body["minAmount"]),
            max_msat=int(body["maxAmount"]),
            description=body["description"],
            success_message=body.get("successMessage"),
            allowed=given(body.get("allowedSlots")),
            internal_id=body.get("internalId"),
            callback_url=body.get("callbackUrl"),
            identifier=body.get("identifier"),
            created_at=self.now,
            expires_at=None if seconds is None else self.now + 1_000 * seconds,
        )
        self.book.open_static(static)
        self._touch(static)
        return Promise(200, because="paths", made=static)

    def named(self, user: str) -> Static | None:
        """The Static Charge with this Lightning address, of whichever project [identifier]."""
        statics = self.book.statics.values()
        return next((one for one in statics if one.identifier and one.identifier.partition("@")[0] == user), None)

    def change_static(self, static: Static, project: str, body: Body) -> Promise:
        """PATCH /v0/static-charges/{id} [static-updates]."""
        wrong = ("", "statuses") if has_half_character(body) else wrong_in_changes(body, self.reading)
        if wrong is not None:
            return Promise(400, "invalid_request", "static-updates", wrong[0] and f"/{wrong[0]}")
        if pointed(body, ("allowedSlots", "minAmount", "maxAmount")):
            return Promise(409, "not_possible", "statuses")
        if static.project != project:
            return Promise(404, "not_found", "statuses")
        if self.book.unchangeable(static):
            return Promise(409, "conflict", "static-updates")
        least, most = int(body.get("minAmount", static.min_msat)), int(body.get("maxAmount", static.max_msat))
        allowed = given(body["allowedSlots"]) if "allowedSlots" in body else static.allowed
        if least > most or ("allowedSlots" in body and allowed is not None and allowed < static.slots):
            return Promise(409, "not_possible", "static-updates")
        static.min_msat, static.max_msat, static.allowed = least, most, allowed
        if "description" in body:
            static.description, static.metadata = body["description"], None
        static.success_message = body.get("successMessage", static.success_message)
        static.internal_id = body.get("internalId", static.internal_id)
        static.callback_url = body.get("callbackUrl", static.callback_url)
        self._touch(static)
        self.book.recount(static, asked="allowedSlots" in body)
        return Promise(200, because="static-updates", made=static)

    # Wallets

    def terms(self, static: Static) -> Promise:
        """A wallet reads the link [lnurl-pay]."""
        if not self.book.free_for_invoice(static):
            return Promise(200, because="lnurl-pay", refused_link=True)
        return Promise(200, because="lnurl-pay", made=static)

    def ask_invoice(self, label: str, static: Static, amount: str | None, comment: str, twice: bool) -> Promise:
        """A wallet asks for an invoice: a Charge of its own, if everything fits [lnurl-pay, child-charges]."""
        if not self.book.free_for_invoice(static):
            return Promise(200, because="lnurl-pay", refused_link=True)
        digits = amount is not None and amount.isascii() and amount.isdigit() and amount[0] != "0"
        fits = digits and static.min_msat <= int((amount or "0")[:12]) <= static.max_msat
        if twice or not fits or len(comment) > LONGEST_COMMENT:
            return Promise(200, because="lnurl-pay", refused_link=True)
        created_at = self.now // 1_000 * 1_000
        seconds = LINK_EXPIRY_S
        if static.expires_at is not None:
            seconds = min(seconds, (static.expires_at - created_at) // 1_000)
        if seconds < 1:
            return Promise(200, because="lnurl-pay", refused_link=True)
        charge = Charge(
            label=label,
            project=static.project,
            amount_msat=int(amount or "0"),
            description=static.description,
            internal_id=static.internal_id,
            callback_url=static.callback_url,
            created_at=created_at,
            expires_at=created_at + 1_000 * seconds,
            parent=static,
            metadata=static.metadata,
        )
        static.children.append(charge)
        self.book.open(charge)
        self._touch(charge)
        return Promise(200, because="child-charges", made=charge)

    # Payments, faults, time

    def pay(self, label: str, charge: Charge, outcome: str, amount: int | None, delay_ms: int) -> Promise:
        """Somebody pays an invoice, well or badly [scripted-payments]."""
        asked = charge.amount_msat
        if amount is None:
            amount = asked - 1 if outcome == "underpay" else asked
        payment = Payment(label, charge, amount, outcome, self.now)
        self.book.send(payment, delay_ms)
        return Promise(200, because="scripted-payments", made=payment)

    def advance_to(self, when_ms: int) -> None:
        """Time passes; an instant that has passed changes nothing."""
        self.time.run_to(max(when_ms, self.now))

    def signing(self, project: str) -> list[str]:
        """The secrets that sign the project's callbacks now, the newest first [callback-signature]."""
        return [secret for secret, until in self.secrets.get(project, ()) if until is None or self.now < until]

    def ends(self) -> list[int]:
        """The instants at which something is forgotten: answers kept for a key, and secrets that were replaced."""
        kept = [at + KEPT_MS for _, at, _ in self._kept.values()]
        return kept + [until for known in self.secrets.values() for _, until in known if until is not None]

    def rotate(self, project: str, secret: str) -> None:
        """Another secret from now on; those before it go on signing for a day."""
        until = self.now + KEPT_MS
        before = self.secrets.get(project, [])
        self.secrets[project] = [(secret, None), *((old, until if end is None else end) for old, end in before)]
