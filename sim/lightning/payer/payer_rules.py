"""Rules of payers that pay by themselves: which Charges they match, when they pay, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from leyden.arguments import MAX_TIMES, checked_count, is_utf8, rule_span_ms, seconds, shortened, whole_msat
from leyden.errors import PaymentError
from leyden.lightning.payer.payment_scripts import FAILURES, OUTCOMES
from leyden.server.charges.rows import ChargeRow
from leyden.server.money import parse_msat
from leyden.server.printable import cut, quoted
from leyden.server.timestamps import to_iso
from leyden.text_patterns import matches_pattern

NEVER, TWICE = "never", "twice"
RULE_OUTCOMES = (*OUTCOMES, TWICE, NEVER)
_LONGEST_TEXT = 255


class PayerRow(TypedDict):
    """Table `payers`. A condition that is None matches every Charge; `count` is None for a rule without an end.

    At most one of `delay_ms`, `before_expiry_ms` and `after_expiry_ms` is given. `matches` counts the Charges that
    matched while the rule applied and no older one took them, `hits` those that were paid, or left unpaid, by the rule.
    `from_option` marks the rules of the server's option `--autopay`, `from_document` those of `x-payers`, which are in
    no table.
    """

    id: str
    amount_msat: int | None
    description: str | None
    internal_id: str | None
    static_charge: str | None
    outcome: str
    failure: str
    delay_ms: int | None
    before_expiry_ms: int | None
    after_expiry_ms: int | None
    share: float
    count: int | None
    payer: str
    matches: int
    hits: int
    created_at: int
    from_option: NotRequired[bool]
    from_document: NotRequired[bool]


_DEFAULT_FAILURE = "NO_ROUTE"


@dataclass(frozen=True, slots=True)
class PayerSpec:
    """A payer for every Charge that is created from now on and matches all of

    `amount` (msat; one that no Charge can have matches none), `description` and `internal_id` (`*` is any text) and
    `static_charge` (an id).

    The payer pays `delay` after the creation (at once without one), or at a time `before_expiry` or `after_expiry`.
    `outcome` is that of `leyden.lightning.payer.payments.Payments.pay`, with `failure` for `fail`; or `twice` (a second
    wallet pays the same invoice one second later) or `never`. The rule takes the `share` of the matching Charges, drawn
    from the seed, and ends after `count` of them (None: never). `payer` is the name of the wallet. A duration is a text
    such as "90s" or a number of seconds.
    """

    amount: str | int | None = None
    description: str | None = None
    internal_id: str | None = None
    static_charge: str | None = None
    outcome: str = "settle"
    failure: str = _DEFAULT_FAILURE
    delay: str | float | None = None
    before_expiry: str | float | None = None
    after_expiry: str | float | None = None
    share: float = 1
    count: int | None = None
    payer: str = "autopay"

    def row(self, rule_id: str, now: int) -> PayerRow:
        """The row of the rule. Raises `ValueError`, with what to do instead, for a rule that is not possible."""
        if not isinstance(self.outcome, str) or self.outcome not in RULE_OUTCOMES:
            raise PaymentError(f"outcome is one of {', '.join(RULE_OUTCOMES)}, not {quoted(self.outcome, 60)}")
        if not isinstance(self.failure, str) or self.failure not in FAILURES:
            raise PaymentError(f"failure is one of {', '.join(FAILURES)}, not {quoted(self.failure, 60)}")
        if self.failure != _DEFAULT_FAILURE and self.outcome != "fail":
            raise PaymentError(
                f'failure={self.failure} has no effect with the outcome {self.outcome}: give outcome="fail", or leave '
                "failure out"
            )
        times = {"delay": self.delay, "before_expiry": self.before_expiry, "after_expiry": self.after_expiry}
        given = [name for name, value in times.items() if value is not None]
        if len(given) > 1:
            raise PaymentError(f"{' and '.join(given)} contradict each other: give one of them")
        if given and self.outcome == NEVER:
            raise PaymentError(f"a payer that never pays takes no {given[0]}: leave it out")
        if type(self.share) not in (int, float) or not 0 < self.share <= 1:
            raise PaymentError(f"share is {quoted(self.share)}: give a number above 0, 1 at most")
        count = checked_count("count", self.count, PaymentError)
        for name, pattern in (("description", self.description), ("internal_id", self.internal_id)):
            if pattern is not None and not isinstance(pattern, str):
                raise PaymentError(f"{name} is {quoted(pattern, 80)}: give a text, in which * is any text")
        for name in ("description", "internal_id", "static_charge", "payer"):
            text = getattr(self, name)
            if isinstance(text, str) and not is_utf8(text):
                raise PaymentError(
                    f"{name} is {quoted(text, 80)}, with half a character, a surrogate: give a text without"
                )
        if not isinstance(self.payer, str) or not 1 <= len(self.payer.strip()) <= _LONGEST_TEXT:
            raise PaymentError(f"{quoted(self.payer, 80)} is not the name of a payer: give a text")
        return {
            "id": rule_id,
            "amount_msat": None if self.amount is None else _amount_msat(self.amount),
            "description": self.description,
            "internal_id": self.internal_id,
            "static_charge": self.static_charge,
            "outcome": self.outcome,
            "failure": self.failure,
            "delay_ms": _span_ms("delay", self.delay),
            "before_expiry_ms": _span_ms("before_expiry", self.before_expiry),
            "after_expiry_ms": _span_ms("after_expiry", self.after_expiry),
            "share": self.share,
            "count": count,
            "payer": self.payer,
            "matches": 0,
            "hits": 0,
            "created_at": now,
        }


# The names of the API and of `x-payers`, where they differ from the spec's fields.
_FIELDS = {
    "internalId": "internal_id",
    "staticChargeId": "static_charge",
    "beforeExpiry": "before_expiry",
    "afterExpiry": "after_expiry",
}
# The names that the text of the option --autopay has besides those of the API.
SHORT_NAMES = {"after": "delay"}


def _amount_msat(amount: Any) -> int:
    return parse_msat(amount) if isinstance(amount, str) else whole_msat("amount", amount)


def payer_spec(fields: Mapping[str, Any]) -> PayerSpec:
    """A rule from the fields of the API."""
    return PayerSpec(**{_FIELDS.get(name, name): value for name, value in fields.items()})


def in_wire_names(text: str) -> str:
    """An error about a rule in the names of the API."""
    for wire, name in _FIELDS.items():
        text = text.replace(name, wire)
    return text


def payer_spec_of(text: str) -> PayerSpec:
    """A rule from a text such as `after=2s,share=0.5,outcome=hold`. Raises `ValueError`."""
    fields: dict[str, Any] = {}
    names = [*SHORT_NAMES, *(name for name in PayerSpec.__slots__ if name not in _FIELDS.values()), *_FIELDS]
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name not in names:
            mend = f"write NAME=VALUE, with one of {', '.join(names)}"
            raise PaymentError(f"{quoted(cut(part.strip(), 60))} is no part of a payer's rule: {mend}")
        name = SHORT_NAMES.get(name, name)
        if name in fields:
            raise PaymentError(f"{name} is given twice: give it once")
        fields[name] = value
    try:
        if "share" in fields:
            fields["share"] = float(fields["share"])
        if "count" in fields:
            fields["count"] = int(fields["count"])
            if not 1 <= fields["count"] <= MAX_TIMES:
                mend = f"give a whole number from 1 to {MAX_TIMES}, or leave count out for every one"
                raise PaymentError(f"count is {shortened(fields['count'])}: {mend}")
    except PaymentError:
        raise
    except ValueError:
        raise PaymentError(
            f"{quoted(cut(text, 80))} has a share or a count that is no number: write them as in share=0.5,count=3"
        ) from None
    spec = payer_spec(fields)
    try:
        spec.row("", 0)
    except ValueError as error:
        raise PaymentError(in_wire_names(str(error))) from None
    return spec


def matches(row: PayerRow, charge: ChargeRow) -> bool:
    """Whether the conditions hold for a Charge."""
    return (
        row["amount_msat"] in (None, charge["amount_msat"])
        and _fits(row["description"], charge["description"])
        and _fits(row["internal_id"], charge["internal_id"])
        and row["static_charge"] in (None, charge["static_charge_id"])
        and (row["count"] is None or row["hits"] < row["count"])
    )


def due_at(row: PayerRow, charge: ChargeRow, created_at: int, now: int) -> int:
    """The instant of the payment. `created_at` is that of the creation: the Charge has it in whole seconds only."""
    if row["before_expiry_ms"] is not None:
        return max(now, charge["expires_at"] - row["before_expiry_ms"])
    if row["after_expiry_ms"] is not None:
        return charge["expires_at"] + row["after_expiry_ms"]
    return max(now, created_at + (row["delay_ms"] or 0))


def payer_resource(row: PayerRow) -> dict[str, Any]:
    """A rule as the control plane shows it; durations are in seconds."""
    source = "document" if row.get("from_document") else "option" if row.get("from_option") else "request"
    return {
        "id": row["id"],
        "source": source,
        "amount": None if row["amount_msat"] is None else str(row["amount_msat"]),
        "description": row["description"],
        "internalId": row["internal_id"],
        "staticChargeId": row["static_charge"],
        "outcome": row["outcome"],
        "failure": row["failure"],
        "delay": seconds(row["delay_ms"]),
        "beforeExpiry": seconds(row["before_expiry_ms"]),
        "afterExpiry": seconds(row["after_expiry_ms"]),
        "share": row["share"],
        "count": row["count"],
        "payer": row["payer"],
        "matches": row["matches"],
        "hits": row["hits"],
        "createdAt": to_iso(row["created_at"]),
    }


def _fits(pattern: str | None, text: str | None) -> bool:
    return pattern is None or (text is not None and matches_pattern(text, pattern))


def _span_ms(name: str, value: str | float | None) -> int | None:
    return None if value is None else rule_span_ms(name, value)
