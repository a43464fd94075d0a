"""A run against anybody's service: what can be seen and moved from outside is checked, and the rest is named.

Its clock is its own, so instants are taken from its answers and held from then on; its lists and balances hold more
than this run, so they are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.harness.checks import responses as checks
from leyden.harness.checks.observe import parsed
from leyden.harness.checks.violations import Broken
from leyden.harness.model.records import Charge, Static
from leyden.harness.model.rules import LINK_EXPIRY_S, instant, iso
from leyden.harness.runs.run import Run, Step
from leyden.harness.runs.served import AnyService

_SLACK_MS = 5_000  # between its clock, as its answers show it, and ours
_TRIES = 50
_WORLDLY = {
    "list": "lists as a whole: there may be more in them than this run put there",
    "wallet": "balances: there may be more in them than this run paid",
    "settle": "held payments: nobody here can hold one",
    "cancel": "held payments: nobody here can hold one",
    "fail": "the state error: nobody here can make an invoice fail",
    "receiver": "retries: nobody here can make a receiver fail",
    "fault": "faults: they are the sandbox's",
    "rotate": "a change of the webhook secret",
    "replay": "a message that is asked for again",
    "restart": "restarts",
    "spare_key": "keys that are replaced",
}


class ForeignRun(Run):
    """A run whose target is an `AnyService`."""

    target: AnyService

    def __init__(self, target: AnyService, **world: Any) -> None:
        super().__init__(target, **world)
        self.model.time.now = self._present()
        self._nonce = target.nonce()

    def _present(self) -> int:
        """What time it is there: a Charge that is made for nothing else says so."""
        answer = self.ask("createCharge", "/v0/charges", body={"amount": "1000", "description": "what time is it?"})
        data = checks.success(answer, "DECISIONS timestamps", "the first Charge")
        return max(self._moment(data, "the first Charge"), self.target.now_ms or 0)

    def do(self, step: Step) -> bool:
        """Do a step as far as it can be done here."""
        if step["do"] in _WORLDLY:
            self.unchecked[_WORLDLY[step["do"]]] = None
            return False
        self.model.advance_to(max(self.model.now, self.target.now_ms or 0))
        if step["do"] in {"pay", "advance"}:
            return self._levered(step)
        body = step.get("body")
        if isinstance(body, Mapping) and body.get("identifier"):
            self.unchecked["Lightning addresses: a name may be taken there"] = None
            return False
        if isinstance(body, Mapping) and body.get("expiresIn") in (1, 2):
            self.unchecked["what lives for a second or two"] = None
            return False
        address = getattr(self.target.levers, "callback_url", None)
        if isinstance(body, Mapping) and address and str(body.get("callbackUrl", "")).startswith("http://r"):
            step = {**step, "body": {**body, "callbackUrl": address}}
        if 0 < len(step.get("once", "")) < 200:
            step = {**step, "once": step["once"] + self._nonce}
        return super().do(step)

    def _levered(self, step: Step) -> bool:
        """Pay in full, or let time pass, by the levers of whoever runs the service."""
        lever = getattr(self.target.levers, step["do"], None)
        if lever is None:
            self.unchecked[f"whatever follows from {step['do']}: the levers have no {step['do']}()"] = None
            return False
        if step["do"] == "advance":
            if "by" not in step:
                return False
            seconds = -(-step["by"] // 1_000)
            lever(seconds)
            self.ask("getWallet", "/v0/wallet")
            self.model.advance_to(max(self.model.now, self.target.now_ms or 0))
        else:
            charge = self.model.book.charges.get(step["charge"])
            plain = step.get("outcome", "settle") == "settle" and not {"amount", "delay"} & set(step)
            if charge is None or not plain:
                return False
            lever(charge.request)
            self.model.pay(step["as"], charge, "settle", None, 0)
        self.done += 1
        self.catch_up()
        return True

    # What only the service can choose: here its instants, too

    def bind_charge(self, charge: Charge, data: Any, where: str) -> None:
        """See a new Charge, and take its instant from it."""
        lived_ms = charge.expires_at - charge.created_at
        charge.created_at = self._moment(data, where)
        end = None if charge.parent is None else charge.parent.expires_at
        if end is not None:
            lived_ms = min(1_000 * LINK_EXPIRY_S, (end - charge.created_at) // 1_000 * 1_000)
        charge.expires_at = charge.created_at + lived_ms
        super().bind_charge(charge, data, where)

    def bind_static(self, static: Static, data: Any, where: str) -> None:
        """See a new Static Charge, and take its instant from it."""
        created_at = self._moment(data, where)
        if static.expires_at is not None:
            static.expires_at += created_at - static.created_at
        static.created_at = created_at
        super().bind_static(static, data, where)

    def _moment(self, data: Any, where: str) -> int:
        text = data.get("createdAt") if isinstance(data, Mapping) else None
        now = self.target.now_ms
        try:
            at = instant(str(text))
        except ValueError:
            at = -1
        if at < 0 or text != iso(at) or (now is not None and abs(at - now) > _SLACK_MS):
            promised = "the present" if now is None else f"about {iso(now)}"
            raise Broken("echo", "DECISIONS timestamps", f"{where}: createdAt", promised, text)
        return at

    def look(self, thing: Charge | Static) -> None:
        """Compare a resource, except in the seconds around its expiry; give a payment a while to arrive."""
        if thing.expires_at is not None and abs(thing.expires_at - self.model.now) < _SLACK_MS:
            return
        if isinstance(thing, Charge) and thing.status == "completed":
            self._await_payment(thing)
        super().look(thing)
        if isinstance(thing, Charge) and thing.delivery is not None:
            self._look_in_inbox(thing)

    def _await_payment(self, charge: Charge) -> None:
        for _ in range(_TRIES):
            answer = self.ask("getChargeDetails", f"/v0/charges/{charge.id}", key=charge.project)
            data = (answer.json or {}).get("data", {})
            if data.get("status") == "completed":
                paid_at = instant(str(data.get("confirmedAt")))
                if charge.created_at <= paid_at <= (self.target.now_ms or paid_at) + _SLACK_MS:
                    charge.confirmed_at = paid_at
                return

    def _look_in_inbox(self, charge: Charge) -> None:
        """At least one message of what became of the Charge, with the body that was promised."""
        inbox = getattr(self.target.levers, "inbox", None)
        if inbox is None or charge.callback_url is None:
            self.unchecked["callbacks: the levers have no inbox()"] = None
            return
        assert charge.delivery is not None
        promised = {**charge.delivery.body}
        if charge.confirmed_at is not None:
            promised["confirmedAt"] = iso(charge.confirmed_at)
        for _ in range(_TRIES):
            bodies = [body for _, body in inbox(charge.callback_url) if str(charge.id) in body]
            if bodies:
                break
            self.ask("getWallet", "/v0/wallet")
        seen = [parsed(body) for body in bodies]
        if promised not in seen:
            where = f"callbacks of {charge.label}"
            raise Broken("callback_contract", "DECISIONS callback-body", where, promised, seen or "none")

    def finish(self) -> None:
        """Compare every resource of this run."""
        for thing in self.model.book.things:
            self.look(thing)
