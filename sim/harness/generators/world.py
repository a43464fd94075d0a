"""Step generators for the sandbox: time, receivers, faults, secrets, keys, restarts and odd requests."""

from __future__ import annotations

from typing import Any

from leyden.harness.generators.choices import Choices, pick
from leyden.harness.generators.odd_requests import ODD_REQUESTS
from leyden.harness.generators.run_config import RunConfig
from leyden.harness.model.faults import FAULTS, FEWEST, HOLDING
from leyden.harness.model.model import Model
from leyden.harness.model.rules import BACKOFF_MS
from leyden.harness.steps import Step

HOSTS = ("r1.inbox", "r2.inbox", "r3.inbox")
_ODD_REQUESTS = tuple(ODD_REQUESTS)


def advance(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Advance the clock by a fixed span."""
    spans = (1, 999, 1_000, 5_000, 14_999, 15_000, 60_000, 600_000, 86_400_000, sum(BACKOFF_MS) * 13 // 10)
    return {"do": "advance", "by": pick(choices, spans)}


def advance_to(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Advance the clock to about an expiry or a retry."""
    ahead = [("expiry", one.label) for one in model.ledger.resources if (one.expires_at or 0) > model.now]
    ahead += [("retry", one.charge.label) for one in model.outbox.deliveries if one.due_at is not None]
    if not ahead:
        return None
    return {"do": "advance", "to": list(pick(choices, ahead)), "offset": pick(choices, (-1, 0, 0, 1))}


def advance_to_retention_end(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Advance the clock to about the end of the retention of a response or a secret."""
    ends = [at for at in model.retention_ends() if at > model.now]
    if not ends:
        return None
    return {"do": "advance", "by": max(0, pick(choices, ends) - model.now + pick(choices, (-1, 0, 1)))}


REPLIES: tuple[Any, ...] = (
    200, 204, 299, 300, 302, 400, 404, 410, 429, 500, 503, "timeout", "reset", "refused", "unresolved", "tls",
    "protocol", "empty", "endless", "huge", "commit_then_500",
    {"status": 503, "headers": {"Retry-After": "6"}}, {"status": 429, "headers": {"Retry-After": "99999"}},
    {"status": 429, "headers": {"Retry-After": "soon"}}, {"status": 503, "headers": {"Retry-After": "0"}},
    {"status": 503, "headers": {"Retry-After": "Tue, 01 Jan 2030 00:00:09 GMT"}},
    {"status": 200, "delay": 14.999}, {"status": 200, "delay": 15}, {"status": 500, "delay": 2},
)  # fmt: skip


def receiver(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Set the script of a receiver."""
    step: Step = {"do": "receiver", "host": pick(choices, HOSTS)}
    if choices.below(2):
        return {**step, "always": pick(choices, REPLIES)}
    return {**step, "answers": [pick(choices, REPLIES) for _ in range(1 + choices.below(3))]}


def fault(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Inject a fault of the sender."""
    kind = pick(choices, FAULTS)
    step: Step = {"do": "fault", "kind": kind}
    if kind in HOLDING:
        step["count"] = FEWEST.get(kind, 1) + choices.below(3)  # reorder and burst concern several deliveries
    elif choices.below(2):
        step["attempt"] = 1 + choices.below(2)
    if choices.below(2):
        step["event"] = pick(choices, ("charge.completed", "charge.expired", "charge.error"))
    return step


def rate_limit(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Let requests be refused with 429."""
    operation = pick(choices, ("createCharge", "createStaticCharge", "updateStaticCharge"))
    return {"do": "fault", "kind": "rate_limit", "operation": operation, "count": 1 + choices.below(2)}


def rotate_secret(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Rotate the webhook secret."""
    return {"do": "rotate"}


def rotate_key(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Create and rotate a second API key."""
    return {"do": "spare_key"}


def replay(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Replay a delivery."""
    charges = [one.charge.label for one in model.outbox.deliveries]
    return {"do": "replay", "charge": pick(choices, charges)} if charges else None


def restart(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Restart the service."""
    return {"do": "restart"}


def odd_request(choices: Choices, model: Model, config: RunConfig) -> Step | None:
    """Send an odd request."""
    operation, kind = pick(choices, _ODD_REQUESTS)
    return {"do": "odd", "operation": operation, "kind": kind}
