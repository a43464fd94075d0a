"""All obligations, and the cases that ask them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain

from leyden.harness.generators.generators import START_MS
from leyden.harness.obligations.callbacks.deliveries import delivery_obligations
from leyden.harness.obligations.callbacks.fault_pairs import fault_pair_obligations
from leyden.harness.obligations.callbacks.fault_targets import fault_target_obligations
from leyden.harness.obligations.callbacks.messages import message_obligations
from leyden.harness.obligations.callbacks.sequences import (
    fault_obligations,
    reply_header_obligations,
    reply_obligations,
    reply_text_obligations,
    sequence_obligations,
)
from leyden.harness.obligations.changes import change_obligations
from leyden.harness.obligations.control.bounds import keep_obligations, removed_obligations
from leyden.harness.obligations.control.callbacks.blocked import blocked_obligations
from leyden.harness.obligations.control.callbacks.inbox_rules import inbox_rule_obligations
from leyden.harness.obligations.control.callbacks.replays import replay_obligations
from leyden.harness.obligations.control.callbacks.secrets import secret_obligations
from leyden.harness.obligations.control.callbacks.waits import link_obligations, wait_obligations
from leyden.harness.obligations.control.clock import clock_obligations
from leyden.harness.obligations.control.hosts import host_obligations
from leyden.harness.obligations.control.kept import kept_obligations, reseeded_obligations
from leyden.harness.obligations.control.lists import control_list_obligations
from leyden.harness.obligations.control.options import option_obligations
from leyden.harness.obligations.control.payers import payer_obligations, payment_obligations
from leyden.harness.obligations.control.payment_requests import payment_request_obligations
from leyden.harness.obligations.control.refusals import control_refusal_obligations
from leyden.harness.obligations.control.repeated import repeated_obligations
from leyden.harness.obligations.control.service_faults import service_fault_obligations
from leyden.harness.obligations.control.streams import stream_obligations
from leyden.harness.obligations.counts import count_obligations, jitter_obligation, setup_obligation
from leyden.harness.obligations.durability import durability_obligations
from leyden.harness.obligations.idempotency import idempotency_obligations
from leyden.harness.obligations.idempotent_fields import idempotent_field_obligations
from leyden.harness.obligations.labels import labelled
from leyden.harness.obligations.long_lists import long_list_obligations, portion_obligations
from leyden.harness.obligations.machine.directories import directory_obligations
from leyden.harness.obligations.machine.disks import disk_obligations
from leyden.harness.obligations.machine.pending import pending_obligations
from leyden.harness.obligations.machine.refused_commits import refused_commit_obligations
from leyden.harness.obligations.machine.together import many_obligations, together_obligations
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.obligations.orders import order_obligations
from leyden.harness.obligations.setups import SHARED, setup_of, start_of
from leyden.harness.obligations.values.fields import field_obligations, pair_obligations, unknown_field_obligations
from leyden.harness.obligations.values.ignored import ignored_obligations
from leyden.harness.obligations.values.queries import list_obligations, query_obligations
from leyden.harness.obligations.whole.aged import aged_obligations
from leyden.harness.obligations.whole.apart import apart_obligations
from leyden.harness.obligations.whole.late import late_obligations, lost_obligations
from leyden.harness.obligations.whole.numbers import number_obligations
from leyden.harness.obligations.wire import (
    header_obligations,
    id_obligations,
    key_obligations,
    method_obligations,
)
from leyden.harness.runs.cases import Case
from leyden.harness.steps import Step

# The overlays that change request bodies: their fields are asked again.
_BODY_OVERLAYS = ("strict", "lenient")


@lru_cache(maxsize=1)
def all_obligations() -> tuple[Obligation, ...]:
    """Every obligation; no two have the same id."""
    found: dict[str, Obligation] = {}
    counts: Counter[str] = Counter()
    for one in _derived():
        counts[one.id] += 1
        if one.id in found and one != found[one.id]:
            raise AssertionError(f"two obligations have the name {one.id!r}: give them another case or kind")
        found[one.id] = one
    return tuple(found.values())


def _derived() -> Iterator[Obligation]:
    yield from chain(
        field_obligations(),
        unknown_field_obligations(),
        pair_obligations(),
        ignored_obligations(),
        query_obligations(),
        list_obligations(),
        method_obligations(),
        id_obligations(),
        key_obligations(),
        header_obligations(),
        order_obligations(),
        count_obligations(),
        sequence_obligations(),
        reply_obligations(),
        reply_header_obligations(),
        reply_text_obligations(),
        fault_obligations(),
        fault_pair_obligations(),
        fault_target_obligations(),
        message_obligations(),
        idempotency_obligations(),
        idempotent_field_obligations(),
        change_obligations(),
        delivery_obligations(),
        blocked_obligations(),
        long_list_obligations(),
        portion_obligations(),
        durability_obligations(),
        control_list_obligations(),
        control_refusal_obligations(),
        option_obligations(),
        repeated_obligations(),
        replay_obligations(),
        inbox_rule_obligations(),
        wait_obligations(),
        link_obligations(),
        kept_obligations(),
        reseeded_obligations(),
        keep_obligations(),
        removed_obligations(),
        payment_obligations(),
        payer_obligations(),
        payment_request_obligations(),
        secret_obligations(),
        clock_obligations(),
        host_obligations(),
        service_fault_obligations(),
        disk_obligations(),
        directory_obligations(),
        pending_obligations(),
        together_obligations(),
        many_obligations(),
        refused_commit_obligations(),
        apart_obligations(),
        aged_obligations(),
        late_obligations(),
        lost_obligations(),
        stream_obligations(),
        number_obligations(),
        (setup_obligation(), jitter_obligation()),
    )
    for overlay in _BODY_OVERLAYS:
        yield from field_obligations((overlay,))
        yield from pair_obligations((overlay,))
    # The overlay that refuses unknown fields.
    yield from unknown_field_obligations(("strict",))


def obligation_cases(obligations: Sequence[Obligation] | None = None) -> list[Case]:
    """Cases that ask all obligations: those of one setup and the same overlays share a case, up to a number."""
    groups: dict[tuple[str, tuple[str, ...]], list[Obligation]] = {}
    for one in all_obligations() if obligations is None else obligations:
        if one.steps:
            groups.setdefault((one.setup, one.overlays), []).append(one)
    cases = []
    for (setup, overlays), members in groups.items():
        size = SHARED.get(setup, 1)
        for first in range(0, len(members), size):
            cases.append(_case(setup, overlays, members[first : first + size]))
    return cases


def _case(setup: str, overlays: tuple[str, ...], members: Sequence[Obligation]) -> Case:
    steps: list[Step] = [*setup_of(setup)]
    for number, one in enumerate(members):
        renamed = labelled(one.steps, number)
        steps += [*renamed[:-1], {**renamed[-1], "obligation": one.id}]
    start = start_of(setup)
    return Case(
        tuple(steps), seed=1, start_ms=START_MS + 500 if start is None else start, overlays=overlays,
        disk=any(step["do"] in {"restart", "crash"} for step in steps),
        name=f"obligations: {members[0].id}{f' and {len(members) - 1} more' if len(members) > 1 else ''}",
    )  # fmt: skip
