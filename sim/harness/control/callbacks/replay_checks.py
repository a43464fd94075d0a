"""Checks of replays by a filter: exactly the deliveries that match are sent again, each once, and all are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from leyden.harness.control.filters import Row, drawn, meaning_of
from leyden.harness.control.host import Host, list_named, violation
from leyden.harness.control.list_checks import place_of
from leyden.harness.steps import StepImpossible

DELIVERIES = "listDeliveries"
_PATH = "/sandbox/v1/deliveries/replay"
_MOST_IDS = 1_000
_BUILT_IN = ".localhost"
_UNKNOWN = "00000000-0000-4000-8000-000000000000"


def check_replay(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_replay", "body": {"status": "delivered"}, "draw"?: [["event", "first", "same"]], "count"?: ids,
    "every"?: n, "delay"?: ms, "how"?: "at"}: replay the deliveries that match; with a `count` so many ids instead, of
    each n-th delivery from the newest. Later: after the delay or, with `how`, at this instant."""
    of = list_named(DELIVERIES)
    before = host.full(of)
    if not before:
        raise StepImpossible(DELIVERIES)
    body = dict(step.get("body", {}))
    for name, place, _ in step.get("draw", ()):
        values = drawn(of, name, before[place_of(place, len(before))], host)
        body[name] = values[-1]
    meanings = [(meaning_of(of, name), value) for name, value in body.items()]
    chosen = [row for row in before if all(meaning and meaning(host, row, value) for meaning, value in meanings)]
    chosen = [row for row in reversed(chosen) if not _is_in_flight(row)]
    if "count" in step:
        # By ids in an order of one's own, with others between them that are not chosen.
        every = step.get("every", 1)
        chosen = (chosen if every == 1 else chosen[::-1][::every])[: step["count"]]
        body = {"ids": [row["id"] for row in chosen]}
        if not chosen:
            raise StepImpossible("no delivery can be replayed")
    received = _received(host)
    now = host.read("/sandbox/v1/clock")["now"]
    if "delay" in step:
        body |= {"at": _later(now, step["delay"])} if step.get("how") == "at" else {"delay": step["delay"] / 1_000}
    answer = host.ask("POST", _PATH, body)
    host.forget()
    where = f"replay of {body if 'count' not in step else len(chosen)}"
    if answer.status != 200:
        raise violation(where, "the status 200", f"{answer.status} {answer.json.get('detail')}")
    ids = [row["id"] for row in chosen]
    found = answer.json
    if (found["replayed"], found["ids"]) != (len(ids), ids[:_MOST_IDS]):
        raise violation(where, [len(ids), ids[:3]], [found["replayed"], found["ids"][:3]])
    if step.get("delay"):
        _check_scheduled(host, before, set(ids), _later(now, step["delay"]), where)
        for by in (step["delay"] - 1, 1):
            if by:
                host.ask("POST", "/sandbox/v1/clock/advance", {"by": by / 1_000})
            host.forget()
            if by == step["delay"] - 1:
                _check_scheduled(host, before, set(ids), _later(now, step["delay"]), f"{where}, a millisecond before")
    _check_sent(host, before, chosen, where, alone=not step.get("delay"))
    _check_received(host, received, chosen, where, alone=not step.get("delay"))


def check_unsent(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_unsent", "check": "unknown" or "in flight", "count": n, "every": place, "how"?: "at"}: replay n
    deliveries by ids, with one between them that is unknown or has an attempt in flight: it is refused with 409, which
    names this one, and nothing is sent or scheduled."""
    of = list_named(DELIVERIES)
    before = host.full(of, bodies="true")
    ids = [row["id"] for row in before if not _is_in_flight(row)][: step["count"]]
    wrong = [row["id"] for row in before if _is_in_flight(row)] if step["check"] == "in flight" else [_UNKNOWN]
    if not ids or not wrong:
        raise StepImpossible("no delivery can be replayed, or none is in flight")
    ids.insert(min(step["every"] - 1, len(ids)), wrong[0])
    body: dict[str, Any] = {"ids": ids}
    if "how" in step:
        now = host.read("/sandbox/v1/clock")["now"]
        body |= {"at": _later(now, 60_000)} if step["how"] == "at" else {"delay": 60}
    received = _received(host)
    answer = host.ask("POST", _PATH, body)
    where = f"replay of {step['count']} ids and one that is {step['check']}"
    problem = answer.json
    if answer.status != 409 or wrong[0] not in str([problem.get("detail"), problem.get("errors")]):
        raise violation(where, f"409, which names {wrong[0]}", f"{answer.status} {str(problem)[:300]}")
    if (after := _received(host)) != received:
        raise violation(f"{where}: posts of the inboxes", received, after)
    if (rows := host.full(of, bodies="true")) != before:
        raise violation(f"{where}: deliveries", "as before", [row for row in rows if row not in before][:2])


def _is_in_flight(row: Row) -> bool:
    return bool(row["attempts"]) and row["attempts"][-1]["answeredAt"] is None


def _later(now: str, by_ms: int) -> str:
    when = datetime.fromisoformat(now) + timedelta(milliseconds=by_ms)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1_000:03d}Z"


def _check_scheduled(host: Host, before: Sequence[Row], ids: set[str], due_at: str, where: str) -> None:
    """The chosen ones are due at the instant, and have no new attempt."""
    after = {row["id"]: row for row in host.rows(DELIVERIES)}
    for row in before:
        one = after[row["id"]]
        expected = ("pending", due_at, len(row["attempts"])) if row["id"] in ids else None
        observed = (one["status"], one["dueAt"], len(one["attempts"]))
        if expected is not None and observed != expected:
            raise violation(f"{where}: {row['id']}", expected, observed)


def _check_sent(host: Host, before: Sequence[Row], chosen: Sequence[Row], where: str, *, alone: bool) -> None:
    """Each chosen one has one attempt more, and the others are as they were."""
    after = {row["id"]: row for row in host.rows(DELIVERIES)}
    ids = {row["id"] for row in chosen}
    for row in before:
        one, count = after[row["id"]], len(row["attempts"])
        if row["id"] in ids:
            expected: Any = (row["attempts"], 1, count)
            observed: Any = (one["attempts"][:count], len(one["attempts"]) - count, one["replayedFrom"])
        elif alone:
            expected, observed = row, one
        else:
            continue
        if expected != observed:
            raise violation(f"{where}: {row['id']}", expected, observed)


def _inbox_of(row: Row) -> str | None:
    name = (urlsplit(row["url"]).hostname or "").rstrip(".")
    return name.removesuffix(_BUILT_IN) if name.endswith(_BUILT_IN) else None


def _received(host: Host) -> Counter[str]:
    host.forget()
    return Counter({row["name"]: row["received"] for row in host.rows("listInboxes")})


def _check_received(host: Host, before: Counter[str], chosen: Sequence[Row], where: str, *, alone: bool) -> None:
    """Each inbox has one post more for each chosen delivery to it, and no other if nothing else was due."""
    wanted = Counter({(name, row["id"]): 1 for row in chosen if (name := _inbox_of(row)) is not None})
    names = {*before} if alone else {name for name, _ in wanted}
    sent: Counter[tuple[str, str]] = Counter()
    for name in names:
        posts = host.read(f"/sandbox/v1/inboxes/{name}?limit=1000&after={before[name]}")["posts"]
        observed = [post["headers"]["webhook-id"] for post in posts]
        sent.update((name, one) for one in observed)
        expected = [row["id"] for row in chosen if _inbox_of(row) == name]
        if (ordered := [one for one in observed if one in {*expected}]) != expected:
            raise violation(f"{where}: posts of {name}, in the order of sending", expected[:4], ordered[:4])
    if not alone:
        sent = Counter({key: count for key, count in sent.items() if key in wanted})
    if sent != wanted:
        words = f"{sum(sent.values())} posts with {len(sent)} ids; {(sent - wanted).most_common(2)} too many"
        raise violation(f"{where}: posts of the inboxes", f"{len(wanted)} posts, each with an id of its own", words)
