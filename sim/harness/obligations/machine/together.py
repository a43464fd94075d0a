"""Obligations of many things that are pending at once: each way to restart finds, in a few cases, a kind that it
forgets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from leyden.harness.control.pending_checks import STOPPED
from leyden.harness.obligations.control.setups import PAUSED
from leyden.harness.obligations.machine.pending import END, SOURCE, Pending, pending_table
from leyden.harness.obligations.obligation import KEY, Obligation
from leyden.harness.steps import Step
from leyden.harness.targets.hosted import ENDS

# Left out: these change what happens to the others, or stand for another one.
_ALONE = ("payer", "messages in flight", "replay", "service fault")
_FAULTS, _ROWS, _REST = GROUPS = ("callbacks with faults", "Charges and payments", "callbacks and secrets")
_SPAN_MS = 1_000  # until the first of them are due


def pending_groups() -> Mapping[str, Mapping[str, Pending]]:
    """The kinds of the table that can be pending beside each other, by what they are about."""
    found: dict[str, dict[str, Pending]] = {group: {} for group in GROUPS}
    for kind, pending in pending_table().items():
        is_later = any(step["target"].endswith("/advance") for step in pending.steps)
        if not pending.options and not is_later and not kind.startswith(_ALONE):
            is_row = kind.startswith(("expiry", "held", "payment"))
            found[_FAULTS if "fault" in kind else _ROWS if is_row else _REST][kind] = pending
    return found


def together_obligations() -> Iterator[Obligation]:
    """Each group with each way to restart, and with a bound on what is kept."""
    for group, kinds in pending_groups().items():
        steps = [step for number, one in enumerate(kinds.values()) for step in _own(one.steps, number)]
        for how, *more in (*((way,) for way in (*ENDS, STOPPED)), ("kill", "--keep", "2")):
            step: Any = {"do": "control_pending", "how": how, "options": [*PAUSED, *more], "steps": steps,
                         "then": [*END], "offset": _SPAN_MS}  # fmt: skip
            case = " ".join((how, *more))
            yield Obligation(group, "pending-together", case, SOURCE, (step,), setup="together-changed")


def many_obligations() -> Iterator[Obligation]:
    """More Charges, Static Charges and invoices than a portion or a page has are pending at a restart, at one instant
    or each at its own: all of them end."""
    counts = {"charges": (99, 100, 101, 130), "statics": (101, 130), "children": (101, 130)}
    for of, count in ((of, count) for of, each in counts.items() for count in each):
        for how in ("close", "kill") if (of, count) == ("charges", 130) else ("kill",):
            hook = {"callbackUrl": "http://r1.inbox.localhost/"} if of == "charges" else {}
            fill: Any = {"do": "fill", "of": of, "count": count, "as": "m", "body": {"expiresIn": 60, **hook}}
            static: Any = {"do": "create_static", "as": "t", "body": {"minAmount": "1000", "maxAmount": "2000",
                                                                     "description": "x"}}  # fmt: skip
            steps: list[Any] = [static, {**fill, "static": "t"} if of == "children" else fill]
            steps += [
                {"do": "restart", "how": how},
                {"do": "advance", "to": ["expiry", f"m_{count - 1}"], "offset": -1},
            ]
            steps += [{"do": "advance", "by": 1}, {"do": "advance", "by": 1_000}]
            path = f"/v0/{'static-' if of == 'statics' else ''}charges"
            steps += [{"do": "pages", "target": f"{path}?limit=1000&status={status}", "headers": [KEY]}
                      for status in ("active" if of == "statics" else "pending", "expired")]  # fmt: skip
            yield Obligation(of, "pending-many", f"{count}, {how}", SOURCE, tuple(steps), setup="many-changed")


def _own(steps: tuple[Step, ...], number: int) -> list[Step]:
    """The steps of a kind with labels and receivers of its own."""
    text = json.dumps(steps)
    for label in {str(step["as"]) for step in steps if "as" in step}:
        text = text.replace(f"{{{label}.", f"{{{label}-{number}.").replace(
            f'"as": "{label}"', f'"as": "{label}-{number}"'
        )
    for name in ("down", "gone"):
        text = text.replace(f"http://{name}.", f"http://{name}{number}.").replace(
            f"/{name}/script", f"/{name}{number}/script"
        )
    found: list[Step] = json.loads(text)
    return found
