"""Obligations of durability: a restart of each kind between any two steps, a reset with restarts around it, and a kill
after any commit of a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, cast

from leyden.harness.conformance.conformance import scenarios_of
from leyden.harness.model.rules import OVERLAYS
from leyden.harness.obligations.callbacks.sequences import fault_obligations, sequence_obligations
from leyden.harness.obligations.obligation import KEY, Obligation, operations_of, target_of
from leyden.harness.obligations.values.queries import list_obligations
from leyden.harness.steps import Step
from leyden.harness.targets.target import RESTARTS

_TIPS: Any = {"minAmount": "1000", "maxAmount": "500000000", "description": "tips"}
_SOURCE = "the harness's list of restarts"
_MOST = 24  # steps of a scenario with restarts between them
# These read only: a kill within one of them leaves nothing of its own.
_READS = frozenset({"get", "wallet", "list", "odd", "verify", "pay_request", "pages"})
_WHOLE = _READS | {"restart", "fault", "receiver", "request", "fill", "follow"}
# Between restarts that are in every case, those that say more, but cost more.
_WAYS = ("close", "snapshot", "kill", "compact", "kill", "twice", "snapshot", "torn")
# After these the service goes on where it was.
_RESUMING = ("close", "kill", "compact", "torn", "snapshot", "twice")
_PASSES: Step = {"do": "advance", "by": 1_000, "how": "python"}  # nothing but time


def durability_obligations() -> Iterator[Obligation]:
    """Each scenario of the conformance run with restarts in it, and with kills in it."""
    number = 0
    for group in ("charges", "static charges", "callbacks", "lists", *OVERLAYS):
        overlays = (group,) if group in OVERLAYS else ()
        for name, steps in scenarios_of(group).items():
            if len(steps) > _MOST:
                continue
            yield _restarted(name, steps, number, overlays)
            if number % 4 == 1:
                yield _compacted(name, steps, overlays)
            if number % 3 == 0 and not any(step["do"] == "rotate" for step in steps):
                yield _reset(name, steps, number, overlays)
            if group in {"charges", "static charges", "lists", "callbacks"}:
                yield _killed(name, steps)
            number += 1
    for number, one in enumerate([*sequence_obligations()][::12]):
        yield _restarted(one.id, one.steps, number, ())
    for number, one in enumerate([*fault_obligations()][::8]):
        yield _restarted(one.id, one.steps, number, ())
    yield from _slots()
    yield from _lists()
    yield from _tables()
    yield _history()


def _restarted(name: str, steps: Sequence[Step], number: int, overlays: tuple[str, ...]) -> Obligation:
    """The steps with a restart after every other one; `number` decides which, and of which kind."""
    found: list[Step] = []
    for index, step in enumerate(steps):
        found.append(step)
        if step["do"] not in _READS and (index + number) % 2 == 0:
            found.append({"do": "restart", "how": _WAYS[(index + number) // 2 % len(_WAYS)]})
    how = "damaged" if number % 20 == 0 else RESTARTS[0]
    return Obligation("restart", "between", name, _SOURCE, (*found, {"do": "restart", "how": how}),
                      setup="restart-changed", overlays=overlays)  # fmt: skip


def _reset(name: str, steps: Sequence[Step], number: int, overlays: tuple[str, ...]) -> Obligation:
    """The steps before a reset and again after it, with restarts that would show deleted rows again."""
    ways = [Step({"do": "restart", "how": _WAYS[(number + place) % len(_WAYS)]}) for place in range(3)]
    key: Step = {"do": "spare_key"}
    found: list[Step] = [key, *steps, ways[0], {"do": "reset"}, ways[1], *steps, ways[2]]
    found.append({"do": "restart", "how": "replaced_key"})
    return Obligation("reset", "between", name, _SOURCE, tuple(found), setup="reset-changed", overlays=overlays)


def _compacted(name: str, steps: Sequence[Step], overlays: tuple[str, ...]) -> Obligation:
    """The steps during a compaction: first with a kill before its end, then with all of the steps before its end."""
    static: Step = {"do": "create_static", "as": "compacted", "body": _TIPS}
    changes: Step = {"do": "fill", "of": "changes", "static": "compacted", "count": 40, "as": "compacted"}
    kill, compact = Step({"do": "restart", "how": "kill"}), Step({"do": "compact"})
    half = len(steps) // 2
    found = [static, compact, *steps[:half], kill, compact, *steps[half:], changes, kill, _PASSES, kill]
    return Obligation("compaction", "during", name, _SOURCE, tuple(found), setup="compaction-changed",
                      overlays=overlays)  # fmt: skip


def _slots() -> Iterator[Obligation]:
    """The invoices of a Static Charge that is full: they stay cancelled after a restart of each kind, when slots are
    added, too, and their Charges expire at their own times."""
    for number, (overlay, how, slots) in enumerate(
        product(("", "reserve-on-issue", "count-on-settle"), RESTARTS, (1, 2))
    ):
        if how not in _RESUMING:
            continue
        again: Step = {"do": "restart", "how": how}
        body: Any = {**_TIPS, "allowedSlots": slots, "expiresIn": 500, "callbackUrl": "http://r1.inbox.localhost/"}
        found: list[Step] = [{"do": "create_static", "as": "s", "body": body}]
        found += [{"do": "invoice", "static": "s", "as": f"c{n}", "amount": "1000"} for n in range(slots + 3)]
        found += [{"do": "pay", "as": "held", "charge": f"c{slots}", "outcome": "hold"}]
        found += [{"do": "pay", "as": f"p{n}", "charge": f"c{n}"} for n in range(slots)]
        found += [again, {"do": "pay", "as": "late", "charge": f"c{slots + 1}"}]
        found += [
            {"do": "invoice", "static": "s", "as": "more", "amount": "1000"},
            {"do": "pay_request", "static": "s"},
        ]
        found += [{"do": "patch", "static": "s", "body": {"allowedSlots": slots + 1}}, again]
        found += [{"do": "pay", "as": "later", "charge": f"c{slots + 2}"}]
        found += [{"do": "invoice", "static": "s", "as": "new", "amount": "1000"}, again]
        found += [{"do": "settle", "payment": "held"}, {"do": "pay", "as": "pnew", "charge": "new"}]
        found += [{"do": "verify", "charge": f"c{n}"} for n in range(slots + 3)]
        if number % 2:
            found.append({"do": "fail", "charge": f"c{slots + 2}"})
        for label in (f"c{slots + 1}", "s"):
            found += [{"do": "advance", "to": ["expiry", label], "offset": -1}, again,
                      {"do": "advance", "to": ["expiry", label], "offset": 0}, again]  # fmt: skip
        case = f"{slots} slots, {how}{f', {overlay}' if overlay else ''}"
        yield Obligation("restart", "full Static Charge", case, _SOURCE, tuple(found), setup="full-changed",
                         overlays=(overlay,) if overlay else ())  # fmt: skip


def _tables() -> Iterator[Obligation]:
    """Tables of about as many rows as a compaction writes in one step: rows that change while it is under way, or while
    its last rows are written, and kills in it; then all pages and some filters."""
    for number, (of, count) in enumerate(product(("charges", "statics", "children"), (127, 129, 258))):
        label = f"{of}{count}"
        body = {"expiresIn": 3_600, "internalId": "old"} if of != "children" else {}
        key = {"idempotency_key": "k"}
        keyed: Step = {"do": "create_charge", "as": "keyed", "body": {"amount": "1000", "description": "x"}, **key}  # type: ignore[typeddict-item]
        found: list[Step] = [{"do": "create_static", "as": "t", "body": _TIPS}, keyed]
        found += [cast("Step", {"do": "fill", "of": of, "count": count, "as": label, "static": "t", "body": body})]
        found += [{"do": "compact"}]
        resource = "static" if of == "statics" else "charge"
        for place in (0, count // 2, count - 1):
            name = f"{label}_{place}"
            found += [{"do": "patch", "static": name, "body": {"internalId": "new"}} if resource == "static" else
                      {"do": "pay", "as": f"p{place}", "charge": name}]  # fmt: skip
        found += [{"do": "restart", "how": ("kill", "torn")[number % 2]}] if number % 3 else []
        found += [{"do": "compact"}]
        # More commits than the steps of the compaction, each of which changes a row that it has written.
        for turn in range(40):
            place = turn * 7 % (count - 3) + 1
            name = f"{label}_{place}"
            found += [{"do": "patch", "static": name, "body": {"internalId": f"{turn}"}} if resource == "static" else
                      {"do": "fail", "charge": name}]  # fmt: skip
        found += [{"do": "restart", "how": ("kill", "close", "compact")[number % 3]}, keyed]
        operation = {"charges": "listCharges", "statics": "listStaticCharges", "children": "listStaticChargeCharges"}[
            of
        ]
        one = next(each for each in operations_of() if each.name == operation)
        for query in ({"limit": "90"}, {"internalId": "new"}, {"internalId": "old", "limit": "1000"},
                      {"status": "active" if of == "statics" else "error"}):  # fmt: skip
            found.append({"do": "pages", "target": target_of(one, query).replace("{s1}", "{t}"), "headers": [KEY]})
        yield Obligation("compaction", "large table", f"{count} {of}", _SOURCE, tuple(found), setup="tables-changed")


def _history() -> Obligation:
    """More rows and changes than the store keeps unpacked or writes at once, with restarts of each kind, then the pages
    of each list."""
    expiring = {"expiresIn": 5, "callbackUrl": "http://r1.inbox.localhost/hook"}

    def fill(of: str, count: int, label: str, **more: Any) -> Step:
        step: Step = {"do": "fill", "of": of, "count": count, "as": label}
        return cast("Step", {**step, **more})

    ways = [Step({"do": "restart", "how": how}) for how in ("kill", "compact", "snapshot", "close", "kill")]
    tips: Step = {"do": "create_static", "as": "t", "body": _TIPS}
    expiry: Step = {"do": "advance", "by": 6_000}
    found = [
        fill("charges", 300, "a", body=expiring),
        fill("statics", 270, "b"),
        tips,
        fill("children", 150, "c", static="t"),
    ]
    found += [ways[0], expiry, ways[1], {"do": "compact"}, fill("changes", 60, "d", static="t"), ways[4]]
    found += [fill("charges", 300, "e", body=expiring), expiry, ways[2], _PASSES, ways[3]]
    found += [fill("children", 150, "f", static="t"), fill("statics", 120, "h"), fill("changes", 500, "g", static="h")]
    pages = [Step({"do": "pages", "target": target_of(one, {"limit": "400"}).replace("{s1}", "{t}"), "headers": [KEY]})
             for one in operations_of() if one.name.startswith("list")]  # fmt: skip
    return Obligation("restart", "long history", "", _SOURCE, (*found, *pages), setup="history-changed")


def _killed(name: str, steps: Sequence[Step]) -> Obligation:
    # An advance by a fixed span has too many commits; one to an expiry has few.
    found = [
        step if step["do"] in _WHOLE or isinstance(step.get("by"), int) else Step({"do": "crash", "steps": [step]})
        for step in steps
    ]
    return Obligation("kill", "within", name, _SOURCE, tuple(found), setup="kill-changed")


def _lists() -> Iterator[Obligation]:
    """Every filter of every list after a restart, which builds the indexes again."""
    for one in list_obligations():
        if one.kind == "filter":
            yield Obligation(f"restart {one.place}", one.kind, one.case, one.source, one.steps, setup="restarted-lists")
