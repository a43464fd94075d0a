"""Obligations of replays by a filter, over more deliveries than are replayed at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from leyden.harness.control.callbacks.replay_checks import DELIVERIES
from leyden.harness.control.documents import control_document, resolved
from leyden.harness.control.filters import meaning_of
from leyden.harness.control.host import list_named
from leyden.harness.control.list_checks import EVERY, PLACES
from leyden.harness.obligations.obligation import Obligation

SETUP = "control-deliveries"
_NO_FILTERS = frozenset({"ids", "at", "delay"})
_DELAY_MS = 3_600_000
_IDS = (1, 2, 50, 51, 120, 200)


def replay_obligations() -> Iterator[Obligation]:
    """Each member of the filter alone and with another one, no filter, lists of ids, at once and after a delay."""
    source = "sandbox.openapi.yaml#/components/schemas/DeliveryReplays"
    schema = resolved(control_document(), {"$ref": "#/components/schemas/DeliveryReplays"})
    of = list_named(DELIVERIES)

    def asked(case: str, **step: Any) -> Obligation:
        whole: Any = {"do": "control_replay", **step}
        return Obligation("replayDeliveries", "replay-filter", case, source, (whole,), setup=SETUP)

    values: dict[str, list[Mapping[str, Any]]] = {}
    for name, member in schema["properties"].items():
        if name in _NO_FILTERS:
            continue
        if name not in of.filters or meaning_of(of, name) is None:
            yield Obligation("replayDeliveries", "replay-filter", name, source, ())
        elif "enum" in member:
            values[name] = [{"body": {name: value}} for value in member["enum"]]
        else:
            values[name] = [{"draw": [[name, place, "same"]]} for place in PLACES if place != EVERY]
    yield asked("all", body={})
    yield asked("all, later", body={}, delay=_DELAY_MS)
    for steps in values.values():
        for step in steps:
            yield asked(_case(step), **step)
            yield asked(f"{_case(step)}, later", **step, delay=_DELAY_MS)
            yield asked(f"{_case(step)}, at an instant", **step, how="at", delay=_DELAY_MS)
    for first, second in combinations(values, 2):
        for one in values[first]:
            for other in values[second]:
                draw = [*one.get("draw", ()), *other.get("draw", ())]
                step = {"body": {**one.get("body", {}), **other.get("body", {})}, **({"draw": draw} if draw else {})}
                yield asked(_case(step), **step)
    for number, count in enumerate(_IDS):
        yield asked(f"{count} ids", body={}, count=count)
        for every, how, delay in ((2, "at", _DELAY_MS + number), (1, "at", 1), (3, "delay", 61_000), (2, "at", 0)):
            case = f"{count} ids of every {every}, {how} {delay} ms"
            yield asked(case, body={}, count=count, every=every, how=how, delay=delay)
    for how, delay in (("at", 0), ("at", 1), ("delay", 0), ("at", 86_400_000)):
        yield asked(f"all, {how} {delay} ms", body={}, how=how, delay=delay)


def _case(step: Mapping[str, Any]) -> str:
    texts = [f"{name} {value}" for name, value in step.get("body", {}).items()]
    return ", ".join([*texts, *(f"{name} of the {place} row" for name, place, _ in step.get("draw", ()))])
