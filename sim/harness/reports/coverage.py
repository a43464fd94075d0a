"""Coverage: every item that the specification declares, with the first case of each engine that reached it.

The items are the operations with their statuses, the rows of the lifecycle tables, the events with the results of their
deliveries, the replies of receivers, the faults, and some policies.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from leyden.harness.model.callbacks import FAILURE_REPLIES
from leyden.harness.model.charges import CoverageItem, row_name
from leyden.harness.model.faults import FAULTS
from leyden.harness.model.rules import OVERLAYS
from leyden.server.docs.tables import markdown
from leyden.server.html import Html, tag
from leyden.world.config import packaged_contract

TITLES = {
    "row": "Lifecycle rows",
    "response": "Operations and statuses",
    "delivery": "Deliveries and their results",
    "receiver": "Replies of receivers",
    "fault": "Faults of the sender",
    "policy": "Policies",
}

# Declared items that no request to a service without defects can reach, with the reasons.
OUT_OF_REACH: Mapping[CoverageItem, str] = {
    ("row", "StaticCharge", "active", "payment_settled", "", "no_slot_left"): (
        "a Static Charge without a free slot is disabled at the same time, so none is active and full"
    ),
}
_NOT_REACHED, _OUT_OF_REACH = "not reached", "out of reach"
_LISTS = ("listCharges", "listStaticCharges", "listStaticChargeCharges")
_POLICIES = (
    ("idempotency", "replayed"),
    ("keys", "rotated"),
    ("replay", "sent again"),
    ("replay", "in flight"),
    ("restart", "resumed"),
    *(("isolation", one) for one in ("getChargeDetails", "getStaticChargeDetails")),
    *((kind, one) for kind in ("lists", "cursors") for one in _LISTS),
)
_FAILURES = {"500": "a defect of the service", "507": "a disk that refuses to write"}


def declared() -> list[CoverageItem]:
    """All coverage items, in the order of the specification."""
    contract = packaged_contract("charges")
    operations = contract.operations.values()
    items: list[CoverageItem] = [
        ("row", resource, row.source, row.trigger, row.when or "", row.to or row.refuse or "")
        for variant in (contract, *(packaged_contract("charges", (overlay,)) for overlay in OVERLAYS))
        for resource, table in variant.lifecycles.items()
        for row in table.rows
    ]
    items += [("response", one.operation_id, str(status)) for one in operations for status in one.responses]
    rules = [rule.delivery for one in operations for rule in one.callbacks]
    for event in dict.fromkeys(event for rule in rules for event in rule.events.values()):
        items += [("delivery", event, result) for result in ("delivered", "exhausted", "stopped")]
    replies = (200, 204, 299, 300, 302, 400, 404, 410, 429, 500, 503, *(reply for reply, _ in FAILURE_REPLIES.values()))
    items += [("receiver", str(reply)) for reply in (*replies, "retry-after longer", "retry-after shorter")]
    items += [("fault", kind) for kind in FAULTS]
    items += [("policy", *policy) for policy in _POLICIES]
    return list(dict.fromkeys(items))


def out_of_reach(item: CoverageItem) -> str:
    """Why a declared item cannot be reached; empty if it can."""
    if item[0] == "response" and item[2] in _FAILURES:
        return f"only {_FAILURES[item[2]]} causes this status"
    return OUT_OF_REACH.get(item, "")


@dataclass(slots=True)
class Coverage:
    """The first case of each engine that reached an item; the numbers of runs and steps; what was not checked.

    `obligations` are the names of those that the campaign has to ask.
    """

    reached: dict[CoverageItem, dict[str, str]] = field(default_factory=dict)
    runs: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    unchecked: dict[str, None] = field(default_factory=dict)
    obligations: tuple[str, ...] = ()

    def add(
        self, engine: str, case: str, observed: Iterable[CoverageItem], *, done: int = 0, unchecked: Iterable[str] = ()
    ) -> None:
        """Add what one run of an engine reached."""
        self.runs[engine] += 1
        self.steps[engine] += done
        for item in observed:
            self.reached.setdefault(item, {}).setdefault(engine, case)
        self.unchecked.update(dict.fromkeys(unchecked))

    def merge(self, other: Coverage) -> None:
        """Add the coverage of another process."""
        for item, engines in other.reached.items():
            for engine, case in engines.items():
                self.reached.setdefault(item, {}).setdefault(engine, case)
        self.runs += other.runs
        self.steps += other.steps
        self.unchecked.update(other.unchecked)
        self.obligations = self.obligations or other.obligations

    def untested(self) -> list[str]:
        """The names of the obligations that no case has tested."""
        return [name for name in self.obligations if ("obligation", name) not in self.reached]

    def missing(self) -> list[CoverageItem]:
        """The declared items that can be reached and were not."""
        return [item for item in declared() if item not in self.reached and not out_of_reach(item)]

    def counted(self) -> tuple[int, int]:
        """The number of items that were reached, and of those that can be reached."""
        within = [item for item in declared() if not out_of_reach(item)]
        return sum(item in self.reached for item in within), len(within)

    def tested(self) -> str:
        """The number of tested obligations, as a text."""
        tested = len(self.obligations) - len(self.untested())
        return f"{tested} of {len(self.obligations)} obligations of the documents tested"

    # Formats

    def document(self) -> dict[str, Any]:
        """The coverage as JSON values."""
        reached, within = self.counted()
        return {
            "reached": reached,
            "declared": within,
            "engines": {name: {"runs": self.runs[name], "steps": self.steps[name]} for name in self.runs},
            "notChecked": list(self.unchecked),
            "obligations": {"declared": len(self.obligations), "notTested": self.untested()},
            "items": [
                {
                    "kind": item[0],
                    "item": list(item[1:]),
                    "first": dict(self.reached.get(item, {})),
                    "outOfReach": out_of_reach(item) or None,
                }
                for item in declared()
            ],
        }

    def json(self) -> str:
        """The coverage as JSON text."""
        return json.dumps(self.document(), indent=1) + "\n"

    def _tables(self) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
        """For each kind its title and a row for each item: its name, and the first case of each engine."""
        for kind, title in TITLES.items():
            rows = []
            for item in declared():
                if item[0] == kind:
                    reason = out_of_reach(item)
                    absent = f"{_OUT_OF_REACH}: {reason}" if reason else _NOT_REACHED
                    cases = self.reached.get(item, {})
                    rows.append((item_name(item), *(cases.get(engine, absent) for engine in self.runs)))
            yield title, rows

    def summary(self) -> str:
        """The number of items that each engine reached, by kind, as a Markdown table."""
        rows = []
        for kind, title in TITLES.items():
            items = [item for item in declared() if item[0] == kind]
            hidden = {out_of_reach(item): None for item in items if out_of_reach(item)}
            within = [item for item in items if not out_of_reach(item)]
            reached = [str(sum(engine in self.reached.get(item, {}) for item in within)) for engine in self.runs]
            rows.append((title, str(len(within)), *reached, "; ".join(hidden)))
        return markdown(("Declared items", "number", *self.runs, "out of reach because"), rows)

    def text(self) -> str:
        """The coverage as text for a terminal."""
        reached, within = self.counted()
        lines = [f"{reached} of {within} coverage items reached"]
        lines += [f"  {name}: {self.runs[name]} runs, {self.steps[name]} steps" for name in self.runs]
        lines += [f"  not checked: {what}" for what in self.unchecked]
        if self.obligations:
            lines += ["", self.tested(), *(f"  not tested: {name}" for name in self.untested())]
        for title, rows in self._tables():
            lines += ["", title, "", markdown(("what", *self.runs), rows)]
        return "\n".join(lines) + "\n"

    def html(self, top: Iterable[Html] = ()) -> str:
        """The coverage as an HTML page, with `top` above its tables."""
        reached, within = self.counted()
        parts = [
            "<!doctype html><meta charset=utf-8><title>Leyden coverage</title><style>body{font:15px/1.5 system-ui;"
            "margin:2rem auto;max-width:80rem;padding:0 1rem}table{border-collapse:collapse;width:100%;margin:0 0 2rem}"
            "th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}"
            "td.missing{background:#fde2e1}td.out{color:#777}caption{font-weight:600;text-align:left;padding:.5rem 0}"
            "@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}td.missing{background:#5b1f1d}"
            "th,td{border-color:#444}}</style>",
            tag("h1", f"{reached} of {within} coverage items reached"),
            *top,
        ]
        if self.obligations:
            untested = self.untested()
            names = tag("pre", "\n".join(untested))
            parts += [tag("h2", self.tested()), tag("details", tag("summary", f"{len(untested):,} not tested"), names)]
        for title, rows in self._tables():
            head = tag("tr", *(tag("th", name, scope="col") for name in ("what", *self.runs)))
            body = [
                tag("tr", tag("th", name, scope="row"), *(tag("td", text, class_=_class(text)) for text in texts))
                for name, *texts in rows
            ]
            parts.append(tag("table", tag("caption", title), head, *body))
        return "\n".join(parts) + "\n"


def item_name(item: CoverageItem) -> str:
    """A coverage item in words, without its kind."""
    return row_name(item) if item[0] == "row" else " ".join(item[1:])


def _class(text: str) -> str | None:
    return "missing" if text == _NOT_REACHED else "out" if text.startswith(_OUT_OF_REACH) else None
