"""Checks of rows that somebody else may have changed: what a schema cannot say of one row, and references between rows.

A sandbox never writes rows that fail here. Rows that refer to a removed row are sound where retention removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any
from urllib.parse import urlsplit

import orjson

from leyden.lightning.engine.htlc import HELD
from leyden.lightning.receiver.invoice_row import InvoiceRow
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import PENDING
from leyden.server.charges.lnurl import pay_metadata
from leyden.server.charges.rows import ChargeRow, StaticChargeRow
from leyden.server.charges.wire_model import charge_resource, envelope, static_charge_resource
from leyden.server.contract.schema_errors import several_errors
from leyden.server.contract.types import Contract, Rule
from leyden.server.printable import cut
from leyden.server.store.store import Store
from leyden.server.timestamps import MAX_INSTANT_MS
from leyden.world.persistence.number_checks import check_counters
from leyden.world.persistence.table_rows import RowError, Rows
from leyden.world.removal.end_order import TABLE as ENDED
from leyden.world.traffic.rows import lists_of


def check_references(store: Store, contract: Contract | None) -> None:
    """Raise `RowError` for the first row that does not fit to itself, to another one, or to the contract (None: not
    asked). Each row fits its schema."""
    keys = {"invoices": "payment_hash"}

    def table(name: str) -> Rows:
        rows = store.table_data(name).rows
        key = keys.get(name, "id")
        return Rows(name, rows, {row[key]: row for row in rows.values()})

    if contract is not None:
        check_states(store, contract)
    for check in _CHECKS:
        check(table, contract)


def check_states(store: Store, contract: Contract) -> None:
    """Raise `RowError` for the first row in a state that the contract does not have."""
    for name, resource, shown in (
        ("charges", "Charge", "Charge"),
        ("static_charges", "StaticCharge", "Static Charge"),
    ):
        lifecycle, rows = contract.lifecycles.get(resource), store.table_data(name).rows
        states = frozenset(() if lifecycle is None else lifecycle.states)
        for doc_id, row in rows.items():
            if row["status"] not in states:
                why = f"status is {cut(row['status'], 60)!r}, which no {shown} of the spec has"
                raise RowError(name, doc_id, row, f"{why}: use the spec with which it was written")


def _projects(table: Callable[[str], Rows], contract: Contract | None) -> None:
    projects, keys = table("projects"), table("keys")
    valid = {row["project"] for row in keys if "ended_at" not in row}
    for row in keys:
        if row["project"] not in projects.by_key:
            keys.refuse(row, f"project is {cut(row['project'], 60)!r}, which the table projects does not have")
        if row["project"] not in valid:  # a key ends when another one replaces it
            keys.refuse(row, "ended_at is not null, and its project has no key that has not ended")
    for name in ("charges", "static_charges", "deliveries"):
        rows = table(name)
        for row in rows:
            if row["project"] not in projects.by_key:
                rows.refuse(row, f"project is {cut(row['project'], 60)!r}, which the table projects does not have")


def _charges(table: Callable[[str], Rows], contract: Contract | None) -> None:
    charges, invoices, statics = table("charges"), table("invoices"), table("static_charges")
    lifecycle = None if contract is None else contract.lifecycles.get("Charge")
    rule = _response_rule(contract, "getChargeDetails")
    owners: dict[str, str] = {}
    for row in charges:
        charge: ChargeRow = row
        is_open = lifecycle is not None and charge["status"] == lifecycle.initial
        invoice: InvoiceRow | None = invoices.by_key.get(charge["payment_hash"])
        if invoice is None:
            charges.refuse(row, "payment_hash is that of no row in the table invoices")
        if owners.setdefault(charge["payment_hash"], charge["id"]) != charge["id"]:
            charges.refuse(row, f"payment_hash is that of the Charge {owners[charge['payment_hash']]}, too")
        for field in ("request", "amount_msat", "expires_at"):
            if charge[field] != invoice[field]:
                charges.refuse(row, f"{field} differs from that of its row in the table invoices")
        if is_open and invoice["state"] == "SETTLED":
            charges.refuse(row, f"status is {charge['status']}, and the state of its row in the table invoices SETTLED")
        if charge["confirmed_at"] != invoice["settled_at"]:
            charges.refuse(row, "confirmed_at differs from settled_at of its row in the table invoices")
        for field in ("received_msat", "preimage"):
            if (field in charge) != (charge["confirmed_at"] is not None):
                charges.refuse(row, f"confirmed_at is {charge['confirmed_at']}, and {field} does not fit to it")
        if charge["expires_at"] < charge["created_at"]:
            charges.refuse(row, "expires_at is before created_at")
        parent: StaticChargeRow | None = statics.by_key.get(charge["static_charge_id"] or "")
        if charge["static_charge_id"] is not None and parent is None and is_open:
            charges.refuse(row, "static_charge_id is that of no row in the table static_charges")
        if rule is not None:
            _check_resource(charges, row, rule, charge_resource(charge))
    for invoice in invoices:
        if invoice["payment_hash"] not in owners:
            invoices.refuse(invoice, "payment_hash is that of no row in the table charges")


def _static_charges(table: Callable[[str], Rows], contract: Contract | None) -> None:
    statics = table("static_charges")
    rule = _response_rule(contract, "getStaticChargeDetails")
    users: set[str] = set()
    for row in statics:
        static: StaticChargeRow = row
        if not 1 <= static["min_msat"] <= static["max_msat"]:
            statics.refuse(row, f"min_msat is {static['min_msat']}, and max_msat {static['max_msat']}")
        user = static["identifier"].partition("@")[0] if static["identifier"] else None
        if static["user"] != user:
            statics.refuse(row, "user is not that of its identifier")
        if user is not None and user in users:
            statics.refuse(row, f"user is {cut(user, 60)!r}, which another Static Charge has")
        users |= set() if user is None else {user}
        if static["metadata"] != pay_metadata(static["description"], static["identifier"] or None):
            statics.refuse(row, "metadata is not that of its description and identifier")
        if rule is not None:
            _check_resource(statics, row, rule, static_charge_resource(static, ""), "invoice")


def _invoices(table: Callable[[str], Rows], contract: Contract | None) -> None:
    invoices, payments = table("invoices"), table("payments")
    for row in invoices:
        invoice: InvoiceRow = row
        state, parts = invoice["state"], invoice.get("parts", [])
        for field, states in (
            ("accepted_at", ("ACCEPTED",)),
            ("settled_at", ("SETTLED",)),
            ("closed_at", ("CANCELED",)),
            ("closed_because", ("CANCELED",)),
        ):
            if state in states and invoice[field] is None:  # type: ignore[literal-required]
                invoices.refuse(row, f"{field} is null in the state {state}")
            if field != "accepted_at" and state not in states and invoice[field] is not None:  # type: ignore[literal-required]
                invoices.refuse(row, f"{field} is not null in the state {state}")
        held = [part for part in parts if part["state"] == HELD]
        if state == "ACCEPTED" and not held:
            invoices.refuse(row, "no part is held in the state ACCEPTED")
        if state in ("SETTLED", "CANCELED") and held:
            invoices.refuse(row, f"a part is held in the state {state}")
        if state == "SETTLED" and invoice["received_msat"] < 1:
            invoices.refuse(row, "received_msat is 0 in the state SETTLED")
        if (invoice["mpp_due_at"] is not None) != (state == "OPEN" and bool(held)):
            invoices.refuse(row, f"mpp_due_at is {invoice['mpp_due_at']} in the state {state}, with {len(held)} parts")
        for part in parts:
            if part["amount_msat"] < 1:
                invoices.refuse(row, "amount_msat of a part is 0")
            payment_id, _, number = part["id"].rpartition(":")
            payment = payments.by_key.get(payment_id)
            if payment is not None and not (number.isdecimal() and int(number) < len(payment["attempts"])):
                invoices.refuse(row, f"the part {cut(part['id'], 60)!r} belongs to no attempt of its payment")


def _payments(table: Callable[[str], Rows], contract: Contract | None) -> None:
    payments, invoices = table("payments"), table("invoices")
    for row in payments:
        has_ended = row["status"] in ("succeeded", "failed")
        if has_ended != (row["resolved_at"] is not None) or has_ended != (row["outcome"] is not None):
            payments.refuse(row, f"status is {row['status']}, and resolved_at or outcome do not fit to it")
        if (row["payment_hash"] is None) != (row["script"] is None):
            payments.refuse(row, "one of payment_hash and script is null")
        if row["script"] is None:
            if not has_ended or row["attempts"] or row["next_part_at"] is not None:
                payments.refuse(row, "script is null, and the payment was started")
            continue
        if row["amount_msat"] is None or row["amount_msat"] < 1:
            payments.refuse(row, f"amount_msat is {row['amount_msat']}, and the payment was started")
        script = row["script"]
        if not script["sent_parts"] <= script["parts"] <= row["amount_msat"]:
            payments.refuse(row, "script: there are more sent_parts than parts, or more parts than msat")
        if script["blocks"] > script["cltv_expiry"]:
            payments.refuse(row, "script: blocks is more than cltv_expiry")
        if has_ended and row["next_part_at"] is not None:
            payments.refuse(row, f"status is {row['status']}, and next_part_at is not null")
        if row["status"] == HELD and row["payment_hash"] not in invoices.by_key:
            payments.refuse(row, "status is held, and payment_hash is that of no row in the table invoices")
        if row["status"] == "succeeded" and row["preimage"] is None:
            payments.refuse(row, "preimage is null, and status is succeeded")


def _deliveries(table: Callable[[str], Rows], contract: Contract | None) -> None:
    deliveries = table("deliveries")
    operations = () if contract is None else contract.operations.values()
    rules = {rule.name for operation in operations for rule in operation.callbacks}
    for row in deliveries:
        try:
            log = AttemptLog(row)
            attempts = log.attempts()
            is_sound = len(attempts) == log.attempt_count and all(
                min(one.due_at, one.at, one.timestamp_s, one.secret_count, one.latency_ms) >= 0
                and max(one.due_at, one.at, one.ended_at or 0, 1_000 * one.timestamp_s) <= MAX_INSTANT_MS
                and isinstance(one.note, str)
                and isinstance(one.response_body, str)
                and all(isinstance(text, str) for header in one.response_headers for text in header)
                and isinstance(one.headers_left_out, int)
                for one in attempts
            )
        except (ValueError, TypeError, IndexError):
            attempts, is_sound = [], False
        if not is_sound:
            deliveries.refuse(row, "attempts is not the text that an attempt log writes")
        if contract is not None and row["rule"] not in rules:
            deliveries.refuse(row, f"rule is {cut(row['rule'], 60)!r}, which the spec does not have")
        if row["status"] != PENDING:
            if row["due_at"] is not None:
                deliveries.refuse(row, f"due_at is not null, and status is {row['status']}")
            continue
        if row["due_at"] is None and not (attempts and attempts[-1].ended_at is None):
            deliveries.refuse(row, "due_at is null, and no attempt is in flight")
        if any(one.ended_at is None for one in (attempts if row["due_at"] is not None else attempts[:-1])):
            deliveries.refuse(row, "attempts has one in flight, and the delivery has another one or is due")
        if row.get("replayed_from", 0) > len(attempts):
            deliveries.refuse(row, f"replayed_from is {row['replayed_from']}, and it has {len(attempts)} attempts")


def _fault_posts(table: Callable[[str], Rows], contract: Contract | None) -> None:
    posts = table("fault_posts")
    for row in posts:
        if row["is_copy"] != (row["post"]["copied_by"] is not None):
            posts.refuse(row, f"is_copy is {row['is_copy']}, and post/copied_by {row['post']['copied_by']}")
        try:
            row["post"]["body"].encode("latin-1").decode()
        except UnicodeDecodeError:
            posts.refuse(row, "post/body is no UTF-8 text of which each byte is a character")


def _inboxes(table: Callable[[str], Rows], contract: Contract | None) -> None:
    receivers, received = table("receivers"), table("received")
    numbers: dict[str, list[int]] = {}
    for row in received:
        name, _, number = row["id"].rpartition("#")
        numbers.setdefault(name, []).append(int(number))
        if name not in receivers.by_key:
            received.refuse(row, "id is that of no row in the table receivers")
    for row in receivers:
        stored = sorted(numbers.get(row["id"], ()))
        # Retention deletes the oldest, and all those of receivers that received long ago.
        if not stored and row["received"] and any(key.startswith("receivers/") for key in table(ENDED).by_key):
            continue
        if stored and [*range(stored[0], stored[-1] + 1)] != stored:
            receivers.refuse(row, f"the table received does not have all callbacks {stored[0]} to {stored[-1]}")
        if (stored[-1] if stored else 0) != row["received"]:
            last = f"number {stored[-1]} last" if stored else "none"
            receivers.refuse(row, f"received is {row['received']}, and the table received has {last}")
    late = table("late_answers")
    for row in late:
        if row["receiver"] not in receivers.by_key:
            late.refuse(row, f"receiver is {cut(row['receiver'], 60)!r}, which the table receivers does not have")


def _urls(table: Callable[[str], Rows], contract: Contract | None) -> None:
    for name, field in (
        ("charges", "callback_url"),
        ("static_charges", "callback_url"),
        ("deliveries", "url"),
        ("received", "url"),
        ("late_answers", "post"),
        ("fault_posts", "post"),
    ):
        rows = table(name)
        for row in rows:
            url = row[field]["url"] if field == "post" else row[field]
            try:
                _ = url and urlsplit(url).port
            except ValueError:
                rows.refuse(row, f"{field}{'/url' if field == 'post' else ''} is {cut(url, 60)!r}, which is no URL")


def _faults(table: Callable[[str], Rows], contract: Contract | None) -> None:
    faults = table("faults")
    for row in faults:
        if row.get("idle", 0) > row["hits"]:
            faults.refuse(row, f"idle is {row['idle']}, more than its {row['hits']} hits")


def _fault_answers(table: Callable[[str], Rows], contract: Contract | None) -> None:
    answers = table("service_fault_answers")
    for row in answers:
        try:
            orjson.loads(row["state"])
        except ValueError:
            answers.refuse(row, "state is not JSON")


def _traffic(table: Callable[[str], Rows], contract: Contract | None) -> None:
    streams, lists, returns = table("traffic"), table("traffic_values"), table("traffic_returns")
    for row in streams:
        for name, content in lists_of(row["settings"]):
            found = lists.by_key.get(name)
            if found is None:
                streams.refuse(row, f"settings name {cut(name, 60)!r}, which the table traffic_values does not have")
            places, values = found["places"], found["values"]
            if places is not None and (len(places) != len(values) or places != sorted(places)):
                lists.refuse(found, "places are not ascending, one for each of the values")
            if (content == "names") != all(isinstance(each, str) for each in values):
                lists.refuse(found, f"values are not the {content} that the traffic {row['id']} needs")
            if content == "rates" and (places is None or min(values) < 0):
                lists.refuse(found, "values are not rates, each from an instant on")
        if row["due"] < row["started_at"] or (row["next_at"] is not None and row["next_at"] != ceil(row["due"])):
            streams.refuse(row, f"due is {row['due']}, which does not fit to started_at and next_at")
        arrivals = row["settings"]["arrivals"]
        for term in arrivals[1] if arrivals[0] == "mixed" else ():
            for factor in term:
                if factor[0] == "cycle" and not (factor[2][0] == 0 and len(factor[2]) == len(factor[3])):
                    streams.refuse(row, "settings.arrivals has a cycle without a start for each rate, from 0 on")
    for row in returns:
        if row["traffic"] not in streams.by_key:
            returns.refuse(row, f"traffic is {cut(row['traffic'], 60)!r}, which the table traffic does not have")


_CHECKS: tuple[Callable[[Callable[[str], Rows], Contract | None], None], ...] = (
    _projects,
    _charges,
    _static_charges,
    _invoices,
    _payments,
    _deliveries,
    _fault_posts,
    _inboxes,
    _urls,
    _faults,
    _fault_answers,
    _traffic,
    check_counters,
)


def _response_rule(contract: Contract | None, operation_id: str) -> Rule | None:
    operation = None if contract is None else contract.operations.get(operation_id)
    return None if operation is None else operation.success.rule


def _check_resource(rows: Rows, row: Any, rule: Rule, resource: Mapping[str, Any], *passed: str) -> None:
    """Refuse a row whose resource the spec does not permit, except for the fields `passed`."""
    body = envelope("", resource)
    if rule.validator.is_valid(body):
        return
    for error in several_errors(rule.validator, body):
        step, *place = [str(step) for step in error.instance_path]
        if step == "data" and (not place or place[0] not in passed):
            what = f"{'/'.join(place) or 'a field'} of its resource: {error.message}"[:240]
            rows.refuse(row, f"{what}: use the spec with which it was written")
