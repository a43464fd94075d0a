"""Coverage with evidence: every cell that the specification declares, and the first case that reached it, or never.

The cells come from the specification (its operations and statuses, its lifecycle tables, its events) and from the lists
of what a receiver may answer and which faults there are; what fills them comes from the runs.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leyden.harness.model.callbacks import WORDS
from leyden.harness.model.charges import Cell
from leyden.harness.model.faults import FAULTS
from leyden.harness.options import OVERLAYS
from leyden.server.docs.tables import markdown
from leyden.world.config import packaged_contract

TITLES = {
    "row": "Lifecycle rows",
    "answer": "Operations and statuses",
    "delivery": "Deliveries and how they end",
    "receiver": "What a receiver answers",
    "fault": "Faults of the sender",
    "policy": "Policies",
}

# Declared, and not to be reached from outside a healthy service; each with the reason.
OUT_OF_REACH: Mapping[Cell, str] = {
    ("row", "StaticCharge", "active", "payment_settled", "", "no_slot_left"): (
        "a Static Charge with no free slot is disabled in the same instant, so none is ever active and full"
    ),
}
_HEALTHY = {"500": "a defect of the service", "507": "a disk that refuses to write"}


def declared() -> list[Cell]:
    """Every cell, in the order of the specification."""
    contract = packaged_contract("charges")
    cells: dict[Cell, None] = {}
    for reading in (contract, *(packaged_contract("charges", (overlay,)) for overlay in OVERLAYS)):
        for resource, table in reading.lifecycles.items():
            for row in table.rows:
                cells["row", resource, row.source, row.trigger, row.when or "", row.to or row.refuse or ""] = None
    for operation in contract.operations.values():
        for status in operation.responses:
            cells["answer", operation.operation_id, str(status)] = None
    events = dict.fromkeys(
        event
        for one in contract.operations.values()
        for rule in one.callbacks
        for event in rule.delivery.events.values()
    )
    for event in events:
        for end in ("delivered", "exhausted", "stopped"):
            cells["delivery", event, end] = None
    for word in (200, 204, 299, 300, 302, 400, 404, 410, 429, 500, 503):
        cells["receiver", str(word)] = None
    for meaning, _ in WORDS.values():
        cells["receiver", str(meaning)] = None
    cells["receiver", "retry-after honoured"] = cells["receiver", "retry-after kept"] = None
    for kind in FAULTS:
        cells["fault", kind] = None
    for cell in (
        ("idempotency", "replayed"),
        ("keys", "replaced"),
        ("replay", "sent again"),
        ("replay", "under way"),
        ("restart", "went on"),
        *(("isolation", one) for one in ("getChargeDetails", "getStaticChargeDetails")),
        *(("lists", one) for one in ("listCharges", "listStaticCharges", "listStaticChargeCharges")),
    ):
        cells["policy", *cell] = None
    return list(cells)


def out_of_reach(cell: Cell) -> str:
    """Why a declared cell cannot be reached from outside; empty when it can be."""
    if cell[0] == "answer" and cell[2] in _HEALTHY:
        return f"only {_HEALTHY[cell[2]]} is answered so"
    return OUT_OF_REACH.get(cell, "")


@dataclass(slots=True)
class Coverage:
    """Which cell was first reached by which case, for each engine."""

    reached: dict[Cell, dict[str, str]] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    unchecked: dict[str, None] = field(default_factory=dict)

    def add(
        self, engine: str, case: str, seen: Iterable[Cell], *, done: int = 0, unchecked: Iterable[str] = ()
    ) -> None:
        """Note what one run of an engine reached."""
        self.runs[engine] = self.runs.get(engine, 0) + 1
        self.steps[engine] = self.steps.get(engine, 0) + done
        for cell in seen:
            self.reached.setdefault(cell, {}).setdefault(engine, case)
        self.unchecked.update(dict.fromkeys(unchecked))

    def merge(self, other: Coverage) -> None:
        """Take over what another process reached."""
        for cell, engines in other.reached.items():
            for engine, case in engines.items():
                self.reached.setdefault(cell, {}).setdefault(engine, case)
        for mine, theirs in ((self.runs, other.runs), (self.steps, other.steps)):
            for engine, count in theirs.items():
                mine[engine] = mine.get(engine, 0) + count
        self.unchecked.update(other.unchecked)

    @property
    def engines(self) -> list[str]:
        """The engines that took part."""
        return list(self.runs)

    def missing(self) -> list[Cell]:
        """The declared cells that nothing reached and something could have."""
        return [cell for cell in declared() if cell not in self.reached and not out_of_reach(cell)]

    def surprising(self) -> list[Cell]:
        """Cells that were thought to be out of reach, and were reached all the same."""
        return [cell for cell in declared() if cell in self.reached and out_of_reach(cell)]

    def counted(self) -> tuple[int, int]:
        """How many of the cells within reach were reached, and how many there are."""
        within = [cell for cell in declared() if not out_of_reach(cell)]
        return sum(cell in self.reached for cell in within), len(within)

    # Forms

    def document(self) -> dict[str, Any]:
        """The matrix as JSON values."""
        reached, within = self.counted()
        return {
            "reached": reached,
            "declared": within,
            "engines": {name: {"runs": self.runs[name], "steps": self.steps[name]} for name in self.engines},
            "notChecked": list(self.unchecked),
            "cells": [
                {
                    "kind": cell[0],
                    "cell": list(cell[1:]),
                    "first": dict(self.reached.get(cell, {})),
                    "outOfReach": out_of_reach(cell) or None,
                }
                for cell in declared()
            ],
        }

    def json(self) -> str:
        """The matrix as a JSON text."""
        return json.dumps(self.document(), indent=1) + "\n"

    def _lines(self) -> Iterable[tuple[str, list[tuple[str, list[str]]]]]:
        for kind, title in TITLES.items():
            rows = []
            for cell in declared():
                if cell[0] != kind:
                    continue
                engines = self.reached.get(cell, {})
                reason = out_of_reach(cell)
                texts = [
                    engines.get(name) or (f"out of reach: {reason}" if reason else "never") for name in self.engines
                ]
                rows.append((_named(cell), texts))
            yield title, rows

    def summary(self) -> str:
        """How much of each kind was reached, as a Markdown table."""
        rows = []
        for kind, title in TITLES.items():
            cells = [cell for cell in declared() if cell[0] == kind]
            hidden = {out_of_reach(cell): None for cell in cells if out_of_reach(cell)}
            within = [cell for cell in cells if not out_of_reach(cell)]
            reached = [str(sum(engine in self.reached.get(cell, {}) for cell in within)) for engine in self.engines]
            rows.append((title, str(len(within)), *reached, "; ".join(hidden)))
        return markdown(("What the documents declare", "cells", *self.engines, "out of reach, because"), rows)

    def text(self) -> str:
        """The matrix for a terminal."""
        reached, within = self.counted()
        lines = [f"{reached} of {within} cells reached"]
        lines += [f"  {name}: {self.runs[name]} runs, {self.steps[name]} steps" for name in self.engines]
        lines += [f"  not checked: {what}" for what in self.unchecked]
        for title, rows in self._lines():
            lines += ["", title]
            width = max(len(name) for name, _ in rows)
            for name, texts in rows:
                pairs = zip(self.engines, texts, strict=True)
                by = "; ".join(f"{engine}: {text.removeprefix(engine + ': ')}" for engine, text in pairs)
                lines.append(f"  {name:<{width}}  {_first(texts) if len(set(texts)) == 1 else by}")
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """The matrix as a page of its own."""
        reached, within = self.counted()
        parts = [
            "<!doctype html><meta charset=utf-8><title>Leyden coverage</title><style>body{font:15px/1.5 system-ui;"
            "margin:2rem auto;max-width:80rem;padding:0 1rem}table{border-collapse:collapse;width:100%;margin:0 0 2rem}"
            "th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}"
            "td.never{background:#fde2e1}td.out{color:#777}caption{font-weight:600;text-align:left;padding:.5rem 0}"
            "@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}td.never{background:#5b1f1d}"
            "th,td{border-color:#444}}</style>",
            f"<h1>{reached} of {within} cells reached</h1>",
        ]
        for title, rows in self._lines():
            heads = "".join(f"<th scope=col>{html.escape(name)}</th>" for name in self.engines)
            parts.append(f"<table><caption>{title}</caption><tr><th scope=col>what</th>{heads}</tr>")
            for name, texts in rows:
                cells = "".join(f"<td{_kind(text)}>{html.escape(text)}</td>" for text in texts)
                parts.append(f"<tr><th scope=row>{html.escape(name)}</th>{cells}</tr>")
            parts.append("</table>")
        return "\n".join(parts) + "\n"


def _named(cell: Cell) -> str:
    if cell[0] == "row":
        _, resource, state, trigger, when, then = cell
        return f"{resource}: {state}, {trigger}{f' ({when})' if when else ''} -> {then}"
    return " ".join(cell[1:])


def _first(texts: Sequence[str]) -> str:
    return texts[0] if texts else "never"


def _kind(text: str) -> str:
    return ' class="never"' if text == "never" else ' class="out"' if text.startswith("out of reach") else ""
