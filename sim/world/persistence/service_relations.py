"""The relations of Charges, Static Charges, callbacks and amounts received to other rows (`relations`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.server.charges.lnurl import CHARSET
from leyden.server.money import to_wire
from leyden.world.persistence.payment_relations import Relation


def _timestamp(created_at: int) -> str:
    """An instant in ms as a BOLT 11 invoice has it: seven characters."""
    seconds = created_at // 1_000
    return "".join([CHARSET[seconds >> bits & 31] for bits in (30, 25, 20, 15, 10, 5, 0)])


def _is_told(charge: Any, data: Mapping[str, Any], *, with_status: bool) -> bool:
    """Whether the body of a callback has the values of its Charge that never change, and the status of the last one.
    The spec may leave fields out."""
    told = {
        "id": charge["id"],
        "amount": to_wire(charge["amount_msat"]),
        "description": charge["description"],
        "internalId": charge["internal_id"],
        "invoice": {"request": charge["request"]},
    }
    if with_status:
        told["status"] = charge["status"]
    return all(data.get(name, value) == value for name, value in told.items())


SERVICE_RELATIONS: Mapping[str, tuple[Relation, ...]] = {
    "charge": (
        Relation(
            lambda charge, invoice, rows: (
                rows.paid is None or rows.paid.allow(charge["status"], happened=charge["confirmed_at"] is not None)
            ),
            "status is {status}, and confirmed_at {confirmed_at}",
        ),
        Relation(
            lambda charge, invoice, rows: (
                rows.failed is None or rows.failed.allow(charge["status"], happened="failure" in charge)
            ),
            "status is {status}, and failure does not fit to it",
        ),
        Relation(
            lambda charge, invoice, rows: (
                rows.canceled is None
                or charge["status"] in rows.canceled.without
                or invoice["state"] in ("SETTLED", "CANCELED")
            ),
            "status is {status}, and the state of its row in the table invoices neither SETTLED nor CANCELED",
        ),
        Relation(
            lambda charge, invoice, rows: not charge.get("closed") or invoice["state"] == "CANCELED",
            "closed is {closed}, and the state of its row in the table invoices not CANCELED",
        ),
        Relation(
            lambda charge, invoice, rows: (
                not rows.closable
                or charge["status"] != rows.charge_lifecycle.initial
                or invoice["state"] != "CANCELED"
                or "closed" in charge
            ),
            "status is {status}, the state of its row in the table invoices CANCELED, and it is not closed",
        ),
        Relation(
            lambda charge, invoice, rows: charge.get("received_msat", 0) == invoice["received_msat"],
            "received_msat differs from that of its row in the table invoices",
        ),
        Relation(
            lambda charge, invoice, rows: charge.get("preimage") in (None, invoice["preimage"]),
            "preimage differs from that of its row in the table invoices",
        ),
        Relation(
            lambda charge, invoice, rows: (
                charge["created_at"] % 1_000 == 0 and (charge["expires_at"] - charge["created_at"]) % 1_000 == 0
            ),
            "created_at is {created_at}, and expires_at {expires_at}: not a whole number of seconds",
        ),
        Relation(
            lambda charge, invoice, rows: (
                charge["request"].rpartition("1")[2].startswith(_timestamp(charge["created_at"]))
            ),
            "created_at is {created_at}, which is not the time of its request",
        ),
        Relation(
            # An invoice has whole seconds.
            lambda charge, invoice, rows: invoice["opened_at"] // 1_000 * 1_000 == charge["created_at"],
            "created_at is {created_at}, and opened_at of its row in the table invoices in another second",
        ),
        Relation(
            lambda charge, invoice, rows: (
                rows.has_removed_deliveries or charge.get("sequence", 0) == rows.deliveries[charge["id"]]
            ),
            "sequence is not the number of its rows in the table deliveries",
        ),
    ),
    "static charge": (
        Relation(
            lambda static, paid, rows: not rows.counts_payments or rows.has_removed_charges or static["slots"] <= paid,
            "slots is {slots}, more than its Charges that were paid",
        ),
        Relation(
            # A payment may be accepted after the last slot was used, if the spec does not cancel invoices then.
            lambda static, paid, rows: (
                not rows.counts_payments
                or static["slots"] >= paid
                or (static["allowed_slots"] is not None and static["slots"] >= static["allowed_slots"])
            ),
            "slots is {slots}, fewer than its Charges that were paid",
        ),
        Relation(
            lambda static, paid, rows: (
                not rows.is_left_full
                or not rows.counts_payments
                or static["status"] != rows.static_lifecycle.initial
                or static["allowed_slots"] is None
                or static["slots"] < static["allowed_slots"]
            ),
            "status is {status}, slots {slots} and allowed_slots {allowed_slots}",
        ),
        Relation(
            lambda static, paid, rows: (
                not rows.is_entered_full
                or static["status"] != rows.full
                or (static["allowed_slots"] is not None and static["slots"] >= static["allowed_slots"])
            ),
            "status is {status}, slots {slots} and allowed_slots {allowed_slots}",
        ),
    ),
    "delivery": (
        Relation(
            lambda delivery, charge, data, rows: charge is not None or rows.has_removed_charges,
            "resource_id is {resource_id}, which the table charges does not have",
        ),
        Relation(
            lambda delivery, charge, data, rows: (
                charge is None or (delivery["project"], delivery["url"]) == (charge["project"], charge["callback_url"])
            ),
            "project or url differs from that of the Charge {resource_id}",
        ),
        Relation(
            lambda delivery, charge, data, rows: (
                charge is None or delivery.get("endpoint_id") == charge["static_charge_id"]
            ),
            "endpoint_id is not the Static Charge of the Charge {resource_id}",
        ),
        Relation(
            lambda delivery, charge, data, rows: data is not None,
            "body is not the JSON of a callback",
        ),
        Relation(
            lambda delivery, charge, data, rows: (
                charge is None
                or _is_told(
                    charge,
                    data,
                    with_status=charge.get("sequence") == delivery["sequence"]
                    and rows.reports(delivery["rule"], charge["status"]),
                )
            ),
            "body differs from the Charge {resource_id}",
        ),
    ),
    "attempt that is held": (
        Relation(
            # Former versions kept the row of an attempt whose delivery ended before it.
            lambda held, is_there, rows: is_there or rows.has_removed_deliveries,
            "id is that of no row in the table deliveries",
        ),
    ),
    "wallet": (
        Relation(
            lambda wallet, received, rows: (
                wallet["balance_msat"] == received or (rows.has_removed_charges and wallet["balance_msat"] > received)
            ),
            "balance_msat is {balance_msat}, not the sum that the Charges of the project received",
        ),
    ),
    "node": (
        Relation(
            lambda funds, wallets, rows: funds["received_msat"] == wallets,
            "received_msat is {received_msat}, not the sum of the wallets",
        ),
    ),
}
