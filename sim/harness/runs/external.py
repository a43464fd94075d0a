"""A run against another implementation: what an adapter makes possible is checked, and the rest is reported.

The service has its own clock, so the times of a resource are taken from the first response that shows it. Its lists and
balances may contain more than this run created, so they are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.harness.checks import responses as checks
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.records import Charge, StaticCharge
from leyden.harness.model.rules import LINK_EXPIRY_S, instant, iso
from leyden.harness.runs.run import Run
from leyden.harness.session.observe import parsed
from leyden.harness.steps import Step
from leyden.harness.targets.served import ExternalService

_CLOCK_TOLERANCE_MS = 5_000  # between the times of resources and the Date header
_TRIES = 50
_UNCHECKED = {
    "list": "lists: they may contain more than this run created",
    "wallet": "balances: they may contain more than this run paid",
    "settle": "held payments: the adapter cannot hold a payment",
    "cancel": "held payments: the adapter cannot hold a payment",
    "fail": "the state error: the adapter cannot make an invoice fail",
    "receiver": "retries: the adapter cannot make a receiver fail",
    "fault": "faults: only a sandbox can inject them",
    "rotate": "rotation of the webhook secret",
    "replay": "replays of deliveries",
    "restart": "restarts",
    "spare_key": "rotation of API keys",
    "request": "obligations of the documents: their answers depend on everything that the service has",
    "fill": "obligations of the documents: their answers depend on everything that the service has",
    "pages": "obligations of the documents: their answers depend on everything that the service has",
}


class ExternalRun(Run):
    """A run whose target is an `ExternalService`."""

    target: ExternalService

    def __init__(self, target: ExternalService, **start: Any) -> None:
        super().__init__(target, **start)
        self.model.timeline.now = self._service_time()
        self._nonce = target.nonce()

    def _service_time(self) -> int:
        """The time of the service, in ms: that of a Charge which is created for this purpose."""
        response = self.request("createCharge", "/v0/charges", body={"amount": "1000", "description": "time check"})
        data = checks.success(response, "timestamps", "the first Charge")
        return max(self._created_at(data, "the first Charge"), self.target.now_ms or 0)

    def do(self, step: Step) -> bool:
        """Do a step as far as this service and its adapter allow."""
        if step["do"] in _UNCHECKED:
            self.unchecked[_UNCHECKED[step["do"]]] = None
            return False
        self.model.advance_to(max(self.model.now, self.target.now_ms or 0))
        if step["do"] in {"pay", "advance"}:
            return self._by_adapter(step)
        body = step.get("body", {})
        if body.get("identifier"):
            self.unchecked["Lightning addresses: a name may be in use"] = None
            return False
        if body.get("expiresIn") in (1, 2):
            self.unchecked["expiry times of one or two seconds"] = None
            return False
        address = getattr(self.target.adapter, "callback_url", None)
        if address and str(body.get("callbackUrl", "")).startswith("http://r"):
            step = {**step, "body": {**body, "callbackUrl": address}}
        if 0 < len(step.get("idempotency_key", "")) < 200:
            step = {**step, "idempotency_key": step["idempotency_key"] + self._nonce}
        return super().do(step)

    def _by_adapter(self, step: Step) -> bool:
        """Pay in full or advance the clock by the adapter."""
        method = getattr(self.target.adapter, step["do"], None)
        if method is None:
            self.unchecked[f"the effects of {step['do']}: the adapter has no {step['do']}()"] = None
            return False
        if step["do"] == "advance":
            if "by" not in step:
                return False
            seconds = -(-step["by"] // 1_000)
            method(seconds)
            self.request("getWallet", "/v0/wallet")
            self.model.advance_to(max(self.model.now, self.target.now_ms or 0))
        else:
            charge = self.model.ledger.charges.get(step["charge"])
            plain = step.get("outcome", "settle") == "settle" and not {"amount", "delay"} & set(step)
            if charge is None or not plain:
                return False
            method(charge.request)
            self.model.pay(step["as"], charge, "settle", None, 0)
        self.done += 1
        self.catch_up()
        return True

    # Values that the service chooses; here these are also the times

    def bind_charge(self, charge: Charge, data: Any, where: str) -> None:
        """Take the creation time of a new Charge from its first response."""
        lifetime_ms = charge.expires_at - charge.created_at
        charge.created_at = self._created_at(data, where)
        end = None if charge.parent is None else charge.parent.expires_at
        if end is not None:
            lifetime_ms = min(1_000 * LINK_EXPIRY_S, (end - charge.created_at) // 1_000 * 1_000)
        charge.expires_at = charge.created_at + lifetime_ms
        super().bind_charge(charge, data, where)

    def bind_static(self, static: StaticCharge, data: Any, where: str) -> None:
        """Take the creation time of a new Static Charge from its first response."""
        created_at = self._created_at(data, where)
        if static.expires_at is not None:
            static.expires_at += created_at - static.created_at
        static.created_at = created_at
        super().bind_static(static, data, where)

    def _created_at(self, data: Any, where: str) -> int:
        text = data.get("createdAt") if isinstance(data, Mapping) else None
        now = self.target.now_ms
        try:
            at = instant(str(text))
        except ValueError:
            at = -1
        if at < 0 or text != iso(at) or (now is not None and abs(at - now) > _CLOCK_TOLERANCE_MS):
            expected = "the present time" if now is None else f"about {iso(now)}"
            raise ContractViolation("echo", "timestamps", f"{where}: createdAt", expected, text)
        return at

    def check_resource(self, resource: Charge | StaticCharge) -> None:
        """Compare a resource, except in the seconds around its expiry; a payment may take some time to arrive."""
        if resource.expires_at is not None and abs(resource.expires_at - self.model.now) < _CLOCK_TOLERANCE_MS:
            return
        if isinstance(resource, Charge) and resource.status == "completed":
            self._await_payment(resource)
        super().check_resource(resource)
        if isinstance(resource, Charge) and resource.delivery is not None:
            self._check_inbox(resource)

    def _await_payment(self, charge: Charge) -> None:
        for _ in range(_TRIES):
            response = self.request("getChargeDetails", f"/v0/charges/{charge.id}", key=charge.project)
            data = (response.json or {}).get("data", {})
            if data.get("status") == "completed":
                paid_at = instant(str(data.get("confirmedAt")))
                if charge.created_at <= paid_at <= (self.target.now_ms or paid_at) + _CLOCK_TOLERANCE_MS:
                    charge.confirmed_at = paid_at
                return

    def _check_inbox(self, charge: Charge) -> None:
        """The receiver got at least one callback about the Charge with the expected body."""
        inbox = getattr(self.target.adapter, "inbox", None)
        if inbox is None or charge.callback_url is None:
            self.unchecked["callbacks: the adapter has no inbox()"] = None
            return
        assert charge.delivery is not None
        expected = {**charge.delivery.body}
        if charge.confirmed_at is not None:
            expected["confirmedAt"] = iso(charge.confirmed_at)
        for _ in range(_TRIES):
            bodies = [body for _, body in inbox(charge.callback_url) if str(charge.id) in body]
            if bodies:
                break
            self.request("getWallet", "/v0/wallet")
        observed = [parsed(body) for body in bodies]
        if expected not in observed:
            where = f"callbacks of {charge.label}"
            raise ContractViolation("callback_contract", "callback-body", where, expected, observed or "none")

    def final_checks(self) -> None:
        """Compare every resource of this run. Raises `ContractViolation`."""
        for resource in self.model.ledger.resources:
            self.check_resource(resource)
