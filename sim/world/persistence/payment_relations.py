"""The relations of invoices, of the parts that the node received, and of payments with their attempts (`relations`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple

from leyden.lightning.bolt11.fields import encode_amount
from leyden.lightning.engine.htlc import FAILED, HELD, SETTLED, WAITING
from leyden.lightning.failure_codes import FAILURE_NAMES
from leyden.lightning.payer.payment_requests import strip_scheme
from leyden.lightning.payer.payment_scripts import part_amount
from leyden.server.charges.lnurl import CHARSET

_DIGITS = str.maketrans(CHARSET, "0123456789abcdefghijklmnopqrstuv")  # those of `int`
_IN_FLIGHT, _SUCCEEDED, _OPEN = "in_flight", "succeeded", frozenset({"in_flight", WAITING, HELD})


class Relation(NamedTuple):
    """One relation. `holds` gets what a relation of its kind is about (`relations`), and the `Related` rows.
    `sentence` says what is wrong; it may have fields of the first argument in braces."""

    holds: Callable[..., bool]
    sentence: str


def _is_hash(preimage: str | None, payment_hash: str) -> bool:
    return preimage is None or sha256(bytes.fromhex(preimage)).hexdigest() == payment_hash


def _has_field(request: str, tag: str, value: str) -> bool:
    """Whether a BOLT 11 invoice has this field of 256 bits: its letter, its length, and 52 characters of five bits,
    of which the last has four bits of padding. The letters of the field may be within another one, too."""
    number, place = int(value, 16), 0
    while (place := request.find(f"{tag}p5", place) + 1) > 0:
        with suppress(ValueError):  # a character that no invoice has
            if int(request[place + 2 : place + 54].translate(_DIGITS), 32) == number << 4:
                return True
    return False


def _is_route(attempt: Any) -> bool:
    """Whether the hops of an attempt are those of its route, each from the end of the one before, and their amounts and
    expiries do not rise."""
    hops = attempt["hops"]
    ends = [hop[2] for hop in hops]
    return (
        ends == attempt["route"]
        and len(hops) > 0
        and [hop[1] for hop in hops[1:]] == ends[:-1]
        and all(former[3] >= hop[3] and former[4] >= hop[4] for former, hop in pairwise(hops))
        and hops[-1][3] == attempt["amount_msat"]
        and hops[0][3] - hops[-1][3] == attempt["fee_msat"]
        and (attempt["hop"] is None or attempt["hop"] <= len(hops))
    )


def _settled_msat(parts: Any, field: str) -> int:
    return sum(part["amount_msat"] for part in parts if part[field] == SETTLED)


PAYMENT_RELATIONS: Mapping[str, tuple[Relation, ...]] = {
    "invoice": (
        Relation(
            lambda invoice, parts, held, rows: _is_hash(invoice["preimage"], invoice["payment_hash"]),
            "payment_hash is not that of preimage",
        ),
        Relation(
            lambda invoice, parts, held, rows: (
                _has_field(invoice["request"], "p", invoice["payment_hash"])
                and _has_field(invoice["request"], "s", invoice["payment_secret"])
                and invoice["request"].rpartition("1")[0].endswith(f"lnbcrt{encode_amount(invoice['amount_msat'])}")
            ),
            "amount_msat, payment_hash or payment_secret is not that of its request",
        ),
        Relation(
            lambda invoice, parts, held, rows: -1 <= invoice["payable_until_ms"] - invoice["expires_at"] <= 0,
            "payable_until_ms is {payable_until_ms}, and expires_at {expires_at}",
        ),
        Relation(
            lambda invoice, parts, held, rows: (
                invoice["received_msat"] == (_settled_msat(parts, "state") if invoice["state"] == "SETTLED" else 0)
            ),
            "received_msat is {received_msat}, not the sum of its settled parts",
        ),
        Relation(
            lambda invoice, parts, held, rows: (
                invoice["state"] != "SETTLED" or invoice["received_msat"] >= invoice["amount_msat"]
            ),
            "state is SETTLED, and received_msat {received_msat} less than amount_msat {amount_msat}",
        ),
        Relation(
            lambda invoice, parts, held, rows: (
                invoice["state"] == "SETTLED" or all(part["state"] != SETTLED for part in parts)
            ),
            "state is {state}, and a part is settled",
        ),
        Relation(
            lambda invoice, parts, held, rows: len({part["total_msat"] for part in held}) <= 1,
            "total_msat of its held parts differs",
        ),
        Relation(
            lambda invoice, parts, held, rows: (
                not held
                or (sum(part["amount_msat"] for part in held) >= held[0]["total_msat"])
                == (invoice["state"] == "ACCEPTED")
            ),
            "state is {state}, and amount_msat of its held parts does not fit to total_msat",
        ),
        Relation(
            lambda invoice, parts, held, rows: invoice["state"] != "ACCEPTED" or any(part["hold"] for part in held),
            "state is ACCEPTED, and no part is to be held",
        ),
        Relation(
            lambda invoice, parts, held, rows: len({part["id"] for part in parts}) == len(parts),
            "two parts have one id",
        ),
        Relation(
            lambda invoice, parts, held, rows: (
                invoice["accepted_at"] is None
                or invoice["accepted_at"] in invoice.get("holds_at", [invoice["accepted_at"]])
            ),
            "accepted_at is {accepted_at}, which holds_at does not have",
        ),
    ),
    "part": (
        Relation(
            lambda part, invoice, payment, attempt, rows: part["total_msat"] >= invoice["amount_msat"],
            "total_msat of the part {id} is {total_msat}, less than the invoice's amount_msat",
        ),
        Relation(
            lambda part, invoice, payment, attempt, rows: payment is not None or rows.has_removed_payments,
            "the part {id} is of no row in the table payments",
        ),
        Relation(
            lambda part, invoice, payment, attempt, rows: (
                payment is None or payment["payment_hash"] == invoice["payment_hash"]
            ),
            "the part {id} is of a payment with another payment_hash",
        ),
        Relation(
            lambda part, invoice, payment, attempt, rows: (
                payment is None
                or (payment["amount_msat"], payment["script"]["payment_secret"], payment["script"]["outcome"] == "hold")
                == (part["total_msat"], invoice["payment_secret"], part["hold"])
            ),
            "the part {id}: total_msat, hold or the payment secret differs from that of its payment",
        ),
        Relation(
            lambda part, invoice, payment, attempt, rows: (
                attempt is None or attempt["amount_msat"] == part["amount_msat"]
            ),
            "amount_msat of the part {id} is {amount_msat}, and that of its attempt another",
        ),
        Relation(
            # Of one instant, however the clock was set. Over a network a part takes time.
            lambda part, invoice, payment, attempt, rows: (
                attempt is None or "route" in attempt or attempt["at"] == part["arrived_at"]
            ),
            "arrived_at of the part {id} is {arrived_at}, and its attempt was at another instant",
        ),
        Relation(
            # The payer may not know yet what became of a part, but what it knows is so.
            lambda part, invoice, payment, attempt, rows: (
                attempt is None
                or attempt["status"] == part["state"]
                or (part["state"] == HELD and attempt["status"] == WAITING)
                or ("route" in attempt and attempt["status"] in _OPEN)
            ),
            "the part {id} is {state}, and its attempt is not",
        ),
    ),
    "payment": (
        Relation(
            lambda payment, invoice, kinds, rows: (
                payment["payment_hash"] is None
                or (invoice is not None and payment["request"] == invoice["request"])
                or _has_field(strip_scheme(payment["request"]).lower(), "p", payment["payment_hash"])
            ),
            "payment_hash is not that of its request",
        ),
        Relation(
            lambda payment, invoice, kinds, rows: (
                payment.get("refused_request") in (None, strip_scheme(payment["request"]).lower())
            ),
            "refused_request is not its request",
        ),
        Relation(
            lambda payment, invoice, kinds, rows: (
                payment["payment_hash"] is None or _is_hash(payment["preimage"], payment["payment_hash"])
            ),
            "payment_hash is not that of preimage",
        ),
        Relation(
            lambda payment, invoice, kinds, rows: (payment["preimage"] is not None) == (SETTLED in kinds),
            "preimage is {preimage}, and its attempts do not fit to it",
        ),
        Relation(
            lambda payment, invoice, kinds, rows: (
                payment["received_msat"] == _settled_msat(payment["attempts"], "status")
            ),
            "received_msat is {received_msat}, not the sum of its settled attempts",
        ),
        Relation(
            lambda payment, invoice, kinds, rows: (
                SETTLED not in kinds or (rows.has_removed_charges if invoice is None else invoice["state"] == "SETTLED")
            ),
            "an attempt is settled, and the row in the table invoices is not",
        ),
        Relation(
            lambda payment, invoice, kinds, rows: (
                (payment["status"] == _SUCCEEDED) == (payment["outcome"] == "SUCCEEDED")
            ),
            "status is {status}, and outcome {outcome}",
        ),
        Relation(
            lambda payment, invoice, kinds, rows: payment["status"] != _SUCCEEDED or payment["reason"] is None,
            "status is {status}, and it has a reason",
        ),
        Relation(
            lambda payment, invoice, kinds, rows: payment["status"] != FAILED or SETTLED not in kinds,
            "status is {status}, and an attempt is settled",
        ),
        Relation(
            lambda payment, invoice, kinds, rows: payment["resolved_at"] is None or not kinds & _OPEN,
            "status is {status}, and an attempt has not ended",
        ),
        Relation(
            lambda payment, invoice, kinds, rows: (
                payment["status"] != HELD or (HELD in kinds and not kinds & {_IN_FLIGHT, WAITING})
            ),
            "status is {status}, and its attempts are not",
        ),
        Relation(
            lambda payment, invoice, kinds, rows: payment["gave_up_at"] is None or payment["gives_up_at"] is not None,
            "gives_up_at is {gives_up_at}, and gave_up_at {gave_up_at}",
        ),
        Relation(
            lambda payment, invoice, kinds, rows: (
                payment["script"] is None
                or payment["script"]["sent_parts"]
                == payment["script"]["parts"] - (payment["script"]["outcome"] == "incomplete")
            ),
            "script: sent_parts does not fit to parts and outcome",
        ),
    ),
    "attempt": (
        Relation(
            lambda attempt, payment, number, part, rows: attempt["part"] == number,
            "an attempt has the number {part}, which is not its place",
        ),
        Relation(
            lambda attempt, payment, number, part, rows: (
                (attempt["status"] in _OPEN) == (attempt["resolved_at"] is None)
            ),
            "the attempt {part} is {status}, and its resolved_at {resolved_at}",
        ),
        Relation(
            lambda attempt, payment, number, part, rows: (
                (attempt["code"] is None) == (attempt["status"] != FAILED)
                and attempt["name"] == (None if attempt["code"] is None else FAILURE_NAMES.get(attempt["code"]))
            ),
            "the attempt {part} is {status}, its code {code} and its name {name}",
        ),
        Relation(
            lambda attempt, payment, number, part, rows: (attempt["source"] is None) == (attempt["status"] != FAILED),
            "the attempt {part} is {status}, and its source {source}",
        ),
        Relation(
            lambda attempt, payment, number, part, rows: attempt["learned"] is None or attempt["status"] not in _OPEN,
            "the attempt {part} is {status}, and learned {learned}",
        ),
        Relation(
            lambda attempt, payment, number, part, rows: not attempt["retried"] or attempt["status"] == FAILED,
            "the attempt {part} is {status}, and was retried",
        ),
        Relation(
            lambda attempt, payment, number, part, rows: (
                "route" in attempt
                or (
                    number < payment["script"]["sent_parts"]
                    and attempt["amount_msat"]
                    == part_amount(payment["amount_msat"], payment["script"]["parts"], number)
                )
            ),
            "amount_msat of the attempt {part} is {amount_msat}, which is not its share of the payment",
        ),
        Relation(
            lambda attempt, payment, number, part, rows: (
                part is not None
                or attempt["status"] in (FAILED, _IN_FLIGHT)
                or (payment["payment_hash"] not in rows.invoices and rows.has_removed_charges)
            ),
            "the attempt {part} is {status}, and the row in the table invoices has no part of it",
        ),
        Relation(
            lambda attempt, payment, number, part, rows: "route" not in attempt or _is_route(attempt),
            "fee_msat, route and hops of the attempt {part} do not fit together",
        ),
    ),
}
