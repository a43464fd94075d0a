"""A run against another implementation: what an adapter makes possible is checked, and the rest is reported.

The service has its own clock, so the times of a resource are taken from the first response that shows it. Its lists and
balances may contain more than this run created, so they are not checked.

An adapter without `now` does not say which time it is. Then `createdAt` of a new Charge does: one is created at the
start and after each `advance`, and where a check fails that a later time would explain. What is about to end or has
just ended is left alone, and what a step found in another state for this reason is not compared any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from leyden.harness.checks import responses as checks
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.constants import NO_KEY
from leyden.harness.executors.projects import SECOND_CLOCK
from leyden.harness.executors.world import scheduled_time
from leyden.harness.model.records import Charge, Delivery, Payment, StaticCharge
from leyden.harness.model.rules import LINK_EXPIRY_S, instant, iso
from leyden.harness.runs.inbox import check_inbox
from leyden.harness.runs.run import Run
from leyden.harness.steps import Step, StepImpossible
from leyden.harness.targets.adapter import ADAPTER_METHODS, adapter_attribute, adapter_call
from leyden.harness.targets.served import ExternalService
from leyden.harness.targets.target import PROJECT, SECOND_PROJECT

TOLERANCE_MS = 5_000  # of times, for an adapter without now()
_TRIES = 50
_BLOCK_MS = 600_000  # an HTLC expires at a height, so a node has no reason to return it within a block
_LONG_KEY = 200  # characters of an Idempotency-Key, of which a service takes 255
NEVER_DONE = {
    "list": "lists: they may contain more than this run created",
    "wallet": "balances: they may contain more than this run paid",
    "receiver": "retries: only a sandbox has scripted receivers",
    "fault": "faults: only a sandbox can inject them",
    "clear_faults": "faults: only a sandbox can inject them",
    "replay": "replays of deliveries: only a sandbox has them",
    "follow": "obligations of the documents: their answers depend on everything that the service has",
    "crash": "kills of the service: only a sandbox in process can be killed within a step",
    "spare_key": "rotation of API keys: only a sandbox has it",
    "reset": "a reset: only a sandbox has it",
    "request": "obligations of the documents: their answers depend on everything that the service has",
    "fill": "obligations of the documents: their answers depend on everything that the service has",
    "pages": "obligations of the documents: their answers depend on everything that the service has",
}
_ALWAYS = (
    "Lightning addresses: a name may be in use",
    "429: only the control plane can cause it",
    SECOND_CLOCK,
    "payments of another amount, with a delay or without a route: no adapter has them",
)
# The methods of the adapter that a step needs. Without them it is not done.
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "pay": ("pay",), "advance": ("advance",), "fail": ("fail",), "settle": ("settle",), "cancel": ("cancel",),
    "rotate": ("rotate", "secret"), "restart": ("restart",),
}  # fmt: skip


class ExternalRun(Run):
    """A run whose target is an `ExternalService`."""

    target: ExternalService

    def __init__(self, target: ExternalService, **start: Any) -> None:
        super().__init__(target, **start)
        self.unchecked.update(dict.fromkeys(not_checked(target)))
        self._shown_at = 0
        self._doubtful: set[Charge | StaticCharge] = set()
        self.model.timeline.now = self._now() if target.tells_time else self._service_time()
        self.started_at = self.model.now
        self._nonce = target.nonce()
        self._callback_url = adapter_attribute(target.adapter, "callback_url")
        self._hold_limit_ms = None if target.hold_limit_s is None else round(target.hold_limit_s * 1_000)
        # From a moment before the limit to one after it the node may hold a payment or have returned it.
        self.model.ledger.hold_limit_ms = self._hold_limit_ms and self._hold_limit_ms + TOLERANCE_MS
        secret = adapter_call(target.adapter, "secret")
        if secret is not None:
            target.secrets.learn(text := secret())
            self.model.secrets[PROJECT] = [(text, None)]

    def _service_time(self) -> int:
        """The time of the service, in ms: by its adapter, or else by a Charge that is created for this purpose."""
        if not self.target.tells_time:
            response = self.request("createCharge", "/v0/charges", body={"amount": "1000", "description": "time check"})
            data = checks.success(response, "timestamps", "the first Charge")
            self._created_at(data, "the first Charge")
        return self._now()

    def _now(self) -> int:
        """The time of the service as far as it is known without a request."""
        now = self.target.now_ms
        return self._shown_at if now is None else now

    def _explains(self, instants: Iterable[int], *, to: int | None = None) -> bool:
        """Whether the service may be after one of these instants and the model before it, or the reverse, up to now or
        to the time `to`."""
        slack = 0 if self.target.tells_time else TOLERANCE_MS
        start, end = self.model.now - slack, (self.model.now if to is None else to) + slack
        return any(start < at <= end for at in instants)

    def _is_explained_now(self, instants: Sequence[int]) -> bool:
        """The same for a check that failed, at the time that the service has after it."""
        if not instants:
            return False
        with suppress(ContractViolation):
            return self._explains(instants, to=self._service_time())
        return False

    def _is_about(self, at: int, expected: int) -> bool:
        """Whether a time that the service states is about that of the model, or between that and the present one."""
        if abs(at - expected) <= TOLERANCE_MS:
            return True
        return not self.target.tells_time and expected < at <= self._service_time() + TOLERANCE_MS

    def do(self, step: Step) -> bool:
        """Do a step as far as this service and its adapter allow."""
        needed = _NEEDED.get(step["do"], ())
        if is_never_done(step) or any(adapter_call(self.target.adapter, one) is None for one in needed):
            return False
        self.model.advance_to(self._now())
        used = self._used(step)
        instants = [one.expires_at for one in used if one.expires_at is not None]
        instants += self.model.retention_ends() if step.get("idempotency_key") else []
        if self._doubtful & set(used) or (not self.target.tells_time and self._explains(instants)):
            return False
        try:
            return self._do(step)
        except ContractViolation:
            if not self._is_explained_now(instants):
                raise
            self._doubtful.update(used)
            return True

    def _used(self, step: Step) -> list[Charge | StaticCharge]:
        """The resources that the step names, with their Static Charges."""
        ledger = self.model.ledger
        found: list[Charge | StaticCharge | None] = []
        for name in ("charge", "static", "what", "payment"):
            label = str(step.get(name, ""))
            payment = ledger.payments.get(label) if name == "payment" else None
            charge = ledger.charges.get(label) if payment is None else payment.charge
            one = charge or ledger.static_charges.get(label)
            found += [one, one.parent if isinstance(one, Charge) else None]
        return [one for one in found if one is not None]

    def _do(self, step: Step) -> bool:
        name = step["do"]
        if name in {"pay", "advance", "fail", "settle", "cancel", "rotate"}:
            try:
                done = self._by_adapter(step)
            except StepImpossible:
                return False
            if done:
                self.done += 1
                self.delivery_cache.clear()
                self.catch_up()
            return done
        body = step.get("body", {})
        if body.get("expiresIn") in (1, 2) and not self.target.tells_time:
            return False
        address = self._callback_url
        if address and str(body.get("callbackUrl", "")).startswith("http://r"):
            step = {**step, "body": {**body, "callbackUrl": address}}
        if step.get("idempotency_key"):
            step = {**step, "idempotency_key": self._of_this_run(step["idempotency_key"])}
        return super().do(step)

    def _of_this_run(self, key: str) -> str:
        """The Idempotency-Key with a text that no other run has: the service keeps its state between runs. A long key
        keeps its length, which may be a bound."""
        if len(key) < _LONG_KEY:
            return key + self._nonce
        return key[: len(key) - len(self._nonce)] + self._nonce

    def _by_adapter(self, step: Step) -> bool:
        """Do a step with the adapter: first the service, then the model at the time of the service."""
        ledger = self.model.ledger
        method = adapter_call(self.target.adapter, step["do"])
        if step["do"] == "advance":
            to = self.model.now + step.get("by", 0)
            if "to" in step:
                to = scheduled_time(self.resource(step["to"][1]), step["to"][0]) + step.get("offset", 0)
            assert method is not None
            if to > self.model.now:
                method((to - self.model.now) / 1_000)
            self.model.advance_to(max(self.model.now, self._service_time()))
        elif step["do"] == "pay":
            charge, outcome = self.charge(step["charge"]), step.get("outcome", "settle")
            method = {"settle": method, "hold": adapter_call(self.target.adapter, "hold")}.get(outcome)
            if method is None or {"amount", "delay"} & set(step):
                return False
            doubtful = charge.held if charge.held is not None and not self._surely_held(charge.held) else None
            if doubtful is not None and outcome == "hold":
                return False  # nothing shows which of the two payments the node holds then
            method(charge.request)
            if doubtful is not None and self._shows(charge, "completed"):
                ledger.give_back(doubtful)
            self.model.pay(step["as"], charge, outcome, None, 0)
        elif step["do"] == "fail":
            charge = self.charge(step["charge"])
            if charge.project != PROJECT:
                return False
            assert method is not None
            method(charge.id)
            ledger.fail(charge)
        elif step["do"] == "rotate":
            assert method is not None
            method()
            secret = adapter_call(self.target.adapter, "secret")
            assert secret is not None
            self.target.secrets.learn(text := secret())
            checks.new_secret(text, [known for known, _ in self.model.secrets[PROJECT]])
            self.model.rotate(PROJECT, text)
        else:
            payment = self.payment(step["payment"])
            if payment.charge.held not in (None, payment):
                return False  # the adapter names the invoice, and another payment of it is held
            assert method is not None
            method(payment.charge.request)
            final = "completed" if step["do"] == "settle" else "error"
            if payment.status == "held" and not self._surely_held(payment) and not self._shows(payment.charge, final):
                ledger.give_back(payment)
            (ledger.settle_held if step["do"] == "settle" else ledger.cancel_held)(payment)
        return True

    def _surely_held(self, payment: Payment) -> bool:
        """Whether the node cannot have returned a held payment yet: within one block, or before the stated limit."""
        assert payment.held_at is not None
        limit_ms = _BLOCK_MS if self._hold_limit_ms is None else self._hold_limit_ms - TOLERANCE_MS
        return self.model.now - payment.held_at < limit_ms

    def _shows(self, charge: Charge, status: str) -> bool:
        """Whether the service shows another status than pending, which may take a moment; if it stays pending, the step
        found no held payment, or refused a second one. `status` is the one that the step has by the lifecycle tables.
        """
        for _ in range(_TRIES):
            response = self.request("getChargeDetails", f"/v0/charges/{charge.id}", key=charge.project)
            data = response.json.get("data") if isinstance(response.json, dict) else None
            if not isinstance(data, dict) or data.get("status") not in ("pending", status):
                return True  # the check of the resource says what is wrong
            if data["status"] == status:
                return True
        return False

    # Values that the service chooses; here these are also the times

    def bind_charge(self, charge: Charge, data: Any, where: str) -> None:
        """Take the creation time of a new Charge from its first response."""
        lifetime_ms = charge.expires_at - charge.created_at
        charge.created_at = self._created_at(data, where)
        checks.created_with(data, where)
        end = None if charge.parent is None else charge.parent.expires_at
        if end is not None:
            lifetime_ms = min(1_000 * LINK_EXPIRY_S, (end - charge.created_at) // 1_000 * 1_000)
        if charge.expires_at != charge.created_at + lifetime_ms:
            charge.expires_at = charge.created_at + lifetime_ms
            self.model.ledger.schedule_expiry(charge)
        super().bind_charge(charge, data, where)

    def bind_static(self, static: StaticCharge, data: Any, where: str) -> None:
        """Take the creation time of a new Static Charge from its first response."""
        created_at = self._created_at(data, where)
        if static.expires_at is not None and created_at != static.created_at:
            static.expires_at += created_at - static.created_at
            self.model.ledger.schedule_expiry(static)
        static.created_at = created_at
        super().bind_static(static, data, where)

    def _created_at(self, data: Any, where: str) -> int:
        text = data.get("createdAt") if isinstance(data, Mapping) else None
        try:
            at = instant(str(text))
        except ValueError:
            at = -1
        now = self.target.now_ms
        if at < 0 or text != iso(at):
            raise ContractViolation(
                "echo", "timestamps", f"{where}: createdAt", "a time in UTC with milliseconds", text
            )
        self._shown_at = max(self._shown_at, at)
        if now is not None and abs(at - now) > TOLERANCE_MS:
            raise ContractViolation("echo", "timestamps", f"{where}: createdAt", f"about {iso(now)}", text)
        return at

    def check_resource(self, resource: Charge | StaticCharge) -> None:
        """Compare a resource, except about its expiry if the time is not known exactly, and its callbacks."""
        head = resource.parent if isinstance(resource, Charge) and resource.parent is not None else resource
        if self._doubtful & {resource, head}:
            return
        if resource.expires_at is not None and not self._is_exact(resource.expires_at):
            return
        try:
            self._compare(resource)
        except ContractViolation:
            if not self._is_explained_now([] if resource.expires_at is None else [resource.expires_at]):
                raise
            self._doubtful.update((resource, head))

    def _compare(self, resource: Charge | StaticCharge) -> None:
        if isinstance(resource, Charge) and resource.status == "completed":
            self._await_payment(resource)
        super().check_resource(resource)
        inbox, address = adapter_call(self.target.adapter, "inbox"), self._callback_url
        if not isinstance(resource, Charge) or inbox is None:
            return
        delivery = resource.delivery
        if address is None:
            is_received = delivery is None or delivery.status != "blocked"
        else:
            is_received = resource.callback_url == address
        if is_received:
            check_inbox(self, resource, inbox, self._is_about, signed=not self._has_rotated_at(delivery))

    def _has_rotated_at(self, delivery: Delivery | None) -> bool:
        """Whether a secret ends about the time of the callback, and the time is not known exactly."""
        if delivery is None or self.target.tells_time:
            return False
        ends = [until for _, until in self.model.secrets.get(PROJECT, ()) if until is not None]
        return any(abs(until - delivery.created_at) <= TOLERANCE_MS for until in ends)

    def _is_exact(self, at: int) -> bool:
        """Whether the service is surely before or after this instant, on the same side as the model."""
        if not self.target.tells_time:
            return abs(at - self.model.now) >= TOLERANCE_MS
        return (self._now() >= at) == (self.model.now >= at)

    def _await_payment(self, charge: Charge) -> None:
        """Take the time of a payment, which may take a moment, from the response; it must be about that of the step."""
        for _ in range(_TRIES):
            response = self.request("getChargeDetails", f"/v0/charges/{charge.id}", key=charge.project)
            data = response.json.get("data") if isinstance(response.json, dict) else None
            if not isinstance(data, dict) or data.get("status") != "completed":
                continue
            try:
                paid_at = instant(str(data.get("confirmedAt")))
            except ValueError:
                return
            if charge.confirmed_at not in (None, paid_at) and self._is_about(paid_at, charge.confirmed_at):
                charge.confirmed_at = paid_at
                if charge.delivery is not None and "confirmedAt" in charge.delivery.body:
                    charge.delivery.body["confirmedAt"] = iso(paid_at)
            return

    def final_checks(self) -> None:
        """Compare every resource of this run and its callbacks. Raises `ContractViolation`."""
        for resource in self.model.ledger.resources:
            self.check_resource(resource)


def is_never_done(step: Step) -> bool:
    """Whether no adapter makes the step possible."""
    is_named = bool(step.get("body", {}).get("identifier"))
    return step["do"] in NEVER_DONE or is_named or (step["do"] == "odd" and step["kind"] == "too-many")


def not_checked(target: ExternalService) -> list[str]:
    """The checks that are impossible at this service with its adapter. They are the same in every run."""
    found = [*NEVER_DONE.values(), *_ALWAYS]
    found += [
        f"{what}: the adapter has no {name}()"
        for name, what in ADAPTER_METHODS.items()
        if adapter_call(target.adapter, name) is None
    ]
    if adapter_call(target.adapter, "inbox") is not None:
        address = adapter_attribute(target.adapter, "callback_url")
        which = "that a sandbox blocks" if address is None else "besides the adapter's callback_url"
        found.append(f"callbacks to URLs {which}: the inbox may not have them")
    if target.keys[SECOND_PROJECT] == NO_KEY:
        found.append("isolation of projects: give --second-api-key")
    return list(dict.fromkeys(found))
