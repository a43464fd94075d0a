"""Rules for the world: how far time goes next, how receivers answer, and what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.harness.generators.choices import Dice, pick
from leyden.harness.model.faults import FAULTS, HOLDING
from leyden.harness.model.model import Model
from leyden.harness.model.requests import odd_names
from leyden.harness.model.rules import PAUSES_MS
from leyden.harness.runs.run_config import Rule, Scene, Step

HOSTS = ("r1.inbox", "r2.inbox", "r3.inbox")
_ODD = odd_names()


def _advance(dice: Dice, model: Model, around: Scene) -> Step | None:
    spans = (1, 999, 1_000, 5_000, 14_999, 15_000, 60_000, 600_000, 86_400_000, sum(PAUSES_MS) * 13 // 10)
    return {"do": "advance", "by": pick(dice, spans)}


def _advance_to(dice: Dice, model: Model, around: Scene) -> Step | None:
    ahead = [("expiry", one.label) for one in model.book.charges.values() if one.expires_at > model.now]
    ahead += [("expiry", one.label) for one in model.book.statics.values() if (one.expires_at or 0) > model.now]
    ahead += [("retry", one.charge.label) for one in model.outbox.deliveries if one.due_at is not None]
    if not ahead:
        return None
    return {"do": "advance", "to": list(pick(dice, ahead)), "offset": pick(dice, (-1, 0, 0, 1))}


def _forget(dice: Dice, model: Model, around: Scene) -> Step | None:
    ends = [at for at in model.ends() if at > model.now]
    if not ends:
        return None
    return {"do": "advance", "by": max(0, pick(dice, ends) - model.now + pick(dice, (-1, 0, 1)))}


SAYINGS: tuple[Any, ...] = (
    200, 204, 299, 300, 302, 400, 404, 410, 429, 500, 503, "timeout", "reset", "refused", "unresolved", "tls",
    "protocol", "empty", "endless", "huge", "commit_then_500",
    {"status": 503, "headers": {"Retry-After": "6"}}, {"status": 429, "headers": {"Retry-After": "99999"}},
    {"status": 429, "headers": {"Retry-After": "soon"}}, {"status": 503, "headers": {"Retry-After": "0"}},
    {"status": 503, "headers": {"Retry-After": "Tue, 01 Jan 2030 00:00:09 GMT"}},
    {"status": 200, "delay": 14.999}, {"status": 200, "delay": 15}, {"status": 500, "delay": 2},
)  # fmt: skip


def _receiver(dice: Dice, model: Model, around: Scene) -> Step | None:
    step: Step = {"do": "receiver", "host": pick(dice, HOSTS)}
    if dice.below(2):
        return {**step, "always": pick(dice, SAYINGS)}
    return {**step, "answers": [pick(dice, SAYINGS) for _ in range(1 + dice.below(3))]}


def _fault(dice: Dice, model: Model, around: Scene) -> Step | None:
    kind = pick(dice, FAULTS)
    step: Step = {"do": "fault", "kind": kind}
    if kind in HOLDING:
        step["count"] = 1 + dice.below(3)  # some of these are about several messages
    elif dice.below(2):
        step["attempt"] = 1 + dice.below(2)
    if dice.below(2):
        step["event"] = pick(dice, ("charge.completed", "charge.expired", "charge.error"))
    return step


def _limit(dice: Dice, model: Model, around: Scene) -> Step | None:
    operation = pick(dice, ("createCharge", "createStaticCharge", "updateStaticCharge"))
    return {"do": "fault", "kind": "rate_limit", "operation": operation, "count": 1 + dice.below(2)}


def _rotate(dice: Dice, model: Model, around: Scene) -> Step | None:
    return {"do": "rotate"}


def _spare_key(dice: Dice, model: Model, around: Scene) -> Step | None:
    return {"do": "spare_key"}


def _replay(dice: Dice, model: Model, around: Scene) -> Step | None:
    told = [one.charge.label for one in model.outbox.deliveries]
    return {"do": "replay", "charge": pick(dice, told)} if told else None


def _restart(dice: Dice, model: Model, around: Scene) -> Step | None:
    return {"do": "restart"}


def _odd(dice: Dice, model: Model, around: Scene) -> Step | None:
    operation, kind = pick(dice, _ODD)
    return {"do": "odd", "operation": operation, "kind": kind}


WORLD: Mapping[str, Rule] = {
    "advance": _advance,
    "advance_to": _advance_to,
    "forget": _forget,
    "receiver": _receiver,
    "fault": _fault,
    "limit": _limit,
    "rotate": _rotate,
    "spare_key": _spare_key,
    "replay": _replay,
    "restart": _restart,
    "odd": _odd,
}
