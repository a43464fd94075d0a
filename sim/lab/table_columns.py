"""What every column of every table means: its type, its unit, and the row of another table that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from leyden.lab.table_rows import COUNT, FLAG, MSAT, SHARE, TABLES, TEXT, TIME

WORLD = "the label of the sandbox, to tell the rows of several apart"
# By table and column. A column of ids ends with "-> table.column" if it names a row of another table.
MEANINGS: Mapping[str, Mapping[str, str]] = {
    "charges": {
        "id": "the id",
        "status": "the state",
        "amount_msat": "the amount to pay",
        "description": "what the payer sees",
        "internal_id": "the shop's own reference; missing without one",
        "created_at": "when it was created, in whole seconds, as its invoice says",
        "expires_at": "from this instant on it cannot be paid",
        "confirmed_at": "when it was paid; missing for one that was not",
        "received_msat": "what the node received for it; missing for one that was not paid",
        "failure": "why the node failed its invoice; missing otherwise",
        "static_charge_id": "of which it was requested; missing for one of its own -> static_charges.id",
        "callback_url": "where its callbacks go; missing without one",
        "payment_hash": "the hash of its invoice",
        "request": "its BOLT 11 invoice",
    },
    "static_charges": {
        "id": "the id",
        "status": "the state",
        "min_msat": "the lowest amount",
        "max_msat": "the highest amount",
        "description": "what the payer sees",
        "slots": "slots used by payments",
        "allowed_slots": "the limit of slots; missing without one",
        "internal_id": "the shop's own reference; missing without one",
        "created_at": "when it was created",
        "expires_at": "from this instant on it issues no invoice; missing for one that does not expire",
        "identifier": "its Lightning address; missing without one",
        "success_message": "what a wallet shows after the payment",
        "callback_url": "where the callbacks of its Charges go; missing without one",
        "request": "its LNURL",
    },
    "payments": {
        "id": "the id",
        "payer": "the name of the wallet",
        "status": "the state",
        "outcome": "what the wallet sees at the end; missing before",
        "reason": "the cause of a failure, which no payer sees",
        "amount_msat": "what the wallet wants to pay, without fees",
        "received_msat": "what the receiver got; 0 until the payment ends, although the receiver may have it before",
        "fees_msat": "the routing fees of the settled parts",
        "attempts": "the parts that were sent, failed ones included",
        "created_at": "when the payment was scheduled: for a customer of traffic, when it saw the Charge",
        "starts_at": "when the wallet begins to pay; the time since created_at is the think time or the delay",
        "resolved_at": "when it ended; missing before",
        "gives_up_at": "from then on no more parts are sent; missing without such a limit",
        "charge_id": "what is paid; missing for another invoice -> charges.id",
        "script": "the outcome that was asked for, such as hold; missing without one",
        "payment_hash": "the hash of the invoice",
        "preimage": "the proof of payment; missing before",
        "request": "the BOLT 11 invoice",
    },
    "attempts": {
        "payment_id": "whose part it is -> payments.id",
        "attempt": "the number within the payment, from 0",
        "charge_id": "what is paid; missing for another invoice -> charges.id",
        "payer": "the name of the wallet",
        "at": "when it was sent",
        "resolved_at": "when it was settled or failed; missing before",
        "status": "the state; `waiting` is for the other parts",
        "amount_msat": "what arrives at the end of the route",
        "fee_msat": "the fees of the route",
        "hops": "the channels of the route",
        "route": "the nodes of the route after the payer's own, with > between them",
        "hop": "the hop of the node that resolved it: 0 the payer, `hops` the receiver; missing before, and if direct",
        "source": "the name of the node that failed it, or `final`; missing if none did",
        "code": "the failure that the payer sees, as BOLT 4 numbers it; missing without one",
        "failure": "the same by its name",
        "retried": "whether the wallet may try again after it: it does if it finds a route and has time",
        "learned": "what the wallet learned from it",
        "why": "the receiver's cause in one word, which no payer sees (other_part: another part made it fail the set); "
        "missing if another node failed it",
        "reason": "the cause in a sentence, which no payer sees",
        "payment_hash": "the hash of the invoice",
    },
    "htlcs": {
        "payment_id": "whose HTLC it is -> payments.id",
        "attempt": "the attempt -> attempts.attempt",
        "hop": "the hop, from 0, the payer's own channel",
        "charge_id": "what is paid; missing for another invoice -> charges.id",
        "at": "when it was offered",
        "resolved_at": "when it was fulfilled or failed; missing before",
        "status": "the state",
        "source": "the node that offers it",
        "target": "the node that it is offered to",
        "channel": "the number of the channel; missing for a direct payment",
        "amount_msat": "its amount, fees of the further hops included",
        "fee_msat": "the fee of the node that offers it",
        "cltv_expiry": "the block height at which it expires",
    },
    "deliveries": {
        "id": "the id, the `webhook-id` of all its attempts",
        "charge_id": "the Charge, or the Static Charge of an event about one -> charges.id",
        "event": "the name of the event",
        "status": "the state",
        "sequence": "the number among the messages of one Charge, from 1",
        "attempts": "the attempts so far",
        "created_at": "when the event happened",
        "due_at": "when the next attempt is; missing after the last one",
        "finished_at": "when the last attempt ended; missing before",
        "url": "where it goes",
        "body": "the message, in JSON",
    },
    "callbacks": {
        "delivery_id": "the message -> deliveries.id",
        "charge_id": "as in deliveries -> charges.id",
        "event": "the name of the event",
        "attempt": "the number of the attempt, from 1",
        "due_at": "for when it was scheduled",
        "at": "when it began; nothing was sent if it was blocked, refused, unresolved or tls, if there was no "
        "connection or it was closed at once, as the note then says, or if a fault dropped it; not known if lost",
        "answered_at": "when it ended; missing in flight",
        "http_status": "the status of the response; missing without one",
        "error": "why there was no response; missing with one",
        "latency_ms": "how long it took until the response or the error, in milliseconds, on the network in real time"
        " unless the fault drop took it; missing in flight and if lost",
        "note": "what is to be known about it, such as the rule that blocked it",
        "answer": "the beginning of the response's body",
        "url": "where it went",
    },
    "balances": {
        "at": "now",
        "kind": "whose balance it is: that of a project, of the shop's `node`, or of a side of a `channel`",
        "account": "the project, or the name of the node",
        "balance_msat": "the balance; of projects and of the node what they have received with all payments, whatever "
        "else has moved on the channels",
        "peer": "the node at the other side of the channel",
        "channel": "the number of the channel",
        "capacity_msat": "the size of the channel, in both of its rows",
        "remote_msat": "the balance of the peer",
        "in_flight_msat": "what is in HTLCs on the way, in both rows of the channel",
        "on_chain_msat": "what the node has on the chain from the channel, which was closed; no longer in balance_msat",
        "before_msat": "the balance at the beginning",
        "change_msat": "balance_msat and on_chain_msat, less before_msat",
        "share": "balance_msat as a share of the capacity, 0 to 1",
        "status": "the state of the channel; `closing` until all of a closed one is on the chain",
        "shop": "whether the node is the shop's",
    },
    "outages": {
        "node": "the node that is offline",
        "at": "since when",
        "until": "until when; missing while it lasts",
        "cause": "`condition`, or the id of the interceptor",
        "shop": "whether the node is the shop's",
    },
    "journal": {
        "sequence": "the number of the event",
        "at": "when it happened",
        "kind": "what happened",
        "subject": "the id of what it happened to",
        "facts": "its facts, as JSON with sorted names; `sb.facts(kind)` has them as columns",
    },
}
_TYPES = {
    TEXT: ("str", ""),
    MSAT: ("Int64", "msat"),
    TIME: ("datetime64[ms, UTC]", "UTC"),
    COUNT: ("Int64", ""),
    FLAG: ("boolean", ""),
    SHARE: ("float64", ""),
}


class Column(NamedTuple):
    """A column of a table. `dtype` is that of pandas; `is_key` says that it belongs to the table's key; `names` is the
    column of another table whose row it names, or empty."""

    table: str
    name: str
    dtype: str
    unit: str
    meaning: str
    is_key: bool
    names: str


def columns() -> Iterator[Column]:
    """Every column of every table, in the order of the tables."""
    for table, (listed, key, _) in TABLES.items():
        yield Column(table, "world", "str", "", WORLD, False, "")
        for name, kind in listed:
            meaning, _, names = MEANINGS[table][name].partition(" -> ")
            dtype, unit = _TYPES.get(kind, ("category", ""))
            unit = "ms" if name.endswith("_ms") else unit
            yield Column(table, name, dtype, unit, meaning, name in key, names)
            if kind == MSAT:
                yield Column(table, f"{name.removesuffix('_msat')}_sat", "float64", "sat", "the same", False, "")


def markdown() -> str:
    """All tables as Markdown, a heading and a table for each."""
    lines: list[str] = []
    for table in TABLES:
        own = [column for column in columns() if column.table == table]
        lines += [f"### `{table}`", "", "| column | type | unit | meaning |", "|---|---|---|---|"]
        for column in own:
            notes = (" Key." if column.is_key else "") + (f" Names `{column.names}`." if column.names else "")
            meaning = f"{column.meaning[0].upper()}{column.meaning[1:]}.{notes}"
            lines.append(f"| `{column.name}` | {column.dtype} | {column.unit} | {meaning} |")
        lines.append("")
    return "\n".join(lines)
