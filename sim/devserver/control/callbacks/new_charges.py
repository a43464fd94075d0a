"""What brings a Charge that is still to be created to a callback, with what the active payers will do to it."""

from __future__ import annotations

from collections.abc import Sequence

from leyden.devserver.control.callbacks.unpaid_charges import events_of, ways_of
from leyden.lightning.payer.payer_rules import TWICE, PayerRow
from leyden.world.world import World

_HOLDS, _COMPLETES = "hold", ("settle", "overpay", TWICE)  # outcomes of rules
_OPERATION = "createCharge"
_CREATE = "create one with a callbackUrl"
_PAY = "pay it (POST /sandbox/v1/payments)"
_EXPIRE = "advance the clock until it expires"
_FAIL = "let its invoice fail (POST /sandbox/v1/charges/{id}/fail)"
_SETTLE = "(POST /sandbox/v1/payments/{id}/settle)"
_NAMED = 3  # payers that a text names, at most


def creation_text(world: World, event: str | None) -> str:
    """How a Charge that is created now comes to a callback with this event."""
    paid_before_expiry, paid_at_once = _completing(world, at_once=False), _completing(world, at_once=True)
    expire, fail = "" if paid_before_expiry else _EXPIRE, "" if paid_at_once else _FAIL
    if ways := ways_of(world, _OPERATION, event, _payment(world), expire, fail):
        return f"{_CREATE}, then {ways}"
    ways = ways_of(world, _OPERATION, event, "", _EXPIRE, _FAIL)
    if not ways:
        return f"wait for {' or '.join(sorted(events_of(world, _OPERATION)))}"
    waits = not ways_of(world, _OPERATION, event, "", "", _FAIL)
    rules = paid_before_expiry if waits else paid_at_once
    of_document = [rule for rule in rules if rule.get("from_document")]
    create = _unpaid(of_document, _CREATE, waits=waits)
    if create is None:
        others = sorted(events_of(world, _OPERATION) - {event})
        return f"payer {of_document[0]['id']} of the document completes each new Charge before: wait for {others[0]}"
    return ", then ".join([*_deleted([rule for rule in rules if not rule.get("from_document")]), create, ways])


def _payment(world: World) -> str:
    """What completes a new Charge: a payer that takes each may do so, or hold a payment at once."""
    rules = _active(world)
    holding = [rule for rule in rules if rule["outcome"] == _HOLDS and _is_at_once(rule)]
    if rules and _takes_each(rules[0]) and _is_at_once(rules[0]):
        name = f"payer {rules[0]['id']}"
        if rules[0]["outcome"] in _COMPLETES:
            return f"{name} pays it at once"
        if rules[0] in holding:
            return f"settle the payment of it that {name} holds {_SETTLE}"
    return (
        f"{_PAY} unless payer {holding[0]['id']} holds a payment of it, then settle that {_SETTLE}" if holding else _PAY
    )


def _completing(world: World, *, at_once: bool) -> list[PayerRow]:
    """The rules that may complete a new Charge before it expires, or (`at_once`) before a request can do anything with
    it. Of the rules behind one that takes each Charge, none can, if that one does not complete it and stays."""
    found = []
    for rule in _active(world):
        # On a running clock, a later payment may be the first, too; one before the expiry may be due at once.
        is_soon = world.clock.rate or rule["before_expiry_ms"] is not None or _is_at_once(rule)
        if rule["outcome"] in _COMPLETES and rule["after_expiry_ms"] is None and (is_soon or not at_once):
            found.append(rule)
            continue
        if _takes_each(rule):
            break
    return found


def _active(world: World) -> list[PayerRow]:
    """The rules, in their order, that may take a Charge which is no payment of a Static Charge."""
    rules = [*world.payers.document_rows, *world.payers.active]
    return [
        rule
        for rule in rules
        if rule["static_charge"] is None and (rule["count"] is None or rule["hits"] < rule["count"])
    ]


def _is_at_once(rule: PayerRow) -> bool:
    return not (rule["delay_ms"] or rule["before_expiry_ms"] is not None or rule["after_expiry_ms"] is not None)


def _takes_each(rule: PayerRow) -> bool:
    return rule["share"] >= 1 and not _has_condition(rule)


def _has_condition(rule: PayerRow) -> bool:
    """Whether a Charge can be one that the rule does not match. Each has a description."""
    has_text = bool((rule["description"] or "").strip("*"))
    return rule["amount_msat"] is not None or rule["internal_id"] is not None or has_text


def _deleted(rules: Sequence[PayerRow]) -> list[str]:
    """The step that deletes these payers, if there are any."""
    if len(rules) > _NAMED:
        return [f"delete the {len(rules)} payers that could complete a new Charge before (DELETE /sandbox/v1/payers)"]
    paths = [f"payer {rule['id']} (DELETE /sandbox/v1/payers/{rule['id']})" for rule in rules]
    return [f"delete {' and '.join(paths)}, which could complete a new Charge before"] if paths else []


def _unpaid(rules: Sequence[PayerRow], create: str, *, waits: bool) -> str | None:
    """The creation of a Charge that these rules, which cannot be deleted, do not complete before; None if there is
    none. One that `waits` for its expiry may expire before a payer pays."""
    lives_s = []
    for rule in rules:
        if _has_condition(rule):
            create += f" that payer {rule['id']} does not match"
        elif waits and (rule["delay_ms"] or 0) >= 1_000:
            lives_s.append((rule["delay_ms"] or 0) // 1_000)
        else:
            return None
    return f"{create} and an expiresIn of {min(lives_s)} at most" if lives_s else create
