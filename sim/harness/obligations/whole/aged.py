"""Obligations of what stays while rows are removed because of `leyden serve --keep`: the effects of each operation of
the control plane, and each kind of thing that can be pending, with and without a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from leyden.harness.obligations.control.kept import EXERCISES, NETWORK, after_steps, base_steps
from leyden.harness.obligations.control.setups import PAUSED, advance, charge, pay, send, static
from leyden.harness.obligations.machine.pending import pending_table
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.targets.hosted import ENDS

_SOURCE = "leyden serve --help"
_FAIL = "/sandbox/v1/charges/{{{}.data.id}}/fail"
# Rows of each kind that end at once: more than are kept. The newest Charge ends before the others.
_LINK = (
    static(1, "age"),
    send("GET", "/lnurlp/{age.0.data.id}/invoice?amount=2000", count=3, **{"as": "aging"}),
    send("POST", "/sandbox/v1/payments", {"request": "{aging.n.pr}"}, count=3),
)  # fmt: skip
_CHARGES = (charge(5, "old"), send("POST", _FAIL.format("old.4"), {}), send("POST", _FAIL.format("old.3"), {}),
            pay("old", 3))  # fmt: skip
# The Charge of an Idempotency-Key ends, too: its response is kept.
_KEYED = send("POST", _FAIL.format("keyed.0"), {})
_WITHOUT_KEY = frozenset({"reset", "rotateWebhookSecret"})  # their Charge of a key is gone, or has expired
# What shows whether an endpoint is disabled, which secrets sign, and which keys and ids were used.
_PROBES = (
    send("PUT", "/sandbox/v1/inboxes/down/script", {"always": 200}),
    charge(2, "probe", callbackUrl="http://down.localhost/"), send("POST", _FAIL.format("probe.n"), {}, count=2),
    advance("1h"),
)  # fmt: skip


def aged_obligations() -> Iterator[Obligation]:
    """Each operation that changes something and each kind that can be pending, before and after its instant, with one
    of the bounds in turn, without a restart and with one of its kinds in turn."""
    number = 0
    for name, exercise in EXERCISES.items():
        options = NETWORK if "network" in str(exercise()) else ()
        number += 1
        # The faults of this one answer the next requests for Static Charges.
        ending = _CHARGES if name == "addServiceFault" else (*_LINK, *_CHARGES)
        ending = ending if name in _WITHOUT_KEY else (_KEYED, *ending)
        yield from _pair(name, (*base_steps(), *exercise()), ending, after_steps(), options, number)
    for kind, pending in pending_table().items():
        number += 1
        keyed = (_KEYED,) if "Idempotency-Key" in kind else ()
        ending, then = (*keyed, *_LINK, *_CHARGES), (*pending.then, *pending.probe)
        end = (*pending.probe, *pending.then, *_PROBES, advance("30h"))
        yield from _pair(kind, pending.steps, ending, end, pending.options, number)
        end = (*pending.probe, *_PROBES, advance("30h"))
        yield from _pair(f"{kind}, afterwards", (*pending.steps, *then), ending, end, pending.options, number)


def _pair(
    place: str, steps: Sequence[Any], ending: Sequence[Any], then: Sequence[Any], options: Sequence[str], number: int
) -> Iterator[Obligation]:
    keep = (1, 2, 5)[number % 3]
    for how in ("", ENDS[number % len(ENDS)]):
        step: Any = {"do": "control_aged", "count": keep, "options": [*PAUSED, *options], "disk": bool(how),
                     "steps": [*steps], "meanwhile": [*ending], "then": [*then]}  # fmt: skip
        if how:
            step["how"] = how
        case = f"{place}, {keep}{f', {how}' if how else ''}"
        yield Obligation(place, "aged", case, _SOURCE, (step,), setup="aged-changed")
