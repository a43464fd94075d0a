"""Obligations of long lists: filters that few rows of many match, in every order of the rows and with every limit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from leyden.harness.generators.generators import START_MS
from leyden.harness.model.rules import iso
from leyden.harness.obligations.obligation import KEY, Obligation, operations_of, target_of
from leyden.harness.steps import Step

_STATES = {
    "listCharges": ("completed", "error", "expired", "pending"),
    "listStaticChargeCharges": ("completed", "error", "expired", "pending"),
    "listStaticCharges": ("disabled", "active", "expired"),
}
# The rows that filters find in the setups `portions`.
_EARLY, _NEWER = 130, 260
_PORTION = 256  # the newest rows that a list may read first
_SECONDS = (0, 1, 2, 3, 4, 5, 6, 7, 8)  # since the start of the setup


def long_list_obligations() -> Iterator[Obligation]:
    """Each filter of the setup `long`, each pair and some with three, with a small and a large limit."""
    for one in operations_of():
        if one.name not in _STATES:
            continue
        times = [iso(START_MS + 500 + 1_000 * at + by) for at in _SECONDS for by in (-501, -500, -499, -1, 0, 1)]
        queries: list[dict[str, str]] = [{"internalId": "rare"}, *({"status": state} for state in _STATES[one.name])]
        queries += [{"status": state, "internalId": "rare"} for state in _STATES[one.name]]
        for name, at in product(("createdAfter", "createdBefore"), times):
            queries.append({"internalId": "rare", name: at})
        for name, at in product(("createdAfter", "createdBefore"), times[1::6]):
            queries += [{"status": _STATES[one.name][0], name: at}, {name: at}]
        for since, until in zip(times[::5], times[8::5], strict=False):
            queries.append({"createdAfter": since, "createdBefore": until, "internalId": "rare"})
        for number, query in enumerate(queries):
            rare = "internalId" in query or query.get("status") in {"completed", "error", "disabled"}
            for limit in (("1", "3") if len(query) == 1 else (("1", "5")[number % 2],)) if rare else ("400",):
                target = target_of(one, {"limit": limit, **query}).replace("{s1}", "{t}")
                case = f"{' '.join(f'{name} {text}' for name, text in query.items())} by {limit}"
                step = {"do": "pages", "target": target, "headers": [KEY]}
                yield Obligation(f"{one.name} query", "long-list", case, one.source, (step,), setup="long")  # type: ignore[arg-type]


def portion_obligations() -> Iterator[Obligation]:
    """Filters that find rows only beyond the first portion of a list, and pages that end where it ends."""
    for one in operations_of():
        if one.name not in _STATES:
            continue
        links = one.name == "listStaticCharges"
        at = iso(START_MS + 2_000 if links else START_MS + 301_000)
        newer = "active" if links else "pending"
        early: list[dict[str, str]] = [{"status": "expired"}, {"internalId": "early"}, {"createdBefore": at},
                                       {"status": "expired", "internalId": "early"}]  # fmt: skip
        sizes = (_EARLY // 10, _EARLY - 1, _EARLY, _EARLY + 1, 1_000)
        asked = [*product(early, sizes), *product(({"status": newer}, {"createdAfter": at}, {}),
                                                  (100, _PORTION - 1, _PORTION, _PORTION + 1, _NEWER))]  # fmt: skip
        for query, limit in asked:
            step: Step = {
                "do": "pages",
                "target": target_of(one, {"limit": str(limit), **query}).replace("{s1}", "{t}"),
                "headers": [KEY],
            }
            case = f"{' '.join(f'{name} {text}' for name, text in query.items())} by {limit}".strip()
            yield Obligation(f"{one.name} query", "portions", case, one.source, (step,),
                             setup="portions-links" if links else "portions")  # fmt: skip
